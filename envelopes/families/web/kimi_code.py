"""Kimi Code's FetchURL and WebSearch, which return texts."""

from __future__ import annotations

from envelopes.alignment.kimi_code_receipts import OUTPUT, read_success, tool_mapping
from envelopes.alignment.kimi_receipts import ToolReturn
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.families.base import count_noun
from envelopes.families.web.kimi_cli import FOUND
from envelopes.families.web.results import Link, RecordedPage, RecordedSearch


def _read_page(evidence: Evidence, answer: ToolReturn) -> Reading:
    url = RecordedObject(evidence.args).text("url")
    page = RecordedPage(url=url, text=answer.output)
    noun = "character" if len(answer.output) == 1 else "characters"
    summary = f"read {len(answer.output):,} {noun} of {url or 'a page'}"
    return read_success(evidence, answer, page, summary, links={OUTPUT: "/result/text"})


def _read_search(evidence: Evidence, answer: ToolReturn) -> Reading:
    links = tuple(Link(title=result["title"], url=result["url"]) for result in FOUND.finditer(answer.output))
    query = RecordedObject(evidence.args).text("query")
    found = RecordedSearch(query=query, results=links, text=answer.output)
    summary = count_noun(len(links), "result") + (f" for '{query}'" if query else "")
    return read_success(evidence, answer, found, summary, links={OUTPUT: "/result/text"})


MAPPINGS = (tool_mapping(("FetchURL",), _read_page), tool_mapping(("WebSearch",), _read_search))

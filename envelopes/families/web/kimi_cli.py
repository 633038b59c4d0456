"""Kimi CLI's FetchURL and SearchWeb, which return texts."""

from __future__ import annotations

import re

from envelopes.alignment.kimi_receipts import AGENT, OUTPUT, align_return, read_failed, read_output, read_return
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.families.base import count_noun
from envelopes.families.web.results import Link, RecordedPage, RecordedSearch

FOUND = re.compile(r"^Title: (?P<title>[^\n]*)\nDate: [^\n]*\nURL: (?P<url>[^\n]*)$", re.MULTILINE)


def _read_page(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    url = RecordedObject(evidence.args).text("url")
    page = RecordedPage(url=url, text=returned.output)
    noun = "character" if len(returned.output) == 1 else "characters"
    summary = f"read {len(returned.output):,} {noun} of {url or 'a page'}"
    return read_output(evidence, returned, page, summary, links={OUTPUT: "/result/text"})


def _read_search(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    links = tuple(Link(title=result["title"], url=result["url"]) for result in FOUND.finditer(returned.output))
    query = RecordedObject(evidence.args).text("query")
    found = RecordedSearch(query=query, results=links, text=returned.output)
    summary = count_noun(len(links), "result") + (f" for '{query}'" if query else "")
    return read_output(evidence, returned, found, summary, links={OUTPUT: "/result/text"})


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("FetchURL",), version=2, read=_read_page, align=align_return),
    ToolMapping(agent=AGENT, tools=("SearchWeb",), version=1, read=_read_search, align=align_return),
)

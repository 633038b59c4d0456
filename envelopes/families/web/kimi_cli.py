"""Kimi CLI's FetchURL and SearchWeb, which return texts."""

from __future__ import annotations

import re

from envelopes.alignment.kimi_receipts import AGENT, OUTPUT, align_return, read_failed, read_output, read_return
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.families.base import count_noun
from envelopes.families.web.results import Link, RecordedPage, RecordedSearch, read_outcome

FOUND = re.compile(r"^Title: (?P<title>[^\n]*)\nDate: [^\n]*\nURL: (?P<url>[^\n]*)$", re.MULTILINE)


def _read_page(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    page = RecordedPage(url=RecordedObject(evidence.args).text("url"), text=returned.output)
    return read_output(evidence, returned, page, read_outcome(page), links={OUTPUT: "/result/text"})


def _read_search(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    found, summary = read_found(evidence, returned.output)
    return read_output(evidence, returned, found, summary, links={OUTPUT: "/result/text"})


def read_found(evidence: Evidence, text: str) -> tuple[RecordedSearch, str]:
    """The links that a text lists, and a sentence about them."""
    links = tuple(Link(title=result["title"], url=result["url"]) for result in FOUND.finditer(text))
    query = RecordedObject(evidence.args).text("query")
    summary = count_noun(len(links), "result") + (f" for '{query}'" if query else "")
    return RecordedSearch(query=query, results=links, text=text), summary


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("FetchURL",), version=2, read=_read_page, align=align_return),
    ToolMapping(agent=AGENT, tools=("SearchWeb",), version=1, read=_read_search, align=align_return),
)

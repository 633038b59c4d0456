"""Gemini CLI's google_web_search and web_fetch, of which only the receipt is recorded.

Web search results for "Q": / an answer that a model wrote / Sources: / [1] a title (an address)
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.spans import Span, match_at
from envelopes.families.web.results import Link, RecordedPage, RecordedSearch

AGENT = "gemini-cli"
FOUND = 'Web search results for "'
NOTHING = "No search results or information found for query: "
SOURCES = "\n\nSources:\n"
SOURCE = re.compile(r"^\[\d{1,4}\] (?P<title>.*) \((?P<url>[^()\s]*)\)$", re.MULTILINE)


def _read_search(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    receipt, query = evidence.receipt_text or "", RecordedObject(evidence.args).text("query") or ""
    head = f'{FOUND}{query}":\n\n'
    if evidence.result is not None or find_output_preview(receipt) or not receipt.startswith((head, NOTHING)):
        return read_untyped(evidence)
    answer, mark, sources = receipt.removeprefix(head).rpartition(SOURCES)
    links = tuple(Link(source["title"], source["url"]) for source in SOURCE.finditer(sources)) if mark else ()
    text = "" if receipt.startswith(NOTHING) else answer if mark else sources
    result = RecordedSearch(query=query, results=links, text=text)
    summary = f"{len(links) or 'No'} web {'source' if len(links) == 1 else 'sources'} for {query!r}"
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt")


def _align_search(evidence: Evidence, text: str) -> list[Span]:
    """Links the query that the first line repeats."""
    query = RecordedObject(evidence.args).text("query") or ""
    span = match_at(text, len(FOUND), query, "/query") if text.startswith(FOUND) else None
    if span is None:
        return align_failure(evidence, text)
    return [Span(span.start, span.end, "/query", 0, len(query), "args")]


def _read_page(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    receipt = evidence.receipt_text
    if receipt is None or evidence.result is not None or find_output_preview(receipt):
        return read_untyped(evidence)
    result = RecordedPage(url=RecordedObject(evidence.args).text("url"), text=receipt)
    summary = f"Fetched {result.url or 'a page'}"
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt")


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("google_web_search",), version=1, read=_read_search, align=_align_search),
    ToolMapping(agent=AGENT, tools=("web_fetch",), version=1, read=_read_page, align=align_failure),
)

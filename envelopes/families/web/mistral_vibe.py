"""Mistral Vibe's web_fetch: `url: … / content: … / content_type: … / was_truncated: False`; and web_search, a text."""

from __future__ import annotations

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.vibe_receipts import read_parsed, take_apart, vibe_mapping
from envelopes.families.base import count_noun
from envelopes.families.web.results import RecordedPage, RecordedSearch, read_outcome


def _read_page(evidence: Evidence, receipt: str) -> Reading | None:
    fields = take_apart(receipt, "url", "content", "content_type", "was_truncated?")
    if fields is None:
        return None
    page = RecordedPage(url=fields["url"], text=fields["content"])
    line = fields["content"].count("\n") + 1
    cut = SourceCut(pointer="", unit="output", start=line, end=line, lines=1)
    is_cut = fields.get("was_truncated") == "True"
    return read_parsed(evidence, page, read_outcome(page), (cut,) if is_cut else ())


def _read_search(evidence: Evidence, receipt: str) -> Reading:
    query = RecordedObject(evidence.args).text("query")
    found = RecordedSearch(query=query, results=(), text=receipt)
    return read_parsed(evidence, found, f"{count_noun(receipt.count(chr(10)) + 1, 'line')} found for '{query}'")


MAPPINGS = (
    vibe_mapping(("web_fetch", "webfetch"), _read_page),
    vibe_mapping(("web_search", "websearch"), _read_search),
)

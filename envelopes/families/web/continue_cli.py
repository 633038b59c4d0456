"""The Continue CLI's Fetch, whose receipt is the Markdown that it made of a page."""

from __future__ import annotations

from envelopes.alignment.continue_receipts import continue_mapping, find_end_cut, read_parsed
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.families.web.results import RecordedPage, read_outcome


def _read_page(evidence: Evidence, receipt: str) -> Reading:
    page = RecordedPage(url=RecordedObject(evidence.args).text("url"), text=receipt)
    return read_parsed(evidence, page, read_outcome(page), *find_end_cut(receipt))


MAPPINGS = (continue_mapping("Fetch", _read_page),)

"""Kimi Code's FetchURL and WebSearch, which return texts."""

from __future__ import annotations

from envelopes.alignment.kimi_code_receipts import OUTPUT, read_success, tool_mapping
from envelopes.alignment.kimi_receipts import ToolReturn
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.families.web.kimi_cli import read_found
from envelopes.families.web.results import RecordedPage, read_outcome


def _read_page(evidence: Evidence, answer: ToolReturn) -> Reading:
    page = RecordedPage(url=RecordedObject(evidence.args).text("url"), text=answer.output)
    return read_success(evidence, answer, page, read_outcome(page), links={OUTPUT: "/result/text"})


def _read_search(evidence: Evidence, answer: ToolReturn) -> Reading:
    found, summary = read_found(evidence, answer.output)
    return read_success(evidence, answer, found, summary, links={OUTPUT: "/result/text"})


MAPPINGS = (tool_mapping(("FetchURL",), _read_page), tool_mapping(("WebSearch",), _read_search))

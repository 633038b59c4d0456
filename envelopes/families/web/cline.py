"""Cline's fetch_web_content, `[{query: address, result, error?, success}]`, and web_fetch and web_search of tasks."""

from __future__ import annotations

from envelopes.alignment.cline_receipts import (
    AGENT,
    align_sent,
    pointer_of,
    read_answer,
    read_entries,
    read_failed_entries,
)
from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.families.web.results import RecordedPage, RecordedSearch


def _read_pages(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence) or read_failed_entries(evidence):
        return failure
    entries = read_entries(evidence)
    if not entries:
        return read_untyped(evidence)
    addresses = [entry.text("query") or "" for entry in entries]
    texts = [entry.text("result") or entry.text("error") or "" for entry in entries]
    result = RecordedPage(url=addresses[0] if len(entries) == 1 else None, text="\n\n".join(texts))
    pointers = [pointer_of(evidence, index, "result") for index in range(len(entries))]
    return reading(
        evidence,
        result,
        f"Fetched {', '.join(addresses)}",
        links=dict.fromkeys(pointers, "/result/text"),
        outputs=tuple(OutputField(pointer) for pointer in pointers),
    )


def _read_page(evidence: Evidence) -> Reading:
    answer = read_answer(evidence)
    if failure := read_failure(answer):
        return failure
    args, text = RecordedObject(evidence.args), answer.receipt_text
    if text is None:
        return read_untyped(answer)
    if query := args.text("query"):
        found = RecordedSearch(query=query, text=text)
        return reading(evidence, found, f"a search for {query!r}", links={}, fidelity="parsed_from_receipt")
    page = RecordedPage(url=args.text("url"), text=text)
    return reading(evidence, page, f"Fetched {page.url or 'a page'}", links={}, fidelity="parsed_from_receipt")


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("fetch_web_content",), version=1, read=_read_pages, align=align_sent),
    ToolMapping(agent=AGENT, tools=("web_fetch", "web_search"), version=1, read=_read_page, align=align_sent),
)

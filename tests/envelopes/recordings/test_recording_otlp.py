"""Receipts in traces: exact where their text was recorded, absent where no content was captured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings.base import ReceiptRecord
from tests.envelopes.recordings.samples import Sample, read_bytes
from tests.envelopes.session_lines import only


def trace(attributes: dict[str, str], *events: dict[str, Any]) -> Sample:
    """A request with one span of a model."""
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": "chat",
        "startTimeUnixNano": "1767261600000000000",
        "endTimeUnixNano": "1767261601000000000",
        "attributes": [{"key": name, "value": {"stringValue": text}} for name, text in attributes.items()],
        "events": list(events),
    }
    request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    return read_bytes(json.dumps(request).encode() + b"\n", "traces.jsonl")


def receipts(sample: Sample) -> list[tuple[Any, str]]:
    return [(json.loads(record.content), record.fidelity) for record in only(ReceiptRecord, sample.records)]


PARTS = [{"type": "text", "text": "2 hits"}]


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("2 hits", [("2 hits", "exact")]),
        (PARTS, [(PARTS, "exact")]),
        ({"hits": 2}, [('{"hits":2}', "reconstructed")]),
        (2, [("2", "reconstructed")]),
        (None, []),
    ],
)
def test_a_receipt_is_exact_only_where_its_text_was_recorded(response: object, expected: list[Any]) -> None:
    """A value was sent in a spelling that is not recorded; without a content nothing was captured."""
    part = {"type": "tool_call_response", "id": "c1", "response": response}
    messages = json.dumps([{"role": "tool", "parts": [part]}])
    assert receipts(trace({"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages})) == expected


def test_an_answer_without_its_content_is_no_receipt() -> None:
    dotted = {"llm.input_messages.0.message.role": "tool", "llm.input_messages.0.message.tool_call_id": "c1"}
    event = {"name": "gen_ai.tool.message", "attributes": [{"key": "id", "value": {"stringValue": "c1"}}]}
    assert receipts(trace({"openinference.span.kind": "LLM", **dotted}, event)) == []

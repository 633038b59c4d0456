"""Coverage: which fields of an envelope reach a receipt."""

from __future__ import annotations

from typing import Any

from envelopes.alignment.coverage import dropped_fields, generalize_pointers, scalar_fields
from envelopes.schema.receipt import Segment, SegmentSource, text_receipt
from envelopes.schema.result import ArtifactRef, CanonicalResult, ToolError


def envelope(result: Any, **fields: Any) -> CanonicalResult:
    return CanonicalResult(tool_name="Grep", status="success", summary_text="found", result=result, **fields)


def test_what_says_nothing_is_no_field() -> None:
    fields = scalar_fields(
        envelope({"a": 1, "b": None, "c": "", "d": False, "e": True, "f": [{"g": "x"}]}, artifacts=(ArtifactRef("p"),))
    )
    assert fields == {"/result/a": "1", "/result/e": "true", "/result/f/0/g": "x", "/artifacts/0/path": "p"}


def test_of_a_failed_call_the_error_is_what_counts() -> None:
    error = ToolError(kind="timeout", message="too slow", retryable=True)
    failed = CanonicalResult(tool_name="Bash", status="error", summary_text="failed", error=error)
    assert set(scalar_fields(failed)) >= {"/error/kind", "/error/message"}


def test_a_field_is_retained_when_it_is_traced_or_occurs_as_a_word() -> None:
    canonical = envelope({"path": "/src/app.py", "count": 1234, "mode": "regex", "exit": 7})
    receipt = text_receipt(
        (
            Segment("/src/app.py", "value", SegmentSource("canonical", "/result/path", 0, 11)),
            Segment(": 1234 regexes, 7", "label"),
        )
    )
    assert dropped_fields(scalar_fields(canonical), receipt) == ("/result/mode", "/result/exit")


def test_a_recorded_source_counts_where_it_leads_to_the_envelope() -> None:
    canonical = envelope({"path": "ab", "mode": "cd"})
    receipt = text_receipt((Segment("ab", "value", SegmentSource("complete", "/filePath", 0, 2)),))
    assert dropped_fields(scalar_fields(canonical), receipt, lambda source: "/result/path") == ("/result/mode",)
    assert len(dropped_fields(scalar_fields(canonical), receipt)) == 2


def test_rows_of_a_list_are_one_name() -> None:
    assert generalize_pointers(["/result/m/0/line", "/result/m/12/line", "/result/m2/x"]) == (
        "/result/m/*/line",
        "/result/m2/x",
    )


def test_nothing_is_dropped_where_every_field_is_traced() -> None:
    receipt = text_receipt((Segment("ab", "value", SegmentSource("canonical", "/result/path", 0, 2)),))
    assert dropped_fields({"/result/path": "never looked for"}, receipt) == ()

"""JSON in a receipt against the value that it was written from."""

from __future__ import annotations

import pytest

from envelopes.alignment.json_spans import MATCHED_CHARACTERS, match_json, match_json_at
from envelopes.schema.result import JsonValue


@pytest.mark.parametrize(
    ("text", "value", "linked"),
    [
        ('{"a": [1, true, null]}', {"a": [1, True, None]}, ["1", "true", "null"]),
        ("1", 1.0, ["1"]),
        ("1e3", 1000, ["1e3"]),
        ("2", 1, []),
        ("one", 1, []),
        ('"a\\"b"', 'a"b', ["a", "b"]),
        ('"a', "a", []),
        ('"a"', "b", []),
        ("a", "a", []),
        ("[1 2]", [1, 2], []),
        ("[1] tail", [1], []),
    ],
)
def test_json_is_linked_value_by_value_or_not_at_all(text: str, value: JsonValue, linked: list[str]) -> None:
    assert [text[span.start : span.end] for span in match_json(text, value, "")] == linked


def test_beyond_the_horizon_what_was_matched_so_far_stays_linked() -> None:
    row = "x" * 1_000
    text = "[" + ", ".join([f'"{row}"'] * 100) + "]"
    spans, end = match_json_at(text, 0, [row] * 100, "/rows")
    assert end == len(text)
    assert MATCHED_CHARACTERS // 1_004 <= len(spans) <= MATCHED_CHARACTERS // 1_004 + 1
    assert {text[span.start : span.end] for span in spans} == {row}

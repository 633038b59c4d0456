from __future__ import annotations

import pytest

from envelopes.alignment.json_spans import match_json
from envelopes.alignment.spans import Span, match_excerpt
from envelopes.schema.result import JsonValue
from envelopes.text.outline import outline_text


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("whole\n", "\nwhole\n\n", [(0, 5, 1, 6)]),
        ("head\n\n... [3 lines truncated] ...\n\ntail", "head\na\nb\nc\ntail\n", [(0, 4, 0, 4), (35, 39, 11, 15)]),
        ("head\n\n... [3 lines truncated] ...", "head\na\nb\nc\n", [(0, 4, 0, 4)]),
        ("head\n\n... [3 lines truncated] ...\n\nother", "head\na\nb\nc\ntail\n", []),
        ("part", "part of it", []),
        ("", "value", []),
        ("text", "", []),
        ("both\n\n... [1 line truncated] ...\n\nboth", "both", []),
    ],
)
def test_an_excerpt_is_linked_only_where_it_reaches_an_edge(
    text: str, value: str, expected: list[tuple[int, int, int, int]]
) -> None:
    spans = match_excerpt(text, value, "/x")

    assert spans == [Span(start, end, "/x", first, last) for start, end, first, last in expected]


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ('{"a":"x"}', {"a": "x"}, ["x"]),
        ('{ "a" : "x" }\n', {"a": "x"}, ["x"]),
        (r'"a\nb"', "a\nb", ["a", "b"]),
        (r'"\ud83d\ude00!"', "😀!", ["!"]),
        ("[1,2.0,1e3]", [1, 2, 1000], ["1", "2.0", "1e3"]),
        ("[1,2]", [1, 3], []),
        ('{"b":1,"a":2}', {"a": 2, "b": 1}, []),
        ("[true]", [1], []),
        ('{"a":"x"} and more', {"a": "x"}, []),
        ('"unclosed', "unclosed", []),
    ],
)
def test_json_is_linked_when_it_is_exactly_the_value(text: str, value: JsonValue, expected: list[str]) -> None:
    assert [text[span.start : span.end] for span in match_json(text, value, "")] == expected


def test_an_outline_indents_what_is_nested_and_escapes_nothing() -> None:
    assert outline_text({"a": {"b": ["x", {}]}, "c": "one\n\ttwo", "d": True}) == (
        "a:\n  b:\n    - x\n    - {}\nc:\n  one\n  \ttwo\nd: true"
    )

"""The members of a JSON value, listed without parsing what is in them."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.storage.json_members import SKIPPED, JsonMembers, MemberCursor, NotJson, list_members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=30,
)


def listed(raw: bytes, offset: int = 0, **how: Any) -> JsonMembers:
    return list_members(io.BytesIO(raw), offset, **how)


def read_again(raw: bytes, piece: int, offset: int = 0) -> Any:
    """The value put together from the positions of its members alone."""
    value = listed(raw, offset, piece=piece)
    if value.kind in ("string", "word"):
        return json.loads(raw[value.start : value.end])
    pairs = [
        (json.loads(member.name) if member.name else None, read_again(raw, piece, member.start))
        for member in value.members
    ]
    return dict(pairs) if value.kind == "object" else [child for _, child in pairs]


@given(value=VALUES, indent=st.sampled_from([None, 1]), ascii_only=st.booleans(), piece=st.integers(1, 40))
def test_the_places_of_the_members_hold_the_value(value: Any, indent: int | None, ascii_only: bool, piece: int) -> None:  # noqa: FBT001
    raw = b" \n" + json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert read_again(raw, piece + 1) == value


@given(value=st.lists(VALUES, min_size=1, max_size=8), most=st.integers(1, 3), budget=st.integers(1, 12))
def test_a_list_that_stops_anywhere_goes_on_with_the_next_member(value: list[Any], most: int, budget: int) -> None:
    raw = json.dumps(value).encode()
    starts, cursor, answers = [], None, 0
    while True:
        answer = listed(raw, begin=cursor, most=most, within=budget, piece=3)
        starts += [member.start for member in answer.members]
        answers += 1
        assert answer.fault == -1
        assert answers < 2_000
        if answer.onward is None:
            break
        cursor = answer.onward
    assert answer.end == len(raw)
    assert starts == [member.start for member in listed(raw).members]


@pytest.mark.parametrize("raw", [b"", b"   ", b"]", b",", b":1"])
def test_what_begins_no_value_is_refused(raw: bytes) -> None:
    with pytest.raises(NotJson):
        listed(raw)


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b'{"a": 1, b: 2}', 9),
        (b'{"a" 1}', 5),
        (b"[1 2]", 3),
        (b"[1, 2", 5),
        (b'{"a": [1, 2', 11),
        (b'["never closed', 14),
        (b"[1,,2]", 3),
        (b"{1: 2}", 1),
    ],
)
def test_text_that_stops_being_json_is_named_by_its_byte(raw: bytes, fault: int) -> None:
    assert listed(raw).fault == fault


def test_a_hundred_megabytes_are_passed_over_piece_by_piece() -> None:
    row = b'{"name": "a \\"quoted\\" [name]", "values": [1, 2, {"x": null}]}'
    raw = b'{"rows": [' + b",".join([row] * 300_000) + b'], "after": true}'
    started = time.process_time()
    cursor: MemberCursor | None = None
    names: list[bytes] = []
    answers = 0
    while True:
        answer = listed(raw, begin=cursor)
        names += [member.name for member in answer.members]
        answers += 1
        if answer.onward is None:
            break
        cursor = answer.onward
    assert names == [b'"rows"', b'"after"']
    assert answer.end == len(raw)
    assert answers == len(raw) // SKIPPED + 1
    assert time.process_time() - started < 20


@pytest.mark.parametrize("long", ["x" * 200, [7] * 100, {"a": "b" * 200}], ids=["text", "list", "object"])
def test_a_long_member_that_is_left_in_its_middle_is_passed_to_its_end(long: object) -> None:
    raw = json.dumps([long, 1, 2]).encode()
    answer = listed(raw, most=2, within=20, piece=8)
    spans = [(member.start, member.end) for member in answer.members]
    while answer.onward is not None:
        answer = listed(raw, begin=answer.onward, most=1, within=20, piece=8)
        spans += [(member.start, member.end) for member in answer.members]
    assert spans == [(1, -1), (len(raw) - 5, len(raw) - 4), (len(raw) - 2, len(raw) - 1)]


@pytest.mark.parametrize(("raw", "kind", "end"), [(b' "a b" ', "string", 6), (b"\n-1.5\n", "word", 5)])
def test_a_value_without_members_has_its_place(raw: bytes, kind: str, end: int) -> None:
    value = listed(raw)
    assert (value.kind, value.start, value.end, value.members) == (kind, 1, end, ())

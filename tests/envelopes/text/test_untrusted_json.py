"""Foreign JSON is parsed without loss, or refused with a reason."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from envelopes.schema.result import JsonValue
from envelopes.text.untrusted_json import (
    DEPTH,
    Untrusted,
    array_slices,
    check_json,
    is_portable,
    join_object,
    object_slices,
    parse_beginning,
    parse_json,
    read_object,
    repeated_members,
    split_objects,
    strict_json,
    visible,
)


def refusal(raw: bytes) -> str:
    with pytest.raises(Untrusted) as caught:
        parse_json(raw)
    return caught.value.reason


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'"a\\u0000b"', "a\x00b"),
        (b'"\\ud800"', "\ud800"),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b"9007199254740993", 9007199254740993),
        (b" [1.0] \n", [1.0]),
        (b"-0.0", -0.0),
    ],
)
def test_what_json_writers_emit_is_read(raw: bytes, value: Any) -> None:
    assert parse_json(raw) == value


def test_nan_and_infinity_are_read() -> None:
    first, second = parse_json(b"[NaN,-Infinity]")  # type: ignore[misc]
    assert math.isnan(first)
    assert second == -math.inf


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'"a\xff"', "not UTF-8 at byte 2: ff"),
        (b'"\xc3', "not UTF-8 at byte 1: c3"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8 at byte 0: ff"),
        (b"\xef\xbb\xbf{}", "not JSON: Unexpected UTF-8 BOM"),
        (b"", "not JSON: Expecting value at character 0"),
        (b"01", "not JSON: Extra data"),
        (b"{} {}", "not JSON: Extra data"),
        (b'"a\x00b"', "not JSON: Invalid control character"),
        (b"[1,]", "not JSON"),
        (b"1" * 4301, "a number of more than 4,300 digits"),
        (b"[" * (DEPTH + 1) + b"]" * (DEPTH + 1), "nested deeper than 200"),
        (b"[" * 100_000, "nested deeper than 200"),
        (b"[NaN," + b"[" * 100_000, "nested deeper than 200"),
    ],
)
def test_a_refusal_says_why_and_where(raw: bytes, reason: str) -> None:
    assert reason in refusal(raw)


@pytest.mark.parametrize("raw", [b"[" * DEPTH + b"]" * DEPTH, b'{"a":' * 64 + b"1" + b"}" * 64, b"1" * 4300])
def test_what_is_just_small_enough_is_read_and_admitted(raw: bytes) -> None:
    parse_json(raw)
    check_json(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'"' + b"[{" * 300 + b'"',
        b'["' + b'\\"' * 3 + b"[" * 300 + b'"]',
        b"[" + b"[]," * 500 + b"[]]",
        b'"' + b"7" * 20_000 + b'"',
    ],
)
def test_brackets_and_digits_inside_strings_do_not_count(raw: bytes) -> None:
    check_json(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 201 + b"]" * 201,
        b'{"k":"}" , "a":' * 201 + b"1" + b"}" * 201,
        b'["\\\\",' + b"[" * 200 + b"]" * 200 + b"]",
        b'{"a":' + b" " * 4000 + b"1" * 4301 + b"," + b'"b":2}',
        b'"\xe4"',
    ],
)
def test_undecoded_bytes_that_would_end_a_worker_later_are_not_admitted(raw: bytes) -> None:
    with pytest.raises(Untrusted):
        check_json(raw)


OPENINGS = [b"[", b'{"]":', b'["}",', b'["\\\\\\"[",', b'{"a":"","b[\\\\":']


CONTAINERS = {
    "list": (b"[", b"", b"]"),
    "object beside a long string": (b'{"text":"' + b"[{" * 300 + b'",', b'"%d":', b"}"),
    "object with a repeated key": (b"{", b'"a":', b"}"),
}


@example(199, 1, [b'{"]":'], "object beside a long string")
@example(200, 1, [b'{"]":'], "object beside a long string")
@example(200, 1, [b'{"]":'], "object with a repeated key")
@given(
    st.integers(150, 260),
    st.integers(0, 4),
    st.lists(st.sampled_from(OPENINGS), min_size=1, max_size=4),
    st.sampled_from(sorted(CONTAINERS)),
)
def test_what_is_read_and_admitted_is_no_deeper_than_its_brackets_say(
    depth: int, siblings: int, openings: list[bytes], container: str
) -> None:
    opened = [openings[level % len(openings)] for level in range(depth)]
    closed = [b"}" if opening.startswith(b"{") else b"]" for opening in reversed(opened)]
    deep = b"".join(opened) + b"1" + b"".join(closed)
    begin, key, end = CONTAINERS[container]
    members = [
        (key % number if b"%" in key else key) + value for number, value in enumerate([deep] * siblings + [b"1"])
    ]
    raw = begin + b",".join(members) + end
    assert json.loads(raw)
    is_deep = siblings > 0 and depth + 1 > DEPTH
    assert [_refuses(gate, raw) for gate in (check_json, parse_json)] == [is_deep, is_deep]


def _refuses(gate: Any, raw: bytes) -> bool:
    try:
        gate(raw)
    except Untrusted:
        return True
    return False


def test_each_member_keeps_its_own_bytes() -> None:
    raw = b' {"a": 1.00, "b" :NaN,"c":"\\ud800","a":[1 , 2],"\\u00e9":null} '
    assert object_slices(raw) == {"a": b"[1 , 2]", "b": b"NaN", "c": b'"\\ud800"', "é": b"null"}
    assert array_slices(b" [ 1.0 , 1.00,-0 ,NaN, {} ]") == [b"1.0", b"1.00", b"-0", b"NaN", b"{}"]
    assert (object_slices(b"{}"), array_slices(b"[ ]")) == ({}, [])


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{",
        b'{"a"',
        b'{"a":',
        b'{"a":1',
        b'{"a":1,}',
        b'{"a":1}}',
        b'{"a":NaN} x',
        b"{a:1}",
        b'{"a":NaN,,}',
    ],
)
def test_a_value_other_than_an_object_is_refused_by_every_reader(raw: bytes) -> None:
    with pytest.raises(Untrusted):
        object_slices(raw)


@pytest.mark.parametrize("raw", [b"", b"{}", b"[", b"[1", b"[1,]", b"[1]]", b"[NaN] x", b"[NaN,,1]", b"[NaN 1]"])
def test_a_value_other_than_an_array_is_refused_by_every_reader(raw: bytes) -> None:
    with pytest.raises(Untrusted):
        array_slices(raw)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=[])), VALUES))
def test_members_put_together_again_are_the_same_object(document: dict[str, Any]) -> None:
    raw = json.dumps(document).encode()
    again = join_object(object_slices(raw))
    assert json.dumps(parse_json(again)) == json.dumps(document)
    assert json.dumps([parse_json(value) for value in object_slices(raw).values()]) == json.dumps(
        list(document.values())
    )


@pytest.mark.parametrize(
    ("raw", "strict"),
    [
        (b'{"a":NaN,"b":[-Infinity, 1.00]}', b'{"a":"NaN","b":["-Infinity", 1.00]}'),
        (rb'{"NaN":"NaN \" Infinity","a":"\\","b":Infinity}', rb'{"NaN":"NaN \" Infinity","a":"\\","b":"Infinity"}'),
        (b'{"a":1.00,"a":1e400}', b'{"a":1.00,"a":1e400}'),
    ],
)
def test_numbers_that_json_does_not_have_become_strings_and_all_else_stays(raw: bytes, strict: bytes) -> None:
    assert strict_json(raw) == strict
    json.loads(strict_json(raw), parse_constant=pytest.fail)


def test_text_with_a_lone_surrogate_becomes_one_that_can_be_encoded() -> None:
    assert visible("a\ud800ä") == "a\\ud800ä"


def test_a_text_of_nothing_but_brackets_is_a_text() -> None:
    assert parse_json(b'"' + b"[" * 300 + b'"') == "[" * 300


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"[" * 100_000, "nested deeper than 200"),
        (b"1" * 4301, "a number of more than 4,300 digits"),
        (b"nope", "not JSON: Expecting value"),
    ],
)
def test_a_member_that_cannot_be_read_is_refused_beside_what_only_json_writers_emit(value: bytes, reason: str) -> None:
    with pytest.raises(Untrusted) as caught:
        object_slices(b'{"a":NaN,"b":' + value + b"}")
    assert caught.value.reason.startswith(reason)


def test_of_a_long_list_its_first_elements_are_read_and_of_all_else_everything() -> None:
    document = {"rows": [{"n": n, "in": {"a": 1}} for n in range(90)], "after": "x", "others": list("abcdefghij") * 9}
    beginning: Any = parse_beginning(json.dumps(document).encode(), ("rows", "others"), room=200, least=5)
    assert 5 <= len(beginning["rows"]) < 20
    assert beginning["rows"] == document["rows"][: len(beginning["rows"])]
    assert beginning["others"] == document["others"][: len(beginning["others"])]
    assert beginning["after"] == "x"


@pytest.mark.parametrize(
    "rows",
    [
        ["},{"] * 90,  # what looks like the end of an element stands inside of one
        [{"in": [{"a": 1}, {"b": 2}, {"c": 3}] * 30}],
        [{"n": n} for n in range(3)],
        [[n] for n in range(90)],
        "text " * 90,
    ],
)
def test_a_list_without_a_sure_place_to_stop_is_read_whole(rows: JsonValue) -> None:
    raw = json.dumps({"rows": rows}).encode()
    assert parse_beginning(raw, ("rows",), room=60, least=80) == {"rows": rows}


@pytest.mark.parametrize(
    ("raw", "objects"),
    [
        (b'{"a":1}{"b":NaN}', [b'{"a":1}', b'{"b":NaN}']),
        (b' {"a":"}{"} {"b":1.00}\t{} ', [b'{"a":"}{"}', b'{"b":1.00}', b"{}"]),
        (b'{"a":"}{"}', [b'{"a":"}{"}']),
        (b'{"a":1}{"b":', [b'{"a":1}{"b":']),
        (b'{"a":1}{} 7', [b'{"a":1}{} 7']),
        (b"[{}{}]", [b"[{}{}]"]),
        (b'{"a":1}{}\xff', [b'{"a":1}{}\xff']),
    ],
)
def test_objects_on_one_line_are_separated_where_all_of_it_is_objects(raw: bytes, objects: list[bytes]) -> None:
    assert split_objects(raw) == objects


@pytest.mark.parametrize(
    ("raw", "hidden"),
    [
        (b'{"a":1,"b":{"a":2}}', []),
        (b'{"a": 1, "b": "a"}', []),
        (b'{ "a" : 1,\n "b": 2 }', []),
        ('{"é":1,"b":2}'.encode(), []),
        (b"{}", []),
        (b'{"a":1,"b":2,"a":3,"a":4}', [("a", b"1"), ("a", b"3")]),
        (b'{"a": "x", "\\u0061": NaN}', [("a", b'"x"')]),
        # What is left out is as long as the spaces of another style would be.
        (b'{"k":1,"k":2,"abc":3}', [("k", b"1")]),
    ],
)
def test_members_that_a_later_one_hides_are_found_in_any_spacing(raw: bytes, hidden: list[tuple[str, bytes]]) -> None:
    assert repeated_members(raw) == hidden
    assert read_object(raw) == (object_slices(raw), hidden)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": 1, "b": {"a": [1e308, "x: y"]}}',
        b'"NaN: \\u003a {\\"a\\":1,\\"a\\":2}"',
        b'[{"a:b": "\\":\\\\"}, {"a:b": 1}]',
    ],
)
def test_a_value_that_parsers_read_alike_is_portable(raw: bytes) -> None:
    assert is_portable(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": {"k": "x: y", "k": 1}}',
        b'{"a": "\\u003a", "a": "\\u003A", "b": ""}',
        b'{"a": "x", "a": "y: z", "b": "\\u003a"}',
        b"[NaN]",
        b'{"a": [1e400]}',
        b"-Infinity",
    ],
)
def test_a_value_that_parsers_read_differently_is_not_portable(raw: bytes) -> None:
    assert not is_portable(raw)

"""Searching content of any size: every hit once, wherever pieces are cut, within the time limit."""

from __future__ import annotations

import io
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envelopes.storage.search import BadQuery, TextHit, TextQuery, find_first, find_hits, find_previous

LOG = "".join(f"line {number} é {'ERROR' if number % 7_000 == 0 else 'fine'}\n" for number in range(60_000))


def spans(data: bytes, query: TextQuery, **options: object) -> list[tuple[int, int]]:
    answer = find_hits(io.BytesIO(data), query, listed=10**6, seconds=60, **options)
    assert answer.is_whole
    assert answer.count == len(answer.hits)
    return [(hit.start, hit.end) for hit in answer.hits]


@pytest.mark.parametrize(
    "query",
    [
        TextQuery.parse("ERROR"),
        TextQuery.parse("error", ignores_case=True),
        TextQuery.parse("ERR[A-Z]+$", is_regex=True),
    ],
    ids=["text", "any case", "expression"],
)
def test_every_hit_is_found_at_its_bytes(query: TextQuery) -> None:
    data = LOG.encode()
    assert spans(data, query) == [match.span() for match in re.finditer(b"ERROR", data)]


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="aab\né", max_size=300), st.sampled_from(["a", "aa", "ab", "é", "aab", "aaaa"]))
def test_where_pieces_are_cut_changes_nothing(text: str, needle: str) -> None:
    data = text.encode()
    expected = [match.span() for match in re.finditer(needle.encode(), data)]
    for piece in (1, 3, 7):
        assert spans(data, TextQuery.parse(needle), piece=piece) == expected
        assert spans(data, TextQuery.parse(re.escape(needle), is_regex=True), piece=piece) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("^b", ["b"]),
        ("a$", ["a"]),
        (r"a\s+", []),
        (r"\s*b", ["b"]),
        ("x*", []),
        (r"[^c]+", ["a", "b"]),
        ("(?s)a.b", []),
    ],
)
def test_a_match_lies_within_one_line(expression: str, expected: list[str]) -> None:
    data = b"a\nb\nc\n"
    texts = [data[start:end].decode() for start, end in spans(data, TextQuery.parse(expression, is_regex=True))]
    assert texts == expected


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "cp1251", "shift_jis"])
@pytest.mark.parametrize("is_regex", [False, True])
def test_other_encodings_are_searched_in_their_bytes(encoding: str, *, is_regex: bool) -> None:
    text = "яблоко\nдом и сад\nсад\n" * 50 if encoding != "shift_jis" else "こんにちは\n世界と世\n" * 50
    needle = "сад" if encoding != "shift_jis" else "世"
    data = text.encode(encoding)
    hits = spans(data, TextQuery.parse(needle, is_regex=is_regex, encoding=encoding))
    assert len(hits) == text.count(needle)
    assert {data[start:end].decode(encoding) for start, end in hits} == {needle}


def test_a_search_is_continued_where_it_stopped() -> None:
    data, query = LOG.encode(), TextQuery.parse("ERROR")
    stream, at, hits, rounds = io.BytesIO(data), 0, [], 0
    while at < len(data):
        answer = find_hits(stream, query, at, seconds=0)
        hits += [(hit.start, hit.end) for hit in answer.hits]
        assert answer.reached > at
        at, rounds = answer.reached, rounds + 1
    assert rounds > 1
    assert hits == spans(data, query)


def test_more_hits_than_are_listed_are_counted() -> None:
    answer = find_hits(io.BytesIO(LOG.encode()), TextQuery.parse("line"), listed=3, seconds=60)
    assert (len(answer.hits), answer.count) == (3, 60_000)


def test_the_next_and_the_previous_hit() -> None:
    data, query = LOG.encode(), TextQuery.parse("ERROR")
    places = spans(data, query)
    stream = io.BytesIO(data)
    assert find_hits(stream, query, places[2][1], most=1).hits == (TextHit(*places[3]),)
    assert find_previous(stream, query, places[2][0]) == (TextHit(*places[1]), 0)
    assert find_previous(stream, query, places[0][0]) == (None, 0)


def test_an_expression_that_would_never_end_is_stopped() -> None:
    data = b"a" * 40 + b"!\n"
    began = time.process_time()
    answer = find_hits(io.BytesIO(data), TextQuery.parse("(a|aa)+$", is_regex=True), seconds=0.3)
    assert time.process_time() - began < 3
    assert answer.is_too_slow
    assert answer.reached == 0


@pytest.mark.parametrize(
    ("text", "is_regex", "reason"),
    [
        ("", False, "nothing to look for"),
        ("x" * 1_001, False, "longer than 1,000 characters"),
        ("a\nb", False, "a line break"),
        ("(", True, "missing )"),
        ("[", True, "unterminated character set"),
        ("a{99999999999999999999}", True, "repeats too often"),
        ("((a{1000}){1000}){1,1000}", True, "repeats too often"),
    ],
)
def test_an_invalid_query_is_refused_with_its_reason(text: str, reason: str, *, is_regex: bool) -> None:
    with pytest.raises(BadQuery, match=re.escape(reason)):
        TextQuery.parse(text, is_regex=is_regex)


def test_a_line_of_many_megabytes_is_searched_to_its_end() -> None:
    data = b"x" * 5_000_000 + b"needle" + b"y" * 100
    assert spans(data, TextQuery.parse("needle")) == [(5_000_000, 5_000_006)]
    assert spans(data, TextQuery.parse("needl[e]", is_regex=True)) == [(5_000_000, 5_000_006)]


@pytest.mark.parametrize("size", [1, 3, 64, 10_000])
def test_the_first_of_some_texts(size: int) -> None:
    stream = io.BytesIO(b"x" * 700 + b"fatal, not an error")
    assert find_first(stream, [b"error", b"fatal"], 0, seconds=9, piece=size)[0] == TextHit(700, 705)
    assert find_first(stream, [b"error", b"fatal"], 701, seconds=9, piece=size)[0] == TextHit(714, 719)
    assert find_first(stream, [b"missing"], 0, seconds=9, piece=size) == (None, 719)


def test_characters_that_the_encoding_does_not_have_are_not_looked_for() -> None:
    with pytest.raises(BadQuery, match="do not exist in the encoding"):
        TextQuery.parse("😀", encoding="cp1252")


def test_half_of_two_other_characters_is_no_hit() -> None:
    data = "a\u6101\u0100".encode("utf-16-le")  # 61 00 | 01 61 | 00 01
    assert spans(data, TextQuery.parse("\u0100", encoding="utf-16-le")) == [(4, 6)]


def test_going_back_with_an_expression_that_would_never_end_is_stopped() -> None:
    query = TextQuery.parse("(a|aa)+$", is_regex=True)
    assert find_previous(io.BytesIO(b"a" * 40 + b"!\n"), query, 42, seconds=0.3) == (None, 42)


@pytest.mark.parametrize("needle", ["needle", "needl[e]"])
def test_the_previous_hit_in_characters_of_two_bytes(needle: str) -> None:
    text = "needle\n" + "a line of text\n" * 300_000
    query = TextQuery.parse(needle, is_regex="[" in needle, encoding="utf-16-le")
    stream = io.BytesIO(text.encode("utf-16-le"))
    end, hit = len(text) * 2, None
    while end > 0 and hit is None:
        hit, end = find_previous(stream, query, end, seconds=60)
    assert hit is not None
    assert (hit.start, hit.end) == (0, 12)


def test_a_search_for_some_texts_stops_at_its_time_and_says_how_far_it_came() -> None:
    hit, reached = find_first(io.BytesIO(b"x" * 5_000_000 + b"error"), [b"error"], 0, seconds=-1)
    assert hit is None
    assert 0 < reached < 5_000_000


@pytest.mark.parametrize("is_regex", [False, True])
def test_a_search_from_behind_the_end_finds_the_last_hit(*, is_regex: bool) -> None:
    """A file may have been cut after its size was asked for."""
    query = TextQuery.parse("b", is_regex=is_regex)
    assert find_previous(io.BytesIO(b"a\nb\nc\n"), query, 1_000) == (TextHit(2, 3), 0)

"""Searching content of any size: every hit once, wherever pieces are cut, within the time limit."""

from __future__ import annotations

import io
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from envelopes.storage.search import BadQuery, TextHit, TextQuery, find_hits, find_previous
from envelopes.text.deadline import Deadline

LOG = "".join(f"line {number} é {'ERROR' if number % 7_000 == 0 else 'fine'}\n" for number in range(60_000))


def spans(data: bytes, query: TextQuery, **options: object) -> list[tuple[int, int]]:
    answer = find_hits(io.BytesIO(data), query, listed=10**6, **options)
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
    query = TextQuery.parse(re.escape(needle), is_regex=True)
    for piece in (1, 3, 7):
        assert spans(data, TextQuery.parse(needle), piece=piece) == expected
    for stretch in (8, 9, 15):
        pattern = structs.replace(query.pattern, stretch=stretch)
        assert spans(data, structs.replace(query, pattern=pattern)) == expected


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
        answer = find_hits(stream, query, at, deadline=Deadline(0))
        hits += [(hit.start, hit.end) for hit in answer.hits]
        assert answer.reached > at
        at, rounds = answer.reached, rounds + 1
    assert rounds > 1
    assert hits == spans(data, query)


def test_more_hits_than_are_listed_are_counted() -> None:
    answer = find_hits(io.BytesIO(LOG.encode()), TextQuery.parse("line"), listed=3)
    assert (len(answer.hits), answer.count) == (3, 60_000)


def test_the_next_and_the_previous_hit() -> None:
    data, query = LOG.encode(), TextQuery.parse("ERROR")
    places = spans(data, query)
    stream = io.BytesIO(data)
    assert find_hits(stream, query, places[2][1], most=1).hits == (TextHit(*places[3]),)
    assert find_previous(stream, query, places[2][0]) == (TextHit(*places[1]), 0)
    assert find_previous(stream, query, places[0][0]) == (None, 0)


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        ("(a|aa)+$", b"a" * 40 + b"!\n"),
        ("(a|a)+[bc]", b"a" * 60_000 + b"\n"),
        ("(?:(?:a|b)?){900}z", b"ab" * 30_000),
        ("(a.{0,500}){2}z", b"a" * 60_000),
        ("A|é", "aé".encode() * 500_000),
    ],
)
def test_no_expression_takes_more_than_its_time_by_much(expression: str, line: bytes) -> None:
    """The second took minutes of backtracking on each line."""
    began = time.process_time()
    query = TextQuery.parse(expression, is_regex=True, ignores_case=True)
    answer = find_hits(io.BytesIO(line), query, deadline=Deadline(0.2))
    assert time.process_time() - began < 1.5
    assert answer.reached > 0


@pytest.mark.parametrize(
    ("text", "is_regex", "reason"),
    [
        ("", False, "nothing to look for"),
        ("x" * 1_001, False, "longer than 1,000 characters"),
        ("a\nb", False, "a line break"),
        ("(", True, "a ( has no )"),
        ("[", True, "a [ has no ]"),
        ("a{99999999999999999999}", True, "repeats too often"),
        ("((a{1000}){1000}){1,1000}", True, "repeats too often"),
        ("((((((((((a{9}){9}){9}){9}){9}){9}){9}){9}){9}){9})", True, "repeats too often"),
        (r"(\pL\pN){400}", True, "too large once its repetitions are written out"),
        ("a(?=b)", True, "look for the text itself"),
        ("(?<!a)b", True, "look for the text itself"),
        (r"(a)\1", True, "write the text once more"),
        ("a++", True, "put the first into a group"),
        (r"a\Z", True, r"write \z"),
        ("+1", True, r"to find the sign write \+"),
        (r"\q", True, r"there is no \q"),
        ("\ud800", True, "do not exist in the encoding"),
    ],
)
def test_an_invalid_query_is_refused_with_its_reason(text: str, reason: str, *, is_regex: bool) -> None:
    with pytest.raises(BadQuery, match=re.escape(reason)):
        TextQuery.parse(text, is_regex=is_regex)


def test_a_line_of_many_megabytes_is_searched_to_its_end() -> None:
    data = b"x" * 5_000_000 + b"needle" + b"y" * 100
    assert spans(data, TextQuery.parse("needle")) == [(5_000_000, 5_000_006)]
    assert spans(data, TextQuery.parse("needl[e]", is_regex=True)) == [(5_000_000, 5_000_006)]


def test_characters_that_the_encoding_does_not_have_are_not_looked_for() -> None:
    with pytest.raises(BadQuery, match="do not exist in the encoding"):
        TextQuery.parse("😀", encoding="cp1252")


def test_half_of_two_other_characters_is_no_hit() -> None:
    data = "a\u6101\u0100".encode("utf-16-le")  # 61 00 | 01 61 | 00 01
    assert spans(data, TextQuery.parse("\u0100", encoding="utf-16-le")) == [(4, 6)]


@pytest.mark.parametrize("expression", ["(a|aa)+$", "x"])
def test_going_back_stops_at_its_time_and_says_how_far_it_came(expression: str) -> None:
    query = TextQuery.parse(expression, is_regex=True)
    hit, reached = find_previous(io.BytesIO(b"a" * 5_000_000 + b"!\n"), query, 5_000_000, deadline=Deadline(0))
    assert hit is None
    assert 0 < reached < 5_000_000


def test_beginnings_of_lines_and_words_are_those_of_the_content() -> None:
    """A search that begins within a line took that place for its beginning."""
    data = b"ab ab\nab"
    for expression, expected in (("^ab", [(6, 8)]), (r"\bb", []), ("a$", []), ("ab$", [(3, 5), (6, 8)])):
        query = TextQuery.parse(expression, is_regex=True)
        answer = find_hits(io.BytesIO(data), query, 1)
        assert [(hit.start, hit.end) for hit in answer.hits] == expected
    assert find_hits(io.BytesIO(data), TextQuery.parse("a$", is_regex=True), 0, end=4).count == 0


@pytest.mark.parametrize(
    ("data", "expression", "expected"),
    [
        (b"a\xffb", "a.b", (0, 3)),
        ("é\ud800".encode("utf-8", "surrogatepass") + b"ab", "a(b)", (5, 7)),
        ("ß".encode() + b"\xc3" + "STRASSE ẞ".encode(), "ẞ$", (11, 14)),
        ("дом\x98".encode("cp1251", "ignore") + b"\x98x", "x", (4, 5)),
    ],
)
def test_bytes_that_are_no_character_do_not_move_a_hit(data: bytes, expression: str, expected: tuple[int, int]) -> None:
    encoding = "cp1251" if b"\x98" in data else "utf-8"
    assert spans(data, TextQuery.parse(expression, is_regex=True, encoding=encoding)) == [expected]


@settings(max_examples=100, deadline=None)
@given(
    st.text(alphabet="ab é\n€😀", max_size=60),
    st.sampled_from(["a.", "[^a]+", "é|b", "(?i)B", "^.", ".$", r"\bb", "a b?", ".*"]),
)
def test_hits_are_those_of_another_engine(text: str, expression: str) -> None:
    """Python's engine, told that a word is ASCII; it works on characters, ours on bytes."""
    expected = [
        (len(text[: match.start()].encode()), len(text[: match.end()].encode()))
        for match in re.finditer(expression.replace("[^a]", r"[^a\n]"), text, re.MULTILINE | re.ASCII)
        if match[0]
    ]
    assert spans(text.encode(), TextQuery.parse(expression, is_regex=True)) == expected


@pytest.mark.parametrize("needle", ["needle", "needl[e]"])
def test_the_previous_hit_in_characters_of_two_bytes(needle: str) -> None:
    text = "needle\n" + "a line of text\n" * 300_000
    query = TextQuery.parse(needle, is_regex="[" in needle, encoding="utf-16-le")
    stream = io.BytesIO(text.encode("utf-16-le"))
    end, hit = len(text) * 2, None
    while end > 0 and hit is None:
        hit, end = find_previous(stream, query, end)
    assert hit is not None
    assert (hit.start, hit.end) == (0, 12)


@pytest.mark.parametrize("is_regex", [False, True])
def test_a_search_from_behind_the_end_finds_the_last_hit(*, is_regex: bool) -> None:
    """A file may have been cut after its size was asked for."""
    query = TextQuery.parse("b", is_regex=is_regex)
    assert find_previous(io.BytesIO(b"a\nb\nc\n"), query, 1_000) == (TextHit(2, 3), 0)

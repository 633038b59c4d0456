"""The filters of the pages, and the escaping of foreign text."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from django.template import Context, Template

from dashboard.templatetags.markup import short_id, stamp, visible
from dashboard.text.formatting import (
    format_change,
    format_count,
    format_duration,
    format_place,
    format_places,
    format_size,
)
from dashboard.text.text_markup import choose_escape, count_marks, escape, needs_escaping, printable
from tests.dashboard.page_text import parse_page, text_of


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (None, "–"),
        (0, "0 ms"),
        (340, "340 ms"),
        (2_440, "2.4 s"),
        (192_000, "3 min 12 s"),
        (180_000, "3 min"),
        (7_500_000, "2 h 5 min"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_a_duration_is_written_in_its_two_largest_units(ms: int | None, words: str) -> None:
    assert format_duration(ms) == words


@pytest.mark.parametrize(
    ("n", "words"),
    [
        (None, "–"),
        (812, "812 B"),
        (14_200, "14.2 KB"),
        (999_949, "999.9 KB"),
        (999_950, "1.0 MB"),
        (5 * 10**12, "5000.0 GB"),
    ],
)
def test_a_size_has_the_unit_that_keeps_it_short(n: int | None, words: str) -> None:
    assert format_size(n) == words


@pytest.mark.parametrize(
    ("change", "spec", "text"),
    [
        (12_345, "+,", "+12,345"),
        (-12_345, "+,", "−12,345"),
        (0, "+,", "0"),
        (-0.001, "+.2f", "0.00"),
        (0.004, "+.0%", "0%"),
    ],
)
def test_a_difference_has_its_sign_unless_it_rounds_to_nothing(change: float, spec: str, text: str) -> None:
    assert format_change(change, spec) == text


def test_numbers_are_grouped_by_thin_spaces() -> None:
    assert format_count(1_214_553) == "1,214,553"


def test_a_short_id_is_the_end_of_a_long_one() -> None:
    assert (short_id("toolu_01AbCdEfGhIj"), short_id("call_0")) == ("CdEfGhIj", "call_0")


def test_a_stamp_carries_the_whole_moment() -> None:
    time = parse_page(stamp(datetime(2025, 3, 1, 9, 30, 5, 125_000, tzinfo=UTC))).select_one("time")
    assert (time.text, time["data-stamp"]) == ("01 Mar 2025 UTC", "")
    assert (time["datetime"], time["title"]) == ("2025-03-01T09:30:05.125000+00:00", "2025-03-01 09:30:05.125 UTC")
    seconds = stamp(datetime(2025, 3, 1, 9, 30, 5, tzinfo=UTC), seconds=True)
    assert text_of(seconds) == "01 Mar 2025 09:30:05 UTC"
    assert parse_page(seconds).select_one("time")["data-stamp"] == "seconds"


def test_nothing_but_our_own_markup_reaches_a_page_unescaped() -> None:
    # The characters that a browser gets are the point here: no parser.
    page = Template("{{ ours }} {{ theirs }} {{ mixed }}")
    escaped = escape("a < b")
    context = Context({"ours": escaped, "theirs": "<b>theirs</b>", "mixed": escaped + "<b>"})
    assert page.render(context) == "a &lt; b &lt;b&gt;theirs&lt;/b&gt; a &amp;lt; b&lt;b&gt;"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("a\x00b", "a␀b"),
        ("\x1b[31mred", "␛[31mred"),
        ("\u202egnp.exe", "⟨RLO⟩gnp.exe"),
        ("in\u200bvisible", "in⟨ZWSP⟩visible"),
        ("tag \U000e0041", "tag ⟨U+E0041⟩"),
        ("lone \ud800", "lone \\ud800"),
        ("tab\tnewline\n", "tab\tnewline\n"),
        ("family \U0001f468\u200d\U0001f469", "family \U0001f468\u200d\U0001f469"),
        ("\u2764\ufe0f\u200d\U0001f525 1\ufe0f\u20e3", "\u2764\ufe0f\u200d\U0001f525 1\ufe0f\u20e3"),
        ("ad\u200dmin \U0001f468\u200dx", "ad⟨ZWJ⟩min \U0001f468⟨ZWJ⟩x"),
        ("ad\u200cmin", "ad⟨ZWNJ⟩min"),
        ("rm\ufe0f -rf\ufe00", "rm⟨VS16⟩ -rf⟨VS1⟩"),
        ("\U000e0100", "⟨U+E0100⟩"),
        ("\u3164\uffa0\u115f\u2800", "⟨U+3164⟩⟨U+FFA0⟩⟨U+115F⟩⟨U+2800⟩"),
        ("co\u034fmbine", "co⟨CGJ⟩mbine"),
        ("\ufdd0\uffff\U0010fffe", "⟨U+FDD0⟩⟨U+FFFF⟩⟨U+10FFFE⟩"),
    ],
)
def test_what_has_no_shape_is_shown_as_a_mark(text: str, label: str) -> None:
    assert visible(text) == printable(text) == label


HOSTILE = '<script>alert("1")</script>\r\n\x00\x1b[31m\u202e\u2066\ud83d & \U000e0020 \u00a0x'


@pytest.mark.parametrize("spaces", [False, True])
def test_inert_text_has_no_element_of_its_own_and_keeps_every_character(*, spaces: bool) -> None:
    html = escape(HOSTILE, spaces=spaces)
    assert not parse_page(html).has("script")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", html)
    marked = "\r\x00\x1b\u202e\u2066\ud83d\U000e0020" + ("\u00a0" if spaces else "")
    codes = [mark["data-code"] for mark in parse_page(html).select("[data-code]")]
    assert [chr(int(code)) for code in codes] == [char for char in HOSTILE if char in marked]


@pytest.mark.parametrize(
    ("text", "marks", "is_live"),
    [
        ("plain\ttext\n", 0, False),
        ("größer → 😀", 0, False),
        ("a < b", 0, True),
        ("größer & 😀", 0, True),
        ("\x00\x07\x7f", 3, True),
        ("é\x85\u200b\ufeff→", 3, True),
        ("\ud83d\ude00 and \udc80", 3, True),
        ("\U000e0041\U000e0042", 2, True),
    ],
)
def test_marks_are_counted_in_texts_of_any_characters(text: str, marks: int, *, is_live: bool) -> None:
    assert (count_marks(text), needs_escaping(text)) == (marks, is_live)
    assert (escape(text) != text, len(parse_page(escape(text)).select(".mark"))) == (is_live, marks)


def test_white_space_can_be_seen() -> None:
    page = parse_page("<div>" + escape("a  b\t\n", spaces=True))
    assert [mark.exact for mark in page.select("i.mark-space")] == ["··", "→\t", "↵\n"]
    assert page.select_one("div").exact == "a··b→\t↵\n"


@pytest.mark.parametrize("sign", ["", '"', "<&>", "→ é", "\x1b[1m", "\u202e", "\u200d", "\ud800", "👩\u200d💻", "\t\n"])
@pytest.mark.parametrize("spaces", [False, True])
def test_pieces_of_a_text_are_escaped_as_each_would_be_alone(sign: str, *, spaces: bool) -> None:
    text = f"one {sign} two"
    escape_piece = choose_escape(text, spaces=spaces)
    for cut in range(len(text)):
        for piece in (text[:cut], text[cut:]):
            assert escape_piece(piece) == escape(piece, spaces=spaces)


def test_a_place_of_a_program_is_a_time_and_of_an_unknown_format_a_position() -> None:
    """Whatever format its run has: hooks and traces add to a run that a file began."""
    sent = 1_772_355_601_250_000
    assert format_place(sent, "claude-code") == format_place(sent, "native") == "09:00:01.250"
    assert format_places(sent, sent + 2_000_000, "otlp") == "09:00:01.250 to 09:00:03.250"
    assert format_place(12, "a format of a later release") == "position 12"
    assert format_places(3, 40, "claude-code") == "lines 3 to 40"

"""Time stamps of lines, and the first line at or after a time."""

from __future__ import annotations

import io
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import pytest

from envelopes.storage.time_search import NEAR, LineStamps, OutOfOrder, detect_stamps, find_time

BEGIN = datetime(2026, 11, 22, 23, 50, tzinfo=UTC)
FORMS = {
    "date": lambda at: f"{at:%Y-%m-%dT%H:%M:%S}.250Z INFO",
    "zone": lambda at: f"[{at + timedelta(hours=2):%Y-%m-%d %H:%M:%S},250 +0200] INFO",
    "go": lambda at: f"{at:%Y/%m/%d %H:%M:%S} main.go:12",
    "member": lambda at: f'{{"level":"info","timestamp":"{at:%Y-%m-%dT%H:%M:%S}.250Z","msg":"x"}}',
    "access log": lambda at: f'10.0.0.1 - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET / HTTP/1.1" 200',
    "syslog": lambda at: f"{at:%b} {at.day:2} {at:%H:%M:%S} host sshd[12]:",
    "epoch": lambda at: f"{at.timestamp():.3f} accepted",
    "milliseconds": lambda at: f'{{"ts": {at.timestamp() * 1000:.0f}, "msg": "x"}}',
}


@lru_cache
def log(form: str, count: int = 20_000) -> bytes:
    """Lines a second apart, over midnight; after every tenth there are lines without a stamp."""
    made = []
    for number in range(count):
        made.append(f"{FORMS[form](BEGIN + timedelta(seconds=number))} message {number}\n")
        if number % 10 == 9:
            made.append("    at one.two(Three)\n" * 8)
    return "".join(made).encode()


def line_at(content: bytes, text: str, encoding: str = "utf-8") -> str:
    stamps = detect(content, encoding)
    target = stamps.parse(text)
    assert target is not None
    match = find_time(io.BytesIO(content), len(content), stamps, target)
    if match.line is None:
        return f"all before, the last at {stamps.format(match.last)}"
    return content[match.line.offset :].decode(encoding).partition("\n")[0]


def detect(content: bytes, encoding: str = "utf-8") -> LineStamps:
    stamps = detect_stamps(content[:NEAR], encoding)
    assert stamps is not None
    return stamps


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("text", "number"),
    [("23:50", 0), ("00:00", 600), ("04:30:07", 16_807), ("2026-11-23 00:00:30", 630), ("2026-11-23", 600)],
)
def test_the_first_line_at_a_time_is_found(form: str, text: str, number: int) -> None:
    if form == "zone":  # what is typed is meant as the lines are written
        text = {"23:50": "01:50", "00:00": "02:00", "04:30:07": "06:30:07"}.get(text, text + "+00:00" * (":" in text))
        number = -1 if text == "2026-11-23" else number
    content = log(form)
    if number < 0:
        assert line_at(content, text).endswith(" message 0")  # the zone's day began before the log
    else:
        assert line_at(content, text).endswith(f" message {number}")


def test_a_time_between_two_lines_is_that_of_the_later_one() -> None:
    content = b"2026-01-01 10:00:00 a\n2026-01-01 10:00:05 b\n2026-01-01 10:00:05 c\n2026-01-01 10:00:09 d\n"
    assert line_at(content, "10:00:01").endswith("b")
    assert line_at(content, "2025-12-31").endswith("a")
    assert line_at(content, "10:00:10") == "all before, the last at 2026-01-01 10:00:09"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_characters_of_two_bytes_are_searched_as_well(encoding: str) -> None:
    content = log("date", 3_000).decode().encode(encoding)
    assert line_at(content, "00:20:00", encoding).endswith(" message 1800")


def test_lines_longer_than_any_window_are_passed_over() -> None:
    long = b"x" * 300_000
    content = b"".join(b"2026-01-01 10:%02d:00 %s\n" % (minute, long) for minute in range(30))
    assert line_at(content, "10:17").startswith("2026-01-01 10:17:00")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no stamp\n" * 50,
        b"10:30:00.5 a clock without a date\n" * 50,
        b"version 2.10.33 of 12:1\n" * 9,
        b"12345678901234 \n",
        b"\xff\xfe",
    ],
)
def test_lines_without_dated_stamps_are_not_stamped(content: bytes) -> None:
    assert detect_stamps(content, "utf-8") is None


@pytest.mark.parametrize("text", ["", "soon", "25:00", "2026-13-01", "12", "120-180", "2026-02-30"])
def test_an_invalid_time_is_none(text: str) -> None:
    assert detect(log("date", 10)).parse(text) is None


def test_stamps_that_go_back_are_refused_and_the_place_is_named() -> None:
    first, second = log("date", 9_000), log("date", 6_000)
    content = first + second
    stamps = detect(content)
    with pytest.raises(OutOfOrder) as caught:
        find_time(io.BytesIO(content), len(content), stamps, stamps.parse("00:30") or 0)
    assert caught.value.offset >= len(first)
    assert stamps.format(caught.value.after) < stamps.format(caught.value.before)


def test_threads_that_cross_by_moments_are_order_enough() -> None:
    lines = [b"2026-01-01 10:00:%02d x\n" % second for second in (1, 0, 3, 2, 9, 5)]
    assert line_at(b"".join(lines), "10:00:04").startswith("2026-01-01 10:00:09")


def test_a_place_in_much_content_costs_as_little_as_in_a_little() -> None:
    class Counted(io.BytesIO):
        taken = 0

        def read(self, size: int | None = -1, /) -> bytes:
            piece = super().read(size)
            Counted.taken += len(piece)
            return piece

    content = log("date", 60_000)
    stamps = detect(content)
    started = time.process_time()
    match = find_time(Counted(content), len(content), stamps, stamps.parse("2026-11-23 12:00") or 0)
    assert match.line
    assert Counted.taken < 8 * NEAR < len(content) // 2
    assert time.process_time() - started < 2


def test_a_day_by_the_name_of_its_month_is_of_the_year_of_the_lines() -> None:
    assert line_at(log("date"), "Nov 23 00:00:30").endswith(" message 630")


def test_a_file_that_became_shorter_meanwhile_has_no_line_behind_its_end() -> None:
    content = log("date")
    stamps = detect(content)
    match = find_time(io.BytesIO(content[:1_000]), len(content), stamps, stamps.parse("2026-11-25") or 0)
    assert match.line is None


def test_a_date_without_a_year_passes_into_the_new_one() -> None:
    begin = datetime(2026, 12, 30, 22, tzinfo=UTC)
    for step in (60, 7):
        lines = [
            f"{at:%b} {at.day:2} {at:%H:%M:%S} host sshd[12]: message {number} {'word ' * 40}\n"
            for number in range(4 * 24 * 3600 // step // 10)
            if (at := begin + timedelta(seconds=10 * step * number))
        ]
        content = "".join(lines).encode()
        line = line_at(content, "Jan 2 03:00")
        assert line.startswith("Jan  2 03:0")
        assert line_at(content, "Dec 31").startswith("Dec 31 00:0")
        assert line_at(content, "Dec 1").startswith("Dec 30 22:00:00")
        assert line_at(content, "Jan 20").startswith("all before, the last at Jan 3 ")
        match = find_time(io.BytesIO(content), len(content), detect(content), detect(content).parse("Jan 2") or 0)
        assert match.passes_year


def test_a_stamp_behind_a_long_beginning_of_its_line_is_found_where_most_have_it_there() -> None:
    content = "".join(
        f'{{"message":"{"long " * 300}{number}","time":"{BEGIN + timedelta(minutes=number):%Y-%m-%dT%H:%M:%SZ}"}}\n'
        for number in range(2_000)
    ).encode()
    assert detect(content).reach == 4_000
    assert '"time":"2026-11-23T04:30:00Z"' in line_at(content, "04:30")
    assert detect(log("date")).reach == 400

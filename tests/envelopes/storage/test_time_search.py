"""Time stamps that lines carry, and the place of a time."""

from __future__ import annotations

import io
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import pytest

from envelopes.storage.time_search import NEAR, OutOfOrder, Reading, first_at, reading_of
from envelopes.storage.turns import Stamped, Turns

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
    """A line a second, over midnight; behind every tenth line are others without a stamp."""
    made = []
    for number in range(count):
        made.append(f"{FORMS[form](BEGIN + timedelta(seconds=number))} message {number}\n")
        if number % 10 == 9:
            made.append("    at one.two(Three)\n" * 8)
    return "".join(made).encode()


def found(content: bytes, text: str, encoding: str = "utf-8") -> str:
    reading = read(content, encoding)
    wanted = reading.wanted(text)
    assert wanted is not None
    place = first_at(io.BytesIO(content), len(content), reading, wanted)
    if place.line is None:
        return f"all before, the last at {reading.said(place.last)}"
    return content[place.line.offset :].decode(encoding).partition("\n")[0]


def read(content: bytes, encoding: str = "utf-8") -> Reading:
    reading = reading_of(content[:NEAR], encoding)
    assert reading is not None
    return reading


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
        assert found(content, text).endswith(" message 0")  # the zone's day began before the log
    else:
        assert found(content, text).endswith(f" message {number}")


def test_a_time_between_two_lines_is_that_of_the_later_one() -> None:
    content = b"2026-01-01 10:00:00 a\n2026-01-01 10:00:05 b\n2026-01-01 10:00:05 c\n2026-01-01 10:00:09 d\n"
    assert found(content, "10:00:01").endswith("b")
    assert found(content, "2025-12-31").endswith("a")
    assert found(content, "10:00:10") == "all before, the last at 2026-01-01 10:00:09"


def test_a_clock_alone_is_a_stamp_too() -> None:
    content = "".join(f"{hour:02}:30:00.5 step {hour}\n" for hour in range(24)).encode()
    assert found(content, "07:00").endswith("step 7")
    assert found(content, "2026-03-03 07:00").endswith("step 7")
    assert read(content).said(3_600_500_000) == "01:00:00.5"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_characters_of_two_bytes_are_searched_as_well(encoding: str) -> None:
    content = log("date", 3_000).decode().encode(encoding)
    assert found(content, "00:20:00", encoding).endswith(" message 1800")


def test_lines_longer_than_any_window_are_passed_over() -> None:
    long = b"x" * 300_000
    content = b"".join(b"2026-01-01 10:%02d:00 %s\n" % (minute, long) for minute in range(30))
    assert found(content, "10:17").startswith("2026-01-01 10:17:00")


@pytest.mark.parametrize(
    "content", [b"", b"no stamp\n" * 50, b"version 2.10.33 of 12:1\n" * 9, b"12345678901234 \n", b"\xff\xfe"]
)
def test_lines_without_stamps_have_no_reading(content: bytes) -> None:
    assert reading_of(content, "utf-8") is None


@pytest.mark.parametrize("text", ["", "soon", "25:00", "2026-13-01", "12", "120-180", "2026-02-30"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert read(log("date", 10)).wanted(text) is None


def test_stamps_that_go_back_are_refused_and_the_place_is_named() -> None:
    first, second = log("date", 9_000), log("date", 6_000)
    content = first + second
    reading = read(content)
    with pytest.raises(OutOfOrder) as caught:
        first_at(io.BytesIO(content), len(content), reading, reading.wanted("00:30") or 0)
    assert caught.value.offset >= len(first)
    assert reading.said(caught.value.after) < reading.said(caught.value.before)


def test_threads_that_cross_by_moments_are_order_enough() -> None:
    lines = [b"2026-01-01 10:00:%02d x\n" % second for second in (1, 0, 3, 2, 9, 5)]
    assert found(b"".join(lines), "10:00:04").startswith("2026-01-01 10:00:09")


def test_a_place_in_much_content_costs_as_little_as_in_a_little() -> None:
    class Counted(io.BytesIO):
        taken = 0

        def read(self, size: int | None = -1, /) -> bytes:
            piece = super().read(size)
            Counted.taken += len(piece)
            return piece

    content = log("date", 60_000)
    reading = read(content)
    started = time.process_time()
    place = first_at(Counted(content), len(content), reading, reading.wanted("2026-11-23 12:00") or 0)
    assert place.line
    assert Counted.taken < 8 * NEAR < len(content) // 2
    assert time.process_time() - started < 2


def test_a_day_by_the_name_of_its_month_is_of_the_year_of_the_lines() -> None:
    assert found(log("date"), "Nov 23 00:00:30").endswith(" message 630")


def test_a_file_that_became_shorter_meanwhile_has_no_line_behind_its_end() -> None:
    content = log("date")
    reading = read(content)
    place = first_at(io.BytesIO(content[:1_000]), len(content), reading, reading.wanted("2026-11-25") or 0)
    assert place.line is None


def clocks(hours: float, step: int = 30, begin: datetime = BEGIN, words: int = 1) -> bytes:
    """A line every `step` seconds for so long, with the time of the day alone."""
    count = int(hours * 3600 / step)
    return b"".join(
        f"{begin + timedelta(seconds=step * number):%H:%M:%S} message {number} {'word ' * words}\n".encode()
        for number in range(count)
    )


@pytest.mark.parametrize(("hours", "words"), [(3, 1), (26, 90), (50, 1), (24 * 9.5, 30)])
def test_a_clock_that_passes_midnight_counts_the_days(hours: float, words: int) -> None:
    content = clocks(hours, words=words)
    assert found(content, "23:50").startswith("23:50:00 message 0 ")
    assert found(content, "00:00").startswith("00:00:00 message 20 ")
    assert found(content, "day 2 02:10").startswith("02:10:00 message 280 ")
    last = int(hours * 120) - 1
    at = BEGIN + timedelta(seconds=30 * last)
    day = 1 + (at.date() - BEGIN.date()).days
    assert found(content, f"day {day} {at:%H:%M:%S}").startswith(f"{at:%H:%M:%S} message {last} ")


def test_a_clock_counts_days_also_where_equal_bytes_are_whole_days() -> None:
    """Places that are looked at first would all say the same time."""
    for days in (24, 24 * 2, 24 * 3):
        content = clocks(24 * days, step=600, words=80)
        for day in (2, days // 2, days):
            assert found(content, f"day {day} 12:00").startswith("12:00:00 message "), (days, day)
            number = int(found(content, f"day {day} 12:00").split()[2])
            assert (
                BEGIN + timedelta(seconds=600 * number) == datetime(2026, 11, 21 + day, 12, tzinfo=UTC)
                if day < 9
                else 1
            )
            assert number == ((day - 1) * 24 * 60 + 12 * 60 - (23 * 60 + 50)) // 10


def test_a_fall_of_less_than_half_a_day_is_no_midnight() -> None:
    content = clocks(2, begin=datetime(2026, 1, 1, 10, tzinfo=UTC)) + clocks(
        2, begin=datetime(2026, 1, 1, 7, tzinfo=UTC)
    )
    reading = read(content)
    with pytest.raises(OutOfOrder):
        first_at(io.BytesIO(content), len(content), reading, reading.wanted("08:00") or 0)


def test_a_time_outside_a_clocks_log_is_before_or_behind_it_whichever_is_nearer() -> None:
    content = clocks(2, begin=datetime(2026, 1, 1, 22, 30, tzinfo=UTC))
    assert found(content, "21:00").startswith("22:30:00")
    assert found(content, "03:00") == "all before, the last at day 2 00:29:30"


def test_a_date_without_a_year_passes_into_the_new_one() -> None:
    begin = datetime(2026, 12, 30, 22, tzinfo=UTC)
    for step in (60, 7):
        lines = [
            f"{at:%b} {at.day:2} {at:%H:%M:%S} host sshd[12]: message {number} {'word ' * 40}\n"
            for number in range(4 * 24 * 3600 // step // 10)
            if (at := begin + timedelta(seconds=10 * step * number))
        ]
        content = "".join(lines).encode()
        line = found(content, "Jan 2 03:00")
        assert line.startswith("Jan  2 03:0")
        assert found(content, "Dec 31").startswith("Dec 31 00:0")
        assert found(content, "Dec 1").startswith("Dec 30 22:00:00")
        assert found(content, "Jan 20").startswith("all before, the last at Jan 3 ")
        place = first_at(io.BytesIO(content), len(content), read(content), read(content).wanted("Jan 2") or 0)
        assert place.is_counted


def test_days_are_counted_in_a_bounded_part_of_much_content() -> None:
    class Counted(io.BytesIO):
        taken = 0

        def read(self, size: int | None = -1, /) -> bytes:
            piece = super().read(size)
            Counted.taken += len(piece)
            return piece

    content = clocks(24 * 20, step=60, words=400)
    reading = read(content)
    place = first_at(Counted(content), len(content), reading, reading.wanted("day 15 12:00") or 0)
    assert place.line
    assert content[place.line.offset :].startswith(b"12:00:00")
    assert Counted.taken < 30 * NEAR < len(content) // 20


def test_a_stamp_behind_a_long_beginning_of_its_line_is_found_where_most_have_it_there() -> None:
    content = "".join(
        f'{{"message":"{"long " * 300}{number}","time":"{BEGIN + timedelta(minutes=number):%Y-%m-%dT%H:%M:%SZ}"}}\n'
        for number in range(2_000)
    ).encode()
    assert read(content).reach == 4_000
    assert '"time":"2026-11-23T04:30:00Z"' in found(content, "04:30")
    assert read(log("date")).reach == 400


def test_without_any_known_line_a_time_stands_for_itself() -> None:
    assert Turns((), 10).nearest(7) == 7
    assert Turns((Stamped(0, 25),), 10).nearest(7) == 27

"""Time stamps that lines carry, and the first line at or after a time, in content of any size.

    reading_of(head)                          how the first lines are stamped; None where they are not
    Reading.wanted(text)                      the time that somebody typed, for these lines
    first_at(stream, size, reading, wanted)   where the line begins

The place is found by halving the content, so the stamps have to ascend. What was read on the way, and
places spread over all of it, are held against each other: stamps that go back by more than SLACK raise
OutOfOrder, for a line that such a search comes to means nothing.

Times are microseconds since 1970. A stamp without a zone counts as UTC, one without a year as of a leap
year, one without a day as of the first day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import BinaryIO

import msgspec

from envelopes.line_index import WIDE, next_end
from envelopes.text_encoding import decode

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND
SLACK = 60 * SECOND  # lines of several threads cross by moments: that is order enough
SEARCHED = 400  # characters of a line in which its stamp has to stand
LOOKED_AT = 40  # lines of the head
NEAR = 64 * 1024  # bytes that are read line by line
PIECE = 8 * 1024
FAR = 1024 * 1024  # without a stamp in so many bytes, a stretch has none
SPREAD = 24
HEAD = 4 * SEARCHED  # bytes: no character of any encoding has more than four
LEAP = 2000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_MINUTES = r"(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)"
_REST = r":(?P<second>[0-5]\d|60)(?:[.,](?P<fraction>\d{1,9}))?"
_ZONE = r"(?: ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\w:]))?"
_CLOCK = _MINUTES + _REST
_MONTH = f"(?P<name>{'|'.join(MONTHS)})"
_EPOCH = r"(?P<epoch>[1-9]\d{9}(?:\.\d{1,9})?|[1-9]\d{12}|[1-9]\d{15})(?![\w.])"
_ISO_DAY = r"(?P<year>\d{4})[-/](?P<month>0[1-9]|1[0-2])[-/](?P<day>0[1-9]|[12]\d|3[01])"
# The first that most of the first lines have is theirs.
KINDS = {
    "date": re.compile(rf"(?<![\w.]){_ISO_DAY}[T ]{_CLOCK}{_ZONE}"),
    "access log": re.compile(rf"\[?(?P<day>\d\d)/{_MONTH}/(?P<year>\d{{4}}):{_CLOCK}{_ZONE}"),
    "syslog": re.compile(rf"(?<!\w){_MONTH} (?P<day>[ 0-3]?\d) {_CLOCK}"),
    "epoch": re.compile(rf"^[\s\[(]*{_EPOCH}|\"(?:ts|time|timestamp)\": ?{_EPOCH.replace('epoch', 'member')}"),
    "clock": re.compile(rf"^[\s\[(]*{_CLOCK}(?!\w)"),
}
_COLOUR = re.compile("\x1b\\[[0-9:;]*m")
_QUESTIONS = (
    re.compile(rf"{_ISO_DAY}(?:[T ]+{_MINUTES}(?:{_REST})?{_ZONE})?"),
    re.compile(rf"{_MONTH} +(?P<day>[0-3]?\d)(?: +{_MINUTES}(?:{_REST})?)?"),
    re.compile(rf"{_MINUTES}(?:{_REST})?"),
    re.compile(_EPOCH),
)


class OutOfOrder(Exception):
    """The stamp at byte `offset` is earlier than one before it."""

    def __init__(self, offset: int, before: int, after: int) -> None:
        super().__init__(offset)
        self.offset, self.before, self.after = offset, before, after


class Stamped(msgspec.Struct, frozen=True, order=True):
    """A line that begins at the byte `offset`."""

    offset: int
    time: int


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How lines are stamped. `zone` is that of the first stamp, None where it names none."""

    kind: str
    first: int
    zone: timedelta | None
    encoding: str

    def time_of(self, line: str) -> int | None:
        found = KINDS[self.kind].search(_beginning(line))
        return _time(found.groupdict(), None) if found else None

    def wanted(self, text: str) -> int | None:
        """A date, a date and a time, a time of the first line's day or the one after, seconds since 1970."""
        found = next((hit for question in _QUESTIONS if (hit := question.fullmatch(text.strip()))), None)
        said: dict[str, str | None] = found.groupdict() if found else {}
        if self.kind == "syslog":
            said["year"] = str(LEAP)
        elif said.get("name"):
            said["year"] = f"{EPOCH + timedelta(microseconds=self.first):%Y}"
        time = _time(said, self.zone) if found else None
        if time is None or self.kind == "clock":
            return None if time is None else time % DAY
        return time if said.get("day") or said.get("epoch") else self._next(time)

    def said(self, time: int) -> str:
        """As these lines would write it."""
        at = EPOCH + timedelta(microseconds=time) + (self.zone or timedelta())
        text = f"{at:%H:%M:%S}" + (f".{at.microsecond:06}".rstrip("0") if at.microsecond else "")
        day = {"clock": "", "syslog": f"{MONTHS[at.month - 1]} {at.day} "}.get(self.kind, f"{at:%Y-%m-%d} ")
        return day + text + (" UTC" if self.kind == "epoch" else f" {timezone(self.zone)}" if self.zone else "")

    def _next(self, clock: int) -> int:
        """That time of the day of the first line, in its zone; of the following day where it was over by then."""
        zone = (self.zone or timedelta()) // timedelta(microseconds=1)
        found = (self.first + zone) // DAY * DAY + (clock + zone) % DAY - zone
        return found if found >= self.first - self.first % SECOND else found + DAY


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """`line` is the first at or after the time; None when all are earlier."""

    line: Stamped | None
    last: int  # the latest stamp that was read


def reading_of(head: bytes, encoding: str) -> Reading | None:
    lines = [_beginning(line) for line in decode(head[:NEAR], encoding).split("\n")[:LOOKED_AT] if line.strip()]
    for kind, pattern in KINDS.items():
        found = [hit for line in lines if (hit := pattern.search(line))]
        times = [time for hit in found if (time := _time(hit.groupdict(), None)) is not None]
        if times and len(times) * 3 >= len(lines):
            return Reading(kind=kind, first=times[0], zone=_zone_of(found[0].groupdict()), encoding=encoding)
    return None


def _beginning(line: str) -> str:
    """Without a terminal's colours: a stamp is often dimmed, and a letter stands before it then."""
    return _COLOUR.sub("", line[:SEARCHED]) if "\x1b" in line else line[:SEARCHED]


def first_at(stream: BinaryIO, size: int, reading: Reading, wanted: int) -> Place:
    """Raises OutOfOrder."""
    probes = _spread(stream, size, reading)
    low, high = 0, size
    while high - low > NEAR:
        middle = (low + high) // 2
        found = _stamped_from(stream, middle, high, reading)
        probes += [found] if found else []
        low, high = (found.offset, high) if found and found.time < wanted else (low, middle)
    seen: list[Stamped] = []
    for line in _lines(stream, low, min(size, low + FAR), reading):
        seen.append(line)
        if line.time >= wanted:
            break
    _check_order(sorted({*probes, *seen}))
    last = max((one.time for one in [*probes, *seen]), default=reading.first)
    return Place(line=seen[-1] if seen and seen[-1].time >= wanted else None, last=last)


def _spread(stream: BinaryIO, size: int, reading: Reading) -> list[Stamped]:
    """Some of all lines; all of them where they are few."""
    if size <= FAR:
        return list(_lines(stream, 0, size, reading))
    places = [size * part // SPREAD for part in range(SPREAD)]
    found = [_stamped_from(stream, at, min(size, at + NEAR), reading) for at in [*places, size - NEAR]]
    return [one for one in found if one]


def _check_order(stamps: list[Stamped]) -> None:
    highest = stamps[0].time if stamps else 0
    for _, one in pairwise(stamps):
        if one.time < highest - SLACK:
            raise OutOfOrder(one.offset, highest, one.time)
        highest = max(highest, one.time)


def _stamped_from(stream: BinaryIO, start: int, end: int, reading: Reading) -> Stamped | None:
    """The first line with a stamp that begins behind `start` and before `end`."""
    return next(_lines(stream, start, min(end, start + FAR), reading, is_inside=start > 0), None)


def _lines(stream: BinaryIO, start: int, end: int, reading: Reading, *, is_inside: bool = False) -> Iterator[Stamped]:
    for offset, head in _heads(stream, start, end, reading.encoding, is_inside=is_inside):
        time = reading.time_of(decode(head, reading.encoding))
        if time is not None:
            yield Stamped(offset, time)


def _heads(stream: BinaryIO, start: int, end: int, encoding: str, *, is_inside: bool) -> Iterator[tuple[int, bytes]]:
    """Where each line begins in [start, end), and its first bytes. `is_inside`: none begins at `start`."""
    width = 2 if encoding in WIDE else 1
    at = start - start % width
    while at < end:
        stream.seek(at)
        data = stream.read(PIECE)
        if not data:
            return
        cut = 0
        while cut < len(data) and at + cut < end:
            line_end = next_end(data, cut, encoding)
            if line_end < 0 and cut > 0 and len(data) - cut < HEAD and len(data) == PIECE:
                break  # its first bytes are read again, all of them
            if not is_inside:
                yield at + cut, data[cut : cut + HEAD if line_end < 0 else min(line_end, cut + HEAD)]
            is_inside = line_end < 0
            cut = len(data) if is_inside else line_end + width
        at += cut


def _time(said: dict[str, str | None], zone: timedelta | None) -> int | None:
    """`zone` is for what names none."""
    number = said.get("epoch") or said.get("member")
    if number:
        whole, _, fraction = number.partition(".")
        return int(whole.ljust(16, "0")) + int(fraction[:6].ljust(6, "0"))
    name = said.get("name")
    month = MONTHS.index(name) + 1 if name else int(said.get("month") or 1)
    year = int(said.get("year") or (LEAP if name else EPOCH.year))
    clock = [int(said.get(part) or 0) for part in ("hour", "minute", "second")]
    micros = int((said.get("fraction") or "")[:6].ljust(6, "0"))
    try:
        at = datetime(year, month, int(said.get("day") or 1), clock[0], clock[1], min(59, clock[2]), micros, UTC)
    except ValueError:
        return None
    own = _zone_of(said)
    return (at - EPOCH - ((zone or timedelta()) if own is None else own)) // timedelta(microseconds=1)


def _zone_of(said: dict[str, str | None]) -> timedelta | None:
    zone = said.get("zone")
    if not zone:
        return None
    if zone[0] not in "+-":
        return timedelta()
    away = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    return -away if zone[0] == "-" else away

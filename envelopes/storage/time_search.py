"""Time stamps that lines carry, and the first line at or after a time, in content of any size.

    reading_of(head)                          how the first lines are stamped; None where they are not
    Reading.wanted(text)                      the time that somebody typed, for these lines
    first_at(stream, size, reading, wanted)   where the line begins

The place is found by halving the content, so the stamps have to ascend. What was read on the way, and
places spread over all of it, are held against each other: stamps that go back by more than SLACK raise
OutOfOrder, for a line that such a search comes to means nothing.

Times are microseconds since 1970. A stamp without a zone counts as UTC, one without a year as of a leap
year, one without a day as of the first day; how often years and days turned since is counted (turns.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise, product
from typing import BinaryIO

import msgspec

from envelopes.storage.encoding import decode
from envelopes.storage.line_index import WIDE, next_end
from envelopes.storage.turns import SLACK, Stamped, Turns, turns_of

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND
SEARCHED = (400, 4_000)  # characters of a line in which its stamp has to stand: in more only where few have one in less
LOOKED_AT = 40  # lines of the head
NEAR = 64 * 1024  # bytes that are read line by line
FAR = 1024 * 1024  # without a stamp in so many bytes, a stretch has none
SPREAD = 24
LEAP = 2000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PERIODS = {"clock": DAY, "syslog": 366 * DAY}  # of kinds whose stamps come again
PERIODS_BEGIN = (datetime(LEAP, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
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
_DAY_OF_LOG = re.compile(r"day ([1-9]\d{0,3})\b,? *")
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


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How lines are stamped, within their first `reach` characters.

    `zone` is that of the first stamp, None where it names none. `period` is 0 for stamps that say all of a date.
    """

    kind: str
    first: int
    zone: timedelta | None
    encoding: str
    reach: int = SEARCHED[0]

    @property
    def period(self) -> int:
        return PERIODS.get(self.kind, 0)

    def time_of(self, line: str) -> int | None:
        found = KINDS[self.kind].search(_beginning(line, self.reach))
        return _time(found.groupdict(), None) if found else None

    def wanted(self, text: str) -> int | None:
        """A date, a date and a time, a time of the first line's day or the one after, seconds since 1970.

        Of clocks alone a time of any day, unless one is named: `day 2 05:03`.
        """
        day = _DAY_OF_LOG.match(text.strip()) if self.kind == "clock" else None
        if day:
            time = self.wanted(text.strip()[day.end() :])
            return None if time is None else time + (int(day[1]) - 1) * DAY
        found = next((hit for question in _QUESTIONS if (hit := question.fullmatch(text.strip()))), None)
        said: dict[str, str | None] = found.groupdict() if found else {}
        if self.kind == "syslog":
            said["year"] = str(LEAP)
        elif said.get("name"):
            said["year"] = f"{EPOCH + timedelta(microseconds=self.first):%Y}"
        time = _time(said, self.zone) if found else None
        if time is None or self.kind == "clock":
            return None if time is None else PERIODS_BEGIN + time % DAY
        return time if said.get("day") or said.get("epoch") else self._next(time)

    def said(self, time: int) -> str:
        """As these lines would write it."""
        turn = (time - PERIODS_BEGIN) // self.period if self.period else 0
        at = EPOCH + timedelta(microseconds=time - turn * self.period) + (self.zone or timedelta())
        text = f"{at:%H:%M:%S}" + (f".{at.microsecond:06}".rstrip("0") if at.microsecond else "")
        day = {"clock": f"day {turn + 1} " if turn > 0 else "", "syslog": f"{MONTHS[at.month - 1]} {at.day} "}.get(
            self.kind, f"{at:%Y-%m-%d} "
        )
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
    wanted: int  # what was looked for: the day or the year that a clock or a date without one is taken to mean
    is_counted: bool = False  # days or years turned, and no line says so


def reading_of(head: bytes, encoding: str) -> Reading | None:
    lines = [line for line in decode(head[:NEAR], encoding).split("\n")[:LOOKED_AT] if line.strip()]
    for reach, (kind, pattern) in product(SEARCHED, KINDS.items()):
        found = [hit for line in lines if (hit := pattern.search(_beginning(line, reach)))]
        times = [time for hit in found if (time := _time(hit.groupdict(), None)) is not None]
        if times and len(times) * 3 >= len(lines):
            zone = _zone_of(found[0].groupdict())
            return Reading(kind=kind, first=times[0], zone=zone, encoding=encoding, reach=reach)
    return None


def _beginning(line: str, reach: int) -> str:
    """Without a terminal's colours: a stamp is often dimmed, and a letter stands before it then."""
    return _COLOUR.sub("", line[:reach]) if "\x1b" in line else line[:reach]


def first_at(stream: BinaryIO, size: int, reading: Reading, wanted: int) -> Place:
    """Raises OutOfOrder."""
    log = _Log(stream, size, reading)
    probes = log.spread()
    if reading.period:
        log.turns = turns_of(probes, log.first_from if size > FAR else None, reading.period)
        probes, wanted = list(log.turns.known), log.turns.nearest(wanted)
    low, high = 0, size
    while high - low > NEAR:
        middle = (low + high) // 2
        found = log.first_from(middle, high)
        probes += [found] if found else []
        low, high = (found.offset, high) if found and found.time < wanted else (low, middle)
    seen: list[Stamped] = []
    for line in log.lines(low, min(size, low + FAR)):
        seen.append(line)
        if line.time >= wanted:
            break
    _check_order(sorted({*probes, *seen}))
    last = max((one.time for one in [*probes, *seen]), default=reading.first)
    is_found = bool(seen) and seen[-1].time >= wanted
    return Place(
        line=seen[-1] if is_found else None,
        last=last,
        wanted=wanted,
        is_counted=log.turns is not None and log.turns.is_counted,
    )


class _Log:
    """Stamped lines, looked at where they are asked for."""

    def __init__(self, stream: BinaryIO, size: int, reading: Reading) -> None:
        self._stream = stream
        self._size = size
        self._reading = reading
        self.turns: Turns | None = None  # counted once some lines were looked at

    def spread(self) -> list[Stamped]:
        """Some of all lines; all of them where they are few."""
        if self._size <= FAR:
            return list(self.lines(0, self._size))
        places = [self._size * part // SPREAD for part in range(SPREAD)]
        found = [self.first_from(at, min(self._size, at + NEAR)) for at in [*places, self._size - NEAR]]
        return [one for one in found if one]

    def first_from(self, start: int, end: int) -> Stamped | None:
        """The first line with a stamp that begins behind `start` and before `end`."""
        return next(self.lines(start, min(end, start + FAR), is_inside=start > 0), None)

    def lines(self, start: int, end: int, *, is_inside: bool = False) -> Iterator[Stamped]:
        reading = self._reading
        for offset, head in _heads(self._stream, start, end, reading, is_inside=is_inside):
            time = reading.time_of(decode(head, reading.encoding))
            if time is not None:
                yield Stamped(offset, self.turns.time_at(offset, time) if self.turns else time)


def _check_order(stamps: list[Stamped]) -> None:
    highest = stamps[0].time if stamps else 0
    for _, one in pairwise(stamps):
        if one.time < highest - SLACK:
            raise OutOfOrder(one.offset, highest, one.time)
        highest = max(highest, one.time)


def _heads(stream: BinaryIO, start: int, end: int, reading: Reading, *, is_inside: bool) -> Iterator[tuple[int, bytes]]:
    """Where each line begins in [start, end), and its first bytes. `is_inside`: none begins at `start`."""
    encoding, most = reading.encoding, 4 * reading.reach  # bytes: no character of any encoding has more than four
    piece = 5 * most
    width = 2 if encoding in WIDE else 1
    at = start - start % width
    while at < end:
        stream.seek(at)
        data = stream.read(piece)
        if not data:
            return
        cut = 0
        while cut < len(data) and at + cut < end:
            line_end = next_end(data, cut, encoding)
            if line_end < 0 and cut > 0 and len(data) - cut < most and len(data) == piece:
                break  # its first bytes are read again, all of them
            if not is_inside:
                yield at + cut, data[cut : cut + most if line_end < 0 else min(line_end, cut + most)]
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
    year = int(said.get("year") or LEAP)
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

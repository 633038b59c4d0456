"""Finds the first line at or after a time, in content of any size whose lines carry time stamps.

    detect_stamps(head, encoding)            how the first lines are stamped; None when they are not
    LineStamps.parse(text)                   the time that somebody typed, in microseconds since 1970
    find_time(stream, size, stamps, target)  the first line at or after that time

The search halves the content, so the stamps have to ascend. Every stamp that was read on the way, and those
of lines spread over all of the content, are checked for order: stamps that go back by more than SLACK raise
OutOfOrder, because a binary search among them would end at a line that means nothing.

A stamp without a zone counts as UTC. Syslog stamps have no year: they are read as of a leap year, and those
more than a day before the first line as of the year after it. A time of day without a date is no stamp.
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

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND
SLACK = 60 * SECOND  # lines of several threads may cross by moments, which is order enough
REACHES = (400, 4_000)  # characters of a line in which its stamp is looked for: in more only where few have one in less
HEAD_LINES = 40
NEAR = 64 * 1024  # bytes that are read line by line
FAR = 1024 * 1024  # a stretch without a stamp in so many bytes has none
SPREAD = 24  # lines over all of the content that are checked for order
LEAP = 2000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
YEAR = 366 * DAY
LEAP_END = (datetime(LEAP, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) + YEAR
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_MINUTES = r"(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)"
_REST = r":(?P<second>[0-5]\d|60)(?:[.,](?P<fraction>\d{1,9}))?"
_ZONE = r"(?: ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\w:]))?"
_CLOCK = _MINUTES + _REST
_MONTH = f"(?P<name>{'|'.join(MONTHS)})"
_EPOCH = r"(?P<epoch>[1-9]\d{9}(?:\.\d{1,9})?|[1-9]\d{12}|[1-9]\d{15})(?![\w.])"
_ISO_DAY = r"(?P<year>\d{4})[-/](?P<month>0[1-9]|1[0-2])[-/](?P<day>0[1-9]|[12]\d|3[01])"
# The first kind that at least a third of the head's lines have is taken.
KINDS = {
    "date": re.compile(rf"(?<![\w.]){_ISO_DAY}[T ]{_CLOCK}{_ZONE}"),
    "access log": re.compile(rf"\[?(?P<day>\d\d)/{_MONTH}/(?P<year>\d{{4}}):{_CLOCK}{_ZONE}"),
    "syslog": re.compile(rf"(?<!\w){_MONTH} (?P<day>[ 0-3]?\d) {_CLOCK}"),
    "epoch": re.compile(rf"^[\s\[(]*{_EPOCH}|\"(?:ts|time|timestamp)\": ?{_EPOCH.replace('epoch', 'member')}"),
}
_COLOUR = re.compile("\x1b\\[[0-9:;]*m")
_TYPED = (
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


class StampedLine(msgspec.Struct, frozen=True, order=True):
    """A line that begins at the byte `offset`; `time` is in microseconds since 1970."""

    offset: int
    time: int


class LineStamps(msgspec.Struct, frozen=True, kw_only=True):
    """How lines are stamped, within their first `reach` characters.

    `first` is the first stamp, `zone` its zone; None where it names none. Times are microseconds since 1970.
    """

    kind: str
    first: int
    zone: timedelta | None
    encoding: str
    reach: int = REACHES[0]

    def read(self, line: str) -> int | None:
        """The time of a line's stamp; None for a line without one."""
        stamp = KINDS[self.kind].search(_beginning(line, self.reach))
        time = _time(stamp.groupdict(), None) if stamp else None
        return time + YEAR if time is not None and self.kind == "syslog" and time < self.first - DAY else time

    def parse(self, text: str) -> int | None:
        """The time that `text` names: a date, a date and a time, seconds since 1970, or a time of day.

        A time of day is of the first line's day, or of the day after where it was over before the first line.
        """
        typed = next((match for pattern in _TYPED if (match := pattern.fullmatch(text.strip()))), None)
        if typed is None:
            return None
        parts: dict[str, str | None] = typed.groupdict()
        if self.kind == "syslog":
            parts["year"] = str(LEAP)
        elif parts.get("name"):
            parts["year"] = f"{EPOCH + timedelta(microseconds=self.first):%Y}"
        time = _time(parts, self.zone)
        if time is None or parts.get("day") or parts.get("epoch"):
            return time
        zone = (self.zone or timedelta()) // timedelta(microseconds=1)
        time = (self.first + zone) // DAY * DAY + (time + zone) % DAY - zone
        return time if time >= self.first - self.first % SECOND else time + DAY

    def format(self, time: int) -> str:
        """`time` as these lines would write it."""
        if self.kind == "syslog" and time >= LEAP_END:
            time -= YEAR
        at = EPOCH + timedelta(microseconds=time) + (self.zone or timedelta())
        day = f"{MONTHS[at.month - 1]} {at.day}" if self.kind == "syslog" else f"{at:%Y-%m-%d}"
        fraction = f".{at.microsecond:06}".rstrip("0") if at.microsecond else ""
        zone = " UTC" if self.kind == "epoch" else f" {timezone(self.zone)}" if self.zone else ""
        return f"{day} {at:%H:%M:%S}{fraction}{zone}"


class TimeMatch(msgspec.Struct, frozen=True, kw_only=True):
    """`line` is the first at or after `target`; None when all are earlier. `last` is the latest stamp that was read.

    `passes_year`: stamps without a year were taken to pass into a new one.
    """

    line: StampedLine | None
    target: int
    last: int
    passes_year: bool = False


def detect_stamps(head: bytes, encoding: str) -> LineStamps | None:
    """How the lines at the beginning of some content are stamped; None when fewer than a third have a stamp."""
    lines = [line for line in decode(head[:NEAR], encoding).split("\n")[:HEAD_LINES] if line.strip()]
    for reach, (kind, pattern) in product(REACHES, KINDS.items()):
        stamps = [stamp for line in lines if (stamp := pattern.search(_beginning(line, reach)))]
        times = [time for stamp in stamps if (time := _time(stamp.groupdict(), None)) is not None]
        if times and len(times) * 3 >= len(lines):
            zone = _zone(stamps[0].groupdict())
            return LineStamps(kind=kind, first=times[0], zone=zone, encoding=encoding, reach=reach)
    return None


def find_time(stream: BinaryIO, size: int, stamps: LineStamps, target: int) -> TimeMatch:
    """Finds the first line at or after `target`. Raises OutOfOrder."""
    log = _Log(stream, size, stamps)
    probes = log.spread()
    first, last = (min(probes).time, max(probe.time for probe in probes)) if probes else (stamps.first, stamps.first)
    if stamps.kind == "syslog":  # the year in which it lies within the lines, or misses them least
        target = min((target, target + YEAR), key=lambda time: max(first - time, time - last, 0))
    low, high = 0, size
    while high - low > NEAR:
        middle = (low + high) // 2
        line = log.first_from(middle, high)
        probes += [line] if line else []
        low, high = (line.offset, high) if line and line.time < target else (low, middle)
    passed: list[StampedLine] = []
    for line in log.lines(low, min(size, low + FAR)):
        passed.append(line)
        if line.time >= target:
            break
    _check_order(sorted({*probes, *passed}))
    last = max((line.time for line in [*probes, *passed]), default=stamps.first)
    is_reached = bool(passed) and passed[-1].time >= target
    return TimeMatch(
        line=passed[-1] if is_reached else None,
        target=target,
        last=last,
        passes_year=stamps.kind == "syslog" and last >= LEAP_END,
    )


class _Log:
    """The stamped lines of some content, read only where they are asked for."""

    def __init__(self, stream: BinaryIO, size: int, stamps: LineStamps) -> None:
        self._stream = stream
        self._size = size
        self._stamps = stamps

    def spread(self) -> list[StampedLine]:
        """Lines at equal distances; all of them where they are few."""
        if self._size <= FAR:
            return list(self.lines(0, self._size))
        offsets = [self._size * part // SPREAD for part in range(SPREAD)]
        lines = [self.first_from(offset, min(self._size, offset + NEAR)) for offset in [*offsets, self._size - NEAR]]
        return [line for line in lines if line]

    def first_from(self, start: int, end: int) -> StampedLine | None:
        """The first line with a stamp that begins behind `start` and before `end`."""
        return next(self.lines(start, min(end, start + FAR), is_inside=start > 0), None)

    def lines(self, start: int, end: int, *, is_inside: bool = False) -> Iterator[StampedLine]:
        for offset, head in self._heads(start, end, is_inside=is_inside):
            time = self._stamps.read(decode(head, self._stamps.encoding))
            if time is not None:
                yield StampedLine(offset, time)

    def _heads(self, start: int, end: int, *, is_inside: bool) -> Iterator[tuple[int, bytes]]:
        """Offset and first bytes of each line that begins in [start, end). `is_inside`: none begins at `start`."""
        encoding = self._stamps.encoding
        most = 4 * self._stamps.reach  # bytes: no character of any encoding has more than four
        piece = 5 * most
        width = 2 if encoding in WIDE else 1
        at = start - start % width
        while at < end:
            self._stream.seek(at)
            data = self._stream.read(piece)
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


def _beginning(line: str, reach: int) -> str:
    """Without a terminal's colours: a stamp is often dimmed, and then a letter stands before it."""
    return _COLOUR.sub("", line[:reach]) if "\x1b" in line else line[:reach]


def _check_order(lines: list[StampedLine]) -> None:
    highest = lines[0].time if lines else 0
    for _, line in pairwise(lines):
        if line.time < highest - SLACK:
            raise OutOfOrder(line.offset, highest, line.time)
        highest = max(highest, line.time)


def _time(parts: dict[str, str | None], zone: timedelta | None) -> int | None:
    """The parts of a stamp in microseconds since 1970; `zone` is for one that names none."""
    number = parts.get("epoch") or parts.get("member")
    if number:
        whole, _, fraction = number.partition(".")
        return int(whole.ljust(16, "0")) + int(fraction[:6].ljust(6, "0"))
    name = parts.get("name")
    month = MONTHS.index(name) + 1 if name else int(parts.get("month") or 1)
    year = int(parts.get("year") or LEAP)
    clock = [int(parts.get(part) or 0) for part in ("hour", "minute", "second")]
    micros = int((parts.get("fraction") or "")[:6].ljust(6, "0"))
    try:
        at = datetime(year, month, int(parts.get("day") or 1), clock[0], clock[1], min(59, clock[2]), micros, UTC)
    except ValueError:
        return None
    own = _zone(parts)
    return (at - EPOCH - ((zone or timedelta()) if own is None else own)) // timedelta(microseconds=1)


def _zone(parts: dict[str, str | None]) -> timedelta | None:
    zone = parts.get("zone")
    if not zone:
        return None
    if zone[0] not in "+-":
        return timedelta()
    away = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
    return -away if zone[0] == "-" else away

"""The members of one JSON value in content of any size: where each begins and ends, and nothing of what is in it.

    members(stream, offset)                 the first members of the value at a byte
    members(stream, offset, begin=cursor)   those behind a cursor that an earlier answer gave

A container is passed over by its brackets, so the members of a value of gigabytes are listed without
reading it as JSON. An answer ends after MOST members or PASSED_OVER bytes and says where to go on; the
cursor says all that has to be known there, so that going on is another question and no job. Only what
is listed is checked: text that is no JSON is named by its byte where the list comes to it.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import BinaryIO, Literal, TypeAlias

import msgspec

MOST = 200
PASSED_OVER = 16 * 1024 * 1024  # bytes
PIECE = 64 * 1024
LONGEST_WORD = 4 * 1024
LONGEST_NAME = 16 * 1024  # bytes of a member's name
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("|\Z)', re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*("|\Z)', re.DOTALL)
_BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[\[{\]}]', re.DOTALL)
_WORD = re.compile(rb"[^\s,\]}:\[{\"]+")
_STEPS = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
_OPENED = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{[}]")
Kind: TypeAlias = Literal["object", "array", "string", "word"]
_KINDS: dict[bytes, Kind] = {b"{": "object", b"[": "array", b'"': "string"}


class NotJson(ValueError):
    """What stands at the byte `offset` is no JSON."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"byte {offset:,}")
        self.offset = offset


class MemberCursor(msgspec.Struct, frozen=True, kw_only=True):
    """Where to go on: `depth` brackets are open inside the member that was being passed over, 0 between members."""

    offset: int
    count: int  # members before it
    depth: int = 0
    is_in_string: bool = False


class JsonMember(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes [start, end) hold the value; `end` is -1 where it was not come to. `name` is a JSON string, or empty."""

    name: bytes
    index: int
    start: int
    end: int
    kind: Kind


class JsonMembers(msgspec.Struct, frozen=True, kw_only=True):
    """`end` is the byte behind the value, -1 while there are more members, to be had at `onward`."""

    kind: Kind
    start: int
    members: tuple[JsonMember, ...] = ()
    end: int = -1
    onward: MemberCursor | None = None
    fault: int = -1  # the byte at which it stops being JSON


def list_members(
    stream: BinaryIO, offset: int, *, begin: MemberCursor | None = None, most: int = MOST, within: int = 0
) -> JsonMembers:
    """Of the value that begins at or behind `offset`, after white space. Raises NoJson where none begins there.

    `within`: so many bytes are passed over, PASSED_OVER for 0; 20 ms of a processor for a megabyte of many brackets.
    """
    reader = _Reader(stream, offset)
    reader.skip_space()
    start = reader.at
    kind = reader.kind()
    if kind not in ("object", "array"):
        return JsonMembers(kind=kind, start=start, end=reader.end_of(kind))
    listing = _Listing(reader, kind, most, within or PASSED_OVER)
    if begin is None:
        reader.at += 1
        listing.is_first = True
    else:
        reader.at, listing.count = begin.offset, begin.count
    try:
        end, onward = listing.read(begin)
    except NotJson as bad:
        return JsonMembers(kind=kind, start=start, members=tuple(listing.found), fault=bad.offset)
    return JsonMembers(kind=kind, start=start, members=tuple(listing.found), end=end, onward=onward)


class _Listing:
    def __init__(self, reader: _Reader, kind: Kind, most: int, within: int) -> None:
        self.reader = reader
        self.kind = kind
        self.most = most
        self.within = within
        self.limit = reader.at + within
        self.found: list[JsonMember] = []
        self.count = 0
        self.is_first = False

    def read(self, begin: MemberCursor | None) -> tuple[int, MemberCursor | None]:
        """The byte behind the container, or where to go on."""
        reader = self.reader
        self.limit = reader.at + self.within
        if begin is not None and (begin.depth or begin.is_in_string):
            open_at = reader.pass_over(self.limit, begin.depth, is_in_string=begin.is_in_string)
            if open_at is not None:
                return -1, self._cursor(*open_at)
        while True:
            if self._has_ended():
                return reader.at, None
            if len(self.found) >= self.most or reader.at >= self.limit:
                return -1, self._cursor()
            open_at = self._member()
            if open_at is not None:
                return -1, self._cursor(*open_at)

    def _cursor(self, depth: int = 0, is_in_string: bool = False) -> MemberCursor:  # noqa: FBT001, FBT002
        return MemberCursor(offset=self.reader.at, count=self.count, depth=depth, is_in_string=is_in_string)

    def _has_ended(self) -> bool:
        """Passes over the bracket that closes; of a comma, only looks at it."""
        self.reader.skip_space()
        if self.reader.byte() != (b"}" if self.kind == "object" else b"]"):
            return False
        self.reader.at += 1
        return True

    def _member(self) -> tuple[int, bool] | None:
        """None when it was passed over whole."""
        reader = self.reader
        if not self.is_first:
            reader.take(b",")
        self.is_first = False
        name = self._name() if self.kind == "object" else b""
        start, kind = reader.at, reader.kind()
        if kind in ("object", "array"):
            reader.at += 1
            open_at = reader.pass_over(self.limit, 1)
        else:
            open_at = (0, True) if reader.end_of(kind, self.limit) < 0 else None
        end = reader.at if open_at is None else -1
        self.found.append(JsonMember(name=name, index=self.count, start=start, end=end, kind=kind))
        self.count += 1
        return open_at

    def _name(self) -> bytes:
        reader = self.reader
        start = reader.at
        found = _STRING.match(reader.ahead(LONGEST_NAME))
        if found is None or not found[1]:
            raise NotJson(start)
        reader.at += found.end()
        reader.skip_space()
        reader.take(b":")
        return found[0]


class _Reader:
    """A place in the content, with what lies behind it in memory, a piece at a time."""

    def __init__(self, stream: BinaryIO, at: int) -> None:
        self._stream = stream
        self._data, self._begin = b"", 0
        self.at = at

    def ahead(self, count: int) -> bytes:
        """So many bytes from here, fewer only at the end."""
        at = self.at - self._begin
        if not 0 <= at <= len(self._data) - count:
            self._stream.seek(self.at)
            self._data, self._begin, at = self._stream.read(max(count, PIECE)), self.at, 0
        return self._data[at : at + count]

    def byte(self) -> bytes:
        return self.ahead(1)

    def skip_space(self) -> None:
        while (found := _SPACE.match(piece := self.ahead(256))) and found.end():
            self.at += found.end()
            if found.end() < len(piece):
                return

    def take(self, mark: bytes) -> None:
        self.skip_space()
        if self.byte() != mark:
            raise NotJson(self.at)
        self.at += 1
        self.skip_space()

    def kind(self) -> Kind:
        first = self.byte()
        if first in _KINDS:
            return _KINDS[first]
        if not first or not _WORD.match(first):
            raise NotJson(self.at)
        return "word"

    def end_of(self, kind: Kind, limit: int | None = None) -> int:
        """Behind a string or a word; -1 where the string goes on behind `limit`, or for ever."""
        if kind == "word":
            found = _WORD.match(self.ahead(LONGEST_WORD))
            self.at += found.end() if found else 0
            return self.at
        self.at += 1
        return self.at if self._pass_string(limit) else -1

    def _pass_string(self, limit: int | None) -> bool:
        """From inside a string to behind it."""
        while limit is None or self.at < limit:
            piece = _whole_escapes(self.ahead(PIECE))
            if not piece:
                raise NotJson(self.at)
            found = _REST_OF_STRING.match(piece)
            assert found is not None
            self.at += found.end()
            if found[1]:
                return True
        return False

    def pass_over(self, limit: int, depth: int, *, is_in_string: bool = False) -> tuple[int, bool] | None:
        """Out of `depth` open containers; how many are open at `limit`, and whether in a string."""
        while True:
            if is_in_string and not self._pass_string(limit):
                return depth, True
            if is_in_string and not depth:
                return None
            is_in_string = False
            if self.at >= limit:
                return depth, False
            piece = _whole_escapes(self.ahead(PIECE))
            if not piece:
                raise NotJson(self.at)
            depth, passed, is_in_string = _brackets(piece, depth)
            self.at += passed
            if not depth:
                return None


def _brackets(piece: bytes, depth: int) -> tuple[int, int, bool]:
    """How many are open behind the piece, how much of it was passed, whether it ends in a string."""
    parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    steps = memoryview(b"".join(parts[::2]).translate(_STEPS, _NO_BRACKETS)).cast("b")
    if depth + min(accumulate(steps), default=0) > 0:
        return depth + sum(steps), len(piece), len(parts) % 2 == 0
    # A step to none open has its bracket.
    closed = next(one for one in _BRACKETS.finditer(piece) if not (depth := depth + _OPENED.get(one[0], 0)))
    return 0, closed.end(), False


def _whole_escapes(piece: bytes) -> bytes:
    """Not ending between a backslash and what it escapes, unless nothing else is left."""
    backslashes = len(piece) - len(piece.rstrip(b"\\"))
    return piece[:-1] if backslashes % 2 and len(piece) > 1 else piece

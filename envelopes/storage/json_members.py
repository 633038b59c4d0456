"""Lists the members of one JSON value in content of any size: where each begins and ends, but not what is in it.

    list_members(stream, offset)                 the first members of the value at a byte
    list_members(stream, offset, begin=cursor)   those after a cursor that an earlier answer returned

Containers are skipped by counting their brackets, so the members of a value of gigabytes are listed without
parsing it. An answer ends after MOST members or SKIPPED bytes and has a cursor with everything that is needed to
continue, so that continuing is another request and not a background job. Only what is listed is checked: text
that is not JSON is reported with its byte once the listing reaches it.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import BinaryIO, Literal, TypeAlias

import msgspec

MOST = 200
SKIPPED = 16 * 1024 * 1024  # bytes; 20 ms of a processor for each megabyte of many brackets
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
    """The content is not JSON at the byte `offset`."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"byte {offset:,}")
        self.offset = offset


class MemberCursor(msgspec.Struct, frozen=True, kw_only=True):
    """The position at which to continue: between two members, or in one of which `depth` brackets are open."""

    offset: int
    count: int  # members before it
    depth: int = 0
    is_in_string: bool = False


class JsonMember(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes [start, end) hold the value; `end` is -1 where it was not reached. `name` is a JSON string, or empty."""

    name: bytes
    index: int
    start: int
    end: int
    kind: Kind


class JsonMembers(msgspec.Struct, frozen=True, kw_only=True):
    """Some members of a value. `end` is the byte behind the value, -1 while `onward` leads to more of them."""

    kind: Kind
    start: int
    members: tuple[JsonMember, ...] = ()
    end: int = -1
    onward: MemberCursor | None = None
    fault: int = -1  # the byte at which it stops being JSON


def list_members(
    stream: BinaryIO,
    offset: int,
    *,
    begin: MemberCursor | None = None,
    most: int = MOST,
    within: int = SKIPPED,
    piece: int = PIECE,
) -> JsonMembers:
    """Lists at most `most` members of the value at `offset`, after white space, in about `within` bytes.

    Raises NotJson where no value begins there.
    """
    scanner = _Scanner(stream, offset, piece)
    scanner.skip_space()
    start = scanner.at
    kind = scanner.kind()
    if kind not in ("object", "array"):
        return JsonMembers(kind=kind, start=start, end=scanner.pass_scalar(kind))
    members: list[JsonMember] = []
    try:
        end, onward = _list_container(scanner, kind, begin, members, most, within)
    except NotJson as fault:
        return JsonMembers(kind=kind, start=start, members=tuple(members), fault=fault.offset)
    return JsonMembers(kind=kind, start=start, members=tuple(members), end=end, onward=onward)


def _list_container(
    scanner: _Scanner, kind: Kind, begin: MemberCursor | None, members: list[JsonMember], most: int, within: int
) -> tuple[int, MemberCursor | None]:
    """Appends to `members`; the byte behind the container, or -1 and where to continue."""
    if begin is None:
        scanner.at += 1
        begin = MemberCursor(offset=scanner.at, count=0)
        is_first = True
    else:
        scanner.at, is_first = begin.offset, False
    limit = scanner.at + within
    inside = None
    if begin.depth or begin.is_in_string:
        inside = scanner.pass_containers(limit, begin.depth, is_in_string=begin.is_in_string)
    while inside is None:
        scanner.skip_space()
        if scanner.byte() == (b"}" if kind == "object" else b"]"):
            scanner.at += 1
            return scanner.at, None
        if len(members) >= most or scanner.at >= limit:
            inside = 0, False
            break
        if not is_first:
            scanner.take(b",")
        is_first = False
        name = scanner.take_name() if kind == "object" else b""
        start, value_kind = scanner.at, scanner.kind()
        if value_kind in ("object", "array"):
            scanner.at += 1
            inside = scanner.pass_containers(limit, 1)
        elif scanner.pass_scalar(value_kind, limit) < 0:
            inside = 0, True
        end = scanner.at if inside is None else -1
        index = begin.count + len(members)
        members.append(JsonMember(name=name, index=index, start=start, end=end, kind=value_kind))
    depth, is_in_string = inside
    count = begin.count + len(members)
    return -1, MemberCursor(offset=scanner.at, count=count, depth=depth, is_in_string=is_in_string)


class _Scanner:
    """A position in the content, with the bytes behind it in memory, a piece at a time."""

    def __init__(self, stream: BinaryIO, at: int, piece: int) -> None:
        self._stream = stream
        self._piece = piece
        self._data, self._begin = b"", 0
        self.at = at

    def ahead(self, count: int) -> bytes:
        """The next `count` bytes, fewer only at the end."""
        at = self.at - self._begin
        if not 0 <= at <= len(self._data) - count:
            self._stream.seek(self.at)
            self._data, self._begin, at = self._stream.read(max(count, self._piece)), self.at, 0
        return self._data[at : at + count]

    def byte(self) -> bytes:
        return self.ahead(1)

    def skip_space(self) -> None:
        while (space := _SPACE.match(piece := self.ahead(256))) and space.end():
            self.at += space.end()
            if space.end() < len(piece):
                return

    def take(self, mark: bytes) -> None:
        self.skip_space()
        if self.byte() != mark:
            raise NotJson(self.at)
        self.at += 1
        self.skip_space()

    def take_name(self) -> bytes:
        name = _STRING.match(self.ahead(LONGEST_NAME))
        if name is None or not name[1]:
            raise NotJson(self.at)
        self.at += name.end()
        self.skip_space()
        self.take(b":")
        return name[0]

    def kind(self) -> Kind:
        first = self.byte()
        if first in _KINDS:
            return _KINDS[first]
        if not first or not _WORD.match(first):
            raise NotJson(self.at)
        return "word"

    def pass_scalar(self, kind: Kind, limit: int | None = None) -> int:
        """The byte behind a string or a word; -1 for a string that continues behind `limit`."""
        if kind == "word":
            word = _WORD.match(self.ahead(LONGEST_WORD))
            self.at += word.end() if word else 0
            return self.at
        self.at += 1
        return self.at if self._pass_string(limit) else -1

    def _pass_string(self, limit: int | None) -> bool:
        """Moves from inside a string to the byte behind it; False at `limit`."""
        while limit is None or self.at < limit:
            piece = _whole_escapes(self.ahead(self._piece))
            if not piece:
                raise NotJson(self.at)
            rest = _REST_OF_STRING.match(piece)
            assert rest is not None
            self.at += rest.end()
            if rest[1]:
                return True
        return False

    def pass_containers(self, limit: int, depth: int, *, is_in_string: bool = False) -> tuple[int, bool] | None:
        """Moves out of `depth` open containers. At `limit`: how many are open then, and is it in a string."""
        while True:
            if is_in_string and not self._pass_string(limit):
                return depth, True
            if is_in_string and not depth:
                return None
            is_in_string = False
            if self.at >= limit:
                return depth, False
            piece = _whole_escapes(self.ahead(self._piece))
            if not piece:
                raise NotJson(self.at)
            depth, passed, is_in_string = _count_brackets(piece, depth)
            self.at += passed
            if not depth:
                return None


def _count_brackets(piece: bytes, depth: int) -> tuple[int, int, bool]:
    """How many are open behind the piece, how much of it was passed, whether it ends in a string."""
    parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    steps = memoryview(b"".join(parts[::2]).translate(_STEPS, _NO_BRACKETS)).cast("b")
    if depth + min(accumulate(steps), default=0) > 0:
        return depth + sum(steps), len(piece), len(parts) % 2 == 0
    # The last container ends within the piece: at the bracket that brings the depth to 0.
    closing = next(token for token in _BRACKETS.finditer(piece) if not (depth := depth + _OPENED.get(token[0], 0)))
    return 0, closing.end(), False


def _whole_escapes(piece: bytes) -> bytes:
    """The piece without a backslash at its end whose escaped character is missing, unless nothing else is left."""
    backslashes = len(piece) - len(piece.rstrip(b"\\"))
    return piece[:-1] if backslashes % 2 and len(piece) > 1 else piece

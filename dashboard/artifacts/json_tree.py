"""JSON as something to be unfolded: the members of one value, small ones with theirs, large ones on demand.

A page carries ROOM bytes of the content. What does not fit is a fold that asks for its members when it
is opened, or a link; a string that is too long is a head that says so and leads to its place in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.safestring import SafeString

from dashboard.artifacts.content import Content
from dashboard.artifacts.search import number
from dashboard.text.text_markup import escape, escape_decoded
from envelopes.storage.encoding import MARKS, decode, whole_characters
from envelopes.storage.json_members import MOST, SKIPPED, JsonMember, Kind, MemberCursor, NotJson, list_members

ROOM = 64 * 1024  # bytes on one page
AT_ONCE = 1024 * 1024  # bytes that are passed over for the first members; the page asks for what is behind them
LONG = 600  # bytes of a string
DEEPEST = 12  # unfolded on one page
OPEN = 1_500  # bytes of a value that begins unfolded
BRACKETS = {"object": ("{", "}"), "array": ("[", "]")}


@dataclass(frozen=True, kw_only=True)
class Twig:
    """A member: its text, or for a container what is in it. `inside` is None where that is asked for on demand."""

    name: SafeString
    address: str  # of the value by itself
    kind: Kind
    text: SafeString = escape("")
    size: int = -1  # bytes; -1 where its end was not come to
    rest: str = ""  # where the text of a long string goes on
    inside: Branch | None = None

    @property
    def is_fold(self) -> bool:
        return self.kind in BRACKETS

    @property
    def is_empty(self) -> bool:
        return self.inside is not None and not self.inside.twigs and self.inside.fault < 0

    @property
    def is_open(self) -> bool:
        return self.inside is not None and self.size <= OPEN

    @property
    def brackets(self) -> tuple[str, str]:
        return BRACKETS[self.kind]


@dataclass(frozen=True, kw_only=True)
class Branch:
    """The members of the value at byte `start`, or the value itself where it has none."""

    kind: Kind
    start: int
    twigs: tuple[Twig, ...] = ()
    text: SafeString = escape("")
    rest: str = ""
    end: int = -1
    onward: str = ""  # the address of the members behind
    fault: int = -1  # the byte at which it stops being JSON

    @property
    def size(self) -> int:
        return self.end - self.start if self.end >= 0 else -1

    @property
    def stops_early(self) -> bool:
        """Before as many members as a page has: a large one is being passed over, and the page goes on by itself."""
        return bool(self.onward) and len(self.twigs) < MOST


def tree_of(content: Content, query: QueryDict) -> Branch:
    """The value at `?value=`, from the cursor in `?from= &count= &depth= &string` on."""
    offset = number(query, "value") or _behind_mark(content.head)
    begin = _cursor(query) if "from" in query else None
    try:
        return _Grower(content, SKIPPED if begin else AT_ONCE).branch(offset, begin, 0)
    except NotJson as bad:
        return Branch(kind="word", start=offset, fault=bad.offset)


def value_address(offset: int) -> str:
    return f"as=json&value={offset}"


def _named(name: bytes) -> str:
    """As it is written; of a long one the beginning."""
    return decode(name, "utf-8") if len(name) <= LONG else f"{decode(whole_characters(name[:LONG]), 'utf-8')}…"


def _behind_mark(head: bytes) -> int:
    return next((len(mark) for mark in MARKS if head.startswith(mark)), 0)


def _cursor(query: QueryDict) -> MemberCursor:
    return MemberCursor(
        offset=number(query, "from"),
        count=number(query, "count"),
        depth=number(query, "depth"),
        is_in_string="string" in query,
    )


def _onward(start: int, cursor: MemberCursor | None) -> str:
    if cursor is None:
        return ""
    said = {"as": "json", "value": start, "from": cursor.offset, "count": cursor.count, "depth": cursor.depth}
    return urlencode(said | ({"string": 1} if cursor.is_in_string else {}))


class _Grower:
    """Grows branches until the room is used up."""

    def __init__(self, content: Content, within: int) -> None:
        self._content = content
        self._within = within
        self._room = ROOM

    def branch(self, offset: int, begin: MemberCursor | None, depth: int) -> Branch:
        """Raises NoJson."""
        found = list_members(self._content.stream, offset, begin=begin, within=self._within)
        if found.kind not in BRACKETS:
            text, rest = self._text(found.start, found.end, ROOM)
            return Branch(kind=found.kind, start=found.start, end=found.end, text=text, rest=rest)
        return Branch(
            kind=found.kind,
            start=found.start,
            end=found.end,
            twigs=tuple(self._twig(one, depth) for one in found.members),
            onward=_onward(found.start, found.onward),
            fault=found.fault,
        )

    def _twig(self, one: JsonMember, depth: int) -> Twig:
        name = escape_decoded(_named(one.name) if one.name else f"{one.index:,}")
        size = one.end - one.start if one.end >= 0 else -1
        self._room -= len(one.name)
        if one.kind in BRACKETS:
            inside = self._inside(one, size, depth)
            return Twig(name=name, address=value_address(one.start), kind=one.kind, size=size, inside=inside)
        text, rest = self._text(one.start, one.end, LONG)
        return Twig(name=name, address=value_address(one.start), kind=one.kind, size=size, text=text, rest=rest)

    def _inside(self, one: JsonMember, size: int, depth: int) -> Branch | None:
        if not 0 <= size <= self._room or depth >= DEEPEST:
            return None
        try:
            return self.branch(one.start, None, depth + 1)
        except NotJson:  # its brackets close, so that it was passed over, and what is between them is no JSON
            return None

    def _text(self, start: int, end: int, limit: int) -> tuple[SafeString, str]:
        """A string or a word as it is written; and where it goes on."""
        length = min(limit, end - start) if end >= 0 else limit
        self._content.stream.seek(start)
        data = self._content.stream.read(length)
        self._room -= len(data)
        is_whole = end >= 0 and len(data) == end - start
        data = data if is_whole else whole_characters(data)
        rest = "" if is_whole else urlencode({"as": "text", "offset": start + len(data)})
        return escape_decoded(decode(data, "utf-8")), rest

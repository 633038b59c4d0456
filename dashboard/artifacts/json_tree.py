"""JSON as a tree to be unfolded: the members of one value, small ones with their own members, large ones on demand.

A page carries PAGE_BYTES of the content. What does not fit is a fold that requests its members when it is opened, or
a link; of a string that is too long the beginning is shown, with a link to its place in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.utils.safestring import SafeString

from dashboard.artifacts.content import Content
from dashboard.artifacts.location import LARGEST
from dashboard.text.params import Params
from dashboard.text.text_markup import escape, escape_decoded
from envelopes.storage.encoding import MARKS, decode, whole_characters
from envelopes.storage.json_members import MOST, SKIPPED, JsonMember, Kind, MemberCursor, NotJson, list_members

PAGE_BYTES = 64 * 1024
SKIPPED_AT_ONCE = 1024 * 1024  # bytes passed over for the first members; what is behind them is requested by the page
LONGEST_STRING = 600  # bytes
DEEPEST = 12  # levels unfolded on one page
OPEN_BYTES = 1_500  # a value of so many bytes is unfolded at first
BRACKETS = {"object": ("{", "}"), "array": ("[", "]")}


@dataclass(frozen=True, kw_only=True)
class JsonNode:
    """A member: its text, or for a container its `level`, None where that is requested on demand.

    `size` is in bytes, -1 where the end of the value was not reached. `rest_address`: where a long string goes on.
    """

    name: SafeString
    address: str  # of the value by itself
    kind: Kind
    text: SafeString = escape("")
    size: int = -1
    rest_address: str = ""
    level: JsonLevel | None = None

    @property
    def is_container(self) -> bool:
        return self.kind in BRACKETS

    @property
    def is_empty(self) -> bool:
        return self.level is not None and not self.level.nodes and self.level.fault < 0

    @property
    def is_open(self) -> bool:
        return self.level is not None and self.size <= OPEN_BYTES

    @property
    def brackets(self) -> tuple[str, str]:
        return BRACKETS[self.kind]


@dataclass(frozen=True, kw_only=True)
class JsonLevel:
    """The members of the value at byte `start`, or the value itself where it has none.

    `next_address` leads to the members behind these. `fault` is the byte at which it stops being JSON, or -1.
    """

    kind: Kind
    start: int
    nodes: tuple[JsonNode, ...] = ()
    text: SafeString = escape("")
    rest_address: str = ""
    end: int = -1
    next_address: str = ""
    fault: int = -1

    @property
    def size(self) -> int:
        return self.end - self.start if self.end >= 0 else -1

    @property
    def stops_early(self) -> bool:
        """True before a large member that is being passed over: the page requests the next members by itself."""
        return bool(self.next_address) and len(self.nodes) < MOST


def load_json_level(content: Content, params: Params) -> JsonLevel:
    """The value at `?value=`, from the cursor `?from= &count= &depth= &string` on."""
    mark = next((len(mark) for mark in MARKS if content.head.startswith(mark)), 0)
    start = params.integer("value", default=0, most=LARGEST) or mark
    cursor = None
    if "from" in params:
        cursor = MemberCursor(
            offset=params.integer("from", default=0, most=LARGEST),
            count=params.integer("count", default=0, most=LARGEST),
            depth=params.integer("depth", default=0, most=LARGEST),
            is_in_string="string" in params,
        )
    try:
        return _TreeBuilder(content, SKIPPED if cursor else SKIPPED_AT_ONCE).build_level(start, cursor, 0)
    except NotJson as error:
        return JsonLevel(kind="word", start=start, fault=error.offset)


def value_address(offset: int) -> str:
    return f"as=json&value={offset}"


class _TreeBuilder:
    """Builds levels until the page is full."""

    def __init__(self, content: Content, skipped_at_once: int) -> None:
        self._content = content
        self._skipped_at_once = skipped_at_once
        self._room = PAGE_BYTES

    def build_level(self, offset: int, cursor: MemberCursor | None, depth: int) -> JsonLevel:
        """Raises NotJson."""
        value = list_members(self._content.stream, offset, begin=cursor, within=self._skipped_at_once)
        if value.kind not in BRACKETS:
            text, rest_address = self._read_text(value.start, value.end, PAGE_BYTES)
            return JsonLevel(kind=value.kind, start=value.start, end=value.end, text=text, rest_address=rest_address)
        next_address = ""
        if following := value.onward:
            query = {"as": "json", "value": value.start, "from": following.offset, "count": following.count}
            query |= {"depth": following.depth} | ({"string": 1} if following.is_in_string else {})
            next_address = urlencode(query)
        return JsonLevel(
            kind=value.kind,
            start=value.start,
            end=value.end,
            nodes=tuple(self._build_node(member, depth) for member in value.members),
            next_address=next_address,
            fault=value.fault,
        )

    def _build_node(self, member: JsonMember, depth: int) -> JsonNode:
        name = f"{member.index:,}"
        if member.name:
            beginning = whole_characters(member.name[:LONGEST_STRING])
            is_long = len(member.name) > LONGEST_STRING
            name = f"{decode(beginning, 'utf-8')}…" if is_long else decode(member.name, "utf-8")
        self._room -= len(member.name)
        text, rest_address, level = escape(""), "", None
        size = member.end - member.start if member.end >= 0 else -1
        if member.kind not in BRACKETS:
            text, rest_address = self._read_text(member.start, member.end, LONGEST_STRING)
        elif 0 <= size <= self._room and depth < DEEPEST:
            try:
                level = self.build_level(member.start, None, depth + 1)
            except NotJson:  # its brackets balance, so it was passed over; what is between them is not JSON
                level = None
        return JsonNode(
            name=escape_decoded(name),
            address=value_address(member.start),
            kind=member.kind,
            text=text,
            size=size,
            rest_address=rest_address,
            level=level,
        )

    def _read_text(self, start: int, end: int, limit: int) -> tuple[SafeString, str]:
        """A string or word as it is written, and the address at which it goes on."""
        length = min(limit, end - start) if end >= 0 else limit
        self._content.stream.seek(start)
        data = self._content.stream.read(length)
        self._room -= len(data)
        is_whole = end >= 0 and len(data) == end - start
        data = data if is_whole else whole_characters(data)
        rest_address = "" if is_whole else urlencode({"as": "text", "offset": start + len(data)})
        return escape_decoded(decode(data, "utf-8")), rest_address

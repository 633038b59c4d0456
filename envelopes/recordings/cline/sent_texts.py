"""The texts that the client makes of a session's messages before it sends them, in releases 3.0.57 to 3.0.65.

1. A result that is no string is sent as JSON without spaces.
2. Of a string beyond 8,000 UTF-16 units, within a result or the whole one, the middle is left out.
3. The tags around what a person wrote are removed.
4. Once 64 KiB of results of reads have a later read of the same file behind them, each of these is sent with a note in
   the place of the file's text.

A variable of the environment can set both limits, so no text that they shorten is certain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec

from envelopes.alignment.cline_receipts import STRING
from envelopes.recordings.documents import DocumentValue, compact_json
from envelopes.schema.result import JsonValue
from envelopes.text.untrusted_json import parse_json

MOST_UNITS = 8_000
LEAST_OUTDATED = 65_536  # bytes
OUTDATED = "[outdated - see the latest file content]"
READS = ("read", "read_files")
_SPACE = " \t\n\r\v\f\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_EDGES = re.compile(f"^[{_SPACE}]+|[{_SPACE}]+$")
_TAGS = ("user_input", "user_command")
_RANGE = re.compile(r"(?P<path>.*):(?P<first>\d+)-(?P<last>EOF|\d+)")


def shorten(text: str) -> str:
    """Leaves out the middle of a long text, as the client counts."""
    units = text.encode("utf-16-le", "surrogatepass")
    count = len(units) // 2
    if count <= MOST_UNITS:
        return text
    half = max(0, (MOST_UNITS - len(_note(count - MOST_UNITS))) // 2)
    note = _note(count - 2 * half)
    half = max(0, (MOST_UNITS - len(note)) // 2)
    head, tail = units[: 2 * half], units[len(units) - 2 * half :]
    return head.decode("utf-16-le", "replace") + note + tail.decode("utf-16-le", "replace")  # halves of pairs too


def _note(count: int) -> str:
    return f"\n\n...[truncated {count} chars]...\n\n"


def sent_text(result: DocumentValue) -> str:
    """The text of a tool's result as it is sent."""
    if result.is_text:
        return shorten(str(result.value()))
    if any(find_images(result)):
        return shorten_json(write_json(_without_images(result.value())))
    return shorten_json(compact_json(result.raw).decode("utf-8", "surrogatepass"))


def shorten_json(text: str) -> str:
    """Shortens the strings of a JSON document, but for the names of its members."""
    if len(text.encode("utf-16-le", "surrogatepass")) <= 2 * MOST_UNITS:
        return text
    return STRING.sub(lambda match: match[0] if match["name"] else _shorten_string(match[0]), text)


def _shorten_string(written: str) -> str:
    text = json.loads(written, strict=False)
    shortened = shorten(text)
    return written if shortened == text else write_json(shortened)


def write_json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def find_images(result: DocumentValue) -> Iterator[DocumentValue]:
    """The images of a result, which are sent as parts of their own, where the model takes any."""
    for entry in result.elements():
        for node in entry.members()["result"].elements() if entry.is_object and "result" in entry.members() else ():
            if node.is_object and (kind := node.members().get("type")) and kind.raw == b'"image"':
                yield node


def _without_images(value: JsonValue) -> JsonValue:
    """The entries of a result whose texts and images are sent apart: the texts of each, in a list."""
    if not isinstance(value, list):
        return value
    return [
        {**entry, "result": [part["text"] for part in entry["result"] if isinstance(part, dict) and "text" in part]}
        if isinstance(entry, dict) and isinstance(entry.get("result"), list)
        else entry
        for entry in value
    ]


def unwrap_input(text: str) -> str:
    """The words of a person, without the tags that the client removes."""
    text = _EDGES.sub("", text)
    for tag in _TAGS:
        bare = re.sub(rf"<{tag}\b[^>]*>([\s\S]*?)</{tag}>", r"\1", text)
        text = _EDGES.sub("", bare if bare != text else re.sub(rf"<{tag}[^>]*>", "", text))
    return text


class _Read(msgspec.Struct):
    """A result of a read: its entries, the key of each, and the keys of those that are replaced."""

    call: str
    entries: list[JsonValue]
    keys: list[str]
    noted: set[str] = set()

    @property
    def text(self) -> str:
        noted = [
            {**entry, "result": OUTDATED} if isinstance(entry, dict) and key in self.noted else entry
            for entry, key in zip(self.entries, self.keys, strict=True)
        ]
        return shorten_json(write_json(noted))

    def size(self, key: str) -> int:
        """The bytes of what is sent of one key."""
        entries = (entry for entry, own in zip(self.entries, self.keys, strict=True) if own == key)
        return sum(len(shorten_json(write_json(entry)).encode("utf-8", "replace")) for entry in entries)


class OutdatedReads:
    """The reads of a session that the client replaces by notes, request by request.

    `_live` are those that are up to date for it, by file, and `_outdated` the others, until they are replaced.
    """

    def __init__(self) -> None:
        self._latest: dict[str, str] = {}  # calls by what they read
        self._whole: dict[str, str] = {}  # calls by the file of which they read the whole
        self._live: dict[str, list[tuple[_Read, str]]] = {}
        self._outdated: dict[str, _Read] = {}
        self._keys: dict[str, set[str]] = {}
        self._size = 0

    def add(self, call: str, result: DocumentValue) -> None:
        entries = parse_json(result.raw)
        if not isinstance(entries, list):
            return
        queries = [entry.get("query") if isinstance(entry, dict) else None for entry in entries]
        if not all(isinstance(query, str) and query for query in queries):
            return
        places = [_read_key(str(query)) for query in queries]
        read = _Read(call, entries, [key for _, key in places])
        for path, key in dict.fromkeys(places):
            self._latest[key] = call
            if path == key:
                self._whole[path] = call
            self._live.setdefault(path, []).append((read, key))
        for path in dict.fromkeys(path for path, _ in places):
            self._sort_out(path)

    def _sort_out(self, path: str) -> None:
        live = []
        for read, key in self._live[path]:
            if self._whole.get(path, read.call) == read.call == self._latest[key]:
                live.append((read, key))
                continue
            self._outdated[read.call] = read
            self._keys.setdefault(read.call, set()).add(key)
            self._size += read.size(key)
        self._live[path] = live

    def replace(self) -> Iterator[tuple[str, str]]:
        """Yields the calls whose results the next request has with notes, and the texts that it has in their place."""
        if self._size < LEAST_OUTDATED:
            return
        for call, read in self._outdated.items():
            read.noted = read.noted | self._keys[call]
            yield call, read.text
        self._outdated, self._keys, self._size = {}, {}, 0


def _read_key(query: str) -> tuple[str, str]:
    """The file of a read, and what it read of it: the file itself for the whole."""
    part = _RANGE.fullmatch(query)
    return (part["path"], f"{part['path']}:{int(part['first'])}-{part['last']}") if part else (query, query)

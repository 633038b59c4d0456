"""Parses JSON bytes that a foreign program wrote: a value, or an Untrusted error with the position.

1. Bytes must be UTF-8; the error has the byte offset.
2. msgspec parses the usual case. What it refuses and JSON writers emit all the same (a lone surrogate, NaN)
   is parsed by the standard library, so that nothing is lost to strictness.
3. Nesting deeper than 200 and integers longer than 4,300 digits are refused: either would crash a worker later.
4. `object_slices` and `array_slices` return each value's own bytes, so that what is stored is what was recorded:
   duplicate keys, 1.0 beside 1.00, huge integers. `check_json` applies rules 1 and 3 to bytes that stay undecoded.
   `split_objects` returns the objects of a line on which two writers met, `strict_json` what any parser reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import accumulate
from json.decoder import scanstring  # type: ignore[attr-defined]

import msgspec

from envelopes.schema.result import JsonValue

DEPTH = 200
VALUES_IN_VALUES = 3  # objects and lists that are read to find long strings
MOST_COMMAS = 10_000  # in a list: one with more may have too many elements to list them
DIGITS = 4300  # what Python itself converts (CVE-2020-10735)
SHORT_NAME = 64  # characters of a member's name whose JSON is remembered
_WHITESPACE = " \t\r\n"
_SPACE = re.compile(rf"[{_WHITESPACE}]*")
_DECODER = json.JSONDecoder()
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_NOT_OPENING = bytes(set(range(256)) - set(b"[{"))
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_CONSTANT = re.compile(rb'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)', re.DOTALL)
_NEXT_OBJECT = re.compile(rb"\} ?\{")  # found in a third of the time that `in` takes
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (DIGITS + 1))


class Untrusted(ValueError):
    """Foreign bytes that were refused. `path` is a JSON path, `$` for the whole."""

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


def decode_utf8(raw: bytes) -> str:
    """Raises Untrusted with the offset of the first byte that is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Untrusted(f"not UTF-8 at byte {error.start}: {raw[error.start : error.start + 1].hex()}") from None


def parse_json(raw: bytes) -> JsonValue:
    """The JSON value in `raw`, numbers and strings as written. Raises Untrusted."""
    if len(raw) > DEPTH and _is_deep(raw):
        raise Untrusted(f"nested deeper than {DEPTH}")
    return parse_checked(raw)


def parse_checked(raw: bytes) -> JsonValue:
    """The same for bytes that lie within what `check_json` passed, whose depth is known. Raises Untrusted."""
    try:
        value: JsonValue = msgspec.json.decode(raw)
    except RecursionError:
        decode_utf8(raw)
        raise Untrusted(f"nested deeper than {DEPTH}") from None
    except ValueError:  # msgspec's errors, and invalid UTF-8
        text = decode_utf8(raw)
        with _refusing():
            value = json.loads(text)
    return value


def parse_beginning(raw: bytes, lists: Collection[str], room: int, least: int) -> JsonValue:
    """Parses a JSON object of which the members named in `lists` may be long lists.

    About the first `room` bytes of each such list are parsed, and at least `least` elements; all of a list that is
    shorter, or whose elements are not alike. Raises Untrusted.
    """
    try:
        members = _OBJECT.decode(raw)
        return {
            name: (_first_elements(bytes(value), room, least) if name in lists else None) or parse_checked(bytes(value))
            for name, value in members.items()
        }
    except (msgspec.MsgspecError, RecursionError):
        return parse_checked(raw)


def _first_elements(raw: bytes, room: int, least: int) -> JsonValue:
    """None where no end of an element was found. A cut that makes JSON with a bracket was between two elements."""
    ending = b"}," if raw[1:2] == b"{" else b'",'
    at = raw.find(ending, room)
    if not raw.startswith(b"[") or at < 0:
        return None
    try:
        elements: list[JsonValue] = msgspec.json.decode(raw[: at + 1] + b"]")
    except ValueError:
        return None
    return elements if len(elements) >= least else None


def check_json(raw: bytes) -> None:
    """Raises Untrusted for bytes that no reader may keep even undecoded. Does not check the syntax.

    Cheap for ordinary bytes: nothing is decoded unless they look suspicious.
    """
    if not raw.isascii():
        decode_utf8(raw)
    if _is_deep(raw):
        raise Untrusted(f"nested deeper than {DEPTH}")
    if len(raw) > DIGITS and _has_long_number(raw):
        parse_json(raw)


def object_slices(raw: bytes) -> dict[str, bytes]:
    """The members of the JSON object in `raw`, each value as its own bytes. The last of a repeated key wins."""
    if not raw.isascii():
        decode_utf8(raw)
    try:
        return {key: bytes(value) for key, value in _OBJECT.decode(raw).items()}
    except (msgspec.MsgspecError, RecursionError):
        return _lenient_object(decode_utf8(raw).rstrip(_WHITESPACE))


def read_object(raw: bytes) -> tuple[dict[str, bytes], list[tuple[str, bytes]]]:
    """`object_slices` and `repeated_members` of an object, which is read once unless it is odd. Raises Untrusted."""
    members = _unique_members(raw)
    if members is not None and (raw.isascii() or decode_utf8(raw)):
        return members, []
    return object_slices(raw), repeated_members(raw)


def array_slices(raw: bytes) -> list[bytes]:
    """The elements of the JSON array in `raw`, each as its own bytes."""
    text = decode_utf8(raw)
    try:
        return [bytes(value) for value in _ARRAY.decode(raw)]
    except (msgspec.MsgspecError, RecursionError):
        return _lenient_array(text.rstrip(_WHITESPACE))


def normalize_json(data: bytes) -> str | bytes:
    """The same for JSON that differs in spacing and the order of members alone. For comparisons only."""
    text = _sort_members(data)
    if text is not None:
        return text
    try:
        text = json.dumps(parse_checked(data), sort_keys=True)
    except Untrusted:
        return data
    return _sort_members(text.encode()) or text


def _sort_members(data: bytes) -> str | None:
    """None for a value that msgspec cannot read or write. Takes a quarter of the time of the standard library."""
    try:
        return msgspec.json.encode(msgspec.json.decode(data), order="sorted").decode()
    except (ValueError, RecursionError, OverflowError):  # ValueError: also what is no UTF-8
        return None


def split_objects(raw: bytes) -> list[bytes]:
    """The JSON objects that two writers put on one line, each as its own bytes; `raw` itself for anything else.

    Cheap for ordinary lines: only one that has a bracket behind a bracket is parsed.
    """
    if _NEXT_OBJECT.search(raw) is None:
        return [raw]
    with suppress(msgspec.MsgspecError, RecursionError):
        msgspec.json.decode(raw, type=msgspec.Raw)
        return [raw]
    objects: list[bytes] = []
    try:
        text = decode_utf8(raw)
        at = _skip(text, 0)
        while at < len(text):
            with _refusing():
                end = _DECODER.raw_decode(text, at)[1]
            objects.append(text[at:end].encode())
            at = _skip(text, end)
    except Untrusted:
        return [raw]
    return objects if all(piece.startswith(b"{") for piece in objects) else [raw]


def join_object(members: dict[str, bytes]) -> bytes:
    """The JSON object with these members, the inverse of `object_slices`."""
    return b"{" + b",".join([_dump_name(key) + value for key, value in members.items()]) + b"}"


def join_array(elements: Iterable[bytes]) -> bytes:
    """The JSON array with these elements, the inverse of `array_slices`."""
    return b"[" + b",".join(elements) + b"]"


def _dump_name(key: str) -> bytes:
    return _dump_short_name(key) if len(key) <= SHORT_NAME else json.dumps(key).encode() + b":"


@lru_cache(maxsize=1_024)  # the names of a format are the same in each line
def _dump_short_name(key: str) -> bytes:
    return json.dumps(key).encode() + b":"


def dump_json(value: JsonValue) -> bytes:
    """JSON of a parsed value: what UTF-8 or 64 bits cannot hold is written with escapes and digits."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value, separators=(",", ":")).encode()


def strict_json(raw: bytes) -> bytes:
    """The same value for parsers that follow the standard: NaN and Infinity, which it does not have, become strings."""
    if b"NaN" not in raw and b"Infinity" not in raw:
        return raw
    return _CONSTANT.sub(lambda match: b'"' + match[1] + b'"' if match[1] else match[0], raw)


def visible(text: str) -> str:
    """`text` with lone surrogates written as \\udxxx, so that it can be encoded; the rest untouched."""
    return text.encode("utf-8", "backslashreplace").decode()


@contextmanager
def _refusing() -> Iterator[None]:
    """Turns what a parser of the standard library raises into Untrusted."""
    try:
        yield
    except RecursionError:
        raise Untrusted(f"nested deeper than {DEPTH}") from None
    except json.JSONDecodeError as error:
        raise Untrusted(f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos}") from None
    except ValueError:  # what else `json` raises; its own words are about settings of Python
        raise Untrusted(f"a number of more than {DIGITS:,} digits") from None


def _is_deep(raw: bytes, depth: int = DEPTH) -> bool:
    """Sums opening and closing brackets; those inside strings do not count.

    Most brackets of a log are in a few long strings, which are the members of an object, or of a value in it: as the
    contents of messages are those of a list of objects. Innermost pairs are removed first, all at once: ordinary JSON
    is gone after a few rounds and need not be summed. A round that removes hardly anything is a sign of depth, and 100
    of them would take longer than the sum.
    """
    if len(raw) <= depth or len(raw.translate(None, _NOT_OPENING)) <= depth:
        return False
    if depth > DEPTH - VALUES_IN_VALUES and (values := _outer_values(raw)) is not None:
        return any(_is_deep(value, depth - 1) for value in values if not value.startswith(b'"'))
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    structure = unescaped.translate(None, _NOT_STRUCTURE)
    # Two quotes that meet can be removed: every bracket stays inside or outside of a string.
    outside = b"".join(structure.replace(b'""', b"").split(b'"')[::2])
    rest, is_flat, rounds = outside, True, 0
    while rest and is_flat and rounds < DEPTH // 2:  # a round removes two levels at most
        before, rest = rest, rest.replace(b"[]", b"").replace(b"{}", b"")
        is_flat, rounds = len(rest) * 8 <= len(before) * 7, rounds + 1
    steps = memoryview(outside.translate(_STEPS)).cast("b")
    return bool(rest) and max(accumulate(steps), default=0) > depth


def _outer_values(raw: bytes) -> Iterable[bytes] | None:
    """The values of an ordinary JSON object, or of a list with few elements; None for anything else."""
    if not raw.lstrip().startswith(b"["):
        members = _unique_members(raw)
        return None if members is None else members.values()
    if raw.count(b",") > MOST_COMMAS:
        return None
    try:
        return [bytes(value) for value in _ARRAY.decode(raw)]
    except (ValueError, RecursionError):
        return None


def _has_long_number(raw: bytes) -> bool:
    """True for a run of more than DIGITS digits, which covers at least one of the positions that are tested."""
    for at in range(DIGITS, len(raw), DIGITS + 1):
        if raw[at : at + 1].isdigit() and (raw[at - 64 : at].isdigit() or raw[at : at + 64].isdigit()):
            return _LONG_NUMBER.search(raw) is not None
    return False


def object_members(raw: bytes) -> list[tuple[str, bytes]]:
    """The members of the JSON object in `raw`, in order, those with a repeated key too, each value as its own bytes."""
    return _members(decode_utf8(raw).rstrip(_WHITESPACE))


def repeated_members(raw: bytes) -> list[tuple[str, bytes]]:
    """The members of the JSON object in `raw` that a later one with the same key hides. Raises Untrusted.

    Cheap for ordinary objects: keys and values that are as long as the object, with its commas and colons, are all
    that it has.
    """
    raw = raw.strip()
    if _unique_members(raw) is not None:
        return []
    last: dict[str, bytes] = {}
    hidden = []
    for key, value in object_members(raw):
        if key in last:
            hidden.append((key, last[key]))
        last[key] = value
    return hidden


def _unique_members(raw: bytes) -> dict[str, bytes] | None:
    """The members of the JSON object in `raw`; None where a key may be repeated, and for what is not ordinary JSON."""
    raw = raw.strip()
    try:
        members = {key: bytes(value) for key, value in _OBJECT.decode(raw).items()}
    except (ValueError, RecursionError):  # msgspec's errors, and invalid UTF-8 in a name
        return None
    count, first = len(members), len(next(iter(members), "")) + 4
    length = len("".join(members)) + sum(map(len, members.values())) + 4 * count + 1
    return members if len(raw) == length + (2 * count - 1 if raw[first : first + 1] == b" " else 0) else None


def is_portable(raw: bytes) -> bool:
    """False for a JSON value that parsers may read differently: with NaN, a number beyond 64 bits, or a key twice.

    An object with a repeated key has more colons outside of its strings than the parsed one has members. Also False
    where that cannot be told cheaply.
    """
    if raw.startswith(b'"'):
        return True
    try:
        members, colons = _count_members(msgspec.json.decode(raw))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return False
    return raw.count(b":") == members + colons and b"\\u003" not in raw  # u003a is a colon


def _count_members(value: JsonValue) -> tuple[int, int]:
    """The members of all objects in the value, and the colons in its strings."""
    members = colons = 0
    values: list[JsonValue] = [value]
    while values:
        child = values.pop()
        if isinstance(child, str):
            colons += child.count(":")
        elif isinstance(child, dict):
            members += len(child)
            values += [*child, *child.values()]
        elif isinstance(child, list):
            values += child
    return members, colons


def _lenient_object(text: str) -> dict[str, bytes]:
    return dict(_members(text))


def _members(text: str) -> list[tuple[str, bytes]]:
    at = _open(text, "{", "object")
    members: list[tuple[str, bytes]] = []
    while text[at : at + 1] != "}":
        if text[at : at + 1] != '"':
            raise Untrusted(f"expected a key at character {at}")
        with _refusing():
            key, end = scanstring(text, at + 1)
        at = _skip(text, end)
        if text[at : at + 1] != ":":
            raise Untrusted(f"expected ':' at character {at}")
        value, at = _lenient_value(text, _skip(text, at + 1), "}")
        members.append((key, value))
    _close(text, at)
    return members


def _lenient_array(text: str) -> list[bytes]:
    at = _open(text, "[", "array")
    elements: list[bytes] = []
    while text[at : at + 1] != "]":
        element, at = _lenient_value(text, at, "]")
        elements.append(element)
    _close(text, at)
    return elements


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _open(text: str, bracket: str, kind: str) -> int:
    at = _skip(text, 0)
    if text[at : at + 1] != bracket:
        hole = ", found NUL bytes, a hole that a crash or a full disk left" if text.startswith("\0") else ""
        raise Untrusted(f"expected a JSON {kind}{hole}")
    return _skip(text, at + 1)


def _lenient_value(text: str, at: int, bracket: str) -> tuple[bytes, int]:
    """The bytes of the value at `at`, and where the next one begins, or the bracket that closes."""
    with _refusing():
        end = _DECODER.raw_decode(text, at)[1]
    value, at = text[at:end].encode(), _skip(text, end)
    if text[at : at + 1] == bracket:
        return value, at
    if text[at : at + 1] != ",":
        raise Untrusted(f"expected ',' or '{bracket}' at character {at}")
    at = _skip(text, at + 1)
    if text[at : at + 1] == bracket:
        raise Untrusted(f"nothing between ',' and '{bracket}' at character {at}")
    return value, at


def _close(text: str, at: int) -> None:
    end = _skip(text, at + 1)
    if end != len(text):
        raise Untrusted(f"more after the end of the JSON value at character {end}")

"""The gate for foreign bytes: a value, or an Untrusted error that names the place.

1. Bytes must be UTF-8; the error names the byte offset.
2. msgspec reads the common case. What it refuses and JSON writers emit all the same (a lone
   surrogate, NaN) is read by the standard library, so that nothing is lost to strictness.
3. Nesting deeper than 200 and integers longer than 4,300 digits are refused with a reason:
   either would end a worker later.
4. Slices stay slices: `members` and `elements` give each value's own bytes, so that what is stored
   is what was recorded: duplicate keys, 1.0 beside 1.00, huge integers. `admit` holds rules 1 and 3
   for bytes that stay undecoded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from itertools import accumulate
from json.decoder import scanstring  # type: ignore[attr-defined]

import msgspec

from envelopes.schema.result import JsonValue

DEPTH = 200
DIGITS = 4300  # what Python itself converts (CVE-2020-10735)
_WHITESPACE = " \t\r\n"
_SPACE = re.compile(rf"[{_WHITESPACE}]*")
_DECODER = json.JSONDecoder()
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_NOT_OPENING = bytes(set(range(256)) - set(b"[{"))
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (DIGITS + 1))


class Untrusted(ValueError):
    """Foreign bytes that were refused. `path` is a JSON path, `$` for the whole."""

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path


def decode_utf8(raw: bytes) -> str:
    """Raises Untrusted with the byte at which it is none."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Untrusted(f"not UTF-8 at byte {error.start}: {raw[error.start : error.start + 1].hex()}") from None


def parse_json(raw: bytes) -> JsonValue:
    """The JSON value in `raw`, numbers and strings as written. Raises Untrusted."""
    value = parse_checked(raw)
    if _is_deep(raw):
        raise Untrusted(f"nested deeper than {DEPTH}")
    return value


def parse_checked(raw: bytes) -> JsonValue:
    """The same of bytes that lie within what `admit` let in: how deep they are was looked at then. Raises Untrusted."""
    try:
        value: JsonValue = msgspec.json.decode(raw)
    except RecursionError:
        decode_utf8(raw)
        raise Untrusted(f"nested deeper than {DEPTH}") from None
    except ValueError:  # msgspec's errors, and invalid UTF-8
        value = _lenient(decode_utf8(raw))
    return value


def parse_beginning(raw: bytes, lists: Collection[str], room: int, least: int) -> JsonValue:
    """The same of a JSON object whose members of the names in `lists` may be long: of such a list about its first
    `room` bytes, and `least` elements or more; all of it where it is shorter, or where its elements are not alike.
    """
    try:
        found = _MEMBERS.decode(raw)
        return {
            name: (_first_elements(bytes(value), room, least) if name in lists else None) or parse_checked(bytes(value))
            for name, value in found.items()
        }
    except (msgspec.MsgspecError, RecursionError):
        return parse_checked(raw)


def _first_elements(raw: bytes, room: int, least: int) -> JsonValue:
    """None where no end of an element was found. What is JSON with a bracket behind it was cut between two elements."""
    ending = b"}," if raw[1:2] == b"{" else b'",'
    at = raw.find(ending, room)
    if not raw.startswith(b"[") or at < 0:
        return None
    try:
        found: list[JsonValue] = msgspec.json.decode(raw[: at + 1] + b"]")
    except ValueError:
        return None
    return found if len(found) >= least else None


def check_json(raw: bytes) -> None:
    """Raises Untrusted for bytes that no reader may keep even as a slice. Says nothing about syntax.

    Cheap for what is ordinary: nothing is decoded unless the bytes look suspicious.
    """
    if not raw.isascii():
        decode_utf8(raw)
    if _is_deep(raw):
        raise Untrusted(f"nested deeper than {DEPTH}")
    if len(raw) > DIGITS and _has_long_number(raw):
        parse_json(raw)


def object_slices(raw: bytes) -> dict[str, bytes]:
    """The members of the JSON object in `raw`, each value as its own bytes. The last of a repeated key wins."""
    text = decode_utf8(raw)
    try:
        return {key: bytes(value) for key, value in _MEMBERS.decode(raw).items()}
    except (msgspec.MsgspecError, RecursionError):
        return _members(text.rstrip(_WHITESPACE))


def array_slices(raw: bytes) -> list[bytes]:
    """The elements of the JSON array in `raw`, each as its own bytes."""
    text = decode_utf8(raw)
    try:
        return [bytes(value) for value in _ELEMENTS.decode(raw)]
    except (msgspec.MsgspecError, RecursionError):
        return _elements(text.rstrip(_WHITESPACE))


def join_object(found: dict[str, bytes]) -> bytes:
    """The JSON object that has these members, the inverse of `members`."""
    return b"{" + b",".join(json.dumps(key).encode() + b":" + value for key, value in found.items()) + b"}"


def dump_json(value: JsonValue) -> bytes:
    """JSON of a tamed value: what UTF-8 or 64 bits cannot hold is written with escapes and digits."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value, separators=(",", ":")).encode()


def visible(text: str) -> str:
    """`text` with lone surrogates written as \\udxxx, so that it can be encoded; the rest untouched."""
    return text.encode("utf-8", "backslashreplace").decode()


def _lenient(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except RecursionError:
        raise Untrusted(f"nested deeper than {DEPTH}") from None
    except json.JSONDecodeError as error:
        raise Untrusted(f"not JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:
        raise Untrusted(f"not readable: {error}") from None
    return value


def _is_deep(raw: bytes) -> bool:
    """The running sum of opened and closed brackets; those inside strings do not count.

    Innermost pairs go first, all at once: what is ordinary is gone after a few rounds and need not be summed.
    A round that takes hardly anything is a sign of depth, and 100 of them would take longer than the sum.
    """
    if len(raw) <= DEPTH or len(raw.translate(None, _NOT_OPENING)) <= DEPTH:
        return False
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    structure = unescaped.translate(None, _NOT_STRUCTURE)
    # Two quotes that meet may go: every bracket stays as far inside or outside of a string as it was.
    outside = b"".join(structure.replace(b'""', b"").split(b'"')[::2])
    left, is_flat, rounds = outside, True, 0
    while left and is_flat and rounds < DEPTH // 2:  # a round takes two levels at most
        before, left = left, left.replace(b"[]", b"").replace(b"{}", b"")
        is_flat, rounds = len(left) * 8 <= len(before) * 7, rounds + 1
    steps = memoryview(outside.translate(_STEPS)).cast("b")
    return bool(left) and max(accumulate(steps), default=0) > DEPTH


def _has_long_number(raw: bytes) -> bool:
    """A run of that many digits covers at least one of the positions that are looked at."""
    for at in range(DIGITS, len(raw), DIGITS + 1):
        if raw[at : at + 1].isdigit() and (raw[at - 64 : at].isdigit() or raw[at : at + 64].isdigit()):
            return _LONG_NUMBER.search(raw) is not None
    return False


def _members(text: str) -> dict[str, bytes]:
    at = _open(text, "{", "object")
    found: dict[str, bytes] = {}
    while text[at : at + 1] != "}":
        key, at = _key(text, at)
        end = _value_end(text, at)
        found[key] = text[at:end].encode()
        at = _next(text, end, "}")
    _close(text, at)
    return found


def _elements(text: str) -> list[bytes]:
    at = _open(text, "[", "array")
    found: list[bytes] = []
    while text[at : at + 1] != "]":
        end = _value_end(text, at)
        found.append(text[at:end].encode())
        at = _next(text, end, "]")
    _close(text, at)
    return found


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _open(text: str, bracket: str, kind: str) -> int:
    at = _skip(text, 0)
    if text[at : at + 1] != bracket:
        found = "NUL bytes, a hole that a crash or a full disk left" if text.startswith("\0") else ""
        raise Untrusted(f"expected a JSON {kind}" + (f", found {found}" if found else ""))
    return _skip(text, at + 1)


def _key(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        raise Untrusted(f"expected a key at character {at}")
    try:
        key, end = scanstring(text, at + 1)
    except json.JSONDecodeError as error:
        raise Untrusted(f"not JSON: {error.msg} at character {error.pos}") from None
    at = _skip(text, end)
    if text[at : at + 1] != ":":
        raise Untrusted(f"expected ':' at character {at}")
    return key, _skip(text, at + 1)


def _value_end(text: str, at: int) -> int:
    try:
        return _DECODER.raw_decode(text, at)[1]
    except RecursionError:
        raise Untrusted(f"nested deeper than {DEPTH}") from None
    except json.JSONDecodeError as error:
        raise Untrusted(f"not JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:
        raise Untrusted(f"not readable: {error}") from None


def _next(text: str, at: int, bracket: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] == bracket:
        return at
    if text[at : at + 1] != ",":
        raise Untrusted(f"expected ',' or '{bracket}' at character {at}")
    at = _skip(text, at + 1)
    if text[at : at + 1] == bracket:
        raise Untrusted(f"nothing between ',' and '{bracket}' at character {at}")
    return at


def _close(text: str, at: int) -> None:
    end = _skip(text, at + 1)
    if end != len(text):
        raise Untrusted(f"more after the end of the JSON value at character {end}")

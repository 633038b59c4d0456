"""Hashes of JSON values: RFC 8785 bytes, sha256, and the name of the scheme beside each hash.

    jcs        RFC 8785
    jcs+exact  the same, for the two things that RFC 8785 refuses and recordings do hold: a whole number
               beyond 2**53 - 1 is written with all its digits, a lone surrogate as its \\uXXXX escape

A value has one scheme, never a choice. NaN and the infinities are no JSON and have no hash at all.
Within a scheme equal bytes mean equal values: 2**53 and 2**53 + 1 differ, and the escape of a lone
surrogate cannot be confused with a text that spells it, since a backslash is itself escaped.
"""

from __future__ import annotations

import hashlib
import re
from typing import Literal, TypeAlias

import rfc8785

from envelopes.schema.result import JsonValue

Scheme: TypeAlias = Literal["jcs", "jcs+exact"]

LARGEST_SAFE_INTEGER = 2**53 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")
# A hash that travels alone names its scheme; plain `sha256:` is RFC 8785 (spec/action-plan.md OD-29).
_PREFIXES: dict[Scheme, str] = {"jcs": "sha256", "jcs+exact": "sha256+exact"}


class NotCanonical(ValueError):
    """A value without canonical bytes: NaN, an infinity, a key that is no string, no JSON type."""


def canonical_bytes(value: JsonValue) -> tuple[Scheme, bytes]:
    """The scheme that `value` needs and its bytes under it. Raises NotCanonical."""
    try:
        return "jcs", rfc8785.dumps(value)
    except ValueError:  # CanonicalizationError, and UnicodeEncodeError for a key
        return "jcs+exact", _exact(value)


def hash_value(value: JsonValue) -> tuple[Scheme, str]:
    """Scheme and lower-case sha256. Two hashes compare only under the same scheme. Raises NotCanonical."""
    scheme, content = canonical_bytes(value)
    return scheme, hashlib.sha256(content).hexdigest()


def named_hash(value: JsonValue) -> str:
    """`sha256:<hex>`, or `sha256+exact:<hex>` where RFC 8785 refuses the value. Raises NotCanonical."""
    scheme, digest = hash_value(value)
    return f"{_PREFIXES[scheme]}:{digest}"


def args_hash(args: dict[str, JsonValue]) -> str:
    """CALL-017 and CALL-080: over the arguments as they were dispatched, references resolved."""
    return named_hash(args)


def _exact(value: JsonValue) -> bytes:
    match value:
        case dict():
            members = [(_key(key), member) for key, member in value.items()]
            members.sort(key=lambda pair: pair[0].encode("utf-16be", "surrogatepass"))
            return b"{" + b",".join(_text(key) + b":" + _exact(member) for key, member in members) + b"}"
        case list() | tuple():
            return b"[" + b",".join(map(_exact, value)) + b"]"
        case str():
            return _text(value)
        case int() | float() if abs(value) > LARGEST_SAFE_INTEGER:
            return _digits(value)
    try:
        return rfc8785.dumps(value)
    except ValueError as error:
        raise NotCanonical(str(error)) from None


def _digits(value: int | float) -> bytes:
    """A float's exact digits too: its shortest form may look like another whole number's."""
    try:
        return str(int(value)).encode()
    except (OverflowError, ValueError) as error:  # an infinity; more digits than Python converts
        raise NotCanonical(str(error)) from None


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise NotCanonical("object keys must be strings")
    return key


def _text(text: str) -> bytes:
    """Between the surrogates RFC 8785 writes the text; what it escapes needs no look at the neighbours."""
    written = b""
    at = 0
    for found in _SURROGATE.finditer(text):
        written += rfc8785.dumps(text[at : found.start()])[1:-1] + f"\\u{ord(found[0]):04x}".encode()
        at = found.end()
    return b'"' + written + rfc8785.dumps(text[at:])[1:-1] + b'"'

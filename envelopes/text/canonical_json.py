"""Hashes of JSON values: RFC 8785 bytes, sha256, and the name of the scheme beside each hash.

    jcs        RFC 8785
    jcs+exact  the same for two things that RFC 8785 refuses and recordings do hold: a whole number
               beyond 2**53 - 1 is written with all its digits, a lone surrogate as its \\uXXXX escape

A value has exactly one scheme. NaN and the infinities are not JSON and have no hash. Within a scheme equal
bytes mean equal values: 2**53 and 2**53 + 1 differ, and the escape of a lone surrogate differs from a text
that spells it, because a backslash is itself escaped.
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
# A hash that is stored alone names its scheme; plain `sha256:` is RFC 8785 (OD-29).
_PREFIXES: dict[Scheme, str] = {"jcs": "sha256", "jcs+exact": "sha256+exact"}


class NotCanonical(ValueError):
    """A value without canonical bytes: NaN, an infinity, a key that is not a string, not a JSON type."""


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
    """`sha256:<hex>`, or `sha256+exact:<hex>` where RFC 8785 refuses the value. Raises NotCanonical.

    The hash of a call's arguments is this one, over the arguments as they were dispatched (CALL-017, CALL-080).
    """
    scheme, digest = hash_value(value)
    return f"{_PREFIXES[scheme]}:{digest}"


def _exact(value: JsonValue) -> bytes:
    match value:
        case dict():
            if not all(isinstance(key, str) for key in value):
                raise NotCanonical("object keys must be strings")
            members = sorted(value.items(), key=lambda member: member[0].encode("utf-16be", "surrogatepass"))
            return b"{" + b",".join(_exact_text(key) + b":" + _exact(member) for key, member in members) + b"}"
        case list() | tuple():
            return b"[" + b",".join(map(_exact, value)) + b"]"
        case str():
            return _exact_text(value)
        case int() | float() if abs(value) > LARGEST_SAFE_INTEGER:
            try:
                return str(int(value)).encode()  # a float's shortest form may be another number's digits
            except (OverflowError, ValueError) as error:  # an infinity; more digits than Python converts
                raise NotCanonical(str(error)) from None
    try:
        return rfc8785.dumps(value)
    except ValueError as error:
        raise NotCanonical(str(error)) from None


def _exact_text(text: str) -> bytes:
    """RFC 8785 between the surrogates: what it escapes does not depend on the neighbours."""
    encoded = b""
    at = 0
    for surrogate in _SURROGATE.finditer(text):
        encoded += rfc8785.dumps(text[at : surrogate.start()])[1:-1] + f"\\u{ord(surrogate[0]):04x}".encode()
        at = surrogate.end()
    return b'"' + encoded + rfc8785.dumps(text[at:])[1:-1] + b'"'

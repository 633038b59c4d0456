"""Lays out JSON text for reading, token by token (RFC-102).

Only the white space between tokens changes: numbers, escapes, the order of names and repeated names
stay as they were written, which decoding and encoding again would not keep.
"""

from __future__ import annotations

import json
import re

INDENT = "  "
_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[{}\[\],:]|[^\s{}\[\],:\"]+", re.DOTALL)
_CLOSING = {"{": "}", "[": "]"}


def laid_out(text: str) -> str | None:
    """`text` with a member or an item on each line; None when it is not one JSON object or array."""
    core = text.strip()
    if core[:1] not in _CLOSING or core[-1:] != _CLOSING[core[:1]]:
        return None
    try:
        json.loads(core)
    except (ValueError, RecursionError):
        return None
    return _indented(_TOKEN.findall(core))


def _indented(tokens: list[str]) -> str:
    pieces: list[str] = []
    depth = 0
    for index, token in enumerate(tokens):
        before = tokens[index - 1] if index else ""
        if token in ("}", "]"):
            depth -= 1
            pieces.append("" if before in _CLOSING else _line(depth))
        elif before in _CLOSING:
            pieces.append(_line(depth))
        pieces.append(token)
        if token in _CLOSING:
            depth += 1
        elif token == ",":
            pieces.append(_line(depth))
        elif token == ":":
            pieces.append(" ")
    return "".join(pieces)


def _line(depth: int) -> str:
    return "\n" + INDENT * depth

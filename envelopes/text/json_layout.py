"""Lays out JSON that stands on one line, so that it can be read and cut by lines (RFC-102).

Only the white space between tokens changes: numbers, escapes, the order of names and repeated names stay as they were
written, which decoding and encoding again would not keep.
"""

from __future__ import annotations

import json
import re

INDENT = "  "
_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[{}\[\],:]|[^\s{}\[\],:\"]+", re.DOTALL)
_CLOSING = {"{": "}", "[": "]"}


def lay_out_line(text: str) -> str | None:
    """`text` laid out when it is one JSON object or array on one line; None for any other text."""
    return None if "\n" in text.strip() else lay_out_json(text)


def lay_out_json(text: str) -> str | None:
    """`text` with a member or an item on each line; None when it is not one JSON object or array."""
    core = text.strip()
    if core[:1] not in _CLOSING or core[-1:] != _CLOSING[core[:1]]:
        return None
    try:
        json.loads(core)
    except (ValueError, RecursionError):
        return None
    parts: list[str] = []
    depth = 0
    before = ""
    for mark in _TOKEN.findall(core):
        if mark in ("}", "]"):
            depth -= 1
            parts.append("" if before in _CLOSING else "\n" + INDENT * depth)
        elif before in _CLOSING:
            parts.append("\n" + INDENT * depth)
        parts.append(mark)
        if mark in _CLOSING:
            depth += 1
        elif mark == ",":
            parts.append("\n" + INDENT * depth)
        elif mark == ":":
            parts.append(" ")
        before = mark
    return "".join(parts)

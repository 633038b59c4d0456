"""The ways of viewing an artifact, chosen by its first bytes and its name. Never as HTML, SVG or Markdown.

The first mode that fits is the default. Text and bytes are always offered, in case another mode was chosen wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

from dashboard.artifacts.window import find_delimiter
from dashboard.text.images import read_image_header
from envelopes.storage.encoding import SNIFFED, decode
from envelopes.storage.json_members import LONGEST_NAME, list_members

JSON_LINES = 6  # lines that are looked at
TABLE_LINES = 5
LONGEST_CHARACTER = 4  # bytes
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")
_DIFF = re.compile(r"^(diff --git |--- [^\n]+\n\+\+\+ |@@ -\d+)", re.MULTILINE)
_TABLE_NAME = re.compile(r"\.(csv|tsv)$", re.IGNORECASE)


@dataclass(frozen=True)
class ViewMode:
    """`fits` gets the first bytes as text, and the name. `has_lines`: its window consists of lines."""

    name: str
    label: str
    fits: Callable[[str, str], bool]
    has_lines: bool = True
    has_text: bool = True


MODES = (
    ViewMode("json", "JSON", lambda head, _name: _is_json(head), has_lines=False),
    ViewMode("jsonl", "JSON lines", lambda head, _name: _is_json_lines(head)),
    ViewMode("ansi", "Terminal", lambda head, _name: bool(_COLOUR.search(head))),
    ViewMode("diff", "Diff", lambda head, _name: bool(_DIFF.search(head))),
    ViewMode("table", "Table", lambda head, name: bool(_TABLE_NAME.search(name)) or _is_table(head)),
    ViewMode("text", "Text", lambda _head, _name: True),
)
TEXT = MODES[-1]
BYTES = ViewMode("hex", "Bytes", lambda _head, _name: True, has_lines=False, has_text=False)
PICTURE = ViewMode("picture", "Picture", lambda _head, _name: True, has_lines=False, has_text=False)


def view_modes(head: bytes, encoding: str, name: str) -> tuple[ViewMode, ...]:
    """The modes that fit content that begins with `head`. `encoding` is empty for what is not text."""
    picture = (PICTURE,) if read_image_header(head) else ()
    if not encoding:
        return (*picture, BYTES, TEXT)
    text = decode(head, encoding)
    # JSON is read as bytes, and is UTF-8 (RFC 8259).
    offered = MODES if encoding == "utf-8" else [mode for mode in MODES if "json" not in mode.name]
    return (*picture, *(mode for mode in offered if mode.fits(text, name)), BYTES)


def pick_mode(modes: tuple[ViewMode, ...], name: str, *, needs_lines: bool) -> ViewMode:
    """The mode `name`, else the first; instead of a JSON tree the first with lines where a line is asked for."""
    named = next((mode for mode in modes if mode.name == name), None)
    if named is None and needs_lines and modes[0].name == "json":
        return next(mode for mode in modes if mode.has_lines)
    return named or modes[0]


def _is_json(head: str) -> bool:
    """True for one object or array with nothing behind it, as far as the head shows.

    One that was cut short qualifies where it has a complete member.
    """
    raw = head.removeprefix("\ufeff").encode("utf-8", "surrogateescape")
    if raw.lstrip()[:1] not in (b"{", b"["):
        return False
    value = list_members(BytesIO(raw), 0)
    if value.end >= 0:
        return not raw[value.end :].strip()
    is_cut_head = len(raw) >= SNIFFED - LONGEST_CHARACTER  # the head of longer content, cut anywhere
    if is_cut_head:
        return value.fault < 0 or value.fault >= len(raw) - LONGEST_NAME
    return value.fault < 0 or (value.fault >= len(raw) and bool(value.members))


def _is_json_lines(head: str) -> bool:
    """True for two lines and more of which each but the last is an object or array."""
    lines = [line for line in head.removeprefix("\ufeff").split("\n")[:JSON_LINES] if line.strip()]
    complete = lines[:-1] or lines
    return len(lines) > 1 and all(line[:1] in ("{", "[") and _is_json(line) for line in complete)


def _is_table(head: str) -> bool:
    """True for three columns and more, the same number in each of the first five lines."""
    lines = head.split("\n")[:TABLE_LINES]
    counts = {line.count(find_delimiter(head)) for line in lines}
    is_json = head.lstrip().startswith(("{", "["))
    return len(lines) == TABLE_LINES and len(counts) == 1 and min(counts) >= 2 and not is_json

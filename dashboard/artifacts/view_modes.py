"""In which forms an artifact can be looked at, by what its first bytes are. Never as HTML, SVG or Markdown.

The first that fits is the one that opens. Text and bytes are always offered, so that nothing hides
behind a form that was chosen wrongly. A tree has no lines: who asks for a line gets the first form that has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO

from dashboard.artifacts.content import Content
from dashboard.artifacts.picture import picture_of
from dashboard.artifacts.window import delimiter_of
from envelopes.storage.encoding import SNIFFED, decode
from envelopes.storage.json_members import LONGEST_NAME, list_members

LINES = 6
LONGEST_CHARACTER = 4  # bytes
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")
_DIFF = re.compile(r"^(diff --git |--- [^\n]+\n\+\+\+ |@@ -\d+)", re.MULTILINE)
_TABLE_NAME = re.compile(r"\.(csv|tsv)$", re.IGNORECASE)


@dataclass(frozen=True)
class Form:
    """`fits` looks at the first bytes as text, and at the name. `has_lines`: what it shows is a window of lines."""

    name: str
    label: str
    fits: Callable[[str, str], bool]
    has_lines: bool = True
    has_text: bool = True


FORMS = (
    Form("json", "JSON", lambda head, _name: _is_json(head), has_lines=False),
    Form("jsonl", "JSON lines", lambda head, _name: _is_json_lines(head)),
    Form("ansi", "Terminal", lambda head, _name: bool(_COLOUR.search(head))),
    Form("diff", "Diff", lambda head, _name: bool(_DIFF.search(head))),
    Form("table", "Table", lambda head, name: bool(_TABLE_NAME.search(name)) or _is_table(head)),
    Form("text", "Text", lambda _head, _name: True),
)
TEXT = next(form for form in FORMS if form.name == "text")
BYTES = Form("hex", "Bytes", lambda _head, _name: True, has_lines=False, has_text=False)
PICTURE = Form("picture", "Picture", lambda _head, _name: True, has_lines=False, has_text=False)


def forms_of(content: Content, name: str) -> tuple[Form, ...]:
    return forms_of_head(content.head, content.encoding.name, name)


def forms_of_head(head: bytes, encoding: str, name: str) -> tuple[Form, ...]:
    """`encoding` is empty for what is no text."""
    picture = (PICTURE,) if picture_of(head) else ()
    if not encoding:
        return (*picture, BYTES, TEXT)
    text = decode(head, encoding)
    # A tree reads bytes, and JSON is UTF-8 (RFC 8259).
    offered = FORMS if encoding == "utf-8" else [form for form in FORMS if "json" not in form.name]
    return (*picture, *(form for form in offered if form.fits(text, name)), BYTES)


def chosen(forms: tuple[Form, ...], name: str, *, is_place: bool) -> Form:
    """The one that is named, else the first; the first with lines where a place in them is asked for."""
    named = next((form for form in forms if form.name == name), None)
    if named is None and is_place and forms[0].name == "json":
        return next(form for form in forms if form.has_lines)
    return named or forms[0]


def _is_json(head: str) -> bool:
    """One object or array, as far as its first members are within the head, and nothing behind it.

    One that is cut short is unfolded where it has a member that is whole.
    """
    raw = head.removeprefix("\ufeff").encode("utf-8", "surrogateescape")
    if raw.lstrip()[:1] not in (b"{", b"["):
        return False
    found = list_members(BytesIO(raw), 0)
    if found.end >= 0:
        return not raw[found.end :].strip()
    is_long = len(raw) >= SNIFFED - LONGEST_CHARACTER  # and so the head of something longer, cut anywhere
    if is_long:
        return found.fault < 0 or found.fault >= len(raw) - LONGEST_NAME
    return found.fault < 0 or (found.fault >= len(raw) and bool(found.members))


def _is_json_lines(head: str) -> bool:
    """Two lines and more, of which the first are an object or an array each."""
    lines = [line for line in head.removeprefix("\ufeff").split("\n")[:LINES] if line.strip()]
    whole = lines[:-1] or lines
    return len(lines) > 1 and all(line[:1] in ("{", "[") and _is_json(line) for line in whole)


def _is_table(head: str) -> bool:
    """Three columns and more, the same number in the first five lines."""
    lines = head.split("\n")[:5]
    counts = {line.count(delimiter_of(head)) for line in lines}
    return len(lines) == 5 and len(counts) == 1 and min(counts) >= 2 and not head.lstrip().startswith(("{", "["))

"""In which forms an artifact can be looked at, by what its first bytes are. Never as HTML, SVG or Markdown.

The first that fits is the one that opens. Text and bytes are always offered, so that nothing hides
behind a form that was chosen wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from dashboard.artifacts.content import Content
from dashboard.artifacts.picture import picture_of
from dashboard.artifacts.window import delimiter_of
from envelopes.text_encoding import decode

_COLOUR = re.compile("\x1b\\[[0-9;:]*m")
_DIFF = re.compile(r"^(diff --git |--- [^\n]+\n\+\+\+ |@@ -\d+)", re.MULTILINE)
_TABLE_NAME = re.compile(r"\.(csv|tsv)$", re.IGNORECASE)


@dataclass(frozen=True)
class Form:
    """`fits` looks at the first bytes as text, and at the name."""

    name: str
    label: str
    fits: Callable[[str, str], bool]


FORMS = (
    Form("ansi", "Terminal", lambda head, _name: bool(_COLOUR.search(head))),
    Form("diff", "Diff", lambda head, _name: bool(_DIFF.search(head))),
    Form("table", "Table", lambda head, name: bool(_TABLE_NAME.search(name)) or _is_table(head)),
    Form("text", "Text", lambda _head, _name: True),
)
TEXT = next(form for form in FORMS if form.name == "text")
BYTES = Form("hex", "Bytes", lambda _head, _name: True)
PICTURE = Form("picture", "Picture", lambda _head, _name: True)


def forms_of(content: Content, name: str) -> tuple[Form, ...]:
    picture = (PICTURE,) if picture_of(content.head) else ()
    if not content.encoding.name:
        return (*picture, BYTES, TEXT)
    head = decode(content.head, content.encoding.name)
    return (*picture, *(form for form in FORMS if form.fits(head, name)), BYTES)


def _is_table(head: str) -> bool:
    """Three columns and more, the same number in the first five lines."""
    lines = head.split("\n")[:5]
    counts = {line.count(delimiter_of(head)) for line in lines}
    return len(lines) == 5 and len(counts) == 1 and min(counts) >= 2 and not head.lstrip().startswith(("{", "["))

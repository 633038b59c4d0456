"""What a person reads from our markup: its text, with marked characters back in their places."""

from __future__ import annotations

import html
import re

MARK = re.compile(r'<i class="mark" data-code="(\d+)">.*?</i>')
TAG = re.compile(r"<[^>]*>")


def text_of(markup: str) -> str:
    pieces = MARK.split(markup)
    shown = [html.unescape(TAG.sub("", piece)) for piece in pieces[::2]]
    marked = [chr(int(code)) for code in pieces[1::2]] + [""]
    return "".join(text + mark for text, mark in zip(shown, marked, strict=True))

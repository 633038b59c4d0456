"""Decides which outputs are laid out as JSON, for projections, receipts and ReadArtifact alike (RFC-102, RFC-153).

A marker counts lines of the layout, so ReadArtifact has to lay out what the projection has laid out, and nothing else.
Such an output is one object or array on its first and only line, of at most 8 MiB. A byte order mark before it is left
out. A receipt alone shows a string as its text where that has line breaks, since these are escaped in JSON.
"""

from __future__ import annotations

import json

from envelopes.text.json_layout import lay_out_json
from envelopes.text.preview import FileText

LAID_OUT = "json"  # the value of `<output>_layout`
JSON_LAID_OUT = " (JSON, laid out for reading)"  # behind the title of such an output
JSON_STRING = " (a JSON string, shown as its text)"
LAID_OUT_BYTES = 8 * 1024 * 1024  # JSON on a longer line is read as it stands
BYTE_ORDER_MARK = "\ufeff"


def lay_out_output(output: str | FileText) -> str | None:
    """The layout of an output that is one JSON object or array on one line; None for any other.

    A file is laid out where its beginning and its end are all of it.
    """
    text = output if isinstance(output, str) else _read_whole(output)
    if text is None or "\n" in text.rstrip() or not begins_as_json(text):
        return None
    is_long = len(text) > LAID_OUT_BYTES or len(text.encode("utf-8", "surrogatepass")) > LAID_OUT_BYTES
    return None if is_long else lay_out_json(_core(text))


def read_document(text: str) -> tuple[str, str] | None:
    """One JSON document, on however many lines, laid out, and the words behind its title; None for any other text."""
    core = _core(text)
    is_string = core.startswith('"')
    readable = _decode_string(core) if is_string else lay_out_json(core)
    return None if readable is None else (readable, JSON_STRING if is_string else JSON_LAID_OUT)


def begins_as_json(beginning: str) -> bool:
    """False where no text that begins so is laid out. Blanks alone may be the beginning of one that is."""
    return _core(beginning)[:1] in ("", "{", "[")


def _core(text: str) -> str:
    return text.strip().removeprefix(BYTE_ORDER_MARK).lstrip()


def _decode_string(core: str) -> str | None:
    """The text of a JSON string that has line breaks; None where a character of it could command a terminal."""
    try:
        text = json.loads(core)
    except ValueError:
        return None
    lines = text.replace("\t", " ").split("\n")
    return text if len(lines) > 1 and all(line.isprintable() for line in lines) else None


def _read_whole(file: FileText) -> str | None:
    """The text of a file whose two ends are all of it, or None."""
    text, _ = file.ends
    return text if file.is_text and len(text) >= file.characters else None

"""The formats that can be read. A module that is not listed here fails a test."""

from __future__ import annotations

from envelopes.recordings import audit, claude_code
from envelopes.recordings.base import Format, SourcePath

RECORDINGS: tuple[Format, ...] = (*claude_code.FORMATS, *audit.FORMATS)


class UnknownFormat(ValueError):
    """No reader recognises the beginning of a file."""


def detect_format(head: bytes, place: SourcePath) -> Format:
    """The first format that recognises `head`, the first 64 KiB of a file. Raises UnknownFormat."""
    for candidate in RECORDINGS:
        if candidate.sniff(head, place):
            return candidate
    raise UnknownFormat(f"not a recording that can be read ({', '.join(f.name for f in RECORDINGS)})")


def find_format(name: str) -> Format:
    """Raises UnknownFormat with the names that there are."""
    for candidate in RECORDINGS:
        if candidate.name == name:
            return candidate
    raise UnknownFormat(f"no format {name!r}; there are {', '.join(f.name for f in RECORDINGS)}")

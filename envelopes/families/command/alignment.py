"""Where the characters of Claude Code's command receipts come from.

    Bash        stdout without leading blank lines, a newline, stderr; trimmed as JavaScript trims
    too long    `<persisted-output>` with a preview of the head, or `... [40 lines truncated] ...`
                between head and tail
    Exit code   the recorded string without its `Error: `
    BashOutput  one tag a field

What the runtime adds (the background sentence, reminders) is linked only where it holds a field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from envelopes.alignment import Span, match_once
from envelopes.failures import align_failure, recorded_offset
from envelopes.families.command.claude_code import PERSISTED
from envelopes.foreign import Evidence
from envelopes.result import JsonValue

JS_SPACE = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
LEADING_BLANK_LINES = re.compile(rf"(?:[{JS_SPACE}]*\n)+")
TRAILING_SPACE = re.compile(rf"[{JS_SPACE}]+\Z")
LEADING_SPACE = re.compile(rf"[{JS_SPACE}]+")
INLINE_CUT = re.compile(r"\n\n\.\.\. \[(\d+) (lines|characters) truncated\] \.\.\.(?:\n\n|\Z)")

BACKGROUND_TAGS = (("status", "/status"), ("exit_code", "/exitCode"), ("stdout", "/stdout"), ("stderr", "/stderr"))


class Piece(msgspec.Struct, frozen=True):
    """Characters [start, end) of the string at `pointer`, which begin at `at` in what the model got."""

    pointer: str
    start: int
    end: int
    at: int


class Written(msgspec.Struct, frozen=True):
    """What the agent had to say before it shortened anything."""

    text: str
    pieces: tuple[Piece, ...]

    def spans(self, at: int, start: int, end: int) -> Iterator[Span]:
        """Characters [start, end) of `text` stand at `at` in the receipt."""
        for piece in self.pieces:
            low, high = max(start, piece.at), min(end, piece.at + piece.end - piece.start)
            if low < high:
                offset = piece.start - piece.at
                yield Span(at + low - start, at + high - start, piece.pointer, low + offset, high + offset)


def align_command(evidence: Evidence, text: str) -> list[Span]:
    written = _written(evidence.result)
    spans = _placed(written, text) if written.text else []
    return spans + _named(evidence.result, text, after=max((span.end for span in spans), default=0)) or align_failure(
        evidence, text
    )


def align_background(evidence: Evidence, text: str) -> list[Span]:
    """`<status>…</status>`, an empty line, `<exit_code>…</exit_code>` and so on, in this order."""
    if not isinstance(evidence.result, dict):
        return align_failure(evidence, text)
    spans: list[Span] = []
    at = 0
    for tag, pointer in BACKGROUND_TAGS:
        found = _tagged(text, at, tag, pointer, evidence.result.get(pointer[1:]))
        if found is not None:
            spans.append(found)
            at = text.index(f"</{tag}>", found.end) + len(f"</{tag}>\n\n")
    return spans


def _written(result: JsonValue) -> Written:
    if isinstance(result, str):
        return _joined([("", recorded_offset(result), len(result))], {"": result})
    if not isinstance(result, dict):
        return Written("", ())
    values = {f"/{name}": text for name in ("stdout", "stderr") if isinstance(text := result.get(name), str)}
    trimmed = [(pointer, *_trim(pointer, text)) for pointer, text in values.items()]
    return _joined([(pointer, start, end) for pointer, start, end in trimmed if start < end], values)


def _trim(pointer: str, text: str) -> tuple[int, int]:
    leading = (LEADING_BLANK_LINES if pointer == "/stdout" else LEADING_SPACE).match(text)
    trailing = TRAILING_SPACE.search(text)
    return leading.end() if leading else 0, trailing.start() if trailing else len(text)


def _joined(ranges: list[tuple[str, int, int]], values: dict[str, str]) -> Written:
    pieces: list[Piece] = []
    text = ""
    for pointer, start, end in ranges:
        text += "\n" if pieces else ""
        pieces.append(Piece(pointer, start, end, len(text)))
        text += values[pointer][start:end]
    return Written(text, tuple(pieces))


def _placed(written: Written, text: str) -> list[Span]:
    """Whole, or the head in a preview, or head and tail around a cut; else nothing."""
    if _stands(text, 0, written.text):
        return list(written.spans(0, 0, len(written.text)))
    if persisted := PERSISTED.match(text):
        shown = persisted["preview"]
        known = shown and written.text.startswith(shown)
        return list(written.spans(persisted.start("preview"), 0, len(shown))) if known else []
    return _around_a_cut(written, text)


def _around_a_cut(written: Written, text: str) -> list[Span]:
    for found in INLINE_CUT.finditer(text):
        head, tail = text[: found.start()], text[found.end() :]
        begin = len(written.text) - len(tail)
        if begin >= len(head) and written.text.startswith(head) and written.text.endswith(tail):
            last = written.spans(found.end(), begin, len(written.text))
            return [*written.spans(0, 0, len(head)), *last]
    return []


def _named(result: JsonValue, text: str, *, after: int) -> list[Span]:
    """The task's id and the saved file's path in the sentences that the runtime adds."""
    if not isinstance(result, dict):
        return []
    sentences = (
        ("/backgroundTaskId", "ID: {}", after),
        ("/persistedOutputPath", "saved to: {}\n", 0),
    )
    spans = []
    for pointer, sentence, start in sentences:
        value = result.get(pointer[1:])
        said = sentence.format(value) if isinstance(value, str) and value else ""
        if found := match_once(text, said, pointer, start=start):
            begin = found.start + sentence.index("{")
            spans.append(Span(begin, begin + len(said) - len(sentence) + 2, pointer, 0, len(said) - len(sentence) + 2))
    return spans


def _stands(text: str, at: int, value: str) -> bool:
    end = at + len(value)
    return text.startswith(value, at) and (end == len(text) or text[end] == "\n")


def _tagged(text: str, at: int, tag: str, pointer: str, value: JsonValue) -> Span | None:
    if value is None or isinstance(value, list | dict):
        return None
    start, end = _trim("/stderr", value) if isinstance(value, str) else (0, 0)
    shown = value[start:end] if isinstance(value, str) else str(value)
    for opening, closing in ((f"<{tag}>", f"</{tag}>"), (f"<{tag}>\n", f"\n</{tag}>")):
        if shown and text.startswith(opening + shown + closing, at):
            begin = at + len(opening)
            return Span(begin, begin + len(shown), pointer, start, end)
    return None

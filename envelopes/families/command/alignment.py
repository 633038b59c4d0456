"""Where the characters of Claude Code's command receipts come from.

    Bash        stdout without leading blank lines, a newline, stderr; trimmed as JavaScript trims;
                or one of the two alone, where nothing else is said
    too long    `<persisted-output>` with a preview of the head, or `... [40 lines truncated] ...`
                between head and tail
    Exit code   the recorded string without its `Error: `
    BashOutput  one tag a field

What the runtime adds (the background sentence, reminders) is linked only where it holds a field.
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, error_prefix_length
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence
from envelopes.alignment.spans import ComposedPiece, ComposedText, Span, match_once, match_prefix
from envelopes.families.command.claude_code import EXIT_CODE, PERSISTED
from envelopes.schema.result import JsonValue

JS_SPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
LEADING_BLANK_LINES = re.compile(rf"(?:[{JS_SPACE}]*\n)+")
LEADING_SPACE = re.compile(rf"[{JS_SPACE}]+")
INLINE_CUT = re.compile(r"\n\n\.\.\. \[(\d+) (lines|characters) truncated\] \.\.\.(?:\n\n|\Z)")

BACKGROUND_TAGS = (("status", "/status"), ("exit_code", "/exitCode"), ("stdout", "/stdout"), ("stderr", "/stderr"))


def align_command(evidence: Evidence, text: str) -> list[Span]:
    written = _written(evidence.result)
    spans = (_placed(written, text) or _alone(evidence.result, text)) if written.text else []
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


def _written(result: JsonValue) -> ComposedText:
    """What the agent had to say before it shortened anything."""
    if isinstance(result, str):
        offset = error_prefix_length(result)
        exited = EXIT_CODE.match(result, offset)
        output = exited.end() if exited else offset
        line = [ComposedPiece("", result[offset:output], offset)] if output > offset else []
        return ComposedText([*line, ComposedPiece("", result[output:], output)])
    pieces: list[ComposedPiece] = []
    for one in _streams(result):
        pieces += [ComposedPiece(None, "\n")] if pieces else []
        pieces.append(one)
    return ComposedText(pieces)


def _streams(result: JsonValue) -> list[ComposedPiece]:
    """What stdout and stderr say, trimmed; without those that say nothing."""
    recorded = RecordedObject(result)
    texts = [(pointer, recorded.text(pointer[1:]) or "") for pointer in ("/stdout", "/stderr")]
    trimmed = [(pointer, text, *_trim(pointer, text)) for pointer, text in texts]
    return [ComposedPiece(pointer, text[start:end], start) for pointer, text, start, end in trimmed if start < end]


def _alone(result: JsonValue, text: str) -> list[Span]:
    """Some runtimes leave a stream out. A receipt that is the other one, to the character, comes from there."""
    said = next((one for one in _streams(result) if one.text == text), None) if isinstance(result, dict) else None
    return list(ComposedText([said]).spans(0, 0, len(text))) if said else []


def _trim(pointer: str, text: str) -> tuple[int, int]:
    leading = (LEADING_BLANK_LINES if pointer == "/stdout" else LEADING_SPACE).match(text)
    return leading.end() if leading else 0, len(text.rstrip(JS_SPACE))


def _placed(written: ComposedText, text: str) -> list[Span]:
    """Whole, or the head in a preview, or head and tail around a cut; else nothing."""
    if _stands(text, 0, written.text):
        return list(written.spans(0, 0, len(written.text)))
    if persisted := PERSISTED.match(text):
        shown = persisted["preview"]
        known = shown and written.text.startswith(shown)
        return list(written.spans(persisted.start("preview"), 0, len(shown))) if known else []
    return _around_a_cut(written, text)


def _around_a_cut(written: ComposedText, text: str) -> list[Span]:
    """Before the marker the receipt must be the beginning of the output, behind it its end."""
    marks = list(INLINE_CUT.finditer(text))
    head = _shared(text, written.text) if marks else 0
    tail = _shared(text[::-1], written.text[::-1]) if marks else 0
    for found in marks:
        behind = len(text) - found.end()
        if found.start() <= head and behind <= tail and found.start() + behind <= len(written.text):
            last = written.spans(found.end(), len(written.text) - behind, len(written.text))
            return [*written.spans(0, 0, found.start()), *last]
    return []


def _shared(text: str, value: str) -> int:
    common = match_prefix(text, 0, value, "")
    return common.end if common else 0


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

"""Receipts of OpenHands, which its SDK computes from the recorded observation of a tool, and where they come from.

An observation has `content`, a list of texts and images. Its receipt is these texts, one part each, behind a header
where the call failed. Of a text that is too long the beginning and the end are sent, around a notice:

    <response clipped><NOTE>Due to the max output limit, … shown to you.</NOTE>
    <response clipped><NOTE>Due to … The complete output has been saved to P - you can use … around line 7).</NOTE>

Tools shorten their own texts with the same notice before they are recorded. A model without native tool calls gets
`EXECUTION RESULT of [tool]:` before the first text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

import msgspec

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, OutputField, Reading
from envelopes.alignment.spans import ComposedPiece, ComposedText, Span

AGENT = "openhands"
TEXT = "/content/0/text"
FAILED = "[An error occurred during execution.]\n"
TEXT_LIMIT, TERMINAL_LIMIT = 50_000, 30_000  # characters
_NOTICE = (
    "<response clipped><NOTE>Due to the max output limit, only part of the full response has been shown to you.</NOTE>"
)
_SAVED = _NOTICE.removesuffix("</NOTE>") + (
    " The complete output has been saved to {path} - you can use other tools to view the full content "
    "(truncated part starts around line {line}).</NOTE>"
)
CLIPPED = re.compile(
    r"<response clipped><NOTE>Due to the max output limit, only part of the full response has been shown to you\."
    r"(?: The complete output has been saved to (?P<path>[^\n]+?) - you can use other tools [^\n]*? around line "
    r"\d{1,9}\)\.)?</NOTE>"
)
_RESULT = "EXECUTION RESULT of [{tool}]:\n"


def name_result(tool: str) -> str:
    """The line before a receipt that goes to a model without native tool calls."""
    return _RESULT.format(tool=tool)


def shorten(text: str, limit: int, folder: str | None = None, tool: str = "output") -> str:
    """A text as it is sent; `folder` is where the whole of it was saved first."""
    if len(text) <= limit:
        return text
    room = limit - len(_NOTICE)
    head = room // 2 + room % 2
    notice = _NOTICE
    if folder:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        path, line = f"{folder.rstrip('/')}/{tool}_output_{digest}.txt", len(text[:head].splitlines()) + 1
        notice = _SAVED.format(path=path, line=line)
    head = min(head, limit - len(notice))
    tail = limit - len(notice) - head
    return text[:head] + notice + text[len(text) - tail :]


def recorded_texts(evidence: Evidence) -> dict[str, str]:
    """The texts of an observation by their pointers."""
    blocks = enumerate(RecordedObject(evidence.result).items("content"))
    texts = {f"/content/{index}/text": block.text("text") for index, block in blocks}
    return {pointer: text for pointer, text in texts.items() if text is not None}


def find_text_outputs(evidence: Evidence) -> tuple[OutputField, ...]:
    return tuple(OutputField(pointer) for pointer, text in recorded_texts(evidence).items() if text.strip())


def read_text_with(read: Callable[[Evidence], Reading], *, start: int = 0) -> Callable[[Evidence], Reading]:
    """A reading of observations by one of texts; it gets the first text, from character `start`, as the result."""

    def read_observation(evidence: Evidence) -> Reading:
        text = recorded_texts(evidence).get(TEXT)
        if text is None or evidence.is_error:
            return read_failure(evidence) or read(evidence)
        read_text = read(msgspec.structs.replace(evidence, result=text[start:]))
        fidelity = "structured" if read_text.fidelity == "stringified" else read_text.fidelity
        return msgspec.structs.replace(
            read_text,
            fidelity=fidelity,
            links={TEXT + pointer: field for pointer, field in read_text.links.items()},
            outputs=tuple(
                msgspec.structs.replace(field, pointer=TEXT, start=start + field.start) for field in read_text.outputs
            ),
            source_cuts=tuple(msgspec.structs.replace(cut, pointer=TEXT) for cut in read_text.source_cuts),
        )

    return read_observation


def align_observation(evidence: Evidence, text: str) -> list[Span]:
    """Links a text part to the recorded text that it is, whole or clipped; where two fit, to none."""
    composed = [ComposedText([ComposedPiece(pointer, value)]) for pointer, value in recorded_texts(evidence).items()]
    found = [spans for whole in composed if (spans := match_sent(evidence, text, whole))]
    if not found and not evidence.has_result:
        return align_failure(evidence, text)
    return found[0] if len(found) == 1 else []


def match_sent(evidence: Evidence, text: str, composed: ComposedText) -> list[Span]:
    """Links a text part that is this text, or its beginning and its end around the notice."""
    name, length = name_result(evidence.tool), len(composed.text)
    start = len(name) if text.startswith(name) and not composed.text.startswith(name) else 0
    if length and text[start:] == composed.text:
        return composed.spans(start, 0, length)
    for notice in reversed(list(CLIPPED.finditer(text, start))):
        head, tail = notice.start() - start, len(text) - notice.end()
        is_part = head + tail < length and composed.text.startswith(text[start : notice.start()])
        if is_part and composed.text.endswith(text[notice.end() :]):
            return [*composed.spans(start, 0, head), *composed.spans(notice.end(), length - tail, length)]
    return []

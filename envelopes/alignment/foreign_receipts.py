"""Receipts that unknown code wrote from a recorded result: what of the result they show, and what provably not.

No family knows how a runtime of its users writes its texts. It may print a string whole, its first lines under a
title, picked or numbered lines, or the beginning of the JSON. Such text is linked where it equals recorded text at an
unambiguous place; everything else may be the result in another form. A cut is therefore claimed only where what
remains of the receipt is too short to have the missing lines, and has none of them (`is_cut_proven`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import accumulate, islice, pairwise
from os.path import commonprefix
from typing import NamedTuple

from envelopes.alignment.json_spans import match_json
from envelopes.alignment.mapping import OutputField
from envelopes.alignment.receipt_parts import RecordedPart
from envelopes.alignment.spans import Span
from envelopes.schema.result import JsonValue
from envelopes.text.pointer import iterate_scalars
from envelopes.text.preview import Cut, common_beginning

MOST_SCALARS = 400  # of a result, each of which is looked for in the receipt
MOST_STRINGS, SEARCHED_CHARACTERS = 20_000, 1_000_000  # of a result, whose lines are compared with the receipt's
LEAST_TEXT = 20  # characters of a string that counts as an output
LEAST_CHARACTERS = 8  # fewer are in two texts by chance
LEAST_BEGINNING = 200  # characters that a receipt has in common with a text that it breaks off within a line
# Characters of a receipt that a runtime writes in place of an output, and around one that it shows in part.
LONGEST_NOTE, LONGEST_FRAME = 400, 1_000
LONGEST_MARK = 100  # characters behind the beginning of a text or a JSON that was broken off
_ENCODERS = tuple(
    json.JSONEncoder(ensure_ascii=is_ascii, **form)
    for form in ({}, {"separators": (",", ":")}, {"indent": 2}, {"indent": 4})
    for is_ascii in (True, False)
)
_NUMBER = re.compile(r"[ \t]*\d{1,9}(?:[ \t]*[:|│→.)\]]|[ \t])[ \t]?[ \t]?")
_MARK = " \t\r\n.…[(<{-"  # may begin the mark of a cut, and may be the next character of the text


def find_outputs(result: JsonValue) -> tuple[OutputField, ...]:
    """The strings of a value that are long enough to be cut; a cut is claimed of each only where it is proven."""
    scalars = islice(iterate_scalars(result), MOST_SCALARS)
    texts = (pointer for pointer, value in scalars if isinstance(value, str) and len(value) >= LEAST_TEXT)
    return tuple(OutputField(pointer, claim="shortened") for pointer in texts)


class _Place(NamedTuple):
    """A line of one of the texts, both counted from 0."""

    text: int
    line: int


def match_result(result: JsonValue, text: str) -> list[Span]:
    """Links a receipt with the strings of a result in the way that links most of it."""
    scalars = list(islice(iterate_scalars(result), MOST_STRINGS + 1))
    strings = [(pointer, value) for pointer, value in scalars if isinstance(value, str)]
    if len(scalars) > MOST_STRINGS or sum(len(value) for _, value in strings) > SEARCHED_CHARACTERS:
        return []
    spans = _match_strings(strings, text) if len(scalars) <= MOST_SCALARS else []
    if len(text.strip()) - (linked := _count_linked(spans)) <= min(linked, LONGEST_MARK):
        return spans
    return max(spans, _match_runs(strings, text), _match_broken_json(result, text), key=_count_linked)


def _count_linked(spans: Iterable[Span]) -> int:
    return sum(span.end - span.start for span in spans)


def _match_strings(strings: Iterable[tuple[str, str]], text: str) -> list[Span]:
    """Links strings or lines of them that the receipt shows; where two strings have the same ones, none."""
    spans = sorted(span for pointer, value in strings for span in _match_string(text, value, pointer))
    return [] if any(before.end > after.start for before, after in pairwise(spans)) else spans


def _match_string(text: str, value: str, pointer: str) -> list[Span]:
    """Links all of the text, or all of the string, where the other has it once; else its beginning and its end."""
    core, whole = text.strip("\n"), value.strip("\n")
    if _has_lines(value, core) or _has_lines(text, whole):
        shown = min(core, whole, key=len)
        at, start = text.index(shown), value.index(shown)
        return [Span(at, at + len(shown), pointer, start, start + len(shown))]
    lines, others = text.split("\n"), value.split("\n")
    head = commonprefix((lines, others))
    tail = commonprefix((lines[len(head) :][::-1], others[len(head) :][::-1]))
    first, last = len("\n".join(head)), len("\n".join(tail))
    spans = [
        Span(0, first, pointer, 0, first),
        Span(len(text) - last, len(text), pointer, len(value) - last, len(value)),
    ]
    return [span for span in spans if span.end - span.start >= LEAST_CHARACTERS] or _match_ends(text, value, pointer)


def _has_lines(text: str, lines: str) -> bool:
    """True where the text has these whole lines once."""
    return len(lines) >= LEAST_CHARACTERS and f"\n{lines}\n" in f"\n{text}\n" and text.find(lines) == text.rfind(lines)


def _match_ends(text: str, value: str, pointer: str) -> list[Span]:
    """Links the beginning and the end of a string that was broken off within a line."""
    first = len(text[: common_beginning(text, value)].rstrip(_MARK))
    if first < LEAST_BEGINNING:
        return []
    last = common_beginning(text[first:][::-1], value[first:][::-1])
    end = Span(len(text) - last, len(text), pointer, len(value) - last, len(value))
    return [Span(0, first, pointer, 0, first), *([end] if last >= LEAST_BEGINNING else [])]


def _match_broken_json(result: JsonValue, text: str) -> list[Span]:
    """Links the beginning of the result's JSON, in one of its usual forms, with at most a short mark behind it."""
    if not isinstance(result, dict | list) or not text.startswith(("{", "[")):
        return []
    for encoder in _ENCODERS:
        if not text.startswith(_first_characters(encoder, result)):
            continue
        whole = encoder.encode(result)
        shown = len(text[: common_beginning(whole, text)].rstrip(_MARK))
        if shown >= LEAST_BEGINNING and len(text) - shown <= LONGEST_MARK:
            return list(_end_at(shown, match_json(whole, result, "")))
    return []


def _first_characters(encoder: json.JSONEncoder, result: JsonValue) -> str:
    """LEAST_BEGINNING characters of the JSON, of which no more is written."""
    text = ""
    for piece in encoder.iterencode(result):
        text += piece
        if len(text) >= LEAST_BEGINNING:
            break
    return text[:LEAST_BEGINNING].rstrip(_MARK)


def _end_at(end: int, spans: Iterable[Span]) -> Iterator[Span]:
    """The spans of strings before character `end`, the last one shortened; a number may be cut within its digits."""
    for span in spans:
        if span.end <= end:
            yield span
        elif span.start < end and span.value_end > span.value_start:
            yield Span(span.start, end, span.pointer, span.value_start, span.value_start + end - span.start)


def _match_runs(strings: Sequence[tuple[str, str]], text: str) -> list[Span]:
    """Links whole lines, numbered ones too, in runs around lines that the strings and the receipt have once.

    A line that occurs once on both sides has one place, and so has the line behind it where both go on alike.
    """
    texts = [value.split("\n") for _, value in strings]
    places: dict[str, _Place | None] = {}
    for number, lines in enumerate(texts):
        for index, line in enumerate(lines):
            if len(line.strip()) >= LEAST_CHARACTERS:
                places[line] = None if line in places else _Place(number, index)
    shown = text.split("\n")
    anchors = [_find_anchor(line, places) for line in shown]
    uses = Counter(anchor for anchor in anchors if anchor)
    taken: dict[int, _Place] = {}  # by line of the receipt
    used: set[_Place] = set()
    for index, anchor in enumerate(anchors):
        if anchor and uses[anchor] == 1 and index not in taken:
            run = dict(_extend(index, anchor, shown, texts, taken, used))
            taken |= run
            used.update(run.values())
    return _to_spans(strings, texts, shown, taken)


def _find_anchor(line: str, places: dict[str, _Place | None]) -> _Place | None:
    if (place := places.get(line)) is not None:
        return place
    number = _NUMBER.match(line)
    if number is None:
        return None
    end = number.end()  # white space behind the number may be the beginning of the line
    starts = [start for start in range(end, end - 3, -1) if start == end or line[start].isspace()]
    found = (places.get(line[start:]) for start in starts)
    return next((place for place in found if place is not None), None)


def _extend(
    index: int,
    anchor: _Place,
    shown: Sequence[str],
    texts: Sequence[Sequence[str]],
    taken: Container[int],
    used: Container[_Place],
) -> Iterator[tuple[int, _Place]]:
    """The line at `index` and those before and behind it, as far as receipt and text go on alike."""
    lines = texts[anchor.text]
    for step in (-1, 1):
        at, line = (index, anchor.line) if step == 1 else (index - 1, anchor.line - 1)
        while 0 <= at < len(shown) and 0 <= line < len(lines):
            place = _Place(anchor.text, line)
            if at in taken or place in used or not _shows(shown[at], lines[line]):
                break
            yield at, place
            at, line = at + step, line + step


def _shows(shown: str, line: str) -> bool:
    """True for the line itself, and behind a number."""
    return shown == line or (shown.endswith(line) and _NUMBER.fullmatch(shown[: len(shown) - len(line)]) is not None)


def _to_spans(
    strings: Sequence[tuple[str, str]],
    texts: Sequence[Sequence[str]],
    shown: Sequence[str],
    taken: dict[int, _Place],
) -> list[Span]:
    """One span for lines that follow each other on both sides without numbers, else one for each line."""
    starts = [0, *accumulate(len(line) + 1 for line in shown)]
    value_starts = {
        number: [0, *accumulate(len(line) + 1 for line in texts[number])]
        for number in {place.text for place in taken.values()}
    }
    spans: list[Span] = []
    for index, place in sorted(taken.items()):
        line, (pointer, _) = texts[place.text][place.line], strings[place.text]
        start = starts[index] + len(shown[index]) - len(line)
        value_start = value_starts[place.text][place.line]
        span = Span(start, start + len(line), pointer, value_start, value_start + len(line))
        last = spans[-1] if spans else None
        if last and last.pointer == pointer and (start, value_start) == (last.end + 1, last.value_end + 1):
            spans[-1] = Span(last.start, span.end, pointer, last.value_start, span.value_end)
        else:
            spans.append(span)
    return [span for span in spans if span.end > span.start]


def find_unlinked(parts: Sequence[RecordedPart], spans: Sequence[Sequence[Span]]) -> str | None:
    """The characters of a receipt that no span links; None where it has parts that are no text."""
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        return None
    return " ".join(map(_find_note, texts, spans))


def _find_note(text: str, spans: Iterable[Span]) -> str:
    """The characters of a text part that no span links, with one space in place of white space."""
    rest, at = [], 0
    for span in sorted(spans):
        rest.append(text[at : span.start])
        at = max(at, span.end)
    return " ".join(" ".join([*rest, text[at:]]).split())


def is_cut_proven(value: str, cut: Cut, note: str, *, is_linked: bool) -> bool:
    """True where a receipt cannot have the lines of `value` that the cut leaves out, in whatever form.

    `note` is what remains of the receipt beside the links. It has to be shorter than what is missing, no longer than a
    runtime's own words are, and without any of the missing lines. Not `is_linked`: nothing of the value was found, and
    a short value may be said in other words.
    """
    lines = value.split("\n")
    if not note:  # of nearly all receipts: nothing but links, so that no missing line can be in it
        return any(not line.isspace() and line != "" for first, last in cut.gaps for line in lines[first:last])
    unseen = [" ".join(line.split()) for first, last in cut.gaps for line in lines[first:last]]
    missing = [line for line in unseen if line]
    size, limit = sum(map(len, missing)), LONGEST_FRAME if cut.shown else LONGEST_NOTE
    if not missing or len(note) > min(limit, size - 1) or (note and not is_linked and size < LEAST_BEGINNING):
        return False
    return not any(line in note for line in missing)

"""A time that was asked for as a place in an artifact, and what is said of it: found, before, behind, or why not."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.artifacts.content import Content
from dashboard.artifacts.location import Wanted
from envelopes.storage.line_window import WindowStart
from envelopes.storage.time_search import LineStamps, OutOfOrder, detect_stamps, find_time

PASSES_YEAR = "The lines name no year: it is inferred that they pass into a new one."


@dataclass(frozen=True, kw_only=True)
class Jump:
    """`is_found`: the window begins at that time."""

    wanted: Wanted
    sentence: str
    is_found: bool = False


def stamps_of(content: Content) -> LineStamps | None:
    """How the lines are stamped, by the first of them; None for lines without time."""
    return detect_stamps(content.head, content.encoding.name) if content.encoding.name else None


def jump_to(content: Content, text: str, stamps: LineStamps | None) -> Jump:
    nowhere = Wanted(place=WindowStart())
    if stamps is None:
        said = f"“{text}” is no line, range or percentage, and these lines carry no time stamps with a date."
        return Jump(wanted=nowhere, sentence=said)
    time = stamps.parse(text)
    if time is None:
        said = f"“{text}” is no line, range, percentage or time. These lines begin at {stamps.format(stamps.first)}."
        return Jump(wanted=nowhere, sentence=said)
    try:
        found = find_time(content.stream, content.size, stamps, time)
    except OutOfOrder as back:
        return _out_of_order(content, stamps, back)
    note = f" {PASSES_YEAR}" if found.passes_year else ""
    if found.line is None:
        said = f"All time stamps are before {stamps.format(found.wanted)}: the last is {stamps.format(found.last)}."
        return Jump(wanted=Wanted(place=WindowStart(is_tail=True)), sentence=said + note)
    said = f"The first line at or after {stamps.format(found.wanted)} is of {stamps.format(found.line.time)}."
    return Jump(wanted=_at(content, found.line.offset), sentence=said + note, is_found=True)


def _out_of_order(content: Content, stamps: LineStamps, back: OutOfOrder) -> Jump:
    before, after = stamps.format(back.before), stamps.format(back.after)
    said = f"The time stamps are out of order: here they go back from {before} to {after}."
    return Jump(wanted=_at(content, back.offset), sentence=f"{said} A time leads to no certain place in them.")


def _at(content: Content, offset: int) -> Wanted:
    """By its number where the line is counted already."""
    if offset > content.index.size:
        return Wanted(place=WindowStart(offset=offset))
    line = content.index.line_at(content.stream, offset)
    return Wanted(place=WindowStart(line=line), lines=range(line, line + 1))

"""A time that was asked for as a place in an artifact, and what is said of it: found, before, behind, or why not."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.artifacts.content import Content
from dashboard.artifacts.location import Wanted
from envelopes.storage.line_window import Place
from envelopes.storage.time_search import OutOfOrder, Reading, first_at, reading_of

# What the lines leave open, and how it was found.
COUNTED = {
    "clock": "The lines name no day: days are inferred, counted by the midnights that their clock passes. "
    "“day 2 05:03” leads to a later one.",
    "syslog": "The lines name no year: it is inferred that they pass into a new one.",
}


@dataclass(frozen=True, kw_only=True)
class Jump:
    """`is_found`: the window begins at that time."""

    wanted: Wanted
    sentence: str
    is_found: bool = False


def stamps_of(content: Content) -> Reading | None:
    """How the lines are stamped, by the first of them; None for lines without time."""
    return reading_of(content.head, content.encoding.name) if content.encoding.name else None


def jump_to(content: Content, text: str, stamps: Reading | None) -> Jump:
    nowhere = Wanted(place=Place())
    if stamps is None:
        said = f"“{text}” is no line, range or percentage, and these lines carry no time stamps that are known here."
        return Jump(wanted=nowhere, sentence=said)
    time = stamps.wanted(text)
    if time is None:
        said = f"“{text}” is no line, range, percentage or time. These lines begin at {stamps.said(stamps.first)}."
        return Jump(wanted=nowhere, sentence=said)
    try:
        found = first_at(content.stream, content.size, stamps, time)
    except OutOfOrder as back:
        return _out_of_order(content, stamps, back)
    note = f" {COUNTED[stamps.kind]}" if found.is_counted else ""
    if found.line is None:
        said = f"All time stamps are before {stamps.said(found.wanted)}: the last is {stamps.said(found.last)}."
        return Jump(wanted=Wanted(place=Place(is_tail=True)), sentence=said + note)
    said = f"The first line at or after {stamps.said(found.wanted)} is of {stamps.said(found.line.time)}."
    return Jump(wanted=_at(content, found.line.offset), sentence=said + note, is_found=True)


def _out_of_order(content: Content, stamps: Reading, back: OutOfOrder) -> Jump:
    before, after = stamps.said(back.before), stamps.said(back.after)
    said = f"The time stamps are out of order: here they go back from {before} to {after}."
    return Jump(wanted=_at(content, back.offset), sentence=f"{said} A time leads to no certain place in them.")


def _at(content: Content, offset: int) -> Wanted:
    """By its number where the line is counted already."""
    if offset > content.index.size:
        return Wanted(place=Place(offset=offset))
    line = content.index.line_at(content.stream, offset)
    return Wanted(place=Place(line=line), lines=range(line, line + 1))

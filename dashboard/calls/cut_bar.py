"""A cut drawn to scale: which lines of the complete output the model got, and which it never saw.

The drawing is 1,000 units wide. Lines count from 1 here, as an operator reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dashboard.inert import plain
from dashboard.models import Artifact
from envelopes.halves import Halves, OutputCut
from envelopes.pointer import split, text_at

WIDTH = 1_000
LEAST_WIDTH = 2.0  # a single line of a million is still seen
RANGES_SAID = 4
RANGES_DRAWN = 400


@dataclass(frozen=True, kw_only=True)
class Stretch:
    x: str
    width: str
    kind: str  # seen | unseen
    title: str


@dataclass(frozen=True, kw_only=True)
class CutBar:
    name: str
    sentence: str
    domain: str  # what the call did not ask for, said apart from the cut
    stretches: tuple[Stretch, ...]
    is_cut: bool
    unseen: int
    first_unseen: int
    url: str  # the artifact page at the first line that the model never saw


def cut_bars(halves: Halves, artifacts: Iterable[Artifact], *, got: str) -> tuple[CutBar, ...]:
    """`got` begins the sentence, by the receipt's fidelity. None without a receipt: nothing is known then."""
    if halves.receipt is None:
        return ()
    pages = {one.pointer: one.get_absolute_url() for one in artifacts if one.pointer}
    recorded = halves.evidence.result
    return tuple(
        _bar(one, text_at(recorded, one.field.pointer) or "", pages.get(one.field.pointer, ""), got)
        for one in halves.outputs
    )


def _bar(output: OutputCut, text: str, page: str, got: str) -> CutBar:
    cut, field = output.cut, output.field
    whole = max(_whole(output, text), field.first_line - 1 + cut.total)
    gaps = cut.gaps
    first_unseen = gaps[0][0] + 1 if gaps else 0
    return CutBar(
        name=plain(_name(field.pointer)),
        sentence=_sentence(output, got),
        domain=_domain(output, whole),
        stretches=_stretches(output, whole),
        is_cut=not cut.is_whole,
        unseen=cut.dropped_count,
        first_unseen=first_unseen,
        url=f"{page}?line={first_unseen}#L{first_unseen}" if page and first_unseen else page,
    )


def _name(pointer: str) -> str:
    """The member's own name; with its index where it stands in a list."""
    tokens = split(pointer)
    return "/".join(tokens[-2:] if len(tokens) > 1 and tokens[-2].isdigit() else tokens[-1:]) or "result"


def _whole(output: OutputCut, text: str) -> int:
    """Agents count the nothing behind a last newline as a line; here it is none."""
    total = output.field.total_lines or 0
    reaches_end = output.field.first_line - 1 + output.cut.total == total - 1
    return total - 1 if reaches_end and text.endswith("\n") else total


def _sentence(output: OutputCut, got: str) -> str:
    cut, before = output.cut, output.field.first_line - 1
    if cut.is_whole:
        return f"{got} all {cut.total:,} lines." if cut.total != 1 else f"{got} its one line."
    if not cut.shown:
        return f"{got} none of {cut.total:,} lines."
    shown = _said([(start + before + 1, end + before) for start, end in cut.shown])
    lines = "line" if cut.dropped_count == 1 else "lines"
    return f"{got} {shown} of {cut.total:,}; {cut.dropped_count:,} {lines} never."


def _said(ranges: list[tuple[int, int]]) -> str:
    if len(ranges) > RANGES_SAID:
        return f"{len(ranges):,} stretches, {sum(end - start + 1 for start, end in ranges):,} lines"
    said = [f"{start:,}–{end:,}" if end > start else f"{start:,}" for start, end in ranges]
    word = "line" if len(ranges) == 1 and ranges[0][0] == ranges[0][1] else "lines"
    return f"{word} {' and '.join([', '.join(said[:-1]), said[-1]] if len(said) > 1 else said)}"


def _domain(output: OutputCut, whole: int) -> str:
    cut, field = output.cut, output.field
    if field.total_lines is None or cut.total >= whole:
        return ""
    last = field.first_line - 1 + cut.total
    asked = f"{field.first_line:,}–{last:,} of {whole:,}"
    return f"The call asked for lines {asked}; the other {whole - cut.total:,} were not asked for."


def _stretches(output: OutputCut, whole: int) -> tuple[Stretch, ...]:
    before = output.field.first_line - 1
    pieces = [(start, end, "seen") for start, end in output.cut.shown]
    pieces += [(start, end, "unseen") for start, end in output.cut.gaps]
    return tuple(
        _stretch(start + before, end + before, kind, max(whole, 1))
        for start, end, kind in sorted(pieces)[:RANGES_DRAWN]
    )


def _stretch(start: int, end: int, kind: str, whole: int) -> Stretch:
    words = "reached the model" if kind == "seen" else "never did"
    lines = f"lines {start + 1:,}–{end:,}" if end > start + 1 else f"line {end:,}"
    width = max(LEAST_WIDTH, (end - start) / whole * WIDTH)
    return Stretch(x=f"{start / whole * WIDTH:.2f}", width=f"{width:.2f}", kind=kind, title=f"{lines} {words}")

"""A cut drawn to scale: which lines of the complete output the model got, and which it never saw.

The drawing is 1,000 units wide. Lines count from 1 here, as an operator reads them. Where the receipt says
that the complete output was saved to a file, that file is what leads to the lines that nobody saw: the
recorded field may itself be a beginning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dashboard.artifacts.content import AbsenceCause
from dashboard.artifacts.summaries import ArtifactSummary
from dashboard.artifacts.visible_lines import LONG_BEGINNING, find_partial_line, shown_spans
from dashboard.models import Artifact
from dashboard.text.escaping import printable
from dashboard.text.formatting import format_size
from envelopes.halves import Halves, OutputCut
from envelopes.schema.receipt import Receipt
from envelopes.text.pointer import split, text_at

WIDTH = 1_000
LEAST_WIDTH = 2.0  # a single line of a million is still seen
RANGES_SAID = 4
RANGES_DRAWN = 400
GONE = {
    AbsenceCause.NOT_IMPORTED: "is not here",
    AbsenceCause.REMOVED: "was taken out by retention",
    AbsenceCause.MISSING: "is lost: the artifact store has nothing under its hash",
    AbsenceCause.CHANGED: "is not what was stored",
    AbsenceCause.UNREACHABLE: "cannot be asked for now: the artifact store cannot be reached",
}


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
    stretches: tuple[Stretch, ...]  # none where there is nothing to draw
    is_cut: bool
    url: str  # the artifact page, at the first line that the model never saw where there is one
    go: str  # what the link says
    leads_on: bool  # to a line that the model never saw
    has_key: bool = False  # the first that leads on: what the key `g` opens


def cut_bars(halves: Halves, artifacts: Iterable[ArtifactSummary], *, got: str) -> tuple[CutBar, ...]:
    """`got` begins the sentence, by the receipt's fidelity. None without a receipt: nothing is known then."""
    if halves.receipt is None:
        return ()
    stored = tuple(artifacts)
    saved = tuple(_saved_bar(one) for one in stored if _is_saved(one.artifact, halves.receipt))
    pages = {one.artifact.pointer: one.artifact.get_absolute_url() for one in stored if one.artifact.pointer}
    recorded = halves.evidence.result
    bars = list(saved)
    for one in halves.outputs:
        text = text_at(recorded, one.field.pointer) or ""
        output = _Output(one, text, halves.receipt, is_saved=bool(saved))
        bars.append(_bar(output, pages.get(one.field.pointer, ""), got))
    key = next((bar for bar in bars if bar.leads_on), None)
    return tuple(replace(bar, has_key=bar is key) for bar in bars)


def _is_saved(artifact: Artifact, receipt: Receipt) -> bool:
    """Not every file that a call names holds its output: the receipt says it of this one."""
    return artifact.observation_id is None and f"saved to: {artifact.path}" in receipt.text


def _saved_bar(found: ArtifactSummary) -> CutBar:
    artifact, is_here = found.artifact, found.absence is None
    size = format_size(artifact.size)
    lines = "1 line" if artifact.lines == 1 else f"{artifact.lines:,} lines"
    recorded = f": {size} by the recording" if artifact.size else ", how large is not recorded"
    held = f": {lines}, {size}" if artifact.state == Artifact.State.PRESENT else recorded
    gone = f" That file {GONE[found.absence.cause]}." if found.absence else ""
    url = artifact.get_absolute_url()
    return CutBar(
        name=printable(artifact.role),
        sentence=f"The complete output was saved to a file{held}.{gone}",
        domain="",
        stretches=(),
        is_cut=True,
        url=f"{url}?unseen#window" if is_here else url,
        go="Go to the first line that the model never saw" if is_here else "What is known of it",
        leads_on=is_here,
    )


class _Output:
    """One recorded output, its text, and the beginning of a line that the receipt breaks off."""

    def __init__(self, output: OutputCut, text: str, receipt: Receipt, *, is_saved: bool) -> None:
        self.field, self.cut, self.text, self.is_saved = output.field, output.cut, text, is_saved
        self.whole = max(_whole(output, text), output.field.first_line - 1 + output.cut.total)
        shown = () if output.cut.is_whole else shown_spans(receipt, output.field.pointer)
        self.begun = find_partial_line(text, shown, output.cut)

    @property
    def place(self) -> str:
        """Of the first line that the model never saw, in the artifact of the text; empty where there is none."""
        if not self.cut.gaps:
            return ""
        line = self.cut.gaps[0][0] + 1
        if self.begun and self.begun.end - self.begun.start > LONG_BEGINNING:
            return f"?offset={len(self.text[: self.begun.end].encode('utf-8', 'surrogatepass'))}#L{line}"
        return f"?line={line}#L{line}"


def _bar(output: _Output, page: str, got: str) -> CutBar:
    domain = _domain(output)
    line = output.cut.gaps[0][0] + 1 if output.cut.gaps else 0
    return CutBar(
        name=printable(_name(output.field.pointer)),
        sentence=_sentence(output, got),
        domain=domain,
        stretches=_stretches(output) if domain or not output.cut.is_whole else (),
        is_cut=not output.cut.is_whole or output.is_saved,
        url=page + output.place if page and output.place else "",
        go=f"Go to {'the rest of ' if 'offset' in output.place else ''}line {line:,}",
        leads_on=bool(page and output.place),
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


def _sentence(output: _Output, got: str) -> str:
    cut, before, begun = output.cut, output.field.first_line - 1, output.begun
    if cut.is_whole:
        end = ", as far as the recording holds it." if output.is_saved else "."
        return f"{got} all {cut.total:,} lines{end}" if cut.total != 1 else f"{got} its one line{end}"
    if begun and cut.total == 1:
        return f"{got} the first {begun.end:,} of {len(output.text):,} characters of its one line."
    part = f" Of line {begun.line + before:,} it got the beginning." if begun else ""
    if not cut.shown:
        return f"{got} none of {cut.total:,} lines whole.{part}" if begun else f"{got} none of {cut.total:,} lines."
    shown = _said([(start + before + 1, end + before) for start, end in cut.shown])
    lines = "line" if cut.dropped_count == 1 else "lines"
    return f"{got} {shown} of {cut.total:,}; {cut.dropped_count:,} {lines} never.{part}"


def _said(ranges: list[tuple[int, int]]) -> str:
    if len(ranges) > RANGES_SAID:
        return f"{len(ranges):,} stretches, {sum(end - start + 1 for start, end in ranges):,} lines"
    said = [f"{start:,}–{end:,}" if end > start else f"{start:,}" for start, end in ranges]
    word = "line" if len(ranges) == 1 and ranges[0][0] == ranges[0][1] else "lines"
    return f"{word} {' and '.join([', '.join(said[:-1]), said[-1]] if len(said) > 1 else said)}"


def _domain(output: _Output) -> str:
    cut, field, whole = output.cut, output.field, output.whole
    if field.total_lines is None or cut.total >= whole:
        return ""
    last = field.first_line - 1 + cut.total
    asked = f"{field.first_line:,}–{last:,} of {whole:,}"
    return f"The call asked for lines {asked}; the other {whole - cut.total:,} were not asked for."


def _stretches(output: _Output) -> tuple[Stretch, ...]:
    before, begun = output.field.first_line - 1, output.begun
    if begun and output.whole == 1:
        share = begun.end / len(output.text) * WIDTH
        said = f"{begun.end:,} of {len(output.text):,} characters"
        return (
            Stretch(x="0", width=f"{share:.2f}", kind="seen", title=f"{said} reached the model"),
            Stretch(x=f"{share:.2f}", width=f"{WIDTH - share:.2f}", kind="unseen", title="the rest never did"),
        )
    pieces = [(start, end, "seen") for start, end in output.cut.shown]
    pieces += [(start, end, "unseen") for start, end in output.cut.gaps]
    return tuple(
        _stretch(start + before, end + before, kind, max(output.whole, 1))
        for start, end, kind in sorted(pieces)[:RANGES_DRAWN]
    )


def _stretch(start: int, end: int, kind: str, whole: int) -> Stretch:
    words = "reached the model" if kind == "seen" else "never did"
    lines = f"lines {start + 1:,}–{end:,}" if end > start + 1 else f"line {end:,}"
    width = max(LEAST_WIDTH, (end - start) / whole * WIDTH)
    return Stretch(x=f"{start / whole * WIDTH:.2f}", width=f"{width:.2f}", kind=kind, title=f"{lines} {words}")

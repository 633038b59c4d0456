"""A cut drawn to scale: which lines of the complete output the model got, and which it did not see.

The drawing is 1,000 units wide. Lines count from 1 here, as an operator reads them. Where the receipt names a file with
the complete output, the link to unseen lines leads to that file: the recorded field may itself be a beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dashboard.artifacts.content import AbsenceCause
from dashboard.artifacts.summaries import ArtifactSummary
from dashboard.artifacts.visible_lines import LONG_BEGINNING, PartialLine, UnseenLines, find_partial_line, shown_spans
from dashboard.evidence.call_evidence import CallEvidence
from dashboard.evidence.execution import SeenBytes, read_seen_bytes
from dashboard.models import Artifact
from dashboard.text.formatting import format_size
from dashboard.text.text_markup import printable
from envelopes.alignment.source_cuts import SourceCut, SourceCutUnit
from envelopes.halves import Halves, OutputCut
from envelopes.schema.receipt import Receipt
from envelopes.text.pointer import split, text_at

WIDTH = 1_000
LEAST_WIDTH = 2.0  # a single line of a million is still visible
OPEN_WIDTH = 150  # of the end of a drawing for lines of which nobody recorded how many they are
MAX_NAMED_RANGES = 4
MAX_DRAWN_RANGES = 400
SEEN, UNSEEN = "seen by the model", "not seen"
ABSENCE_SENTENCES = {
    AbsenceCause.NOT_IMPORTED: "That file was not imported.",
    AbsenceCause.REMOVED: "That file was removed by retention.",
    AbsenceCause.MISSING: "That file is lost: the artifact store has nothing under its hash.",
    AbsenceCause.CHANGED: "That file is damaged: it is not what was stored.",
    AbsenceCause.UNREACHABLE: "That file cannot be read now: the artifact store is unreachable.",
}


@dataclass(frozen=True, kw_only=True)
class CutStretch:
    """A range of lines in the drawing; `kind` is seen, unseen, or open for an unknown number of unseen lines."""

    x: str
    width: str
    kind: str
    title: str


@dataclass(frozen=True, kw_only=True)
class CutBar:
    """`domain` names lines that the call did not ask for. `stretches` is empty where there is nothing to draw.

    `url` is the artifact page, `link` its text; `leads_to_unseen` where it opens the first line that the model did not
    see. `has_key`: it is the first such link, which the key `g` opens. `size` is the cut in bytes, where the source
    recorded that.
    """

    name: str
    sentence: str
    domain: str
    stretches: tuple[CutStretch, ...]
    is_cut: bool
    url: str
    link: str
    leads_to_unseen: bool
    has_key: bool = False
    size: str = ""


def build_cut_bars(
    evidence: CallEvidence, artifacts: Sequence[ArtifactSummary], *, got: str, hooked: Halves | None = None
) -> tuple[CutBar, ...]:
    """`got` begins the sentence, by the receipt's fidelity. Empty without a receipt.

    `hooked` are the halves with an output that a hook returned, where the receipt was made from that: then only its
    cuts are drawn.
    """
    if hooked is not None:
        cuts = (bar for bar in _build_bars(hooked, (), got, None) if bar.is_cut)
        return tuple(replace(cut, name=f"{cut.name}, as the hook returned it") for cut in cuts)
    return _build_bars(evidence.halves, artifacts, got, read_seen_bytes(evidence))


def _build_bars(
    halves: Halves, artifacts: Sequence[ArtifactSummary], got: str, seen_bytes: SeenBytes | None
) -> tuple[CutBar, ...]:
    receipt = halves.sent or halves.receipt
    if receipt is None:
        return ()
    # Not every file that a call names has its output: the receipt names the one that has.
    saved = [
        summary
        for summary in artifacts
        if summary.artifact.observation_id is None and _has_output(summary.artifact, halves, receipt)
    ]
    pages = {
        summary.artifact.pointer: summary.artifact.get_absolute_url()
        for summary in artifacts
        if summary.artifact.pointer
    }
    bars = [_saved_bar(summary) for summary in saved]
    is_inflated = halves.preview is not None and halves.preview.is_inflated
    is_linked = any(shown_spans(receipt, cut.field.pointer) for cut in halves.outputs)
    for cut in halves.outputs:
        text = text_at(halves.evidence.result, cut.field.pointer) or ""
        shown = None if is_inflated else receipt
        output = _Output(
            cut,
            text,
            shown,
            seen_bytes,
            is_saved=bool(saved),
            is_linked=is_linked,
            is_beginning=halves.aligned is not None,
        )
        bars.append(_output_bar(output, pages.get(cut.field.pointer, ""), got))
    bars += _other_bars(halves, got)
    is_stated = halves.preview is not None and not halves.outputs  # the sentence about the preview has it
    if halves.sent is not None and not is_stated:
        bars = [replace(bar, sentence=f"{bar.sentence} Then another text took its place.") for bar in bars]
    with_key = next((bar for bar in bars if bar.leads_to_unseen), None)
    return tuple(replace(bar, has_key=bar is with_key) for bar in bars)


def _has_output(artifact: Artifact, halves: Halves, receipt: Receipt) -> bool:
    """Checks whether the receipt names the file as the one with the output; not one that a later preview names."""
    if halves.preview is not None and halves.preview.path == artifact.path:
        return not halves.preview.is_later
    return f"saved to: {artifact.path}" in receipt.text


def _saved_bar(summary: ArtifactSummary) -> CutBar:
    artifact, is_here = summary.artifact, summary.absence is None
    size = ""
    if artifact.state == Artifact.State.PRESENT:
        lines = "1 line" if artifact.lines == 1 else f"{artifact.lines:,} lines"
        size = f": {lines}, {format_size(artifact.size)}"
    elif artifact.size:
        size = f": {format_size(artifact.size)} by the recording"
    absence = f" {ABSENCE_SENTENCES[summary.absence.cause]}" if summary.absence else ""
    url = artifact.get_absolute_url()
    return CutBar(
        name=printable(artifact.role),
        sentence=f"The agent saved the complete output to a file{size}.{absence}",
        domain="",
        stretches=(),
        is_cut=True,
        url=f"{url}?unseen#window" if is_here else url,
        link="Go to the first line that the model did not see" if is_here else "Details",
        leads_to_unseen=is_here,
    )


def _other_bars(halves: Halves, got: str) -> Iterator[CutBar]:
    """The bars of a preview whose output was not recorded, and of what the source left out of lists and failures."""
    pointers = {output.field.pointer for output in halves.outputs}
    others = tuple(gap for gap in halves.reading.source_cuts if gap.pointer not in pointers)
    if halves.preview and not halves.outputs:
        end = halves.preview.seen_end(halves.receipt.text if halves.receipt else "")
        size = f"{end - halves.preview.start:,} characters"
        sentence = f"{got} a preview of {size}. The complete output was saved to a file."
        if halves.preview.is_later:
            sentence = f"This preview of {size} took the place of what the model got first, which was saved to a file."
        yield _bar_without_lines("preview", sentence, is_cut=not halves.preview.is_later)
    elif others:
        name = split(others[0].pointer)[-1] if others[0].pointer else "result"
        yield _bar_without_lines(name, f"{got} a part of it. {describe_source_cuts(others)}")


def _bar_without_lines(name: str, sentence: str, *, is_cut: bool = True) -> CutBar:
    return CutBar(
        name=printable(name),
        sentence=sentence,
        domain="",
        stretches=(),
        is_cut=is_cut,
        url="",
        link="",
        leads_to_unseen=False,
    )


class _Output:
    """One recorded output, its text, and the line of which the receipt has only the beginning.

    `cut` is that of the recorded field, `complete` that of the complete output. `receipt` is None where the model got
    less than it holds. Not `is_linked`: nothing of the receipt could be linked to any output, so that it is not known
    what it has of them. `is_beginning`: only the beginning of the receipt was aligned.
    """

    def __init__(
        self,
        output: OutputCut,
        text: str,
        receipt: Receipt | None,
        seen_bytes: SeenBytes | None,
        *,
        is_saved: bool,
        is_linked: bool,
        is_beginning: bool,
    ) -> None:
        self.field, self.cut, self.text = output.field, output.cut, text
        self.is_saved, self.is_linked, self.is_beginning = is_saved, is_linked, is_beginning
        self.complete, self.source_cuts, self.is_known = output.complete, output.source_cuts, output.is_known
        self.recorded, self.prefix_lines = output.recorded, output.prefix_lines
        self.lines_before = output.field.first_line - 1
        # Agents count the nothing behind a file's last newline as a line; here it is none.
        total, is_end = output.field.total_lines or 0, text.endswith("\n") and not output.field.ends_in_blank_line
        if is_end and self.lines_before + self.complete.total == total - 1:
            total -= 1
        self.total_lines = max(total, self.lines_before + self.complete.total)
        spans = [] if output.cut.is_whole or receipt is None else shown_spans(receipt, output.field.pointer)
        # How many lines the source left out of the middle or the end is not known.
        self.is_open = any(gap.unit in ("output", "characters") for gap in output.source_cuts)
        self.seen_bytes = seen_bytes if self.is_open else None
        self.partial: PartialLine | None = find_partial_line(text, spans, output.cut)

    def shown_characters(self, partial: PartialLine) -> tuple[int, int]:
        """The characters of the output that the receipt has of its one line, and all of it."""
        return partial.end - self.field.start, len(self.text) - self.field.start


def _output_bar(output: _Output, page: str, got: str) -> CutBar:
    domain, url, link = _domain(output), "", ""
    is_cut = output.is_known and not output.complete.is_whole
    if page and is_cut and output.cut.gaps:
        line, partial = output.cut.gaps[0][0] + 1, output.partial
        if partial and partial.end - partial.start > LONG_BEGINNING:
            offset = len(output.text[: partial.end].encode("utf-8", "surrogatepass"))
            unseen, link = UnseenLines(line=line, offset=offset), f"Go to the rest of line {line:,}"
        else:
            unseen, link = UnseenLines(line=line, offset=-1), f"Go to line {line:,}"
        url = f"{page}?{unseen.query}{unseen.fragment}"
    tokens = split(output.field.pointer)
    name = "/".join(tokens[-2:] if len(tokens) > 1 and tokens[-2].isdigit() else tokens[-1:]) or "result"
    return CutBar(
        name=printable(name),
        sentence=_sentence(output, got),
        domain=domain,
        stretches=_stretches(output) if domain or is_cut else (),
        is_cut=is_cut or output.is_saved,
        url=url,
        link=link,
        leads_to_unseen=bool(url),
        size=output.seen_bytes.words if output.seen_bytes else "",
    )


def _sentence(output: _Output, got: str) -> str:
    cut, before, partial = output.complete, output.lines_before, output.partial
    if cut.is_whole:
        end = ", as far as it was recorded." if output.is_saved else "."
        return f"{got} all {cut.total:,} lines{end}" if cut.total != 1 else f"{got} its one line{end}"
    if not output.is_known and output.is_beginning:
        return f"Only the beginning of the receipt was compared with the recorded output ({_count_lines(cut.total)})."
    if not output.cut.shown and not output.is_linked:
        lines = _count_lines(output.recorded.total)
        return f"The recorded output ({lines}) is not in the receipt word for word. It may be there in another form."
    if not output.is_known:
        lines = f"{cut.shown_count:,} of {_count_lines(cut.total)}"
        return f"The receipt has {lines} word for word. It may have the others in another form: that is not known."
    if output.seen_bytes:
        return f"{got} {output.seen_bytes.words}. {describe_source_cuts(output.source_cuts)}"
    if any(gap.unit != "lines" for gap in output.source_cuts):
        least = f"{got} {cut.shown_count:,} of at least {cut.total:,} lines."
        return f"{least} {describe_source_cuts(output.source_cuts)}"
    source = f" {describe_source_cuts(output.source_cuts)}" if output.source_cuts else ""
    if partial and cut.total == 1:
        first, size = output.shown_characters(partial)
        return f"{got} the first {first:,} of {size:,} characters of its one line."
    beginning = f" Of line {partial.line - output.prefix_lines + before:,} it got the beginning." if partial else ""
    if cut.total == 1 and not partial:
        return f"{got} nothing of its one line."
    if not cut.shown:
        return f"{got} none of {cut.total:,} lines{' whole' if partial else ''}.{beginning}"
    ranges = _name_ranges([(start + before + 1, end + before) for start, end in cut.shown])
    return f"{got} {ranges} of {before + cut.total:,}; {cut.dropped_count:,} {UNSEEN}.{beginning}{source}"


def _count_lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"


def describe_source_cuts(cuts: Sequence[SourceCut]) -> str:
    """Describes what the source left out of both halves, a sentence for each kind."""
    sizes = Counter({(cut.unit, cut.is_limit): 0 for cut in cuts})
    for cut in cuts:
        sizes[cut.unit, cut.is_limit] += cut.count or 0
    return " ".join(_describe_source_cut(unit, size, is_limit=is_limit) for (unit, is_limit), size in sizes.items())


def _describe_source_cut(unit: SourceCutUnit, size: int, *, is_limit: bool) -> str:
    lines = _count_lines(size)
    if is_limit and unit == "lines":
        return f"The tool stopped at its own limit: the call asked for {lines} more."
    if is_limit:
        return f"The tool stopped at its own limit; how many more {unit} there are was not recorded."
    match unit:
        case "characters" | "lines":
            return f"The source cut {size:,} {unit} out of it, which are in neither half."
        case "line ends":
            return f"The source cut off the end of {lines}."
        case "long lines":
            return f"The tool left out {lines} as too long."
        case "tokens":
            return f"The agent cut {f'{size:,} tokens' if size else 'a part'} out of what it sent."
    return "The source recorded only a part of it."


def _name_ranges(ranges: list[tuple[int, int]]) -> str:
    if len(ranges) > MAX_NAMED_RANGES:
        return f"{len(ranges):,} stretches, {sum(end - start + 1 for start, end in ranges):,} lines"
    names = [f"{start:,}–{end:,}" if end > start else f"{start:,}" for start, end in ranges]
    word = "line" if len(ranges) == 1 and ranges[0][0] == ranges[0][1] else "lines"
    return f"{word} {' and '.join([', '.join(names[:-1]), names[-1]] if len(names) > 1 else names)}"


def _domain(output: _Output) -> str:
    """The part of the file that the call did not ask for; empty where it asked for all of it."""
    unrequested = output.total_lines - output.complete.total
    if output.field.total_lines is None or unrequested <= 0:
        return ""
    last = output.lines_before + output.complete.total
    requested = f"{output.field.first_line:,}–{last:,} of {output.total_lines:,}"
    if not output.field.is_asked:
        return f"The recording has lines {requested}."
    return f"The call asked for lines {requested}; the other {unrequested:,} were not asked for."


def _stretches(output: _Output) -> tuple[CutStretch, ...]:
    total, scale = max(output.total_lines, 1), WIDTH - OPEN_WIDTH if output.is_open else WIDTH
    if output.seen_bytes:
        share = output.seen_bytes.seen / output.seen_bytes.total * WIDTH
        return _two_stretches(share, f"{output.seen_bytes.words}: {SEEN}")
    if output.partial and total == 1:
        first, size = output.shown_characters(output.partial)
        return _two_stretches(first / size * WIDTH, f"{first:,} of {size:,} characters: {SEEN}")
    ranges = [(start, end, "seen") for start, end in output.complete.shown]
    ranges += [(start, end, "unseen") for start, end in output.complete.gaps]
    stretches = []
    for start, end, kind in sorted(ranges)[:MAX_DRAWN_RANGES]:
        start, end = start + output.lines_before, end + output.lines_before
        lines = f"lines {start + 1:,}–{end:,}" if end > start + 1 else f"line {end:,}"
        stretches.append(
            CutStretch(
                x=f"{start / total * scale:.2f}",
                width=f"{max(LEAST_WIDTH, (end - start) / total * scale):.2f}",
                kind=kind,
                title=f"{lines}: {SEEN if kind == 'seen' else UNSEEN}",
            )
        )
    if output.is_open:
        title = f"an unknown number of lines: {UNSEEN}"
        stretches.append(CutStretch(x=f"{scale}", width=f"{OPEN_WIDTH}", kind="open", title=title))
    return tuple(stretches)


def _two_stretches(share: float, title: str) -> tuple[CutStretch, ...]:
    return (
        CutStretch(x="0", width=f"{share:.2f}", kind="seen", title=title),
        CutStretch(x=f"{share:.2f}", width=f"{WIDTH - share:.2f}", kind="unseen", title=f"the rest: {UNSEEN}"),
    )

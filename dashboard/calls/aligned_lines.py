"""Both halves line by line: the lines of an output beside the lines of the receipt that they became (`?left=lines`).

One table has both, so that equal lines stand beside each other and one gutter shows which the model saw. A line of the
receipt without a source in this output (a header, a marker, another field) has nothing beside it. Whether a line was
seen follows from the cut that was derived for the output, not from what stands beside it. A line of which the receipt
has only some characters was seen partly.

A long stretch of lines that were not seen is folded to its ends, and a long text is refused: the page states both.
Nothing is laid out where no line of the receipt could be linked, or where a hook wrote it: which lines were seen is
not known then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

from django.utils.safestring import SafeString

from dashboard.artifacts.visible_lines import shown_spans
from dashboard.calls.cut_bar import describe_source_cuts
from dashboard.evidence.call_evidence import CallEvidence
from dashboard.text.masks import mask_around
from dashboard.text.text_markup import escape, printable
from envelopes.halves import Halves, OutputCut
from envelopes.schema.receipt import Receipt
from envelopes.text.pointer import split, text_at

MAX_CHARACTERS = 400_000  # of the output; a longer one has its artifact page
MAX_RECEIPT = 64 * 1024  # characters
MAX_ROWS = 3_000
LINE_CHARACTERS = 600  # of a line on the page
EDGE = 10  # lines shown at each end of a stretch that is folded
LEAST_FOLD = 5  # fewer lines are not worth a fold

Seen = Literal["seen", "partly", "unseen", ""]


@dataclass(frozen=True, slots=True)
class LineRow:
    """`number` is that of the output's line, 0 beside a receipt's own line. `folded` lines are left out before it."""

    number: int
    output: SafeString
    seen: Seen
    receipt_number: int
    receipt: SafeString
    folded: int = 0
    is_shortened: bool = False


@dataclass(frozen=True, kw_only=True)
class LinesPane:
    """`reason` is why there are no rows; `name` is the field of the output. `notes` name what the rows lack."""

    name: str
    rows: tuple[LineRow, ...] = ()
    omitted: int = 0
    reason: str = ""
    notes: tuple[str, ...] = ()


class _ReceiptLine(NamedTuple):
    text: str
    output_line: int  # counted from 0; -1 where no character of it is linked to the output


def build_lines_pane(evidence: CallEvidence, *, is_hooked: bool = False) -> LinesPane | None:
    """The output of which most lines were recorded; None for a call without a recorded output or without a receipt.

    `is_hooked`: the receipt was made from an output that a hook returned in place of the recorded one.
    """
    halves, receipt = evidence.halves, evidence.halves.receipt
    if receipt is None or not halves.outputs:
        return None
    output = max(halves.outputs, key=lambda output: output.cut.total)
    text = text_at(halves.evidence.result, output.field.pointer) or ""
    name = split(output.field.pointer)[-1] if output.field.pointer else "result"
    if is_hooked:
        return LinesPane(name=name, reason="The receipt was made from another output, which a hook returned.")
    is_found = any(other.cut.shown or shown_spans(receipt, other.field.pointer) for other in halves.outputs)
    if not is_found or not output.is_known:
        found = "found whole" if is_found else "found"
        reason = f"The recorded output was not {found} in the receipt: which of its lines the model got is not known."
        return LinesPane(name=name, reason=reason)
    is_long = len(text) > MAX_CHARACTERS or len(receipt.text) > MAX_RECEIPT
    if is_long or (halves.aligned is not None and halves.aligned < len(receipt.text)):
        return LinesPane(name=name, reason="This call is too long to be laid out line by line here.")
    is_inflated = halves.preview is not None and halves.preview.is_inflated
    seen_end = halves.preview.seen_end(receipt.text) if halves.preview and is_inflated else len(receipt.text)
    rows = list(_fold(_pair(output, text, receipt, seen_end)))
    return LinesPane(
        name=name,
        rows=tuple(rows[:MAX_ROWS]),
        omitted=max(0, len(rows) - MAX_ROWS),
        notes=tuple(_describe_absent(halves, output)),
    )


def _describe_absent(halves: Halves, output: OutputCut) -> Iterator[str]:
    """Names the other outputs of the call, and what the source left out of this one."""
    for other in halves.outputs:
        if other is not output:
            name = printable(split(other.field.pointer)[-1]) if other.field.pointer else "result"
            lines = "1 line" if other.recorded.total == 1 else f"{other.recorded.total:,} lines"
            yield f"Not laid out here: {name}, {lines}."
    if output.source_cuts:
        yield describe_source_cuts(output.source_cuts)


def _pair(output: OutputCut, text: str, receipt: Receipt, seen_end: int) -> Iterator[LineRow]:
    lines = mask_around(text, 0, len(text)).split("\n")
    if lines and not lines[-1]:
        lines.pop()  # behind the last newline there is no line
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    first, at = output.field.first_line - output.prefix_lines, 0
    receipt_lines, partly = _read_receipt(receipt, output.field.pointer, starts, seen_end)

    def unpaired(index: int) -> LineRow:
        return _unpaired(lines[index], index, max(0, first + index), output, is_partly=index in partly)

    for number, line in enumerate(receipt_lines, 1):
        own = escape(line.text[:LINE_CHARACTERS])
        is_shortened = len(line.text) > LINE_CHARACTERS
        if not at <= line.output_line < len(lines):
            yield LineRow(0, escape(""), "", number, own, is_shortened=is_shortened)
            continue
        yield from map(unpaired, range(at, line.output_line))
        row = unpaired(line.output_line)
        is_shortened = is_shortened or row.is_shortened
        yield LineRow(row.number, row.output, row.seen, number, own, is_shortened=is_shortened)
        at = line.output_line + 1
    yield from map(unpaired, range(at, len(lines)))


def _unpaired(line: str, index: int, number: int, output: OutputCut, *, is_partly: bool) -> LineRow:
    shown = output.cut.shown
    place = bisect_right(shown, (index, output.cut.total)) - 1
    is_seen = place >= 0 and index < shown[place][1]
    is_shortened = len(line) > LINE_CHARACTERS
    seen: Seen = "seen" if is_seen else "partly" if is_partly else "unseen"
    return LineRow(number, escape(line[:LINE_CHARACTERS]), seen, 0, escape(""), is_shortened=is_shortened)


def _read_receipt(
    receipt: Receipt, pointer: str, starts: list[int], seen_end: int
) -> tuple[list[_ReceiptLine], set[int]]:
    """The lines of the receipt, each with the first line of the output that characters of it come from.

    The second value has all lines of the output of which some character is in front of character `seen_end`.
    """
    text = mask_around(receipt.text, 0, len(receipt.text))
    linked: dict[int, int] = {}
    partly: set[int] = set()
    number = at = 0
    for segment in receipt.segments:
        source = segment.source
        is_linked = source is not None and (source.document, source.pointer) == ("complete", pointer)
        offset = source.start or 0 if source is not None else 0
        for index, piece in enumerate(segment.text.split("\n")):
            number += index > 0
            at += index > 0  # the newline
            if is_linked and piece:
                output_line = bisect_right(starts, offset) - 1
                linked.setdefault(number, output_line)
                if at < seen_end and piece.strip():
                    partly.add(output_line)
            offset += len(piece) + 1
            at += len(piece)
    return [_ReceiptLine(line, linked.get(number, -1)) for number, line in enumerate(text.split("\n"))], partly


def _fold(rows: Iterable[LineRow]) -> Iterator[LineRow]:
    """Leaves out the middle of each long stretch that was not seen: its last ten lines before what follows stay."""
    stretch: list[LineRow] = []
    for row in rows:
        if row.seen == "unseen" and not row.receipt_number:
            stretch.append(row)
            continue
        yield from _fold_stretch(stretch)
        stretch = []
        yield row
    yield from _fold_stretch(stretch)


def _fold_stretch(stretch: list[LineRow]) -> Iterator[LineRow]:
    folded = len(stretch) - 2 * EDGE
    if folded < LEAST_FOLD:
        yield from stretch
        return
    yield from stretch[:EDGE]
    after = stretch[-EDGE]
    yield LineRow(after.number, after.output, after.seen, 0, after.receipt, folded, after.is_shortened)
    yield from stretch[-EDGE + 1 :]

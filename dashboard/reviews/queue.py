"""The review queue: one pair at a time, without a word of whose text is whose."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import User

from dashboard.calls.panes import JsonPane, args_pane
from dashboard.comparisons.cells import unpacked_ids
from dashboard.comparisons.frozen_columns import load_column_rows, load_columns
from dashboard.comparisons.pair import Written, written
from dashboard.evidence.call_evidence import surfaces_of
from dashboard.models import Call, Comparison, Project, Review
from dashboard.reviews.verdicts import last_verdict, variant_is_first
from dashboard.text import json_markup
from dashboard.text.chunks import FIRST_CHARS, TextChunk
from dashboard.text.receipt_markup import Links, ReceiptWindow, receipt_window
from envelopes.schema.receipt import Receipt, Segment, TextPart

WHOLE = 1024 * 1024  # characters of a text, when all of it is asked for


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Both texts of a call, `first` and `second` as this reviewer sees them."""

    call: Call
    args: JsonPane
    canonical: TextChunk
    first: ReceiptWindow
    second: ReceiptWindow
    texts: tuple[str, str]  # the baseline's and the variant's


@dataclass(frozen=True, kw_only=True)
class QueuePage:
    """`pair` is None when everything has been judged."""

    comparison: Comparison
    review: Review
    pair: Pair | None
    done: int
    can_undo: bool


def queue_page(project: Project, review: Review, reviewer: User, *, is_whole: bool = False) -> QueuePage:
    """`is_whole` shows far more of long texts, so that nobody has to judge what was left out."""
    judged = set(review.verdicts.filter(reviewer=reviewer).values_list("call", flat=True))
    return QueuePage(
        comparison=review.comparison,
        review=review,
        pair=_next(project, review, reviewer, judged, WHOLE if is_whole else FIRST_CHARS),
        done=len(judged),
        can_undo=last_verdict(review, reviewer) is not None,
    )


def _next(project: Project, review: Review, reviewer: User, judged: set[UUID], characters: int) -> Pair | None:
    """The first pair that is not judged; calls that are gone, or no longer have two texts, are passed over."""
    for key in unpacked_ids(bytes(review.calls)):
        call = None if key in judged else project.calls.select_related("run").filter(pk=key).first()
        found = None if call is None else pair_of(review, call, reviewer, characters)
        if found is not None:
            return found
    return None


def pair_of(review: Review, call: Call, reviewer: User, characters: int = FIRST_CHARS) -> Pair | None:
    columns = load_columns(load_column_rows(review.comparison))
    surfaces = surfaces_of(call, {})
    both = (written(surfaces, columns[0], None), written(surfaces, columns[review.ordinal], None))
    if any(one.receipt is None for one in both):
        return None
    seen = both[::-1] if variant_is_first(review, call.pk, reviewer) else both
    return Pair(
        call=call,
        args=args_pane(surfaces),
        canonical=json_markup.head(json_markup.pretty(surfaces.canonical), FIRST_CHARS, "data-field"),
        first=_plain(seen[0], characters),
        second=_plain(seen[1], characters),
        texts=(both[0].text, both[1].text),
    )


def _plain(one: Written, characters: int) -> ReceiptWindow:
    """Without links: what a text is traced to would tell whether it was recorded or rendered."""
    text = Receipt((TextPart((Segment(one.text, "value"),)),))
    return receipt_window(text, Links({}), 0, characters)

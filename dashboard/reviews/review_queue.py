"""Reviews of a comparison: which pairs are judged, one pair at a time, and the verdicts of each reviewer.

Reviewers see two texts without names; which text stands first is random for each reviewer and pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import User
from django.utils import timezone

from dashboard.calls.half_panes import JsonPane, build_args_pane
from dashboard.comparisons.cells import pack_ids, unpack_ids
from dashboard.comparisons.lifecycle import CannotCompare
from dashboard.comparisons.pair import ColumnReceipt, render_column
from dashboard.comparisons.significance import draw_sample
from dashboard.comparisons.stored_comparison import load_column_rows, load_columns, load_results
from dashboard.evidence.call_evidence import load_evidence
from dashboard.models import Call, Comparison, Project, Review, Verdict
from dashboard.text import json_markup
from dashboard.text.chunks import FIRST_CHARS, TextChunk
from dashboard.text.column_values import column_text
from dashboard.text.receipt_markup import FieldLinks, ReceiptChunk, receipt_chunk
from dashboard.variants.fingerprints import text_sha256
from envelopes.schema.receipt import Receipt, Segment, TextPart

MOST_PAIRS = 200
NOTE_CHARACTERS = 2_000
ALL_CHARACTERS = 1024 * 1024  # of a text, where the reviewer asks for all of it


def start_review(comparison: Comparison, ordinal: int) -> Review:
    """The review of a column; its pairs are sampled when it starts, from calls whose two texts differ.

    Raises CannotCompare when no text differs, or when there is no such column.
    """
    if ordinal not in set(comparison.columns.exclude(ordinal=0).values_list("ordinal", flat=True)):
        raise CannotCompare("The comparison has no such column.")
    review = comparison.reviews.filter(ordinal=ordinal).first()
    if review is not None:
        return review
    calls = draw_sample(_differing_calls(comparison, ordinal), MOST_PAIRS, comparison.seed)
    if not calls:
        raise CannotCompare("Both columns wrote the same texts: there is nothing to judge.")
    fields = {"calls": pack_ids(calls), "size": len(calls)}
    return Review.objects.get_or_create(comparison=comparison, ordinal=ordinal, defaults=fields)[0]


def _differing_calls(comparison: Comparison, ordinal: int) -> Iterator[UUID]:
    for rows in load_results(comparison):
        for row in rows:
            pair = row.pair(ordinal)
            if pair is not None and pair[0].digest != pair[1].digest:
                yield row.key


@dataclass(frozen=True, kw_only=True)
class ReviewPair:
    """Both texts of a call: `first` and `second` as this reviewer sees them."""

    call: Call
    args: JsonPane
    canonical: TextChunk
    first: ReceiptChunk
    second: ReceiptChunk
    texts: tuple[str, str]  # the baseline's and the variant's


@dataclass(frozen=True, kw_only=True)
class QueuePage:
    """`pair` is None when everything has been judged."""

    comparison: Comparison
    review: Review
    pair: ReviewPair | None
    done: int
    can_undo: bool


def load_queue_page(project: Project, review: Review, reviewer: User, *, is_whole: bool = False) -> QueuePage:
    """The first pair without a verdict; calls that were deleted, or no longer have two texts, are skipped.

    `is_whole` shows long texts up to ALL_CHARACTERS, so that nobody has to judge what is not shown.
    """
    judged = set(review.verdicts.filter(reviewer=reviewer).values_list("call", flat=True))
    pair = None
    for key in unpack_ids(bytes(review.calls)):
        call = None if key in judged else project.calls.select_related("run").filter(pk=key).first()
        if call is not None:
            pair = load_pair(review, call, reviewer, ALL_CHARACTERS if is_whole else FIRST_CHARS)
        if pair is not None:
            break
    return QueuePage(
        comparison=review.comparison,
        review=review,
        pair=pair,
        done=len(judged),
        can_undo=_last_verdict(review, reviewer) is not None,
    )


def load_pair(review: Review, call: Call, reviewer: User, characters: int = FIRST_CHARS) -> ReviewPair | None:
    """None when one of the columns has no text of the call."""
    columns = load_columns(load_column_rows(review.comparison))
    evidence = load_evidence(call, {})
    receipts = [render_column(evidence, columns[ordinal], None) for ordinal in (0, review.ordinal)]
    if any(column.receipt is None for column in receipts):
        return None
    ordered = receipts[::-1] if is_variant_first(review, call.pk, reviewer) else receipts
    first, second = (_plain_window(column, characters) for column in ordered)
    return ReviewPair(
        call=call,
        args=build_args_pane(evidence),
        canonical=json_markup.first_chunk(json_markup.indent_json(evidence.canonical), FIRST_CHARS, "data-field"),
        first=first,
        second=second,
        texts=(receipts[0].text, receipts[1].text),
    )


def _plain_window(column: ColumnReceipt, characters: int) -> ReceiptChunk:
    """Without links: they would reveal whether a text was recorded or rendered."""
    text = Receipt((TextPart((Segment(column.text, "value"),)),))
    return receipt_chunk(text, FieldLinks({}), 0, characters)


def is_variant_first(review: Review, call: UUID, reviewer: User) -> bool:
    """Random for each reviewer and pair, and always the same for both."""
    pair = call.bytes + str(reviewer.pk).encode()
    key = (review.comparison.seed % 2**64).to_bytes(8, "big")
    return bool(hashlib.blake2b(pair, digest_size=1, key=key, person=b"side").digest()[0] & 1)


def judge(review: Review, call: UUID, reviewer: User, *, answer: str, note: str, texts: tuple[str, str]) -> Verdict:
    """Stores a verdict, in place of the reviewer's earlier one on the same pair.

    `answer` is first, second, tie or both_bad, as the reviewer saw the pair; `texts` are the baseline's and the
    variant's. Raises CannotCompare for another answer, and for a call that is not in the review.
    """
    is_first = is_variant_first(review, call, reviewer)
    choice = {
        "first": Verdict.Choice.VARIANT if is_first else Verdict.Choice.BASELINE,
        "second": Verdict.Choice.BASELINE if is_first else Verdict.Choice.VARIANT,
        "tie": Verdict.Choice.TIE,
        "both_bad": Verdict.Choice.BOTH_BAD,
    }.get(answer)
    if choice is None or call not in set(unpack_ids(bytes(review.calls))):
        raise CannotCompare("This is not a verdict on a pair of this review.")
    fields = {
        "choice": choice,
        "first": "variant" if is_first else "baseline",
        "note": column_text(note.strip(), NOTE_CHARACTERS),
        "baseline_sha256": text_sha256(texts[0]),
        "variant_sha256": text_sha256(texts[1]),
        "at": timezone.now(),
    }
    return Verdict.objects.update_or_create(review=review, call=call, reviewer=reviewer, defaults=fields)[0]


def undo_verdict(review: Review, reviewer: User) -> bool:
    """Deletes the reviewer's last verdict; False when there is none."""
    last = _last_verdict(review, reviewer)
    if last is None:
        return False
    last.delete()
    return True


def _last_verdict(review: Review, reviewer: User) -> Verdict | None:
    return review.verdicts.filter(reviewer=reviewer).order_by("-at", "-pk").first()

"""Reviews of a comparison: which pairs are judged, and what somebody said of one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from uuid import UUID

from django.contrib.auth.models import User
from django.utils import timezone

from dashboard.comparisons.cells import packed_ids, unpacked_ids
from dashboard.comparisons.lifecycle import Unusable, drawn
from dashboard.comparisons.results import load_results
from dashboard.models import Comparison, Review, Verdict
from dashboard.text.column_values import column_text
from dashboard.variants.fingerprints import text_sha256

MOST_PAIRS = 200
NOTE_CHARACTERS = 2_000


def start_review(comparison: Comparison, ordinal: int) -> Review:
    """Draws the pairs, once: pairs with the same text are left out, for there is nothing to judge.

    Raises Unusable when none differs, or when there is no such column.
    """
    if ordinal not in set(comparison.columns.exclude(ordinal=0).values_list("ordinal", flat=True)):
        raise Unusable("The comparison has no such column.")
    known = comparison.reviews.filter(ordinal=ordinal).first()
    if known is not None:
        return known
    calls = drawn(_differing(comparison, ordinal), MOST_PAIRS, comparison.seed)
    if not calls:
        raise Unusable("Both columns wrote the same texts: there is nothing to judge.")
    fields = {"calls": packed_ids(calls), "size": len(calls)}
    return Review.objects.get_or_create(comparison=comparison, ordinal=ordinal, defaults=fields)[0]


def _differing(comparison: Comparison, ordinal: int) -> Iterator[UUID]:
    for rows in load_results(comparison):
        for row in rows:
            pair = row.pair(ordinal)
            if pair is not None and pair[0].digest != pair[1].digest:
                yield row.key


def variant_is_first(review: Review, call: UUID, reviewer: User) -> bool:
    """Drawn for each reviewer and pair: neither side nor order tells which text is whose."""
    said = call.bytes + str(reviewer.pk).encode()
    key = (review.comparison.seed % 2**64).to_bytes(8, "big")
    return bool(hashlib.blake2b(said, digest_size=1, key=key, person=b"side").digest()[0] & 1)


def judge(review: Review, call: UUID, reviewer: User, *, said: str, note: str, texts: tuple[str, str]) -> Verdict:
    """`said` is first, second, tie or both_bad, as the reviewer saw the pair; `texts` are the baseline's and the
    variant's. Judging a pair again replaces the verdict. Raises Unusable for anything else."""
    is_first = variant_is_first(review, call, reviewer)
    choice = {
        "first": Verdict.Choice.VARIANT if is_first else Verdict.Choice.BASELINE,
        "second": Verdict.Choice.BASELINE if is_first else Verdict.Choice.VARIANT,
        "tie": Verdict.Choice.TIE,
        "both_bad": Verdict.Choice.BOTH_BAD,
    }.get(said)
    if choice is None or call not in set(unpacked_ids(bytes(review.calls))):
        raise Unusable("That is no verdict on a pair of this review.")
    fields = {
        "choice": choice,
        "first": "variant" if is_first else "baseline",
        "note": column_text(note.strip(), NOTE_CHARACTERS),
        "baseline_sha256": text_sha256(texts[0]),
        "variant_sha256": text_sha256(texts[1]),
        "at": timezone.now(),
    }
    return Verdict.objects.update_or_create(review=review, call=call, reviewer=reviewer, defaults=fields)[0]


def undo(review: Review, reviewer: User) -> bool:
    """Takes the reviewer's last verdict back; False when there is none."""
    last = last_verdict(review, reviewer)
    if last is None:
        return False
    last.delete()
    return True


def last_verdict(review: Review, reviewer: User) -> Verdict | None:
    return review.verdicts.filter(reviewer=reviewer).order_by("-at", "-pk").first()

"""Reviews of a comparison: blind pairs, the verdicts of each reviewer, their tally, and their export as JSON lines.

Reviewers see two texts without names; which text is first is random for each reviewer and pair. Exported texts are
rendered again. `is_as_judged` is true when both are still those that were judged; preference pairs are exported of such
texts alone.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.utils import timezone

from dashboard.calls.half_panes import JsonPane, build_args_pane
from dashboard.evidence.call_evidence import CallEvidence, load_evidence
from dashboard.experiments.export import load_column_names
from dashboard.experiments.measure_calls import pack_ids, unpack_ids
from dashboard.experiments.pair import ColumnReceipt, render_column
from dashboard.experiments.significance import (
    CONFIDENCE,
    Agreement,
    Interval,
    compute_agreements,
    draw_sample,
    share_interval,
    sign_test,
)
from dashboard.experiments.stored_columns import load_column_rows, load_columns
from dashboard.experiments.stored_comparison import CannotCompare, load_results
from dashboard.experiments.tables import format_probability
from dashboard.models import Call, Comparison, ComparisonColumn, Project, Review, Verdict
from dashboard.text import json_markup
from dashboard.text.formatting import column_text
from dashboard.text.receipt_markup import FieldLinks, ReceiptChunk, receipt_chunk
from dashboard.text.text_markup import FIRST_CHARS, TextChunk
from dashboard.variants.fingerprints import text_sha256
from dashboard.variants.render_call import family_name
from envelopes.schema.receipt import Receipt, Segment, TextPart
from envelopes.text.untrusted_json import parse_json

DECIDED = (Verdict.Choice.BASELINE, Verdict.Choice.VARIANT)
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


@dataclass(frozen=True, kw_only=True)
class ReviewTally:
    """Counts of pairs. Where several people judged a pair, the most frequent choice counts, and a draw is a tie."""

    ordinal: int
    baseline: str
    variant: str
    size: int
    verdicts: int
    pairs: int
    wins: int
    losses: int
    ties: int
    both_bad: int
    interval: Interval | None
    probability: float
    first_share: float | None  # of decided verdicts, those for the text on the left
    reviewers: tuple[tuple[str, int], ...]
    agreements: tuple[Agreement, ...]

    @property
    def decided(self) -> int:
        return self.wins + self.losses

    @property
    def share_text(self) -> str:
        return f"{self.wins / self.decided:.0%}" if self.decided else "–"

    @property
    def interval_text(self) -> str:
        return f"{self.interval.low:.0%} to {self.interval.high:.0%}" if self.interval else "–"

    @property
    def probability_text(self) -> str:
        return f"p {format_probability(self.probability)}" if self.decided else "–"

    @property
    def first_share_text(self) -> str:
        return "–" if self.first_share is None else f"{self.first_share:.0%}"

    @property
    def conclusion(self) -> str:
        """A sentence on who won, as far as the interval and the sign test allow one."""
        part = "" if self.pairs >= self.size else f", of {self.size} drawn"
        over = f"{self.pairs} judged pair{'' if self.pairs == 1 else 's'}{part}"
        if self.interval is None:
            return f"No pair has a winner yet: {self.pairs} of {self.size} are judged."
        # Four pairs won by one side: the interval excludes a half, yet the sign test gives 1 in 8.
        if self.interval.low <= 0.5 <= self.interval.high or self.probability >= 1 - CONFIDENCE:
            return f"Undecided: {self.variant} and {self.baseline} cannot be told apart over {over}."
        winner = self.variant if self.interval.low > 0.5 else self.baseline
        return f"{winner} is found better over {over}."


@dataclass(frozen=True, kw_only=True)
class VerdictPage:
    comparison: Comparison
    tallies: tuple[ReviewTally, ...]
    open: tuple[tuple[int, str], ...]  # columns without a review


def load_verdict_page(comparison: Comparison) -> VerdictPage:
    names = load_column_names(comparison)
    reviews = {review.ordinal: review for review in comparison.reviews.order_by("ordinal")}
    return VerdictPage(
        comparison=comparison,
        tallies=tuple(load_tally(review, names) for review in reviews.values()),
        open=tuple((ordinal, name) for ordinal, name in enumerate(names) if ordinal and ordinal not in reviews),
    )


def load_tally(review: Review, names: list[str]) -> ReviewTally:
    verdicts = list(review.verdicts.select_related("reviewer").order_by("at", "pk"))
    by_call: dict[UUID, list[str]] = defaultdict(list)
    by_reviewer: dict[str, dict[UUID, str]] = defaultdict(dict)
    for verdict in verdicts:
        by_call[verdict.call].append(verdict.choice)
        by_reviewer[verdict.reviewer.get_username()][verdict.call] = verdict.choice
    counts = Counter(_most_frequent(choices) for choices in by_call.values())
    wins, losses = counts[Verdict.Choice.VARIANT], counts[Verdict.Choice.BASELINE]
    return ReviewTally(
        ordinal=review.ordinal,
        baseline=names[0],
        variant=names[review.ordinal],
        size=review.size,
        verdicts=len(verdicts),
        pairs=len(by_call),
        wins=wins,
        losses=losses,
        ties=counts[Verdict.Choice.TIE],
        both_bad=counts[Verdict.Choice.BOTH_BAD],
        interval=share_interval(wins, wins + losses),
        probability=sign_test(wins, losses),
        first_share=_first_share(verdicts),
        reviewers=tuple((name, len(choices)) for name, choices in sorted(by_reviewer.items())),
        agreements=tuple(compute_agreements(by_reviewer)),
    )


def _most_frequent(choices: list[str]) -> str:
    (choice, most), *others = Counter(choices).most_common()
    return Verdict.Choice.TIE if any(count == most for _, count in others) else choice


def _first_share(verdicts: Iterable[Verdict]) -> float | None:
    """Far from a half, reviewers prefer a side."""
    decided = [verdict for verdict in verdicts if verdict.choice in DECIDED]
    return sum(verdict.choice == verdict.first for verdict in decided) / len(decided) if decided else None


@dataclass(frozen=True)
class _JudgedPair:
    """A verdict with its call's evidence, and the texts and stored columns of the baseline and the variant."""

    verdict: Verdict
    evidence: CallEvidence
    texts: tuple[str, str]
    columns: tuple[dict[str, Any], dict[str, Any]]

    @property
    def is_as_judged(self) -> bool:
        judged = (self.verdict.baseline_sha256, self.verdict.variant_sha256)
        return (text_sha256(self.texts[0]), text_sha256(self.texts[1])) == judged


def export_verdicts(comparison: Comparison) -> Iterator[str]:
    """A JSON line for each verdict, with everything needed to repeat it."""
    for pair in _load_judged_pairs(comparison):
        verdict, call = pair.verdict, pair.evidence.call
        baseline, variant = pair.columns
        line = {
            "comparison": str(comparison.pk),
            "query": comparison.query,
            "family": comparison.family,
            "sample": comparison.sample,
            "seed": comparison.seed,
            "call": str(call.pk),
            "external_call": call.external_id,
            "run": str(call.run_id),
            "tool": call.tool,
            "canonical_sha256": text_sha256(pair.evidence.canonical.decode()),
            "baseline": baseline | {"text": pair.texts[0], "sha256": verdict.baseline_sha256},
            "variant": variant | {"text": pair.texts[1], "sha256": verdict.variant_sha256},
            "is_as_judged": pair.is_as_judged,
            "choice": verdict.choice,
            "first": verdict.first,
            "note": verdict.note,
            "reviewer": verdict.reviewer.get_username(),
            "at": verdict.at.isoformat(),
        }
        yield json.dumps(line) + "\n"


def export_preferences(comparison: Comparison) -> Iterator[str]:
    """A JSON line for each decided verdict: the call as the prompt, the preferred text and the other one."""
    for pair in _load_judged_pairs(comparison):
        verdict, evidence = pair.verdict, pair.evidence
        if verdict.choice not in DECIDED or not pair.is_as_judged:
            continue
        chosen, rejected = (1, 0) if verdict.choice == Verdict.Choice.VARIANT else (0, 1)
        line = {
            "prompt": {
                "tool": evidence.call.tool,
                "arguments": parse_json(evidence.args),
                "result": parse_json(evidence.canonical),
            },
            "chosen": pair.texts[chosen],
            "rejected": pair.texts[rejected],
            "chosen_by": pair.columns[chosen],
            "rejected_by": pair.columns[rejected],
            "call": str(verdict.call),
            "reviewer": verdict.reviewer.get_username(),
        }
        yield json.dumps(line) + "\n"


def _load_judged_pairs(comparison: Comparison) -> Iterator[_JudgedPair]:
    """In the order of the verdicts; those on deleted calls have no texts and are left out."""
    rows = load_column_rows(comparison)
    columns = load_columns(rows)
    verdicts = Verdict.objects.filter(review__comparison=comparison).select_related("review", "reviewer")
    for verdict in verdicts.order_by("at", "pk").iterator(chunk_size=200):
        call = Call.objects.select_related("run").filter(pk=verdict.call, project=comparison.project_id).first()
        if call is None:
            continue
        evidence = load_evidence(call, {})
        ordinals = (0, verdict.review.ordinal)
        baseline, variant = (render_column(evidence, columns[ordinal], None).text for ordinal in ordinals)
        served = {row.ordinal: row for row in rows if row.family in ("", family_name(evidence))}
        baseline_facts, variant_facts = (_column_facts(served.get(ordinal)) for ordinal in ordinals)
        yield _JudgedPair(verdict, evidence, (baseline, variant), (baseline_facts, variant_facts))


def _column_facts(row: ComparisonColumn | None) -> dict[str, Any]:
    if row is None:
        return {}
    return {"column": row.name, "id": row.variant, "version": row.version, "hash": row.hash, "policy": row.policy}

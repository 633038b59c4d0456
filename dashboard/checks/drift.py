"""Drift: what this system wrote once and would write otherwise today.

Two things are held against today's rendering. A receipt that this system sent keeps its fingerprint:
variant id and version, policy, hash of the envelope, hash of the text. A pinned comparison keeps a digest
of every envelope and text. Of the four that may have changed, the first in this order is the reason:

    variant     it is gone, or its version is another
    policy      the same variant has another policy by default
    canonical   the envelope was derived anew and is another
    text        nothing of that changed, and the text did: a renderer changed without a new version
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from django.db.models import Count, QuerySet
from django.utils import timezone

from dashboard.checks.pinned import keep_check
from dashboard.comparisons.call_inputs import subjects_of
from dashboard.comparisons.cells import Row, unpacked_ids
from dashboard.comparisons.measure import rows_of, sentence_of
from dashboard.comparisons.pair import rendered_from
from dashboard.comparisons.variants import frozen_rows, todays_columns
from dashboard.evidence.call_evidence import surfaces_of
from dashboard.models import Call, Comparison, ComparisonColumn, Project, Receipt, ReceiptFingerprint, Run, RunFacet
from dashboard.prepared import given, prepared
from dashboard.reviews.verdicts import sha256_of
from dashboard.variants.templates import is_template, kept_version
from dashboard.variants.variant_list import current_variant
from dashboard.worker.comparisons import results_of
from envelopes.families.registry import family
from envelopes.pipeline.render import render
from envelopes.schema.result import CanonicalResult
from envelopes.text.canonical_json import NotCanonical, hash_of
from envelopes.text.untrusted_json import tame
from envelopes.variants import Variant

OTHER_TEXT = "the same version writes another text"
NOT_INSTALLED = "the family that read the call is not installed"
Reason = Literal["variant", "policy", "canonical", "text"]
Frozen = tuple[ComparisonColumn, Variant | None]  # and what its id means today


@dataclass(frozen=True, kw_only=True)
class Drift:
    """`baseline` is the pinned comparison, None for a receipt that was sent."""

    call: UUID
    tool: str
    variant: str
    reason: Reason
    detail: str
    baseline: Comparison | None = None


@dataclass(frozen=True)
class Sent:
    """`drift` is None when the same would be sent today."""

    fingerprint: ReceiptFingerprint
    drift: Drift | None

    @property
    def key(self) -> str:
        """Of the variant, as addresses name it."""
        return self.fingerprint.variant.rpartition("/")[2]


@dataclass(frozen=True)
class Checked:
    """How many texts were written again, and which of them drifted. `unchecked` pinned texts have no call any more."""

    sent: int
    pinned: int
    drifted: tuple[Drift, ...]
    unchecked: int = 0


def remember_sent(receipt: Receipt, written_by: Variant, canonical: bytes, text: str) -> ReceiptFingerprint:
    """Keeps what a receipt was sent from; the receipt's own row is there already."""
    fields = {
        "variant": written_by.id,
        "version": written_by.version,
        "policy": written_by.policy.fingerprint,
        "canonical_sha256": envelope_sha256(canonical),
        "text_sha256": sha256_of(text),
    }
    return ReceiptFingerprint.objects.update_or_create(receipt=receipt, defaults=fields)[0]


def envelope_sha256(canonical: bytes) -> str:
    """As records state it: over the RFC 8785 form, whatever the order of keys that it is stored with."""
    try:
        return hash_of(tame(canonical))[1]
    except NotCanonical:
        return sha256_of(canonical.decode("utf-8", "surrogatepass"))


def drifts_of(call: Call) -> list[Sent]:
    """Each receipt that this system sent for the call, and whether it would be another today."""
    found = ReceiptFingerprint.objects.filter(receipt__call=call).select_related("receipt__call__run")
    return [Sent(one, _drift_of(one)) for one in found.order_by("receipt__seq")]


@prepared
def _held() -> QuerySet[Any, Any]:
    of_call = ReceiptFingerprint.objects.filter(receipt__call=given("call", Receipt, "call"))
    return of_call.values_list("pk")


def drifted_of(call: Call) -> tuple[Sent, ...]:
    """Those that would be another today. Few calls were sent by this system: of the others one key is asked for."""
    return tuple(one for one in drifts_of(call) if one.drift) if _held(call=call.pk) else ()


def check(project: Project | None = None) -> Checked:
    """Everything that is held, of one project or of all. Keeps with each sent receipt what was found of it."""
    sent = 0
    drifted: list[Drift] = []
    fingerprints = ReceiptFingerprint.objects.select_related("receipt__call__run").order_by("pk")
    for fingerprint in fingerprints.iterator(chunk_size=200):
        if project is None or fingerprint.receipt.call.project_id == project.pk:
            sent += 1
            found = _drift_of(fingerprint)
            _keep(fingerprint, found)
            drifted += [found] if found else []
    _mark_runs(project)
    pinned = unchecked = 0
    for comparison in _pinned(project):
        texts, gone, drifts = _check_pinned(comparison)
        pinned, unchecked = pinned + texts, unchecked + gone
        drifted += drifts
    return Checked(sent, pinned, tuple(drifted), unchecked)


def _check_pinned(comparison: Comparison) -> tuple[int, int, list[Drift]]:
    """How many texts were written again, how many have no call any more, and what drifted; kept with it."""
    texts = gone = 0
    drifted: list[Drift] = []
    for row, drifts in _drifts_since(comparison):
        held = sum(cell is not None for cell in row.cells)
        texts += 0 if drifts is None else held
        gone += held if drifts is None else 0
        drifted += drifts or ()
    keep_check(comparison, texts=texts, unchecked=gone, reasons=[one.reason for one in drifted])
    return texts, gone, drifted


def _keep(fingerprint: ReceiptFingerprint, found: Drift | None) -> None:
    fingerprint.drift = found.reason if found else ""
    fingerprint.checked_at = timezone.now()
    fingerprint.save(update_fields=["drift", "checked_at"])


def _mark_runs(project: Project | None) -> None:
    """The facet behind `state:drifted` and the preset of that name, as of this check."""
    marked = RunFacet.objects.filter(kind="state", value="drifted")
    (marked if project is None else marked.filter(project=project)).delete()
    drifted = Call.objects.exclude(receipts__fingerprint=None).exclude(receipts__fingerprint__drift="")
    counted = (drifted if project is None else drifted.filter(project=project)).values_list("run").annotate(Count("id"))
    counts = dict(counted.order_by("run"))
    RunFacet.objects.bulk_create(
        RunFacet(
            run=run, project_id=run.project_id, kind="state", value="drifted", sort_at=run.sort_at, count=counts[run.pk]
        )
        for run in Run.objects.filter(pk__in=counts)
    )


def _drift_of(fingerprint: ReceiptFingerprint) -> Drift | None:
    call = fingerprint.receipt.call
    surfaces = surfaces_of(call, {})
    owner, canonical = rendered_from(surfaces)
    today = current_variant(call.project_id, owner, fingerprint.variant)
    reason = _changed(fingerprint, today, envelope_sha256(surfaces.canonical))
    if reason is None and today is not None:
        reason = _other_text(fingerprint, owner, canonical, today)
    if reason is None:
        return None
    return Drift(call=call.pk, tool=call.tool, variant=fingerprint.variant, reason=reason[0], detail=reason[1])


def _other_text(
    held: ReceiptFingerprint, owner: str, canonical: CanonicalResult, today: Variant
) -> tuple[Reason, str] | None:
    try:
        text = render(canonical, family(owner), today.policy, variant=today).text
    except KeyError:
        return "variant", NOT_INSTALLED
    except Exception as error:  # a variant may be anybody's: what it cannot write is another text
        return "text", sentence_of(error)
    return None if sha256_of(text) == held.text_sha256 else ("text", OTHER_TEXT)


def _changed(held: ReceiptFingerprint, today: Variant | None, canonical: str) -> tuple[Reason, str] | None:
    if today is None:
        return "variant", "it is gone"
    if today.version != held.version:
        return "variant", f"version {held.version} is version {today.version} now"
    if today.policy.fingerprint != held.policy:
        return "policy", f"policy {held.policy} is {today.policy.fingerprint} now"
    return None if canonical == held.canonical_sha256 else ("canonical", "the canonical result is another")


def _pinned(project: Project | None) -> Iterator[Comparison]:
    found = Comparison.objects.filter(pinned_at__isnull=False, state=Comparison.State.FINISHED)
    yield from (found if project is None else found.filter(project=project)).order_by("pinned_at", "pk")


def _drifts_since(comparison: Comparison) -> Iterator[tuple[Row, list[Drift] | None]]:
    """Each call of a pinned comparison, written again, a batch in memory at a time.

    None for one that was deleted since, or that nothing answered: older comparisons hold texts of those too.
    """
    frozen = [(row, _current(row)) for row in frozen_rows(comparison)]
    columns = todays_columns(row for row, _ in frozen)
    with_recorded = any(column.is_recorded for column in columns)
    batches = comparison.batches.order_by("number").values_list("calls", flat=True)
    for calls, before in zip(batches.iterator(chunk_size=8), results_of(comparison), strict=True):
        ids = list(unpacked_ids(bytes(calls)))
        now = {row.call: row for row in rows_of(subjects_of(ids, with_recorded=with_recorded), columns)}
        missing = [row.key for row in before if row.call not in now]
        answered = Call.objects.filter(pk__in=missing).exclude(status=Call.Status.UNKNOWN)
        unread = set(answered.values_list("pk", flat=True)) if missing else set()
        for row in before:
            is_there = row.call in now or row.key in unread
            yield row, list(_drifts(comparison, frozen, row, now.get(row.call))) if is_there else None


def _current(row: ComparisonColumn) -> Variant | None:
    if is_template(row.variant) and row.name.endswith(f"@{row.version}"):  # asked for in that version, for good
        return kept_version(row.comparison.project_id, row.variant, row.version)
    return current_variant(row.comparison.project_id, row.family, row.variant)


def _drifts(comparison: Comparison, frozen: Sequence[Frozen], before: Row, now: Row | None) -> Iterator[Drift]:
    for row, today in frozen:
        if row.family not in ("", before.family):
            continue
        found = _pinned_reason(row, today, before, now)
        if found is not None:
            reason, detail = found
            yield Drift(
                call=before.key,
                tool=before.tool,
                variant=row.variant,
                reason=reason,
                detail=detail,
                baseline=comparison,
            )


def _pinned_reason(
    row: ComparisonColumn, today: Variant | None, before: Row, now: Row | None
) -> tuple[Reason, str] | None:
    was = before.cells[row.ordinal]
    if was is None:
        return None
    if now is None:
        return "variant", NOT_INSTALLED
    cell = now.cells[row.ordinal]
    if row.family and (today is None or today.version != row.version):
        return "variant", "it is gone" if today is None else f"version {row.version} is version {today.version} now"
    if today is not None and today.policy.fingerprint != row.policy:
        return "policy", f"policy {row.policy} is {today.policy.fingerprint} now"
    if before.canonical != now.canonical:
        return "canonical", "the canonical result is another"
    if cell is None or cell.digest != was.digest:
        return "text", OTHER_TEXT if row.family else "the recorded receipt is another"
    return None

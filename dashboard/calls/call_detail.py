"""Everything that the Call page shows, as frozen data: one call's payloads and nothing of its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import QueryDict

from dashboard.artifacts.summaries import ArtifactSummary, artifact_summaries
from dashboard.calls.call_variants import VariantKey, VariantPane, load_variant_keys, load_variant_pane
from dashboard.calls.cut_bar import CutBar, cut_bars
from dashboard.calls.navigation import CallNavigation, load_navigation
from dashboard.calls.panes import (
    JsonPane,
    ReceiptPane,
    args_pane,
    canonical_pane,
    receipt_pane,
    recorded_pane,
)
from dashboard.calls.stages import Rail, rail
from dashboard.evidence.call_evidence import CallEvidence, load_evidence
from dashboard.evidence.fidelity import Fidelity, receipt_fidelity
from dashboard.evidence.lint_findings import LintPane, lint_pane, lint_reach
from dashboard.ingest.run_stats import halves_disagree
from dashboard.models import Call, Event, Observation, Project, RecordedReceipt, Run
from dashboard.text.escaping import printable
from dashboard.variants.fingerprints import FingerprintedReceipt, load_drifted
from envelopes.text.untrusted_json import parse_json

EVENTS_SHOWN = 200
WAITING_FROM_MS = 1_000  # below that the difference of two clocks is writing the log, not a person


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The second badge: what the tool itself said about its work."""

    text: str
    tone: str


@dataclass(frozen=True, kw_only=True)
class Timing:
    """`work` is the tool's own measure, `waiting` a person's time, `between` what nobody has split."""

    started_at: datetime | None
    work_ms: int | None
    waiting_ms: int | None
    between_ms: int | None


@dataclass(frozen=True, kw_only=True)
class Failure:
    kind: str
    message: str
    hint: str
    retryable: bool


@dataclass(frozen=True, kw_only=True)
class Option:
    """One of several observations of a surface, or one of several receipts in time."""

    key: UUID
    label: str
    detail: str
    at: datetime | None
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class Attempt:
    key: UUID
    number: int
    status: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class CallPage:
    call: Call
    run: Run
    navigation: CallNavigation
    verdicts: tuple[Verdict, ...]
    timing: Timing
    source: str
    failure: Failure | None
    flag_note: str
    args: JsonPane
    left: JsonPane
    has_recorded: bool
    receipt: ReceiptPane | None
    receipt_fidelity: Fidelity
    rail: Rail
    variant: VariantPane | None
    variants: tuple[VariantKey, ...]
    drifted: tuple[FingerprintedReceipt, ...]
    lint: LintPane | None
    cuts: tuple[CutBar, ...]
    superseded: RecordedReceipt | None
    receipts: tuple[Option, ...]
    others: dict[str, tuple[Option, ...]]
    attempts: tuple[Attempt, ...]
    artifacts: tuple[ArtifactSummary, ...]
    child: Run | None
    events: tuple[Event, ...]
    has_more_events: bool


def call_page(project: Project, call: Call, query: QueryDict) -> CallPage:
    reach = lint_reach(query)
    surfaces = load_evidence(call, query, first=reach)
    artifacts = artifact_summaries(call)
    missing = {artifact.artifact.path for artifact in artifacts if artifact.is_lost}
    receipt = receipt_pane(surfaces, spaces="spaces" in query)
    fidelity = receipt.fidelity if receipt else receipt_fidelity("absent")
    shows_recorded = query.get("left") == "recorded" and surfaces.result is not None
    way = rail(surfaces, query)
    variant = load_variant_pane(project, surfaces, query)
    events = tuple(Event.objects.filter(call=call.pk).defer("payload").order_by("line", "id")[: EVENTS_SHOWN + 1])
    return CallPage(
        call=call,
        run=call.run,
        navigation=load_navigation(project, call, query),
        verdicts=tuple(_verdicts(call)),
        timing=_timing(call),
        source=call.source.name if call.source else "",
        failure=_failure(surfaces),
        flag_note=_flag_note(call),
        args=args_pane(surfaces),
        left=recorded_pane(surfaces) if shows_recorded else canonical_pane(surfaces),
        has_recorded=surfaces.result is not None,
        receipt=receipt,
        receipt_fidelity=fidelity,
        rail=way,
        variant=variant,
        variants=load_variant_keys(project, surfaces, query),
        drifted=load_drifted(call),
        lint=lint_pane(surfaces, missing, reach) if way.shows_receipt and variant is None else None,
        cuts=cut_bars(surfaces.halves, artifacts, got=fidelity.got),
        superseded=_superseded(surfaces),
        receipts=_receipt_options(surfaces),
        others=_others(surfaces),
        attempts=_attempts(call),
        artifacts=artifacts,
        child=project.runs.filter(pk=call.child_run).first() if call.child_run else None,
        events=events[:EVENTS_SHOWN],
        has_more_events=len(events) > EVENTS_SHOWN,
    )


def _verdicts(call: Call) -> list[Verdict]:
    verdicts = []
    if call.exit_status is not None:
        verdicts.append(Verdict(text=f"exit {call.exit_status}", tone="bad" if call.exit_status else "good"))
    if call.is_waiting:
        verdicts.append(Verdict(text="waited for a person", tone="wait"))
    if call.is_cut:
        verdicts.append(Verdict(text="cut before the model", tone="warn"))
    if halves_disagree(call):
        verdicts.append(Verdict(text="halves disagree", tone="warn"))
    if call.is_disagreeing:
        verdicts.append(Verdict(text="sources disagree", tone="warn"))
    return verdicts


def _timing(call: Call) -> Timing:
    waiting = call.wait_ms
    split = call.tool_ms is not None or call.is_waiting
    return Timing(
        started_at=call.started_at,
        work_ms=call.tool_ms,
        waiting_ms=waiting if waiting and waiting >= WAITING_FROM_MS else None,
        between_ms=None if split else call.duration_ms,
    )


def _failure(surfaces: CallEvidence) -> Failure | None:
    """Of the envelope as it is stored, which need not be one of today's."""
    canonical = parse_json(surfaces.canonical) if b'"error"' in surfaces.canonical else None
    error = canonical.get("error") if isinstance(canonical, dict) else None
    if not isinstance(error, dict):
        return None
    return Failure(
        kind=printable(str(error["kind"])),
        message=str(error["message"]),
        hint=str(error.get("recovery_hint") or ""),
        retryable=bool(error.get("retryable")),
    )


def _flag_note(call: Call) -> str:
    """Said only where the source's own flag and the envelope's status differ."""
    has_error = call.status == Call.Status.ERROR
    if call.source_error is None or call.status == Call.Status.UNKNOWN or call.source_error == has_error:
        return ""
    if call.source_error:
        return "The source flags this call as an error. The tool itself ran and said so, so the envelope is a success."
    return "The source flags this call as no error, yet what it recorded is one."


def _superseded(surfaces: CallEvidence) -> RecordedReceipt | None:
    shown = surfaces.receipt
    return shown if shown is not None and shown.superseded_line is not None else None


def _receipt_options(surfaces: CallEvidence) -> tuple[Option, ...]:
    """All receipts that the model got in turn; empty when there was only one."""
    if len(surfaces.receipts) < 2:
        return ()
    current = surfaces.chosen.get("receipt")
    return tuple(
        Option(
            key=one.observation_id,
            label=f"Receipt {one.seq}",
            detail=one.superseded_reason if one.superseded_line is not None else "stands",
            at=one.at,
            is_current=current is not None and current.pk == one.observation_id,
        )
        for one in surfaces.receipts
        if one.observation_id is not None
    )


def _others(surfaces: CallEvidence) -> dict[str, tuple[Option, ...]]:
    """Surfaces of which sources said different things; receipts that followed each other are no such thing."""
    in_turn = {one.observation_id for one in surfaces.receipts if one.seq > 1}
    found = {}
    for surface in ("args", "result", "receipt"):
        spoken = [one for one in surfaces.of_surface(surface) if one.pk not in in_turn]
        if len(spoken) > 1:
            found[surface] = tuple(_option(one, surfaces.chosen.get(surface)) for one in spoken)
    return found


def _option(observation: Observation, current: Observation | None) -> Option:
    source = observation.source.name if observation.source else "a source that is gone"
    return Option(
        key=observation.pk,
        label=f"{source}:{observation.line}",
        detail=f"{observation.fidelity}, selected" if observation.selected else observation.fidelity,
        at=observation.observed_at,
        is_current=current is not None and current.pk == observation.pk,
    )


def _attempts(call: Call) -> tuple[Attempt, ...]:
    """Calls that are tries of one step; empty when there was only one try."""
    if not call.step:
        return ()
    same_step = call.run.own_calls.filter(step=call.step, tool=call.tool).order_by("attempt", "line")
    attempts = tuple(
        Attempt(key=pk, number=number, status=status, is_current=pk == call.pk)
        for pk, number, status in same_step.values_list("pk", "attempt", "status")
    )
    return attempts if any(attempt.number > 1 for attempt in attempts) else ()

"""One call's payloads and facts, as a run has it: a fork shows calls that it inherited, with its own receipts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import QueryDict

from dashboard.artifacts.summaries import ArtifactSummary, artifact_summaries
from dashboard.calls.aligned_lines import LinesPane, build_lines_pane
from dashboard.calls.call_variants import VariantKey, VariantPane, load_variant_keys, load_variant_pane
from dashboard.calls.cut_bar import CutBar, build_cut_bars
from dashboard.calls.half_panes import (
    JsonPane,
    ReceiptPane,
    build_args_pane,
    build_left_pane,
    build_receipt_pane,
)
from dashboard.calls.receipt_origin import HookRewrite, McpAudiences, build_audiences, build_rewrite, load_hooks
from dashboard.calls.stages import CallStages, build_stages
from dashboard.evidence.call_evidence import SURFACES, CallEvidence, find_joined, load_evidence
from dashboard.evidence.execution import ExecutionFact, build_execution
from dashboard.evidence.fidelity import Fidelity, receipt_fidelity
from dashboard.evidence.lint_findings import LintPane, build_lint_pane, lint_reach
from dashboard.evidence.remarks import RemarkList, load_remarks
from dashboard.ingest.compute_derived import update_columns
from dashboard.ingest.run_stats import halves_disagree
from dashboard.models import Call, Event, Observation, Project, RecordedReceipt, Run
from dashboard.models.evidence import differ
from dashboard.models.outcomes import Outcome
from dashboard.models.sources import LIVE
from dashboard.text.formatting import format_place
from dashboard.text.text_markup import printable
from dashboard.variants.fingerprints import FingerprintedReceipt, load_fingerprinted
from envelopes.halves import Halves
from envelopes.recordings.base import LATER_TEXT
from envelopes.text.untrusted_json import parse_json

MAX_EVENTS = 200
LEAST_WAIT_MS = 1_000  # a smaller difference of two clocks is the time of writing the log, not a person's


@dataclass(frozen=True, kw_only=True)
class CallBadge:
    text: str
    tone: str


@dataclass(frozen=True, kw_only=True)
class CallTiming:
    """`work_ms` is the tool's own measure, `wait_ms` a person's time, `total_ms` a time that nobody has split."""

    started_at: datetime | None
    work_ms: int | None
    wait_ms: int | None
    total_ms: int | None


@dataclass(frozen=True, kw_only=True)
class CallFailure:
    kind: str
    message: str
    hint: str
    retryable: bool


@dataclass(frozen=True, kw_only=True)
class EvidenceOption:
    """One of several observations of a surface, or one of several receipts in time."""

    key: UUID | None  # None: all that the model has together
    label: str
    detail: str
    at: datetime | None
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class CallAttempt:
    key: UUID
    number: int
    outcome: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class CallPage:
    """`left` is the canonical result, the envelope as it is stored, or the recorded result; `canonical_form` is the
    parameter that asks for the first, None where it is the default. `lines` has both halves line by line, where the
    address asks for that. `receipt_row` is the receipt in view, None for one that only another source reports.

    `run` is the one that is open, which a copied call does not belong to. `disagreeing` are surfaces that sources
    reported differently. `other_run` is the run of the receipts in view where the open run has none of this call.
    """

    call: Call
    run: Run
    evidence: CallEvidence
    outcome: CallBadge
    badges: tuple[CallBadge, ...]
    envelope_note: str
    timing: CallTiming
    source: str
    failure: CallFailure | None
    flag_note: str
    args: JsonPane
    left: JsonPane | None
    lines: LinesPane | None
    has_lines: bool
    canonical_form: str | None
    has_recorded: bool
    receipt: ReceiptPane | None
    receipt_fidelity: Fidelity
    stages: CallStages
    variant: VariantPane | None
    variants: tuple[VariantKey, ...]
    drifted: tuple[FingerprintedReceipt, ...]
    lint: LintPane | None
    cuts: tuple[CutBar, ...]
    receipt_row: RecordedReceipt | None
    other_run: Run | None
    receipts: tuple[EvidenceOption, ...]
    disagreeing: dict[str, tuple[EvidenceOption, ...]]
    attempts: tuple[CallAttempt, ...]
    artifacts: tuple[ArtifactSummary, ...]
    child: Run | None
    rewrite: HookRewrite | None
    audiences: McpAudiences | None
    execution: tuple[ExecutionFact, ...]
    remarks: RemarkList
    events: tuple[Event, ...]
    has_more_events: bool


def load_call_page(project: Project, call: Call, run: Run, query: QueryDict, *, with_halves: bool = True) -> CallPage:
    """Without the halves it is what the head and the details of a step show: the tabs that show neither half."""
    reach = lint_reach(query)
    chosen = {surface: query.get(surface, "") for surface in SURFACES} | {"run": str(run.pk)}
    evidence = load_evidence(call, chosen, first=reach)
    events = tuple(Event.objects.filter(call=call.pk).defer("own_data").order_by("line", "id")[: MAX_EVENTS + 1])
    hooks = load_hooks(call, events, has_more=len(events) > MAX_EVENTS)
    if not call.derivation:
        update_columns(evidence, hooks)  # they are older than the evidence; a GET stores nothing
    artifacts = artifact_summaries(call)
    receipt = build_receipt_pane(evidence, spaces="spaces" in query)
    fidelity = receipt.fidelity if receipt else receipt_fidelity("absent")
    sent = load_fingerprinted(call)
    stages = build_stages(evidence, query, is_rendered=any(receipt.is_rendered_from(evidence) for receipt in sent))
    variant = load_variant_pane(project, evidence, query) if with_halves else None
    lint = None
    if with_halves and stages.shows_receipt and variant is None:
        missing = {summary.artifact.path for summary in artifacts if summary.is_lost}
        lint = build_lint_pane(evidence, missing, reach)
    receipt_run = evidence.receipts[0].run_id if evidence.receipts else run.pk
    rewrite = build_rewrite(evidence, hooks)
    return CallPage(
        call=call,
        run=run,
        evidence=evidence,
        outcome=_outcome_badge(call),
        badges=tuple(_badges(evidence, rewrite)),
        envelope_note=_envelope_note(call),
        timing=_build_timing(call),
        source=_describe_source(evidence),
        failure=_parse_failure(evidence),
        flag_note=_flag_note(call),
        args=build_args_pane(evidence),
        canonical_form="canonical" if evidence.is_slow_to_complete else None,
        left=build_left_pane(evidence, query.get("left", "")) if with_halves else None,
        lines=_build_lines(evidence, rewrite) if with_halves and query.get("left") == "lines" else None,
        has_lines=bool(evidence.halves.outputs) and evidence.halves.receipt is not None,
        has_recorded=evidence.result is not None,
        receipt=receipt,
        receipt_fidelity=fidelity,
        stages=stages,
        variant=variant,
        variants=load_variant_keys(project, evidence, query, run) if with_halves else (),
        drifted=tuple(receipt for receipt in sent if receipt.drift),
        lint=lint,
        cuts=build_cut_bars(evidence, artifacts, got=fidelity.got, hooked=rewrite.halves if rewrite else None),
        receipt_row=evidence.receipt,
        other_run=None if receipt_run == run.pk else project.runs.filter(pk=receipt_run).first(),
        receipts=_receipt_options(evidence),
        disagreeing=_disagreeing_surfaces(evidence),
        attempts=_load_attempts(call),
        artifacts=artifacts,
        child=project.runs.filter(pk=call.child_run).first() if call.child_run else None,
        rewrite=rewrite,
        audiences=build_audiences(evidence, fidelity.got) if with_halves else None,
        execution=build_execution(evidence),
        remarks=load_remarks(run, call),
        events=events[:MAX_EVENTS],
        has_more_events=len(events) > MAX_EVENTS,
    )


def _describe_source(evidence: CallEvidence) -> str:
    """The file that the call is from with the line of its arguments, or a program with the time of what it sent.

    The place of a call in its run is no line where a format numbers its records by itself.
    """
    call, args = evidence.call, evidence.chosen.get("args")
    if call.source is None:
        return ""
    is_in_file = args is not None and args.source_id == call.source_id and not call.source.path.startswith(LIVE)
    place = f"line {args.line:,}" if args and is_in_file else format_place(call.line, call.run.source_format)
    return f"{call.source.name}, {place}"


def _build_lines(evidence: CallEvidence, rewrite: HookRewrite | None) -> LinesPane | None:
    return build_lines_pane(evidence, is_hooked=rewrite is not None and rewrite.halves is not None)


def _outcome_badge(call: Call) -> CallBadge:
    if call.outcome == Outcome.UNANSWERED:
        return CallBadge(text="running" if call.run.is_live else "no answer recorded", tone="warn")
    return CallBadge(text=call.outcome_words, tone=Outcome(call.outcome).tone)


def _envelope_note(call: Call) -> str:
    """The envelope's own status, where it is another word than the outcome."""
    if call.status == Call.Status.SUCCESS and call.outcome == Outcome.FAILED:
        end = f"reported exit {call.exit_status}" if call.exit_status else "returned a result"
        return f"success: the tool ran and {end}"
    if call.exit_status and call.outcome == Outcome.SUCCEEDED:
        return f"success: exit {call.exit_status} is an answer of this command, no failure"
    return ""


def _badges(evidence: CallEvidence, rewrite: HookRewrite | None) -> Iterator[CallBadge]:
    call = evidence.call
    if rewrite and rewrite.badge:
        yield CallBadge(text=rewrite.badge, tone="warn")
    if call.is_waiting:
        yield CallBadge(text="waited for a person", tone="wait")
    yield from _cut_badges(call, rewrite.halves if rewrite and rewrite.halves else evidence.halves)
    if halves_disagree(call):
        yield CallBadge(text="error flag wrong", tone="warn")
    if call.is_disagreeing:
        yield CallBadge(text="logs disagree", tone="warn")


def _cut_badges(call: Call, halves: Halves) -> Iterator[CallBadge]:
    """By whom the output was cut: the agent on the way to the model, the source before it recorded anything."""
    is_inflated = call.receipt_fidelity == "inflated"
    units = {cut.unit for cut in halves.reading.source_cuts}
    is_cut_by_source = call.is_cut and (bool(units - {"tokens"}) or call.result_fidelity == "bounded")
    if is_inflated:
        yield CallBadge(text="log holds more than the model got", tone="warn")
    if is_cut_by_source:
        yield CallBadge(text="cut by the source", tone="warn")
    is_short = any(not output.cut.is_whole for output in halves.known_outputs) or halves.preview is not None
    is_short = is_short or "tokens" in units
    if call.is_cut and not is_inflated and (is_short or not is_cut_by_source):
        yield CallBadge(text="cut before the model", tone="warn")


def _build_timing(call: Call) -> CallTiming:
    wait = call.wait_ms
    is_split = call.tool_ms is not None or call.is_waiting
    return CallTiming(
        started_at=call.started_at,
        work_ms=call.tool_ms,
        wait_ms=wait if wait and wait >= LEAST_WAIT_MS else None,
        total_ms=None if is_split else call.duration_ms,
    )


def _parse_failure(evidence: CallEvidence) -> CallFailure | None:
    """The error of the stored envelope, which may be of an older mapping."""
    canonical = parse_json(evidence.canonical) if b'"error"' in evidence.canonical else None
    error = canonical.get("error") if isinstance(canonical, dict) else None
    if not isinstance(error, dict):
        return None
    return CallFailure(
        kind=printable(str(error["kind"])),
        message=str(error["message"]),
        hint=str(error.get("recovery_hint") or ""),
        retryable=bool(error.get("retryable")),
    )


def _flag_note(call: Call) -> str:
    """A sentence where the log's own flag and the envelope's status differ."""
    has_error = call.status == Call.Status.ERROR
    if call.source_error is None or call.status == Call.Status.UNKNOWN or call.source_error == has_error:
        return ""
    if not call.source_error:
        return "The log marks this call as no error, but the recorded result is an error."
    if call.exit_status or call.outcome not in (Outcome.SUCCEEDED, Outcome.FAILED):
        return ""
    return "The log marks this call as an error, but the recorded result is a success."


def _describe_end(receipt: RecordedReceipt) -> str:
    """The reason of a receipt's end for its choice: one that the model had first was replaced later."""
    return (receipt.superseded_reason or "replaced").replace(LATER_TEXT, "replaced later", 1)


def _receipt_options(evidence: CallEvidence) -> tuple[EvidenceOption, ...]:
    """All receipts that the model got in turn; empty when there was only one. Those that it has together come first."""
    if len(evidence.receipts) < 2:
        return ()
    current = evidence.chosen.get("receipt")
    together = find_joined(evidence.observations, evidence.receipts)
    still = "" if together else "current"
    options = [
        EvidenceOption(
            key=receipt.observation_id,
            label=f"Receipt {receipt.seq}",
            detail=_describe_end(receipt) if receipt.is_superseded else still,
            at=receipt.at,
            is_current=current is not None and current.pk == receipt.observation_id and not evidence.joined,
        )
        for receipt in evidence.receipts
        if receipt.observation_id is not None
    ]
    if together:
        together_option = EvidenceOption(
            key=None,
            label=f"All {len(together)} together",
            detail="polled",
            at=evidence.receipts[-1].at,
            is_current=bool(evidence.joined),
        )
        options.insert(0, together_option)
    return tuple(options)


def _disagreeing_surfaces(evidence: CallEvidence) -> dict[str, tuple[EvidenceOption, ...]]:
    """The surfaces of which sources have different values. Receipts that followed each other in time do not differ."""
    options: dict[str, list[Observation]] = {surface: [] for surface in SURFACES}
    for observation in evidence.observations:
        if observation.surface in options and observation.pk not in evidence.replacements:
            options[observation.surface].append(observation)
    return {
        surface: tuple(_observation_option(observation, evidence.chosen.get(surface)) for observation in observations)
        for surface, observations in options.items()
        if differ(observations)
    }


def _observation_option(observation: Observation, current: Observation | None) -> EvidenceOption:
    source = observation.source.name if observation.source else "a deleted source"
    return EvidenceOption(
        key=observation.pk,
        label=f"{source}:{observation.line}",
        detail=f"{observation.fidelity}, selected" if observation.selected else observation.fidelity,
        at=observation.observed_at,
        is_current=current is not None and current.pk == observation.pk,
    )


def _load_attempts(call: Call) -> tuple[CallAttempt, ...]:
    """The tries of the call's step; empty when there was only one. Each round of a foreach has tries of its own."""
    if not call.step:
        return ()
    same_step = call.run.own_calls.filter(step=call.step, tool=call.tool, iteration=call.iteration)
    tries = same_step.only("run_id", "attempt", "outcome", "exit_status", "derivation").order_by(
        "attempt", "line", "pk"
    )
    attempts = tuple(
        CallAttempt(key=row.pk, number=row.attempt, outcome=row.outcome_words, is_current=row.pk == call.pk)
        for row in tries
    )
    return attempts if any(attempt.number > 1 for attempt in attempts) else ()

"""The confirmation of a plan: what an operator is shown before it runs, and what proves it afterwards.

load_confirmation_page      the plan, its effective risk, every path and command that is known, policy and hashes
load_recorded_confirmation  the decision as the run's own records have it
CallProof                   call -> confirmation -> what was shown
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from dashboard.models import Event, Observation, PlanExecution, Run, RunCall, load_slices
from dashboard.models.runs import step_url
from envelopes.codecs import call as codec
from envelopes.families.registry import builtin
from envelopes.plan.checks import effective_risk
from envelopes.plan.confirmation import CHANGES, PREVIEW_CHARACTERS, audit_confirmations
from envelopes.plan.policy import check_tool
from envelopes.plan.references import UnresolvedReference, find_references
from envelopes.plan.sandbox import RefusedPath, check_path, find_values
from envelopes.plan.schema import Step, read_plan
from envelopes.runtime.unified_diff import PatchRefused, parse_patch
from envelopes.schema.call import ExecutionEvent, RunPolicy, ToolCall, ToolResult
from envelopes.schema.tool import ToolDefinition
from envelopes.text.canonical_json import NotCanonical, named_hash
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

CONFIRMED = "run.confirmed"
PATHS = ("folder", "add", "modify", "delete", "move", "move away")  # kinds of targets that the sandbox checks


class RecordedConfirmation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The member `confirmation` of run.json."""

    confirmation_id: str = ""
    decision: str = ""
    actor: str = ""
    at: str = ""
    plan_hash: str = ""
    policy_hash: str = ""
    preview: str = ""
    reason: str = ""


class PlannedStep(NamedTuple):
    number: int
    id: str
    tool: str
    risk: str
    foreach: str
    args: str
    refusal: str  # of the policy; empty where it allows the tool


class KnownTarget(NamedTuple):
    """A path or a command of a step. `is_open`: it has references, which are resolved when the step runs.

    `refusal` is why the policy does not allow the path; empty where it does, and for commands, which it cannot judge.
    """

    step: str
    kind: str
    text: str
    is_open: bool
    refusal: str = ""


@dataclass(frozen=True, kw_only=True)
class CallProof:
    """One call of the run. `problem` is what is missing from its proof; empty where it is complete."""

    name: str
    url: str
    confirmation_id: str
    started_at: str
    confirmed_at: str
    problem: str


@dataclass(frozen=True, kw_only=True)
class ConfirmationPage:
    """`execution` waits for a decision, `recorded` is one. Both may be missing. The hashes are those of the request.

    `is_plan_proved`: the recorded plan has the hash. None where secrets are masked in it, so that nobody can tell.
    `is_policy_proved` is the same of the policy, which has no secrets. `is_on_terminal`: the command asks its own user.
    """

    run: Run
    goal: str
    risk: str
    steps: tuple[PlannedStep, ...]
    targets: tuple[KnownTarget, ...]
    policy: str
    plan_hash: str
    policy_hash: str
    expires_at: datetime | None
    is_waiting: bool
    is_on_terminal: bool
    is_cancelled: bool
    recorded: RecordedConfirmation | None
    preview: str
    is_plan_proved: bool | None
    is_policy_proved: bool
    proof: CallProof | None
    problem: str = ""

    @property
    def risk_words(self) -> str:
        return CHANGES.get(self.risk, self.risk)  # type: ignore[call-overload, no-any-return]


def load_recorded_confirmation(run: Run) -> RecordedConfirmation | None:
    recorded = _document(run).get("confirmation")
    try:
        return None if recorded is None else msgspec.convert(recorded, RecordedConfirmation)
    except msgspec.ValidationError:
        return None


def load_confirmation_page(run: Run, position: int | None = None, problem: str = "") -> ConfirmationPage | None:
    """`position` is that of a call whose proof is shown. None for a plan that is no ActionPlan."""
    document = _document(run)
    try:
        plan = read_plan(parse_json(bytes(run.plan or b"null")))
    except Untrusted:
        return None
    execution = PlanExecution.objects.filter(run=run).first()
    recorded = load_recorded_confirmation(run)
    policy = _read_policy(document.get("policy"))
    preview = recorded.preview if recorded else execution.preview if execution else ""
    return ConfirmationPage(
        run=run,
        goal=plan.goal,
        risk=effective_risk(plan, find_tool),
        steps=tuple(_planned_step(number, step, policy) for number, step in enumerate(plan.steps, start=1)),
        targets=tuple(_check_target(target, policy) for step in plan.steps for target in find_targets(step)),
        policy=msgspec.json.format(dump_json(document["policy"]), indent=2).decode() if document.get("policy") else "",
        plan_hash=str(document.get("planHash", "")),
        policy_hash=str(document.get("policyHash", "")),
        expires_at=execution.expires_at if execution else None,
        is_waiting=run.is_asking and recorded is None,
        is_on_terminal=execution is not None and execution.is_on_terminal,
        is_cancelled=execution is not None and execution.cancelled_at is not None,
        recorded=recorded,
        preview=preview,
        is_plan_proved=None if document.get("redactions") else _has_hash(document, "plan"),
        is_policy_proved=_has_hash(document, "policy") is not False,
        proof=_load_proof(run, position) if position else None,
        problem=problem,
    )


def _document(run: Run) -> dict[str, Any]:
    document = parse_json(bytes(run.document)) if run.document else {}
    return document if isinstance(document, dict) else {}


def _has_hash(document: Mapping[str, Any], name: str) -> bool | None:
    """The recorded member `name` has the hash that is recorded of it; None where none is."""
    if f"{name}Hash" not in document:
        return None
    try:
        return bool(named_hash(document.get(name)) == document[f"{name}Hash"])
    except NotCanonical:
        return False


def _read_policy(document: Any) -> RunPolicy | None:
    try:
        return codec.decode_policy(document)
    except Untrusted:
        return None


def _check_target(target: KnownTarget, policy: RunPolicy | None) -> KnownTarget:
    if target.is_open or target.kind not in PATHS or policy is None or not policy.sandbox.enabled:
        return target
    try:
        check_path(target.text, policy.sandbox)
    except RefusedPath as refusal:
        return target._replace(refusal=refusal.reason)
    return target


def find_tool(name: str) -> ToolDefinition | None:
    try:
        return builtin(name)[1]
    except KeyError:
        return None


def _planned_step(number: int, step: Step, policy: RunPolicy | None) -> PlannedStep:
    tool = find_tool(step.tool)
    refusal = check_tool(tool, policy) if tool and policy else None
    args = dump_json(step.args).decode()
    return PlannedStep(
        number=number,
        id=step.id,
        tool=step.tool,
        risk=tool.risk if tool else "unknown",
        foreach=step.foreach.source if step.foreach else "",
        args=args if len(args) <= PREVIEW_CHARACTERS else f"{args[:PREVIEW_CHARACTERS]}…",
        refusal=refusal.message if refusal else "",
    )


def find_targets(step: Step) -> Iterator[KnownTarget]:
    """The paths that the definition of the tool names, those of a patch, commands, addresses, plans of child agents."""
    tool = find_tool(step.tool)
    if tool is None:
        return
    texts = [("folder", value) for _, value in find_values(step.args, tool.path_args) if isinstance(value, str)]
    texts += [("command", text) for text in _commands(step.args)] if tool.risk == "commands" else []
    for kind, text in texts:
        yield KnownTarget(step.id, kind, text, _has_references(text))
    if isinstance(address := step.args.get("url"), str):
        yield KnownTarget(step.id, "address", address, _has_references(address))
    if isinstance(template := step.args.get("template"), str):
        yield KnownTarget(step.id, "child plan", template, _has_references(template))
    if isinstance(patch := step.args.get("patch"), str):
        yield from _patched_files(step, patch)


def _patched_files(step: Step, patch: str) -> Iterator[KnownTarget]:
    if _has_references(patch):
        yield KnownTarget(step.id, "patch", patch, is_open=True)
        return
    try:
        files = parse_patch(patch.replace("{{", "{").replace("}}", "}")).files
    except PatchRefused as refusal:
        yield KnownTarget(step.id, "patch", f"will be refused: {refusal}", is_open=False)
        return
    for file in files:
        if file.action == "move":
            yield KnownTarget(step.id, "move away", file.source, is_open=False)
        yield KnownTarget(step.id, file.action, file.path, is_open=False)


def _commands(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, child in value.items():
            if name in ("cmd", "input") and isinstance(child, str):
                yield child
            else:
                yield from _commands(child)
    elif isinstance(value, list):
        for child in value:
            yield from _commands(child)


def _has_references(text: str) -> bool:
    try:
        return any(find_references(text))
    except UnresolvedReference:
        return False


def _load_proof(run: Run, position: int) -> CallProof | None:
    """Rebuilds the proof from the recorded objects of that call and the events of the run."""
    member = RunCall.objects.filter(run=run).order_by("ordinal", "call")[position - 1 : position].first()
    if member is None:
        return None
    rows = list(Observation.objects.filter(call=member.call_id, surface__in=("call", "timing")).order_by("line"))
    events = list(Event.objects.filter(run=run, call=None, kind=CONFIRMED).order_by("line"))
    load_slices([*rows, *events])
    documents = {row.surface: parse_json(bytes(row.data)) for row in rows}
    if "call" not in documents:
        return None
    try:
        call = codec.decode(documents["call"], ToolCall)
        results = [codec.decode(documents["timing"], ToolResult)] if "timing" in documents else []
        confirmed = [codec.decode(parse_json(bytes(event.data)), ExecutionEvent) for event in events]
    except (Untrusted, ValueError):
        return None
    policy = _read_policy(_document(run).get("policy"))
    is_required = None if policy is None else policy.confirmations_required
    proofs = audit_confirmations([call], results, confirmed, is_required=is_required)
    event = proofs[0].event if proofs else None
    return CallProof(
        name=f"{call.tool}, step {call.step_id}, attempt {call.attempt}",
        url=step_url(run.pk, position),
        confirmation_id=call.confirmation_id or "",
        started_at=results[0].started_at if results else call.created_at,
        confirmed_at=event.timestamp if event else "",
        problem=proofs[0].problem if proofs else "This call needed no confirmation, or it never ran.",
    )

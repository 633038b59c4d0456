"""Rebuilds a run from its records alone and reports where they contradict its plan (CALL-097; OD-31, "verify").

    rebuild_run           plan, calls, results and events -> how each step ended, its output, and the contradictions
    RebuiltRun            the outcome; without problems, the records prove the run that the plan describes
    verify_folder         the same for the files of a run, with their hashes, events and stored outputs

Nothing is dispatched. A step's arguments are resolved again from the plan and the results before it, and compared
with those of the recorded calls (OD-14, OD-19).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, get_args

import msgspec

from envelopes.codecs import call as codec
from envelopes.plan.checks import RISKS
from envelopes.plan.confirmation import audit_confirmations, epoch_seconds, least_risk
from envelopes.plan.recorders import ARTIFACTS_FOLDER, SHORTENED, RecordedRun, load_run
from envelopes.plan.references import Scope, UnresolvedReference, resolve
from envelopes.plan.schema import ActionPlan, Defaults, OnError, Step, read_plan
from envelopes.plan.steps import (
    REDACTED,
    WITH_DATA,
    StepEnd,
    build_iterations,
    find_dependencies,
    on_error,
    order_steps,
    unmet_dependencies,
)
from envelopes.schema.call import ExecutionEvent, Iteration, Limits, ToolCall, ToolResult, check_events
from envelopes.schema.settlement import CallStatus
from envelopes.text.canonical_json import NotCanonical, named_hash
from envelopes.text.pointer import resolve as resolve_pointer
from envelopes.text.untrusted_json import Untrusted

EndAndOutput: TypeAlias = tuple[StepEnd | None, Any]
SHA256 = re.compile(r"[0-9a-f]{64}")
_RUN_ENDS = {"run.finished": "finished", "run.cancelled": "cancelled"}
# An executor may close a skipped call with either event.
_CLOSED_BY: dict[str, tuple[CallStatus, ...]] = {
    "step.finished": ("ok", "skipped"),
    "step.failed": ("error", "timeout", "cancelled", "skipped"),
}
_ENDS: dict[str, StepEnd] = {"ok": "ok", "skipped": "skipped", "cancelled": "cancelled"}


class StepState(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a step, all its calls together, and its output.

    `end` is None for a step that the run did not reach, or whose last call has no result. `output` is the value
    of `$steps.<id>`: the data of its call, or for a foreach the items, their number and the failures.
    """

    step_id: str
    end: StepEnd | None
    output: Any = None
    call_ids: tuple[str, ...] = ()


class RebuiltRun(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` are in the order of execution; each problem begins with the id of its call or step."""

    steps: tuple[StepState, ...]
    problems: tuple[str, ...]


def rebuild_run(
    plan: ActionPlan,
    calls: Sequence[ToolCall],
    results: Sequence[ToolResult],
    events: Sequence[ExecutionEvent] = (),
    internal: Mapping[str, Any] | None = None,
    *,
    is_confirmation_required: bool | None = None,
) -> RebuiltRun:
    """Rebuilds a run. `internal` are variables that the runtime set itself, `is_confirmation_required` is what the
    policy of run.json has.

    Raises what `order_steps` raises for a plan that cannot run.
    """
    variables = dict(internal or {})
    dependencies = find_dependencies(plan, variables)
    rebuilder = _Rebuilder(calls, results, events, dependencies, Scope(vars=variables), plan.defaults)
    for step in order_steps(plan, variables):
        rebuilder.add_step(step)
    states = rebuilder.states
    unknown = [f"{call.call_id}: the plan has no step {call.step_id}" for call in calls if call.step_id not in states]
    proofs = audit_confirmations(calls, results, events, is_required=is_confirmation_required)
    unproved = [f"{proof.call_id}: {proof.problem}" for proof in proofs if proof.problem]
    missing = _missing_steps(plan, states.values(), events, variables)
    return RebuiltRun(steps=tuple(states.values()), problems=(*unknown, *rebuilder.problems, *missing, *unproved))


def _missing_steps(
    plan: ActionPlan, states: Iterable[StepState], events: Iterable[ExecutionEvent], variables: Mapping[str, Any]
) -> Iterator[str]:
    """Compares the rebuilt ends with those that run.finished or run.cancelled states for each step.

    Without such a statement, a step that a finished run neither called nor had a reason to leave out is a problem: no
    earlier step stopped the run, and every context request of the plan was met.
    """
    steps = {step.id: step for step in plan.steps}
    end = next((event for event in events if event.type in ("run.finished", "run.cancelled")), None)
    recorded = (end.payload or {}).get("steps") if end is not None else None
    is_stopped = any(variables.get(request.kind) is None for request in plan.context_requests)
    for state in states:
        if isinstance(recorded, dict) and state.step_id in recorded:
            if recorded[state.step_id] != state.end:
                stated, rebuilt = recorded[state.step_id] or "not reached", state.end or "not reached"
                yield f"{state.step_id}: the end of the run has it as {stated}, its records as {rebuilt}"
        elif end is not None and end.type == "run.finished" and state.end is None and not is_stopped:
            yield f"{state.step_id}: the run finished without a call of it, and no step before it stopped the run"
        if state.end in ("error", "cancelled") and on_error(steps[state.step_id], plan.defaults) != "skip":
            is_stopped = True


class _Rebuilder:
    """The steps rebuilt so far, the scope that they give to the next ones, and the contradictions."""

    def __init__(
        self,
        calls: Iterable[ToolCall],
        results: Iterable[ToolResult],
        events: Iterable[ExecutionEvent],
        dependencies: Mapping[str, frozenset[str]],
        scope: Scope,
        defaults: Defaults,
    ) -> None:
        self._calls = sorted(calls, key=lambda call: call.attempt)
        self._results = {result.call_id: result for result in results}
        self._dependencies, self._scope, self._defaults = dependencies, scope, defaults
        kinds = {event.type for event in events}
        self._is_cancelled = "run.cancelled" in kinds
        self._is_over = self._is_cancelled or "run.finished" in kinds
        # A step without a call has an event of its own: skipped, nothing to do, or arguments that do not resolve.
        self._statuses = {
            event.step_id: (event.payload or {}).get("status")
            for event in events
            if event.call_id is None and event.type in ("step.finished", "step.failed")
        }
        self.states: dict[str, StepState] = {}
        self.problems: list[str] = []

    def add_step(self, step: Step) -> None:
        calls = [call for call in self._calls if call.step_id == step.id]
        end, output = self._end_and_output(step, calls)
        ids = tuple(call.call_id for call in calls)
        self.states[step.id] = StepState(step_id=step.id, end=end, output=output, call_ids=ids)
        if end in WITH_DATA:
            captured = {step.capture_as: output} if step.capture_as else {}
            self._scope = Scope({**self._scope.steps, step.id: output}, {**self._scope.vars, **captured})

    def _end_and_output(self, step: Step, calls: Sequence[ToolCall]) -> EndAndOutput:
        ends = {name: state.end for name, state in self.states.items() if state.end is not None}
        if not calls and unmet_dependencies(self._dependencies[step.id], ends):
            return "skipped", None
        if not calls and self._is_over and (status := self._statuses.get(step.id)) != "ok":
            return _ENDS.get(status or "", "error" if status else "cancelled" if self._is_cancelled else None), None
        try:
            results = list(self._last_results(step, calls))
        except (UnresolvedReference, NotCanonical) as error:
            self.problems += [f"{step.id}: {error}"] if calls else []
            return None, None
        over = {"is_over": self._is_over, "is_cancelled": self._is_cancelled}
        if step.foreach is not None:
            return end_of_foreach(results, on_error(step, self._defaults), **over)
        return end_of_call(results[0], **over)

    def _last_results(self, step: Step, calls: Sequence[ToolCall]) -> Iterator[ToolResult | None]:
        """Yields the result of the last attempt of each iteration, and records contradictions."""
        iterations = build_iterations(step, self._scope, calls[0].policy.limits if calls else Limits())
        indexes = {_index(iteration) for iteration, _ in iterations}
        for call in calls:
            if _index(call.iteration) not in indexes:
                self.problems.append(f"{call.call_id}: {step.id} has no such iteration")
        for iteration, bound in iterations:
            attempts = [call for call in calls if _index(call.iteration) == _index(iteration)]
            if attempts:
                self.problems += _differences(step, attempts, iteration, resolve(step.args, bound))
            yield self._results.get(attempts[-1].call_id) if attempts else None


def _differences(
    step: Step, attempts: Sequence[ToolCall], iteration: Iteration | None, args: dict[str, Any]
) -> Iterator[str]:
    for number, call in enumerate(attempts, start=1):
        # A secret that stands in the plan itself is masked there, so the arguments' hash is not that of the plan's.
        # Arguments that come of a masked result cannot be compared either.
        is_from_masked = REDACTED in str(args)
        is_masked = is_from_masked or any(resolve_pointer(args, pointer) == REDACTED for pointer in call.redactions)
        is_other_hash = not is_masked and call.args_hash is not None and call.args_hash != named_hash(args)
        problems = {
            f"attempt {call.attempt} is the call's attempt number {number}": call.attempt != number,
            f"its tool is {call.tool}, the step's is {step.tool}": call.tool != step.tool,
            f"its risk is {call.risk_level}, less than that of {call.tool}": RISKS.index(call.risk_level)
            < RISKS.index(least_risk(call.tool)),
            "its iteration has another item": not call.redactions and call.iteration != iteration,
            "its arguments differ from the step's": not (call.redactions or is_from_masked) and call.args != args,
            "its hash differs from that of the step's arguments": is_other_hash,
        }
        yield from (f"{call.call_id}: {problem}" for problem, is_present in problems.items() if is_present)


def _index(iteration: Iteration | None) -> int | None:
    return None if iteration is None else iteration.index


def end_of_call(result: ToolResult | None, *, is_over: bool, is_cancelled: bool) -> EndAndOutput:
    """The end and the output of a step with one call. `is_over`: no further result will come."""
    if result is None:
        return ("cancelled" if is_over and is_cancelled else None), None
    return _ENDS.get(result.status, "error"), result.data


def end_of_foreach(
    results: Sequence[ToolResult | None], on_failure: OnError, *, is_over: bool, is_cancelled: bool
) -> EndAndOutput:
    """The output of a foreach (OD-14) and its end (OD-15), which is `partial` where failures are skipped.

    A result is None for an item whose call was not made or did not end. Before the step `is_over` its end is None then;
    afterwards the missing calls were cancelled, or not made because another one failed.
    """
    known = [result for result in results if result is not None]
    failed = [
        {"index": index, "code": result.error.code if result.error else result.status.upper()}
        for index, result in enumerate(results)
        if result is not None and not result.ok
    ]
    output = {
        "items": [None if result is None else result.data for result in results],
        "count": len(results),
        "okCount": len(known) - len(failed),
        "failed": failed,
    }
    if len(known) < len(results):
        return (("cancelled" if is_cancelled else "error") if is_over else None), output
    if not failed:
        return "ok", output
    if any(result.status == "cancelled" for result in known):
        return "cancelled", output
    return ("partial" if on_failure == "skip" and len(failed) < len(known) else "error"), output


class FolderCheck(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` are the rebuilt ones. `is_interrupted`: the run has no end, which is no problem by itself."""

    run_id: str
    steps: tuple[StepState, ...]
    is_interrupted: bool
    problems: tuple[str, ...]


def verify_folder(folder: Path) -> FolderCheck:
    """Rebuilds a run from its files alone: those of a recorder, or of an export.

    Raises FileNotFoundError for a folder without run.json, and Untrusted for a file that is no record of a run, or a
    run without a plan.
    """
    run = load_run(folder)
    plan, variables = read_plan(run.header.get("plan")), run.header.get("variables")
    recorded_policy = run.header.get("policy")
    policy: dict[str, Any] = recorded_policy if isinstance(recorded_policy, dict) else {}
    is_required = policy.get("confirmationsRequired")
    rebuilt = rebuild_run(
        plan,
        run.calls,
        run.results,
        run.events,
        variables if isinstance(variables, dict) else None,
        is_confirmation_required=is_required if isinstance(is_required, bool) else None,
    )
    problems = [
        *_header_problems(run),
        *_event_problems(run),
        *_record_problems(run, folder / ARTIFACTS_FOLDER),
        *_identity_problems(run),
        *_closing_problems(run),
        *_policy_problems(run, policy),
        *(problem for result in run.results for problem in _file_problems(folder / ARTIFACTS_FOLDER, result)),
        *rebuilt.problems,
    ]
    return FolderCheck(
        run_id=str(run.header.get("runId", "")),
        steps=rebuilt.steps,
        is_interrupted=run.is_interrupted,
        problems=tuple(problems),
    )


def _header_problems(run: RecordedRun) -> Iterator[str]:
    header = run.header
    if not header.get("redactions") and header.get("planHash") not in (None, named_hash(header["plan"])):
        yield "run.json: the plan has another hash than planHash"
    if header.get("policyHash") not in (None, named_hash(header.get("policy"))):
        yield "run.json: the policy has another hash than policyHash"
    ends = {_RUN_ENDS[event.type] for event in run.events if event.type in _RUN_ENDS}
    if header.get("end") in _RUN_ENDS.values() and ends and header["end"] not in ends:
        yield f"run.json: its end is {header['end']}, that of its events is {', '.join(ends)}"
    confirmation = header.get("confirmation")
    recorded = confirmation if isinstance(confirmation, dict) else {}
    for event in run.events:
        if event.type == "run.confirmed":
            yield from _confirmation_problems(header, recorded, event.payload or {})


def _confirmation_problems(
    header: Mapping[str, Any], recorded: Mapping[str, Any], payload: Mapping[str, Any]
) -> Iterator[str]:
    """Compares the confirmation of run.json with the payload of run.confirmed."""
    if payload.get("confirmationId") != recorded.get("confirmationId"):
        yield "run.json: its confirmation is another one than that of run.confirmed"
    if recorded.get("decision") not in (None, "approved"):
        yield f"run.json: its confirmation is {recorded['decision']}, but the run was confirmed"
    actors = {actor for actor in (recorded.get("actor"), payload.get("actor")) if isinstance(actor, str)}
    if len(actors) > 1:
        yield f"run.json: the confirmation has more than one actor: {', '.join(sorted(actors))}"
    for name in ("planHash", "policyHash"):
        if not payload.get(name) == recorded.get(name) == header.get(name):
            yield f"run.json: the confirmation is of another {name} than that of the run"


def _event_problems(run: RecordedRun) -> Iterator[str]:
    """The events of an interrupted run may lack their ends, and the last line of a file its own."""
    if run.torn and not run.is_interrupted:
        yield f"{run.torn} files end within a line"
    problems = check_events(run.events, [call.call_id for call in run.calls])
    numbers = [event.seq for event in run.events]
    if not run.is_interrupted:
        yield from (f"events.jsonl: {problem}" for problem in problems)
    elif numbers != list(range(1, len(numbers) + 1)):
        yield "events.jsonl: seq: the numbers have a gap, a repetition or another order"


def _record_problems(run: RecordedRun, folder: Path) -> Iterator[str]:
    known = {call.call_id for call in run.calls}
    answered = Counter(result.call_id for result in run.results)
    yield from (f"{name}: {count} results" for name, count in answered.items() if count > 1)
    yield from (f"{name}: a result without a call" for name in answered if name not in known)
    if not run.is_interrupted:
        yield from (f"{call.call_id}: no result" for call in run.calls if call.call_id not in answered)
    for result in run.results:
        # Data with the ends of a stored output is the whole only where that file is as it was.
        is_whole = SHORTENED not in result.extra or not any(_file_problems(folder, result))
        if is_whole and result.data is not None and result.data_hash not in (None, named_hash(result.data)):
            yield f"{result.call_id}: its data has another hash than dataHash"
        if epoch_seconds(result.ended_at) < epoch_seconds(result.started_at):
            yield f"{result.call_id}: it ended at {result.ended_at}, before it began at {result.started_at}"
        if result.ok and (result.phase == "pre_dispatch" or result.denied_reason is not None):
            yield f"{result.call_id}: it ended ok, and its result has it as never dispatched"


def _identity_problems(run: RecordedRun) -> Iterator[str]:
    """Each record names the run; a result and an event name the step, the tool and the attempt of their call, too."""
    run_id = run.header.get("runId")
    calls = {call.call_id: call for call in run.calls}
    records: tuple[ToolCall | ToolResult | ExecutionEvent, ...] = (*run.calls, *run.results, *run.events)
    for record in records:
        kind = record.type if isinstance(record, ExecutionEvent) else type(record).__name__
        name = f"{record.call_id or 'events.jsonl'}: its {kind}"
        if run_id not in (None, record.run_id):
            yield f"{name} is of the run {record.run_id}"
        call = calls.get(record.call_id or "")
        for field in ("step_id", "tool", "attempt") if call is not None else ():
            value = getattr(record, field, None)
            if value not in (None, getattr(call, field)):
                yield f"{name} has the {field.removesuffix('_id')} {value}, the call has {getattr(call, field)}"


def _closing_problems(run: RecordedRun) -> Iterator[str]:
    """The event that closes a call fits the status of its result (OD-26)."""
    statuses = {result.call_id: result.status for result in run.results}
    for event in run.events:
        status = statuses.get(event.call_id or "")
        if status is None or event.type not in _CLOSED_BY:
            continue
        stated = (event.payload or {}).get("status")
        if status not in _CLOSED_BY[event.type] or (stated != status and stated in get_args(CallStatus)):
            yield f"{event.call_id}: its {event.type} does not fit the status of its result, {status}"


def _policy_problems(run: RecordedRun, policy: dict[str, Any]) -> Iterator[str]:
    """Compares the policy of each call with that of the run, in the members that both have (CALL-095)."""
    try:
        known = codec.encode_policy(codec.decode_policy(policy))
    except Untrusted:  # a foreign run may have a part of it
        known = policy
    for call in run.calls:
        own = codec.encode_policy(call.policy)
        for name in known.keys() & own.keys():
            if known[name] != own[name]:
                yield f"{call.call_id}: its policy has other {name} than run.json"


def _file_problems(folder: Path, result: ToolResult) -> Iterator[str]:
    files = result.extra.get("files")
    for file in files if isinstance(files, list) else ():
        path, sha256 = str(file.get("path")), str(file.get("sha256"))
        if not SHA256.fullmatch(sha256):
            yield f"{result.call_id}: {path} has no SHA-256"
            continue
        try:
            with (folder / sha256).open("rb") as content:
                is_same = hashlib.file_digest(content, "sha256").hexdigest() == sha256
        except OSError:
            yield f"{result.call_id}: {path} is not in the folder"
        else:
            if not is_same:
                yield f"{result.call_id}: {path} has another content than its hash names"

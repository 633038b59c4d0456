"""Rebuilds a run from its records alone and reports where they contradict its plan (CALL-097; OD-31, "verify").

    rebuild_run           plan, calls, results and events -> how each step ended, its output, and the contradictions
    RebuiltRun            the outcome; without problems, the records prove the run that the plan describes
    audit_confirmations   proof that no call changed something before the plan was confirmed (OD-24)
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
from typing import Any, TypeAlias

import msgspec

from envelopes.plan.recorders import ARTIFACTS_FOLDER, RecordedRun, load_run
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
from envelopes.schema.timestamps import parse_instant
from envelopes.text.canonical_json import NotCanonical, named_hash
from envelopes.text.pointer import resolve as resolve_pointer

EndAndOutput: TypeAlias = tuple[StepEnd | None, Any]
SHA256 = re.compile(r"[0-9a-f]{64}")
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
) -> RebuiltRun:
    """Rebuilds a run. `internal` are variables that the runtime set itself.

    Raises what `order_steps` raises for a plan that cannot run.
    """
    variables = dict(internal or {})
    dependencies = find_dependencies(plan, variables)
    rebuilder = _Rebuilder(calls, results, events, dependencies, Scope(vars=variables), plan.defaults)
    for step in order_steps(plan, variables):
        rebuilder.add_step(step)
    states = rebuilder.states
    unknown = [f"{call.call_id}: the plan has no step {call.step_id}" for call in calls if call.step_id not in states]
    proofs = audit_confirmations(calls, results, events)
    unproved = [f"{proof.call_id}: {proof.problem}" for proof in proofs if proof.problem]
    return RebuiltRun(steps=tuple(states.values()), problems=(*unknown, *rebuilder.problems, *unproved))


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


class ConfirmationProof(msgspec.Struct, frozen=True):
    """`event` is the first confirmation; where there is none in time, `problem` names what is missing.

    A call needs proof when its tool writes or runs commands, the policy at that time required confirmation, and
    the call was dispatched. The proof is a `run.confirmed` event of the same run whose payload names the
    confirmation that the call carries, and which is not later than the start of the call (CALL section 6).
    """

    call_id: str
    event: ExecutionEvent | None = None
    problem: str = ""


def audit_confirmations(
    calls: Iterable[ToolCall], results: Iterable[ToolResult], events: Sequence[ExecutionEvent]
) -> tuple[ConfirmationProof, ...]:
    """Returns one proof for each call that needs it, in the order of the calls."""
    results_by_call = {result.call_id: result for result in results}
    proofs = []
    for call in calls:
        result = results_by_call.get(call.call_id)
        # A call without a result may have run. A denied one did not, nor did one that ended before its dispatch.
        never_ran = result is not None and (result.phase == "pre_dispatch" or result.denied_reason is not None)
        if call.risk_level != "read-only" and call.policy.confirmations_required and not never_ran:
            proofs.append(_prove(call, result, events))
    return tuple(proofs)


def _prove(call: ToolCall, result: ToolResult | None, events: Sequence[ExecutionEvent]) -> ConfirmationProof:
    if call.confirmation_id is None:
        return ConfirmationProof(call.call_id, problem="it carries no confirmationId")
    confirmations = [
        event
        for event in events
        if event.type == "run.confirmed"
        and event.run_id == call.run_id
        and (event.payload or {}).get("confirmationId") == call.confirmation_id
    ]
    if not confirmations:
        problem = f"no run.confirmed event of its run names {call.confirmation_id}"
        return ConfirmationProof(call.call_id, problem=problem)
    started_at = call.created_at if result is None else result.started_at
    first = min(confirmations, key=lambda event: _seconds(event.timestamp))
    if _seconds(first.timestamp) > _seconds(started_at):
        problem = f"it began at {started_at}, before it was confirmed at {first.timestamp}"
        return ConfirmationProof(call.call_id, problem=problem)
    return ConfirmationProof(call.call_id, first)


def _seconds(timestamp: str) -> float:
    parsed = parse_instant(timestamp)
    assert parsed is not None  # calls, results and events are checked when they are made
    return parsed.timestamp()


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
    rebuilt = rebuild_run(plan, run.calls, run.results, run.events, variables if isinstance(variables, dict) else None)
    problems = [
        *_header_problems(run),
        *_event_problems(run),
        *_record_problems(run),
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
    confirmation = header.get("confirmation")
    for event in run.events:
        payload = event.payload or {}
        if event.type != "run.confirmed":
            continue
        recorded = confirmation if isinstance(confirmation, dict) else {}
        if payload.get("confirmationId") != recorded.get("confirmationId"):
            yield "run.json: its confirmation is another one than that of run.confirmed"
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


def _record_problems(run: RecordedRun) -> Iterator[str]:
    known = {call.call_id for call in run.calls}
    answered = Counter(result.call_id for result in run.results)
    yield from (f"{name}: {count} results" for name, count in answered.items() if count > 1)
    yield from (f"{name}: a result without a call" for name in answered if name not in known)
    if not run.is_interrupted:
        yield from (f"{call.call_id}: no result" for call in run.calls if call.call_id not in answered)
    for result in run.results:
        if result.data is not None and result.data_hash not in (None, named_hash(result.data)):
            yield f"{result.call_id}: its data has another hash than dataHash"


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

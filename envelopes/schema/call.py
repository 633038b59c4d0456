"""A call of a tool, its result, and the events in between, as an executor records them (CALL 3.1 to 3.3).

    ToolCall         the call: concrete arguments, after references, templates and foreach
    ToolResult       the settlement in CALL's vocabulary; `envelopes.codecs.call` converts one to the other
    check_data       checks the data of a result against what its tool returns
    ExecutionEvent   one line for progress, logs and telemetry
    check_events     the problems of a run's events in their order, in sentences

The names are in snake case here; the codec writes them in camelCase. None stands for a member that was not
given. `extra` holds members that the specification does not name, so that nothing is lost when a file is read
and written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from envelopes.schema.outcome import DeniedReason
from envelopes.schema.settlement import CallStatus, Effects, Phase, StoredOutput
from envelopes.schema.timestamps import check_instant
from envelopes.schema.tool import InvalidToolOutput, RiskLevel, ToolDefinition

EventType: TypeAlias = Literal[
    "run.started",
    "run.confirmationRequested",
    "run.confirmed",
    "run.cancelled",
    "step.scheduled",
    "step.started",
    "step.progress",
    "step.finished",
    "step.failed",
    "run.finished",
]
Level: TypeAlias = Literal["info", "warn", "error"]

EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)
_CLOSING = ("step.finished", "step.failed")
_RUN_ENDS = ("run.finished", "run.cancelled")
_CODE_ENDS = {"TIMEOUT": "timeout", "CANCELLED": "cancelled"}


class InvalidCall(ValueError):
    """A call or a result that breaks an invariant; the message begins with the field."""


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """The folders that the call may use. `allowed_roots` are virtual: "/" is the root of the workspace (OD-21).

    >>> Sandbox(enabled=True, allowed_roots=("/",)).enabled
    True
    """

    enabled: bool
    allowed_roots: tuple[str, ...] | None = None
    deny_patterns: tuple[str, ...] | None = None
    extra: dict[str, Any] = {}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a run, times in milliseconds. The specification has `max_concurrency`, OD-22 the others.

    >>> Limits(max_attempts=3, max_run_ms=600_000).max_attempts
    3
    """

    max_concurrency: int | None = None
    max_attempts: int | None = None
    max_timeout_ms: int | None = None
    max_backoff_ms: int | None = None
    max_iterations: int | None = None
    max_steps: int | None = None
    max_run_ms: int | None = None
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and value < 0:
                raise InvalidCall(f"{name}: {value} is negative")


class ToolRules(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a run may call. `allow` and `planes` are limits where they are given; `deny` is stronger."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    planes: tuple[str, ...] | None = None
    max_risk: RiskLevel | None = None


class NetworkRules(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts that the web tools may ask. Only public addresses are allowed, and the `private_hosts` by name.

    Hosts below one of `denied_hosts` are denied, too. The rules do not hold for what a command does by itself.
    """

    enabled: bool = True
    private_hosts: tuple[str, ...] = ()
    denied_hosts: tuple[str, ...] = ()


class RunPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The permissions of a run when the call was made (CALL-031, CALL-095). Without rules every tool is allowed.

    >>> RunPolicy(confirmations_required=True, sandbox=Sandbox(enabled=True), limits=Limits()).confirmations_required
    True
    """

    confirmations_required: bool
    sandbox: Sandbox
    limits: Limits
    tool_rules: ToolRules | None = None
    network_rules: NetworkRules | None = None
    extra: dict[str, Any] = {}


class Iteration(msgspec.Struct, frozen=True, kw_only=True):
    """The round of a foreach that the call belongs to; `index` counts from 0."""

    index: int
    item_name: str
    item_value: Any

    def __post_init__(self) -> None:
        if self.index < 0:
            raise InvalidCall(f"index: {self.index} is negative")


class Coercion(msgspec.Struct, frozen=True, kw_only=True):
    """An argument that was changed to fit the schema; `pointer` is RFC 6901, into `args`."""

    pointer: str
    before: Any
    after: Any


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call with its concrete arguments, as it is sent to a tool.

    `call_id` is the executor's own, unique within the run, and never the provider's id (E-20). `redactions` are
    pointers into `args` whose values were masked; `args_hash` is over the real ones.

    >>> from envelopes import Limits, RunPolicy, Sandbox
    >>> call = ToolCall(
    ...     call_id="c1", run_id="r1", step_id="s1", tool="ExecCommand", args={"cmd": "make test"}, attempt=1,
    ...     cancellable=True, created_at="2026-01-05T10:00:00Z", executor_version="1", tool_registry_version="1",
    ...     risk_level="commands",
    ...     policy=RunPolicy(confirmations_required=False, sandbox=Sandbox(enabled=True), limits=Limits()),
    ... )
    >>> call.args["cmd"]
    'make test'
    """

    call_id: str
    run_id: str
    step_id: str
    tool: str
    args: dict[str, Any]
    args_hash: str | None = None
    attempt: int
    timeout_ms: int | None = None
    deadline_at: str | None = None
    cancellable: bool
    iteration: Iteration | None = None
    loop_id: str | None = None
    created_at: str
    planner_version: str | None = None
    executor_version: str
    tool_registry_version: str
    preview: str | None = None
    risk_level: RiskLevel
    category: str | None = None
    policy: RunPolicy
    confirmation_id: str | None = None
    provider_call_id: str | None = None
    coercions: tuple[Coercion, ...] = ()
    redactions: tuple[str, ...] = ()
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        _check_named(self, ("call_id", "run_id", "step_id", "tool", "executor_version", "tool_registry_version"))
        _check_attempt(self.attempt)
        if self.timeout_ms is not None and self.timeout_ms < 1:
            raise InvalidCall(f"timeout_ms: {self.timeout_ms} is less than 1")
        check_instant("created_at", self.created_at)
        check_instant("deadline_at", self.deadline_at)


class CallError(msgspec.Struct, frozen=True, kw_only=True):
    """`retryable` is None where the source did not record it; `kind` and `recovery_hint` are the envelope's."""

    code: str
    message: str
    details: dict[str, Any] | None = None
    retryable: bool | None = None
    kind: str | None = None
    recovery_hint: str | None = None


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """`data` is the complete output; `data_ref` replaces it where the output is kept as an artifact.

    `phase`, `denied_reason`, `data_ref`, `was_coerced`, `deadline_at` and `provider_call_id` are not in the
    specification: without them nobody can tell from a result whether the tool ran.
    """

    call_id: str
    run_id: str
    step_id: str
    tool: str
    attempt: int
    status: CallStatus
    ok: bool
    data: dict[str, Any] | None = None
    data_hash: str | None = None
    error: CallError | None = None
    started_at: str
    ended_at: str
    duration_ms: int
    effects: Effects | None = None
    user_message: str | None = None
    debug_message: str | None = None
    phase: Phase | None = None
    denied_reason: DeniedReason | None = None
    data_ref: StoredOutput | None = None
    was_coerced: bool | None = None
    deadline_at: str | None = None
    provider_call_id: str | None = None
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        _check_named(self, ("call_id", "run_id", "step_id", "tool"))
        _check_attempt(self.attempt)
        _check_outcome(self)
        if self.duration_ms < 0:
            raise InvalidCall(f"duration_ms: {self.duration_ms} is negative")
        for name in ("started_at", "ended_at", "deadline_at"):
            check_instant(name, getattr(self, name))


def check_data(result: ToolResult, tool: ToolDefinition) -> None:
    """Raises InvalidCall for a result with data that its tool does not return (CALL-041, CALL-053).

    Data by reference is not read here: it was checked before it was stored.
    """
    if result.tool != tool.name:
        raise InvalidCall(f"tool: {result.tool!r} is not {tool.name!r}")
    if result.data is not None:
        try:
            tool.read_data(result.data)
        except InvalidToolOutput as error:
            raise InvalidCall(f"data: {error}") from None


def _check_named(record: msgspec.Struct, names: tuple[str, ...]) -> None:
    for name in names:
        if not getattr(record, name):
            raise InvalidCall(f"{name}: empty")


def _check_attempt(attempt: int) -> None:
    if attempt < 1:
        raise InvalidCall(f"attempt: {attempt} is less than 1, the first attempt")


def _check_outcome(result: ToolResult) -> None:
    """CALL-040, CALL-053 to CALL-055 and OD-28."""
    if result.ok != (result.status == "ok"):
        raise InvalidCall(f"ok: {result.ok} beside status {result.status!r}")
    if result.ok:
        _check_success(result)
    else:
        _check_failure(result)


def _check_success(result: ToolResult) -> None:
    if (result.data is None) == (result.data_ref is None):
        raise InvalidCall("data: a result that is ok has its data, either here or by reference")
    if result.error is not None:
        raise InvalidCall("error: in a result that is ok")


def _check_failure(result: ToolResult) -> None:
    if result.data is not None or result.data_ref is not None:
        raise InvalidCall(f"data: in a result whose status is {result.status!r}")
    if result.error is None and result.status != "skipped":
        raise InvalidCall(f"error: missing in a result whose status is {result.status!r}")
    if result.error is None and not result.user_message:
        raise InvalidCall("user_message: a skipped result without an error gives its reason here")
    if result.error is not None:
        implied = _CODE_ENDS.get(result.error.code)
        if implied != result.status and (implied or result.status in _CODE_ENDS.values()):
            raise InvalidCall(f"error: code {result.error.code!r} beside status {result.status!r}")


class InvalidEvent(ValueError):
    """An event that breaks an invariant; the message begins with the field."""


class ExecutionEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in a run, a step or a call.

    `seq` counts a run's events from 1 without a gap, where the source numbers them (OD-25). The event of a
    step has its `step_id`; the event of a call has the call's step as well.

    >>> event = ExecutionEvent(
    ...     type="run.started", run_id="r1", timestamp="2026-01-05T10:00:00Z", level="info", message="Run started"
    ... )
    >>> event.call_id is None
    True
    """

    type: EventType
    run_id: str
    timestamp: str
    level: Level
    message: str
    call_id: str | None = None
    step_id: str | None = None
    tool: str | None = None
    payload: dict[str, Any] | None = None
    seq: int | None = None
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        check_instant("timestamp", self.timestamp)
        for name in ("run_id", "message"):
            if not getattr(self, name):
                raise InvalidEvent(f"{name}: empty")
        if self.seq is not None and self.seq < 1:
            raise InvalidEvent(f"seq: {self.seq} is less than 1")
        if not self.step_id and (self.type.startswith("step.") or self.call_id):
            raise InvalidEvent(f"step_id: missing from a {self.type} event")


def check_events(events: Sequence[ExecutionEvent], calls: Iterable[str]) -> list[str]:
    """The problems of one whole run's events; `calls` are the ids of its calls (CALL-072, CALL-073)."""
    return [
        *_numbering_problems(events),
        *_run_problems([event.type for event in events]),
        *(
            problem
            for call in calls
            for problem in _call_problems(call, [event.type for event in events if event.call_id == call])
        ),
    ]


def _numbering_problems(events: Sequence[ExecutionEvent]) -> Iterable[str]:
    numbers = [event.seq for event in events if event.seq is not None]
    if numbers and numbers != list(range(1, len(events) + 1)):
        yield "seq: the numbers have a gap, a repetition or another order"


def _run_problems(types: list[EventType]) -> Iterable[str]:
    if types[:1] != ["run.started"] or types.count("run.started") != 1:
        yield "a run begins with run.started, once"
    if not types or types[-1] not in _RUN_ENDS or sum(kind in _RUN_ENDS for kind in types) != 1:
        yield "a run ends with run.finished or run.cancelled, once"
    if "run.confirmed" in types and "run.confirmationRequested" not in types[: types.index("run.confirmed")]:
        yield "run.confirmed without an earlier run.confirmationRequested"


def _call_problems(call: str, types: list[EventType]) -> Iterable[str]:
    """A call has one start, then one end. Progress after the end is allowed: it reports a late result (OD-8)."""
    starts = [at for at, kind in enumerate(types) if kind == "step.started"]
    ends = [at for at, kind in enumerate(types) if kind in _CLOSING]
    if len(starts) != 1:
        yield f"{call}: step.started {len(starts)} times"
    if len(ends) != 1:
        yield f"{call}: step.finished or step.failed {len(ends)} times"
    if starts and ends and ends[0] < starts[0]:
        yield f"{call}: ended before it started"
    if starts and "step.progress" in types[: starts[0]]:
        yield f"{call}: step.progress before step.started"

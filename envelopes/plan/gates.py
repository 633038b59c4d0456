"""The gates before a tool runs, in their one order (E-12, OD-20).

    in the registry · block-list · deadline · policy · arguments · replay · sandbox · hook · confirmation ·
    write approval · deadline again

`Gates.admit` returns an `Admitted` call with its arguments parsed, and repaired where that makes them fit; or a
`Denied` one, settled before anything ran. The registry, the clock, the hook and the approval of writes belong to
the runtime and are given as functions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeAlias

import msgspec

from envelopes.plan.turn_state import ReplayControl, TurnState
from envelopes.schema.call import Coercion, ToolCall
from envelopes.schema.outcome import ToolDenied
from envelopes.schema.result import ToolError, summarize
from envelopes.schema.settlement import BY_NAME, Settlement
from envelopes.schema.timestamps import format_instant
from envelopes.schema.tool import InvalidToolInput, ToolDefinition, ToolInput
from envelopes.text.pointer import join


@dataclass(frozen=True)
class Admitted:
    """`args` are what runs and what identifies a duplicate; `coercions` list where they differ from the call's."""

    tool: ToolDefinition
    input: ToolInput
    args: dict[str, Any]
    coercions: tuple[Coercion, ...] = ()

    @property
    def was_coerced(self) -> bool:
        return bool(self.coercions)


@dataclass(frozen=True)
class Denied:
    """`settlement` is stored; `outcome` goes to the tool loop and its model."""

    settlement: Settlement
    outcome: ToolDenied


Refusal: TypeAlias = ToolError | None
Hook: TypeAlias = Callable[[ToolCall, Admitted], bool]
Registry: TypeAlias = Callable[[str], ToolDefinition | None]

NEAREST = 3  # names that are proposed for an unknown one
MOST_NAMES = 24  # that are listed where none is near


def allow(_call: ToolCall, _admitted: Admitted) -> bool:
    """The hook of a runtime that has none."""
    return True


# By situation: the kind of the error, its message, and the hint.
_REFUSALS = {
    "invalid_args": ("unknown_tool", "there is no tool of this name", "call one of the tools that you were given"),
    "blocked": (
        "non_retryable_tool_failure",
        "blocked for the rest of this turn, because it failed in a way that no other arguments can cure",
        "go on without it, or say why it is needed",
    ),
    "expired": ("deadline_expired", "the deadline had passed", "call it in the next turn, if it is still needed"),
    "duplicate": (
        "duplicate_tool_call",
        "the same call succeeded earlier",
        "use that result",
    ),
    "hook_refused": ("denied_by_hook", "the runtime's policy refused this call", "do without it, or ask the operator"),
    "write_refused": ("write_denied", "the operator did not approve it", "ask before you try it again"),
}


@dataclass
class Gates:
    """The gates of one turn.

    `deadline_s` is a point in time on `clock`, in seconds since 1970. `policy` refuses a tool by its name and profile
    with an error of a specific kind, `sandbox` a call by its arguments (`envelopes.plan.sandbox`), and `confirmation`
    a call that writes in a run that nobody confirmed (OD-24). `pre_hook` and `approve_write` return whether the call
    may run; the latter is called only for tools that write or run commands. `idempotent` names tools of which a
    second call with the same arguments is a duplicate, beside those whose definition says so. `names` are those of the
    registry, of which a refusal proposes the nearest.
    """

    registry: Registry
    state: TurnState = field(default_factory=TurnState)
    replay: ReplayControl = field(default_factory=ReplayControl)
    deadline_s: float | None = None
    clock: Callable[[], float] = time.time
    policy: Callable[[ToolCall, ToolDefinition], Refusal] = lambda _call, _tool: None
    sandbox: Callable[[ToolCall, Admitted], Refusal] = lambda _call, _admitted: None
    pre_hook: Hook = allow
    confirmation: Callable[[ToolCall, Admitted], Refusal] = lambda _call, _admitted: None
    approve_write: Hook = allow
    idempotent: frozenset[str] = frozenset()
    names: tuple[str, ...] = ()

    def admit(self, call: ToolCall) -> Admitted | Denied:
        """Checks a call. The first gate that refuses it settles it; the gates behind that one are not evaluated."""
        tool = self.registry(call.tool)
        if tool is None:
            return self._deny(call, "invalid_args", _unknown_tool(call.tool, self.names))
        for situation, is_refused in self._gates_before_parsing(tool):
            if is_refused:
                return self._deny(call, situation, self._blocked(tool.name, situation))
        if error := self.policy(call, tool):
            return self._deny(call, "policy_denied", error)
        try:
            admitted = parse_args(tool, call.args)
        except InvalidToolInput as refusal:
            return self._deny(call, "invalid_args", refusal.error)
        for situation, refusal_or_flag in self._gates_after_parsing(call, admitted):
            if isinstance(refusal_or_flag, ToolError):
                return self._deny(call, situation, refusal_or_flag)
            if refusal_or_flag:
                earlier = self.replay.earlier_id(tool.name, admitted.args) if situation == "duplicate" else None
                return self._deny(call, situation, _refusal(situation, earlier and f" ({earlier})"))
        return admitted

    def refuse(self, call: ToolCall, fault: Exception) -> Denied:
        """Refuses a call that a gate raised `fault` for. The tool did not run."""
        message = f"a check before the call failed: {type(fault).__name__}"
        return self._deny(
            call, "hook_refused", ToolError(kind="tool_execution_failed", message=message, retryable=False)
        )

    def _gates_before_parsing(self, tool: ToolDefinition) -> Iterator[tuple[str, bool]]:
        yield "blocked", self.state.ended_by is not None or tool.name in self.state.blocked_tool_names
        yield "expired", self._is_expired()

    def _gates_after_parsing(self, call: ToolCall, admitted: Admitted) -> Iterator[tuple[str, bool | Refusal]]:
        """A generator, so that nobody is asked about a call that an earlier gate refuses."""
        name = admitted.tool.name
        is_idempotent = admitted.tool.idempotent or name in self.idempotent
        yield "duplicate", self.replay.is_duplicate(name, admitted.args, idempotent=is_idempotent)
        yield "policy_denied", self.sandbox(call, admitted)
        yield "hook_refused", not self.pre_hook(call, admitted)
        if admitted.tool.risk != "read-only":
            yield "write_refused", self.confirmation(call, admitted)
            yield "write_refused", not self.approve_write(call, admitted)
        yield "expired", self._is_expired()  # hooks and people take their time

    def _blocked(self, tool: str, situation: str) -> ToolError:
        if situation == "blocked" and self.state.ended_by is not None:
            message = f"it did not run: {self.state.ended_by} ended the turn"
            hint = "call it in the next turn, if it is still needed"
            return ToolError(kind="skipped", message=message, recovery_hint=hint, retryable=True)
        if situation != "blocked" or tool not in self.state.blocked_after:
            return _refusal(situation)
        call_id, error = self.state.blocked_after[tool]
        refusal = _refusal(situation)
        name = f"{call_id} failed" if call_id else "a failure"
        message = f"blocked for the rest of this turn after {name}: {summarize(error)}"
        return msgspec.structs.replace(refusal, message=message)

    def _is_expired(self) -> bool:
        return self.deadline_s is not None and self.clock() >= self.deadline_s

    def _deny(self, call: ToolCall, situation: str, error: ToolError) -> Denied:
        row, now = BY_NAME[situation], format_instant(self.clock(), timespec="milliseconds")
        assert row.reason is not None  # each row of a call that never ran has one
        settlement = Settlement(
            call_id=call.call_id,
            phase=row.phase,
            end=row.end,
            denied_reason=row.reason,
            error=error,
            started_at=now,
            ended_at=now,
            duration_ms=0,
            deadline_at=None if self.deadline_s is None else format_instant(self.deadline_s, timespec="milliseconds"),
        )
        return Denied(settlement, ToolDenied(call.call_id, call.tool, row.reason, error.message))


def _refusal(situation: str, more: str | None = None) -> ToolError:
    kind, message, hint = _REFUSALS[situation]
    return ToolError(kind=kind, message=f"{message}{more or ''}", recovery_hint=hint, retryable=False)


def _unknown_tool(name: str, names: tuple[str, ...]) -> ToolError:
    """The nearest names as the hint, or all where there are few and none is near."""
    nearest = get_close_matches(name.lower(), [known.lower() for known in names], NEAREST)
    near = [known for known in names if known.lower() in nearest]
    error = _refusal("invalid_args")
    if near or 0 < len(names) <= MOST_NAMES:
        listed = ", ".join(near or names)
        hint = f"the nearest names: {listed}" if near else f"the tools are: {listed}"
        return msgspec.structs.replace(error, recovery_hint=hint)
    return error


def parse_args(tool: ToolDefinition, args: dict[str, Any]) -> Admitted:
    """Parses the arguments; where they do not fit, numbers and flags are read from strings (OUT-006, OUT-022).

    Raises InvalidToolInput with the error of the arguments as they came.
    """
    try:
        return Admitted(tool, tool.parse(args), args)
    except InvalidToolInput as error:
        try:
            parsed = tool.parse(args, strict=False)
        except InvalidToolInput:
            raise error from None
    repaired = _repair(args, msgspec.to_builtins(parsed))
    return Admitted(tool, parsed, repaired, tuple(_coercions(args, repaired, "")))


def _repair(before: Any, parsed: Any) -> Any:
    """Takes from `parsed` only values of another type; what parsing trims, clamps or adds is not taken."""
    match before, parsed:
        case dict(), dict():
            return {name: _repair(value, parsed.get(name)) for name, value in before.items()}
        case list(), list() | tuple():
            return [_repair(old, new) for old, new in zip(before, parsed, strict=True)]
    return before if before is None or type(before) is type(parsed) else parsed


def _coercions(before: Any, after: Any, pointer: str) -> Iterable[Coercion]:
    match before, after:
        case dict(), dict():
            for name, value in before.items():
                yield from _coercions(value, after[name], join(pointer, name))
        case list(), list() | tuple():
            for index, (old, new) in enumerate(zip(before, after, strict=True)):
                yield from _coercions(old, new, join(pointer, index))
        case _ if type(before) is not type(after):
            yield Coercion(pointer=pointer, before=before, after=after)

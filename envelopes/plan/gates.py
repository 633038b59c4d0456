"""The gates before a tool runs, in their one order (spec/model.md E-12, OD-20).

    in the registry · block-list · deadline · policy · arguments · replay · hook · write approval · deadline again

`Gates.admit` gives an `Admitted` call, its arguments parsed and, where that made them fit, repaired; or
the `Denied` one, settled before anything ran. What a gate asks is given as functions: the registry, the
clock, the hook and whoever approves writes belong to the runtime.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from envelopes.plan.tool_loop import ReplayControl, TurnState
from envelopes.schema.call import Coercion, ToolCall
from envelopes.schema.outcome import ToolDenied
from envelopes.schema.result import ToolError
from envelopes.schema.settlement import BY_NAME, Settlement
from envelopes.schema.timestamps import format_instant
from envelopes.schema.tool import InvalidToolInput, ToolDefinition, ToolInput
from envelopes.text.pointer import join


@dataclass(frozen=True)
class Admitted:
    """`args` are what runs, and what a duplicate is known by; `coercions` say where they differ from the call's."""

    tool: ToolDefinition
    input: ToolInput
    args: dict[str, Any]
    coercions: tuple[Coercion, ...] = ()

    @property
    def was_coerced(self) -> bool:
        return bool(self.coercions)


@dataclass(frozen=True)
class Denied:
    """`settlement` is the stored truth, `outcome` what the loop and its model get of it."""

    settlement: Settlement
    outcome: ToolDenied


Refusal: TypeAlias = ToolError | None
Registry: TypeAlias = Callable[[str], ToolDefinition | None]


def _let_pass(_call: ToolCall, _tool: ToolDefinition) -> Refusal:
    return None


def _agree(_call: ToolCall, _admitted: Admitted) -> bool:
    return True


@dataclass
class Gates:
    """The gates of one turn.

    `deadline_s` is a point in time on `clock`, in seconds since 1970. `policy` refuses a tool by profile or
    sandbox with an error of a specific kind; `pre_hook` and `approve_write` answer whether the call may run,
    the latter asked of tools that write or run commands alone. `idempotent` names the tools of which a
    second call with the same arguments is a duplicate.
    """

    registry: Registry
    state: TurnState = field(default_factory=TurnState)
    replay: ReplayControl = field(default_factory=ReplayControl)
    deadline_s: float | None = None
    clock: Callable[[], float] = time.time
    policy: Callable[[ToolCall, ToolDefinition], Refusal] = _let_pass
    pre_hook: Callable[[ToolCall, Admitted], bool] = _agree
    approve_write: Callable[[ToolCall, Admitted], bool] = _agree
    idempotent: frozenset[str] = frozenset()

    def admit(self, call: ToolCall) -> Admitted | Denied:
        """The first gate that stops the call settles it; whoever stands behind that gate is not asked."""
        tool = self.registry(call.tool)
        if tool is None:
            return self._denied(call, "invalid_args", _unknown(call.tool))
        for name, refusal in self._before(call, tool):
            if refusal is not None:
                return self._denied(call, name, refusal)
        try:
            admitted = repaired(tool, call.args)
        except InvalidToolInput as error:
            return self._denied(call, "invalid_args", error.error)
        for name, refusal in self._after(call, admitted):
            if refusal is not None:
                return self._denied(call, name, refusal)
        return admitted

    def _before(self, call: ToolCall, tool: ToolDefinition) -> Iterator[tuple[str, Refusal]]:
        yield "blocked", _blocked(tool.name) if tool.name in self.state.blocked_tool_names else None
        yield "expired", self._expired()
        yield "policy_denied", self.policy(call, tool)

    def _after(self, call: ToolCall, admitted: Admitted) -> Iterator[tuple[str, Refusal]]:
        """Nobody is asked about a call that an earlier gate stops: each is asked when its turn comes."""
        name = admitted.tool.name
        is_duplicate = self.replay.is_duplicate(name, admitted.args, idempotent=name in self.idempotent)
        yield "duplicate", _duplicate(name) if is_duplicate else None
        yield "hook_refused", None if self.pre_hook(call, admitted) else _by_hook(name)
        is_write = admitted.tool.risk != "read-only"
        yield "write_refused", _unapproved(name) if is_write and not self.approve_write(call, admitted) else None
        yield "expired", self._expired()  # hooks and people take their time

    def _expired(self) -> Refusal:
        if self.deadline_s is None or self.clock() < self.deadline_s:
            return None
        return _error("deadline_expired", "Turn deadline expired; cannot execute tool.", "ask again in the next turn")

    def _denied(self, call: ToolCall, situation: str, error: ToolError) -> Denied:
        row, now = BY_NAME[situation], format_instant(self.clock())
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
            deadline_at=None if self.deadline_s is None else format_instant(self.deadline_s),
        )
        return Denied(settlement, ToolDenied(call.call_id, call.tool, row.reason, error.message))


def repaired(tool: ToolDefinition, args: dict[str, Any]) -> Admitted:
    """The arguments as they are where they fit, else with numbers and flags read from strings (OUT-006, OUT-022).

    Raises InvalidToolInput with what was wrong with the arguments as they came.
    """
    try:
        return Admitted(tool, tool.parse(args), args)
    except InvalidToolInput as error:
        try:
            parsed = tool.parse(args, strict=False)
        except InvalidToolInput:
            raise error from None
    fitting = _fitted(args, msgspec.to_builtins(parsed))
    return Admitted(tool, parsed, fitting, tuple(_coercions(args, fitting, "")))


def _fitted(before: Any, parsed: Any) -> Any:
    """The arguments as they came but for values of another type: what parsing trims, clamps or adds is its own."""
    match before, parsed:
        case dict(), dict():
            return {name: _fitted(value, parsed.get(name)) for name, value in before.items()}
        case list(), list() | tuple():
            return [_fitted(old, new) for old, new in zip(before, parsed, strict=True)]
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


def _error(kind: str, message: str, hint: str, *, retryable: bool = False) -> ToolError:
    return ToolError(kind=kind, message=message, recovery_hint=hint, retryable=retryable)


def _unknown(tool: str) -> ToolError:
    return _error("unknown_tool", f"there is no tool {tool}", "call one of the tools that you were given")


def _blocked(tool: str) -> ToolError:
    said = f"{tool} failed in this turn in a way that is not worth another try"
    return _error("non_retryable_tool_failure", said, "go on without it, or say why it is needed")


def _duplicate(tool: str) -> ToolError:
    said = f"{tool} was called with these arguments before and succeeded"
    return _error("duplicate_tool_call", said, "use the result of the call before")


def _by_hook(tool: str) -> ToolError:
    return _error("denied_by_hook", f"a hook of the runtime refused {tool}", "do without it, or ask the operator")


def _unapproved(tool: str) -> ToolError:
    return _error("write_denied", f"{tool} was not approved", "ask the operator before you try it again")

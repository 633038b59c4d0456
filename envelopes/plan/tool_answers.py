"""The answer of a tool, and what follows from it: complete output, settlement, outcome, canonical result, receipt.

    ToolFailed      raised by a tool that fails; everything else about the failure is computed from it
    Tool            a definition, the function that runs it, and the family that renders it
    read_finished   what the function returned or raised -> the complete output; nothing that it gives can raise here
    SettledCall     a call with its one settlement; `outcome`, `canonical` and `receipt` are its other forms

A tool returns one of its result structs, the same as decoded JSON, or a CompleteOutput with a summary of its own.
An object with an `error` that is not null is a failure (OUT-015). Any other value is a failure of the tool as well:
nothing that it returns passes unread.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from envelopes.codecs import outcome as outcome_codec
from envelopes.families import FALLBACK
from envelopes.families.base import Family
from envelopes.families.registry import builtin
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.call import ToolCall
from envelopes.schema.outcome import CANCELLED, ToolOutcome
from envelopes.schema.receipt import Receipt
from envelopes.schema.result import CanonicalResult, CompleteOutput, InvalidOutput, ToolError, summarize
from envelopes.schema.settlement import RETRYABLE_KINDS, End, Settlement, call_code
from envelopes.schema.tool import InvalidToolOutput, ToolDefinition
from envelopes.storage.sinks import ArtifactSink

FAILED = "tool_execution_failed"
TIMED_OUT = "tool_timed_out"
_UNSUMMARIZED = "{} returned a result"
MOST_DEPTH = 150  # of a value in a record: `parse_json` reads 200 levels, with those of the record itself
DEBUG_CHARACTERS = 4_000  # of a traceback; its end names the cause


class ToolFailed(Exception):
    """Raised by a tool to report a failure, once: error, settlement, outcome and receipt are computed from it.

    `retryable` answers whether the same call may succeed later. Where it is no bool, the table of kinds decides.

    >>> failure = ToolFailed("missing_file", "plan.md does not exist", recovery_hint="list the folder first")
    >>> failure.to_error().retryable
    False
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        recovery_hint: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.details = str(kind) or FAILED, str(message), details
        self.recovery_hint, self.retryable = recovery_hint, retryable

    @classmethod
    def from_error(cls, error: ToolError) -> ToolFailed:
        """The failure whose error is that one."""
        return cls(
            error.kind,
            error.message,
            details=error.details,
            recovery_hint=error.recovery_hint,
            retryable=error.retryable,
        )

    def to_error(self) -> ToolError:
        return ToolError(
            kind=self.kind,
            message=self.message,
            details=None if self.details is None else json_object(self.details),
            recovery_hint=None if self.recovery_hint is None else str(self.recovery_hint),
            retryable=self.retryable if isinstance(self.retryable, bool) else self.kind in RETRYABLE_KINDS,
        )


@dataclass(frozen=True)
class Tool:
    """A tool that can be run.

    `run` gets the parsed input and the `CallContext` of its call; it is a function or a coroutine function. `family`
    projects and renders the result for a model; a plan needs none. `find_paths` gives the paths inside of an argument,
    relative to the workspace, for the sandbox. A tool with a reason in `unavailable` is refused in a plan before it
    starts; called by a model, it fails by itself.

    >>> from envelopes import builtin
    >>> family, definition = builtin("WebSearch")
    >>> Tool(definition, lambda given, context: {"query": given.query, "provider": "own"}, family).name
    'WebSearch'
    """

    definition: ToolDefinition
    run: Callable[[Any, Any], Any]
    family: Family | None = None
    find_paths: Callable[[Any], Iterable[str]] = lambda _input: ()
    unavailable: str = ""

    @classmethod
    def built_in(cls, name: str, run: Callable[[Any, Any], Any], **fields: Any) -> Tool:
        """The built-in tool of that name, run by `run`. Raises KeyError."""
        family, definition = builtin(name)
        return cls(definition, run, family, **fields)

    @property
    def name(self) -> str:
        return self.definition.name


def read_finished(
    definition: ToolDefinition, value: Any, error: BaseException | None
) -> tuple[CompleteOutput, str | None]:
    """The complete output of a call, and the traceback of an exception that is no ToolFailed.

    An answer that cannot be read, such as one that is nested too deep or whose own methods raise, is a failure of the
    tool (OUT-001).
    """
    try:
        if error is None:
            return read_answer(definition, value), None
        if isinstance(error, ToolFailed):
            return fail(definition.name, _read_failure(definition, error)), None
    except ToolFailed as failure:
        return fail(definition.name, _read_failure(definition, failure)), None
    except Exception as fault:
        return _describe(definition, fault)
    return _describe(definition, error)


def read_answer(definition: ToolDefinition, answer: Any) -> CompleteOutput:
    """The complete output that `answer` is. Raises ToolFailed for an error object and for any other shape."""
    if isinstance(answer, CompleteOutput):
        try:
            answer.check()
        except InvalidOutput as error:
            raise _wrong_shape(definition, str(error)) from None
        failed = None if answer.error is None else _read_failure(definition, ToolFailed.from_error(answer.error))
        return msgspec.structs.replace(answer, tool_name=definition.name, error=failed)
    if isinstance(answer, dict):
        if answer.get("error") is not None:
            raise _reported_failure(definition, answer)
        try:
            answer = definition.read_data(answer)
        except InvalidToolOutput as error:
            raise _wrong_shape(definition, str(error)) from None
    if not isinstance(answer, definition.result):
        names = " or ".join(struct.__name__ for struct in definition.result)
        raise _wrong_shape(definition, f"it returned {type(answer).__name__}, not {names}")
    summary = _UNSUMMARIZED.format(definition.name)
    return CompleteOutput(tool_name=definition.name, status="success", summary_text=summary, result=answer)


def _read_failure(definition: ToolDefinition, failure: ToolFailed) -> ToolError:
    """The error of a failure. Whether a timeout may be tried again is up to the definition, also where the tool
    reports its own; a tool can only narrow that (OUT-011).
    """
    error = failure.to_error()
    if call_code(error.kind) != "TIMEOUT":
        return error
    return msgspec.structs.replace(error, retryable=definition.retry_on_timeout and failure.retryable is not False)


def _describe(definition: ToolDefinition, error: BaseException) -> tuple[CompleteOutput, str | None]:
    """An exception does not state whether the same call may succeed later: only a tool that changes nothing may be
    called again (E-10).
    """
    kind = CANCELLED if isinstance(error, asyncio.CancelledError) else FAILED
    try:
        message = str(error)
    except Exception:  # an exception whose own text fails
        message = ""
    retryable = kind == CANCELLED or definition.risk == "read-only"
    described = ToolError(kind=kind, message=message or type(error).__name__, retryable=retryable)
    trace = "".join(traceback.format_exception(error))
    return fail(definition.name, described), trace[-DEBUG_CHARACTERS:]


def fail(tool: str, error: ToolError) -> CompleteOutput:
    summary = summarize(error.message) or error.kind
    return CompleteOutput(tool_name=tool, status="error", summary_text=summary, error=error)


def find_end(complete: CompleteOutput) -> End:
    """The end of a call that ran: by the code of its error, because TIMEOUT and CANCELLED are ends (OD-28)."""
    if complete.error is None:
        return "ok"
    return _ENDS.get(call_code(complete.error.kind) or "", "error")


_ENDS: dict[str, End] = {"TIMEOUT": "timeout", "CANCELLED": "cancelled"}


def json_object(value: Any) -> dict[str, Any]:
    """Converts an object of a tool to JSON. A value that is no JSON is described, so that its record can be written."""
    try:
        members = _as_json(msgspec.to_builtins(value, str_keys=True))
    except (TypeError, ValueError, RecursionError) as error:
        return {"not_json": str(error)}
    return members if isinstance(members, dict) else {"value": members}


def result_data(complete: CompleteOutput) -> dict[str, Any]:
    """The members of a result. Raises ToolFailed for a struct that JSON cannot hold."""
    try:
        data = _as_json(msgspec.to_builtins(complete.result, str_keys=True))
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolFailed(FAILED, f"{complete.tool_name} returned a value that is no JSON: {error}") from None
    if not isinstance(data, dict):
        raise ToolFailed(FAILED, f"{complete.tool_name} returned {type(data).__name__}, not an object")
    return data


def _as_json(value: Any, depth: int = 0) -> Any:
    """The value with lists for tuples, which the records have too: references select items of lists alone.

    Raises ValueError for a value of more than MOST_DEPTH levels.
    """
    if depth > MOST_DEPTH:
        raise ValueError(f"it is nested deeper than {MOST_DEPTH} levels")
    if isinstance(value, dict):
        return {name: _as_json(child, depth + 1) for name, child in value.items()}
    return [_as_json(child, depth + 1) for child in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class SettledCall:
    """A call that ended, with everything that was recorded of it, and its other forms.

    `args` are the arguments that ran, or would have run: they identify a duplicate. `complete` is what the tool
    produced; of a refused call it has the error. `secrets` are texts that no record may repeat (OD-30).
    """

    call: ToolCall
    settlement: Settlement
    complete: CompleteOutput
    args: dict[str, Any]
    family: Family | None = None
    secrets: frozenset[str] = frozenset()

    @property
    def rendering_family(self) -> Family | None:
        """The family that renders the receipt. An error needs none of its own: that of any tool has the same form."""
        return FALLBACK[0] if self.family is None and self.complete.error is not None else self.family

    def canonical(self, sink: ArtifactSink) -> CanonicalResult:
        """The five-key envelope. Without a family it has the whole result."""
        if (family := self.rendering_family) is None:
            return self.without_family()
        return project(self.complete, family, family.projection, sink).canonical

    def without_family(self) -> CanonicalResult:
        return CanonicalResult(
            tool_name=self.complete.tool_name,
            status=self.complete.status,
            summary_text=self.complete.summary_text,
            result=self.settlement.data,
            error=self.complete.error,
        )

    def outcome(self, sink: ArtifactSink) -> ToolOutcome:
        """A large output is stored whole, so that the reference names all of it and has its size (OUT-052).

        Its summary is that of the tool, or the beginning of the output where the tool wrote none.
        """
        canonical = self.without_family()
        if canonical.summary_text == _UNSUMMARIZED.format(canonical.tool_name):
            canonical = msgspec.structs.replace(canonical, summary_text="")
        return outcome_codec.encode(self.settlement, canonical, sink)

    def receipt(self, sink: ArtifactSink, is_exposed: Callable[[str], bool] = lambda _tool: True) -> Receipt:
        """The text that the model reads. Raises LookupError for the result of a tool without a family.

        `is_exposed` answers whether the model has a tool. Without the one that reads artifacts no path is written.
        """
        if (family := self.rendering_family) is None:
            raise LookupError(f"{self.complete.tool_name} has no family, so no receipt")
        canonical = self.canonical(sink)
        return render(canonical, family, choose_policy(canonical, family, is_exposed))


def choose_policy(canonical: CanonicalResult, family: Family, is_exposed: Callable[[str], bool]) -> RenderPolicy:
    """The family's policy; without the tool that reads artifacts where the envelope has some and the model lacks it."""
    policy = family.rendering
    if canonical.artifacts and policy.read_tool is not None and not is_exposed(policy.read_tool):
        return msgspec.structs.replace(policy, read_tool=None)
    return policy


def _reported_failure(definition: ToolDefinition, answer: dict[str, Any]) -> ToolFailed:
    """`{"error": text or object, "retryable": …}`; a failure that does not state it may be tried again (OUT-013)."""
    reported = answer["error"]
    retryable = answer.get("retryable", True) is not False
    if not isinstance(reported, dict):
        return ToolFailed(FAILED, str(reported), retryable=retryable)
    try:
        error = msgspec.convert({"retryable": retryable, **reported}, ToolError)
    except msgspec.ValidationError:
        return ToolFailed(FAILED, msgspec.json.encode(reported).decode(), retryable=retryable)
    return ToolFailed(
        error.kind,
        error.message,
        details=error.details,
        recovery_hint=error.recovery_hint,
        retryable=error.retryable,
    )


def _wrong_shape(definition: ToolDefinition, reason: str) -> ToolFailed:
    message = f"the answer of {definition.name} does not fit its definition: {reason}"
    return ToolFailed(FAILED, message, retryable=definition.risk == "read-only")

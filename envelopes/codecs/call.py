"""CALL's wire form: camelCase by an explicit map, one object a line.

    encode, decode               ToolCall, ToolResult, ExecutionEvent <-> a JSON object
    encode_lines, decode_lines   the same <-> JSONL (calls.jsonl, results.jsonl, events.jsonl)
    result_of, settlement_of     ToolResult <-> Settlement, under the mapping table

1. What is None is not written; a null reads as not given.
2. Arguments, data, details, payloads and a foreach's item are foreign JSON: kept as they are.
3. A member that CALL does not name is kept in `extra` where its object has one, and refused elsewhere.
4. Ours beyond CALL's names: see `_EXTENSIONS`. They are written only where there is something to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

import msgspec

from envelopes.schema.call import CallError, ToolCall, ToolResult, check_data
from envelopes.schema.event import ExecutionEvent
from envelopes.schema.result import JsonValue, ToolError
from envelopes.schema.settlement import (
    BY_NAME,
    RETRYABLE_KINDS,
    Settlement,
    Situation,
    call_code,
    call_situation,
)
from envelopes.schema.tool import ToolDefinition
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

Record: TypeAlias = ToolCall | ToolResult | ExecutionEvent
Kind = TypeVar("Kind", ToolCall, ToolResult, ExecutionEvent)


class Shape(msgspec.Struct, frozen=True):
    """`names`: field -> its name on the wire. `members`: fields that are objects, or lists of objects."""

    names: dict[str, str]
    members: dict[str, Shape] = {}
    is_open: bool = False


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_ENTRY = Shape(_same("path", "kind") | {"before_etag": "beforeEtag", "after_etag": "afterEtag", "trashed": "trashed"})
_EFFECTS = Shape(
    {"side_effects_observed": "sideEffectsObserved", **_same("created", "modified", "deleted", "renamed")},
    {
        **dict.fromkeys(("created", "modified", "deleted"), _ENTRY),
        "renamed": Shape({"from_path": "from", "to_path": "to"}),
    },
)
_SANDBOX = Shape({"enabled": "enabled", "allowed_roots": "allowedRoots", "deny_patterns": "denyPatterns"}, is_open=True)
_LIMITS = Shape(
    {
        "max_concurrency": "maxConcurrency",
        "max_attempts": "maxAttempts",
        "max_timeout_ms": "maxTimeoutMs",
        "max_backoff_ms": "maxBackoffMs",
        "max_iterations": "maxIterations",
        "max_steps": "maxSteps",
        "max_run_ms": "maxRunMs",
    },
    is_open=True,
)
_POLICY = Shape(
    {"confirmations_required": "confirmationsRequired", **_same("sandbox", "limits")},
    {"sandbox": _SANDBOX, "limits": _LIMITS},
    is_open=True,
)
_IDENTITY = {"call_id": "callId", "run_id": "runId", "step_id": "stepId", "tool": "tool", "attempt": "attempt"}
_PROVIDER = {"provider_call_id": "providerCallId"}
_CALL = Shape(
    {
        **_IDENTITY,
        "args": "args",
        "args_hash": "argsHash",
        "timeout_ms": "timeoutMs",
        "deadline_at": "deadlineAt",
        "cancellable": "cancellable",
        "iteration": "iteration",
        "loop_id": "loopId",
        "created_at": "createdAt",
        "planner_version": "plannerVersion",
        "executor_version": "executorVersion",
        "tool_registry_version": "toolRegistryVersion",
        "preview": "preview",
        "risk_level": "riskLevel",
        "category": "category",
        "policy": "policy",
        "confirmation_id": "confirmationId",
        **_PROVIDER,
        **_same("coercions", "redactions"),
    },
    {
        "iteration": Shape({"index": "index", "item_name": "itemName", "item_value": "itemValue"}),
        "policy": _POLICY,
        "coercions": Shape(_same("pointer", "before", "after")),
    },
    is_open=True,
)
_EXTENSIONS = {
    "phase": "phase",
    "denied_reason": "deniedReason",
    "data_ref": "dataRef",
    "was_coerced": "wasCoerced",
    "deadline_at": "deadlineAt",
    **_PROVIDER,
}
_RESULT = Shape(
    {
        **_IDENTITY,
        **_same("status", "ok", "data"),
        "data_hash": "dataHash",
        "error": "error",
        "started_at": "startedAt",
        "ended_at": "endedAt",
        "duration_ms": "durationMs",
        "effects": "effects",
        "user_message": "userMessage",
        "debug_message": "debugMessage",
        **_EXTENSIONS,
    },
    {
        "error": Shape(_same("code", "message", "details", "retryable", "kind") | {"recovery_hint": "recoveryHint"}),
        "effects": _EFFECTS,
        "data_ref": Shape({"artifact_id": "artifactId", "summary": "summary", "size_bytes": "sizeBytes"}),
    },
    is_open=True,
)
_EVENT = Shape(
    {
        **_same("type", "timestamp", "level", "message", "tool", "payload", "seq"),
        "run_id": "runId",
        "call_id": "callId",
        "step_id": "stepId",
    },
    is_open=True,
)
_SHAPES: dict[type[Record], Shape] = {ToolCall: _CALL, ToolResult: _RESULT, ExecutionEvent: _EVENT}
# A foreach may run over nulls, and an argument may be coerced from or to one.
_NULLABLE = {"item_value", "before", "after"}
_LEFT_OUT_WHEN_EMPTY = {"coercions", "redactions"}


def encode(record: Record) -> dict[str, JsonValue]:
    """Keys in the map's order, then what `extra` holds."""
    return _renamed(msgspec.structs.asdict(record), _SHAPES[type(record)])


def decode(document: JsonValue, kind: type[Kind]) -> Kind:
    """Raises Untrusted with the path in the document's own names."""
    try:
        return msgspec.convert(_restored(document, _SHAPES[kind], "$"), kind, strict=True)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `")
        raise Untrusted(_wired(reason), _wired(path.rstrip("`") or "$")) from None


def encode_lines(records: Iterable[Record]) -> Iterator[bytes]:
    """One line a record, each with its newline."""
    for record in records:
        yield dump_json(encode(record)) + b"\n"


def decode_lines(raw: bytes, kind: type[Kind]) -> Iterator[Kind]:
    """Blank lines are passed over. Raises Untrusted, its reason beginning with the line's number."""
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            yield decode(parse_json(line), kind)
        except Untrusted as error:
            raise Untrusted(f"line {number}: {error.reason}", error.path) from None


def result_of(call: ToolCall, settled: Settlement, tool: ToolDefinition | None = None) -> ToolResult:
    """What the settlement says in CALL's words. A skip has no error there, but its reason in `user_message`.

    Raises InvalidCall for data that `tool` does not return, where its definition is given.
    """
    result = _result_of(call, settled)
    if tool is not None:
        check_data(result, tool)
    return result


def _result_of(call: ToolCall, settled: Settlement) -> ToolResult:
    failed = settled.end != "ok"
    return ToolResult(
        call_id=call.call_id,
        run_id=call.run_id,
        step_id=call.step_id,
        tool=call.tool,
        attempt=call.attempt,
        status=settled.end,
        ok=not failed,
        data=settled.data,
        data_hash=settled.data_hash,
        error=_call_error(settled),
        started_at=settled.started_at,
        ended_at=settled.ended_at,
        duration_ms=settled.duration_ms,
        effects=settled.effects,
        user_message=_skip_reason(settled) if settled.end == "skipped" else settled.user_message,
        debug_message=settled.debug_message,
        phase=settled.phase if failed else None,
        denied_reason=settled.denied_reason,
        data_ref=settled.stored,
        was_coerced=settled.was_coerced or None,
        deadline_at=settled.deadline_at,
        provider_call_id=call.provider_call_id,
    )


def settlement_of(result: ToolResult) -> Settlement:
    """Raises InvalidSettlement. A foreign result reads as `call_situation` says; a missing retryable is its kind's."""
    row = call_situation(result.status, result.error.code if result.error else None)
    phase = result.phase or ("pre_dispatch" if result.denied_reason else row.phase)
    error = None if result.ok else _tool_error(result, row)
    return Settlement(
        call_id=result.call_id,
        phase=phase,
        end=result.status,
        denied_reason=result.denied_reason or (row.reason if phase == row.phase else None),
        data=result.data,
        stored=result.data_ref,
        data_hash=result.data_hash,
        error=error,
        recorded_code=_recorded_code(result, error),
        was_coerced=bool(result.was_coerced),
        started_at=result.started_at,
        ended_at=result.ended_at,
        duration_ms=result.duration_ms,
        deadline_at=result.deadline_at,
        effects=result.effects,
        user_message=result.user_message,
        debug_message=result.debug_message,
    )


def _skip_reason(settled: Settlement) -> str:
    assert settled.error is not None  # a settlement's invariant
    return settled.user_message or settled.error.message or settled.error.kind


def _call_error(settled: Settlement) -> CallError | None:
    if settled.error is None or settled.code is None:
        return None
    return CallError(
        code=settled.code,
        message=settled.error.message,
        details=settled.error.details,
        retryable=settled.error.retryable,
        kind=settled.error.kind,
        recovery_hint=settled.error.recovery_hint,
    )


def _tool_error(result: ToolResult, row: Situation) -> ToolError:
    found = result.error
    if found is None:
        kind = BY_NAME[result.denied_reason].kind if result.denied_reason in BY_NAME else "skipped"
        return ToolError(kind=kind or "skipped", message=result.user_message or row.name, retryable=False)
    kind = found.kind or found.code.lower()
    return ToolError(
        kind=kind,
        message=found.message,
        details=found.details,
        recovery_hint=found.recovery_hint,
        retryable=kind in RETRYABLE_KINDS if found.retryable is None else found.retryable,
    )


def _recorded_code(result: ToolResult, error: ToolError | None) -> str | None:
    """Kept where the kind would give another, and with a skip, which else writes none."""
    if result.error is None or error is None:
        return None
    is_derived = result.status != "skipped" and result.error.code == call_code(error.kind)
    return None if is_derived else result.error.code


def _renamed(fields: dict[str, Any], shape: Shape) -> dict[str, JsonValue]:
    document: dict[str, JsonValue] = {}
    for field, name in shape.names.items():
        value = fields.get(field)
        if (value is None and field not in _NULLABLE) or (field in _LEFT_OUT_WHEN_EMPTY and not value):
            continue
        document[name] = _outward(value, shape.members.get(field))
    document.update(fields.get("extra", {}))
    return document


def _outward(value: Any, shape: Shape | None) -> JsonValue:
    match value:
        case tuple():
            return [_outward(item, shape) for item in value]
        case msgspec.Struct() if shape is not None:
            return _renamed(msgspec.structs.asdict(value), shape)
    return value  # type: ignore[no-any-return]


def _restored(document: JsonValue, shape: Shape, path: str) -> JsonValue:
    if not isinstance(document, dict):
        return document
    fields = {name: field for field, name in shape.names.items()}
    restored: dict[str, JsonValue] = {}
    extra: dict[str, JsonValue] = {}
    for name, value in document.items():
        field = fields.get(name)
        if field is None:
            extra[name] = value
        elif value is not None or field in _NULLABLE:
            restored[field] = _inward(value, shape.members.get(field), f"{path}.{name}")
    if extra and not shape.is_open:
        raise Untrusted(f"unknown field {next(iter(extra))!r}", path)
    return restored | ({"extra": extra} if extra else {})


def _inward(value: JsonValue, shape: Shape | None, path: str) -> JsonValue:
    if shape is None:
        return value
    if isinstance(value, list):
        return [_restored(item, shape, f"{path}[{index}]") for index, item in enumerate(value)]
    return _restored(value, shape, path)


def _wired(text: str) -> str:
    """A sentence or path of msgspec's, which speaks of fields, in the names of the wire."""
    for field, name in _WIRE_NAMES.items():
        text = text.replace(field, name)
    return text


def _all_names(shape: Shape) -> dict[str, str]:
    names = {field: name for field, name in shape.names.items() if field != name}
    for member in shape.members.values():
        names |= _all_names(member)
    return names


# The longest first: `deadline_at` must not be read as a part of another name.
_WIRE_NAMES = dict(
    sorted(
        (pair for shape in _SHAPES.values() for pair in _all_names(shape).items()),
        key=lambda pair: len(pair[0]),
        reverse=True,
    )
)

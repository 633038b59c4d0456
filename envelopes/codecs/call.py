"""CALL's wire form: camelCase, one object a line.

    encode, decode               ToolCall, ToolResult, ExecutionEvent <-> a JSON object
    encode_lines, decode_lines   the same <-> JSONL (calls.jsonl, results.jsonl, events.jsonl)
    to_result, to_settlement     Settlement <-> ToolResult, by the mapping table

1. None is not written; a null is read as absent.
2. Arguments, data, details, payloads and a foreach's item are foreign JSON and stay unchanged.
3. A member that CALL does not name is kept in `extra` where its object has one, and refused elsewhere.
4. Members beyond CALL's are in `_EXTENSIONS`. They are written only where they have a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

import msgspec

from envelopes.schema.call import CallError, ExecutionEvent, RunPolicy, ToolCall, ToolResult, check_data
from envelopes.schema.conversion import convert_json
from envelopes.schema.result import JsonValue, ToolError
from envelopes.schema.settlement import (
    BY_NAME,
    RETRYABLE_KINDS,
    Effects,
    Settlement,
    Situation,
    call_code,
    call_situation,
)
from envelopes.schema.tool import ToolDefinition
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

Record: TypeAlias = ToolCall | ToolResult | ExecutionEvent
Kind = TypeVar("Kind", ToolCall, ToolResult, ExecutionEvent)


class WireShape(msgspec.Struct, frozen=True):
    """The wire form of one struct.

    `names` maps fields to their names on the wire, `members` the fields that are objects, or lists of objects, to
    their shapes. Other members are kept in `extra` where the shape `is_open`.
    """

    names: dict[str, str]
    members: dict[str, WireShape] = {}
    is_open: bool = False


def _camel_case(fields: str) -> dict[str, str]:
    """The fields, in the order of the wire, with their names there: `call_id` is written as `callId`."""
    words = {field: field.split("_") for field in fields.split()}
    return {field: first + "".join(map(str.capitalize, rest)) for field, (first, *rest) in words.items()}


_ENTRY = WireShape(_camel_case("path kind before_etag after_etag trashed"))
_EFFECTS = WireShape(
    _camel_case("side_effects_observed created modified deleted renamed"),
    {
        **dict.fromkeys(("created", "modified", "deleted"), _ENTRY),
        "renamed": WireShape({"from_path": "from", "to_path": "to"}),
    },
)
_SANDBOX = WireShape(_camel_case("enabled allowed_roots deny_patterns"), is_open=True)
_LIMITS = WireShape(
    _camel_case("max_concurrency max_attempts max_timeout_ms max_backoff_ms max_iterations max_steps max_run_ms"),
    is_open=True,
)
_POLICY = WireShape(
    _camel_case("confirmations_required sandbox limits tool_rules network_rules"),
    {
        "sandbox": _SANDBOX,
        "limits": _LIMITS,
        "tool_rules": WireShape(_camel_case("allow deny planes max_risk")),
        "network_rules": WireShape(_camel_case("enabled private_hosts denied_hosts")),
    },
    is_open=True,
)
_IDENTITY = _camel_case("call_id run_id step_id tool attempt")
_CALL = WireShape(
    _IDENTITY
    | _camel_case("args args_hash timeout_ms deadline_at cancellable iteration loop_id created_at")
    | _camel_case("planner_version executor_version tool_registry_version preview risk_level category policy")
    | _camel_case("confirmation_id provider_call_id coercions redactions"),
    {
        "iteration": WireShape(_camel_case("index item_name item_value")),
        "policy": _POLICY,
        "coercions": WireShape(_camel_case("pointer before after")),
    },
    is_open=True,
)
_EXTENSIONS = _camel_case("phase denied_reason data_ref was_coerced deadline_at provider_call_id")
_RESULT = WireShape(
    _IDENTITY
    | _camel_case("status ok data data_hash error started_at ended_at duration_ms effects user_message debug_message")
    | _EXTENSIONS,
    {
        "error": WireShape(_camel_case("code message details retryable kind recovery_hint")),
        "effects": _EFFECTS,
        "data_ref": WireShape(_camel_case("artifact_id summary size_bytes")),
    },
    is_open=True,
)
_EVENT = WireShape(_camel_case("type timestamp level message tool payload seq run_id call_id step_id"), is_open=True)
_SHAPES: dict[type[Record], WireShape] = {ToolCall: _CALL, ToolResult: _RESULT, ExecutionEvent: _EVENT}
# The item of a foreach may be null, and an argument may be coerced from or to null.
_NULLABLE = {"item_value", "before", "after"}
_OMITTED_WHEN_EMPTY = {"coercions", "redactions"}


def encode(record: Record) -> dict[str, JsonValue]:
    """Writes a record: keys in the order of the map, then those of `extra`."""
    return _encode_fields(msgspec.structs.asdict(record), _SHAPES[type(record)])


def decode(document: JsonValue, kind: type[Kind]) -> Kind:
    """Reads a record. Raises Untrusted with the path in the document's own names."""
    return _decode_as(document, kind, _SHAPES[kind])  # type: ignore[no-any-return]


def _decode_as(document: JsonValue, kind: type[Any], shape: WireShape) -> Any:
    try:
        return convert_json(_decode_fields(document, shape, "$"), kind, strict=True)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `")
        raise Untrusted(_use_wire_names(reason), _use_wire_names(path.rstrip("`") or "$")) from None


def encode_policy(policy: RunPolicy) -> dict[str, JsonValue]:
    """The policy as run.json and each call have it."""
    return _encode_fields(msgspec.structs.asdict(policy), _POLICY)


def decode_policy(document: JsonValue) -> RunPolicy:
    """Reads a policy. Raises Untrusted with the path in the document's own names."""
    return _decode_as(document, RunPolicy, _POLICY)  # type: ignore[no-any-return]


def encode_effects(effects: Effects) -> dict[str, JsonValue]:
    return _encode_fields(msgspec.structs.asdict(effects), _EFFECTS)


def encode_lines(records: Iterable[Record]) -> Iterator[bytes]:
    """Writes one line for each record, with its newline."""
    for record in records:
        yield dump_json(encode(record)) + b"\n"


def decode_lines(raw: bytes, kind: type[Kind]) -> Iterator[Kind]:
    """Reads one record a line and skips blank lines. Raises Untrusted with the line's number in the reason."""
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            yield decode(parse_json(line), kind)
        except Untrusted as error:
            raise Untrusted(f"line {number}: {error.reason}", error.path) from None


def to_result(call: ToolCall, settled: Settlement, tool: ToolDefinition | None = None) -> ToolResult:
    """Builds CALL's result of a settlement. A skip has no error there, but its reason in `user_message`.

    With `tool`, raises InvalidCall for data that the tool does not return.
    """
    failed = settled.end != "ok"
    user_message = settled.user_message
    if settled.end == "skipped" and settled.error is not None:
        user_message = user_message or settled.error.message or settled.error.kind
    result = ToolResult(
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
        user_message=user_message,
        debug_message=settled.debug_message,
        phase=settled.phase if failed else None,
        denied_reason=settled.denied_reason,
        data_ref=settled.stored,
        was_coerced=settled.was_coerced or None,
        deadline_at=settled.deadline_at,
        provider_call_id=call.provider_call_id,
    )
    if tool is not None:
        check_data(result, tool)
    return result


def to_settlement(result: ToolResult) -> Settlement:
    """Builds the settlement of a result. Raises InvalidSettlement.

    The situation of a foreign result follows from `call_situation`, a missing `retryable` from the error's kind.
    """
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
    recorded = result.error
    if recorded is None:
        kind = BY_NAME[result.denied_reason].kind if result.denied_reason in BY_NAME else "skipped"
        return ToolError(kind=kind or "skipped", message=result.user_message or row.name, retryable=False)
    kind = recorded.kind or recorded.code.lower()
    return ToolError(
        kind=kind,
        message=recorded.message,
        details=recorded.details,
        recovery_hint=recorded.recovery_hint,
        retryable=kind in RETRYABLE_KINDS if recorded.retryable is None else recorded.retryable,
    )


def _recorded_code(result: ToolResult, error: ToolError | None) -> str | None:
    """The recorded code where the error's kind would give another one, and for a skip, which has no code."""
    if result.error is None or error is None:
        return None
    is_derived = result.status != "skipped" and result.error.code == call_code(error.kind)
    return None if is_derived else result.error.code


def _encode_fields(fields: dict[str, Any], shape: WireShape) -> dict[str, JsonValue]:
    document: dict[str, JsonValue] = {}
    for field, name in shape.names.items():
        value = fields.get(field)
        if (value is None and field not in _NULLABLE) or (field in _OMITTED_WHEN_EMPTY and not value):
            continue
        document[name] = _encode_value(value, shape.members.get(field))
    document.update(fields.get("extra", {}))
    return document


def _encode_value(value: Any, shape: WireShape | None) -> JsonValue:
    match value:
        case tuple():
            return [_encode_value(item, shape) for item in value]
        case msgspec.Struct() if shape is not None:
            return _encode_fields(msgspec.structs.asdict(value), shape)
    return value  # type: ignore[no-any-return]


def _decode_fields(document: JsonValue, shape: WireShape, path: str) -> JsonValue:
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
            restored[field] = _decode_value(value, shape.members.get(field), f"{path}.{name}")
    if extra and not shape.is_open:
        raise Untrusted(f"unknown field {next(iter(extra))!r}", path)
    return restored | ({"extra": extra} if extra else {})


def _decode_value(value: JsonValue, shape: WireShape | None, path: str) -> JsonValue:
    if shape is None:
        return value
    if isinstance(value, list):
        return [_decode_fields(item, shape, f"{path}[{index}]") for index, item in enumerate(value)]
    return _decode_fields(value, shape, path)


def _use_wire_names(text: str) -> str:
    """Replaces field names in a message or path of msgspec by their names on the wire."""
    for field, name in _WIRE_NAMES.items():
        text = text.replace(field, name)
    return text


def _all_names(shape: WireShape) -> dict[str, str]:
    names = {field: name for field, name in shape.names.items() if field != name}
    for member in shape.members.values():
        names |= _all_names(member)
    return names


# The longest first, so that no name is replaced inside a longer one (`deadline_at`).
_WIRE_NAMES = dict(
    sorted(
        (pair for shape in _SHAPES.values() for pair in _all_names(shape).items()),
        key=lambda pair: len(pair[0]),
        reverse=True,
    )
)

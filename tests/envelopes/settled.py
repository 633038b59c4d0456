"""Calls, settlements and JSON values for the tests of schema and codecs."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

from hypothesis import strategies as st

from envelopes.schema.call import Coercion, Iteration, Limits, RunPolicy, Sandbox, ToolCall
from envelopes.schema.outcome import TOOL_MESSAGE_MAX_CHARS
from envelopes.schema.result import CanonicalResult, ToolError
from envelopes.schema.settlement import BY_NAME, Created, Deleted, Effects, Modified, Renamed, Settlement, StoredOutput

AT = "2025-12-16T18:12:01Z"
# The two objects of the specification's section 8, as they stand there.
TOOL_CALL = """{
  "callId": "uuid",
  "runId": "uuid",
  "stepId": "s5",
  "tool": "vault.createFile",
  "attempt": 1,
  "args": { "path": "XYZ/Foo.md", "content": "..." },
  "timeoutMs": 30000,
  "cancellable": true,
  "iteration": { "index": 3, "itemName": "item", "itemValue": { "path": "XYZ/Foo.md" } },
  "createdAt": "2025-12-16T18:12:00Z",
  "executorVersion": "1.0.0",
  "toolRegistryVersion": "1.0",
  "preview": "Create note “Foo” in folder XYZ",
  "riskLevel": "writes",
  "category": "vault",
  "policy": {
    "confirmationsRequired": true,
    "sandbox": { "enabled": true, "allowedRoots": ["/"], "denyPatterns": ["..","://"] },
    "limits": { "maxConcurrency": 4 }
  },
  "confirmationId": "uuid"
}"""
TOOL_RESULT = """{
  "callId": "uuid",
  "runId": "uuid",
  "stepId": "s5",
  "tool": "vault.createFile",
  "attempt": 1,
  "status": "ok",
  "ok": true,
  "data": { "path": "XYZ/Foo.md", "etag": "abc123", "mtime": 1734372720000 },
  "startedAt": "2025-12-16T18:12:01Z",
  "endedAt": "2025-12-16T18:12:01Z",
  "durationMs": 240,
  "effects": {
    "sideEffectsObserved": ["create-file"],
    "created": [{ "path": "XYZ/Foo.md", "kind": "file" }]
  },
  "userMessage": "Created XYZ/Foo.md"
}"""


def call(**fields: Any) -> ToolCall:
    known: dict[str, Any] = {
        "call_id": "c1",
        "run_id": "r1",
        "step_id": "s1",
        "tool": "ExecCommand",
        "args": {"cmd": "make"},
        "attempt": 1,
        "cancellable": True,
        "created_at": AT,
        "executor_version": "1.0.0",
        "tool_registry_version": "1.0",
        "risk_level": "commands",
        "policy": RunPolicy(confirmations_required=True, sandbox=Sandbox(enabled=True), limits=Limits()),
    }
    return ToolCall(**known | fields)


def output_of(characters: int) -> dict[str, str]:
    """An output whose JSON has exactly this many characters."""
    return {"text": "x" * (characters - len(json.dumps({"text": ""})))}


def settled(name: str, **fields: Any) -> Settlement:
    """A settlement with the situation of this name."""
    row = BY_NAME[name]
    known: dict[str, Any] = {
        "call_id": "c1",
        "phase": row.phase,
        "end": row.end,
        "denied_reason": row.reason,
        "started_at": AT,
        "ended_at": AT,
        "duration_ms": 0,
    }
    if row.kind is None:
        known["data"] = output_of(TOOL_MESSAGE_MAX_CHARS + (1 if name == "large" else 0))
    else:
        known["error"] = ToolError(kind=row.kind, message=f"this is {name}", retryable=name == "cancelled")
    return Settlement(**known | fields)


def canonical_of(settlement: Settlement, tool: str = "ExecCommand") -> CanonicalResult:
    """The envelope of the same call, as an external tool's projection would write it."""
    if settlement.error is not None:
        return CanonicalResult(tool_name=tool, status="error", summary_text="it failed", error=settlement.error)
    return CanonicalResult(tool_name=tool, status="success", summary_text="it ran", result={"fields": []})


TEXT = st.text(max_size=8)
NAME = st.text(min_size=1, max_size=8)
# Lone surrogates and integers beyond 64 bits are in recordings, so they are here.
ODD_TEXT = st.text(st.characters(codec=None), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ODD_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD_TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(ODD_TEXT, JSON, max_size=3)
# Members of which the specification knows nothing: their names meet none of its own.
EXTRA = st.dictionaries(TEXT.map("x-{}".format), JSON.filter(lambda value: value is not None), max_size=2)
TIME = st.datetimes(timezones=st.just(UTC)).map(lambda at: at.isoformat())
COUNT = st.integers(0, 2**53)
MAYBE_TEXT = st.none() | TEXT


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def _tuples(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=2).map(tuple)


ENTRY = st.sampled_from(["file", "folder"])
EFFECTS = st.builds(
    Effects,
    side_effects_observed=_maybe(_tuples(TEXT)),
    created=_maybe(_tuples(st.builds(Created, path=TEXT, kind=ENTRY))),
    modified=_maybe(
        _tuples(
            st.builds(Modified, path=TEXT, kind=st.just("file"), before_etag=MAYBE_TEXT, after_etag=MAYBE_TEXT),
        )
    ),
    deleted=_maybe(_tuples(st.builds(Deleted, path=TEXT, kind=ENTRY, trashed=_maybe(st.booleans())))),
    renamed=_maybe(_tuples(st.builds(Renamed, from_path=TEXT, to_path=TEXT))),
)
POLICY = st.builds(
    RunPolicy,
    confirmations_required=st.booleans(),
    sandbox=st.builds(
        Sandbox,
        enabled=st.booleans(),
        allowed_roots=_maybe(_tuples(TEXT)),
        deny_patterns=_maybe(_tuples(TEXT)),
        extra=EXTRA,
    ),
    limits=st.builds(Limits, **{name: _maybe(COUNT) for name in Limits.__struct_fields__[:-1]}, extra=EXTRA),
    extra=EXTRA,
)
CALLS = st.builds(
    ToolCall,
    **dict.fromkeys(("call_id", "run_id", "step_id", "tool", "executor_version", "tool_registry_version"), NAME),
    **dict.fromkeys(
        ("args_hash", "loop_id", "planner_version", "preview", "category", "confirmation_id", "provider_call_id"),
        MAYBE_TEXT,
    ),
    args=OBJECT,
    attempt=st.integers(1, 10),
    timeout_ms=_maybe(st.integers(1, 2**40)),
    deadline_at=_maybe(TIME),
    cancellable=st.booleans(),
    iteration=_maybe(st.builds(Iteration, index=COUNT, item_name=TEXT, item_value=JSON)),
    created_at=TIME,
    risk_level=st.sampled_from(["read-only", "writes", "commands"]),
    policy=POLICY,
    coercions=_tuples(st.builds(Coercion, pointer=TEXT, before=JSON, after=JSON)),
    redactions=_tuples(TEXT),
    extra=EXTRA,
)
STORED = st.builds(StoredOutput, artifact_id=NAME, summary=st.text(max_size=200), size_bytes=COUNT)


@st.composite
def settlements(draw: st.DrawFn) -> Settlement:
    """Draws any situation with any of the kinds that belong to it."""
    row = BY_NAME[draw(st.sampled_from(sorted(BY_NAME)))]
    fields: dict[str, Any] = {"was_coerced": draw(st.booleans()), "deadline_at": draw(_maybe(TIME))}
    fields |= {name: draw(MAYBE_TEXT) for name in ("debug_message", "data_hash")}
    if row.phase == "executed":
        fields["effects"] = draw(_maybe(EFFECTS))
    if row.kind is None:
        fields |= draw(
            st.fixed_dictionaries({"data": OBJECT}) | st.fixed_dictionaries({"stored": STORED, "data": st.none()})
        )
    else:
        fields["error"] = ToolError(
            kind=draw(st.sampled_from((row.kind, *row.kinds))),
            message=draw(NAME),
            details=draw(_maybe(OBJECT)),
            recovery_hint=draw(MAYBE_TEXT),
            retryable=draw(st.booleans()),
        )
    return settled(
        row.name,
        started_at=draw(TIME),
        ended_at=draw(TIME),
        duration_ms=draw(COUNT),
        user_message=draw(MAYBE_TEXT),
        **fields,
    )

"""The ActionPlan of a planner: steps in order, each a tool with arguments that may contain references (CALL-010).

Strict: an unknown field is an error. Arguments are any JSON; the tool's own schema checks them when references
are resolved. Settings that the author omitted stay None: the executor applies the defaults.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from envelopes.schema.conversion import convert_json
from envelopes.schema.tool import RiskLevel
from envelopes.text.untrusted_json import Untrusted

OnError: TypeAlias = Literal["stop", "skip", "retry"]
NonEmpty: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
StepId: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
# A dot in a variable's name would be read as a path into its value (OD-18).
VariableName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """camelCase on the wire."""


class RetryPolicy(_Strict, frozen=True, kw_only=True):
    """`max_attempts` includes the first attempt. The wait doubles from attempt to attempt."""

    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=10)]
    backoff_ms: Annotated[int, msgspec.Meta(ge=0, le=600_000)] = 250


class Foreach(_Strict, frozen=True, kw_only=True):
    """`source` is a reference to an array; the step runs once for each of its items."""

    source: NonEmpty = msgspec.field(name="from")
    item_name: VariableName
    index_name: VariableName = "index"
    concurrency: Positive = 1


class Step(_Strict, frozen=True, kw_only=True):
    id: StepId
    tool: NonEmpty
    args: dict[str, Any]
    preview: str | None = None
    depends_on: tuple[StepId, ...] = ()
    foreach: Foreach | None = None
    capture_as: VariableName | None = None
    on_error: OnError | None = None
    retry: RetryPolicy | None = None
    timeout_ms: Positive | None = None
    tags: tuple[str, ...] = ()


class Defaults(_Strict, frozen=True, kw_only=True):
    on_error: OnError | None = None
    retry: RetryPolicy | None = None


class ContextRequest(_Strict, frozen=True, kw_only=True):
    kind: Literal["activeFilePath", "selection", "cursor", "workspaceContext", "commandList", "vaultFileList"]
    options: dict[str, Any] = {}


class Outputs(_Strict, frozen=True, kw_only=True):
    show_created_files: bool = True
    show_modified_files: bool = True
    show_command_runs: bool = True


class UiHints(_Strict, frozen=True, kw_only=True):
    """Texts for display; no logic depends on them."""

    title: str | None = None
    summary: str | None = None


class ActionPlan(_Strict, frozen=True, kw_only=True):
    version: Annotated[str, msgspec.Meta(pattern=r"^\d+\.\d+(\.\d+)?$")]
    goal: NonEmpty
    risk_level: RiskLevel
    steps: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1)]
    assumptions: tuple[str, ...] = ()
    context_requests: tuple[ContextRequest, ...] = ()
    defaults: Defaults = Defaults()
    outputs: Outputs = Outputs()
    ui_hints: UiHints = UiHints()


def read_plan(document: Any) -> ActionPlan:
    """Parses a plan. Raises Untrusted with a path: a wrong type, a repeated id or variable, an unknown dependency.

    >>> steps = [{"id": "look", "tool": "WebSearch", "args": {"query": "canonical JSON"}}]
    >>> read_plan({"version": "1.0", "goal": "Look it up", "riskLevel": "read-only", "steps": steps}).steps[0].tool
    'WebSearch'
    """
    try:
        plan = convert_json(document, ActionPlan, strict=True)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `")
        raise Untrusted(reason, path.rstrip("`") or "$") from None
    _check_names(plan)
    return plan


def plan_document(plan: ActionPlan) -> dict[str, Any]:
    """The plan as JSON, without the settings that its author left out. It is what run.json has and what is hashed."""
    document = _set_members(msgspec.to_builtins(plan))
    document["steps"] = [_set_members(step) for step in document["steps"]]
    for name in ("defaults", "uiHints"):
        document[name] = _set_members(document[name])
    return document


def _set_members(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _check_names(plan: ActionPlan) -> None:
    ids = {step.id for step in plan.steps}
    for field, names in (
        ("id", [step.id for step in plan.steps]),
        ("captureAs", [step.capture_as for step in plan.steps if step.capture_as]),
    ):
        for name, count in Counter(names).items():
            if count > 1:
                raise Untrusted(f"{field} {name!r} occurs {count} times", "$.steps")
    for index, step in enumerate(plan.steps):
        for name in step.depends_on:
            if name not in ids or name == step.id or step.depends_on.count(name) > 1:
                raise Untrusted(f"{name!r} is not another step, or is named twice", f"$.steps[{index}].dependsOn")

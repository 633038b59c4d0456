"""The ActionPlan of a planner: steps in order, each a tool with arguments that may contain references (CALL-010).

Strict: an unknown field is an error. Arguments are any JSON; the tool's own schema checks them when references
are resolved. Settings that the author omitted stay None: the executor applies the defaults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from envelopes.plan.shape_faults import MOST_FAULTS, Malformed, ShapeFault, find_shape_faults, name_unknown
from envelopes.schema.conversion import convert_json
from envelopes.schema.tool import RiskLevel
from envelopes.text.canonical_json import NotCanonical, named_hash

OnError: TypeAlias = Literal["stop", "skip", "retry"]
NonEmpty: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_NAME = msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", description="a letter, then letters, digits, _ or -")
_VERSION = msgspec.Meta(pattern=r"^\d+\.\d+(\.\d+)?$", description="a version, two or three numbers with dots between")
StepId: TypeAlias = Annotated[str, _NAME]
# A dot in a variable's name would be read as a path into its value (OD-18).
VariableName: TypeAlias = Annotated[str, _NAME]
Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
MOST_MS = 365 * 86_400_000  # a year: the end of a longer time may be no date


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
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=MOST_MS)] | None = None
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
    version: Annotated[str, _VERSION]
    goal: NonEmpty
    risk_level: RiskLevel
    steps: Annotated[tuple[Step, ...], msgspec.Meta(min_length=1)]
    assumptions: tuple[str, ...] = ()
    context_requests: tuple[ContextRequest, ...] = ()
    defaults: Defaults = Defaults()
    outputs: Outputs = Outputs()
    ui_hints: UiHints = UiHints()


def read_plan(document: Any) -> ActionPlan:
    """Parses a plan. Raises Malformed with every fault: a wrong type, a repeated id or variable, an unknown dependency.

    >>> steps = [{"id": "look", "tool": "WebSearch", "args": {"query": "canonical JSON"}}]
    >>> read_plan({"version": "1.0", "goal": "Look it up", "riskLevel": "read-only", "steps": steps}).steps[0].tool
    'WebSearch'
    """
    if faults := [
        _word_fault(document, fault) for fault in islice(find_shape_faults(document, ActionPlan), MOST_FAULTS)
    ]:
        raise Malformed(faults)
    try:
        plan = convert_json(document, ActionPlan, strict=True)
        named_hash(plan_document(plan))
    except (msgspec.ValidationError, NotCanonical) as error:
        raise Malformed([f"plan: a value in it is no JSON: {error}"]) from None
    if faults := list(_find_name_faults(plan)):
        raise Malformed(faults)
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


def _word_fault(document: Any, fault: ShapeFault) -> str:
    """The fault behind its place: the id of the step and a pointer into it, or a pointer into the plan."""
    match fault.path:
        case ("steps", int(index), *path):
            step = document["steps"][index]
            name = step.get("id") if isinstance(step, dict) else None
            place = name if isinstance(name, str) and name else f"step {index + 1}"
        case path:
            place = "plan"
    return "/".join([place, *map(str, path)]) + f": {fault.message}"


def _find_name_faults(plan: ActionPlan) -> Iterator[str]:
    ids = [step.id for step in plan.steps]
    for field, names in (("id", ids), ("captureAs", [step.capture_as for step in plan.steps if step.capture_as])):
        for name, count in Counter(names).items():
            if count > 1:
                yield f"plan: {count} steps have the {field} {name}, which has to be used once"
    for step in plan.steps:
        for name, count in Counter(step.depends_on).items():
            if name == step.id:
                yield f"{step.id}/dependsOn: a step cannot depend on itself"
            elif name not in ids:
                others = [known for known in ids if known != step.id]
                yield f"{step.id}/dependsOn: there is no step {name_unknown(name, others)}"
            if count > 1:
                yield f"{step.id}/dependsOn: {name} is named {count} times"

"""Checks a plan before anything runs and lists every fault at once (CALL-110; OD-2, OD-11, OD-22, OD-23).

    check_plan       the faults: unknown tools and names, tools that are not set up, cycles, understated risk, paths
                     that an output does not have, constant arguments that the tool refuses, too many steps
    effective_risk   the highest risk of the plan and of the tools that it uses
    PlanRejected     raised by the executor for a plan with faults; no call was made and nothing was recorded

The output of a tool is closed: a path that none of its result structs has cannot exist when the step runs. Keys of
arguments are never templates (OD-12), so a missing or unknown argument is known now; an argument with a reference in
it is checked when it is resolved.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.plan.gates import Registry, parse_args
from envelopes.plan.references import (
    MAX_DEPTH,
    PlanReference,
    Scope,
    UnresolvedReference,
    find_member,
    find_references,
    is_reference,
    resolve,
)
from envelopes.plan.schema import ActionPlan, Foreach, Step
from envelopes.plan.shape_faults import ShapeFault, find_shape_faults, name_unknown
from envelopes.plan.steps import DEFAULT_MAX_STEPS
from envelopes.schema.call import Limits
from envelopes.schema.conversion import convert_json
from envelopes.schema.tool import InvalidToolInput, RiskLevel, ToolDefinition
from envelopes.text.pointer import join

FaultKind: TypeAlias = Literal[
    "unknown_tool", "unavailable", "reference", "cycle", "risk", "output_path", "arguments", "too_many_steps"
]
RISKS: tuple[RiskLevel, ...] = ("read-only", "writes", "commands")
Schema: TypeAlias = dict[str, Any]
_ANY: Schema = {}
_INTEGER: Schema = {"type": "integer"}


class PlanFault(msgspec.Struct, frozen=True, kw_only=True):
    """`pointer` leads into the step, or is "" for a fault of the whole step or plan."""

    kind: FaultKind
    message: str
    step_id: str | None = None
    pointer: str = ""

    def __str__(self) -> str:
        place = f"{self.step_id or 'plan'}{self.pointer}"
        return f"{place}: {self.message}"


class PlanRejected(ValueError):
    """A plan with faults. `faults` has all of them."""

    def __init__(self, faults: Iterable[PlanFault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(map(str, self.faults)))


def effective_risk(plan: ActionPlan, registry: Registry) -> RiskLevel:
    """Tools that the registry does not have count as commands, because nobody knows what they do."""
    definitions = [registry(step.tool) for step in plan.steps]
    risks = [plan.risk_level, *("commands" if tool is None else tool.risk for tool in definitions)]
    return max(risks, key=RISKS.index)


def check_plan(
    plan: ActionPlan,
    registry: Registry,
    limits: Limits | None = None,
    *,
    internal: Collection[str] = (),
    names: Collection[str] = (),
    unavailable: Mapping[str, str] = {},
) -> tuple[PlanFault, ...]:
    """All faults of a plan, those of the plan first, then step by step.

    `internal` are variables that the runtime sets; `names` are the tools that may be meant by an unknown one;
    `unavailable` has the tools that this runtime has not set up, with what they lack.
    """
    return tuple(_PlanCheck(plan, registry, limits or Limits(), internal, names, unavailable).faults())


@dataclass
class _Output:
    """A schema with the definitions that its references lead to."""

    schema: Schema
    definitions: Mapping[str, Schema] = field(default_factory=dict)

    def forms(self) -> Iterator[_Output]:
        """The alternatives without references and unions."""
        schema = self.schema
        if "$ref" in schema:
            yield from _Output(self.definitions[schema["$ref"].rpartition("/")[2]], self.definitions).forms()
            return
        members = schema.get("anyOf") or schema.get("oneOf")
        if members is None:
            yield self
            return
        for member in members:
            yield from _Output(member, self.definitions).forms()

    def enter(self, key: str | int) -> Iterator[_Output]:
        """The forms of a member or an item; none where it cannot be there."""
        for form in self.forms():
            schema, child = form.schema, None
            if "type" not in schema:
                child = _ANY
            elif isinstance(key, int):
                if schema["type"] == "array":
                    child = _item_schema(schema, key)
            elif schema["type"] == "object":
                properties = schema.get("properties", {})
                open_members = schema.get("additionalProperties", not properties)
                unlisted = open_members if isinstance(open_members, dict) else None
                child = properties.get(find_member(properties, key), unlisted)
                if child is None and open_members is True:
                    child = _ANY
            if child is not None:
                yield _Output(child, self.definitions)


def _item_schema(schema: Schema, index: int) -> Schema | None:
    fixed = schema.get("prefixItems", ())
    if index < len(fixed):
        return fixed[index]  # type: ignore[no-any-return]
    items = schema.get("items", _ANY)
    return items if isinstance(items, dict) else None


class _PlanCheck:
    def __init__(
        self,
        plan: ActionPlan,
        registry: Registry,
        limits: Limits,
        internal: Collection[str],
        names: Collection[str],
        unavailable: Mapping[str, str],
    ) -> None:
        self._unavailable = unavailable
        self._plan, self._limits, self._internal, self._names = plan, limits, internal, names
        self._steps = {step.id: step for step in plan.steps}
        self._tools = {step.id: registry(step.tool) for step in plan.steps}
        self._captured = {step.capture_as: step.id for step in plan.steps if step.capture_as}
        self._edges = {step.id: set(step.depends_on) for step in plan.steps}

    def faults(self) -> Iterator[PlanFault]:
        most = DEFAULT_MAX_STEPS if self._limits.max_steps is None else self._limits.max_steps
        if len(self._steps) > most:
            yield PlanFault(kind="too_many_steps", message=f"{len(self._steps)} steps, {most} are allowed")
        yield from self._risk_faults()
        faults = [fault for step in self._plan.steps for fault in self._step_faults(step)]
        yield from self._cycle_faults()  # behind the steps, whose references are edges
        yield from faults

    def _risk_faults(self) -> Iterator[PlanFault]:
        declared = RISKS.index(self._plan.risk_level)
        for step_id, tool in self._tools.items():
            if tool is not None and RISKS.index(tool.risk) > declared:
                message = (
                    f"{tool.name} {_RISK_WORDS[tool.risk]}, but the plan declares {self._plan.risk_level}; "
                    f"its riskLevel has to be {tool.risk}"
                )
                yield PlanFault(kind="risk", step_id=step_id, message=message)

    def _cycle_faults(self) -> Iterator[PlanFault]:
        waiting = {step_id: set(edges) for step_id, edges in self._edges.items()}
        while ready := [step_id for step_id, edges in waiting.items() if not edges & waiting.keys()]:
            for step_id in ready:
                del waiting[step_id]
        if waiting:
            yield PlanFault(kind="cycle", message=f"{', '.join(waiting)}: they wait for each other")

    def _step_faults(self, step: Step) -> Iterator[PlanFault]:
        tool = self._tools[step.id]
        if tool is None:
            nearest = difflib.get_close_matches(step.tool, self._names, n=1)
            hint = f"; nearest: {nearest[0]}" if nearest else ""
            yield PlanFault(kind="unknown_tool", step_id=step.id, message=f"there is no tool {step.tool}{hint}")
        elif reason := self._unavailable.get(tool.name):
            yield PlanFault(kind="unavailable", step_id=step.id, message=f"{tool.name} cannot run here: {reason}")
        bindings: dict[str, list[_Output]] = {}
        if step.foreach is not None:
            lists: list[_Output] = []
            yield from self._foreach_faults(step, step.foreach, lists)
            items = [item for output in lists for item in output.enter(0)]
            bindings = {step.foreach.item_name: items or [_Output(_ANY)], step.foreach.index_name: [_Output(_INTEGER)]}
        yield from self._reference_faults(step, step.args, "/args", bindings)
        yield from self._reference_faults(step, step.preview, "/preview", bindings)
        if tool is not None:
            yield from _argument_faults(step, tool)

    def _foreach_faults(self, step: Step, foreach: Foreach, lists: list[_Output]) -> Iterator[PlanFault]:
        """The faults of a foreach. The outputs that its source names go to `lists`."""
        faults = list(self._reference_faults(step, foreach.source, "/foreach/from", {}, lists))
        yield from faults
        if not faults and not is_reference(foreach.source):
            message = f"{foreach.source} is not a reference to an array"
            yield PlanFault(kind="reference", step_id=step.id, pointer="/foreach/from", message=message)
        elif lists and not any(True for output in lists for _ in output.enter(0)):
            message = f"{foreach.source} is not an array"
            yield PlanFault(kind="output_path", step_id=step.id, pointer="/foreach/from", message=message)
        if foreach.item_name == foreach.index_name:
            message = f"itemName and indexName are both {foreach.item_name}, so the item could not be named"
            yield PlanFault(kind="reference", step_id=step.id, pointer="/foreach/itemName", message=message)

    def _reference_faults(
        self,
        step: Step,
        value: Any,
        pointer: str,
        bindings: Mapping[str, list[_Output]],
        reached: list[_Output] | None = None,
    ) -> Iterator[PlanFault]:
        """Checks each text by itself, so that one fault hides no other. Outputs that are named go to `reached`."""
        for place, text in _texts(value, pointer):
            if text is None:
                yield PlanFault(
                    kind="reference", step_id=step.id, pointer=place, message=f"deeper than {MAX_DEPTH} levels"
                )
                continue
            try:
                references = [reference for _, reference in find_references(text, place)]
            except UnresolvedReference as error:
                yield PlanFault(kind="reference", step_id=step.id, pointer=error.pointer, message=error.reason)
                continue
            for reference in references:
                outputs = self._find_outputs(step, reference, bindings)
                if outputs is None:
                    message = f"{reference.text}: there is no such {_NOUNS[reference.source]}"
                    yield PlanFault(kind="reference", step_id=step.id, pointer=place, message=message)
                    continue
                for key in reference.path:
                    outputs = [child for output in outputs for child in output.enter(key)]
                if not outputs:
                    message = f"{reference.text}: the output has no such member"
                    yield PlanFault(kind="output_path", step_id=step.id, pointer=place, message=message)
                elif reached is not None:
                    reached += outputs

    def _find_outputs(
        self, step: Step, reference: PlanReference, bindings: Mapping[str, list[_Output]]
    ) -> list[_Output] | None:
        """The outputs that a name stands for; None for a name that nothing has. Adds the edge (OD-2)."""
        name = reference.name
        if reference.source == "binding":
            return bindings.get(name)
        if reference.source == "vars" and name in self._internal:
            return [_Output(_ANY)]
        producer = name if reference.source == "steps" else self._captured.get(name)
        if producer not in self._steps:
            return None
        self._edges[step.id].add(producer)
        return [self._output(self._steps[producer])]

    def _output(self, step: Step) -> _Output:
        tool = self._tools[step.id]
        if tool is None:
            data, definitions = _ANY, dict[str, Schema]()
        else:
            data = tool.output_schema()
            definitions = data.pop("$defs")
        if step.foreach is None:
            return _Output(data, definitions)
        members = {"items": {"type": "array", "items": data}, "count": _INTEGER, "okCount": _INTEGER}
        failed = {
            "type": "array",
            "items": {"type": "object", "properties": {"index": _INTEGER, "code": {"type": "string"}}},
        }
        return _Output({"type": "object", "properties": {**members, "failed": failed}}, definitions)


_NOUNS = {"steps": "step", "vars": "variable", "binding": "name in a foreach"}
_RISK_WORDS: dict[RiskLevel, str] = {"read-only": "only reads", "writes": "writes", "commands": "runs commands"}


def _texts(value: Any, pointer: str) -> Iterator[tuple[str, str | None]]:
    """The texts with their pointers; None for what is too deep to be resolved."""
    if pointer.count("/") > MAX_DEPTH:
        yield pointer, None
    elif isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for name, child in value.items():
            yield from _texts(child, join(pointer, name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _texts(child, join(pointer, index))


def _argument_faults(step: Step, tool: ToolDefinition) -> Iterator[PlanFault]:
    """The names of the arguments and the constants; all of them together where no argument has a reference."""
    constants, templates = {}, set()
    for name, value in step.args.items():
        try:
            constants[name] = resolve(value, Scope())
        except UnresolvedReference:
            templates.add(name)
    fields = {field.encode_name: field for field in msgspec.structs.fields(tool.input)}
    faults = list(_find_member_faults(step, tool, fields))
    for name, value in constants.items():
        if name in fields:
            faults += _find_type_faults(step, join("/args", name), value, fields[name].type)
    if not faults and not templates:
        try:
            parse_args(tool, constants)
        except InvalidToolInput as refusal:
            field_name = (refusal.error.details or {}).get("field")
            pointer = join("/args", field_name) if isinstance(field_name, str) else "/args"
            faults.append(_argument_fault(step, pointer, refusal.error.message))
    yield from faults


def _find_member_faults(step: Step, tool: ToolDefinition, fields: Mapping[str, Any]) -> Iterator[PlanFault]:
    meant = set()
    for name in step.args:
        if name in fields:
            continue
        if right := tool.misnamed.get(name):
            meant.add(right)
            message = f"{tool.name} has no argument {name}; it is called {right} here"
        elif name in tool.result_only:
            message = f"{name} is a field of the result of {tool.name}, not an argument"
        else:
            message = f"{tool.name} has no argument {name_unknown(name, fields)}"
        yield _argument_fault(step, join("/args", name), message)
    for name, declared in fields.items():
        if declared.required and name not in step.args and name not in meant:
            yield _argument_fault(step, "/args", f"{tool.name} needs the argument {name}")


def _argument_fault(step: Step, pointer: str, message: str) -> PlanFault:
    return PlanFault(kind="arguments", step_id=step.id, pointer=pointer, message=message)


def _find_type_faults(step: Step, pointer: str, value: Any, type_: Any) -> Iterator[PlanFault]:
    """The faults of a constant argument. Numbers may be spelled as texts."""
    reason = ""
    for strict in (True, False):
        try:
            convert_json(value, type_, strict=strict)
        except msgspec.ValidationError as error:
            reason = reason or str(error)
        else:
            return
    faults = list(find_shape_faults(value, type_)) or [ShapeFault((), reason)]
    for fault in faults:
        yield _argument_fault(step, pointer + "".join(join("", part) for part in fault.path), fault.message)

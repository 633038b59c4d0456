"""The tab Plan of a run: its steps with their dependencies, calls, rounds, and arguments beside their templates.

The steps come from the recorded plan, everything else from the rows of the run: what is shown of a step is what its
calls and events prove. A run that was killed shows its steps as far as they were recorded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from dashboard.evidence.argument_labels import show_label
from dashboard.evidence.execution import has_action_plan
from dashboard.models import Call, Event, Observation, Run, load_slices
from dashboard.models.outcomes import NOT_COUNTED, Outcome, describe_outcome
from dashboard.models.plans import find_asking
from dashboard.models.runs import step_url
from dashboard.plans.confirmation_page import RecordedConfirmation, load_recorded_confirmation
from dashboard.text.find_secrets import CONTEXT
from dashboard.text.masks import mask_text
from envelopes.plan.references import PlanReference, UnresolvedReference, find_references
from envelopes.plan.schema import ActionPlan, Step, read_plan
from envelopes.plan.steps import find_dependencies, order_steps
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

SHOWN_CHARACTERS = 600  # of a template or a value
DRAWN_STEPS = 40
NODE_WIDTH, NODE_HEIGHT, NODE_GAP, NODE_PITCH = 110, 22, 34, 30  # of the drawing
SHOWN_CALLS = 24  # of a step; those that failed first
TONES = {"ok": "good", "error": "bad", "interrupted": "warn", "partial": "warn", "skipped": "warn", "cancelled": "warn"}
RUN_ENDS = ("run.finished", "run.cancelled")
STEP_ENDS = ("step.finished", "step.failed")


class CallOfStep(NamedTuple):
    """A call of the run. `position` counts from 1; `words` is its outcome.

    `status` is that of its settlement, by which the executor counts: a command that exits with 1 gave a result.
    """

    key: UUID
    step: str
    tool: str
    position: int
    attempt: int
    iteration: int | None
    risk: str
    asked: str
    status: str
    outcome: str
    exit_status: int | None
    summary: str
    derivation: str
    url: str

    @property
    def name(self) -> str:
        place = f"call {self.position}" if self.iteration is None else f"round {self.iteration}"
        return place if self.attempt == 1 else f"{place}, attempt {self.attempt}"

    @property
    def label(self) -> str:
        """Made for the calls that are listed alone, because it is searched for secrets."""
        return show_label(self.asked, "")

    @property
    def has_ended(self) -> bool:
        return self.status != Call.Status.UNKNOWN

    @property
    def has_failed(self) -> bool:
        return self.status == Call.Status.ERROR

    @property
    def has_exit_status(self) -> bool:
        """True for a result that is a command's exit status other than 0."""
        return self.status == Call.Status.SUCCESS and self.outcome == Outcome.FAILED

    @property
    def words(self) -> str:
        return describe_outcome(self.outcome, self.exit_status) if self.derivation else NOT_COUNTED

    @property
    def reason(self) -> str:
        """Why the call has no result; of any other call its exit status says as much."""
        return self.summary if self.has_failed else ""

    @property
    def tone(self) -> str:
        return Outcome(self.outcome).tone

    @property
    def writes(self) -> bool:
        return self.risk not in ("", "read-only")


class ShownText(NamedTuple):
    """The beginning of a text, masked; `omitted` counts the characters behind it."""

    text: str
    omitted: int = 0


class PlanArgument(NamedTuple):
    """An argument as the plan has it and as the first call had it; `sources` fed its references."""

    name: str
    template: ShownText
    resolved: ShownText | None
    sources: tuple[tuple[str, str], ...]  # the reference, and the id of the step, empty for an item or a variable


@dataclass(frozen=True, kw_only=True)
class PlanStepRow:
    """One step. `needs` and `used_by` are ids of steps; `rounds` counts the items of a foreach that have a call.

    `counts` are words for the ends of their last attempts with their numbers and tones; `exits` of them have a result
    that is an exit status other than 0.
    """

    number: int
    step: Step
    end: str
    needs: tuple[str, ...]
    used_by: tuple[str, ...]
    arguments: tuple[PlanArgument, ...]
    calls: tuple[CallOfStep, ...]
    more: int
    rounds: int
    counts: tuple[tuple[str, str, int], ...]
    exits: int
    retries: int

    @property
    def tone(self) -> str:
        return TONES.get(self.end, "")


class GraphNode(NamedTuple):
    """A step in the drawing; `x` and `y` are its left upper corner."""

    x: int
    y: int
    step: str
    end: str


class StepGraph(NamedTuple):
    """A drawing of the dependencies, from left to right: a step stands behind all that it needs."""

    width: int
    height: int
    nodes: tuple[GraphNode, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PlanPage:
    """`problem` is why the recorded plan cannot be shown as steps. `counts` are numbers of steps by their end.

    `graph` is None where there is nothing to draw, or too much.
    """

    graph: StepGraph | None = None
    run: Run
    goal: str
    risk: str
    steps: tuple[PlanStepRow, ...]
    counts: tuple[tuple[str, str, int], ...]
    exits: int  # steps with commands that ended with another exit status than 0
    confirmation: RecordedConfirmation | None
    reason: str
    problem: str = ""

    @property
    def is_live(self) -> bool:
        return self.run.is_live

    @cached_property
    def asking(self) -> UUID | None:
        """The run whose plan waits for a confirmation: this one or a child."""
        return find_asking([self.run]).get(self.run.pk)

    @property
    def is_interrupted(self) -> bool:
        return self.run.ended_at is None and not self.run.is_live and has_action_plan(self.run)


class _RecordedEnds(NamedTuple):
    """`final` is the end of each step as the run's last event has it, None while it runs or after a kill."""

    final: Mapping[str, Any] | None
    without_call: Mapping[str, str]
    reason: str


def load_plan_page(run: Run) -> PlanPage:
    confirmation = load_recorded_confirmation(run)
    try:
        plan = read_plan(parse_json(bytes(run.plan or b"null")))
        variables = _recorded_variables(run)
        dependencies = find_dependencies(plan, variables)
        ordered = order_steps(plan, variables)
    except (Untrusted, UnresolvedReference) as error:
        return PlanPage(
            run=run,
            goal=run.title,
            risk="",
            steps=(),
            counts=(),
            exits=0,
            confirmation=confirmation,
            reason="",
            problem=f"The recorded plan is no ActionPlan: {error}",
        )
    ends = _load_ends(run)
    rows = tuple(_build_rows(run, plan, ordered, dependencies, ends))
    counts = {row.end: sum(other.end == row.end for other in rows) for row in rows}
    return PlanPage(
        graph=_draw_graph(rows),
        run=run,
        goal=plan.goal,
        risk=plan.risk_level,
        steps=rows,
        counts=tuple((end, TONES.get(end, ""), number) for end, number in counts.items()),
        exits=sum(row.exits > 0 for row in rows),
        confirmation=confirmation,
        reason=ends.reason,
    )


def _recorded_variables(run: Run) -> dict[str, Any]:
    document = parse_json(bytes(run.document)) if run.document else {}
    variables = document.get("variables") if isinstance(document, dict) else None
    return variables if isinstance(variables, dict) else {}


def _load_ends(run: Run) -> _RecordedEnds:
    """Steps without a call have an event of their own: skipped, nothing to do, or arguments that do not resolve."""
    events = list(Event.objects.filter(run=run, call=None, kind__in=(*RUN_ENDS, *STEP_ENDS)).order_by("line"))
    load_slices(events)
    final: Mapping[str, Any] | None = None
    without_call: dict[str, str] = {}
    reason = ""
    for event in events:
        document = parse_json(bytes(event.data))
        payload = document.get("payload") if isinstance(document, dict) else None
        if not isinstance(document, dict) or not isinstance(payload, dict):
            continue
        if event.kind in RUN_ENDS:
            steps = payload.get("steps")
            final = steps if isinstance(steps, dict) else final
            reason = str(payload.get("reason") or "")
        elif not document.get("callId"):
            without_call[str(document.get("stepId"))] = str(payload.get("status") or "error")
    return _RecordedEnds(final, without_call, reason)


def _load_calls(run: Run) -> dict[str, list[CallOfStep]]:
    """The calls of each step in the order of the run."""
    columns = (
        "pk",
        "step",
        "tool",
        "attempt",
        "iteration",
        "risk",
        "asked",
        "status",
        "outcome",
        "exit_status",
        "summary",
        "derivation",
    )
    calls: dict[str, list[CallOfStep]] = defaultdict(list)
    for position, row in enumerate(Call.objects.in_run(run).values_list(*columns), start=1):
        key, step, tool, *others = row
        calls[step].append(CallOfStep._make((key, step, tool, position, *others, step_url(run.pk, position))))
    return calls


def _build_rows(
    run: Run,
    plan: ActionPlan,
    ordered: Sequence[Step],
    dependencies: Mapping[str, frozenset[str]],
    ends: _RecordedEnds,
) -> Iterator[PlanStepRow]:
    calls = _load_calls(run)
    reached = [step.id for step in ordered if calls.get(step.id) or step.id in ends.without_call]
    newest = reached[-1] if reached else ""
    args = _load_args([calls[step.id][0].key for step in ordered if calls.get(step.id)])
    captured = {step.capture_as: step.id for step in plan.steps if step.capture_as}
    for number, step in enumerate(ordered, start=1):
        of_step = calls.get(step.id, [])
        last = {call.iteration: call for call in of_step}  # attempts are in their order
        shown = sorted(of_step, key=lambda call: (not call.has_failed, not call.has_exit_status, call.position))
        shown = shown[:SHOWN_CALLS]
        yield PlanStepRow(
            number=number,
            step=step,
            end=_find_end(run, step, list(last.values()), ends, is_newest=step.id == newest),
            needs=tuple(other.id for other in ordered if other.id in dependencies[step.id]),
            used_by=tuple(other.id for other in ordered if step.id in dependencies[other.id]),
            arguments=tuple(_build_arguments(step, args.get(of_step[0].key) if of_step else None, captured)),
            calls=tuple(sorted(shown, key=lambda call: call.position)),
            more=len(of_step) - len(shown),
            rounds=len(last) if step.foreach else 0,
            counts=_count_rounds(last.values()),
            exits=sum(call.has_exit_status for call in last.values()),
            retries=len(of_step) - len(last),
        )


def _count_rounds(last: Iterable[CallOfStep]) -> tuple[tuple[str, str, int], ...]:
    """Those that are ok and those that failed are always counted, others where there are some."""
    numbers: Counter[tuple[str, str]] = Counter()
    for call in last:
        if call.has_exit_status:
            numbers["with an exit status other than 0", "warn"] += 1
        elif call.has_ended:
            numbers["ok" if call.outcome == Outcome.SUCCEEDED else Outcome(call.outcome).word, call.tone] += 1
    ok, failed = (numbers.pop(end, 0) for end in (("ok", "good"), ("failed", "bad")))
    others = ((word, tone, number) for (word, tone), number in numbers.items())
    return (("ok", "good", ok), *others, ("failed", "bad", failed))


def _draw_graph(rows: Sequence[PlanStepRow]) -> StepGraph | None:
    """Each step in the column behind the last one that it needs. None without dependencies, or for many steps."""
    if len(rows) > DRAWN_STEPS or not any(row.needs for row in rows):
        return None
    columns: dict[str, int] = {}
    height_of: Counter[int] = Counter()
    places: dict[str, tuple[int, int]] = {}
    for row in rows:  # in the order of their dependencies
        column = columns[row.step.id] = max((columns[name] + 1 for name in row.needs), default=0)
        places[row.step.id] = (column * (NODE_WIDTH + NODE_GAP), height_of[column] * NODE_PITCH)
        height_of[column] += 1
    paths = []
    for row in rows:
        right, below = places[row.step.id]
        for name in row.needs:
            x, y = places[name]
            start, middle = x + NODE_WIDTH, y + NODE_HEIGHT // 2
            bend = (right - start) // 2
            end = below + NODE_HEIGHT // 2
            paths.append(f"M{start} {middle}C{start + bend} {middle} {right - bend} {end} {right} {end}")
    return StepGraph(
        width=(max(columns.values()) + 1) * (NODE_WIDTH + NODE_GAP) - NODE_GAP,
        height=max(height_of.values()) * NODE_PITCH,
        nodes=tuple(GraphNode(*places[row.step.id], row.step.id, row.end) for row in rows),
        paths=tuple(paths),
    )


def _find_end(run: Run, step: Step, last: Sequence[CallOfStep], ends: _RecordedEnds, *, is_newest: bool) -> str:
    """The recorded end; of a step without one, what its calls show."""
    if ends.final is not None:
        return str(ends.final.get(step.id) or "not reached")
    if step.id in ends.without_call:
        return ends.without_call[step.id]
    if not last:
        return "waiting" if run.is_live else "not reached"
    if is_newest or not all(call.has_ended for call in last):
        return "running" if run.is_live else "interrupted"
    failed = sum(call.has_failed for call in last)
    return "ok" if not failed else "partial" if failed < len(last) else "error"


def _load_args(calls: Iterable[UUID]) -> dict[UUID, dict[str, Any]]:
    """The recorded arguments of these calls."""
    rows = list(Observation.objects.filter(call__in=list(calls), surface="args", selected=True))
    load_slices(rows)
    parsed = ((row.call_id, parse_json(bytes(row.data))) for row in rows)
    return {call: args for call, args in parsed if isinstance(args, dict)}


def _build_arguments(step: Step, args: Mapping[str, Any] | None, captured: Mapping[str, str]) -> Iterator[PlanArgument]:
    for name, template in step.args.items():
        references = [reference for _, reference in find_references(template)]
        sources = [(reference.text, _find_producer(reference, captured)) for reference in references]
        resolved = show_value(args[name]) if args is not None and name in args and references else None
        yield PlanArgument(name, show_value(template), resolved, tuple(dict.fromkeys(sources)))


def _find_producer(reference: PlanReference, captured: Mapping[str, str]) -> str:
    """The step whose output the reference reads; empty for the item of a foreach and for a variable of the runtime."""
    if reference.source == "steps":
        return reference.name
    return captured.get(reference.name, "") if reference.source == "vars" else ""


def show_value(value: Any) -> ShownText:
    """A text as it is, any other value as JSON. Masked before it is cut."""
    text = value if isinstance(value, str) else dump_json(value).decode()
    shown = mask_text(text[: SHOWN_CHARACTERS + CONTEXT])[:SHOWN_CHARACTERS]
    return ShownText(shown, max(0, len(text) - SHOWN_CHARACTERS))

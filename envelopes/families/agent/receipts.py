"""The receipts of WaitFor, AgentGet, Enqueue and SpawnAgent, and of what foreign agents recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.agent.results import AgentRead, Spawned
from envelopes.families.agent.tools import TOOLS
from envelopes.families.indented_values import with_indented_values
from envelopes.families.segments import (
    headline,
    item_lines,
    item_phrase,
    label,
    line_break,
    marked_values,
    member_lines,
    phrase,
    receipt_renderer,
    text_block,
    text_value,
    value,
)
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.pointer import join

JOINED = 10
ERROR_DETAILS = (("Field", "field"), ("Required capability", "required_family"), ("Profile", "profile_preset"))
WAKES = {
    "operator_input": "Waiting for the operator",
    "task_result": "Waiting for the result of a task",
    "external": "Waiting for something outside",
}
WAIT_LINES = (
    ("Condition", "wait_condition/id"),
    ("Resource", "resource"),
    ("Work item", "work_item_id"),
    ("Readiness", "work_item/readiness"),
)
SPAWN_LINES = (
    ("Task", "task_handle/task_id"),
    ("Workspace", "child_supervision/workspace_mode"),
    ("Worktree", "child_supervision/worktree/path"),
    ("Delegation", "delegation_id"),
    ("Work item of the child", "child_work_item_id"),
)
AGENT_LINES = (
    ("Profile", "identity/profile"),
    ("Parent", "identity/parent_agent_id"),
    ("Lifecycle", "lifecycle"),
    ("Scheduling", "scheduling_posture"),
    ("Last turn", "closure/outcome"),
    ("Waiting reason", "closure/waiting_reason"),
    ("Focus", "current_work_item_id"),
    ("Workspace", "workspace/workspace_id"),
    ("Workspace mode", "workspace/mode"),
    ("Working directory", "execution/cwd"),
    ("Model", "model"),
    ("Tokens in", "token_usage/input_tokens"),
    ("Tokens out", "token_usage/output_tokens"),
    ("Active tasks", "active_task_count"),
)
# Each list with the members of an entry, in the order in which a line has them.
AGENT_LISTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Waits", "wait_conditions", ("id", "kind", "status", "waiting_for")),
    ("Children", "active_children", ("agent_id", "status", "task_id", "work_item_id")),
    ("Waiting intents", "waiting_intents", ("id", "status", "text")),
    ("External triggers", "external_triggers", ("id", "status", "text")),
    ("Notifications", "notifications", ("id", "status", "text")),
    ("Guidance", "loaded_guidance", ()),
    ("Skills", "skills", ()),
)
RECORDED_LINES = (
    ("Agent", "agent_id"),
    ("Task", "task_handle/task_id"),
    ("Status", "status"),
    ("Output file", "output_file"),
    ("Skill", "skill"),
    ("Plan file", "path"),
    ("Tool uses", "total_tool_uses"),
    ("Tokens", "total_tokens"),
)


@with_indented_values
def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    return _BODIES.get(canonical.tool_name, _recorded)(canonical)


def _recorded(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline(canonical.summary_text)
    yield from member_lines(canonical, RECORDED_LINES)
    yield from item_lines(canonical, "/result/answers", _answer)
    yield from text_block(canonical, "/result/text")
    yield from text_block(canonical, "/result/message")
    yield from text_block(canonical, "/result/plan", "Plan")


def _answer(item: JsonValue, pointer: str) -> Iterable[Segment]:
    answer = RecordedObject(item)
    yield from item_phrase(answer, pointer, "Question: {question}\nAnswer: ")
    text = answer.text("answer")
    yield label("(none)") if text is None else text_value(text, f"{pointer}/answer")


def _wait(canonical: CanonicalResult) -> Iterable[Segment]:
    """Not the reason: the model has just written it."""
    wake = RecordedObject(canonical.result).text("wake") or ""
    yield headline(WAKES.get(wake, "Waiting"), "/result/wake")
    yield from member_lines(canonical, WAIT_LINES)
    result = RecordedObject(canonical.result)
    pointer, waits = "/result/cancelled_wait_condition_ids", result.strings("cancelled_wait_condition_ids")
    total = len(waits) + (result.integer("cancelled_wait_condition_ids_omitted") or 0)
    if total:
        yield line_break()
        yield label("Replaced waits: ")
    for index, wait in enumerate(waits[:JOINED]):
        yield from [label(", ")] if index else []
        yield text_value(wait, f"{pointer}/{index}")
    if len(waits[:JOINED]) < total:
        yield Segment(f" +{total - len(waits[:JOINED])} more", "marker", SegmentSource("canonical", pointer))


def _follow_up(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline("Enqueued follow-up (", "/result/enqueued")
    yield from phrase(canonical, "{priority})")


def _spawned(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline("Agent spawned: ", "/result/agent_id")
    yield value(canonical, "/result/agent_id")
    yield from member_lines(canonical, SPAWN_LINES)
    if RecordedObject(canonical.result).member("task_handle").text("task_id"):
        words = "\nWait: TaskOutput {task_id}; write to it: TaskInput {task_id}; end: TaskStop {task_id}"
        yield from phrase(canonical, words, "/result/task_handle")
    yield from text_block(canonical, "/result/initial_output_preview", "Initial output")


def _agent(canonical: CanonicalResult) -> Iterable[Segment]:
    pointer = "/result/agent"
    yield headline("Agent ", pointer)
    yield value(canonical, f"{pointer}/identity/agent_id")
    yield headline(" is ", pointer)
    yield value(canonical, f"{pointer}/state")
    yield from member_lines(canonical, AGENT_LINES, pointer)
    for title, name, members in AGENT_LISTS:
        yield from _entries(canonical, title, name, members)


def _entries(canonical: CanonicalResult, title: str, name: str, members: tuple[str, ...]) -> Iterable[Segment]:
    agent, pointer = RecordedObject(canonical.result).member("agent"), f"/result/agent/{name}"
    entries, omitted = agent.items(name), agent.integer(f"{name}_omitted") or 0
    if not entries and not omitted:
        return
    yield line_break()
    yield label(f"{title}: ")
    yield value(canonical, pointer, str(len(entries) + omitted))
    for index, entry in enumerate(entries):
        yield line_break()
        yield label("- ")
        if isinstance(entry.recorded, str):
            yield text_value(entry.recorded, join(pointer, index))
        present = [member for member in members if entry.text(member)]
        marks = [(" " if member != present[0] else "", member) for member in present]
        yield from marked_values(entry, join(pointer, index), marks)
    if omitted:
        yield line_break()
        yield Segment(f"+{omitted} more", "marker", SegmentSource("canonical", f"{pointer}_omitted"))


# By name and not by shape: a child that was created and a foreign agent's run may both be one bare id.
_BODIES: dict[str, Callable[[CanonicalResult], Iterable[Segment]]] = {
    "WaitFor": _wait,
    "AgentGet": _agent,
    "Enqueue": _follow_up,
    "SpawnAgent": _spawned,
}

receipt = receipt_renderer(_body, details=ERROR_DETAILS, tools=TOOLS)


def spawn_outcome(spawned: Spawned) -> str:
    return f"agent {spawned.agent_id} spawned"


def agent_outcome(read: AgentRead) -> str:
    return f"agent {read.agent.identity.agent_id} is {read.agent.state}"

"""The receipts of WaitFor, AgentGet, Enqueue and SpawnAgent; what a foreign agent said stands in results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.agent.results import body as foreign_body
from envelopes.families.segments import (
    headline,
    label,
    line_break,
    member_line,
    receipt_renderer,
    text_block,
    text_value,
    value,
)
from envelopes.schema.receipt import Segment, SegmentSource
from envelopes.schema.result import CanonicalResult
from envelopes.text.pointer import join

FOLLOW_UP_CHARACTERS = 200  # spec/tools.md B.1: the model wrote the text and needs no more of it
JOINED = 10


def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    return _BODIES.get(canonical.tool_name, foreign_body)(canonical)


def _wait(canonical: CanonicalResult) -> Iterator[Segment]:
    yield headline("Waiting on ", "/result/wait_condition")
    yield value(canonical, "/result/wake")
    yield label(": ")
    yield value(canonical, "/result/reason")
    for title, member in (
        ("Condition", "wait_condition/id"),
        ("Resource", "resource"),
        ("Work item", "work_item_id"),
        ("Readiness", "work_item/readiness"),
    ):
        yield from member_line(canonical, title, f"/result/{member}")
    yield from _joined(canonical, "Replaced waits", "/result/cancelled_wait_condition_ids")


def _follow_up(canonical: CanonicalResult) -> Iterator[Segment]:
    yield headline("Enqueued follow-up (", "/result/enqueued")
    yield value(canonical, "/result/priority")
    yield label(")")
    text = RecordedObject(canonical.result).text("follow_up_text") or ""
    if not text.strip():
        return
    yield line_break(2)
    shown = text[:FOLLOW_UP_CHARACTERS]
    yield Segment(shown, "preview", SegmentSource("canonical", "/result/follow_up_text", 0, len(shown)))
    if len(shown) < len(text):
        yield line_break()
        yield Segment(f"[first {len(shown)} characters of the follow-up]", "marker")


def _spawned(canonical: CanonicalResult) -> Iterator[Segment]:
    yield headline("Agent spawned: ", "/result/agent_id")
    yield value(canonical, "/result/agent_id")
    for title, member in (
        ("Task", "task_handle/task_id"),
        ("Status", "task_handle/status"),
        ("Follow up with", "child_supervision/followup_target"),
        ("Workspace", "child_supervision/workspace_mode"),
        ("Worktree", "child_supervision/worktree/path"),
        ("Delegation", "delegation_id"),
        ("Work item of the child", "child_work_item_id"),
    ):
        yield from member_line(canonical, title, f"/result/{member}")
    yield from text_block(canonical, "/result/initial_output_preview", "Initial output")


_AGENT_LINES = (
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
# Each list with the members of an entry, in the order in which a line says them.
_AGENT_LISTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Waits", "wait_conditions", ("id", "kind", "status", "waiting_for")),
    ("Children", "active_children", ("agent_id", "status", "task_id", "work_item_id")),
    ("Waiting intents", "waiting_intents", ("id", "status", "text")),
    ("External triggers", "external_triggers", ("id", "status", "text")),
    ("Notifications", "notifications", ("id", "status", "text")),
    ("Guidance", "loaded_guidance", ()),
    ("Skills", "skills", ()),
)


def _agent(canonical: CanonicalResult) -> Iterator[Segment]:
    at = "/result/agent"
    yield headline("Agent ", at)
    yield value(canonical, f"{at}/identity/agent_id")
    yield headline(" is ", at)
    yield value(canonical, f"{at}/state")
    for title, member in _AGENT_LINES:
        yield from member_line(canonical, title, f"{at}/{member}")
    for title, member, parts in _AGENT_LISTS:
        yield from _entries(canonical, title, f"{at}/{member}", parts)


def _entries(canonical: CanonicalResult, title: str, pointer: str, parts: tuple[str, ...]) -> Iterator[Segment]:
    name = pointer.rpartition("/")[2]
    agent = RecordedObject(canonical.result).member("agent")
    items, omitted = agent.items(name), agent.integer(f"{name}_omitted") or 0
    if not items and not omitted:
        return
    yield line_break()
    yield label(f"{title}: ")
    yield value(canonical, pointer, str(len(items) + omitted))
    for index, item in enumerate(items):
        yield line_break()
        yield label("- ")
        yield from _entry(item, join(pointer, index), parts)
    if omitted:
        yield line_break()
        yield Segment(f"+{omitted} more", "marker", SegmentSource("canonical", f"{pointer}_omitted"))


def _entry(item: RecordedObject, pointer: str, parts: tuple[str, ...]) -> Iterator[Segment]:
    if isinstance(item.recorded, str):
        yield text_value(item.recorded, pointer)
    said = [(part, text) for part in parts if (text := item.text(part))]
    for index, (part, text) in enumerate(said):
        if index:
            yield label(" ")
        yield text_value(text, f"{pointer}/{part}")


def _joined(canonical: CanonicalResult, title: str, pointer: str) -> Iterator[Segment]:
    """`title: a, b +N more`, ten of them; nothing for an empty list."""
    name = pointer.rpartition("/")[2]
    result = RecordedObject(canonical.result)
    found = result.strings(name)
    total = len(found) + (result.integer(f"{name}_omitted") or 0)
    if not total:
        return
    yield line_break()
    yield label(f"{title}: ")
    shown = found[:JOINED]
    for index, one in enumerate(shown):
        if index:
            yield label(", ")
        yield text_value(one, join(pointer, index))
    if len(shown) < total:
        yield Segment(f" +{total - len(shown)} more", "marker", SegmentSource("canonical", pointer))


# By name and not by shape: a child that was created and a foreign agent's run may both be one bare id.
_BODIES: dict[str, Callable[[CanonicalResult], Iterable[Segment]]] = {
    "WaitFor": _wait,
    "AgentGet": _agent,
    "Enqueue": _follow_up,
    "SpawnAgent": _spawned,
}
DETAILS = (("Field", "field"), ("Required capability", "required_family"), ("Profile", "profile_preset"))
receipt = receipt_renderer(_body, details=DETAILS)

"""What foreign agents' tools of this family yield: typed results, bounded projection, the body of the receipt."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.base import Projection, Projector, ResultMembers
from envelopes.families.segments import headline, item_lines, label, line_break, member_line, text_block, text_value
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult, JsonValue


class AgentRun(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is the child's report; `launched` says that it still works in the background."""

    agent_id: str | None = None
    status: str | None = None
    description: str | None = None
    launched: bool = False
    output_file: str | None = None
    text: str = ""
    total_tokens: int | None = None
    total_tool_uses: int | None = None
    duration_ms: int | float | None = None


class SkillRun(msgspec.Struct, frozen=True, kw_only=True):
    skill: str | None = None
    started: bool | None = None
    status: str | None = None
    agent_id: str | None = None
    text: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`answer` is None for a question that was left open."""

    question: str
    header: str | None = None
    answer: str | None = None


class Answers(msgspec.Struct, frozen=True):
    answers: tuple[Answer, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    plan: str = ""
    path: str | None = None
    is_agent: bool | None = None


class PlanMode(msgspec.Struct, frozen=True):
    message: str


def _agent_run(found: AgentRun, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    handle: JsonValue = {"task_id": found.agent_id, "kind": "agent", "status": "running"}
    text = projector.text("text", found.text, policy.preview, role="report") if found.text else {}
    return {
        "agent_id": found.agent_id,
        "status": found.status,
        **_description(found.description, projector, policy),
        "task_handle": handle if found.launched else None,
        "output_file": found.output_file,
        "total_tokens": found.total_tokens,
        "total_tool_uses": found.total_tool_uses,
        "duration_ms": found.duration_ms,
        **text,
    }


def _skill_run(found: SkillRun, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    text = projector.text("text", found.text, policy.preview, role="report") if found.text else {}
    return {
        "skill": found.skill,
        "started": found.started,
        "status": found.status,
        "agent_id": found.agent_id,
        **text,
    }


def _answers(found: Answers, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    rows: list[JsonValue] = [
        {"question": one.question, "header": one.header, "answer": one.answer} for one in found.answers
    ]
    return projector.items("answers", rows, policy)


def _plan(found: Plan, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    plan = projector.text("plan", found.plan, policy.preview, role="plan")
    return {"path": found.path, "is_agent": found.is_agent, **plan}


def _plan_mode(found: PlanMode, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return projector.text("message", found.message, policy.preview, role="message")


def _description(text: str | None, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {} if text is None else projector.text("description", text, policy.details, role="description")


def body(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline(canonical.summary_text)
    for title, member in _LINES:
        yield from member_line(canonical, title, f"/result/{member}")
    yield from item_lines(canonical, "/result/answers", _answer_lines)
    yield from text_block(canonical, "/result/text")
    yield from text_block(canonical, "/result/message")
    yield from text_block(canonical, "/result/plan", "Plan")


_LINES = (
    ("Agent", "agent_id"),
    ("Task", "task_handle/task_id"),
    ("Status", "status"),
    ("Output file", "output_file"),
    ("Skill", "skill"),
    ("Plan file", "path"),
    ("Tool uses", "total_tool_uses"),
    ("Tokens", "total_tokens"),
)


def _answer_lines(item: JsonValue, pointer: str) -> Iterable[Segment]:
    found = RecordedObject(item)
    yield label("Question: ")
    yield text_value(found.text("question") or "", f"{pointer}/question")
    yield line_break()
    yield label("Answer: ")
    answer = found.text("answer")
    yield label("(none)") if answer is None else text_value(answer, f"{pointer}/answer")


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {
    AgentRun: _agent_run,
    SkillRun: _skill_run,
    Answers: _answers,
    Plan: _plan,
    PlanMode: _plan_mode,
}

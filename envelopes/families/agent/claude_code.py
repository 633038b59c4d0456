"""What Claude Code recorded of the agent family's tools, and where its receipts took it from."""

from __future__ import annotations

import re

from envelopes.alignment.excerpt import match_excerpt
from envelopes.alignment.lenient_structs import RecordedObject, link_groups, reading, tool_mapping
from envelopes.alignment.mapping import Evidence, OutputField, Reading
from envelopes.alignment.spans import Span
from envelopes.families.agent.results import AgentRun, Answer, Answers, Plan, PlanMode, SkillRun
from envelopes.schema.result import JsonValue
from envelopes.text.outline import outline_text
from envelopes.text.pointer import join

AGENT = "claude-code"


def _read_run(evidence: Evidence, recorded: RecordedObject) -> Reading:
    blocks = [(index, block.text("text")) for index, block in enumerate(recorded.items("content"))]
    texts = [(index, text) for index, text in blocks if text is not None]
    status = recorded.text("status")
    found = AgentRun(
        agent_id=recorded.text("agentId"),
        status=status,
        description=recorded.text("description"),
        launched=recorded.flag("isAsync") is True or status == "async_launched",
        output_file=recorded.text("outputFile"),
        text="\n\n".join(text for _, text in texts),
        total_tokens=recorded.integer("totalTokens"),
        total_tool_uses=recorded.integer("totalToolUseCount"),
        duration_ms=recorded.number("totalDurationMs"),
    )
    links = {f"/{theirs}": f"/result/{ours}" for theirs, ours in _RUN_LINKS.items()}
    links |= {f"/content/{index}/text": "/result/text" for index, _ in texts}
    outputs = tuple(OutputField(f"/content/{index}/text") for index, _ in texts)
    return reading(evidence, found, _run_summary(found), links=links, outputs=outputs)


_RUN_LINKS = {
    "agentId": "agent_id",
    "status": "status",
    "description": "description",
    "isAsync": "task_handle",
    "outputFile": "output_file",
    "totalTokens": "total_tokens",
    "totalToolUseCount": "total_tool_uses",
    "totalDurationMs": "duration_ms",
}


def _run_summary(found: AgentRun) -> str:
    name = f"Agent {found.agent_id}" if found.agent_id else "Agent"
    if found.launched:
        return f"{name} was started in the background"
    return f"{name} {found.status or 'returned'}"


_TRAILER = re.compile(
    r"\AagentId: (?P<agentId>\S+) \(for resuming[^\n]*\)"
    r"(?:\n<usage>total_tokens: (?P<totalTokens>\d+)\ntool_uses: (?P<totalToolUseCount>\d+)"
    r"\nduration_ms: (?P<totalDurationMs>\d+)</usage>)?"
)
_LAUNCHED = re.compile(
    r"\AAsync agent launched successfully\.\nagentId: (?P<agentId>\S+)[^\n]*"
    r"(?:.*?\noutput_file: (?P<outputFile>[^\n]+))?",
    re.DOTALL,
)


def _align_run(recorded: RecordedObject, text: str) -> list[Span]:
    """One text part: a block of the report, or the trailer with the agent's id."""
    trailer = _TRAILER.match(text) or _LAUNCHED.match(text)
    reports = [
        match_excerpt(text, block.text("text") or "", f"/content/{index}/text")
        for index, block in enumerate(recorded.items("content"))
    ]
    matched = [spans for spans in reports if spans]
    if trailer is not None and not matched:
        return link_groups(trailer, recorded)
    return matched[0] if len(matched) == 1 else []


def _read_skill(evidence: Evidence, recorded: RecordedObject) -> Reading:
    found = SkillRun(
        skill=recorded.text("commandName"),
        started=recorded.flag("success"),
        status=recorded.text("status"),
        agent_id=recorded.text("agentId"),
        text=recorded.text("result") or "",
    )
    links = {
        "/commandName": "/result/skill",
        "/success": "/result/started",
        "/status": "/result/status",
        "/agentId": "/result/agent_id",
        "/result": "/result/text",
    }
    verdict = "did not start" if found.started is False else "was launched"
    said = f"Skill {found.skill or '(no name)'} {verdict}"
    outputs = (OutputField("/result"),) if found.text else ()
    return reading(evidence, found, said, links=links, outputs=outputs)


_SKILL = re.compile(
    r'\A(?:Launching skill: (?P<commandName>\S[^\n]*)|Skill "(?P<forked>[^"\n]+)" completed[^\n]*\n\nResult:\n)'
)


def _align_skill(recorded: RecordedObject, text: str) -> list[Span]:
    found = _SKILL.match(text)
    if found is None:
        return []
    if found["forked"] is None:
        return link_groups(found, recorded)
    name = recorded.text("commandName")
    start, end = found.span("forked")
    named = [Span(start, end, "/commandName", 0, end - start)] if found["forked"] == name else []
    return [*named, *match_excerpt(text, recorded.text("result") or "", "/result", start=found.end())]


def _read_answers(evidence: Evidence, recorded: RecordedObject) -> Reading:
    given = recorded.member("answers")
    links: dict[str, str] = {}
    answers: list[Answer] = []
    asked = [(f"/questions/{index}", one) for index, one in enumerate(recorded.items("questions"))]
    for pointer, one in asked:
        question = one.text("question") or ""
        links[f"{pointer}/question"] = f"/result/answers/{len(answers)}/question"
        links[f"{pointer}/header"] = f"/result/answers/{len(answers)}/header"
        links[join("/answers", question)] = f"/result/answers/{len(answers)}/answer"
        answers.append(Answer(question=question, header=one.text("header"), answer=_said(given.get(question))))
    known = {answer.question for answer in answers}
    for question, answer in _pairs(given):
        if question not in known:
            links[join("/answers", question)] = f"/result/answers/{len(answers)}/answer"
            answers.append(Answer(question=question, answer=_said(answer)))
    count = sum(answer.answer is not None for answer in answers)
    said = f"The user answered {count} of {len(answers)} {'question' if len(answers) == 1 else 'questions'}"
    return reading(evidence, Answers(tuple(answers)), said, links=links)


def _said(answer: JsonValue) -> str | None:
    return answer if answer is None or isinstance(answer, str) else outline_text(answer)


def _pairs(given: RecordedObject) -> list[tuple[str, JsonValue]]:
    return list(given.recorded.items()) if isinstance(given.recorded, dict) else []


def _align_answers(recorded: RecordedObject, text: str) -> list[Span]:
    """`"question"="answer"`, in the recorded order of the answers."""
    questions = {one.text("question"): f"/questions/{index}" for index, one in enumerate(recorded.items("questions"))}
    spans: list[Span] = []
    at = 0
    for question, answer in _pairs(recorded.member("answers")):
        sentence = f'"{question}"="{answer}"'
        start = text.find(sentence, at)
        if not isinstance(answer, str) or start < 0:
            continue
        begin, end = start + 1, start + 1 + len(question)
        if question in questions and question:
            spans.append(Span(begin, end, f"{questions[question]}/question", 0, len(question)))
        if answer:
            spans.append(Span(end + 3, end + 3 + len(answer), join("/answers", question), 0, len(answer)))
        at = start + len(sentence)
    return spans


def _read_plan(evidence: Evidence, recorded: RecordedObject) -> Reading:
    found = Plan(plan=recorded.text("plan") or "", path=recorded.text("filePath"), is_agent=recorded.flag("isAgent"))
    links = {"/plan": "/result/plan", "/filePath": "/result/path", "/isAgent": "/result/is_agent"}
    return reading(evidence, found, "The user approved the plan", links=links)


_SAVED = re.compile(r"\n(?:Your|The) plan (?:has been|was) saved to: (?P<filePath>[^\n]+)\n")
_APPROVED = re.compile(r"\n## Approved Plan[^\n]*:\n")


def _align_plan(recorded: RecordedObject, text: str) -> list[Span]:
    title = _APPROVED.search(text)
    head = title.start() if title else len(text)
    saved = link_groups(_SAVED.search(text[:head]), recorded)
    return [*saved, *match_excerpt(text, recorded.text("plan") or "", "/plan", start=title.end() if title else head)]


def _read_plan_mode(evidence: Evidence, recorded: RecordedObject) -> Reading:
    message = recorded.text("message") or ""
    said = message[:500].partition("\n")[0] or "Entered plan mode"
    return reading(evidence, PlanMode(message), said, links={"/message": "/result/message"})


def _align_plan_mode(recorded: RecordedObject, text: str) -> list[Span]:
    message = recorded.text("message") or ""
    if message and text.startswith(message + "\n"):
        return [Span(0, len(message), "/message", 0, len(message))]
    return match_excerpt(text, message, "/message")


TOOLS = (
    tool_mapping(
        agent=AGENT,
        tools=("Task", "Agent"),
        version=1,
        expects=("content", "agentId", "isAsync"),
        read=_read_run,
        align=_align_run,
    ),
    tool_mapping(
        agent=AGENT,
        tools=("Skill",),
        version=1,
        expects=("commandName", "success"),
        read=_read_skill,
        align=_align_skill,
    ),
    tool_mapping(
        agent=AGENT,
        tools=("AskUserQuestion",),
        version=1,
        expects=("answers", "questions"),
        read=_read_answers,
        align=_align_answers,
    ),
    tool_mapping(
        agent=AGENT,
        tools=("ExitPlanMode", "exit_plan_mode"),
        version=1,
        expects=("plan",),
        read=_read_plan,
        align=_align_plan,
    ),
    tool_mapping(
        agent=AGENT,
        tools=("EnterPlanMode",),
        version=1,
        expects=("message",),
        read=_read_plan_mode,
        align=_align_plan_mode,
    ),
)

"""Claude Code's agents, skills, questions and plan mode: what it recorded, and where its receipts took it from."""

from __future__ import annotations

import re
from functools import partial

from envelopes.alignment.lenient_structs import (
    RecordedObject,
    link_groups,
    link_names,
    read_struct,
    reading,
    tool_mapping,
)
from envelopes.alignment.mapping import Evidence, OutputField, Reading
from envelopes.alignment.spans import Span, match_excerpt
from envelopes.families.agent.results import AgentRun, Answer, Answers, ApprovedPlan, EnteredPlanMode, SkillRun
from envelopes.schema.result import JsonValue
from envelopes.text.outline import outline_text
from envelopes.text.pointer import join

_mapping = partial(tool_mapping, agent="claude-code")
RUN_NAMES = {
    "agentId": "agent_id",
    "status": "status",
    "description": "description",
    "outputFile": "output_file",
    "totalTokens": "total_tokens",
    "totalToolUseCount": "total_tool_uses",
    "totalDurationMs": "duration_ms",
}
SKILL_NAMES = {
    "commandName": "skill",
    "success": "started",
    "status": "status",
    "agentId": "agent_id",
    "result": "text",
}
PLAN_NAMES = {"plan": "plan", "filePath": "path", "isAgent": "is_agent"}


def _read_run(evidence: Evidence, recorded: RecordedObject) -> Reading:
    blocks = enumerate(recorded.items("content"))
    texts = {f"/content/{index}/text": text for index, block in blocks if (text := block.text("text")) is not None}
    result = read_struct(
        AgentRun,
        recorded,
        RUN_NAMES,
        launched=recorded.flag("isAsync") is True or recorded.text("status") == "async_launched",
        text="\n\n".join(texts.values()),
    )
    links = {
        **link_names(RUN_NAMES),
        "/isAsync": "/result/task_handle",
        **dict.fromkeys(texts, "/result/text"),
    }
    name = f"Agent {result.agent_id}" if result.agent_id else "Agent"
    state = "was started in the background" if result.launched else result.status or "returned"
    outputs = tuple(OutputField(pointer) for pointer in texts)
    return reading(evidence, result, f"{name} {state}", links=links, outputs=outputs)


_TRAILER = re.compile(
    r"agentId: (?P<agentId>\S+) \((?:for resuming|use SendMessage)[^\n]*\)"
    r"(?:\n<usage>(?:total|subagent)_tokens: (?P<totalTokens>\d+)\ntool_uses: (?P<totalToolUseCount>\d+)"
    r"\nduration_ms: (?P<totalDurationMs>\d+)</usage>)?"
)
_LAUNCHED = re.compile(
    r"Async agent launched successfully\.[^\n]*\nagentId: (?P<agentId>\S+)[^\n]*"
    r"(?:.*?\noutput_file: (?P<outputFile>[^\n]+))?",
    re.DOTALL,
)
# Since 2.1.332 at the latest, each line of the report is indented behind this one, and the trailer stands below it.
_FRAME = re.compile(r"^\[Subagent hand-back\] [^\n]*\n", re.MULTILINE)
_INDENT = "  "


def _align_run(recorded: RecordedObject, text: str) -> list[Span]:
    """Links one text part: a block of the report, the report in its frame, or the trailer with the agent's id."""
    if _FRAME.search(text):
        return _align_framed(recorded, text)
    trailer = _TRAILER.match(text) or _LAUNCHED.match(text)
    reports = [
        match_excerpt(text, block.text("text") or "", f"/content/{index}/text")
        for index, block in enumerate(recorded.items("content"))
    ]
    matched = [spans for spans in reports if spans]
    if trailer is not None and not matched:
        return link_groups(trailer, recorded)
    return matched[0] if len(matched) == 1 else []


def _align_framed(recorded: RecordedObject, text: str) -> list[Span]:
    """Links the lines of each block in order: notes of the client stand above the frame."""
    spans: list[Span] = []
    at, framed = 0, f"\n{text}"
    for index, block in enumerate(recorded.items("content")):
        report = block.text("text") or ""
        indented = _INDENT + report.replace("\n", f"\n{_INDENT}")
        start = framed.find(f"\n{indented}\n", at)  # the place of its first character in `text`
        if not report or start < 0:
            continue
        *lines, last = report.split("\n")
        offset, place = 0, start
        for line in (*(f"{line}\n" for line in lines), last):
            place += len(_INDENT)
            spans.append(Span(place, place + len(line), f"/content/{index}/text", offset, offset + len(line)))
            offset, place = offset + len(line), place + len(line)
        at = start + len(indented)
    trailer = _TRAILER.search(text, at)
    return spans + (link_groups(trailer, recorded) if trailer else [])


def _read_skill(evidence: Evidence, recorded: RecordedObject) -> Reading:
    result = read_struct(SkillRun, recorded, SKILL_NAMES)
    verdict = "did not start" if result.started is False else "was launched"
    outputs = (OutputField("/result"),) if result.text else ()
    summary = f"Skill {result.skill or '(no name)'} {verdict}"
    return reading(evidence, result, summary, links=link_names(SKILL_NAMES), outputs=outputs)


_SKILL = re.compile(
    r'\A(?:Launching skill: (?P<commandName>\S[^\n]*)|Skill "(?P<forked>[^"\n]+)" completed[^\n]*\n\nResult:\n)'
)


def _align_skill(recorded: RecordedObject, text: str) -> list[Span]:
    head = _SKILL.match(text)
    if head is None:
        return []
    if head["forked"] is None:
        return link_groups(head, recorded)
    start, end = head.span("forked")
    is_named = head["forked"] == recorded.text("commandName")
    name = [Span(start, end, "/commandName", 0, end - start)] if is_named else []
    return [*name, *match_excerpt(text, recorded.text("result") or "", "/result", start=head.end())]


def _read_answers(evidence: Evidence, recorded: RecordedObject) -> Reading:
    """Reads the questions in their order, then answers to questions that were not recorded."""
    given = dict(_pairs(recorded.member("answers")))
    links: dict[str, str] = {}
    answers: list[Answer] = []
    questions = [(question.text("question") or "", question.text("header")) for question in recorded.items("questions")]
    for index, (question, header) in enumerate(questions):
        links[f"/questions/{index}/question"] = f"/result/answers/{index}/question"
        links[f"/questions/{index}/header"] = f"/result/answers/{index}/header"
        links[join("/answers", question)] = f"/result/answers/{index}/answer"
        answers.append(Answer(question=question, header=header, answer=_read_answer(given.get(question))))
    known = {question for question, _ in questions}
    for question, answer in given.items():
        if question not in known:
            links[join("/answers", question)] = f"/result/answers/{len(answers)}/answer"
            answers.append(Answer(question=question, answer=_read_answer(answer)))
    count = sum(answer.answer is not None for answer in answers)
    summary = f"The user answered {count} of {len(answers)} {'question' if len(answers) == 1 else 'questions'}"
    return reading(evidence, Answers(tuple(answers)), summary, links=links)


def _read_answer(answer: JsonValue) -> str | None:
    return answer if answer is None or isinstance(answer, str) else outline_text(answer)


def _pairs(given: RecordedObject) -> list[tuple[str, JsonValue]]:
    return list(given.recorded.items()) if isinstance(given.recorded, dict) else []


def _align_answers(recorded: RecordedObject, text: str) -> list[Span]:
    """Links `"question"="answer"`, in the recorded order of the answers."""
    questions = {
        question.text("question"): f"/questions/{index}" for index, question in enumerate(recorded.items("questions"))
    }
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
    result = read_struct(ApprovedPlan, recorded, PLAN_NAMES)
    return reading(evidence, result, "The user approved the plan", links=link_names(PLAN_NAMES))


_SAVED = re.compile(r"\n(?:Your|The) plan (?:has been|was) saved to: (?P<filePath>[^\n]+)\n")
_APPROVED = re.compile(r"\n## Approved Plan[^\n]*:\n")


def _align_plan(recorded: RecordedObject, text: str) -> list[Span]:
    title = _APPROVED.search(text)
    head = title.start() if title else len(text)
    saved = link_groups(_SAVED.search(text[:head]), recorded)
    return [*saved, *match_excerpt(text, recorded.text("plan") or "", "/plan", start=title.end() if title else head)]


def _read_plan_mode(evidence: Evidence, recorded: RecordedObject) -> Reading:
    message = recorded.text("message") or ""
    summary = message[:500].partition("\n")[0] or "Entered plan mode"
    return reading(evidence, EnteredPlanMode(message), summary, links={"/message": "/result/message"})


def _align_plan_mode(recorded: RecordedObject, text: str) -> list[Span]:
    message = recorded.text("message") or ""
    if message and text.startswith(message + "\n"):
        return [Span(0, len(message), "/message", 0, len(message))]
    return match_excerpt(text, message, "/message")


MAPPINGS = (
    _mapping(
        tools=("Task", "Agent"), version=2, expects=("content", "agentId", "isAsync"), read=_read_run, align=_align_run
    ),
    _mapping(tools=("Skill",), version=1, expects=("commandName", "success"), read=_read_skill, align=_align_skill),
    _mapping(
        tools=("AskUserQuestion",),
        version=1,
        expects=("answers", "questions"),
        read=_read_answers,
        align=_align_answers,
    ),
    _mapping(
        tools=("ExitPlanMode", "exit_plan_mode"), version=1, expects=("plan",), read=_read_plan, align=_align_plan
    ),
    _mapping(tools=("EnterPlanMode",), version=1, expects=("message",), read=_read_plan_mode, align=_align_plan_mode),
)

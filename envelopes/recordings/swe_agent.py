"""Trajectories of SWE-agent (`.traj`) and of mini-swe-agent (`.traj.json`), each one document.

SWE-agent: `{environment, trajectory[], history[], info}`; some files have `history` alone.

1. `history` is what went to the model and came from it. A message of the model with an `action` is a call: with
   `tool_calls` the calls of a function-calling model, else the action itself, which the shell runs (`bash`).
2. The message that follows is the receipt: the observation in a template, clipped where it is too long.
3. `trajectory` has a step for each action in the same order; its `observation` is the raw text, and the result;
   `execution_time` are seconds.
4. Copied demonstrations (`is_demo`) are messages and no calls of the run.

mini-swe-agent: `{info, messages[], trajectory_format}`, before release 2 a bare list of messages.

5. `extra.actions` of a model's message are its calls; a message without them has the one command in a fenced block.
6. `extra` of the message that follows (`raw_output`, `returncode`, `exception_info`) is the result, its content the
   receipt. A bare list has receipts alone.
7. A message of the user with an `interrupt_type` tells the model that a person refused or stopped the commands. Behind
   tool calls each command has an answer before it, that it was not executed; else this message is the answer.

There are no times and few ids: a call without one has the number of its message, a repeated id gets the number too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from envelopes.recordings.base import (
    Format,
    LineProblem,
    Record,
    RunRecord,
    SourceLine,
    SourcePath,
)
from envelopes.recordings.document_fields import (
    list_member,
    milliseconds_member,
    object_member,
    text_member,
    time_member,
)
from envelopes.recordings.documents import (
    Conversation,
    DocumentValue,
    JsonDocument,
    name_run,
    outline,
    place_records,
    read_arguments,
    unused_id,
)
from envelopes.recordings.json_lines import storable
from envelopes.recordings.places import name_position
from envelopes.text.untrusted_json import Untrusted, join_object, parse_json

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
_BLOCK = re.compile(r"```(?:mswea_bash_command|bash|sh)\s*\n(.*?)\n?```", re.DOTALL)
_ISSUE = re.compile(r"(?:ISSUE:|Please solve this issue:)\s*(?P<title>[^\n]+)")
_ANSWERS = frozenset({"user", "tool"})
_RESULT = frozenset({"raw_output", "returncode"})
_NOT_EXECUTED = "action was not executed"
_ENDS = {"UserRejection": "refused", "UserInterruption": "interrupted", "TimeoutExpired": "timeout"}
_MINI_MARKS = (b"mswea_bash_command", b"<returncode>")


class _Trajectory(Conversation):
    """The conversation of one trajectory, with the issue as its title. A repeated id gets the number of its message."""

    def message(self, number: int, content: DocumentValue, role: str) -> None:
        if role == "user" and not self.has_title:
            text = content.text() or ""
            issue = _ISSUE.search(text)
            self.title(issue["title"] if issue else text, content.line)
        self.add_message(f"message-{number}", content, role, step=f"step-{number}")

    def call(self, number: int, node: DocumentValue, call: str, tool: str, args: bytes) -> str:
        """Adds a call of the message with this number and returns its id."""
        name = call or f"step-{number}"
        unique = unused_id(name, f"{name}-{number}", self.ids)
        self.add_call(unique, node, tool, args, step=f"step-{number}")
        return unique


def sniff_swe_agent(head: bytes, path: SourcePath) -> bool:
    """The document has a trajectory, or a history as its first member."""
    keys = outline(head).keys
    if "trajectory" in keys:
        return bool({"environment", "history", "info"} & keys)
    return keys == {"history"} and b'"message_type"' in head


def sniff_mini(head: bytes, path: SourcePath) -> bool:
    """The document names its format or the version of the agent, or has messages in the agent's own form."""
    content = outline(head)
    if "messages" in content.keys and b"mini-swe-agent-" in head:
        return True
    is_mini = content.keys == {"info", "messages"} or "mini_version" in content.keys
    is_list = {"role", "content"} <= content.element_keys
    return (is_mini and b"mini_version" in head) or (is_list and all(mark in head for mark in _MINI_MARKS))


def is_global_call_id(call: str) -> bool:
    """Demonstrations and replays repeat ids."""
    return False


def read_swe_agent(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    root = JsonDocument(lines).parse()
    if not isinstance(root, DocumentValue):
        yield from () if root is None else (root,)
        return
    members = root.members()
    steps = list_member(members, "trajectory")
    history = list_member(members, "history")
    trajectory = _Trajectory(root, name_run(path, history), "swe-agent")
    trajectory.model(_configured_model(members), root.line)
    waiting: list[str] = []  # calls of the last action, which the next message answers
    for number, node in enumerate(history):
        try:
            message = node.members()
            role, content = text_member(message, "role") or "", message.get("content")
            if not node.is_object or not role:
                raise Untrusted("no message: it has no role")
            is_demo = "is_demo" in message and message["is_demo"].raw == b"true"
            if waiting and role in _ANSWERS and content is not None:
                named = (
                    [id_.text() for id_ in message["tool_call_ids"].elements()] if "tool_call_ids" in message else []
                )
                for call in waiting[: max(1, len(named))]:
                    trajectory.add_receipt(call, content)
                waiting = []
                continue
            if content is not None:
                trajectory.message(number, content, role)
            if role == "assistant" and not is_demo and text_member(message, "action") is not None:
                waiting = _action_calls(trajectory, number, message)
                _add_observation(trajectory, waiting, steps, message)
        except Untrusted as refusal:
            trajectory.records.append(node.problem(f"$.history[{number}]", refusal.reason))
    yield from place_records([*trajectory.records, *root.document.take_remarks(trajectory.run)])


def _configured_model(members: Members) -> str | None:
    """The name of the model in the configuration, an object or JSON of one."""
    config = members["replay_config"].value() if "replay_config" in members else None
    if isinstance(config, str):
        try:
            config = parse_json(config.encode("utf-8", "surrogatepass"))
        except Untrusted:
            return None
    for name in ("agent", "model", "name"):
        config = config.get(name) if isinstance(config, dict) else None
    return storable(config) if isinstance(config, str) else None


def _action_calls(trajectory: _Trajectory, number: int, message: Members) -> list[str]:
    """The calls of a function-calling model, or the action as a command of the shell."""
    calls = list_member(message, "tool_calls")
    names = []
    for node in calls:
        call = node.members()
        function = object_member(call, "function")
        tool, args = text_member(function, "name") or "unknown", function.get("arguments")
        decoded = read_arguments(args)
        names.append(trajectory.call(number, node, text_member(call, "id") or "", tool, decoded))
    if not names:
        action = message["action"]
        names.append(trajectory.call(number, action, "", "bash", b'{"command":' + action.raw + b"}"))
    return names


def _add_observation(trajectory: _Trajectory, calls: list[str], steps: list[DocumentValue], message: Members) -> None:
    """The raw observation of the step with this action, which is the next one: others were never executed."""
    action = text_member(message, "action")
    while steps:
        step = steps[0].members()
        if text_member(step, "action") != action:
            return
        steps.pop(0)
        if "observation" in step and step["observation"].is_text and len(calls) == 1:
            took = milliseconds_member(step, "execution_time")
            trajectory.add_result(calls[0], step["observation"], fidelity="stringified", duration_ms=took)
        return


def read_mini(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    root = JsonDocument(lines).parse()
    if not isinstance(root, DocumentValue):
        yield from () if root is None else (root,)
        return
    members = root.members()
    messages = root.elements() or (list_member(members, "messages"))
    trajectory = _Trajectory(root, name_run(path, messages), "mini-swe-agent")
    trajectory.records += _mini_facts(members, trajectory.run, root.line)
    waiting: list[tuple[str, str]] = []  # open calls: the own id, empty for none, and the id of the call
    for number, node in enumerate(messages):
        try:
            message = node.members()
            role, content = text_member(message, "role") or "", message.get("content")
            if not node.is_object or not role:
                raise Untrusted("no message: it has no role")
            if waiting and role in _ANSWERS:
                _add_answers(trajectory, waiting, message, _find_stop(islice(messages, number, None)))
                continue
            if content is not None:
                trajectory.message(number, content, role)
            if role == "assistant":
                waiting = _mini_calls(trajectory, number, node, message)
        except Untrusted as refusal:
            trajectory.records.append(node.problem(f"$.messages[{number}]", refusal.reason))
    yield from place_records([*trajectory.records, *root.document.take_remarks(trajectory.run)])


def _mini_facts(members: Members, run: str, line: int) -> Records:
    info = object_member(members, "info")
    config = object_member(info, "config")
    model = object_member(config, "model")
    version, name = text_member(info, "mini_version"), text_member(model, "model_name")
    if version or name:
        yield RunRecord(line=line, run=run, version=version, model=name)


def _mini_calls(trajectory: _Trajectory, number: int, node: DocumentValue, message: Members) -> list[tuple[str, str]]:
    """The actions of a message, or the one command in its text; a message with several blocks was refused."""
    content = message.get("content")
    members = object_member(message, "extra")
    calls = []
    for action in list_member(members, "actions"):
        own = text_member(action.members(), "tool_call_id") or ""
        calls.append((own, trajectory.call(number, action, own, "bash", action.raw)))
    blocks = _BLOCK.findall((content.text() if content else None) or "") if "actions" not in members else []
    if len(blocks) == 1:
        args = msgspec.json.encode({"command": blocks[0]})
        calls.append(("", trajectory.call(number, content or node, "", "bash", args)))
    return calls


def _take_answered(waiting: list[tuple[str, str]], own: str | None) -> str:
    """The call that a message answers: that with its id, or the first that is open."""
    answered = next((call for call in waiting if own and call[0] == own), waiting[0])
    waiting.remove(answered)
    return answered[1]


def _find_stop(messages: Iterable[DocumentValue]) -> DocumentValue | None:
    """How a person stopped the commands that the first message answers, which a message behind all answers states."""
    for node in messages:
        extra = object_member(node.members(), "extra")
        if "interrupt_type" in extra:
            return extra["interrupt_type"]
        if not extra.keys() & _RESULT:
            break
    return None


def _add_answers(
    trajectory: _Trajectory, waiting: list[tuple[str, str]], message: Members, stop: DocumentValue | None
) -> None:
    """A message answers the call that it names or the first; that of a person who stopped them answers all."""
    own, extra = text_member(message, "tool_call_id"), message.get("extra")
    members = extra.members() if extra else {}
    at = time_member(members, "timestamp", may_count=True)
    for _ in range(len(waiting) if "interrupt_type" in members else 1):
        call = _take_answered(waiting, own)
        if extra and members.keys() & _RESULT:
            name, reason = "exception_type", members.get("exception_type")
            if stop is not None and text_member(members, "exception_info") == _NOT_EXECUTED:
                name, reason = "interrupt_type", stop
            status = _ENDS.get(reason.text() or "") if reason else None
            stated = join_object({name: reason.raw}) if reason and status else None
            trajectory.add_result(call, extra, status=status, at=at, extra=stated)
        if "content" in message:
            trajectory.add_receipt(call, message["content"], at=at)


FORMATS: tuple[Format, ...] = (
    Format(
        name="swe-agent",
        title="SWE-agent trajectory",
        agent="swe-agent",
        namespace="swe-agent",
        mark="a document with a trajectory and a history",
        version=2,
        is_document=True,
        sniff=sniff_swe_agent,
        read=read_swe_agent,
        is_global_call_id=is_global_call_id,
        name_place=name_position,
    ),
    Format(
        name="mini-swe-agent",
        title="mini-swe-agent trajectory",
        agent="mini-swe-agent",
        namespace="mini-swe-agent",
        mark="messages with commands in the agent's own form, or its name and version",
        version=3,
        is_document=True,
        sniff=sniff_mini,
        read=read_mini,
        is_global_call_id=is_global_call_id,
        name_place=name_position,
    ),
)

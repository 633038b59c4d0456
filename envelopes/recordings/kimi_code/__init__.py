"""Sessions of Kimi Code, releases 0.10 to 2.1, which follows Kimi CLI: a file of events for each agent of a session.

    <session>/agents/main/wire.jsonl, <session>/agents/agent-0/wire.jsonl, …    {type, agentId?, time, …}

1. `context.append_message` has a message of the user, or one that the client adds (`origin`).
2. `context.append_loop_event` has an `event` of a step, which is a request and its answer: `step.begin`, a part of the
   content, `tool.call`, `tool.result`, `step.end`. A result of a call whose step has ended is in no request.
3. `tool.result` has `{output, isError?, note?, durationMs?}`, the result. What is sent is computed from it before each
   request: see `alignment/kimi_code_receipts.py`. So receipts are rebuilt. A call without a result goes out with a
   sentence of the client, which differs between releases and is not recorded.
4. A message that was recorded while calls had no result is sent behind their results, and is placed there.
5. `context.apply_compaction`, `context.undo` and `context.clear` take messages out of the context: see `context.py`.
6. `profile.bind`, before 0.43 `config.update`, has the system prompt, `llm.tools_snapshot` the tools, `llm.request` the
   model, and `step.end` the tokens of a request. Those of a compaction's own request are left out. Lines of the type
   `agent.message.appended` repeat what others have.
7. Ids of calls are those of the provider, which may count from zero. The release is recorded by early ones alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from envelopes.alignment.kimi_code_receipts import render_receipt
from envelopes.recordings.base import (
    META,
    SYSTEM_PROMPT,
    TASK_REPORT,
    TOOL_DEFINITIONS,
    ArtifactRecord,
    CallRecord,
    EventRecord,
    Format,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    UsageRecord,
)
from envelopes.recordings.document_fields import (
    flag_member,
    integer_member,
    object_member,
    text_member,
    time_member,
)
from envelopes.recordings.documents import DocumentValue
from envelopes.recordings.json_lines import ForeignEntry, parsed_lines, storable, struct_reader
from envelopes.recordings.kimi_code.context import (
    AGENT,
    USER,
    ContextMessage,
    HeldMessage,
    KimiCodeState,
    Members,
    Records,
    read_compaction,
    read_item,
    read_removal,
)
from envelopes.recordings.session_lines import read_session
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, join_array

MAIN = "main"
_FILE = re.compile(r"(?:.*/)?(?P<session>[^/]+)/agents/(?P<agent>[^/]+)/wire\.jsonl")
_SAVED = re.compile(  # before the parts of a long output, or in early releases behind its beginning
    r"(?:\ATool output exceeded \d+ characters; [^\n]*\n(?:[a-z_]+: [^\n]*\n){0,8}?"
    r"|\n\n\[Full output saved\]\ntask_id: [^\n]*\n)output_path: (?P<path>[^\n]+)\n"
)
_STARTS_AGENTS, _NAMED_WITHIN = ("Agent", "AgentSwarm"), 100_000
_AGENT_ID = re.compile(r"(?:^agent_id: |<subagent agent_id=\")(?P<agent>agent-\d{1,6})\b", re.MULTILINE)
_NO_FOLDER = "the folders of a file name its session and its agent; import it with them"
_WORDS = {"permission.record_approval_result": "decision", "turn.ended": "reason", "turn.step.interrupted": "reason"}
_SETTINGS = ("profile.bind", "config.update", "llm.tools_snapshot", "llm.request", "usage.record")
_ORDINARY = ("approved", "completed")
_UNSENT = ("interrupted", "error")  # how a step ended that stays open


class KimiCodeLine(ForeignEntry, frozen=True, gc=False):
    """The members by which a line differs from that of another agent. A time is a number."""

    type: str | None = None
    protocol_version: str | None = None
    created_at: int | None = None


_read_line = struct_reader(KimiCodeLine)


def sniff(head: bytes, path: SourcePath) -> bool:
    """The first line has the version of the protocol and, other than that of Kimi CLI, a time."""
    first = next(parsed_lines(head, _read_line), None)
    return (
        first is not None
        and first.type == "metadata"
        and first.protocol_version is not None
        and first.created_at is not None
    )


def run_of(path: SourcePath) -> str:
    """The run that the path names: agents of a swarm may have files with the same lines."""
    file = _FILE.fullmatch(path.path)
    return _name_run(file["session"], file["agent"]) if file else ""


def _name_run(session: str, agent: str) -> str:
    return session if agent == MAIN else f"{session}/{agent}"


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state, run = msgspec.convert(saved.get(AGENT, {}), KimiCodeState), run_of(path)
    state.run = state.run or run
    if not state.run:
        for line in lines:
            yield LineProblem(line=line.number, path="$", reason=_NO_FOLDER, raw=line.raw)
        return
    yield from read_session(lines, saved, AGENT, state, _Reader(state).read)


class _Reader:
    """Reads the lines of an agent's file, each once, in order."""

    def __init__(self, state: KimiCodeState) -> None:
        self._state = state

    def read(self, node: DocumentValue) -> Records:
        state, members = self._state, node.members()
        kind = text_member(members, "type")
        if kind is None:
            raise Untrusted("no event: it has no type", "$.type")
        at = time_member(members, "created_at" if kind == "metadata" else "time", may_count=True)
        if not state.has_facts:
            state.has_facts = True
            version = text_member(members, "app_version")
            yield RunRecord(line=node.line, run=state.run, agent=AGENT, version=version, started_at=at)
        if kind == "context.append_message":
            yield from self._append(node, object_member(members, "message"), at)
        elif kind == "context.append_loop_event":
            yield from self._loop_event(node, object_member(members, "event"), at)
        elif kind in ("context.apply_compaction", "context.undo", "context.clear"):
            yield from self._settle()
            yield from (read_compaction if kind == "context.apply_compaction" else read_removal)(node, members, state)
        elif kind == "agent.switched":
            state.is_switched = True
        elif kind in _SETTINGS:
            yield from self._setting(node, kind, members, at)
        elif kind == "subagent.spawned":
            yield from self._spawn(node, members)
        elif kind in _WORDS or kind == "task.terminated":
            yield from self._event(node, kind, members, at)

    def _setting(self, node: DocumentValue, kind: str, members: Members, at: str | None) -> Records:
        """Yields what stands before the messages of each request, the model, and the folder."""
        state, line = self._state, node.line
        prompt, tools = members.get("systemPrompt"), members.get("tools")
        if prompt is not None and prompt.is_text and prompt.raw != b'""':
            yield self._message(line, f"prompt-{line}", "system", prompt.raw, SYSTEM_PROMPT, at)
        if kind == "llm.tools_snapshot" and tools is not None and tools.is_list:
            yield self._message(line, f"tools-{line}", "system", tools.raw, TOOL_DEFINITIONS, at)
        if cwd := text_member(members, "cwd"):
            yield RunRecord(line=line, run=state.run, cwd=cwd)
        # Releases without requests have the user's name of the model beside the usage.
        model = text_member(members, "model") if kind == "llm.request" or not state.model else None
        if model and model != state.model:
            state.model = model
            yield RunRecord(line=line, run=state.run, model=model)

    def _usage(self, node: DocumentValue, usage: DocumentValue, at: str | None) -> UsageRecord:
        """The tokens of the step's request, which stands before its answer."""
        counts, step = usage.members(), self._state.step
        return UsageRecord(
            line=node.line,
            position=step,
            run=self._state.run,
            request=str(step),
            input_tokens=integer_member(counts, "inputOther"),
            cache_read_tokens=integer_member(counts, "inputCacheRead"),
            cache_creation_tokens=integer_member(counts, "inputCacheCreation"),
            output_tokens=integer_member(counts, "output"),
            usage=usage.raw,
            at=at,
        )

    def _append(self, node: DocumentValue, members: Members, at: str | None) -> Records:
        state, role = self._state, text_member(members, "role")
        content = members.get("content")
        if role is None or content is None:
            raise Untrusted("no message: it has no role or no content", "$.message")
        item = read_item(members, node.line)
        report = TASK_REPORT if item.origin == "task" else META
        kind = None if item.is_kept or role != USER else report
        if item.is_kept and not state.has_title and (title := summarize(_join_texts(content).strip())):
            state.has_title = True
            yield RunRecord(line=node.line, run=state.run, title=title)
        key = item.key or f"message-{node.line}"
        raw = _plain_content(content)
        if state.pending:
            state.held.append(HeldMessage(node.line, key, role, raw.decode(), kind, at, item))
            return
        state.items.append(item)
        yield self._message(node.line, key, role, raw, kind, at)

    def _message(
        self, line: int, key: str, role: str, content: bytes, kind: str | None, at: str | None, step: str | None = None
    ) -> MessageRecord:
        return MessageRecord(
            line=line, run=self._state.run, key=key, role=role, content=content, kind=kind, at=at, step=step
        )

    def _release(self, answer: int) -> Records:
        """The messages that waited for answers come behind the last one, which is at this line."""
        held, self._state.held = self._state.held, []
        for message in held:
            line = max(answer, message.line)
            self._state.items.append(msgspec.structs.replace(message.item, place=line))
            record = self._message(
                message.line, message.key, message.role, message.content.encode(), message.kind, message.at
            )
            yield msgspec.structs.replace(record, position=line)

    def _settle(self) -> Records:
        """The step before has ended: calls without an answer get none any more."""
        items = self._state.items
        self._state.late |= self._state.pending
        self._state.pending.clear()
        yield from self._release(items[-1].place if items else 0)

    def _loop_event(self, node: DocumentValue, event: Members, at: str | None) -> Records:
        state, kind = self._state, text_member(event, "type")
        if kind == "step.begin":
            yield from self._settle()
            state.step = node.line
            state.items.append(ContextMessage(node.line, "assistant"))
        elif kind == "step.end":
            reason = text_member(event, "finishReason") or ""
            if (usage := event.get("usage")) and usage.is_object and state.step:
                yield self._usage(node, usage, at)
            if reason in _UNSENT:
                yield self._make_event(node, kind, f"the step ended: {reason}", at, level="warn")
            else:
                yield from self._settle()
        elif kind == "content.part":
            yield from self._part(node, event.get("part"), at)
        elif kind == "tool.call":
            yield from self._call(node, event, at)
        elif kind == "tool.result":
            yield from self._result(node, event, at)

    def _part(self, node: DocumentValue, part: DocumentValue | None, at: str | None) -> Records:
        if part is None:
            raise Untrusted("no part of an answer", "$.event.part")
        members, step = part.members(), str(self._state.step)
        kind = text_member(members, "type")
        if kind == "think":
            text = text_member(members, "think") or ""
            yield self._make_event(node, "reasoning", summarize(text) or "reasoning", at, payload=part.raw)
        elif kind != "text":
            yield self._message(node.line, f"part-{node.line}", "assistant", join_array([part.raw]), None, at, step)
        elif (text_value := members.get("text")) and text_value.raw != b'""':
            yield self._message(node.line, f"part-{node.line}", "assistant", text_value.raw, None, at, step)

    def _call(self, node: DocumentValue, event: Members, at: str | None) -> Records:
        state = self._state
        call, tool, args = text_member(event, "toolCallId"), text_member(event, "name"), event.get("args")
        if not call or not tool:
            raise Untrusted("a call without an id or a tool", "$.event")
        line = f"{text_member(event, 'uuid') or node.line} {text_member(event, 'stepUuid') or ''}"
        name = state.pending[call] = state.name_call(call, line)
        state.tools[call] = tool
        yield CallRecord(
            line=node.line,
            run=state.run,
            call=name,
            tool=tool,
            args=args.raw if args else b"{}",
            step=str(state.step),
            at=at,
        )

    def _result(self, node: DocumentValue, event: Members, at: str | None) -> Records:
        state, call, result = self._state, text_member(event, "toolCallId"), event.get("result")
        if not call or result is None or not result.is_object:
            raise Untrusted("a result without the id of its call", "$.event")
        name = state.names.get(call, call)
        state.pending.pop(call, None)
        members = result.members()
        duration = integer_member(members, "durationMs") if "durationMs" in members else None
        yield ResultRecord(
            line=node.line,
            run=state.run,
            call=name,
            result=result.raw,
            is_error=bool(flag_member(members, "isError")),
            at=at,
            duration_ms=duration,
        )
        yield from self._children(node, name, state.tools.get(call, ""), members.get("output"))
        tool = state.tools.get(call)
        is_known = tool is not None or duration is None  # the time is sent of some tools alone
        content = render_receipt(tool or "", result.value()) if is_known and state.late.get(call) != name else None
        if saved := _SAVED.search(_join_texts(members.get("output"))):
            yield ArtifactRecord(line=node.line, run=state.run, call=name, role="output", path=saved["path"])
        if content is None:
            return
        yield ReceiptRecord(line=node.line, run=state.run, call=name, content=content, fidelity="reconstructed", at=at)
        state.items.append(ContextMessage(node.line, "tool"))
        if not state.pending:
            yield from self._release(node.line)

    def _children(self, node: DocumentValue, call: str, tool: str, output: DocumentValue | None) -> Records:
        """The subagents that a result names: early releases record nothing else of them."""
        if tool not in _STARTS_AGENTS:
            return
        for match in _AGENT_ID.finditer(_join_texts(output)[:_NAMED_WITHIN]):
            run = _name_run(self._state.run.partition("/")[0], match["agent"])
            if run not in self._state.children:
                self._state.children[run] = call
                yield RunRecord(line=node.line, run=run, parent_run=self._state.run, parent_call=call, agent=AGENT)

    def _spawn(self, node: DocumentValue, members: Members) -> Records:
        """A subagent, whose file has a run of its own below the call that started it."""
        state, agent = self._state, text_member(members, "subagentId")
        if not agent:
            return
        call = text_member(members, "parentToolCallId") or ""
        run = _name_run(state.run.partition("/")[0], agent)
        state.children[run] = call
        yield RunRecord(
            line=node.line,
            run=run,
            parent_run=state.run,
            parent_call=state.names.get(call),
            agent=AGENT,
            title=text_member(members, "description"),
        )

    def _event(self, node: DocumentValue, kind: str, members: Members, at: str | None) -> Records:
        state = self._state
        if kind == "task.terminated":
            info = object_member(members, "info")
            status, call = text_member(info, "status") or "ended", text_member(info, "parentToolCallId")
            text = f"{text_member(info, 'description') or 'a task'}: {status}"
            yield self._make_event(node, "task", text, at, call=state.names.get(call or ""))
            return
        source = object_member(members, "result") if "result" in members else members
        word = text_member(source, _WORDS[kind]) or ""
        if word not in _ORDINARY:
            text = f"{text_member(members, 'action') or kind}: {word}"
            call = text_member(members, "toolCallId")
            yield self._make_event(node, kind, text, at, level="warn", call=state.find_asked(call) if call else None)

    def _make_event(
        self,
        node: DocumentValue,
        kind: str,
        text: str,
        at: str | None,
        *,
        level: Literal["info", "warn"] = "info",
        call: str | None = None,
        payload: bytes = b"null",
    ) -> EventRecord:
        return EventRecord(
            line=node.line,
            run=self._state.run,
            kind=kind,
            message=storable(summarize(text)) or kind,
            level=level,
            call=call,
            payload=payload,
            at=at,
        )


def _join_texts(content: DocumentValue | None) -> str:
    """The texts of a content: one text, or the parts that are one."""
    if content is None:
        return ""
    if content.is_text:
        return content.text() or ""
    parts = [part.members() for part in content.elements()] if content.is_list else []
    return "".join(text_member(part, "text") or "" for part in parts)


def _plain_content(content: DocumentValue) -> bytes:
    """A content of one text as that text, otherwise the parts."""
    parts = content.elements() if content.is_list else []
    text = parts[0].members().get("text") if len(parts) == 1 and parts[0].is_object else None
    return text.raw if text is not None and text.is_text else content.raw


FORMATS: tuple[Format, ...] = (
    Format(
        name=AGENT,
        title="Kimi Code session",
        agent=AGENT,
        namespace=AGENT,
        mark="a first line with the version of the protocol and a time",
        sniff=sniff,
        read=read,
        is_global_call_id=lambda _call: False,
        run_of=run_of,
    ),
)

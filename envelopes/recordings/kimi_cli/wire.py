"""The wire files of Kimi CLI: what the screen was told of calls and their results, with times and tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from envelopes.alignment.kimi_receipts import AGENT
from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    LineProblem,
    Record,
    ResultRecord,
    RunRecord,
    SourcePath,
    UsageRecord,
)
from envelopes.recordings.document_fields import flag_member, integer_member, object_member, text_member, time_member
from envelopes.recordings.documents import DocumentValue, decode_arguments
from envelopes.recordings.json_lines import storable
from envelopes.recordings.kimi_cli.context import KimiState, Members, Records
from envelopes.recordings.kimi_cli.session_files import CONTEXT, PLACES, SessionFile, count_contexts, place_calls
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted

# The context has the texts of these, and the others are states of the screen.
_SILENT = (
    *("TurnBegin", "TurnEnd", "SteerInput", "StepBegin", "ContentPart", "ToolCallPart", "MCPLoadingBegin"),
    *("MCPLoadingEnd", "StatusUpdate", "CompactionEnd", "HookTriggered"),
)
CHILD_TOOLS = frozenset({"Agent"})  # whose output names the subagent
_WARNINGS = ("StepInterrupted", "StepRetry")
_WORDS = ("title", "description", "error_type", "question", "response", "event", "file_path")  # of a payload
_CHILD = re.compile(r"(?:\A|\n)agent_id: (?P<id>[\w-]{1,64})\n")


class WireReader:
    """Reads the lines of a wire file. Their places are those of the calls that the context files have too."""

    def __init__(self, path: SourcePath, file: SessionFile, state: KimiState) -> None:
        self._file, self._state = file, state
        count = count_contexts(path)
        self._places = place_calls(path, file, count + 1)[0]
        self._has_context = path.folder is not None and f"{CONTEXT}.jsonl" in path.folder.names()
        self._end = count * PLACES - 1
        self._unplaced: set[str] = set()  # calls since the last one that a context has

    def read(self, node: DocumentValue) -> Records:
        members = node.members()
        if "message" not in members:
            if text_member(members, "type") != "metadata":
                raise Untrusted("no event: it has no message", "$.message")
            return
        at = time_member(members, "timestamp", may_count=True)
        if not self._state.facts:
            self._state.facts = True
            file = self._file
            yield RunRecord(line=node.line, run=file.run, parent_run=file.parent, agent=AGENT, started_at=at)
        yield from self._event(node, object_member(members, "message"), at, self._file.run)

    def settle(self, records: Iterable[Record | LineProblem]) -> Records:
        """Puts the last calls, which no context has yet, at the end: the earliest of their places counts."""
        for record in records:
            if isinstance(record, CallRecord | ResultRecord) and record.call in self._unplaced:
                yield msgspec.structs.replace(record, position=self._end)
            else:
                yield record

    def _place(self, node: DocumentValue, run: str) -> int:
        """The place of a line. A subagent without files of its own has those of the lines."""
        return self._state.place if self._has_context and run == self._file.run else node.line

    def _event(self, node: DocumentValue, message: Members, at: str | None, run: str) -> Records:
        kind, payload = text_member(message, "type"), message.get("payload")
        if kind is None or payload is None:
            raise Untrusted("no event: it has no type or no payload", "$.message")
        members = object_member(message, "payload")
        if kind == "ToolCall":
            yield self._call(node, members, at, run)
        elif kind == "ToolResult":
            yield self._result(node, members, at, run)
        elif kind == "SubagentEvent":
            yield from self._subagent(node, members, at)
        elif kind == "StatusUpdate":
            yield from self._usage(node, members, at, run)
        elif kind not in _SILENT:
            texts = (members[name].text() for name in _WORDS if name in members)
            call = text_member(members, "tool_call_id")
            yield EventRecord(
                line=node.line,
                position=self._place(node, run),
                run=run,
                kind=storable(kind),
                message=storable(summarize(next(filter(None, texts), kind))),
                level="warn" if kind in _WARNINGS else "info",
                call=self._state.find_call(run, call) if call else None,
                payload=payload.raw,
                at=at,
            )

    def _call(self, node: DocumentValue, members: Members, at: str | None, run: str) -> CallRecord:
        function = object_member(members, "function")
        key, tool, arguments = text_member(members, "id"), text_member(function, "name"), function.get("arguments")
        if not key or not tool:
            raise Untrusted("a call without an id or a name", "$.message.payload")
        text = arguments.text() if arguments else None
        call = self._state.name_call(run, key, tool, text or "")
        if tool in CHILD_TOOLS:
            self._state.children.setdefault(call, "")
        if call in self._places:
            self._state.place, self._unplaced = self._places[call], set()
        elif self._has_context and run == self._file.run:
            self._unplaced.add(call)
        return CallRecord(
            line=node.line,
            position=self._place(node, run),
            run=run,
            call=call,
            tool=tool,
            args=decode_arguments(arguments.raw) if arguments and text is not None else b"{}",
            at=at,
        )

    def _result(self, node: DocumentValue, members: Members, at: str | None, run: str) -> ResultRecord:
        key, value = text_member(members, "tool_call_id"), members.get("return_value")
        if not key:
            raise Untrusted("no result: it has no tool_call_id", "$.message.payload")
        returned = object_member(members, "return_value")
        output = returned["output"].text() if "output" in returned else None
        call = self._state.find_call(run, key)
        known = self._state.children.get(call)
        child = _CHILD.search(output or "") if known == "" else None
        return ResultRecord(
            line=node.line,
            position=self._place(node, run),
            run=run,
            call=call,
            result=value.raw if value else None,
            is_error=flag_member(returned, "is_error"),
            at=at,
            child_run=f"{run}/{child['id']}" if child else known or None,
        )

    def _usage(self, node: DocumentValue, members: Members, at: str | None, run: str) -> Records:
        usage = members.get("token_usage")
        if usage is None or not usage.is_object:
            return
        tokens = object_member(members, "token_usage")
        message = members["message_id"].text() if "message_id" in members else None
        yield UsageRecord(
            line=node.line,
            position=self._place(node, run),
            run=run,
            request=message or f"line-{node.line}",
            input_tokens=integer_member(tokens, "input_other"),
            cache_read_tokens=integer_member(tokens, "input_cache_read"),
            cache_creation_tokens=integer_member(tokens, "input_cache_creation"),
            output_tokens=integer_member(tokens, "output"),
            usage=usage.raw,
            at=at,
        )

    def _subagent(self, node: DocumentValue, members: Members, at: str | None) -> Records:
        """The events of a subagent. Since 1.25 it has files of its own, and the first event names it alone."""
        parent = text_member(members, "parent_tool_call_id", "task_tool_call_id")
        agent = text_member(members, "agent_id") if "agent_id" in members else None
        if not parent:
            return
        call = self._state.find_call(self._file.run, parent)
        run = f"{self._file.run}/{agent or parent}"
        if self._state.children.get(call) != run:
            self._state.children[call] = run
            own = self._file.run
            yield RunRecord(line=node.line, run=run, parent_run=own, parent_call=call, agent=AGENT, started_at=at)
        if agent is None:
            yield from self._event(node, object_member(members, "event"), at, run)

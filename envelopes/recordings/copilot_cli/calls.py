"""Calls of tools: their requests, their ends, the subagents that they start, and those without an end."""

from __future__ import annotations

import msgspec

from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.recordings.base import (
    LATER_TEXT,
    ArtifactRecord,
    CallRecord,
    ReceiptRecord,
    ResultRecord,
    RunRecord,
    SupersedeRecord,
)
from envelopes.recordings.copilot_cli.events import AGENT, CopilotEvent, CopilotState, Records, UnsentText, note_event
from envelopes.recordings.document_fields import flag_member, list_member, object_member, text_member
from envelopes.recordings.documents import DocumentValue, unused_id
from envelopes.recordings.json_lines import storable
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, join_object

_BEGINNING = "tool.execution_start"
_DENIED = {"denied": "write_denied", "rejected": "write_denied"}  # codes of errors
_FOR_THE_CLIENT = ("structuredContent", "contents")  # members of a result
_OF_THE_CALL = ("shellExecution", "fileEdits")  # the same beside it
_EMPTY_VIEW = "\ndiff --git "
_INTERRUPTED = b'"The execution of this tool, or a previous tool was interrupted."'


def read_call(event: CopilotEvent, state: CopilotState, call: str, tool: str, args: DocumentValue | None) -> CallRecord:
    begun = f"begun {call}"
    place = begun if event.kind == _BEGINNING else f"{event.key} {call}"
    if begun in state.asked:  # the line that asked for it stands behind its beginning
        state.asked[place] = state.asked.pop(begun)
    if place not in state.asked:
        name = state.asked[place] = unused_id(call, f"{call}-{event.line}", state.asked.values())
        state.calls[call], state.tools[name], state.waiting[name] = name, tool, event.run
    name = state.asked[place]
    if event.run in state.since:
        state.since[event.run].append(event.line)
    return CallRecord(
        line=event.line,
        run=event.run,
        call=name,
        tool=tool,
        args=args.raw if args else b"{}",
        step=text_member(event.data, "messageId"),
        at=event.at,
    )


def begin_call(event: CopilotEvent, state: CopilotState) -> Records:
    """The beginning of a call; that of a call which no answer asked for is the call itself."""
    call, tool = text_member(event.data, "toolCallId"), text_member(event.data, "toolName")
    if call and tool and call not in state.calls:
        yield read_call(event, state, call, tool, event.data.get("arguments"))
    if event.at and call in state.calls:
        state.started[state.calls[call]] = event.at


def end_call(event: CopilotEvent, state: CopilotState) -> Records:
    call, success = text_member(event.data, "toolCallId"), flag_member(event.data, "success")
    if not call or success is None:
        raise Untrusted("no end of a call: it has no toolCallId, or no success", "$.data")
    name = state.calls.get(call, call)
    state.waiting.pop(name, None)
    if event.run in state.since:
        state.since[event.run].append(event.line)
    child = f"{state.run}/{call}" if call in state.agents.values() else None
    end = ResultRecord(
        line=event.line,
        run=event.run,
        call=name,
        result=None,
        is_error=not success,
        at=event.at,
        started_at=state.started.get(name),
        child_run=child,
    )
    yield from _success(event, state, end) if success else _failure(event, end)


def _failure(event: CopilotEvent, end: ResultRecord) -> Records:
    error = object_member(event.data, "error")
    message = error.get("message")
    if message is None or not message.is_text:
        yield end
        return
    denied = _DENIED.get(text_member(error, "code") or "")
    yield msgspec.structs.replace(end, result=message.raw, fidelity="stringified", stated_kind=denied)
    yield ReceiptRecord(
        line=event.line, run=event.run, call=end.call, content=message.raw, fidelity="reconstructed", at=event.at
    )


def _success(event: CopilotEvent, state: CopilotState, end: ResultRecord) -> Records:
    result = object_member(event.data, "result")
    content, detailed = result.get("content"), result.get("detailedContent")
    kept = {name: result[name].raw for name in _FOR_THE_CLIENT if name in result}
    kept |= {name: event.data[name].raw for name in _OF_THE_CALL if name in event.data}
    is_repeated = bool(content and detailed and content.raw == detailed.raw)
    text = (content.text() if content and content.is_text else None) or ""
    is_unsent = is_repeated and state.tools.get(end.call) == "view" and text.startswith(_EMPTY_VIEW)
    if detailed and (is_unsent or not is_repeated):
        kept = {"detailedContent": detailed.raw, **kept}
    yield msgspec.structs.replace(end, result=join_object(kept) if kept else None)
    if content is None or not content.is_text:
        return
    receipt = ReceiptRecord(line=event.line, run=event.run, call=end.call, content=content.raw, at=event.at)
    if is_unsent:
        state.unsent[end.call] = UnsentText(event.run, event.line, content.raw.decode())
        receipt = msgspec.structs.replace(receipt, content=b'""', fidelity="reconstructed")
    yield receipt
    if preview := find_output_preview(text):
        path = storable(preview.path)
        yield ArtifactRecord(line=event.line, run=event.run, call=end.call, role="output", path=path)
    for asset in list_member(result, "binaryResultsForLlm"):
        words = f"{text_member(asset.members(), 'mimeType') or 'a file'} was read for the model"
        yield msgspec.structs.replace(note_event(event, words, "attachment", end.call), payload=asset.raw)


def start_subagent(event: CopilotEvent, state: CopilotState) -> Records:
    call = text_member(event.data, "toolCallId")
    if not call:
        raise Untrusted("no subagent: it has no toolCallId", "$.data.toolCallId")
    name = state.calls.get(call, call)
    state.agents.setdefault(call, call)  # earlier releases name a subagent by nothing else
    yield RunRecord(
        line=event.line,
        run=f"{state.run}/{call}",
        parent_run=state.waiting.get(name, state.run),
        parent_call=name,
        title=summarize(text_member(event.data, "agentDisplayName", "agentName") or "") or None,
        agent=AGENT,
        started_at=event.at,
    )


def _stop_calls(event: CopilotEvent, state: CopilotState) -> Records:
    """The end of calls that had none when the program ended."""
    for name, run in state.waiting.items():
        yield ResultRecord(
            line=event.line, run=run, call=name, result=None, is_error=True, stated_kind="cancelled", at=event.at
        )
    state.stopped |= state.waiting
    state.waiting = {}


def end_program(event: CopilotEvent, state: CopilotState) -> Records:
    yield note_event(event, "the program ended")
    yield from _stop_calls(event, state)


def resume_session(event: CopilotEvent, state: CopilotState) -> Records:
    """From here on, the model gets recorded texts where it had got none, and a sentence about calls without an end."""
    yield note_event(event, "the session was resumed")
    yield from _stop_calls(event, state)
    for name, run in state.stopped.items():
        yield ReceiptRecord(
            line=event.line, run=run, call=name, content=_INTERRUPTED, fidelity="reconstructed", at=event.at
        )
    state.stopped = {}
    for call, unsent in state.unsent.items():
        yield SupersedeRecord(
            line=event.line, run=unsent.run, call=call, reason=LATER_TEXT, content=unsent.text.encode(), at=event.at
        )
    state.unsent = {}

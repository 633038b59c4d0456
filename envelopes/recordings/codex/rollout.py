"""The lines of a rollout as records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from envelopes.recordings.base import (
    CallRecord,
    LineProblem,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    UsageRecord,
)
from envelopes.recordings.codex.conversation import (
    build_message,
    compaction_records,
    message_records,
    prompt_records,
    reasoning_records,
    rollback_records,
    session_records,
    turn_records,
)
from envelopes.recordings.codex.lines import (
    NO_NUMBER,
    CommandSession,
    RolloutItem,
    RolloutLine,
    RolloutRead,
    RolloutState,
    digest,
    member,
    part_remark,
    read_duration,
    read_item,
    read_line,
    read_tokens,
)
from envelopes.recordings.documents import decode_arguments
from envelopes.recordings.json_lines import (
    NOTHING,
    change_remarks,
    entry_remarks,
    first_byte,
    may_name,
    parsed_lines,
    read_json_lines,
    storable,
    valid_timestamp,
)
from envelopes.text.untrusted_json import Untrusted, dump_json, object_slices, parse_json

Records = Iterator[Record | LineProblem]
_SLOT = "codex"
_THREAD = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_GLOBAL_CALL = re.compile(r"call_[A-Za-z0-9]{20,}")
_CALL_IDS = ("call_", "toolu_", "fc_")  # the beginnings of ids that providers give
_STATES = frozenset({"world_state", "token_usage_record"})  # token_count has the usage of a request too
_TYPES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted", *_STATES})
_LINE = rb'(?:[^"\\]|\\[^n])*'  # to its end, of a text in JSON
_HEADER_LINES = (
    rb"(?:Command|Chunk ID|Wall time|Exit code|Original token count|Total output lines): " + _LINE,
    rb"Warning: truncated output " + _LINE,
    rb"Process exited with code (?P<exit>-?\d{1,10})",
    rb"Process running with session ID (?P<session>\d{1,12})",
)
_FIRST_TEXT = rb'(?:\[\s*\{\s*(?:"type":\s*"\w+",\s*)?"text":\s*)?"'  # of an output, a string or a list of blocks
_HEADER = re.compile(_FIRST_TEXT + rb"(?:(?:" + rb"|".join(_HEADER_LINES) + rb")\\n)+(?:Final o|O)utput:")
_SESSION_TOOLS = ("write_stdin", "unified_exec")
_STARTS_AGENT = "spawn_agent"
_NO_INPUT = (b"", b'""', b"null", b"[]", b'[""]')
_RECORD_BYTES = 64 * 1024  # of a session's record that waits for its last poll
_REPEATED = frozenset({"agent_message", "agent_reasoning", "task_started", "task_complete", "context_compacted"})
_FAILED = frozenset({"failed", "declined"})


def sniff(head: bytes, path: SourcePath) -> bool:
    """Some line has a payload and one of the known types, or the first has an id and instructions and no type."""
    lines = parsed_lines(head, read_line) if may_name(head, b"payload", b"instructions") else ()
    for number, line in enumerate(lines):
        if line.type in _TYPES and first_byte(line.payload) == b"{":
            return True
        if number == 0 and line.type is None and line.id and line.timestamp and line.instructions is not NOTHING:
            return True
    return False


def is_global_call_id(call: str) -> bool:
    """Ids that the provider drew at random; those of tests and of other providers count from one."""
    return _GLOBAL_CALL.fullmatch(call) is not None


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state = msgspec.convert(saved.get(_SLOT, {}), RolloutState)
    threads = _THREAD.findall(path.stem)
    state.run = state.run or (threads[-1] if threads else path.stem)
    for line in read_json_lines(lines, saved):
        if isinstance(line, LineProblem):
            yield line
            continue
        try:
            entry = read_line(line.raw)
            records = list(_read_entry(line, entry, state))
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
            continue
        yield from records
        yield from entry_remarks(entry, records, line=line.number, run=state.run)
        state.trim()
        saved[_SLOT] = msgspec.to_builtins(state)


def _read_entry(line: SourceLine, entry: RolloutLine, state: RolloutState) -> Records:
    """A line without a payload is the payload of a `response_item`, or the first line of an early release."""
    kind = entry.type
    if first_byte(entry.payload) == b"{":
        payload = bytes(entry.payload)
    elif kind in _TYPES:
        raise Untrusted("no payload, or not an object", "$.payload")
    elif kind is None and entry.id is None:
        if entry.record_type is None:
            raise Untrusted("no type, or not a string", "$.type")
        return
    else:
        payload, kind = line.raw, "response_item" if kind else "session_meta"
    item = read_item(payload)
    inherited = entry.ordinal is not None and entry.ordinal < state.own_from
    at = valid_timestamp(entry.timestamp)
    rollout_line = RolloutRead(line.number, line.raw, item, payload, at, inherited, state, bytes(entry.metadata))
    reader = _ITEMS.get(item.type or "") if kind in ("response_item", "event_msg") else _LINES.get(kind or "")
    records = list(reader(rollout_line)) if reader else list(_other(rollout_line, kind or ""))
    if kind and kind not in _TYPES and kind not in state.unknown:
        state.unknown.append(kind)
        became = "an event without a meaning, like later lines of its kind: it is unknown"
        records += [rollout_line.remark("line", "$.type", kind.encode("utf-8", "surrogatepass"), became)]
    if not state.began and kind != "session_meta":
        state.began = True
        yield RunRecord(line=line.number, run=state.run, agent="codex", started_at=at)
    yield from records
    path = "$.payload" if first_byte(entry.payload) == b"{" else "$"
    call = next((record.call for record in records if isinstance(record, CallRecord | ResultRecord)), None)
    yield from change_remarks(item, path, line=line.number, run=state.run, call=call)


def _call(line: RolloutRead) -> Records:
    item, state = line.item, line.state
    call = item.call_id or item.id
    if not call:
        raise Untrusted("a call without an id", "$.payload.call_id")
    name = item.name or {"local_shell_call": "local_shell", "tool_search_call": "tool_search"}.get(item.type or "", "")
    tool = _tool_name(item.namespace or "", name)
    args = decode_arguments(bytes(item.arguments)) or bytes(item.input) or bytes(item.action) or b"null"
    state.calls[call] = tool
    if item.type == "custom_tool_call" and name == "exec":
        state.unanswered.append(call)
    state.has_patch_tool = state.has_patch_tool or (item.type == "custom_tool_call" and name == "apply_patch")
    if name in _SESSION_TOOLS and (session := member(args, "session_id").decode("utf-8", "replace").strip('"')):
        command = state.find_command(session)
        if command and (member(args, "chars") or member(args, "input")) in _NO_INPUT:
            state.polls[call] = command
            del state.calls[call]
            yield line.event("poll", call=command, message=f"polled by {storable(call)}")
            return
        if command or session not in state.sessions:
            state.inputs[call] = session
    if name == "update_plan":
        yield RunRecord(line=line.number, run=line.run, plan=args)
    yield CallRecord(
        line=line.number,
        run=line.run,
        call=call,
        tool=storable(tool),
        args=args,
        step=state.name_step(call),
        at=line.at,
        inherited=line.inherited,
    )


def _tool_name(space: str, name: str) -> str:
    """A server of MCP is a namespace, `mcp__server__` or, since 0.171, `mcp__server`."""
    separator = "" if not space or space.endswith("__") else "__" if space.startswith("mcp__") else "."
    return f"{space}{separator}{name}"


def _search_end(line: RolloutRead) -> Records:
    item = line.item
    if item.call_id and item.call_id not in line.state.calls:
        line.state.searches[item.call_id] = digest(bytes(item.action).decode("utf-8", "replace"))
    yield from _other(line, "event_msg")


def _hosted_call(line: RolloutRead) -> Records:
    """A search that the provider ran: the model got its results there, and neither half is recorded."""
    item, state = line.item, line.state
    action = digest(bytes(item.action).decode("utf-8", "replace"))
    ended = next((call for call, ended in state.searches.items() if ended == action), None)
    call = item.id or item.call_id or ended or state.name_search(action)
    state.searches.pop(call, None)
    state.calls[call] = "web_search"
    yield CallRecord(
        line=line.number,
        run=line.run,
        call=call,
        tool="web_search",
        args=bytes(item.action) or b"null",
        step=state.name_step(call),
        at=line.at,
        inherited=line.inherited,
    )
    if item.status:
        yield line.result(call, None, fidelity="absent", is_error=item.status in _FAILED)


def _output(line: RolloutRead) -> Records:
    """`output` is a string or a list of blocks; early releases wrote an object with `content` and `success`.

    What the client tells the model by itself, as the objective of a goal, is an output with a name and without a call.
    """
    item, state = line.item, line.state
    state.answer = ""
    call, content, failed = item.call_id or "", bytes(item.output) or _text_of(bytes(item.tools)), None
    if not call and item.name:
        yield build_message(line, "tool", content, kind=storable(_tool_name(item.namespace or "", item.name)))
        return
    if not call:
        raise Untrusted("an output without the id of its call", "$.payload.call_id")
    if content.startswith(b"{"):
        members = object_slices(content)
        failed = {b"true": False, b"false": True}.get(members.get("success", b""))
        content = members.get("content", content)
    if call in state.unanswered:
        state.unanswered.remove(call)
    # The output behind the header may quote such lines, of another command.
    header = _HEADER.match(content)
    session, has_ended = (header["session"], header["exit"] is not None) if header else (None, False)
    if command := state.polls.pop(call, None):
        yield line.receipt(command, content, is_further=True, is_running=session is not None)
        if has_ended:
            state.end_command(command)
        return
    is_input = call in state.inputs  # ends where its window does
    # An output with a name is one that a program of code mode sent beside its own.
    yield line.receipt(call, content, is_further=bool(item.name), is_running=session is not None and not is_input)
    is_start = state.calls.get(call, "").endswith(_STARTS_AGENT)
    child = member(decode_arguments(content), "agent_id") if is_start else b""
    if failed is not None or child:
        thread = storable(str(parse_json(child))) if child else None
        yield line.result(call, None, is_error=failed, child_run=thread)
    if (session_id := state.inputs.pop(call, None)) in state.sessions:
        yield from _input(line, state.sessions[str(session_id)], call, has_ended=has_ended)
    elif session:
        state.open_session(session.decode(), call)


def _text_of(tools: bytes) -> bytes:
    """The definitions of tools that a search found, as the text that they are; an empty one without any."""
    return dump_json(tools.decode("utf-8", "surrogatepass"))


def _input(line: RolloutRead, session: CommandSession, call: str, *, has_ended: bool) -> Records:
    """The record of a session also answers the input that reports its end."""
    if session.call:
        state = "which reports its end" if has_ended else "while it ran"
        yield line.event("input", call=session.call, message=f"input by {storable(call)}, {state}")
    if has_ended:
        session.poll, session.has_ended = call, True
        yield from _session_result(line, session)


def _session_result(line: RolloutRead, session: CommandSession) -> Records:
    if session.poll and session.record:
        recorded = session.record.encode("utf-8", "surrogatepass")
        yield line.result(session.poll, recorded, line=session.line, is_error=session.is_error)


def _names_call(line: RolloutRead, call: str | None) -> bool:
    """Checks that a record is that of a call, whose own line may be elsewhere, and of no poll.

    Codex names what no call started by ids of its own.
    """
    return call in line.state.calls or ((call or "").startswith(_CALL_IDS) and call not in line.state.polls)


def _unnamed_end(line: RolloutRead, item: RolloutItem, kind: str, *, failed: bool) -> Records:
    """The end of what no call started: a program of code mode, or the person by a command of their own."""
    open_calls = line.state.unanswered
    is_nested = len(open_calls) == 1 and bytes(item.source) != b'"user_shell"'
    yield line.event(kind, call=open_calls[0] if is_nested else None, failed=failed)


def _command_end(line: RolloutRead) -> Records:
    item = line.item
    failed = item.status in _FAILED
    if not _names_call(line, item.call_id):
        yield from _unnamed_end(line, item, "exec_command_end", failed=failed)
        return
    yield line.result(item.call_id or "", line.payload, is_error=failed, duration_ms=_milliseconds(item))
    yield from _note_session(line, item, line.payload, failed=failed)


def _note_session(line: RolloutRead, item: RolloutItem, recorded: bytes, *, failed: bool) -> Records:
    if not item.process_id or len(recorded) > _RECORD_BYTES:
        return
    session = line.state.open_session(item.process_id, item.call_id or item.id or "")
    session.record, session.line, session.is_error = recorded.decode("utf-8", "surrogatepass"), line.number, failed
    yield from _session_result(line, session)


def _milliseconds(item: RolloutItem) -> int | None:
    if item.started_at_ms is not None and item.completed_at_ms is not None:
        return item.completed_at_ms - item.started_at_ms
    if first_byte(item.duration) != b"{":
        return None
    duration = read_duration(item.duration)
    return duration.secs * 1000 + duration.nanos // 1_000_000


def _tool_end(line: RolloutRead) -> Records:
    """The end of a patch, of a call of an MCP server, or of the start of a subagent."""
    item = line.item
    recorded, failed = line.payload, item.success is False or item.status in _FAILED
    if item.type == "mcp_tool_call_end":
        members = object_slices(bytes(item.result)) if first_byte(item.result) == b"{" else {}
        recorded = members.get("Ok") or members.get("Err") or bytes(item.result) or line.payload
        failed = "Err" in members or member(recorded, "isError") == b"true"
    if not _names_call(line, item.call_id):
        yield from _unnamed_end(line, item, item.type or "", failed=failed)
        return
    child = item.new_thread_id
    yield line.result(item.call_id or "", recorded, is_error=failed, duration_ms=_milliseconds(item), child_run=child)


def _item_completed(line: RolloutRead) -> Records:
    outer = line.item
    item, recorded = read_item(outer.item), bytes(outer.item)
    failed = item.status in _FAILED
    if item.type == "McpToolCall":
        answers = (member(recorded, "result"), member(recorded, "error"))
        recorded = next((answer for answer in answers if answer.startswith(b"{")), recorded)
    if _names_call(line, item.id):
        duration, child = _milliseconds(outer), item.agent_thread_id or _started_thread(item)
        yield line.result(item.id or "", recorded, is_error=failed, duration_ms=duration, child_run=child)
        yield from _note_session(line, item, recorded, failed=failed)
        return
    yield from _unnamed_end(line, item, item.type or "item_completed", failed=failed)


def _started_thread(item: RolloutItem) -> str | None:
    """The thread of a subagent that a call started."""
    threads = parse_json(bytes(item.receiver_thread_ids) or b"null") if item.tool == _STARTS_AGENT else None
    return threads[0] if isinstance(threads, list) and len(threads) == 1 and isinstance(threads[0], str) else None


def _token_count(line: RolloutRead) -> Records:
    """The first line of a session has no info yet."""
    yield from part_remark(line, "$.payload.info", bytes(line.item.info), b"{")
    if first_byte(line.item.info) != b"{":
        return
    info = read_tokens(line.item.info)
    yield from change_remarks(info, "$.payload.info", line=line.number, run=line.run)
    last, total = info.last_token_usage, info.total_token_usage
    if last is None or total is None:
        return
    if min(last.input_tokens, last.cached_input_tokens, last.output_tokens) < 0:
        yield line.remark("value", "$.payload.info.last_token_usage", bytes(line.item.info), NO_NUMBER)
        return
    request = str(total.total_tokens)
    if request in line.state.requests:
        return
    line.state.requests.append(request)
    yield UsageRecord(
        line=line.number,
        run=line.run,
        request=request,
        input_tokens=max(0, last.input_tokens - last.cached_input_tokens),
        cache_read_tokens=last.cached_input_tokens,
        cache_creation_tokens=0,
        output_tokens=last.output_tokens,
        usage=bytes(line.item.info),
        at=line.at,
    )


def _other(line: RolloutRead, kind: str) -> Records:
    """Yields an event for what has no meaning for the halves, unless another line has the same."""
    item = line.item
    name = item.type or kind
    if name not in _REPEATED and kind not in _STATES:
        call = item.call_id if item.call_id in line.state.calls else None
        yield line.event(name, call=call, failed=name == "error")


_LINES: dict[str, Callable[[RolloutRead], Records]] = {
    "session_meta": session_records,
    "turn_context": turn_records,
    "compacted": compaction_records,
}
_ITEMS: dict[str, Callable[[RolloutRead], Records]] = {
    "message": message_records,
    "user_message": prompt_records,
    "thread_rolled_back": rollback_records,
    "reasoning": reasoning_records,
    **dict.fromkeys(("function_call", "custom_tool_call", "local_shell_call", "tool_search_call"), _call),
    "web_search_call": _hosted_call,
    "web_search_end": _search_end,
    **dict.fromkeys(("function_call_output", "custom_tool_call_output", "tool_search_output"), _output),
    "exec_command_end": _command_end,
    **dict.fromkeys(("patch_apply_end", "mcp_tool_call_end", "collab_agent_spawn_end"), _tool_end),
    "item_completed": _item_completed,
    "token_count": _token_count,
}

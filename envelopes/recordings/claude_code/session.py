"""Claude Code session files: one JSON object a line, distinguished by `type`.

1. `user` and `assistant` lines carry an API message; one message is spread over several `assistant` lines, a
   content block each, so `message.id` is the step.
2. A result is on the `user` line of its receipt (see `messages`).
3. File order is the order of the records; `parentUuid` is interrupted by attachments and used for sidechains, rewinds
   and new conversations only.
4. A resumed or forked session begins with the old session's lines. Newer releases keep their `sessionId` or
   write `forkedFrom`: such calls are inherited. Older ones rewrote it: then only the calls' own ids show it,
   and the dashboard joins them when it stores them. Lines with another `sessionId` behind the session's own are
   no copies: a program that goes on after `/clear` may write them into the same log.
5. An `attachment` is something that the program put beside a message: a message too where the model got it, see
   `attachments`.
6. `compact_boundary`, `microcompact_boundary` and `content-replacement` lines report receipts that are no longer
   in the model's context, or are replaced there by a shorter text. A summary (`isCompactSummary`) without a boundary
   before it is a compaction too.
7. `queue-operation` lines report what came in while a step ran. Releases without an attachment for it have only
   them: what was enqueued and then removed went to the model with the answers of the step, in a wording that is not
   recorded. Releases that write what attachments became for the model send it by its attachment.
8. The client keeps from the model: errors of the API that it wrote as the model's messages (`isApiErrorMessage`),
   and the notices in `system` lines. Releases differ in whether they send what a local command printed.
9. Two prompts below one message (`parentUuid`, behind lines of the client) are a rewind: the lines from the first to
   the second are a branch that left the conversation. Its event has the lines, as no line of the file states them.
10. A line without a predecessor (`parentUuid` null) in the middle of a file begins a conversation anew: the context
   was cleared, and no line of the file states it. Its event is at the line before.
11. States of the program (modes, links, costs) are events. Unknown types are events with a remark, never problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import msgspec

from envelopes.recordings.base import (
    COMPACTION,
    MICROCOMPACTION,
    NEW_CONVERSATION,
    PARTIAL_COMPACTION,
    REPLACEMENT,
    REWIND,
    TASK_REPORT,
    Delivery,
    LineProblem,
    ReceiptRecord,
    Record,
    RunRecord,
    SourceLine,
    SourcePath,
    SupersedeRecord,
)
from envelopes.recordings.claude_code.attachments import attachment_records
from envelopes.recordings.claude_code.conversation import (
    find_rewind,
    find_root,
    note_client_line,
    note_step,
    note_summary,
    read_preserved,
    read_queue_operation,
)
from envelopes.recordings.claude_code.line import SessionLine, identify_file, parse_line, read_entry, with_origin
from envelopes.recordings.claude_code.messages import ApiMessage, message_records, read_message
from envelopes.recordings.claude_code.reader_state import (
    CHOSEN,
    GENERATED,
    LOCAL_COMMAND,
    SUMMARY,
    SYNTHETIC,
    ReaderState,
    disambiguate,
    follow_up_records,
    is_report,
    remember,
    unknown_remarks,
)
from envelopes.recordings.claude_code.requests import blob_answers, note_answers, proven_receipts
from envelopes.recordings.claude_code.subagents import progress_records, sidechain_records
from envelopes.recordings.json_lines import (
    BYTE_ORDER_MARK,
    NOTHING,
    entry_remarks,
    first_byte,
    may_name,
    parsed_lines,
    read_json_lines,
    remark,
    storable,
    struct_reader,
)
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, array_slices, parse_json

Records = Iterator[Record | LineProblem]
_BEFORE_ANY_SESSION = frozenset({"summary", "file-history-snapshot", "file-history-delta"})
_NAMES_BEFORE_ANY_SESSION = [name.encode() for name in _BEFORE_ANY_SESSION]
# States of the program and links, which are events without a remark.
_KNOWN_EVENTS = frozenset(
    (
        *("mode", "permission-mode", "last-prompt", "agent-name", "tag", "pr-link", "worktree-state", "relocated"),
        *("bridge-session", "continued-in", "cost-state", "atis-latch", "frame-link", "fork-context-ref"),
        *("artifact-comment-monitor", "artifact-autoreact-ledger", "tools-used", "api-request-shape"),
    )
)

# On the line of a summary, of a compaction after which earlier messages may have stayed.
_MAY_PRESERVE = (b"Recent messages are preserved", b'"summarizedTurnPromptUuids"', b'"summarizeMetadata"')


class MicrocompactMetadata(msgspec.Struct, frozen=True, rename="camel"):
    compacted_tool_ids: msgspec.Raw = NOTHING


class ContentReplacement(msgspec.Struct, frozen=True, rename="camel"):
    """One element of `replacements`: `{kind: "tool-result", toolUseId, replacement}`."""

    tool_use_id: str | None = None
    replacement: msgspec.Raw = NOTHING


_read_microcompact_metadata = struct_reader(MicrocompactMetadata)
_read_replacement = struct_reader(ContentReplacement)


def sniff(head: bytes, path: SourcePath) -> bool:
    """Some line has a known `type` and a `sessionId`, or a type that occurs before any session.

    Other agents have sessions of lines with types of their own. A line that is cut off counts only where no line
    before it had a type: in a stream a result may contain a `sessionId` of its own.
    """
    if not may_name(head, b"sessionId", *_NAMES_BEFORE_ANY_SESSION):
        return False
    has_type = False
    for raw in head.removeprefix(BYTE_ORDER_MARK).splitlines():
        try:
            entry = read_entry(raw)
        except Untrusted:
            if not has_type and raw.startswith(b"{") and b'"sessionId"' in raw and b'"type"' in raw:
                return True
            continue
        is_known = entry.type in _TYPES or entry.type in _KNOWN_EVENTS
        if entry.type in _BEFORE_ANY_SESSION or (is_known and entry.session_id):
            return True
        has_type = has_type or entry.type is not None
    return False


def name_mark(head: bytes, path: SourcePath) -> bytes:
    """The session that the file's name states, where the first lines are another's.

    A fork begins with another session's lines and goes on with its own; a file that never does is a renamed copy.
    """
    file = identify_file(path)
    mark = f'"{file.session}"'.encode()
    if file.session is None or file.agent or mark in head:
        return b""
    return mark if any(entry.session_id for entry in parsed_lines(head, read_entry)) else b""


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state = ReaderState.load(saved)
    file = identify_file(path)
    if saved.get("is_renamed"):
        file = msgspec.structs.replace(file, session=None)
    line = None
    for source_line in read_json_lines(lines, saved):
        if isinstance(source_line, LineProblem):
            yield source_line
            continue
        try:
            line = parse_line(source_line, state, file, saved)
        except Untrusted as refusal:
            yield LineProblem(line=source_line.number, path=refusal.path, reason=refusal.reason, raw=source_line.raw)
            continue
        state = line.state
        records = list(_records(line))
        remarks = chain(entry_remarks(line.entry, records, line=line.number, run=line.run), line.level_remarks())
        for record in chain(records, remarks if line.run else ()):
            yield with_origin(line, disambiguate(state, record))
    if line is not None:
        state.save(saved)


def _records(line: SessionLine) -> Records:
    if line.entry.type is None:
        yield line.problem("$.type", "no type, or not a string", line.raw)
        return
    if line.entry.uuid and (waiting := line.state.note_message(line.entry.uuid, line.number)):
        yield from _title_update(line, SUMMARY, waiting)
    yield from _root(line)
    _note_client_line(line)
    read_type = _TYPES.get(line.entry.type, _other)
    if line.state.session is not None or read_type is _title:
        yield from read_type(line)


def _message(line: SessionLine) -> Records:
    try:
        message = read_message(line.entry.message)
    except Untrusted as refusal:
        yield line.problem("$.message", refusal.reason, bytes(line.entry.message) or line.raw)
        return
    if line.entry.is_sidechain and not line.file.agent:
        yield from sidechain_records(line, message)
        return
    yield from line.run_updates(message)
    yield from _summary(line)
    note_step(line.state, line.entry.type or "", message.id, is_answer=line.entry.tool_use_result is not NOTHING)
    yield from _rewind(line, message)
    line.state.sends = line.state.sends or line.entry.request_ref is not NOTHING
    records = list(message_records(line.message_context(line.run), message, line.state))
    note_answers(line.state, bytes(line.entry.message), records)
    yield from records
    if line.entry.is_api_error_message:
        yield line.event("api_error", "the API answered with an error", bytes(message.content))


def _root(line: SessionLine) -> Records:
    """Reports that nothing before this conversation is in the context any more. A compaction reports that itself."""
    entry = line.entry
    if not entry.uuid or entry.is_sidechain or entry.type == "attachment" or entry.subtype in _BOUNDARIES:
        return
    if isinstance(entry.parent_uuid, msgspec.UnsetType):
        return
    is_message = entry.type in ("user", "assistant")
    root = find_root(line.state, line.number, entry.uuid, entry.parent_uuid, is_message=is_message)
    if root and not entry.is_compact_summary:
        event = line.event(NEW_CONVERSATION, f"the conversation began anew at line {root}", b"null")
        yield msgspec.structs.replace(event, line=root - 1)


def _note_client_line(line: SessionLine) -> None:
    entry = line.entry
    is_own = entry.type in ("progress", "attachment", "system") and not entry.is_sidechain
    if is_own and entry.uuid and isinstance(entry.parent_uuid, str) and entry.parent_uuid:
        is_notice = entry.type == "system"
        note_client_line(line.state, line.number, entry.uuid, entry.parent_uuid, is_notice=is_notice)


def _summary(line: SessionLine) -> Records:
    """Reports a compaction of which only the summary is here, at the line before: the summary is behind it.

    The missing boundary would name the messages that stayed; the summary shows only whether there may be some.
    """
    is_summary, is_reply = line.entry.is_compact_summary is True, line.entry.type == "assistant"
    if note_summary(line.state, line.number, line.entry.uuid or "", is_summary=is_summary, is_reply=is_reply):
        kind = PARTIAL_COMPACTION if any(mark in line.raw for mark in _MAY_PRESERVE) else COMPACTION
        event = line.event(kind, "the conversation was compacted, as its summary shows", b"null")
        yield msgspec.structs.replace(event, line=line.number - 1)


def _rewind(line: SessionLine, message: ApiMessage) -> Records:
    """Reports the lines that are no longer in the conversation, because a person went back to before them."""
    entry = line.entry
    parent = entry.parent_uuid
    if entry.tool_use_result is not NOTHING or not (entry.uuid and isinstance(parent, str) and parent):
        return
    is_prompt = entry.type == "user" and b'"tool_use_id"' not in bytes(message.content)
    if not is_prompt and message.model != SYNTHETIC:  # a resumed session goes on with the client's own message
        return
    is_person = is_prompt and line.client_kind is None
    if branches := find_rewind(line.state, line.number, entry.uuid, parent, is_person=is_person):
        left, returned = branches
        payload = {"left": [left.start, left.end], "returned": [returned.start, returned.end] if returned else None}
        text = f"the person went back: lines {left.start} to {left.end - 1} left the conversation"
        yield line.event(REWIND, text, msgspec.json.encode(payload))


def _system(line: SessionLine) -> Records:
    yield from line.run_updates()
    subtype = line.entry.subtype or "system"
    if subtype in _BOUNDARIES:
        yield from _BOUNDARIES[subtype](line)
    elif first_byte(line.entry.content) == b'"':
        delivery: Delivery = "unclear" if subtype == LOCAL_COMMAND else "withheld"
        yield line.plain_message("system", bytes(line.entry.content), delivery)
    else:
        yield line.event(subtype, subtype, line.raw)


def _queue_operation(line: SessionLine) -> Records:
    operation = line.entry.operation or "queue-operation"
    yield line.event("queue-operation", operation, line.raw)
    content = bytes(line.entry.content)
    if sent := read_queue_operation(line.state, operation, content):
        message = line.plain_message("user", sent, "queued", TASK_REPORT if is_report(sent) else None)
        yield message
        yield from follow_up_records(line.state, message)
    elif operation == "enqueue" and line.state.queue[-1].content is None and content:
        reason = f"a queued message of {len(content):,} bytes: it is not shown where it was sent to the model"
        yield line.problem("$.content", reason, content, part=True)


def _progress(line: SessionLine) -> Records:
    yield from line.run_updates()
    yield from progress_records(line)


def _title(line: SessionLine) -> Records:
    entry, state = line.entry, line.state
    titles = ((entry.custom_title, CHOSEN), (entry.ai_title, GENERATED), (entry.summary, SUMMARY))
    text, rank = next(((text, rank) for text, rank in titles if text), (None, 0))
    if not text:
        return
    if entry.leaf_uuid and entry.leaf_uuid not in state.recent:
        remember(state.summaries, entry.leaf_uuid, summarize(text))
    elif state.session is not None:
        yield from _title_update(line, rank, text)


def _title_update(line: SessionLine, rank: int, text: str) -> Records:
    if line.state.offer_title(rank):
        title = summarize(text)
        yield RunRecord(line=line.number, run=line.run, title=title)
        if rank == CHOSEN and title != " ".join(text.split()):
            was, became = text.encode("utf-8", "surrogatepass"), f"shown by its first {len(title) - 1} characters"
            yield remark("length", "$.customTitle", was, became, line=line.number, run=line.run)


def _compacted(line: SessionLine) -> Records:
    """From here on no earlier receipt of the run is in the context, except in the messages that were preserved.

    The client keeps what it names and nothing else: the event has the lines of that. Where one of them is not known,
    it has the compaction as recorded.
    """
    line.state.compacted = "boundary"
    preserved = read_preserved(line.entry.compact_metadata)
    if preserved is None:
        yield line.event(COMPACTION, "the conversation was compacted", line.raw)
        return
    count = f"{len(preserved)} message{'s' * (len(preserved) > 1)}" if preserved else "some messages"
    kept = [line.state.lines.get(uuid, 0) for uuid in preserved]
    payload = msgspec.json.encode({"kept": sorted(kept)}) if kept and all(kept) else line.raw
    yield line.event(PARTIAL_COMPACTION, f"the conversation was compacted, but for {count} that stayed", payload)


def _microcompacted(line: SessionLine) -> Records:
    """The receipts named in `compactedToolIds` left the context; nothing replaces them."""
    yield line.event(MICROCOMPACTION, "some receipts were compacted away", line.raw)
    if first_byte(line.entry.microcompact_metadata) != b"{":
        return
    ids = _read_microcompact_metadata(line.entry.microcompact_metadata).compacted_tool_ids
    if first_byte(ids) != b"[":
        return
    for index, raw in enumerate(array_slices(bytes(ids))):
        call = parse_json(raw)
        if isinstance(call, str):
            yield _superseded(line, storable(call), "microcompact", None)
        else:
            path = f"$.microcompactMetadata.compactedToolIds[{index}]"
            yield line.problem(path, "expected a string", raw, part=True)


def _replaced(line: SessionLine) -> Records:
    """Each replacement is what the model gets instead of a receipt from the next request on."""
    if first_byte(line.entry.replacements) != b"[":
        yield line.problem("$.replacements", "expected an array", bytes(line.entry.replacements), part=True)
        return
    for index, raw in enumerate(array_slices(bytes(line.entry.replacements))):
        try:
            replacement = _read_replacement(raw)
        except Untrusted as refusal:
            yield line.problem(f"$.replacements[{index}]", refusal.reason, raw, part=True)
            continue
        if replacement.tool_use_id:
            content = bytes(replacement.replacement) or None
            yield _superseded(line, replacement.tool_use_id, REPLACEMENT, content)
        else:
            yield line.problem(f"$.replacements[{index}].toolUseId", "no toolUseId", raw, part=True)


def _superseded(line: SessionLine, call: str, reason: str, content: bytes | None) -> SupersedeRecord:
    run = f"{line.session}/{line.entry.agent_id}" if line.entry.agent_id else line.run
    return SupersedeRecord(line=line.number, run=run, call=call, reason=reason, content=content, at=line.at)


def _request(line: SessionLine) -> Records:
    yield line.event("api-request", "api-request", line.raw)
    yield from proven_receipts(line.state, line.run, line.entry.tail)


def _request_message(line: SessionLine) -> Records:
    yield line.event("api-request-blob", "api-request-blob", line.raw)
    for answer in blob_answers(line.state, line.run, line.entry.message):
        yield answer if isinstance(answer, ReceiptRecord) else _superseded(line, answer[0], REPLACEMENT, answer[1])


def _bookkeeping(line: SessionLine) -> Records:
    """The program's own state, which is not part of the conversation."""
    yield from ()


def _other(line: SessionLine) -> Records:
    kind = line.entry.type or ""
    yield line.event(kind, kind, line.raw)
    if kind not in _KNOWN_EVENTS:
        yield from unknown_remarks(line.state, line.number, line.run, kind)


_BOUNDARIES: dict[str, Callable[[SessionLine], Records]] = {
    COMPACTION: _compacted,
    MICROCOMPACTION: _microcompacted,
}
_TYPES: dict[str, Callable[[SessionLine], Records]] = {
    "user": _message,
    "assistant": _message,
    "system": _system,
    "progress": _progress,
    "summary": _title,
    "custom-title": _title,
    "ai-title": _title,
    "attachment": attachment_records,
    "content-replacement": _replaced,
    "api-request": _request,
    "api-request-blob": _request_message,
    "queue-operation": _queue_operation,
    "file-history-snapshot": _bookkeeping,
    "file-history-delta": _bookkeeping,
}

"""Sessions of the pi coding agent, `sessions/<folder>/<time>_<session>.jsonl`, as releases 0.30 to 1.6 write them.

    {type: "session", version?, id, timestamp, cwd, parentSession?}
    {type: "message", id, parentId, timestamp, message: {role, content, …}}

1. A line follows the one that `parentId` names. Lines that no chain of parents leads to from the last one are branches
   that the person left: a line whose parent is not the line before it goes back. Files before version 2 have no ids.
2. A `toolCall` of an assistant is a call. A `toolResult` has `content`, which goes to the model: the receipt is its one
   text, or the blocks where it has others. `details` is the result where it has something. Whether an image went to the
   model depends on the model, and in place of a blank text some APIs get a placeholder: such a receipt is rebuilt.
3. An assistant with the `stopReason` error or aborted is not sent again, and its calls were not run.
4. `compaction` leaves the lines from `firstKeptEntryId` on, or from the entry `firstKeptEntryIndex` before version 2,
   behind the summary. `context_edit` takes one line out of the context, or puts another content in its place.
5. From release 1.0 on, lines with the role system have the prompt, in sections, and the tools; later ones change them.
6. Ids of calls are those of the provider, which need not be unique: a call whose id was there before is named by it and
   its line, and an answer is that of the last call with its id that has none.
7. A fork copies lines into a file of its own, whose header is younger than they are.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import zip_longest

import msgspec

from envelopes.recordings.base import (
    COMPACTION,
    COMPACTION_SUMMARY,
    LATER_TEXT,
    META,
    PARTIAL_COMPACTION,
    REWIND,
    SYSTEM_PROMPT,
    TOOL_DEFINITIONS,
    ArtifactRecord,
    CallRecord,
    Delivery,
    EventRecord,
    Format,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    SupersedeRecord,
    UsageRecord,
)
from envelopes.recordings.claude_code.reader_state import is_global_call_id as is_message_api_id
from envelopes.recordings.codex.rollout import is_global_call_id as is_responses_api_id
from envelopes.recordings.document_fields import (
    flag_member,
    integer_member,
    list_member,
    object_member,
    text_member,
    time_member,
)
from envelopes.recordings.documents import DocumentValue, JsonDocument, unused_id
from envelopes.recordings.json_lines import ForeignEntry, parsed_lines, read_json_lines, storable, struct_reader
from envelopes.schema.result import summarize
from envelopes.schema.timestamps import parse_instant
from envelopes.text.untrusted_json import Untrusted, dump_json, join_array

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
AGENT = "pi"
BRANCH_SUMMARY = "branch summary"
_ENTRIES = ("message", "model_change", "thinking_level_change", "compaction")  # of every version
_UNSENT = ("error", "aborted")  # reasons why an answer ended
_KNOWN = 65_536  # lines, calls and branches


class PiLine(ForeignEntry, frozen=True, gc=False, rename="camel"):
    """The members by which a header differs from a line of another agent."""

    type: str | None = None
    id: str | None = None
    cwd: str | None = None


class PiState(msgspec.Struct):
    """`lines` are those of the entries by their ids. `starts` are the first lines of what was written without a jump,
    with the line that each follows; `last` is the line at which the conversation is, `left` the branches outside of it.

    `names` are the names of calls by their ids, in order, `waiting` those without an answer; `places` the names by the
    places that asked and answered, since a line may be repeated. `receipts` are the names by the ids of the entries
    that answer them, `messages` the entries that have a text. `created` is the time of the header.
    """

    run: str = ""
    title: bool = False
    facts: bool = False
    model: bool = False
    count: int = 0
    created: str = ""
    has_system: bool = False
    last: int = 0
    starts: list[list[int]] = []
    left: list[list[int]] = []
    lines: dict[str, int] = {}
    names: dict[str, list[str]] = {}
    waiting: dict[str, str] = {}
    places: dict[str, str] = {}
    receipts: dict[str, str] = {}
    messages: dict[str, int] = {}

    def forget_oldest(self) -> None:
        for table in (self.lines, self.names, self.waiting, self.places, self.receipts, self.messages):
            while len(table) > _KNOWN:
                del table[next(iter(table))]
        del self.starts[:-_KNOWN]

    def find_path(self) -> list[tuple[int, int]]:
        """The lines of the conversation, as ranges of a first and a last line, in order."""
        ranges, line = list[tuple[int, int]](), self.last
        while line and (index := bisect_right(self.starts, line, key=lambda start: start[0]) - 1) >= 0:
            first, parent = self.starts[index]
            ranges.append((first, line))
            line = parent if parent < first else 0
        return ranges[::-1]


_read_line = struct_reader(PiLine)


class _Entry(msgspec.Struct, frozen=True):
    """A line, its members, its id, and its time."""

    node: DocumentValue
    members: Members
    key: str
    at: str | None

    @property
    def line(self) -> int:
        return self.node.line


def sniff(head: bytes, path: SourcePath) -> bool:
    """The first line is the header of a session: no other format has one of this type with a folder and an id."""
    first = next(parsed_lines(head, _read_line), None)
    return first is not None and first.type == "session" and bool(first.id and first.timestamp and first.cwd)


def is_global_call_id(call: str) -> bool:
    """Ids that these providers drew at random; those of others may count from one."""
    return is_message_api_id(call) or is_responses_api_id(call)


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state = msgspec.convert(saved.get(AGENT, {}), PiState)
    state.run = state.run or path.stem.rpartition("_")[2]
    for line in read_json_lines(lines, saved):
        if isinstance(line, LineProblem):
            yield line
            continue
        node = DocumentValue(JsonDocument([line]), line.raw, 0)
        try:
            yield from list(_line_records(node, state))
            yield from node.document.take_remarks(state.run)
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
        state.forget_oldest()
        # The tables are the state's own: a long session is not copied with each line.
        saved[AGENT] = {name: getattr(state, name) for name in state.__struct_fields__}


def _line_records(node: DocumentValue, state: PiState) -> Records:
    members = node.members()
    kind, key = text_member(members, "type"), text_member(members, "id")
    if kind is None:
        raise Untrusted("no entry: it has no type", "$.type")
    entry = _Entry(node, members, key or f"line-{_digest(node.raw)}", time_member(members, "timestamp"))
    if kind == "session":
        yield from _header(entry, state)
        return
    if not state.facts:
        yield RunRecord(line=node.line, run=state.run, agent=AGENT, started_at=entry.at)
        state.facts = True
    yield from _follow(entry, state)
    state.count += 1
    if key is None:
        state.lines.setdefault(f"#{state.count}", node.line)
    if kind == "message":
        yield from _message(entry, object_member(members, "message"), state)
    elif kind == "compaction":
        yield from _compaction(entry, state)
    elif kind in ("branch_summary", "custom_message"):
        name, role = ("summary", BRANCH_SUMMARY) if kind == "branch_summary" else ("content", META)
        delivery: Delivery = "reworded" if kind == "branch_summary" else "sent"
        yield from _sent(entry, members.get(name), "user", state, kind=role, delivery=delivery)
    elif kind == "context_edit":
        yield from _context_edit(entry, state)
    else:
        yield _event(entry, kind, text_member(members, "customType") or kind, state)
        yield from _fact_changes(entry, kind, state)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]


def _header(entry: _Entry, state: PiState) -> Records:
    state.run = text_member(entry.members, "id") or state.run
    state.facts, state.created = True, entry.at or ""
    yield RunRecord(
        line=entry.line,
        run=state.run,
        agent=AGENT,
        cwd=text_member(entry.members, "cwd"),
        started_at=entry.at,
        extra=entry.node.raw if "parentSession" in entry.members or "branchedFrom" in entry.members else None,
    )


def _fact_changes(entry: _Entry, kind: str, state: PiState) -> Records:
    """A name that the person gave the session, and its first model."""
    if kind == "session_info" and (title := summarize(text_member(entry.members, "name") or "")):
        state.title = True
        yield RunRecord(line=entry.line, run=state.run, title=title)
    elif kind == "model_change":
        yield from _first_model(entry, text_member(entry.members, "modelId"), state)


def _first_model(entry: _Entry, model: str | None, state: PiState) -> Records:
    if model and not state.model:
        state.model = True
        yield RunRecord(line=entry.line, run=state.run, model=model)


def _event(entry: _Entry, kind: str, text: str, state: PiState, call: str | None = None) -> EventRecord:
    message = storable(summarize(text)) or kind
    return EventRecord(
        line=entry.line, run=state.run, kind=kind, message=message, payload=entry.node.raw, at=entry.at, call=call
    )


def _follow(entry: _Entry, state: PiState) -> Records:
    """Moves the conversation to this line. Yields the rewinds by which branches leave it, and return to it."""
    parent = text_member(entry.members, "parentId")
    before = state.last if parent is None else state.lines.get(parent, state.last)
    is_root = parent is None and "id" in entry.members and bool(state.starts)
    is_known = entry.key in state.lines
    state.lines[entry.key] = state.lines.get(entry.key, entry.line)
    if is_known:  # a repeated line
        return
    is_jump = is_root or before != state.last
    if is_jump or not state.starts:
        state.starts.append([entry.line, 0 if is_root else before])
    state.last = entry.line
    if is_jump:
        yield from _rewinds(entry, state)


def _rewinds(entry: _Entry, state: PiState) -> Records:
    left, at = list[list[int]](), state.starts[0][0]
    for first, last in state.find_path():
        if first > at:
            left.append([at, first])
        at = last + 1
    gone = [branch for branch in state.left if branch not in left]
    come = [branch for branch in left if branch not in state.left]
    state.left = left
    for new, old in zip_longest(come, gone):
        branch = new or (left[-1] if left else None)
        if branch is None:
            return
        text = f"the person went back: lines {branch[0]} to {branch[1] - 1} are no longer in the conversation"
        payload = msgspec.json.encode({"left": branch, "returned": old})
        yield msgspec.structs.replace(_event(entry, REWIND, text, state), payload=payload)


def _compaction(entry: _Entry, state: PiState) -> Records:
    """The event stands before the summary, at the line before its own. What stays is on the way to it."""
    kept_id = text_member(entry.members, "firstKeptEntryId")
    index = integer_member(entry.members, "firstKeptEntryIndex")
    first = state.lines.get(kept_id or f"#{index}") if kept_id or index else None
    path = (line for start, end in state.find_path() for line in range(start, end + 1))
    kept = [line for line in path if first is not None and first <= line < entry.line]
    is_whole = kept_id == entry.key or (first is not None and not kept)
    text = "the conversation was compacted" + ("" if is_whole else ", but for what stayed")
    event = _event(entry, COMPACTION if is_whole else PARTIAL_COMPACTION, text, state)
    payload = msgspec.json.encode({"kept": kept}) if kept else event.payload
    yield msgspec.structs.replace(event, position=max(1, entry.line - 1), payload=payload)
    if checkpoint := object_member(entry.members, "systemMessage"):
        yield from _standing(entry, checkpoint, state)
    yield from _sent(entry, entry.members.get("summary"), "user", state, kind=COMPACTION_SUMMARY, delivery="reworded")


def _context_edit(entry: _Entry, state: PiState) -> Records:
    """Another content of a receipt takes its place. A message leaves by an event that keeps all others."""
    target = text_member(entry.members, "targetId") or ""
    replacement = entry.members.get("replacement")
    if name := state.receipts.get(target):
        content = _receipt_content(replacement) if replacement else None
        reason = LATER_TEXT if replacement else "left out by an edit of the context"
        yield SupersedeRecord(line=entry.line, run=state.run, call=name, reason=reason, content=content, at=entry.at)
    line = state.messages.get(target)
    if name or line is None:
        yield _event(entry, "context_edit", "the context was edited", state)
        return
    kept = [other for start, end in state.find_path() for other in range(start, end + 1) if other != line]
    event = _event(entry, PARTIAL_COMPACTION, f"the message of line {line} left the context", state)
    yield msgspec.structs.replace(event, position=entry.line - 1, payload=msgspec.json.encode({"kept": kept}))
    yield from _sent(entry, replacement, "user", state, kind=META)


def _sent(
    entry: _Entry,
    content: DocumentValue | None,
    role: str,
    state: PiState,
    *,
    kind: str | None = None,
    delivery: Delivery = "sent",
) -> Records:
    """A message with a text, or with blocks; nothing for an empty one."""
    if content is None or content.raw in (b'""', b"[]") or not (content.is_text or content.is_list):
        return
    state.messages[entry.key] = entry.line
    yield MessageRecord(
        line=entry.line,
        run=state.run,
        key=entry.key,
        role=role,
        content=content.raw,
        step=entry.key,
        at=entry.at,
        kind=kind,
        delivery=delivery,
    )


def _message(entry: _Entry, message: Members, state: PiState) -> Records:
    role, content = text_member(message, "role"), message.get("content")
    if role == "user":
        if not state.title and (title := summarize(_text(content).strip())):
            state.title = True
            yield RunRecord(line=entry.line, run=state.run, title=title)
        yield from _sent(entry, content, role, state)
    elif role == "assistant":
        yield from _answer(entry, message, state)
    elif role == "toolResult":
        yield from _tool_result(entry, message, state)
    elif role == "system":
        yield from _standing(entry, message, state)
    elif role in ("custom", "hookMessage"):
        yield from _sent(entry, content, "user", state, kind=META)
    elif role == "bashExecution":
        delivery: Delivery = "withheld" if flag_member(message, "excludeFromContext") else "reworded"
        text = f"Ran `{text_member(message, 'command')}`\n{text_member(message, 'output') or '(no output)'}"
        shown = DocumentValue(entry.node.document, dump_json(text), entry.node.start)
        yield from _sent(entry, shown, "user", state, kind=META, delivery=delivery)
    else:
        yield _event(entry, role or "message", role or "a message without a role", state)


def _text(content: DocumentValue | None) -> str:
    if content is None or content.is_text:
        return (content.text() or "") if content else ""
    return "".join(text_member(block.members(), "text") or "" for block in content.elements())


def _answer(entry: _Entry, message: Members, state: PiState) -> Records:
    yield from _first_model(entry, text_member(message, "model"), state)
    is_unsent = text_member(message, "stopReason") in _UNSENT
    texts = []
    for number, block in enumerate(list_member(message, "content")):
        members = block.members()
        kind = text_member(members, "type")
        if kind == "text":
            texts.append(block)
        elif kind == "toolCall" and not is_unsent:
            yield from _call(entry, block, members, number, state)
        else:
            text = text_member(members, "thinking") or kind or "a block without a type"
            name = {"thinking": "reasoning", "toolCall": "unfinished_call"}.get(kind or "", kind or "block")
            yield msgspec.structs.replace(_event(entry, name, text, state), payload=block.raw)
    if texts:
        content = DocumentValue(entry.node.document, join_array([block.raw for block in texts]), entry.node.start)
        yield from _sent(entry, content, "assistant", state, delivery="withheld" if is_unsent else "sent")
    if is_unsent:
        error = text_member(message, "errorMessage") or "the answer was interrupted"
        yield msgspec.structs.replace(_event(entry, "answer_failed", error, state), level="error")
    yield from _usage(entry, object_member(message, "usage"), message, state)


def _usage(entry: _Entry, usage: Members, message: Members, state: PiState) -> Records:
    """The usage of a request that was answered; others have zeros."""
    new, read, written = (integer_member(usage, name) for name in ("input", "cacheRead", "cacheWrite"))
    if not (new or read or written):
        return
    yield UsageRecord(
        line=entry.line,
        run=state.run,
        request=entry.key,
        input_tokens=new,
        cache_read_tokens=read,
        cache_creation_tokens=written,
        output_tokens=integer_member(usage, "output"),
        usage=message["usage"].raw,
        at=entry.at,
    )


def _call(entry: _Entry, block: DocumentValue, members: Members, number: int, state: PiState) -> Records:
    call, tool, args = text_member(members, "id"), text_member(members, "name"), members.get("arguments")
    if not call or not tool:
        yield block.problem(f"$.message.content[{number}]", "a call without an id or a name")
        return
    place = f"{entry.key} {number}"
    name = state.places.get(place)
    if name is None:
        known = state.names.setdefault(call, [])
        name = unused_id(call, f"{call}-{entry.line}", known)
        known.append(name)
        state.places[place] = state.waiting[name] = name
    yield CallRecord(
        line=entry.line,
        run=state.run,
        call=name,
        tool=tool,
        args=args.raw if args else b"{}",
        step=entry.key,
        at=entry.at,
        inherited=_is_copied(entry, state),
    )


def _is_copied(entry: _Entry, state: PiState) -> bool:
    """True for a line that is older than the file."""
    at, created = parse_instant(entry.at or ""), parse_instant(state.created)
    return at is not None and created is not None and at < created


def _answered_call(call: str, state: PiState) -> str:
    """The name of the call with this id that an answer is of; of parallel ones the first without an answer."""
    names = state.names.get(call, [call])
    waiting = [name for name in names if name in state.waiting]
    return waiting[0] if waiting else names[-1]


def _tool_result(entry: _Entry, message: Members, state: PiState) -> Records:
    call = text_member(message, "toolCallId")
    if not call:
        raise Untrusted("no answer of a tool: it has no toolCallId", "$.message.toolCallId")
    name = state.places.get(entry.key) or _answered_call(call, state)
    state.places[entry.key] = state.receipts[entry.key] = name
    state.waiting.pop(name, None)
    content, details = message.get("content"), message.get("details")
    blocks = content.elements() if content else []
    is_text = all(text_member(block.members(), "type") == "text" for block in blocks)
    shown = object_member(message, "details")
    yield ResultRecord(
        line=entry.line,
        run=state.run,
        call=name,
        result=details.raw if details and details.raw != b"{}" else None,
        is_error=flag_member(message, "isError"),
        at=entry.at,
        duration_ms=integer_member(message, "durationMs") if "durationMs" in message else None,
    )
    yield ReceiptRecord(
        line=entry.line,
        run=state.run,
        call=name,
        content=_receipt_content(content),
        fidelity="recorded" if is_text and _text(content).strip() else "reconstructed",
        at=entry.at,
    )
    if path := text_member(shown, "fullOutputPath"):
        yield ArtifactRecord(line=entry.line, run=state.run, call=name, role="output", path=path)
    if nested := message.get("nestedCalls"):
        event = _event(entry, "nested_calls", "it called other tools", state, name)
        yield msgspec.structs.replace(event, payload=nested.raw)


def _receipt_content(content: DocumentValue | None) -> bytes:
    """A text alone where that is all, else the blocks."""
    if content is None or content.is_text:
        return content.raw if content else b'""'
    blocks = content.elements()
    texts = [block.members().get("text") for block in blocks]
    if not blocks:
        return b'""'
    only = texts[0] if len(texts) == 1 else None
    return only.raw if only and only.is_text else content.raw


def _standing(entry: _Entry, message: Members, state: PiState) -> Records:
    """The prompt and the tools of the first message of this role, or of a compaction; later ones are changes."""
    is_first = not state.has_system or "systemMessage" in entry.members
    state.has_system = True
    sections = [section for section in object_member(message, "sections").values() if section.is_text]
    texts = [part for part in (message.get("content"), *sections) if part and part.is_text and part.raw != b'""']
    if not is_first:
        yield _event(entry, "system_changed", "the prompt or the tools changed", state)
    if texts:
        yield MessageRecord(
            line=entry.line,
            run=state.run,
            key=f"{entry.key}-system",
            role="system",
            content=dump_json("\n\n".join(part.text() or "" for part in texts)),
            at=entry.at,
            kind=SYSTEM_PROMPT if is_first else META,
            delivery="reworded",
        )
    tools = message.get("toolsAdded")
    if is_first and tools and tools.is_list and tools.raw != b"[]":
        yield MessageRecord(
            line=entry.line,
            run=state.run,
            key=f"{entry.key}-tools",
            role="system",
            content=tools.raw,
            at=entry.at,
            kind=TOOL_DEFINITIONS,
            delivery="reworded",
        )


FORMATS: tuple[Format, ...] = (
    Format(
        name=AGENT,
        title="pi session",
        agent=AGENT,
        namespace=AGENT,
        mark="a header of the type session, with an id and a folder",
        sniff=sniff,
        read=read,
        is_global_call_id=is_global_call_id,
    ),
)

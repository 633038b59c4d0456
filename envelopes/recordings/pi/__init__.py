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
5. After release 0.73, lines with the role system have the prompt, in sections, and the tools; later ones change them.
6. Ids of calls are those of the provider, which need not be unique: a call whose id was there before is named by it and
   its line, and an answer is that of the last call with its id that has none.
7. A fork copies lines into a file of its own, whose header is younger than they are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import msgspec

from envelopes.recordings.base import (
    META,
    SYSTEM_PROMPT,
    TOOL_DEFINITIONS,
    ArtifactRecord,
    CallRecord,
    Delivery,
    Format,
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
    list_member,
    object_member,
    text_member,
    time_member,
)
from envelopes.recordings.documents import DocumentValue, unused_id
from envelopes.recordings.json_lines import ForeignEntry, parsed_lines, struct_reader
from envelopes.recordings.pi.session_tree import (
    Members,
    PiEntry,
    PiState,
    Records,
    follow,
    make_event,
    make_message,
    read_compaction,
    read_context_edit,
    receipt_content,
)
from envelopes.recordings.session_lines import read_session
from envelopes.schema.result import summarize
from envelopes.schema.timestamps import parse_instant
from envelopes.text.untrusted_json import Untrusted, dump_json, join_array, join_object

AGENT = "pi"
BRANCH_SUMMARY = "branch summary"
_UNSENT = ("error", "aborted")  # reasons why an answer ended
_GLOBAL_CALL = re.compile(r"toolu_\w+|call_[A-Za-z0-9]{20,}")
_SERVER_NAMES = {"server", "tool", "fullOutputPath"}  # of an answer of an MCP server, which is not recorded


class PiLine(ForeignEntry, frozen=True, gc=False, rename="camel"):
    """The members by which a header differs from a line of another agent."""

    type: str | None = None
    id: str | None = None
    cwd: str | None = None


_read_line = struct_reader(PiLine)


def sniff(head: bytes, path: SourcePath) -> bool:
    """The first line is the header of a session: no other format has one of this type with a folder and an id."""
    first = next(parsed_lines(head, _read_line), None)
    return first is not None and first.type == "session" and bool(first.id and first.timestamp and first.cwd)


def is_global_call_id(call: str) -> bool:
    """Ids that these providers drew at random; those of others may count from one."""
    return _GLOBAL_CALL.fullmatch(call) is not None


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state = msgspec.convert(saved.get(AGENT, {}), PiState)
    state.run = state.run or path.stem.rpartition("_")[2]
    yield from read_session(lines, saved, AGENT, state, lambda node: _line_records(node, state))


def _line_records(node: DocumentValue, state: PiState) -> Records:
    members = node.members()
    kind, key = text_member(members, "type"), text_member(members, "id")
    if kind is None:
        raise Untrusted("no entry: it has no type", "$.type")
    entry = PiEntry(node, members, key or f"line-{_digest(node.raw)}", time_member(members, "timestamp"))
    if kind == "session":
        yield from _header(entry, state)
        return
    if not state.facts:
        yield RunRecord(line=node.line, run=state.run, agent=AGENT, started_at=entry.at)
        state.facts = True
    yield from follow(entry, state)
    state.count += 1
    if key is None:
        state.lines.setdefault(f"#{state.count}", node.line)
    if kind == "message":
        yield from _message(entry, object_member(members, "message"), state)
    elif kind == "compaction":
        yield from read_compaction(entry, state)
        if checkpoint := object_member(members, "systemMessage"):
            yield from _standing(entry, checkpoint, state)
    elif kind in ("branch_summary", "custom_message"):
        name, role = ("summary", BRANCH_SUMMARY) if kind == "branch_summary" else ("content", META)
        delivery: Delivery = "reworded" if kind == "branch_summary" else "sent"
        yield from make_message(entry, members.get(name), "user", state, kind=role, delivery=delivery)
    elif kind == "context_edit":
        yield from read_context_edit(entry, state)
    else:
        yield make_event(entry, kind, text_member(members, "customType") or kind, state)
        yield from _fact_changes(entry, kind, state)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]


def _header(entry: PiEntry, state: PiState) -> Records:
    run = text_member(entry.members, "id") or state.run
    if state.facts and run != state.run:
        state.starts, state.left, state.last = [], [], 0
        state.title = state.model = False
        state.system = ""
    state.run, state.facts, state.created = run, True, entry.at or ""
    yield RunRecord(
        line=entry.line,
        run=state.run,
        agent=AGENT,
        cwd=text_member(entry.members, "cwd"),
        started_at=entry.at,
        extra=entry.node.raw if "parentSession" in entry.members or "branchedFrom" in entry.members else None,
    )


def _fact_changes(entry: PiEntry, kind: str, state: PiState) -> Records:
    """A name that the person gave the session, and its first model."""
    if kind == "session_info" and (title := summarize(text_member(entry.members, "name") or "")):
        state.title = True
        yield RunRecord(line=entry.line, run=state.run, title=title)
    elif kind == "model_change":
        yield from _first_model(entry, text_member(entry.members, "modelId"), state)


def _first_model(entry: PiEntry, model: str | None, state: PiState) -> Records:
    if model and not state.model:
        state.model = True
        yield RunRecord(line=entry.line, run=state.run, model=model)


def _message(entry: PiEntry, message: Members, state: PiState) -> Records:
    role, content = text_member(message, "role"), message.get("content")
    if role == "user":
        if not state.title and (title := summarize(_text(content).strip())):
            state.title = True
            yield RunRecord(line=entry.line, run=state.run, title=title)
        yield from make_message(entry, content, role, state)
    elif role == "assistant":
        yield from _answer(entry, message, state)
    elif role == "toolResult":
        yield from _tool_result(entry, message, state)
    elif role == "system":
        yield from _standing(entry, message, state)
    elif role in ("custom", "hookMessage"):
        yield from make_message(entry, content, "user", state, kind=META)
    elif role == "bashExecution":
        delivery: Delivery = "withheld" if flag_member(message, "excludeFromContext") else "reworded"
        text = f"Ran `{text_member(message, 'command')}`\n{text_member(message, 'output') or '(no output)'}"
        shown = DocumentValue(entry.node.document, dump_json(text), entry.node.start)
        yield from make_message(entry, shown, "user", state, kind=META, delivery=delivery)
    else:
        yield make_event(entry, role or "message", role or "a message without a role", state)


def _text(content: DocumentValue | None) -> str:
    if content is None or content.is_text:
        return (content.text() or "") if content else ""
    return "".join(text_member(block.members(), "text") or "" for block in content.elements())


def _answer(entry: PiEntry, message: Members, state: PiState) -> Records:
    yield from _first_model(entry, text_member(message, "model"), state)
    state.api = text_member(message, "api") or ""
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
            yield msgspec.structs.replace(make_event(entry, name, text, state), payload=block.raw)
    if texts:
        content = DocumentValue(entry.node.document, join_array([block.raw for block in texts]), entry.node.start)
        yield from make_message(entry, content, "assistant", state, delivery="withheld" if is_unsent else "sent")
    if is_unsent:
        error = text_member(message, "errorMessage") or "the answer was interrupted"
        yield msgspec.structs.replace(make_event(entry, "answer_failed", error, state), level="error")
    yield from _usage(entry, object_member(message, "usage"), message, state)


def _usage(entry: PiEntry, usage: Members, message: Members, state: PiState) -> Records:
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


def _call(entry: PiEntry, block: DocumentValue, members: Members, number: int, state: PiState) -> Records:
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
        state.places[place], state.waiting[name] = name, entry.key
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


def _is_copied(entry: PiEntry, state: PiState) -> bool:
    """True for a line that is older than the file."""
    at, created = parse_instant(entry.at or ""), parse_instant(state.created)
    return at is not None and created is not None and at < created


def _answered_call(call: str, state: PiState) -> str:
    """The name of the call with this id that an answer is of; of parallel ones the first without an answer."""
    names = state.names.get(call, [call])
    waiting = [name for name in names if name in state.waiting]
    return next((name for name in waiting if state.waiting[name] == state.waiting[waiting[-1]]), names[-1])


def _tool_result(entry: PiEntry, message: Members, state: PiState) -> Records:
    call = text_member(message, "toolCallId")
    if not call:
        raise Untrusted("no answer of a tool: it has no toolCallId", "$.message.toolCallId")
    name = state.places.get(entry.key) or _answered_call(call, state)
    state.places[entry.key] = state.receipts[entry.key] = name
    state.waiting.pop(name, None)
    content, details = message.get("content"), message.get("details")
    is_error = flag_member(message, "isError")
    blocks = content.elements() if content else []
    is_text = all(text_member(block.members(), "type") == "text" for block in blocks)
    members = object_member(message, "details") if details and details.is_object else {}
    is_server = bool(members) and (text_member(message, "toolName") or "").startswith("mcp__")
    is_names = is_server and members.keys() <= _SERVER_NAMES
    is_prefixed = bool(is_error) and state.api.startswith("mistral")  # with `[tool error]`
    yield ResultRecord(
        line=entry.line,
        run=state.run,
        call=name,
        result=details.raw if details and details.raw != b"{}" and not is_names else None,
        is_error=is_error,
        at=entry.at,
        duration_ms=integer_member(message, "durationMs") if "durationMs" in message else None,
        extra=join_object({"details": details.raw}) if details and is_names else None,
    )
    yield ReceiptRecord(
        line=entry.line,
        run=state.run,
        call=name,
        content=receipt_content(content),
        fidelity="recorded" if is_text and not is_prefixed and _text(content).strip() else "reconstructed",
        at=entry.at,
    )
    if path := text_member(members, "fullOutputPath"):
        yield ArtifactRecord(line=entry.line, run=state.run, call=name, role="output", path=path)
    if nested := message.get("nestedCalls"):
        event = make_event(entry, "nested_calls", "it called other tools", state, name)
        yield msgspec.structs.replace(event, payload=nested.raw)


def _standing(entry: PiEntry, message: Members, state: PiState) -> Records:
    """The prompt and the tools of the first message of this role, or of a compaction; later ones are changes."""
    state.system = state.system or entry.key
    is_first = state.system == entry.key or "systemMessage" in entry.members
    sections = [section for section in object_member(message, "sections").values() if section.is_text]
    texts = [part for part in (message.get("content"), *sections) if part and part.is_text and part.raw != b'""']
    if not is_first:
        yield make_event(entry, "system_changed", "the prompt or the tools changed", state)
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

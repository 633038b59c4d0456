"""Chats of the Gemini CLI, `chats/session-….json` up to release 0.39 and `.jsonl` from 0.40.

A document is `{sessionId, projectHash, startTime, lastUpdated, messages[]}`. A file of lines has a header without
`messages`, then a message a line. A message that changed comes again under its `id`; `{"$set": {…}}` changes the
header or replaces all messages, `{"$rewindTo": id}` takes away that message and all behind it.

    chat.py          a message and its calls; the state that a reader keeps
    conversation.py  what `$set` and `$rewindTo` take out of the conversation

The file of a subagent is `chats/<session>/<id>.jsonl` and its header says so. Its id is six characters long, so its run
is `<session>/<id>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from envelopes.recordings.base import Format, LineProblem, Record, RunRecord, SourceLine, SourcePath
from envelopes.recordings.document_fields import list_member, text_member, time_member
from envelopes.recordings.documents import DocumentValue, JsonDocument, outline, place_records
from envelopes.recordings.gemini_cli.chat import LEVELS, ChatState, checked_records, message_records
from envelopes.recordings.gemini_cli.conversation import is_copied, replace_history, rewind_history, take_out
from envelopes.recordings.json_lines import ForeignEntry, parsed_lines, struct_reader
from envelopes.recordings.places import name_line, name_position
from envelopes.recordings.session_lines import read_session
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted

Records = Iterator[Record | LineProblem]
_SLOT = "gemini-cli"
_SUBAGENT, _CHATS = "subagent", "chats"


class ChatHeader(ForeignEntry, frozen=True, gc=False, rename="camel"):
    """The first line of a file of lines."""

    session_id: str | None = None
    project_hash: str | None = None
    start_time: str | None = None
    messages: msgspec.Raw = msgspec.Raw()


_read_header = struct_reader(ChatHeader)


def sniff_document(head: bytes, path: SourcePath) -> bool:
    """The document has a session, the hash of its project, and messages."""
    return {"sessionId", "projectHash", "messages"} <= outline(head).keys


def sniff_lines(head: bytes, path: SourcePath) -> bool:
    """The first line has a session and the hash of its project, and no messages."""
    header = next(parsed_lines(head, _read_header), ChatHeader())
    return bool(header.session_id and header.project_hash and not bytes(header.messages))


def is_global_call_id(call: str) -> bool:
    """Some releases count the calls of a chat."""
    return False


def read_document(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    root = JsonDocument(lines).parse()
    if not isinstance(root, DocumentValue):
        yield from () if root is None else (root,)
        return
    members = root.members()
    state = ChatState(run=path.stem)
    records = list(_header_records(root, members, state, path))
    for number, message in enumerate(list_member(members, "messages")):
        records += checked_records(message, state, f"$.messages[{number}]")
    yield from place_records([*records, *root.document.take_remarks(state.run)])


def read_lines(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state = msgspec.convert(saved.get(_SLOT, {}), ChatState)
    state.run = state.run or path.stem
    yield from read_session(lines, saved, _SLOT, state, lambda node: _line_records(node, state, path))


def _line_records(node: DocumentValue, state: ChatState, path: SourcePath) -> Records:
    members = node.members()
    if not node.is_object:
        raise Untrusted("expected a JSON object")
    if "$set" in members:
        changes = members["$set"].members()
        yield from _header_records(node, changes, state, path)
        if "messages" in changes:
            yield from replace_history(node, list_member(changes, "messages"), state)
    elif "$rewindTo" in members:
        yield from take_out(node, state)
        yield from rewind_history(node, text_member(members, "$rewindTo") or "", state)
    elif "type" in members or "sessionId" not in members:
        if text_member(members, "type") not in LEVELS:
            yield from take_out(node, state)
        yield from message_records(node, state, "$", is_history=is_copied(node, state))
    else:
        yield from _header_records(node, members, state, path)


def _header_records(
    node: DocumentValue, members: dict[str, DocumentValue], state: ChatState, path: SourcePath
) -> Records:
    parent = None
    if session := text_member(members, "sessionId"):
        parent = _parent_session(path) if text_member(members, "kind") == _SUBAGENT else None
        # A resumed chat repeats its session without its kind.
        state.run = f"{parent}/{session}" if parent else state.run if state.run.endswith(f"/{session}") else session
    started, ended = (time_member(members, name) for name in ("startTime", "lastUpdated"))
    yield RunRecord(
        line=node.line,
        run=state.run,
        parent_run=parent,
        agent="gemini-cli",
        title=summarize(text_member(members, "summary") or "") or None,
        started_at=started,
        last_at=ended,
    )


def _parent_session(path: SourcePath) -> str | None:
    """The session in whose folder the file of a subagent is."""
    *above, folder, _name = ["", *path.path.split("/")]
    return folder if folder and above[-1] == _CHATS else None


DOCUMENT = Format(
    name="gemini-cli",
    title="Gemini CLI chat",
    agent="gemini-cli",
    namespace="gemini-cli",
    mark="a document with sessionId, projectHash and messages",
    is_document=True,
    sniff=sniff_document,
    read=read_document,
    is_global_call_id=is_global_call_id,
    version=4,
    name_place=name_position,
)
FORMATS: tuple[Format, ...] = (
    msgspec.structs.replace(
        DOCUMENT,
        name="gemini-cli-jsonl",
        title="Gemini CLI chat (JSON lines)",
        mark="a first line with sessionId and projectHash",
        is_document=False,
        sniff=sniff_lines,
        read=read_lines,
        name_place=name_line,
    ),
    DOCUMENT,
)

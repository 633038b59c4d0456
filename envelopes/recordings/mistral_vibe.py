"""Sessions of Mistral Vibe, releases 2.7 to 2.20: a folder with the messages as they are sent, and facts beside them.

    session_<time>_<id>/messages.jsonl    {role: user | assistant | tool, content, tool_calls?, tool_call_id?, …}
    session_<time>_<id>/meta.json         {session_id, start_time, end_time, title, environment, config, …}
    session_<time>_<id>/agents/<agent>_<time>_<id>/…    the same of a subagent

1. A message of the role tool is a receipt. Nothing else is recorded of a result, and no times.
2. A message of the user that is `injected` is the client's own.
3. A compaction begins another session, whose first messages are what it kept and the summary. Neither session states
   the other in its messages.
4. When a person goes back, the file is written anew: what they left is not recorded.
5. Ids of calls are those of the provider, which need not be unique beyond their session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from envelopes.alignment.vibe_receipts import AGENT, find_failure
from envelopes.recordings.base import (
    META,
    CallRecord,
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
)
from envelopes.recordings.document_fields import flag_member, list_member, object_member, text_member, time_member
from envelopes.recordings.documents import DocumentValue, JsonDocument, decode_arguments, outline, unused_id
from envelopes.recordings.json_lines import ForeignEntry, parsed_lines, storable, struct_reader
from envelopes.recordings.session_lines import read_session
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
META_FILE = "meta.json"
_KNOWN = 4_096  # calls
_FOLDER = re.compile(r"(?:(?:.*/)?(?P<parent>[^/]+)/agents/|(?:.*/)?)(?P<name>[^/]+)/[^/]+")
_NO_FOLDER = "the folder of a file names its session; import it with that folder"


class VibeLine(ForeignEntry, frozen=True, gc=False):
    """The members by which a line differs from a message of another program."""

    role: str | None = None
    message_id: str | None = None
    injected: bool | None = None


class VibeState(msgspec.Struct):
    """The state that the lines so far left.

    `names` are the names of calls by their ids, `lines` by the message that has them: a line may be there twice.
    """

    run: str = ""
    has_facts: bool = False
    names: dict[str, str] = {}
    lines: dict[str, str] = {}
    used: list[str] = []

    def forget_oldest(self) -> None:
        del self.used[:-_KNOWN]
        for table in (self.names, self.lines):
            while len(table) > _KNOWN:
                del table[next(iter(table))]


_read_line = struct_reader(VibeLine)


def sniff(head: bytes, path: SourcePath) -> bool:
    """The first message has an id and a flag that other programs do not write."""
    first = next(parsed_lines(head, _read_line), None)
    return first is not None and bool(first.role and first.message_id) and first.injected is not None


def sniff_facts(head: bytes, path: SourcePath) -> bool:
    """The name is that of such a file, and the content an object with a session and its start."""
    return path.path.rsplit("/", 1)[-1] == META_FILE and outline(head).keys >= {"session_id", "start_time"}


def run_of(path: SourcePath) -> str:
    """The name of the session's folder; that of a subagent is below its session."""
    folder = _FOLDER.fullmatch(path.path)
    if folder is None:
        return ""
    return f"{folder['parent']}/{folder['name']}" if folder["parent"] else folder["name"]


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state = msgspec.convert(saved.get(AGENT, {}), VibeState)
    state.run = state.run or run_of(path)
    if not state.run:
        for line in lines:
            yield LineProblem(line=line.number, path="$", reason=_NO_FOLDER, raw=line.raw)
        return
    yield from read_session(lines, saved, AGENT, state, lambda node: _read_message(node, path, state))


def _read_message(node: DocumentValue, path: SourcePath, state: VibeState) -> Records:
    members = node.members()
    role, content = text_member(members, "role"), members.get("content")
    if role is None:
        raise Untrusted("no message: it has no role", "$.role")
    if not state.has_facts:
        state.has_facts = True
        folder = _FOLDER.fullmatch(path.path)
        parent = folder["parent"] if folder else None
        yield RunRecord(line=node.line, run=state.run, parent_run=parent, agent=AGENT)
    if role == "tool":
        yield from _receipt(node, members, content, state)
        return
    thought = members.get("reasoning_content")
    if thought is not None and thought.is_text and (text := summarize((thought.text() or "").strip())):
        yield EventRecord(line=node.line, run=state.run, kind="reasoning", message=storable(text), payload=thought.raw)
    key = text_member(members, "message_id") or f"message-{node.line}"
    if content is not None and (content.is_list or (content.is_text and content.raw != b'""')):
        yield MessageRecord(
            line=node.line,
            run=state.run,
            key=key,
            role=role,
            content=content.raw,
            step=key if role == "assistant" else None,
            kind=META if role == "user" and flag_member(members, "injected") else None,
        )
    for number, call in enumerate(list_member(members, "tool_calls")):
        yield _call(node, call.members(), f"{key}-{number}", key, state)


def read_facts(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    """The facts that the client keeps beside the messages, which it writes anew after each turn."""
    document, run = JsonDocument(lines), run_of(path)
    root = document.parse()
    if root is None:
        return
    if not isinstance(root, DocumentValue):
        yield root
        return
    if not run:
        yield document.refuse(Untrusted(_NO_FOLDER, "$"))
        return
    try:
        members = root.members()
    except Untrusted as refusal:
        yield document.refuse(refusal)
        return
    yield RunRecord(
        line=root.line,
        run=run,
        agent=AGENT,
        title=summarize(text_member(members, "title") or "") or None,
        cwd=text_member(object_member(members, "environment"), "working_directory"),
        model=text_member(object_member(members, "config"), "active_model"),
        started_at=time_member(members, "start_time"),
        last_at=time_member(members, "end_time"),
    )
    yield from document.take_remarks(run)


def _call(node: DocumentValue, call: Members, unnamed: str, step: str, state: VibeState) -> CallRecord:
    function = object_member(call, "function")
    tool, arguments = text_member(function, "name"), function.get("arguments")
    if not tool:
        raise Untrusted("a call without a tool", "$.tool_calls")
    key = text_member(call, "id") or unnamed
    if unnamed not in state.lines:
        state.lines[unnamed] = unused_id(key, f"{key}-{node.line}", state.used)
        state.used.append(state.lines[unnamed])
    name = state.names[key] = state.lines[unnamed]
    args = b"{}" if arguments is None else decode_arguments(arguments.raw) if arguments.is_text else arguments.raw
    return CallRecord(line=node.line, run=state.run, call=name, tool=tool, args=args, step=step)


def _receipt(node: DocumentValue, members: Members, content: DocumentValue | None, state: VibeState) -> Records:
    key = text_member(members, "tool_call_id")
    if not key or content is None:
        raise Untrusted("an answer without the id of its call, or without content", "$")
    call = state.names.get(key, key)
    if content.is_text and find_failure(content.text() or "") is not None:
        yield ResultRecord(line=node.line, run=state.run, call=call, result=None, is_error=True)
    yield ReceiptRecord(line=node.line, run=state.run, call=call, content=content.raw)


FORMATS: tuple[Format, ...] = (
    Format(
        name="mistral-vibe-facts",
        title="Mistral Vibe session's facts",
        agent=AGENT,
        namespace=AGENT,
        mark="an object with a session_id and its start_time, in a file meta.json",
        is_document=True,
        recorded_as=AGENT,
        sniff=sniff_facts,
        read=read_facts,
        is_global_call_id=lambda _call: False,
        run_of=run_of,
    ),
    Format(
        name=AGENT,
        title="Mistral Vibe session",
        agent=AGENT,
        namespace=AGENT,
        mark="a first message with an id and whether the client added it",
        sniff=sniff,
        read=read,
        is_global_call_id=lambda _call: False,
        run_of=run_of,
    ),
)

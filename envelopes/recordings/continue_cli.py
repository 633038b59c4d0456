"""Sessions of the Continue CLI (`cn`), `~/.continue/sessions/<session>.json`, as release 1.5.47 writes them.

    {sessionId, title, workspaceDirectory, history: [{message, contextItems, toolCallStates?, conversationSummary?}], …}

1. An item of the history is a message. Each of the `toolCallStates` of one of the model is a call, `{toolCallId,
   toolCall: {function: {name, arguments}}, status, output?: [{content}]}`. The contents of `output`, joined by line
   breaks, are what the client sends: the receipt. While a command runs, `output` has what it has printed.
2. For a call without an output that other messages follow the client sends `Tool cancelled`.
3. `status` is `errored` for a call that failed before it ran or while it ran, and `canceled` for one that was refused.
   A command that failed and printed no error is `done`.
4. Where the context is compacted, the history is replaced by an item with the `conversationSummary`. What follows is
   another run, since the file no longer has what was before: that of an earlier import stays in the first run.
5. `message.usage` is that of a request. There are no times; `sessions.json` beside it has that of the beginning.
6. The extensions of Continue for editors keep sessions in the same folder, with a `mode`. They were not checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from envelopes.recordings.base import (
    COMPACTION,
    COMPACTION_SUMMARY,
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
    UsageRecord,
)
from envelopes.recordings.document_fields import (
    integer_member,
    join_texts,
    list_member,
    object_member,
    text_member,
    time_member,
)
from envelopes.recordings.documents import (
    DocumentValue,
    JsonDocument,
    outline,
    place_records,
    read_arguments,
    unused_id,
)
from envelopes.recordings.json_lines import epoch_time, storable
from envelopes.recordings.places import PlaceName
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, dump_json

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
AGENT = "continue-cli"
INDEX = "sessions.json"
UNTITLED = "Untitled Session"
CANCELLED = "Tool cancelled"
OF_EDITORS = ("mode", "chatModelTitle")
_ENDED = frozenset({"done", "errored", "canceled"})
PLACES = 1_000  # to an item
_HEADER = 2  # places of an item before those of its calls: that of a compaction, and of the message


def sniff(head: bytes, path: SourcePath) -> bool:
    keys = outline(head).keys
    return {"sessionId", "workspaceDirectory", "history"} <= keys and b'"contextItems"' in head


def sniff_index(head: bytes, path: SourcePath) -> bool:
    names = (b'"sessionId"', b'"dateCreated"', b'"workspaceDirectory"')
    return path.path.endswith(INDEX) and head.lstrip().startswith(b"[") and all(name in head for name in names)


def read_index(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    """Nothing by itself. It is a recording so that it is stored: a later reading of a session finds it there."""
    root = JsonDocument(lines).parse()
    if not isinstance(root, DocumentValue) and root is not None:
        yield root


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    root = JsonDocument(lines).parse()
    if not isinstance(root, DocumentValue):
        yield from () if root is None else (root,)
        return
    try:
        session = _Session(root, path)
        records = list(session.read())
    except Untrusted as refusal:
        yield root.problem(refusal.path, refusal.reason)
        return
    yield from place_records([*records, *root.document.take_remarks(session.run)], by_lines=False)


class _Session:
    """Reads a session; `calls` are the ids of its calls so far."""

    def __init__(self, root: DocumentValue, path: SourcePath) -> None:
        self._root, self._path = root, path
        self._members = root.members()
        self._session = text_member(self._members, "sessionId") or path.stem
        self.run = self._session + _name_part(self._members)
        self._calls: set[str] = set()
        self._has_model = self._has_title = False
        self._is_of_editor = any(name in self._members for name in OF_EDITORS)

    def read(self) -> Records:
        yield self._read_facts()
        items = list_member(self._members, "history")
        for number, item in enumerate(items, start=1):
            try:
                yield from self._read_item(number, item, is_last=number == len(items))
            except Untrusted as refusal:
                yield item.problem(refusal.path, refusal.reason)

    def _read_facts(self) -> RunRecord:
        title = text_member(self._members, "title") or ""
        self._has_title = title not in ("", UNTITLED)
        return RunRecord(
            line=self._root.line,
            run=self.run,
            agent=AGENT,
            title=(summarize(title) or None) if self._has_title else None,
            cwd=text_member(self._members, "workspaceDirectory"),
            started_at=self._find_beginning(),
        )

    def _find_beginning(self) -> str | None:
        """The time of the session in the list of sessions, milliseconds in a text."""
        folder = self._path.folder
        if folder is None or INDEX not in folder.names():
            return None
        listed = JsonDocument([SourceLine(1, 0, folder.read(INDEX))]).parse()
        for entry in listed.elements() if isinstance(listed, DocumentValue) else ():
            members = entry.members()
            if text_member(members, "sessionId") == self._session and "dateCreated" in members:
                written = members["dateCreated"].text() or ""
                return epoch_time(int(written)) if written.isdecimal() else time_member(members, "dateCreated")
        return None

    def _read_item(self, number: int, item: DocumentValue, *, is_last: bool) -> Records:
        members = item.members()
        message = object_member(members, "message")
        role = text_member(message, "role")
        if role is None:
            raise Untrusted("no message: it has no role", f"{item.path}.message")
        key, first = f"item-{number}", number * PLACES
        place = first + 1
        is_summary = "conversationSummary" in members
        if is_summary:
            words, summary = "the conversation was compacted", members["conversationSummary"].raw
            yield EventRecord(
                line=item.line, run=self.run, kind=COMPACTION, message=words, payload=summary, position=first
            )
        if role == "thinking":
            words = storable(summarize(text_member(message, "content") or "")) or "reasoning"
            yield EventRecord(line=item.line, run=self.run, kind="reasoning", message=words, position=place)
        elif (content := message.get("content")) is not None and content.raw not in (b'""', b"[]"):
            yield from self._read_title(role, content)
            yield MessageRecord(
                line=content.line,
                run=self.run,
                position=place,
                key=key,
                role=storable(role),
                content=content.raw,
                step=key if role == "assistant" else None,
                kind=COMPACTION_SUMMARY if is_summary else None,
                delivery="reworded" if list_member(members, "contextItems") else "sent",
            )
        yield from self._read_usage(key, message, first)
        for count, state in enumerate(list_member(members, "toolCallStates")):
            try:
                yield from self._read_call(key, state, first + min(_HEADER + count, PLACES - 1), is_last=is_last)
            except Untrusted as refusal:
                yield state.problem(refusal.path, refusal.reason)

    def _read_title(self, role: str, content: DocumentValue) -> Records:
        if role == "user" and not self._has_title and (title := summarize(join_texts(content))):
            self._has_title = True
            yield RunRecord(line=content.line, run=self.run, title=title)

    def _read_usage(self, key: str, message: Members, place: int) -> Records:
        usage = object_member(message, "usage")
        if (model := text_member(usage, "model")) and not self._has_model:
            self._has_model = True
            yield RunRecord(line=message["usage"].line, run=self.run, model=model)
        if "prompt_tokens" not in usage:
            return
        details, counted = object_member(usage, "prompt_tokens_details"), integer_member(usage, "prompt_tokens")
        cached, written = integer_member(details, "cached_tokens"), integer_member(details, "cache_write_tokens")
        # Of Anthropic's API the client counts what is new alone, and names what was written to the cache.
        is_new_alone = "cache_write_tokens" in details
        yield UsageRecord(
            line=message["usage"].line,
            run=self.run,
            position=place,
            request=key,
            input_tokens=counted if is_new_alone else max(0, counted - cached),
            cache_read_tokens=cached,
            cache_creation_tokens=written,
            output_tokens=integer_member(usage, "completion_tokens"),
            usage=message["usage"].raw,
        )

    def _read_call(self, key: str, node: DocumentValue, place: int, *, is_last: bool) -> Records:
        state = node.members()
        function = object_member(object_member(state, "toolCall"), "function")
        own = text_member(state, "toolCallId") or key
        call = unused_id(own, f"{own}-{key}", self._calls)
        self._calls.add(call)
        yield CallRecord(
            line=node.line,
            run=self.run,
            position=place,
            call=call,
            tool=text_member(function, "name") or "unknown",
            args=read_arguments(function.get("arguments")),
            step=key,
        )
        status, outputs = text_member(state, "status"), list_member(state, "output")
        if status in ("errored", "canceled"):
            yield ResultRecord(line=node.line, run=self.run, position=place, call=call, result=None, is_error=True)
        if status in _ENDED and outputs:
            texts = [text_member(output.members(), "content") or "" for output in outputs]
            only = outputs[0].members().get("content") if len(outputs) == 1 else None
            content = only.raw if only and only.is_text else dump_json("\n".join(texts))
        elif not outputs and not is_last:
            content, status = dump_json(CANCELLED), None
        else:
            return
        is_recorded = status is not None and len(outputs) == 1 and not self._is_of_editor
        yield ReceiptRecord(
            line=node.line,
            run=self.run,
            position=place,
            call=call,
            content=content,
            fidelity="recorded" if is_recorded else "reconstructed",
        )


def _name_part(session: Members) -> str:
    """The end of the name of a run that begins with the summary of another one."""
    summaries = [item.members().get("conversationSummary") for item in list_member(session, "history")]
    last = next((summary for summary in reversed(summaries) if summary), None)
    return f"/{hashlib.sha256(last.raw).hexdigest()[:12]}" if last else ""


def name_place(place: int) -> PlaceName:
    """The item of the history, counted from 1."""
    return PlaceName("item", place // PLACES)


FORMATS: tuple[Format, ...] = (
    Format(
        name=AGENT,
        title="Continue CLI session",
        agent=AGENT,
        namespace=AGENT,
        mark="a document with a sessionId, a workspaceDirectory and a history whose items have contextItems",
        is_document=True,
        sniff=sniff,
        read=read,
        is_global_call_id=lambda _call: False,
        name_place=name_place,
    ),
    Format(
        name="continue-cli-index",
        title="Continue CLI's list of sessions",
        agent=AGENT,
        namespace=AGENT,
        mark="sessions.json, a list of objects with a sessionId, a dateCreated and a workspaceDirectory",
        is_document=True,
        sniff=sniff_index,
        read=read_index,
        is_global_call_id=lambda _call: False,
        name_place=name_place,
    ),
)

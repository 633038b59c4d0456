"""Sessions of OpenCode as `opencode export` prints them, releases 1.0 to 1.18, and of its fork Kilo Code, 7.0 to 7.7.

    {info: {id, parentID?, directory, title, version, time}, messages: [{info: {id, role, time, …}, parts: […]}]}

1. A message of the model is an answer, and its parts are in their order: `step-start`, `text`, `reasoning`, `tool`,
   `patch`, and `step-finish` with the tokens of the request.
2. A `tool` is `{callID, tool, state: {status, input, output | error, metadata, title, time, attachments?}}`. `output`,
   or `error`, is the text that the client sends. `metadata` is what the tool kept for the client, and the result,
   unless it has only what the client adds to each (`truncated`, `outputPath`, `approval`). The tool `invalid` stands
   for a call that names no tool. Whether the model got an attachment depends on the model, and is not recorded.
3. `time.compacted` of a tool is when the client cleared its output: later requests have a short note in its place.
4. A message of the user with a part `compaction` asks for a summary, which the message of the model with `summary` is.
   With it, what was before has left the context, but for the messages from `tail_start_id` on.
5. Ids of calls are those of the provider, which need not be unique beyond their session.
6. A session may be read again when it has grown: each slot of a message keeps the place in the run that it had, and
   what follows gets later ones. Of the last message a text without its end is not complete, nor are the arguments of a
   call that waits. Messages that an earlier version had and this one lacks were undone: they left the context.
7. Kilo Code writes the same; its releases have the numbers from 7 on, and OpenCode's those below.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import msgspec

from envelopes.recordings.base import (
    CLEARING,
    COMPACTION,
    COMPACTION_SUMMARY,
    META,
    PARTIAL_COMPACTION,
    REWIND,
    ArtifactRecord,
    CallRecord,
    Delivery,
    EventRecord,
    Format,
    LineProblem,
    LineRecord,
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
from envelopes.recordings.document_fields import (
    flag_member,
    integer_member,
    list_member,
    object_member,
    text_member,
    time_member,
)
from envelopes.recordings.documents import DocumentValue, JsonDocument, outline, place_records
from envelopes.recordings.json_lines import storable
from envelopes.recordings.places import DocumentPlaces, name_position
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, join_array, join_object

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
AGENT, KILO = "opencode", "kilo-code"
INVALID = "invalid"
_FAILED = {"completed": False, "error": True}  # by the status; a call that runs, or waits, has no end
_CLIENT = ("truncated", "outputPath", "approval")  # of every tool's metadata; Kilo Code writes which rule allowed it
_PENDING = "pending"
_HEADER, _TOOL = 2, 4  # slots of a message before its parts: for cleared outputs, for an event; slots of a call
_RELEASE = re.compile(rb'"version"\s*:\s*"(\d{1,4})\.')  # of the session; in a text the quotes are escaped
_FIRST_KILO = 7
_UNSPOKEN = ("step-start", "step-finish", "snapshot")  # parts that only mark a place


class _Message(msgspec.Struct, frozen=True):
    node: DocumentValue
    info: Members
    key: str
    role: str
    at: str | None
    is_open: bool  # it may still be written

    @property
    def parts(self) -> list[DocumentValue]:
        return list_member(self.node.members(), "parts")

    @property
    def size(self) -> int:
        """Its slots, each of which has a place in the run."""
        return _HEADER + sum(_count_slots(part) for part in self.parts)


def _count_slots(part: DocumentValue) -> int:
    return _TOOL if text_member(part.members(), "type") == "tool" else 1


class _Reader:
    """Collects the records of a session.

    `cleared` are outputs that the client cleared later, and when; `tail` is where what the next summary keeps begins.
    """

    def __init__(self, run: str, places: DocumentPlaces) -> None:
        self.run = run
        self.places = places
        self.records: list[Record | LineProblem] = []
        self.cleared: list[tuple[str, SupersedeRecord]] = []
        self.tail: str | None = None
        self.has_model = False

    def add_message(self, message: _Message) -> None:
        """Adds the records of a message; a problem for one that cannot be read."""
        self.places.take(message.key, message.size)
        self.clear_outputs(message.at, self.places.find(message.key, 0))
        try:
            self.records += list(self._read(message))
        except Untrusted as refusal:
            self.records.append(message.node.problem(refusal.path, refusal.reason))

    def add_undone(self, line: int, sizes: Mapping[str, int]) -> None:
        """Adds a rewind for each span of messages that the session had before. `sizes` are of its messages now."""
        spans = self.places.remove_missing(sizes)
        for span in spans:
            text, payload = "messages were removed from the session", msgspec.json.encode({"left": span})
            place = self.places.next
            self.records.append(
                EventRecord(line=line, run=self.run, kind=REWIND, message=text, payload=payload, position=place)
            )
        if spans:
            self.places.skip()

    def clear_outputs(self, until: str | None, place: int) -> None:
        """Adds the ends of the receipts that the client cleared until then; of all without a time."""
        self.cleared.sort(key=itemgetter(0))
        count = len(self.cleared) if until is None else bisect_right(self.cleared, until, key=itemgetter(0))
        self.records += [msgspec.structs.replace(end, position=place) for _, end in self.cleared[:count]]
        del self.cleared[:count]

    def _read(self, message: _Message) -> Records:
        model = text_member(message.info, "modelID")
        if model and not self.has_model:
            self.has_model = True
            yield RunRecord(line=message.node.line, run=self.run, model=model)
        is_summary = bool(flag_member(message.info, "summary")) if message.role == "assistant" else False
        header = self.places.find(message.key, 1)
        if error := message.info.get("error"):
            yield msgspec.structs.replace(self._error(error, message), position=header)
        elif is_summary:
            yield msgspec.structs.replace(self._compaction(message), position=header)
        parts = message.parts
        slot = _HEADER
        for number, part in enumerate(parts):
            kind = text_member(part.members(), "type")
            try:
                records = list(self._part(part, message, is_summary=is_summary))
            except Untrusted as refusal:
                records = [part.problem(refusal.path, refusal.reason)]
            if kind == "step-start" and not is_summary:
                records += self._usage(parts[number + 1 :], message)
            size = _count_slots(part)
            yield from self._place(records, [self.places.find(message.key, slot + place) for place in range(size)])
            slot += size

    def _place(self, records: Iterable[Record | LineProblem], places: Sequence[int]) -> Records:
        """The records of a part at its places, of which the last is that of all further ones."""
        count = 0
        for record in records:
            if isinstance(record, LineRecord):
                yield msgspec.structs.replace(record, position=places[min(count, len(places) - 1)])
                count += 1
            else:
                yield record

    def _part(self, part: DocumentValue, message: _Message, *, is_summary: bool) -> Records:
        members = part.members()
        kind = text_member(members, "type")
        if kind is None:
            raise Untrusted("no part of a message: it has no type", f"{part.path}.type")
        times = object_member(members, "time")
        if message.is_open and "start" in times and "end" not in times:
            return
        if kind == "text":
            yield from self._text(part, members, message, is_summary=is_summary)
        elif kind == "file":
            yield self._sent(part, join_array([part.raw]), members, message, None)
        elif kind == "tool":
            yield from self._call(part, members, message)
        elif kind == "compaction":
            self.tail = text_member(members, "tail_start_id")
        elif kind not in _UNSPOKEN:
            text = text_member(members, "text") if kind == "reasoning" else None
            yield self._event(part, kind, text or kind, message.at)

    def _text(self, part: DocumentValue, members: Members, message: _Message, *, is_summary: bool) -> Records:
        kind = COMPACTION_SUMMARY if is_summary else META if flag_member(members, "synthetic") else None
        if (text := members.get("text")) and text.is_text and text.raw != b'""':
            yield self._sent(part, text.raw, members, message, kind)

    def _sent(
        self, part: DocumentValue, content: bytes, members: Members, message: _Message, kind: str | None
    ) -> MessageRecord:
        delivery: Delivery = "withheld" if flag_member(members, "ignored") else "sent"
        return MessageRecord(
            line=part.line,
            run=self.run,
            key=text_member(members, "id") or f"{message.key}-{part.path}",
            role=message.role,
            content=content,
            step=message.key,
            at=message.at,
            kind=kind,
            delivery=delivery,
        )

    def _event(self, node: DocumentValue, kind: str, text: str, at: str | None, call: str | None = None) -> EventRecord:
        message = storable(summarize(text)) or kind
        return EventRecord(line=node.line, run=self.run, kind=kind, message=message, payload=node.raw, at=at, call=call)

    def _error(self, error: DocumentValue, message: _Message) -> EventRecord:
        members = error.members()
        name, data = text_member(members, "name") or "error", object_member(members, "data")
        text = text_member(data, "message") or name
        return msgspec.structs.replace(self._event(error, name, text, message.at), level="error")

    def _compaction(self, message: _Message) -> EventRecord:
        """The event of a summary, with the places of what it kept."""
        start = self.places.find(self.tail, 0) if self.tail in self.places.sizes else None
        self.tail = None
        text = "the conversation was compacted" + (", but for its last messages" if start is not None else "")
        event = self._event(message.node, COMPACTION, text, message.at)
        if start is None:
            return event
        kept = {record.place for record in self.records if isinstance(record, LineRecord) and record.place >= start}
        payload = msgspec.json.encode({"kept": sorted(kept)})
        return msgspec.structs.replace(event, kind=PARTIAL_COMPACTION, payload=payload)

    def _usage(self, parts: Iterable[DocumentValue], message: _Message) -> Records:
        """The usage of the step that these parts follow, which stands before them: it is that of the request.

        That of a summary is left out: it had the conversation as a text of its own.
        """
        for part in parts:
            members = part.members()
            kind = text_member(members, "type")
            if kind == "step-start":
                return
            tokens = members.get("tokens")
            if kind == "step-finish" and tokens and tokens.is_object:
                counts = tokens.members()
                cache = object_member(counts, "cache")
                yield UsageRecord(
                    line=part.line,
                    run=self.run,
                    request=text_member(members, "id") or message.key,
                    input_tokens=integer_member(counts, "input"),
                    cache_read_tokens=integer_member(cache, "read"),
                    cache_creation_tokens=integer_member(cache, "write"),
                    output_tokens=integer_member(counts, "output"),
                    usage=tokens.raw,
                    at=message.at,
                )
                return

    def _call(self, part: DocumentValue, members: Members, message: _Message) -> Records:
        call, tool = text_member(members, "callID"), text_member(members, "tool")
        state = object_member(members, "state")
        if not call or not tool:
            yield part.problem(part.path, "a call without an id or a tool")
            return
        times = object_member(state, "time")
        started, ended = (time_member(times, name, may_count=True) for name in ("start", "end"))
        status = text_member(state, "status")
        is_pending = status == _PENDING
        args = state.get("input")
        yield CallRecord(
            line=part.line,
            run=self.run,
            call=call,
            tool=tool,
            args=None if is_pending else args.raw if args else b"{}",
            step=message.key,
            at=started or (None if is_pending else message.at),
        )
        failed = _FAILED.get(status or "")
        if failed is None:
            return
        metadata = object_member(state, "metadata")
        yield self._result(part, state, metadata, call, started, ended, is_error=failed or tool == INVALID)
        receipt = state.get("error" if failed else "output")
        if receipt is not None and receipt.is_text:
            yield ReceiptRecord(line=receipt.line, run=self.run, call=call, content=receipt.raw, at=ended)
        if path := text_member(metadata, "outputPath"):
            yield ArtifactRecord(line=part.line, run=self.run, call=call, role="output", path=path)
        for attachment in list_member(state, "attachments"):
            name = text_member(attachment.members(), "mime") or "a file"
            yield self._event(attachment, "attachment", f"{name} was read for the model", ended, call)
        if cleared := time_member(times, "compacted", may_count=True):
            end = SupersedeRecord(line=part.line, run=self.run, call=call, reason=CLEARING, at=cleared)
            self.cleared.append((cleared, end))

    def _result(
        self,
        part: DocumentValue,
        state: Members,
        metadata: Members,
        call: str,
        started: str | None,
        ended: str | None,
        *,
        is_error: bool,
    ) -> ResultRecord:
        is_recorded = any(name not in _CLIENT for name in metadata)
        title = state.get("title")
        return ResultRecord(
            line=part.line,
            run=self.run,
            call=call,
            result=state["metadata"].raw if is_recorded else None,
            is_error=is_error,
            at=ended,
            started_at=started,
            ended_at=ended,
            child_run=text_member(metadata, "sessionId"),
            extra=join_object({"title": title.raw}) if title and title.raw != b'""' else None,
        )


def sniff(head: bytes, path: SourcePath) -> bool:
    """An object of a session and its messages, whose session has an id of OpenCode's form."""
    start = head.lstrip()[:400]
    return outline(head).keys <= {"info", "messages"} and b'"info"' in start and b'"ses_' in start


def sniff_kilo(head: bytes, path: SourcePath) -> bool:
    """The same of a release of Kilo Code."""
    release = _RELEASE.search(head) if sniff(head, path) else None
    return release is not None and int(release[1]) >= _FIRST_KILO


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object], *, agent: str = AGENT) -> Records:
    document = JsonDocument(lines)
    root = document.parse()
    if root is None:
        return
    if isinstance(root, LineProblem):
        yield root
        return
    try:
        session = _read_session(root, path, saved, agent)
    except Untrusted as refusal:
        yield document.refuse(refusal)
        return
    yield from place_records(session.records, by_lines=False)
    yield from document.take_remarks(session.run)


def _read_session(root: DocumentValue, path: SourcePath, saved: dict[str, Any], agent: str) -> _Reader:
    members = root.members()
    info = object_member(members, "info")
    reader = _Reader(text_member(info, "id") or path.stem, DocumentPlaces(saved))
    times = object_member(info, "time")
    reader.records.append(
        RunRecord(
            line=root.line,
            run=reader.run,
            parent_run=text_member(info, "parentID"),
            title=summarize(text_member(info, "title") or "") or None,
            agent=agent,
            version=text_member(info, "version"),
            cwd=text_member(info, "directory"),
            started_at=time_member(times, "created", may_count=True),
        )
    )
    messages: list[_Message] = []
    nodes = list_member(members, "messages")
    for number, node in enumerate(nodes):
        described = object_member(node.members(), "info")
        role = text_member(described, "role")
        if role is None:
            reader.records.append(node.problem(f"$.messages[{number}].info.role", "no message: it has no role"))
            continue
        key = text_member(described, "id") or f"message-{number}"
        times = object_member(described, "time")
        at = time_member(times, "created", may_count=True)
        is_open = number == len(nodes) - 1 and "completed" not in times and "error" not in described
        messages.append(_Message(node, described, key, role, at, is_open))
    reader.add_undone(root.line, {message.key: message.size for message in messages})
    for message in messages:
        reader.add_message(message)
    reader.clear_outputs(None, reader.places.next)
    return reader


FORMATS: tuple[Format, ...] = (
    Format(
        name=KILO,
        title="Kilo Code session",
        agent=KILO,
        namespace=KILO,
        mark="a document with info of a session, of a release from 7 on, and its messages",
        is_document=True,
        sniff=sniff_kilo,
        read=partial(read, agent=KILO),
        is_global_call_id=lambda _call: False,
        name_place=name_position,
    ),
    Format(
        name=AGENT,
        title="OpenCode session",
        agent=AGENT,
        namespace=AGENT,
        mark="a document with info of a session and its messages",
        version=3,  # 2: places that stay when a session grows; 3: the last place of what was removed
        is_document=True,
        sniff=sniff,
        read=read,
        is_global_call_id=lambda _call: False,
        name_place=name_position,
    ),
)

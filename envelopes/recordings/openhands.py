"""Conversations of the OpenHands SDK, releases 1.0 to 1.58: a folder with a file for each event.

    <conversation>/base_state.json                   {id, agent: {llm: {model}}, workspace: {working_dir}, …}
    <conversation>/events/event-00005-<id>.json      {kind, id, timestamp, source, parent_id?, …}
    <conversation>/subagents/<conversation>/…        the same, of a subagent

1. A file is one event, and is read by itself. Its path names the conversation and the number of the event, by which
   the records have their places in the run: `PLACES` to an event.
2. `ActionEvent` is a call, `ObservationEvent` its result (`observation`), `AgentErrorEvent` and
   `UserRejectObservation` are an answer without one. They share `tool_call_id`. Models without native tool calls have
   no ids, so the SDK gives each call the same ones (`toolu_01`): such a call has the id of its event.
3. What was sent is not recorded, but computed from the event before each request (`to_llm_content`). It is computed
   here in the same way, and marked as reconstructed. Whether an image was sent depends on the model.
4. `Condensation` names the events that the next requests lack, and has the summary that they have in their place. Its
   event keeps the others of the folder, whose numbers are in their names.
5. `parent_id` is the event before, or the one that a person went back to: the events between have left.
6. Times are those of the machine, without a zone. Usage is in no event.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from envelopes.alignment.openhands_receipts import (
    AGENT,
    CLIPPED,
    FAILED,
    TERMINAL_LIMIT,
    TEXT_LIMIT,
    name_result,
    shorten,
)
from envelopes.recordings.base import (
    COMPACTION_SUMMARY,
    PARTIAL_COMPACTION,
    REWIND,
    SYSTEM_PROMPT,
    TOOL_DEFINITIONS,
    ArtifactRecord,
    CallRecord,
    EventRecord,
    FileFolder,
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
)
from envelopes.recordings.document_fields import flag_member, list_member, object_member, text_member, time_member
from envelopes.recordings.documents import DocumentValue, JsonDocument, outline, place_records, read_arguments
from envelopes.recordings.json_lines import storable, valid_timestamp
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, dump_json, join_array, join_object, parse_json

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
PLACES = 4  # in the run for each event
TERMINAL = ("TerminalObservation", "ExecuteBashObservation")
UNKNOWN = ("ConsultTomObservation", "SleeptimeComputeObservation")  # they send words of their own
STATE = "base_state.json"
ACTION, HOOK = "ActionEvent", "HookExecutionEvent"
ROOT, SUMMARY = "__root__", "-summary"
BESIDE = 40  # events at each edge of what a condensation left out
EVENT = re.compile(r"event-(?P<number>\d{5,9})-(?P<id>[0-9a-fA-F-]{8,})\.json")
FOLDER = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
REPEATED = re.compile(r"toolu_\d{1,4}")


class _Head(msgspec.Struct, frozen=True):
    """The members of another event that decide whether it is still sent."""

    kind: str = ""
    step: str = msgspec.field(default="", name="llm_response_id")
    own_call: str = msgspec.field(default="", name="tool_call_id")

    @property
    def call(self) -> str:
        return "" if REPEATED.fullmatch(self.own_call) else self.own_call


class _Place(msgspec.Struct, frozen=True):
    """The conversation of a file, its parent, and the number of the event; None for the state."""

    run: str
    parent: str | None
    number: int | None
    folder: FileFolder | None

    @property
    def first(self) -> int:
        return first_place(self.number or 0)

    def earlier(self) -> dict[str, str]:
        """The names of the events before this one, by their ids."""
        names = list(self.folder.names()) if self.folder else []
        events = filter(None, map(EVENT.fullmatch, names))
        return {event["id"]: event[0] for event in events if int(event["number"]) < (self.number or 0)}

    def peek(self, name: str) -> _Head:
        """The head of another event; empty where that cannot be read."""
        with suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(self.folder.read(name) if self.folder else b"", type=_Head)
        return _Head()

    def is_next(self, parent: str) -> bool:
        """True where the event with this id is the one before, or no other one is known."""
        names = self.folder.names() if self.folder else ()
        number = (self.number or 0) - 1
        before = bisect_left(names, f"event-{number:05}-")
        event = EVENT.fullmatch(names[before]) if before < len(names) else None
        return event is None or int(event["number"]) != number or event["id"] == parent


def first_place(number: int) -> int:
    return number * PLACES + 1


def _number(name: str) -> int:
    event = EVENT.fullmatch(name)
    return int(event["number"]) if event else 0


def _find_place(path: SourcePath) -> _Place | None:
    """None for a path that names no conversation, or neither an event nor its state."""
    *folders, name = path.path.split("/")
    event = EVENT.fullmatch(name)
    if event and folders[-1:] == ["events"]:
        folders.pop()
    elif name != STATE:
        return None
    if not folders or not FOLDER.fullmatch(folders[-1]):
        return None
    is_child = folders[-2:-1] == ["subagents"] and len(folders) > 2 and bool(FOLDER.fullmatch(folders[-3]))
    run, parent = folders[-1].replace("-", ""), folders[-3].replace("-", "") if is_child else None
    return _Place(run, parent, int(event["number"]) if event else None, path.folder)


class _Event(msgspec.Struct, frozen=True):
    root: DocumentValue
    members: Members
    place: _Place
    kind: str
    key: str
    at: str | None

    def record(self, kind: str, text: str, *, call: str | None = None, payload: bytes | None = None) -> EventRecord:
        return EventRecord(
            line=self.root.line,
            run=self.place.run,
            kind=kind,
            message=storable(summarize(text)) or kind,
            payload=payload or self.root.raw,
            call=call,
            at=self.at,
        )

    def message(
        self, role: str, content: bytes, *, key: str = "", step: str | None = None, kind: str | None = None
    ) -> MessageRecord:
        return MessageRecord(
            line=self.root.line,
            run=self.place.run,
            key=key or self.key,
            role=role,
            content=content,
            step=step,
            at=self.at,
            kind=kind,
        )

    @property
    def step(self) -> str | None:
        return text_member(self.members, "llm_response_id")


def sniff(head: bytes, path: SourcePath) -> bool:
    """The state of a conversation, or one of its events, by its place and its members."""
    if (place := _find_place(path)) is None:
        return False
    expected = {"id", "agent"} if place.number is None else {"id", "timestamp", "source"}
    return expected <= outline(head).keys


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    document = JsonDocument(lines)
    root = document.parse()
    if root is None:
        return
    if isinstance(root, LineProblem):
        yield root
        return
    place = _find_place(path)
    try:
        if place is None:
            raise Untrusted("an event is in a folder that names its conversation; import it with that folder")
        records = list(_read_state(root, place) if place.number is None else _read_event(root, place))
    except Untrusted as refusal:
        yield document.refuse(refusal)
        return
    for record in place_records([*records, *document.take_remarks(place.run)], by_lines=False):
        if isinstance(record, LineRecord):
            position = place.first + min(record.place, PLACES) - 1
            record = msgspec.structs.replace(record, position=position)
        yield record


def _read_state(root: DocumentValue, place: _Place) -> Records:
    members = root.members()
    model = text_member(object_member(object_member(members, "agent"), "llm"), "model")
    folder = text_member(object_member(members, "workspace"), "working_dir")
    yield RunRecord(line=root.line, run=place.run, parent_run=place.parent, agent=AGENT, model=model, cwd=folder)


def _read_event(root: DocumentValue, place: _Place) -> Records:
    members = root.members()
    kind, key = text_member(members, "kind"), text_member(members, "id")
    if not kind or not key:
        raise Untrusted("no event: it has no kind or no id")
    event = _Event(root, members, place, kind, key, _read_time(members, place))
    yield RunRecord(line=root.line, run=place.run, parent_run=place.parent, agent=AGENT)
    yield from _rewind(event)
    if kind == "SystemPromptEvent":
        yield from _system_prompt(event)
    elif kind == "MessageEvent":
        yield from _message(event)
    elif kind == ACTION:
        yield from _call(event)
    elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        yield from _answer(event)
    elif kind == "Condensation":
        yield from _condensation(event)
    else:
        texts = (text_member(members, name) for name in ("detail", "reason", "key", "title", "hook_event_type"))
        yield event.record(kind, next(filter(None, texts), kind))


def _read_time(members: Members, place: _Place) -> str | None:
    """All times lack their zone: that is noted once in a conversation."""
    if place.number and (stamp := members.get("timestamp")) and (at := valid_timestamp(stamp.text())):
        return at
    return time_member(members, "timestamp")


def _rewind(event: _Event) -> Records:
    """The event of going back, where the parent is an earlier one than the event before.

    A hook runs before the event that it is for is written, and has the same parent: nothing was left by that.
    """
    parent, place = text_member(event.members, "parent_id"), event.place
    if parent is None or event.kind == HOOK or place.is_next(parent):
        return
    earlier = place.earlier()
    if parent not in (ROOT, *earlier):
        return
    start = -1 if parent == ROOT else _number(earlier[parent])
    left = [name for name in earlier.values() if _number(name) > start]
    if any(place.peek(name).kind != HOOK for name in left):
        span = [first_place(start + 1), place.first]
        text = "the conversation went back to an earlier event"
        yield event.record(REWIND, text, payload=msgspec.json.encode({"left": span}))


def _system_prompt(event: _Event) -> Records:
    """The definitions of the tools are sent in another form."""
    parts = [event.members[name].raw for name in ("system_prompt", "dynamic_context") if name in event.members]
    yield event.message("system", join_array(parts), kind=SYSTEM_PROMPT)
    if "tools" in event.members and event.members["tools"].is_list:
        tools = event.message("system", event.members["tools"].raw, key=f"{event.key}-tools", kind=TOOL_DEFINITIONS)
        yield msgspec.structs.replace(tools, delivery="reworded")


def _message(event: _Event) -> Records:
    sent = object_member(event.members, "llm_message")
    role = text_member(sent, "role") or "user"
    text = sent["content"].text() if "content" in sent else None
    blocks = [] if text is not None else list_member(sent, "content")
    blocks += list_member(event.members, "extended_content")
    if role == "user" and event.place.number == 1 and (title := text or _join_texts(blocks)):
        yield RunRecord(line=event.root.line, run=event.place.run, title=summarize(title.strip()) or None)
    contents = [part for block in blocks for part in _as_sent(block)]
    content = sent["content"].raw if text is not None and not blocks else join_array(contents)
    if content not in (b"[]", b'""'):
        yield event.message(role, content, step=event.step)


def _join_texts(blocks: Iterable[DocumentValue]) -> str:
    return "".join(text_member(block.members(), "text") or "" for block in blocks)


def _as_sent(block: DocumentValue) -> Iterator[bytes]:
    """A block of a message as it is sent: an image for each address."""
    members = block.members()
    if text_member(members, "type") != "image":
        yield block.raw
    for url in list_member(members, "image_urls"):
        yield join_object({"type": b'"image_url"', "image_url": join_object({"url": url.raw})})


def _call(event: _Event) -> Records:
    members = event.members
    call, tool = text_member(members, "tool_call_id"), text_member(members, "tool_name")
    if not call or not tool:
        raise Untrusted("a call without an id or a tool")
    thought = [block for block in list_member(members, "thought") if _join_texts([block]).strip()]
    if thought:
        yield event.message("assistant", join_array(block.raw for block in thought), step=event.step)
    if reasoning := text_member(members, "reasoning_content"):
        yield event.record("reasoning", reasoning, payload=members["reasoning_content"].raw)
    names: tuple[str, ...] = ("security_risk", "summary")
    stated = {name: members[name].raw for name in names if name in members}
    yield CallRecord(
        line=event.root.line,
        run=event.place.run,
        call=event.key if REPEATED.fullmatch(call) else call,
        tool=tool,
        args=read_arguments(object_member(members, "tool_call").get("arguments")),
        step=event.step,
        at=event.at,
        extra=join_object(stated) if stated else None,
    )


def _answer(event: _Event) -> Records:
    members = event.members
    own, tool = text_member(members, "tool_call_id"), text_member(members, "tool_name") or ""
    is_native = own is None or not REPEATED.fullmatch(own)
    call = own if is_native else text_member(members, "action_id", "parent_id")
    if not call:
        raise Untrusted("an answer without the id of its call")
    observation = object_member(members, "observation")
    is_error = flag_member(observation, "is_error") if observation else True
    is_blocked = text_member(members, "rejection_source") == "hook"
    names: tuple[str, ...] = ("classification", "rejection_source")
    stated = {name: members[name].raw for name in names if name in members}
    yield ResultRecord(
        line=event.root.line,
        run=event.place.run,
        call=call,
        result=members["observation"].raw if observation else None,
        fidelity="structured" if observation else "absent",
        is_error=is_error,
        stated_kind="denied_by_hook" if is_blocked else None,
        at=event.at,
        extra=join_object(stated) if stated else None,
    )
    texts = _sent_texts(event, observation)
    if texts and not is_native:
        texts[0] = name_result(tool) + texts[0]
    if texts is not None:
        content = join_array(join_object({"type": b'"text"', "text": dump_json(text)}) for text in texts)
        yield ReceiptRecord(
            line=event.root.line,
            run=event.place.run,
            call=call,
            content=content,
            fidelity="reconstructed",
            at=event.at,
        )
    yield from _attachments(event, observation, call, texts or [])


def _sent_texts(event: _Event, observation: Members) -> list[str] | None:
    """The texts of an answer, one for each part; None where a tool's own code decides them."""
    if (error := event.members.get("error")) and error.is_text:
        return [shorten(_text_of(error), TEXT_LIMIT)]
    if not observation:
        reason = event.members.get("rejection_reason")
        return [shorten(f"Action rejected: {_text_of(reason) if reason else ''}", TEXT_LIMIT)]
    kind = text_member(observation, "kind") or ""
    blocks = [block.members() for block in list_member(observation, "content")]
    texts = [_text_of(block["text"]) for block in blocks if "text" in block and block["text"].is_text]
    header = [FAILED] if flag_member(observation, "is_error") else []
    if kind in UNKNOWN or not (blocks or header):
        return None
    if kind in TERMINAL:
        texts = [_terminal_text(observation, "".join(texts))]
    elif kind == "TaskObservation":
        names = {"Task ID": "task_id", "Subagent": "subagent", "Status": "status"}
        lines = [f"{title}: {text_member(observation, name) or ''}" for title, name in names.items()]
        header = ["\n".join(lines), *header]
    elif kind == "BrowserObservation":
        folder = text_member(observation, "full_output_save_dir")
        joined = "".join(texts)
        texts = [shorten(joined, TEXT_LIMIT, folder, "browser")] if joined else []
    extended = [_text_of(text) for block in list_member(event.members, "extended_content") if (text := _inner(block))]
    return [shorten(text, TEXT_LIMIT) for text in (*header, *texts, *extended)]


def _inner(block: DocumentValue) -> DocumentValue | None:
    text = block.members().get("text")
    return text if text is not None and text.is_text else None


def _text_of(value: DocumentValue) -> str:
    """The string as it is, also with what no text column stores."""
    return str(parse_json(value.raw))


def _terminal_text(observation: Members, output: str) -> str:
    metadata = object_member(observation, "metadata")
    text = "".join((text_member(metadata, "prefix") or "", output, text_member(metadata, "suffix") or ""))
    if folder := text_member(metadata, "working_dir"):
        text += f"\n[Current working directory: {folder}]"
    if interpreter := text_member(metadata, "py_interpreter_path"):
        text += f"\n[Python interpreter: {interpreter}]"
    code = metadata["exit_code"].value() if "exit_code" in metadata else -1
    if code != -1:
        text += f"\n[Command finished with exit code {code}]"
    return shorten(text, TERMINAL_LIMIT, text_member(observation, "full_output_save_dir"), "terminal")


def _attachments(event: _Event, observation: Members, call: str, texts: list[str]) -> Records:
    """The file in which a long output was saved, and images, of which it is not recorded whether they were sent."""
    for block in list_member(observation, "content"):
        for _ in list_member(block.members(), "image_urls"):
            text = "an image was read for the model, which gets it if it takes images"
            yield event.record("attachment", text, call=call, payload=block.raw)
    if screenshot := observation.get("screenshot_data"):
        text = "a screenshot was taken for the model, which gets it if it takes images"
        yield event.record("attachment", text, call=call, payload=screenshot.raw)
    for text in texts:
        if (notice := CLIPPED.search(text)) and (path := notice["path"]):
            yield ArtifactRecord(line=event.root.line, run=event.place.run, call=call, role="output", path=path)


def _condensation(event: _Event) -> Records:
    """What a condensation kept: all events of the folder but those that it names. Then its summary.

    A summary that it left out is named by the id of its condensation, before release 1.8 by an id that is in no file.
    """
    named = [element.text() or "" for element in list_member(event.members, "forgotten_event_ids")]
    earlier = event.place.earlier()
    forgotten = {key.removesuffix(SUMMARY) for key in named}
    gone = forgotten | _find_parted(event.place, earlier, forgotten)
    if forgotten - earlier.keys():
        gone |= {key for key, name in earlier.items() if event.place.peek(name).kind == event.kind}
    kept = sorted(_number(name) for key, name in earlier.items() if key not in gone)
    places = [first_place(number) + place for number in kept for place in range(PLACES)]
    text = f"the conversation was condensed: {len(named)} events were left out"
    yield event.record(PARTIAL_COMPACTION, text, payload=msgspec.json.encode({"kept": places}))
    if (summary := event.members.get("summary")) and summary.is_text:
        yield event.message("user", summary.raw, key=event.key + SUMMARY, kind=COMPACTION_SUMMARY)


def _find_parted(place: _Place, earlier: dict[str, str], forgotten: set[str]) -> set[str]:
    """Events that are left out with forgotten ones: the other calls of an answer, and a call without its result.

    Later releases name them too. They stand beside the first and the last event that was forgotten.
    """
    numbers = sorted(_number(name) for key, name in earlier.items() if key in forgotten)
    near = {number + step for number in (*numbers[:1], *numbers[-1:]) for step in range(-BESIDE, BESIDE)}
    heads = {key: place.peek(name) for key, name in earlier.items() if _number(name) in near}
    steps = {head.step for key, head in heads.items() if key in forgotten and head.kind == ACTION}
    gone = {key for key, head in heads.items() if key in forgotten or (head.kind == ACTION and head.step in steps)}
    calls = {heads[key].call for key in gone} - {""}
    return gone | {key for key, head in heads.items() if head.call in calls}


FORMATS: tuple[Format, ...] = (
    Format(
        name=AGENT,
        title="OpenHands conversation",
        agent=AGENT,
        namespace=AGENT,
        mark="a document with an event, or the state, in the folder of a conversation",
        is_document=True,
        sniff=sniff,
        read=read,
        is_global_call_id=lambda _call: False,
    ),
)

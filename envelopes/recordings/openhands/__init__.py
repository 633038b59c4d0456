"""Conversations of the OpenHands SDK, releases 1.1 to 1.58: a folder with a file for each event.

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

from collections.abc import Iterable, Iterator

import msgspec

from envelopes.alignment.openhands_receipts import AGENT
from envelopes.recordings.base import (
    COMPACTION_SUMMARY,
    PARTIAL_COMPACTION,
    REWIND,
    SYSTEM_PROMPT,
    TOOL_DEFINITIONS,
    CallRecord,
    Format,
    LineProblem,
    LineRecord,
    Record,
    RunRecord,
    SourceLine,
    SourcePath,
)
from envelopes.recordings.document_fields import list_member, object_member, text_member, time_member
from envelopes.recordings.documents import DocumentValue, JsonDocument, outline, place_records, read_arguments
from envelopes.recordings.json_lines import valid_timestamp
from envelopes.recordings.openhands.answers import read_answer
from envelopes.recordings.openhands.event import (
    HOOK,
    PLACES,
    REPEATED,
    ROOT,
    ConversationEvent,
    EventPlace,
    event_number,
    find_place,
    first_place,
    name_place,
)
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, join_array, join_object

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
ACTION, SUMMARY = "ActionEvent", "-summary"
NO_PLACES = (0, 0)
BESIDE = 40  # events at each edge of what a condensation left out


def run_of(path: SourcePath) -> str:
    """The run that the path names: a fork has the same files in the folder of another conversation."""
    place = find_place(path)
    return place.run if place else ""


def sniff(head: bytes, path: SourcePath) -> bool:
    """The state of a conversation, or one of its events, by its place and its members."""
    if (place := find_place(path)) is None:
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
    place = find_place(path)
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


def _read_state(root: DocumentValue, place: EventPlace) -> Records:
    members = root.members()
    model = text_member(object_member(object_member(members, "agent"), "llm"), "model")
    folder = text_member(object_member(members, "workspace"), "working_dir")
    yield RunRecord(line=root.line, run=place.run, parent_run=place.parent, agent=AGENT, model=model, cwd=folder)


def _read_event(root: DocumentValue, place: EventPlace) -> Records:
    members = root.members()
    kind, key = text_member(members, "kind"), text_member(members, "id")
    if not kind or not key:
        raise Untrusted("no event: it has no kind or no id")
    event = ConversationEvent(root, members, place, kind, key, _read_time(members, place))
    yield RunRecord(line=root.line, run=place.run, parent_run=place.parent, agent=AGENT)
    yield from _rewind(event)
    if kind == "SystemPromptEvent":
        yield from _system_prompt(event)
    elif kind == "MessageEvent":
        yield from _message(event)
    elif kind == ACTION:
        yield from _call(event)
    elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        yield from read_answer(event)
    elif kind == "Condensation":
        yield from _condensation(event)
    else:
        texts = (text_member(members, name) for name in ("detail", "reason", "key", "title", "hook_event_type"))
        yield event.record(kind, next(filter(None, texts), kind))


def _read_time(members: Members, place: EventPlace) -> str | None:
    """All times lack their zone: that is noted once in a conversation."""
    if place.number and (stamp := members.get("timestamp")) and (at := valid_timestamp(stamp.text())):
        return at
    return time_member(members, "timestamp")


def _rewind(event: ConversationEvent) -> Records:
    """Yields a rewind for each span of events that left, where the parent of an event is not the event before it.

    Going back to another branch may return a span that an earlier rewind left.
    """
    parent, place = text_member(event.members, "parent_id"), event.place
    if parent is None or event.kind == HOOK or place.before() in ("", parent):
        return
    if parent not in (ROOT, *place.earlier()):
        return
    own, known = place.left_spans(parent)
    left, returned = sorted(own - known), sorted(known - own)
    for number in range(max(len(left), len(returned))):
        span = left[number] if number < len(left) else next(iter(own), NO_PLACES)
        payload: dict[str, tuple[int, int]] = {"left": span}
        if number < len(returned):
            payload["returned"] = returned[number]
        text = "the conversation went back to an earlier event"
        yield event.record(REWIND, text, payload=msgspec.json.encode(payload))


def _system_prompt(event: ConversationEvent) -> Records:
    """The definitions of the tools are sent in another form."""
    parts = [event.members[name].raw for name in ("system_prompt", "dynamic_context") if name in event.members]
    yield event.message("system", join_array(parts), kind=SYSTEM_PROMPT)
    if "tools" in event.members and event.members["tools"].is_list:
        tools = event.message("system", event.members["tools"].raw, key=f"{event.key}-tools", kind=TOOL_DEFINITIONS)
        yield msgspec.structs.replace(tools, delivery="reworded")


def _message(event: ConversationEvent) -> Records:
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


def _call(event: ConversationEvent) -> Records:
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


def _condensation(event: ConversationEvent) -> Records:
    """A condensation keeps all events of the folder but those that it names. Its summary follows.

    A summary that it left out is named by the id of its condensation, in early releases by an id that is in no file.
    """
    named = [element.text() or "" for element in list_member(event.members, "forgotten_event_ids")]
    earlier = event.place.earlier()
    forgotten = {key.removesuffix(SUMMARY) for key in named}
    gone = forgotten | _find_parted(event.place, earlier, forgotten)
    if forgotten - earlier.keys():
        gone |= {key for key, name in earlier.items() if event.place.peek(name).kind == event.kind}
    kept = sorted(event_number(name) for key, name in earlier.items() if key not in gone)
    places = [first_place(number) + place for number in kept for place in range(PLACES)]
    text = f"the conversation was condensed: {len(named)} events were left out"
    yield event.record(PARTIAL_COMPACTION, text, payload=msgspec.json.encode({"kept": places}))
    if (summary := event.members.get("summary")) and summary.is_text:
        yield event.message("user", summary.raw, key=event.key + SUMMARY, kind=COMPACTION_SUMMARY)


def _find_parted(place: EventPlace, earlier: dict[str, str], forgotten: set[str]) -> set[str]:
    """Events that are left out with forgotten ones: the other calls of an answer, and a call without its result.

    Later releases name them too. They stand beside the first and the last event that was forgotten.
    """
    numbers = sorted(event_number(name) for key, name in earlier.items() if key in forgotten)
    near = {number + step for number in (*numbers[:1], *numbers[-1:]) for step in range(-BESIDE, BESIDE)}
    heads = {key: place.peek(name) for key, name in earlier.items() if event_number(name) in near}
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
        run_of=run_of,
        name_place=name_place,
    ),
)

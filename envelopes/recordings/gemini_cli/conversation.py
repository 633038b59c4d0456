"""The changes of the conversation of a Gemini CLI chat.

1. `{"$set": {"messages": […]}}` is the history as the client has it from here on: at the beginning with the context
   that it adds, after a compression with a summary in place of what came before, later with shorter tool outputs. What
   is in it under another id, as one part of a message, or as parts of calls, stays. What is not in it leaves when the
   next message comes: until then another history may have it again, as that of a chat that is resumed.
2. Before such a change the messages of the new history may stand line by line. They begin with the context.
3. `{"$rewindTo": id}` takes away that message and all behind it; of an id that is not there, all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from envelopes.recordings.base import (
    COMPACTION,
    PARTIAL_COMPACTION,
    REWIND,
    EventRecord,
    LineProblem,
    Record,
    SupersedeRecord,
)
from envelopes.recordings.document_fields import list_member, text_member
from envelopes.recordings.documents import DocumentValue
from envelopes.recordings.gemini_cli.chat import (
    SESSION_CONTEXT,
    TOOL_PARTS,
    ChatState,
    HeldHistory,
    checked_records,
    content_digest,
    content_text,
    has_known_parts,
    part_digests,
)

Records = Iterator[Record | LineProblem]
_COMPRESSED = "compression"  # the reason of a receipt's end


class _Kept(msgspec.Struct):
    """The ids of the messages of a history, the digests of their contents, and how often it has the id of a call."""

    messages: set[str]
    contents: set[str]
    calls: Counter[str]

    def keeps(self, name: str, call: str, names: Sequence[str]) -> bool:
        """True for the name of a call; of several with the id `call`, which have these names, for the last ones."""
        count = self.calls[call]
        return count > 0 and name in names[-count:]


def replace_history(node: DocumentValue, messages: Sequence[DocumentValue], state: ChatState) -> Records:
    kept = _find_kept(messages)
    # A message without a text is there for its calls.
    left = [
        key
        for key, known in state.messages.items()
        if known.text and key not in kept.messages and known.text not in kept.contents
    ]
    repeated = {name: (call, names) for call, names in state.names.items() for name in names}
    lost = [name for name in state.calls if not kept.keeps(name, *repeated.get(name, (name, [name])))]
    state.held = HeldHistory(node.line, left, lost) if left or lost else None
    state.is_copying = False
    for number, message in enumerate(messages):
        yield from checked_records(message, state, f"$.$set.messages[{number}]", is_history=True)


def is_copied(node: DocumentValue, state: ChatState) -> bool:
    """True for a message of the history that stands before the change that has it; the model answers behind that."""
    members = node.members()
    content = members.get("content")
    if members.get("tokens") and members["tokens"].is_object:
        state.is_copying = False
    elif (text_member(members, "id") or "") not in state.messages:
        is_context = content_text(content).lstrip().startswith(SESSION_CONTEXT)
        state.is_copying |= is_context and has_known_parts(content, state)
    return state.is_copying


def take_out(node: DocumentValue, state: ChatState) -> Records:
    """Takes out what the last history lacks, now that `node` follows it."""
    if (held := state.held) is None:
        return
    state.held = None
    messages = [key for key in held.messages if key in state.messages]
    calls = [call for call in held.calls if call in state.calls]
    yield _compaction(node, state, held.line, messages, calls)
    for call in calls:
        del state.calls[call]
        yield SupersedeRecord(line=node.line, position=held.line, run=state.run, call=call, reason=_COMPRESSED)
    for key in messages:
        del state.messages[key]


def _find_kept(messages: Iterable[DocumentValue]) -> _Kept:
    kept, answers = _Kept(set(), set(), Counter()), Counter[str]()
    for message in messages:
        members = message.members()
        kept.messages.add(text_member(members, "id") or "")
        kept.contents |= {content_digest(members.get("content")), *part_digests(members.get("content"))}
        calls = Counter(text_member(call.members(), "id") or "" for call in list_member(members, "toolCalls"))
        asked, answered = (Counter(_ids_of(members.get("content"), name)) for name in TOOL_PARTS)
        kept.calls += calls | asked  # a message may have a call in both places
        answers |= answered
    kept.calls |= answers
    return kept


def _ids_of(content: DocumentValue | None, name: str) -> Iterator[str]:
    for part in content.elements() if content is not None and content.is_list else ():
        if name in (members := part.members()):
            yield text_member(members[name].members(), "id") or ""


def _compaction(
    node: DocumentValue, state: ChatState, line: int, left: Sequence[str], lost: Sequence[str]
) -> EventRecord:
    """The event stands before the messages of the new history, at the line before that of the history."""
    before = [key for key, known in state.messages.items() if known.text and known.line < line]
    counts = {"message": len(set(before) - set(left)), "call": len(state.calls) - len(lost)}
    kept = [f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items() if count]
    message = "the conversation was compacted" + (f", but for {' and '.join(kept)} that stayed" if kept else "")
    kind = PARTIAL_COMPACTION if kept else COMPACTION
    return EventRecord(line=node.line, position=line - 1, run=state.run, kind=kind, message=message)


def rewind_history(node: DocumentValue, message: str, state: ChatState) -> Records:
    """A message that left may come again, and is new then."""
    keys = list(state.messages)
    gone = set(keys[keys.index(message) :] if message in state.messages else keys)
    first = min((state.messages[key].line for key in gone), default=node.line)
    for key in gone:
        del state.messages[key]
    state.calls = {call: known for call, known in state.calls.items() if known.message not in gone}
    text = f"the person went back: lines {first} to {node.line - 1} left the conversation"
    payload = msgspec.json.encode({"left": [first, node.line], "returned": None})
    yield EventRecord(line=node.line, run=state.run, kind=REWIND, message=text, payload=payload)

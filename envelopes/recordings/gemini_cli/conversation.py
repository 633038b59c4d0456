"""The changes of the conversation of a Gemini CLI chat.

1. `{"$set": {"messages": […]}}` is the history as the client has it from here on: at the beginning with the context
   that it adds, after a compression with a summary in place of what came before, later with shorter tool outputs. What
   is in it under another id, or as parts of calls, stays. What is not in it has left.
2. `{"$rewindTo": id}` takes away that message and all behind it; of an id that is not there, all of them.
"""

from __future__ import annotations

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
from envelopes.recordings.gemini_cli.chat import TOOL_PARTS, ChatState, checked_records, content_digest

Records = Iterator[Record | LineProblem]
_COMPRESSED = "compression"  # the reason of a receipt's end


class _Kept(msgspec.Struct):
    """The ids of the messages of a history, the digests of their contents, and the ids of its calls."""

    messages: set[str]
    contents: set[str]
    calls: set[str]


def replace_history(node: DocumentValue, messages: Sequence[DocumentValue], state: ChatState) -> Records:
    kept = _find_kept(messages)
    # A message without a text is there for its calls.
    left = [
        key
        for key, known in state.messages.items()
        if known.text and key not in kept.messages and known.text not in kept.contents
    ]
    lost = [call for call in state.calls if call not in kept.calls]
    if left or lost:
        yield _compaction(node, state, len(left), len(lost))
    for call in lost:
        del state.calls[call]
        yield SupersedeRecord(line=node.line, run=state.run, call=call, reason=_COMPRESSED)
    for key in left:
        del state.messages[key]
    for number, message in enumerate(messages):
        yield from checked_records(message, state, f"$.$set.messages[{number}]", is_history=True)


def _find_kept(messages: Iterable[DocumentValue]) -> _Kept:
    kept = _Kept(set(), set(), set())
    for message in messages:
        members = message.members()
        kept.messages.add(text_member(members, "id") or "")
        kept.contents.add(content_digest(members.get("content")))
        named = list(list_member(members, "toolCalls"))
        if (content := members.get("content")) and content.is_list:
            parts = [part.members() for part in content.elements()]
            named += [part[name] for part in parts for name in TOOL_PARTS if name in part]
        kept.calls |= {text_member(call.members(), "id") or "" for call in named}
    return kept


def _compaction(node: DocumentValue, state: ChatState, left: int, lost: int) -> EventRecord:
    """The event stands before the messages of the new history, at the line before its own."""
    stayed = sum(bool(known.text) for known in state.messages.values()) - left
    calls = len(state.calls) - lost
    counts = {"message": stayed, "call": calls}
    kept = [f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items() if count]
    message = "the conversation was compacted" + (f", but for {' and '.join(kept)} that stayed" if kept else "")
    kind = PARTIAL_COMPACTION if kept else COMPACTION
    return EventRecord(line=node.line, position=node.line - 1, run=state.run, kind=kind, message=message)


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

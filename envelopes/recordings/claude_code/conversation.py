"""The course of a conversation from line to line: what waits for the end of a step, what a compaction kept, rewinds.

A session file has its lines in the order in which they were written. Three things are in no line of it and follow
from several: that a queued message was sent, that a person went back to an earlier prompt, and that the conversation
began anew. A line names the one that it follows (`parentUuid`); null for the first of a conversation.
"""

from __future__ import annotations

from typing import Any

import msgspec

from envelopes.recordings.claude_code.reader_state import (
    ENTRY_CHARACTERS,
    TABLE_SIZE,
    LeftBranch,
    Prompt,
    QueuedMessage,
    ReaderState,
    digest,
    text_slice,
)
from envelopes.recordings.json_lines import NOTHING, first_byte, struct_reader
from envelopes.text.untrusted_json import array_slices, parse_json

_BRANCH_ENDS = 4  # the last messages of a branch, one of which a return names: some are notices
_QUEUED_MESSAGES = 64
_QUEUED_CHARACTERS = 64 * 1024  # of one message


class PreservedMessages(msgspec.Struct, frozen=True, rename="camel"):
    """The ids of messages before a compaction that stayed in the model's context; some releases name more in a list."""

    uuids: msgspec.Raw = NOTHING
    all_uuids: msgspec.Raw = NOTHING


class CompactMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The part that a compaction preserved: newer releases name a segment, some of them its messages too."""

    preserved_segment: msgspec.Raw = NOTHING
    preserved_messages: msgspec.Raw = NOTHING


_read_preserved_messages = struct_reader(PreservedMessages)
_read_compact_metadata = struct_reader(CompactMetadata)


def read_queue_operation(state: ReaderState, operation: str, content: bytes) -> bytes | None:
    """Follows the queue of messages that come in while a step runs. Returns the message that was sent just now.

    `enqueue` has the message. `remove` has none: the client sends the message with the answers of the step, by an
    attachment where it writes what its attachments became. `dequeue` takes a message that follows as a line of its own;
    `popAll` gives it back to the person.
    """
    if operation == "enqueue":
        text = content.decode() if 0 < len(content) <= _QUEUED_CHARACTERS else None
        state.queue.append(QueuedMessage(text))
        del state.queue[:-_QUEUED_MESSAGES]
        return None
    if operation == "remove" and state.attached:
        state.attached -= 1
        return None
    removed = _take_queued(state, content)
    if operation == "popAll" and removed is None:
        state.queue.clear()
    if operation != "remove" or removed is None or removed.content is None or state.renders:
        return None
    state.unqueued = [*state.unqueued, digest(text_slice(removed.content.encode()))][-_QUEUED_MESSAGES:]
    return removed.content.encode()


def _take_queued(state: ReaderState, content: bytes) -> QueuedMessage | None:
    """Takes the message with this content from the queue, or without one the next: what people wrote comes first."""
    if content:
        fitting = [message for message in state.queue if (message.content or "").encode() == content]
    else:
        fitting = sorted(state.queue, key=lambda message: message.is_report)
    if not fitting:
        return None
    state.queue.remove(fitting[0])
    return fitting[0]


def note_step(state: ReaderState, role: str, step: str | None, *, is_answer: bool) -> None:
    """Notes which step runs, and drops queued messages that were not sent with the answers of an earlier one."""
    if role == "assistant":
        state.step = step or ""
        state.queue = [message for message in state.queue if message.answered in (None, state.step)]
    elif is_answer:
        for message in state.queue:
            message.answered = message.answered or state.step


def note_summary(state: ReaderState, line: int, uuid: str, *, is_summary: bool, is_reply: bool) -> bool:
    """Returns whether this message is a summary that alone shows a compaction: no boundary was read before it.

    History that is written again has the ids that it had.
    """
    before = state.compacted
    if is_summary:
        state.compacted = "summary"
    elif is_reply and before == "summary":
        state.compacted = ""
    return is_summary and not before and state.noted > 1 and state.lines.get(uuid) == line


def find_rewind(state: ReaderState, line: int, uuid: str, parent: str) -> tuple[LeftBranch, LeftBranch | None] | None:
    """Returns the branch that this prompt leaves, and the one that it returns to, if it leaves one.

    A second prompt below one message leaves the branch of the first. A prompt below the end of a branch that was left
    returns to it.
    """
    before = state.prompts_below.get(parent)
    if before and before.uuid == uuid:
        return None
    returned = None if before else state.left.pop(parent, None)
    size = max(len(parent), len(uuid))
    if size <= ENTRY_CHARACTERS:
        state.prompts_below[parent] = Prompt(uuid, line, state.noted)
        _drop_oldest(state.prompts_below)
    if before is None and returned is None:
        return None
    left = LeftBranch(before.line if before else returned.end if returned else line, line)
    ends = state.recent[:-1][-_BRANCH_ENDS:]
    if before:
        ends = ends[max(0, len(ends) - (state.noted - 1 - before.noted) - 1) :]
    state.left.update(dict.fromkeys(ends, left))
    _drop_oldest(state.left)
    return left, returned


def find_root(state: ReaderState, line: int, uuid: str, parent: str | None, *, is_message: bool) -> int | None:
    """Returns the first line of a conversation that began anew, at the first message of it.

    The lines of hooks may come before that message; the conversation before ends at a line without a successor.
    """
    if parent is None:
        state.root = Prompt(uuid, line, state.noted)
    elif state.root is not None and state.root.uuid == parent:
        state.root.uuid = uuid
    else:
        state.root = None
    root = state.root
    if root is None or not (is_message or len(uuid) > ENTRY_CHARACTERS):
        return None
    state.root = None
    return root.line if is_message and root.noted > 1 else None


def _drop_oldest(table: dict[str, Any]) -> None:
    for oldest in list(table)[:-TABLE_SIZE] if len(table) > TABLE_SIZE else ():
        del table[oldest]


def take_attached(state: ReaderState, content: bytes) -> bool:
    """Checks whether an attachment repeats a message that the queue sent; if the queue has it still, takes it."""
    text = text_slice(content)
    repeated = digest(text)
    if repeated in state.unqueued:
        state.unqueued.remove(repeated)
        return True
    if text and _take_queued(state, text):
        state.attached += 1
    return False


def read_preserved(metadata: msgspec.Raw) -> list[str] | None:
    """The ids of the messages that a compaction preserved; None when none, empty where it does not name them."""
    if first_byte(metadata) != b"{":
        return None
    preserved = _read_compact_metadata(metadata)
    if first_byte(preserved.preserved_messages) != b"{":
        return [] if first_byte(preserved.preserved_segment) == b"{" else None
    messages = _read_preserved_messages(preserved.preserved_messages)
    named = messages.all_uuids if first_byte(messages.all_uuids) == b"[" else messages.uuids
    uuids = [parse_json(raw) for raw in array_slices(bytes(named))] if first_byte(named) == b"[" else []
    return [uuid if isinstance(uuid, str) else "" for uuid in uuids] or None

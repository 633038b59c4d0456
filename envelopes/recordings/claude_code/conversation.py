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
    ClientLine,
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


def note_client_line(state: ReaderState, line: int, uuid: str, parent: str, *, is_notice: bool) -> None:
    """Remembers which message a line of the client's own hangs below: progress, an attachment, or a notice.

    A notice ends a turn; other such lines in a row may belong to the prompt that follows them.
    """
    if max(len(uuid), len(parent)) > ENTRY_CHARACTERS:
        return
    above = state.client_lines.get(parent, ClientLine(parent, 0))
    message, start = above.message, above.start
    is_next = state.recent[-2:-1] == [parent]
    state.client_lines[uuid] = ClientLine(message, 0 if is_notice else start if start and is_next else line)
    if len(state.client_lines) > TABLE_SIZE:
        del state.client_lines[next(iter(state.client_lines))]


def find_rewind(
    state: ReaderState, line: int, uuid: str, parent: str, *, is_person: bool
) -> tuple[LeftBranch, LeftBranch | None] | None:
    """Returns the branch that this prompt leaves, and the one that it returns to, if it leaves one.

    A second prompt below one message leaves the branch of the first. A prompt below the end of a branch that was left
    returns to it. Lines of the client may stand between a person's prompt and that message, and belong to its branch;
    what the client itself writes as the user may hang below one message twice.
    """
    above = state.client_lines.get(parent) if is_person else None
    message, start = (above.message, above.start) if above else (parent, 0)
    before = state.prompts_below.get(parent) or (state.people_below.get(message) if is_person else None)
    if before and before.uuid == uuid:
        return None
    returned = None if before else state.left.pop(parent, None) or state.left.pop(message, None)
    first = start if start and state.recent[-2:-1] == [parent] else line
    if max(len(parent), len(uuid)) <= ENTRY_CHARACTERS:
        prompt = Prompt(uuid, first, state.noted)
        state.prompts_below[parent] = prompt
        _drop_oldest(state.prompts_below)
        if is_person:
            state.people_below[message] = prompt
            _drop_oldest(state.people_below)
    if before is None and returned is None:
        return None
    left = LeftBranch(before.line if before else returned.end if returned else line, first)
    behind = state.recent[:-1]
    if before:
        behind = behind[max(0, len(behind) - (state.noted - before.noted)) :]
    ends = [end for end in behind if state.client_lines.get(end, ClientLine("", 0)).message != message][-_BRANCH_ENDS:]
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

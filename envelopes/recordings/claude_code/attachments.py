"""Lines of type `attachment`: what the program put beside a turn.

1. `queued_command` is what a person wrote, or a background task reported, while a tool ran: the model had
   it as a message, so it is one. `prompt` is a string, or a list of blocks.
2. Everything else (what hooks said, files that changed, reminders, lists of tools) is an event, of its call
   where it names one. How the program words it for the model is not recorded, so it is no message.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from envelopes.recordings.base import LineProblem, MessageRecord, Record
from envelopes.recordings.claude_code.line import Line
from envelopes.recordings.claude_code.runs import after, message_key
from envelopes.recordings.claude_code.schema import NOTHING, opening, reader
from envelopes.text.untrusted_json import Untrusted


class Attachment(msgspec.Struct, frozen=True, gc=False):
    type: str | None = None
    prompt: msgspec.Raw = NOTHING
    tool_use_id: str | None = msgspec.field(default=None, name="toolUseID")


_read_attachment = reader(Attachment)


def attached(line: Line) -> Iterator[Record | LineProblem]:
    yield from line.own_run()
    try:
        found = _read_attachment(line.entry.attachment)
    except Untrusted:
        found = Attachment()
    if found.type == "queued_command" and opening(found.prompt) in (b'"', b"["):
        message = _queued(line, bytes(found.prompt))
        yield message
        yield from after(line.memory, message)
    else:
        yield line.event("attachment", found.type or "attachment", line.raw, found.tool_use_id)


def _queued(line: Line, prompt: bytes) -> MessageRecord:
    return MessageRecord(
        line=line.number,
        run=line.run,
        key=message_key(line.entry.uuid, line.number, line.raw),
        role="user",
        content=prompt,
        at=line.at,
    )

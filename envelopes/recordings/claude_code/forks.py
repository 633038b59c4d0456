"""Calls that a resumed or forked session copied, and whose ids are unique in their session only.

`toolu_` ids join by themselves. Any other id belongs to the session that its copied line names, also where an
answer, or a compaction, comes behind the copied lines; the next call of that id is the new session's own.
"""

from __future__ import annotations

import msgspec

from envelopes.recordings.base import (
    ArtifactRecord,
    CallRecord,
    LineProblem,
    ReceiptRecord,
    Record,
    ResultRecord,
    SupersedeRecord,
)
from envelopes.recordings.claude_code.line import Line
from envelopes.recordings.claude_code.reader_state import remember
from envelopes.recordings.claude_code.results import is_global_call_id


def owned(line: Line, record: Record | LineProblem) -> Record | LineProblem:
    match record:
        case CallRecord(call=call) if not is_global_call_id(call):
            origin = line.origin
            line.memory.copied.pop(call, None)
            if origin:
                remember(line.memory.copied, call, origin)
        case (
            ResultRecord(call=call) | ReceiptRecord(call=call) | SupersedeRecord(call=call) | ArtifactRecord(call=call)
        ) if not is_global_call_id(call):
            origin = line.origin or line.memory.copied.get(call)
        case _:
            return record
    if not origin:
        return record
    return msgspec.structs.replace(record, owner=origin + record.run[len(line.session) :])

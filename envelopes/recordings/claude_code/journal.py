"""`subagents/workflows/<run>/journal.jsonl`: which agents of a workflow were started and what they gave back.

    {"type": "started", "key": …, "agentId": …}
    {"type": "result", "key": …, "agentId": …, "result": …}

The agents' own files beside it hold all of that and more, so its lines are read and nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from envelopes.recordings.base import BYTE_ORDER_MARK, LineProblem, Record, SourceLine, SourcePath, json_lines
from envelopes.recordings.claude_code.schema import reader
from envelopes.text.untrusted_json import Untrusted


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    type: str | None = None
    key: str | None = None
    agent_id: str | None = None
    session_id: str | None = None


_read_entry = reader(_Entry)


def sniff(head: bytes, place: SourcePath) -> bool:
    """Its first line that is JSON has a `type`, a `key` and an `agentId`, and names no session."""
    for raw in head.removeprefix(BYTE_ORDER_MARK).splitlines():
        try:
            entry = _read_entry(raw)
        except Untrusted:
            continue
        return bool(entry.type and entry.key and entry.agent_id and not entry.session_id)
    return False


def read(lines: Iterable[SourceLine], place: SourcePath, state: dict[str, object]) -> Iterator[Record | LineProblem]:
    for line in json_lines(lines, state):
        if isinstance(line, LineProblem):
            yield line
            continue
        try:
            _read_entry(line.raw)
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)

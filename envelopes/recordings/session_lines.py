"""Reads the lines of a session, each with the state that the lines before it left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec

from envelopes.recordings.base import LineProblem, Record, SourceLine
from envelopes.recordings.documents import DocumentValue, JsonDocument
from envelopes.recordings.json_lines import read_json_lines
from envelopes.text.untrusted_json import Untrusted


class SessionState(Protocol):
    """The part of a reader's state that every session has: its run, and tables with an upper limit."""

    run: str

    def forget_oldest(self) -> None: ...


def read_session(
    lines: Iterable[SourceLine],
    saved: dict[str, object],
    slot: str,
    state: SessionState,
    read_line: Callable[[DocumentValue], Iterable[Record | LineProblem]],
) -> Iterator[Record | LineProblem]:
    """Yields the records of each line, and the remarks on it; of a line that raises Untrusted the problem alone.

    The state is saved behind the last line: to copy its tables for each line takes longer than to read it.
    """
    for line in read_json_lines(lines, saved):
        if isinstance(line, LineProblem):
            yield line
            continue
        node = DocumentValue(JsonDocument([line]), line.raw, 0)
        try:
            yield from list(read_line(node))
            yield from node.document.take_remarks(state.run)
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
        state.forget_oldest()
    saved[slot] = msgspec.to_builtins(state)

"""One tool result: the structured half that the runtime kept, the receipt, and the files that it names.

1. `toolUseResult` (stream-json: `tool_use_result`) is the tool's whole output object; it is a string
   where the tool failed, and absent in some subagents' files.
2. The receipt is `tool_result.content` as recorded. Releases up to 2.1.37 could write the full text
   behind a `<persisted-output>` preview although the model saw only the preview: a receipt that is
   longer than such a preview can be is inflated.
3. Releases that cap `stdout` name the file with the rest (`persistedOutputPath`): the result is bounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from envelopes.alignment.mapping import ReceiptFidelity, ResultFidelity
from envelopes.recordings.base import ArtifactRecord, LineProblem, ReceiptRecord, Record, ResultRecord
from envelopes.recordings.claude_code.schema import Block, opening, reader, storable
from envelopes.text.untrusted_json import Untrusted, tame

_PERSISTED = b'"<persisted-output>'
_SAVED_TO = re.compile(r"<persisted-output>\s.*?saved to: ([^\n]+)")
_PREVIEW_CHARACTERS = 3000  # the preview is the first 2 KB and two lines around it
_LONGEST_MS = 2**53


class Turn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where a message was read: what its records share. `path` is the message's JSON path in the line."""

    line: int
    run: str
    session: str
    role: str
    key: str
    at: str | None
    path: str = "$.message"
    result: msgspec.Raw = msgspec.Raw()
    extra: bytes | None = None
    origin: Literal["message", "progress"] = "message"
    inherited: bool = False

    def refused(self, path: str, reason: str, raw: bytes) -> LineProblem:
        return LineProblem(line=self.line, path=self.path + path, reason=reason, raw=raw, part=True)


class Facts(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a structured result says about its call, whatever the tool."""

    duration_ms: float | None = None
    duration_seconds: float | None = None
    total_duration_ms: float | None = None
    agent_id: str | None = None
    output_file: str | None = None
    persisted_output_path: str | None = None
    persisted_output_size: int | None = None


_NO_FACTS = Facts()
_read_facts = reader(Facts)


def is_global_call_id(call: str) -> bool:
    """Ids that the API gives are unique everywhere; others (`call_0`) are not."""
    return call.startswith("toolu_")


def run_alias(run: str, call: str) -> str | None:
    """What a stream calls the run of a subagent that it does not name; only ids that are unique join."""
    return f"{run.partition('/')[0]}/{call}" if is_global_call_id(call) else None


def spawning_call(run: str) -> str | None:
    call = run.partition("/")[2]
    return call if is_global_call_id(call) else None


def outcome(turn: Turn, call: str, block: Block, result: msgspec.Raw) -> Iterator[Record]:
    facts = _facts(result)
    content = bytes(block.content)
    yield ResultRecord(
        line=turn.line,
        run=turn.run,
        call=call,
        result=bytes(result) or None,
        fidelity=_result_fidelity(result, facts),
        is_error=block.is_error,
        at=turn.at,
        duration_ms=_duration_ms(facts),
        child_run=f"{turn.session}/{facts.agent_id}" if facts.agent_id else None,
        extra=turn.extra,
    )
    text = _persisted_text(content)
    yield ReceiptRecord(
        line=turn.line,
        run=turn.run,
        call=call,
        content=content or b"null",
        fidelity=_receipt_fidelity(content, text),
        at=turn.at,
    )
    for path, size in _paths(facts, text).items():
        yield ArtifactRecord(line=turn.line, run=turn.run, call=call, role="output", path=path, size=size)


def _facts(result: msgspec.Raw) -> Facts:
    return _read_facts(result) if opening(result) == b"{" else _NO_FACTS


def _result_fidelity(result: msgspec.Raw, facts: Facts) -> ResultFidelity:
    if facts.persisted_output_path:
        return "bounded"
    match opening(result):
        case b"":
            return "absent"
        case b'"':
            return "stringified"
        case _:
            return "structured"


def _receipt_fidelity(content: bytes, persisted: str) -> ReceiptFidelity:
    if not content:
        return "absent"
    return "inflated" if len(persisted) > _PREVIEW_CHARACTERS else "recorded"


def _duration_ms(facts: Facts) -> int | None:
    seconds = facts.duration_seconds
    known = (facts.duration_ms, None if seconds is None else seconds * 1000, facts.total_duration_ms)
    for duration in known:
        if duration is not None and math.isfinite(duration) and 0 <= duration < _LONGEST_MS:
            return round(duration)
    return None


def _persisted_text(content: bytes) -> str:
    """The receipt's text when it is the preview of an output that was saved to a file."""
    if not content.startswith(_PERSISTED):
        return ""
    try:
        return str(tame(content))
    except Untrusted:
        return ""


def _paths(facts: Facts, persisted: str) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    saved = _SAVED_TO.match(persisted)
    if saved:
        found[storable(saved[1].strip())] = None
    if facts.output_file:
        found[facts.output_file] = None
    if facts.persisted_output_path:
        size = facts.persisted_output_size
        found[facts.persisted_output_path] = size if size is not None and 0 <= size < _LONGEST_MS else None
    return found

"""Receipts that no longer stand: replaced by a shorter text, or taken out of the model's context."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from envelopes.recordings.base import LineProblem, Record, SupersedeRecord
from envelopes.recordings.claude_code.line import Line
from envelopes.recordings.claude_code.schema import NOTHING, opening, reader, storable
from envelopes.text.untrusted_json import Untrusted, elements, tame


class Preserved(msgspec.Struct, frozen=True):
    """`preservedMessages`: the ids of messages before the boundary that the model went on seeing."""

    uuids: msgspec.Raw = NOTHING


class Compact(msgspec.Struct, frozen=True, rename="camel"):
    preserved_segment: msgspec.Raw = NOTHING
    preserved_messages: msgspec.Raw = NOTHING


class Microcompact(msgspec.Struct, frozen=True, rename="camel"):
    compacted_tool_ids: msgspec.Raw = NOTHING


class Replacement(msgspec.Struct, frozen=True, rename="camel"):
    """One element of `replacements`: `{kind: "tool-result", toolUseId, replacement}`."""

    tool_use_id: str | None = None
    replacement: msgspec.Raw = NOTHING


_read_compact = reader(Compact)
_read_preserved = reader(Preserved)
_read_microcompact = reader(Microcompact)
_read_replacement = reader(Replacement)


def compacted(line: Line) -> Iterator[Record | LineProblem]:
    """From here on no earlier receipt of the run stands, but for those in messages that were kept."""
    if kept := _kept(line.entry.compact_metadata):
        said = f"the conversation was compacted, but for {kept} that stayed"
        yield line.event("partial_compact_boundary", said, line.raw)
    else:
        yield line.event("compact_boundary", "the conversation was compacted", line.raw)


def _kept(metadata: msgspec.Raw) -> str:
    """What a boundary of a newer release says it left as it was. Some tell a segment, some its messages as well."""
    if opening(metadata) != b"{":
        return ""
    found = _read_compact(metadata)
    if opening(found.preserved_messages) == b"{":
        uuids = _read_preserved(found.preserved_messages).uuids
        number = sum(1 for _ in elements(bytes(uuids))) if opening(uuids) == b"[" else 0
        return f"{number} message{'s' * (number > 1)}" if number else ""
    return "some messages" if opening(found.preserved_segment) == b"{" else ""


def microcompacted(line: Line) -> Iterator[Record | LineProblem]:
    """The receipts named in `compactedToolIds` left the context; nothing stands in their place."""
    yield line.event("microcompact_boundary", "some receipts were compacted away", line.raw)
    if opening(line.entry.microcompact_metadata) != b"{":
        return
    ids = _read_microcompact(line.entry.microcompact_metadata).compacted_tool_ids
    if opening(ids) != b"[":
        return
    for index, raw in enumerate(elements(bytes(ids))):
        call = tame(raw)
        if isinstance(call, str):
            yield _superseded(line, storable(call), "microcompact", None)
        else:
            path = f"$.microcompactMetadata.compactedToolIds[{index}]"
            yield line.refused(path, "expected a string", raw, part=True)


def replaced(line: Line) -> Iterator[Record | LineProblem]:
    """`content-replacement`: what the model gets instead from the next request on."""
    if opening(line.entry.replacements) != b"[":
        yield line.refused("$.replacements", "expected an array", bytes(line.entry.replacements), part=True)
        return
    for index, raw in enumerate(elements(bytes(line.entry.replacements))):
        try:
            replacement = _read_replacement(raw)
        except Untrusted as refusal:
            yield line.refused(f"$.replacements[{index}]", refusal.reason, raw, part=True)
            continue
        if replacement.tool_use_id:
            content = bytes(replacement.replacement) or None
            yield _superseded(line, replacement.tool_use_id, "content-replacement", content)
        else:
            yield line.refused(f"$.replacements[{index}].toolUseId", "no toolUseId", raw, part=True)


def _superseded(line: Line, call: str, reason: str, content: bytes | None) -> SupersedeRecord:
    run = f"{line.session}/{line.entry.agent_id}" if line.entry.agent_id else line.run
    return SupersedeRecord(line=line.number, run=run, call=call, reason=reason, content=content, at=line.at)

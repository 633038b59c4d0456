"""An API message as records: calls, results with their receipts and artifacts, and the text around them.

1. `toolUseResult` (stream-json: `tool_use_result`) is the tool's whole output object; it is a string where the
   tool failed, and absent in some subagents' files.
2. The receipt is `tool_result.content` as recorded. Releases up to 2.1.37 could write the full text behind a
   `<persisted-output>` preview although the model saw only the preview: a receipt that is longer than such a
   preview can be is inflated. A `tool_result` without content is an empty receipt.
3. Releases that cap `stdout` name the file with the rest (`persistedOutputPath`): the result is bounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Literal

import msgspec

from envelopes.alignment.mapping import ResultFidelity
from envelopes.alignment.saved_outputs import PREVIEW_TAG, find_output_preview
from envelopes.recordings.anthropic_usage import read_edits, read_usage_report
from envelopes.recordings.base import (
    TASK_REPORT,
    ArtifactRecord,
    CallRecord,
    Delivery,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    RemarkRecord,
    ResultRecord,
    UsageRecord,
)
from envelopes.recordings.claude_code.reader_state import (
    SYNTHETIC,
    ReaderState,
    follow_up_records,
    is_report,
    note_request,
)
from envelopes.recordings.json_lines import (
    LARGEST_COUNT,
    NOTHING,
    Count,
    ForeignObject,
    change_remarks,
    first_byte,
    may_be_refused,
    remark,
    storable,
    struct_reader,
)
from envelopes.text.untrusted_json import Untrusted, array_slices, dump_json, parse_json, repeated_members

_TOOL_BLOCKS = frozenset({"tool_use", "tool_result"})
_PERSISTED, _PERSISTED_WITHIN = b'"<persisted-output>', 64  # bytes; the text may be the first part of a list
_SAVED_TO = re.compile(r"<persisted-output>\s.*?saved to: ([^\n]+)")
_PREVIEW_CHARACTERS = 3000  # the preview is the first 2 KB and two lines around it


class ApiMessage(ForeignObject, frozen=True, gc=False):
    """`message` of a line, as the API has it."""

    id: str | None = None
    role: str | None = None
    model: str | None = None
    content: msgspec.Raw = NOTHING
    usage: msgspec.Raw = NOTHING
    context_management: msgspec.Raw = NOTHING


class ApiBlock(ForeignObject, frozen=True, gc=False):
    """One element of `message.content`."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NOTHING
    tool_use_id: str | None = None
    content: msgspec.Raw = NOTHING
    is_error: bool | None = None


read_message = struct_reader(ApiMessage)
_read_block = struct_reader(ApiBlock)
_decode_blocks = msgspec.json.Decoder(list[ApiBlock]).decode


class MessageContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields that all records of a message share. `path` is the message's JSON path in its line.

    `stated_kind` is the error kind that the line states, `blocked` are those of calls that a hook blocked before.
    """

    line: int
    run: str
    session: str
    role: str
    key: str
    at: str | None
    path: str = "$.message"
    result: msgspec.Raw = NOTHING
    extra: bytes | None = None
    stated_kind: str | None = None
    blocked: Mapping[str, str] = {}
    origin: Literal["message", "progress"] = "message"
    inherited: bool = False
    names_other: bool = False
    delivery: Delivery = "sent"
    kind: str | None = None

    def problem(self, path: str, reason: str, raw: bytes) -> LineProblem:
        return LineProblem(line=self.line, path=self.path + path, reason=reason, raw=raw, part=True)


class ResultMeta(ForeignObject, frozen=True, gc=False, rename="camel"):
    """The fields of a structured result that describe its call, whatever the tool."""

    duration_ms: float | None = None
    duration_seconds: float | None = None
    total_duration_ms: float | None = None
    agent_id: str | None = None
    output_file: str | None = None
    persisted_output_path: str | None = None
    persisted_output_size: Count | None = None


_NO_META = ResultMeta()
_read_result_meta = struct_reader(ResultMeta, is_payload=True)


def message_records(context: MessageContext, message: ApiMessage, state: ReaderState) -> Iterator[Record | LineProblem]:
    """Yields the records of a message, each with what it adds to its run."""
    yield from _usage_records(context, message, state)
    yield from change_remarks(message, context.path, line=context.line, run=context.run)
    if message.role not in (None, context.role):
        was, became = message.role.encode("utf-8", "surrogatepass"), f"left out: the line is of type {context.role}"
        yield remark("value", f"{context.path}.role", was, became, line=context.line, run=context.run)
    for record in _records(context, message):
        yield record
        yield from follow_up_records(state, record)


def _records(context: MessageContext, message: ApiMessage) -> Iterator[Record | LineProblem]:
    content = bytes(message.content)
    match first_byte(message.content):
        case b'"':
            yield _surrounding_message(context, message, content)
        case b"[":
            yield from _block_records(context, message, content)
            return
        case b"" | b"n":  # absent, or null
            pass
        case _:
            yield context.problem(".content", "expected a string or an array of blocks", content)
    yield from _results(context, [])


def _block_records(context: MessageContext, message: ApiMessage, content: bytes) -> Iterator[Record | LineProblem]:
    blocks = _read_blocks(content)
    surrounding = [
        index for index, block in enumerate(blocks) if isinstance(block, ApiBlock) and block.type not in _TOOL_BLOCKS
    ]
    if surrounding and len(surrounding) == len(blocks):
        yield _surrounding_message(context, message, content)
        yield from _results(context, [])
        return
    slices = _slice_blocks(content, len(blocks))
    if surrounding:
        rest = b"[" + b",".join(slices[index] for index in surrounding) + b"]"
        yield _surrounding_message(context, message, rest)
    results: list[tuple[int, ApiBlock, bytes]] = []
    for index, (block, raw) in enumerate(zip(blocks, slices, strict=True)):
        if isinstance(block, Untrusted):
            yield context.problem(f".content[{index}]", block.reason, raw)
        elif block.type == "tool_use":
            yield _call(context, message, block, index, raw)
            yield from _block_remarks(context, block, index, block.id)
        elif block.type == "tool_result":
            results.append((index, block, raw))
    yield from _results(context, results)


def _read_blocks(content: bytes) -> list[ApiBlock | Untrusted]:
    """Decodes all blocks at once; where one is odd, each by itself, with an error in a malformed one's place."""
    if not may_be_refused(content):
        with suppress(msgspec.MsgspecError, RecursionError):
            decoded = _decode_blocks(content)
            if not _has_odd_members(decoded, content):
                return [*decoded]
    blocks: list[ApiBlock | Untrusted] = []
    for raw in array_slices(content):
        try:
            blocks.append(_read_block(raw))
        except Untrusted as refusal:
            blocks.append(refusal)
    return blocks


def _slice_blocks(content: bytes, count: int) -> list[bytes]:
    return [content[1:-1].strip()] if count == 1 else array_slices(content)


def _has_odd_members(blocks: list[ApiBlock], content: bytes) -> bool:
    """True for a key twice in a tool block, and for one that only `struct_reader` may set."""
    if not any(block.type in _TOOL_BLOCKS or block.changed for block in blocks):
        return False
    slices = _slice_blocks(content, len(blocks))
    return any(block.changed or repeated_members(raw) for block, raw in zip(blocks, slices, strict=True))


def _surrounding_message(context: MessageContext, message: ApiMessage, content: bytes) -> MessageRecord:
    """The message without its tool blocks."""
    return MessageRecord(
        line=context.line,
        run=context.run,
        key=context.key,
        role=context.role,
        content=content,
        step=message.id,
        at=context.at,
        delivery="unclear" if message.model == SYNTHETIC and context.delivery == "sent" else context.delivery,
        kind=context.kind or (TASK_REPORT if context.role == "user" and is_report(content) else None),
    )


def _call(
    context: MessageContext, message: ApiMessage, block: ApiBlock, index: int, raw: bytes
) -> CallRecord | LineProblem:
    if not block.id or not block.name:
        field = "name" if block.id else "id"
        return context.problem(f".content[{index}].{field}", f"a tool_use block without {field}", raw)
    return CallRecord(
        line=context.line,
        run=context.run,
        call=block.id,
        tool=block.name,
        args=bytes(block.input) or b"null",
        step=message.id,
        at=context.at,
        origin=context.origin,
        inherited=context.inherited,
        names_other=context.names_other,
    )


def _results(context: MessageContext, results: list[tuple[int, ApiBlock, bytes]]) -> Iterator[Record | LineProblem]:
    """A line has one structured result and one decision: they belong to a block only where that is the only one."""
    is_single = len(results) == 1
    for index, block, raw in results:
        if block.tool_use_id:
            yield from _result_records(context, block.tool_use_id, block, is_single=is_single)
            yield from _block_remarks(context, block, index, block.tool_use_id)
        else:
            yield context.problem(f".content[{index}].tool_use_id", "a tool_result block without tool_use_id", raw)
    if not is_single and first_byte(context.result) not in (b"", b"n"):  # neither absent nor null
        yield EventRecord(
            line=context.line,
            run=context.run,
            kind="unattributed_result",
            message=f"one structured result beside {len(results)} tool results: it is not known whose it is",
            payload=bytes(context.result),
            at=context.at,
        )


def _result_records(context: MessageContext, call: str, block: ApiBlock, *, is_single: bool) -> Iterator[Record]:
    result = context.result if is_single else NOTHING
    meta = _read_result_meta(result) if first_byte(result) == b"{" else _NO_META
    content = bytes(block.content)
    stated_kind = context.blocked.get(call) or (context.stated_kind if is_single else None)
    yield ResultRecord(
        line=context.line,
        run=context.run,
        call=call,
        result=bytes(result) or None,
        fidelity=result_fidelity(result, meta),
        is_error=block.is_error,
        at=context.at,
        duration_ms=_duration_ms(meta),
        child_run=f"{context.session}/{meta.agent_id}" if meta.agent_id else None,
        extra=context.extra,
        stated_kind=stated_kind if block.is_error else None,
    )
    yield from _result_remarks(context, call, meta)
    preview = _persisted_preview(content, result)
    shown = find_output_preview(preview)
    is_inflated = shown.is_inflated if shown else len(preview) > _PREVIEW_CHARACTERS
    yield ReceiptRecord(
        line=context.line,
        run=context.run,
        call=call,
        content=content or b'""',
        fidelity="inflated" if is_inflated else "recorded",
        at=context.at,
    )
    for path, size in _artifact_sizes(meta, preview).items():
        yield ArtifactRecord(line=context.line, run=context.run, call=call, role="output", path=path, size=size)


def _block_remarks(context: MessageContext, block: ApiBlock, index: int, call: str | None) -> Iterator[RemarkRecord]:
    path = f"{context.path}.content[{index}]"
    return change_remarks(block, path, line=context.line, run=context.run, call=call)


def _result_remarks(context: MessageContext, call: str, meta: ResultMeta) -> Iterator[RemarkRecord]:
    yield from change_remarks(meta, "$.toolUseResult", line=context.line, run=context.run, call=call)
    if _duration_ms(meta) is None:
        for name, duration in _durations(meta).items():
            yield remark(
                "duration",
                f"$.toolUseResult.{name}",
                str(duration).encode(),
                "left out: not a possible duration",
                line=context.line,
                run=context.run,
                call=call,
            )


def result_fidelity(result: msgspec.Raw, meta: ResultMeta | None = None) -> ResultFidelity:
    """That of a tool's result as the client has it, in its transcript and its hooks. Raises Untrusted."""
    if meta is None:
        meta = _read_result_meta(result) if first_byte(result) == b"{" else _NO_META
    if meta.persisted_output_path:
        return "bounded"
    match first_byte(result):
        case b"":
            return "absent"
        case b'"':
            return "stringified"
        case _:
            return "structured"


def _duration_ms(meta: ResultMeta) -> int | None:
    for name, duration in _durations(meta).items():
        milliseconds = duration * 1000 if name == "durationSeconds" else duration
        if math.isfinite(milliseconds) and 0 <= milliseconds < LARGEST_COUNT:
            return round(milliseconds)
    return None


def _durations(meta: ResultMeta) -> dict[str, float]:
    """The durations that a result has, in the order in which they are preferred."""
    durations = {
        "durationMs": meta.duration_ms,
        "durationSeconds": meta.duration_seconds,
        "totalDurationMs": meta.total_duration_ms,
    }
    return {name: duration for name, duration in durations.items() if duration is not None}


def _persisted_preview(content: bytes, result: msgspec.Raw) -> str:
    """The receipt's text when it is the preview of an output that was saved to a file, else empty.

    A tool may print such a preview itself: then a text of its structured result begins the same, up to the file's path.
    """
    if _PERSISTED not in content[:_PERSISTED_WITHIN]:
        return ""
    try:
        parts = parse_json(content)
    except Untrusted:
        return ""
    first = parts[0] if isinstance(parts, list) and parts else parts
    text = first.get("text") if isinstance(first, dict) else first
    if not isinstance(text, str) or not text.startswith(PREVIEW_TAG):
        return ""
    saved = _SAVED_TO.match(text)
    head = re.escape(dump_json(saved[0] if saved else PREVIEW_TAG)[1:-1])
    is_printed = first_byte(result) == b"{" and re.search(rb'"(?:\\[nrt]| )*' + head, result)
    return "" if is_printed else text


def _artifact_sizes(meta: ResultMeta, preview: str) -> dict[str, int | None]:
    """The size in bytes, where it is recorded, of each file that the result names, by its path."""
    sizes: dict[str, int | None] = {}
    if saved := _SAVED_TO.match(preview):
        sizes[storable(saved[1].strip())] = None
    if meta.output_file:
        sizes[meta.output_file] = None
    if meta.persisted_output_path:
        sizes[meta.persisted_output_path] = meta.persisted_output_size
    return sizes


def _usage_records(context: MessageContext, message: ApiMessage, state: ReaderState) -> Iterator[Record]:
    """Nothing for a message that no request gave, and for the second line with the same usage.

    Older releases wrote it when the answer began, so that its output is a few tokens; newer ones repeat it with the
    whole output on the last line. The input is the same on nearly all lines of a message.
    """
    if context.role != "assistant" or message.model == SYNTHETIC or first_byte(message.usage) != b"{":
        return
    request, usage = message.id or context.key, bytes(message.usage)
    edits = read_edits(message.context_management)
    if not note_request(state, context.run, request, usage + (edits.report or b"")):
        return
    report = read_usage_report(usage, edits)
    for name, fields in report.objects.items():
        yield from change_remarks(fields, f"{context.path}.{name}", line=context.line, run=context.run)
    api = report.api
    record = UsageRecord(
        line=context.line,
        run=context.run,
        request=request,
        input_tokens=api.input_tokens or 0,
        cache_read_tokens=api.cache_read_input_tokens or 0,
        cache_creation_tokens=api.cache_creation_input_tokens or 0,
        output_tokens=api.output_tokens or 0,
        repeated_tokens=report.repeated,
        usage=usage,
        edits=report.edits,
        cleared_tokens=report.cleared,
        origin=context.origin,
        at=context.at,
    )
    if record.context_tokens:
        yield record

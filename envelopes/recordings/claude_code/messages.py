"""A message of the API, taken apart: the calls, their results and receipts, and what stands around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from envelopes.recordings.base import CallRecord, EventRecord, LineProblem, MessageRecord, Record
from envelopes.recordings.claude_code.results import Turn, outcome
from envelopes.recordings.claude_code.schema import Block, Message, has_nul, opening, reader
from envelopes.text.untrusted_json import Untrusted, elements

read_message = reader(Message)
_read_block = reader(Block)
_decode_blocks = msgspec.json.Decoder(list[Block]).decode
_TOOL_BLOCKS = frozenset({"tool_use", "tool_result"})
_NOTHING_SAID = frozenset({b"", b"n"})  # nothing, or a null


def turn_records(turn: Turn, message: Message) -> Iterator[Record | LineProblem]:
    match opening(message.content):
        case b'"':
            yield _around(turn, message, bytes(message.content))
            yield from _results(turn, [])
        case b"[":
            yield from _array(turn, message, bytes(message.content))
        case b"" | b"n":
            yield from _results(turn, [])
        case _:
            yield turn.refused(".content", "expected a string or an array of blocks", bytes(message.content))
            yield from _results(turn, [])


def _array(turn: Turn, message: Message, content: bytes) -> Iterator[Record | LineProblem]:
    blocks = _blocks(content)
    around = [index for index, block in enumerate(blocks) if _stands_around(block)]
    if around and len(around) == len(blocks):
        yield _around(turn, message, content)
        yield from _results(turn, [])
        return
    slices = [content[1:-1].strip()] if len(blocks) == 1 else elements(content)
    if around:
        yield _around(turn, message, b"[" + b",".join(slices[index] for index in around) + b"]")
    results: list[tuple[int, Block, bytes]] = []
    for index, (block, raw) in enumerate(zip(blocks, slices, strict=True)):
        if isinstance(block, Untrusted):
            yield turn.refused(f".content[{index}]", block.reason, raw)
        elif block.type == "tool_use":
            yield _call(turn, message, block, index, raw)
        elif block.type == "tool_result":
            results.append((index, block, raw))
    yield from _results(turn, results)


def _blocks(content: bytes) -> list[Block | Untrusted]:
    """All blocks at once; where one of them is odd, one by one, a refusal in the place of what is no block."""
    if not has_nul(content):
        with suppress(msgspec.MsgspecError, RecursionError):
            return [*_decode_blocks(content)]
    return [_block(raw) for raw in elements(content)]


def _block(raw: bytes) -> Block | Untrusted:
    try:
        return _read_block(raw)
    except Untrusted as refusal:
        return refusal


def _stands_around(block: Block | Untrusted) -> bool:
    return isinstance(block, Block) and block.type not in _TOOL_BLOCKS


def _around(turn: Turn, message: Message, content: bytes) -> MessageRecord:
    return MessageRecord(
        line=turn.line,
        run=turn.run,
        key=turn.key,
        role=turn.role,
        content=content,
        step=message.id,
        at=turn.at,
    )


def _call(turn: Turn, message: Message, block: Block, index: int, raw: bytes) -> CallRecord | LineProblem:
    if not block.id or not block.name:
        field = "name" if block.id else "id"
        return turn.refused(f".content[{index}].{field}", f"a tool_use block without {field}", raw)
    return CallRecord(
        line=turn.line,
        run=turn.run,
        call=block.id,
        tool=block.name,
        args=bytes(block.input) or b"null",
        step=message.id,
        at=turn.at,
        origin=turn.origin,
        inherited=turn.inherited,
    )


def _results(turn: Turn, results: list[tuple[int, Block, bytes]]) -> Iterator[Record | LineProblem]:
    """One structured result stands beside all blocks of a line: it is told only of a block that is alone."""
    alone = len(results) == 1
    for index, block, raw in results:
        if block.tool_use_id:
            yield from outcome(turn, block.tool_use_id, block, turn.result if alone else msgspec.Raw())
        else:
            yield turn.refused(f".content[{index}].tool_use_id", "a tool_result block without tool_use_id", raw)
    if not alone and opening(turn.result) not in _NOTHING_SAID:
        yield EventRecord(
            line=turn.line,
            run=turn.run,
            kind="unattributed_result",
            message=f"one structured result beside {len(results)} tool results: it is not known whose it is",
            payload=bytes(turn.result),
            at=turn.at,
        )

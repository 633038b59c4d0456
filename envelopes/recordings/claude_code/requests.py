"""The requests that the client recorded, which prove what the model got as the answer of a tool.

1. Releases since 2.1.332 at the latest write an `api-request` before each answer of the model. Its `tail` names the
   messages that it has beyond those of an earlier request, each by the SHA-256 of its JSON with sorted keys, without
   white space and without the marks of the cache.
2. A message that stands in the file as it was sent has no other line. The answers of one step are one message, even if
   they are lines of their own. Any other message is an `api-request-blob` before the request.
3. A receipt whose message is in a request is exact. A blob that has another text for a call replaces its receipt.

The client may leave requests out, so that a receipt without one is no less recorded than before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

import msgspec

from envelopes.recordings.base import LineProblem, ReceiptRecord, Record
from envelopes.recordings.claude_code.reader_state import TABLE_SIZE, ReaderState, SentAnswer, UnsentMessage, digest
from envelopes.recordings.json_lines import NOTHING, first_byte, struct_reader
from envelopes.schema.result import JsonValue
from envelopes.text.untrusted_json import Untrusted, array_slices, parse_json

_WAITING = 64  # messages that no request had yet: a fork begins with those of its original
_WAITING_CHARACTERS = 1024 * 1024  # of all of them; without the oldest ones, whose receipts stay recorded


class RequestBlock(msgspec.Struct, frozen=True):
    """A block of a message as it was sent."""

    type: str | None = None
    tool_use_id: str | None = None
    content: msgspec.Raw = NOTHING


class RequestMessage(msgspec.Struct, frozen=True):
    content: msgspec.Raw = NOTHING


_read_block = struct_reader(RequestBlock)
_read_message = struct_reader(RequestMessage)


def note_answers(state: ReaderState, message: bytes, records: Iterable[Record | LineProblem]) -> None:
    """Remembers the receipts of a message, until a request has them.

    Answers of the model that name their request (`requestRef`) may be copied from another session: a request of this
    one follows.
    """
    receipts = [record for record in records if isinstance(record, ReceiptRecord)]
    if not state.sends or not receipts:
        return
    for receipt in receipts:
        state.answers[receipt.call] = SentAnswer(receipt.line, receipt.at, _content_digest(receipt.content))
    for oldest in list(state.answers)[:-TABLE_SIZE]:
        del state.answers[oldest]
    contents = {receipt.call: receipt.content.decode() for receipt in receipts}
    state.unsent = [*state.unsent, UnsentMessage(message.decode(), contents, state.step)][-_WAITING:]
    while sum(len(waiting.raw) for waiting in state.unsent) > _WAITING_CHARACTERS:
        del state.unsent[0]


def proven_receipts(state: ReaderState, run: str, tail: msgspec.Raw) -> Iterator[ReceiptRecord]:
    """The receipts whose message a request has for the first time; `tail` is its list of hashes."""
    state.sends = True
    if not state.unsent or first_byte(tail) != b"[":
        return
    hashes = {text.strip(b'"').decode() for text in array_slices(bytes(tail)) if text.startswith(b'"')}
    sent = _sent_messages(state.unsent, hashes)
    state.unsent = [message for message in state.unsent if message not in sent]
    for message in sent:
        for call, content in message.receipts.items():
            yield from _exact(state, run, call, content.encode())


def _sent_messages(unsent: list[UnsentMessage], hashes: set[str]) -> list[UnsentMessage]:
    """Those that are a message of the request, alone or with all of their step."""
    sent: list[UnsentMessage] = []
    for _, step in groupby(unsent, key=attrgetter("step")):
        answers = list(step)
        if _message_hash(answers) in hashes:
            sent += answers
        elif len(answers) > 1:
            sent += [answer for answer in answers if _message_hash([answer]) in hashes]
    return sent


def blob_answers(state: ReaderState, run: str, message: msgspec.Raw) -> Iterator[ReceiptRecord | tuple[str, bytes]]:
    """The receipts that a message proves as it was sent; for a call with another text there, the call and that text."""
    state.sends = True
    content = bytes(_read_message(message).content) if first_byte(message) == b"{" else b""
    if not state.answers or not content.startswith(b"["):
        return
    for raw in array_slices(content):
        block = _read_block(raw) if raw.startswith(b"{") else RequestBlock()
        call, text = block.tool_use_id or "", bytes(block.content) or b'""'
        if block.type != "tool_result" or call not in state.answers:
            continue
        if state.answers[call].digest == _content_digest(text):
            yield from _exact(state, run, call, text)
        else:
            state.answers[call].digest = _content_digest(text)
            yield call, text


def _exact(state: ReaderState, run: str, call: str, content: bytes) -> Iterator[ReceiptRecord]:
    answer = state.answers.get(call)
    if answer is not None and not answer.is_sent:
        answer.is_sent = True
        yield ReceiptRecord(line=answer.line, run=run, call=call, content=content, fidelity="exact", at=answer.at)


def _content_digest(content: bytes) -> str:
    """Equal for contents that are the same JSON, however it is written."""
    try:
        return _hash(parse_json(content))[:16]
    except Untrusted:
        return digest(content)


def _message_hash(messages: Iterable[UnsentMessage]) -> str:
    """The hash of one message with the answers of all of these; empty where that is none."""
    try:
        parsed = [parse_json(message.raw.encode()) for message in messages]
    except Untrusted:
        return ""
    contents = [value["content"] for value in parsed if isinstance(value, dict) and "content" in value]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return _hash({"role": "user", "content": blocks}) if len(contents) == len(parsed) else ""


def _hash(value: JsonValue) -> str:
    """The SHA-256 of the JSON as the client writes it.

    The library for RFC 8785 takes 28 times as long for an output of 5 KB, and differs in numbers alone: a message that
    has any may stay unproven.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

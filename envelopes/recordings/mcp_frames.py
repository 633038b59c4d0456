"""Frames between an MCP host and a server, a JSON-RPC message a line: logs of taps, of mcpsnoop, Reticle and ACP.

1. The message is the line itself, or under `msg`, `payload`, `message`, `json` or `frame`, there also as a string. A
   time is under `ts`, `timestamp` or `time` (ISO, or seconds or milliseconds since 1970).
2. `initialize` begins a run: a connection has a session id in its frames, or is named by the file and that frame.
3. `tools/call` is a call. Its id is unique within the connection and its direction: a text, or a number, which are two
   ids where they read the same. A host that gives an id again after the answer makes another call.
4. The answer is the result: `structuredContent` beside `content`. What the host showed to its model is in no frame, and
   it may shorten it: the receipt is the content as the server offered it, reconstructed.
5. A JSON-RPC `error` is a result without a receipt: what the host showed of it is unknown.
6. `notifications/progress` is an event of the call with its token, other notifications and requests are events.
7. `notifications/cancelled` ends a call that has no answer: the host ignores one that comes later, which is an event.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    Format,
    LineProblem,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
)
from envelopes.recordings.json_lines import (
    NOTHING,
    ForeignObject,
    change_remarks,
    changed_time,
    epoch_time,
    first_byte,
    parsed_lines,
    read_json_lines,
    remark,
    storable,
    struct_reader,
    valid_timestamp,
)
from envelopes.text.untrusted_json import Untrusted, object_slices, parse_json

Records = Iterator[Record | LineProblem]
_SLOT = "mcp"
_MOST_OPEN = 1_000
_NUMBER = re.compile(r"-?[\d.]+(?:[eE][+-]?\d+)?")


class Frame(ForeignObject, frozen=True, gc=False):
    """A line, with the message in one of its fields, or as the message itself."""

    jsonrpc: str | None = None
    msg: msgspec.Raw = NOTHING
    payload: msgspec.Raw = NOTHING
    message: msgspec.Raw = NOTHING
    json: msgspec.Raw = NOTHING
    frame: msgspec.Raw = NOTHING
    ts: msgspec.Raw = NOTHING
    timestamp: msgspec.Raw = NOTHING
    time: msgspec.Raw = NOTHING
    session_id: str | None = None
    server: str | None = None
    dir: str | None = None
    direction: str | None = None


class RpcMessage(ForeignObject, frozen=True, gc=False):
    """A JSON-RPC message: a request or a notification by its method, an answer by its result or error."""

    jsonrpc: str | None = None
    id: msgspec.Raw = NOTHING
    method: str | None = None
    params: msgspec.Raw = NOTHING
    result: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class FrameState(msgspec.Struct):
    """`open` are the calls that wait for an answer, with their direction, `tokens` the calls of progress tokens.

    `names` is the last call of each id, `cancelled` those without an answer, with the direction of their request.
    `others` are the other requests that wait for one, as direction and id: each side counts its own requests.
    `requests` is the digest of the last request of each id: an equal one is the same request, sent again.
    """

    run: str = ""
    open: dict[str, str] = {}
    others: list[list[str]] = []
    tokens: dict[str, str] = {}
    names: dict[str, str] = {}
    cancelled: dict[str, str] = {}
    requests: dict[str, str] = {}


_read_frame = struct_reader(Frame)
_read_message = struct_reader(RpcMessage)


class _ReadFrame(msgspec.Struct, frozen=True):
    """One frame: its line number, its message with the bytes of that, and its time."""

    number: int
    raw: bytes
    message: RpcMessage
    at: str | None
    state: FrameState
    direction: str

    @property
    def id(self) -> str:
        return _read_id(bytes(self.message.id))

    @property
    def call(self) -> str:
        """The last call of the id."""
        return self.state.names.get(self.id, self.id)

    def event(self, kind: str, text: str, call: str | None = None) -> EventRecord:
        return EventRecord(
            line=self.number,
            run=self.state.run,
            kind=storable(kind),
            message=text,
            call=call,
            payload=self.raw,
            at=self.at,
        )


def sniff(head: bytes, path: SourcePath) -> bool:
    """Some line has a JSON-RPC message."""
    for frame in parsed_lines(head, _read_frame):
        raw = _message_in(frame)
        if frame.jsonrpc or (raw and b'"jsonrpc"' in raw):
            return True
    return False


def is_global_call_id(call: str) -> bool:
    """False: each connection numbers its own requests."""
    return False


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state = msgspec.convert(saved.get(_SLOT, {}), FrameState)
    for line in read_json_lines(lines, saved):
        if isinstance(line, LineProblem):
            yield line
            continue
        try:
            yield from list(_frame_records(line, path, state))
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
        del state.others[:-_MOST_OPEN]
        for table in (state.open, state.tokens, state.names, state.cancelled, state.requests):
            for oldest in list(table)[:-_MOST_OPEN]:
                del table[oldest]
    saved[_SLOT] = msgspec.to_builtins(state)


def _message_in(frame: Frame) -> bytes:
    """The message in one of the fields of a line, which may hold it as a string; empty where there is none."""
    for field in (frame.msg, frame.payload, frame.message, frame.json, frame.frame):
        if first_byte(field) == b"{":
            return bytes(field)
        if first_byte(field) == b'"':
            text = parse_json(bytes(field))
            if isinstance(text, str) and text.lstrip().startswith("{"):
                return text.strip().encode("utf-8", "surrogatepass")
    return b""


def _frame_records(line: SourceLine, path: SourcePath, state: FrameState) -> Records:
    frame = _read_frame(line.raw)
    raw = line.raw.strip() if frame.jsonrpc else _message_in(frame)
    if not raw:
        raise Untrusted("no JSON-RPC message")
    message = _read_message(raw)
    if message.method is None and message.result is NOTHING and message.error is NOTHING:
        raise Untrusted("no request, no answer and no notification")
    at = next((time for field in (frame.ts, frame.timestamp, frame.time) if (time := _time(field))), None)
    if message.method == "initialize" or not state.run:
        state.open, state.others, state.tokens = {}, [], {}
        state.names, state.cancelled, state.requests = {}, {}, {}
        beginning = hashlib.sha256(line.raw).hexdigest()[:12]
        state.run = storable(frame.session_id or f"{path.stem}-{beginning}")
        title = f"MCP server {storable(frame.server)}" if frame.server else None
        yield RunRecord(line=line.number, run=state.run, agent="mcp", title=title, started_at=at)
    read = _ReadFrame(line.number, raw, message, at, state, frame.dir or frame.direction or "")
    yield from _request(read, message.method) if message.method is not None else _answer(read)
    place = "$" if frame.jsonrpc else "$.message"
    yield from change_remarks(message, place, line=line.number, run=state.run)
    yield from change_remarks(frame, "$", line=line.number, run=state.run)
    for name in ("ts", "timestamp", "time"):
        field = bytes(getattr(frame, name))
        if field not in (b"", b"null") and (became := _changed_time(getattr(frame, name))):
            yield remark("timestamp", f"$.{name}", field, became, line=line.number, run=state.run)


def _time(field: msgspec.Raw) -> str | None:
    value = parse_json(bytes(field)) if field is not NOTHING else None
    if isinstance(value, str):
        return valid_timestamp(value)
    return epoch_time(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _changed_time(field: msgspec.Raw) -> str:
    value = parse_json(bytes(field))
    if isinstance(value, str):
        return changed_time(value)
    return "" if _time(field) else "left out: no time"


def _request(read: _ReadFrame, method: str) -> Records:
    params = _object(read.message.params)
    token = _object(params.get("_meta", b"")).get("progressToken")
    if method == "tools/call" and read.message.id is not NOTHING:
        name = parse_json(params.get("name", b"null"))
        if not isinstance(name, str) or not name:
            raise Untrusted("a call without a name", "$.params.name")
        call = read.call
        request = hashlib.sha256(read.raw).hexdigest()[:16]
        is_other = read.state.requests.get(read.id, request) != request  # an equal line is the same request again
        if is_other and call not in read.state.open:
            call = f"{read.id}#{read.number}"
        read.state.requests[read.id] = request
        read.state.names[read.id], read.state.open[call] = call, read.direction
        if token:
            read.state.tokens[token.decode("utf-8", "replace")] = call
        yield CallRecord(
            line=read.number,
            run=read.state.run,
            call=call,
            tool=storable(name),
            args=params.get("arguments", b"null"),
            at=read.at,
        )
    elif method == "notifications/progress":
        token = params.get("progressToken", b"")
        text = parse_json(params.get("message", b"null"))
        words = storable(text) if isinstance(text, str) else "progress"
        yield read.event("progress", words, read.state.tokens.get(token.decode("utf-8", "replace")))
    elif method == "notifications/cancelled":
        yield from _cancellation(read, params)
    else:
        if read.message.id is not NOTHING:
            read.state.others.append([read.direction, read.id])
        yield read.event(method, storable(method))


def _cancellation(read: _ReadFrame, params: dict[str, bytes]) -> Records:
    """Ends a call that waits for its answer, by the side that sent it. Both sides may have a request with one id."""
    state, name = read.state, _read_id(params.get("requestId", b""))
    call, reason = state.names.get(name, ""), parse_json(params.get("reason", b"null"))
    same_side = ("", read.direction)
    is_other = any(other == name and direction in same_side for direction, other in state.others)
    is_call = call in state.open and state.open[call] in same_side and not is_other
    text = f"cancelled: {storable(reason)}" if isinstance(reason, str) and reason else "notifications/cancelled"
    yield read.event("notifications/cancelled", text, call if is_call else None)
    if is_call:
        state.cancelled[call] = state.open.pop(call)
        yield ResultRecord(
            line=read.number, run=state.run, call=call, result=None, is_error=True, stated_kind="cancelled", at=read.at
        )


def _answer(read: _ReadFrame) -> Records:
    """Reads an answer: that of a call gives its result and receipt, that of another request nothing.

    Both sides may have an open request with one id; an answer goes the other way than its request. Lines may be in
    another order than they were sent, so an answer without a request is that of a call where it has the form of one.
    """
    state, members = read.state, _object(read.message.result)
    others = [entry for entry in state.others if entry[1] == read.id and _goes_back(entry[0], read)]
    is_call = read.call in state.open and _goes_back(state.open[read.call], read)
    has_form = members.get("content", b"").startswith(b"[")
    if others and not (is_call and (has_form or read.message.error is not NOTHING)):
        state.others.remove(others[0])
        return
    if not is_call and read.call in state.cancelled and _goes_back(state.cancelled[read.call], read):
        yield read.event("answer", "the answer to a cancelled call, which the host ignores", read.call)
        return
    if not (is_call or has_form):
        yield read.event("answer", "the answer to a request that is not in the file")
        return
    state.open.pop(read.call, None)
    shared: dict[str, Any] = {"line": read.number, "run": read.state.run, "call": read.call, "at": read.at}
    if read.message.error is not NOTHING:
        yield ResultRecord(result=bytes(read.message.error), is_error=True, **shared)
        return
    flag = members.get("isError", b"false")
    failed = {b"true": True, b"false": False}.get(flag)
    if failed is None:
        became = "left out: neither true nor false"
        path = "$.message.result.isError"
        yield remark("value", path, flag, became, line=read.number, run=state.run, call=read.call)
    yield ResultRecord(result=bytes(read.message.result), is_error=failed, **shared)
    if "content" in members:
        yield ReceiptRecord(content=members["content"], fidelity="reconstructed", **shared)


def _read_id(raw: bytes) -> str:
    """An id as it is named. A text that reads like a number keeps its quotation marks, since the number is another."""
    text = storable(raw.decode("utf-8", "replace"))
    return text if _NUMBER.fullmatch(text.strip('"')) else text.strip('"')


def _goes_back(direction: str, read: _ReadFrame) -> bool:
    """False where both frames name a direction and it is the same: an answer goes the other way than its request."""
    return not direction or direction != read.direction


def _object(raw: bytes | msgspec.Raw) -> dict[str, bytes]:
    content = bytes(raw)
    return object_slices(content) if content.startswith(b"{") else {}


FORMATS: tuple[Format, ...] = (
    Format(
        name="mcp",
        title="MCP frames",
        agent="mcp",
        namespace="mcp",
        mark="lines with a JSON-RPC message",
        version=2,
        sniff=sniff,
        read=read,
        is_global_call_id=is_global_call_id,
    ),
)

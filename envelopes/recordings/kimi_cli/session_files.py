"""The files of a session of Kimi CLI: whose they are, their order, and what the files beside one state about it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeVar

import msgspec

from envelopes.recordings.base import SourcePath
from envelopes.recordings.json_lines import storable
from envelopes.recordings.places import PlaceName

WIRE = "wire"
CONTEXT = "context"
PLACES = 100_000  # to a context file: lines beyond it share the last place
SUBAGENTS = "subagents"
SUMMARY = b"<system>Previous context has been compacted."
_NAME = re.compile(r"(?P<base>.+?)(?:_(?P<number>\d{1,4}))?\.jsonl")
Line = TypeVar("Line", bound=msgspec.Struct)
_MARK = re.compile(rb'\{"role": ?"_')  # between the messages
_SUBAGENT = re.compile(r"context_sub_\d+")
_GLOBAL_CALL = re.compile(r"(?:tool|call|toolu)_[A-Za-z0-9]{20,}")


class SessionFile(msgspec.Struct, frozen=True):
    """A file of a session. `base` is its name without the number that a context file gets when it is left.

    `epoch` counts the context files of a run from 1: the one without a number is the last.
    """

    run: str
    base: str
    epoch: int = 1
    parent: str | None = None

    @property
    def is_wire(self) -> bool:
        return self.base == WIRE

    def place(self, line: int) -> int:
        """The place of a line in the run."""
        return (self.epoch - 1) * PLACES + min(line, PLACES - 1)


def name_place(place: int) -> PlaceName:
    """The line of a context file: of the first one without its name, since most sessions have no other.

    A record of the wire file alone is at the line of the call before it, or at the end of the last context.
    """
    context, line = divmod(place, PLACES)
    within = f" of context {context + 1}" if context else ""
    if line == PLACES - 1:
        return PlaceName(f"the end{within or ' of the context'}")
    return PlaceName("line", line, within) if line else PlaceName(f"the start{within}")


class _Function(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: str | None = None


class _ToolCall(msgspec.Struct, frozen=True):
    id: str = ""
    function: _Function = _Function()


class _ContextLine(msgspec.Struct, frozen=True):
    role: str = ""
    content: msgspec.Raw = msgspec.Raw()
    tool_calls: list[_ToolCall] | None = None


class _WireEvent(msgspec.Struct, frozen=True):
    """The members of a line by which a subagent's file finds the call that started it."""

    task_tool_call_id: str | None = None
    event: msgspec.Raw = msgspec.Raw()


class _WireMessage(msgspec.Struct, frozen=True):
    type: str = ""
    payload: msgspec.Raw = msgspec.Raw()


class _WireLine(msgspec.Struct, frozen=True):
    message: _WireMessage = _WireMessage()


def is_global_call_id(call: str) -> bool:
    """Ids that a provider drew at random; those of Kimi's API may count from zero, as `Shell:0`."""
    return _GLOBAL_CALL.fullmatch(call) is not None


def call_name(call: str, tool: str, arguments: str, known: dict[str, int]) -> str:
    """The id of a call. One that counts is named by what was asked too, because it counts again after a compaction.

    The second call of the same name has a number behind it; `known` counts them.
    """
    if is_global_call_id(call):
        return call
    name = f"{call}-{hashlib.sha256(f'{tool} {arguments}'.encode('utf-8', 'replace')).hexdigest()[:8]}"
    known[name] = known.get(name, 0) + 1
    return name if known[name] == 1 else f"{name}-{known[name]}"


def find_file(path: SourcePath) -> SessionFile | None:
    """None for a file that no folder names the session of."""
    *folders, name = path.path.split("/")
    match = _NAME.fullmatch(name)
    if match is None or not folders:
        return None
    base, number = match["base"], match["number"]
    if _SUBAGENT.fullmatch(name.removesuffix(".jsonl")):
        base, number = name.removesuffix(".jsonl"), None
    if not base.startswith((WIRE, CONTEXT)):  # `<session>.jsonl` of releases before 0.59
        return SessionFile(base, base, _epoch(path, base, number))
    session = folders[-1]
    if len(folders) > 2 and folders[-2] == SUBAGENTS:
        return SessionFile(f"{folders[-3]}/{session}", base, _epoch(path, base, number), folders[-3])
    if base != CONTEXT and base != WIRE:
        return SessionFile(f"{session}/{_find_task(path, name) or base}", base, _epoch(path, base, number), session)
    return SessionFile(session, base, _epoch(path, base, number))


def _epoch(path: SourcePath, base: str, number: str | None) -> int:
    return int(number) if number else _last_epoch(path, base)


def _last_epoch(path: SourcePath, base: str) -> int:
    """The number of the context file without one: it follows all others."""
    left = re.compile(rf"{re.escape(base)}_(?P<number>\d{{1,4}})\.jsonl")
    matches = [left.fullmatch(name) for name in (path.folder.names() if path.folder else ())]
    return max((int(match["number"]) for match in matches if match), default=0) + 1


def read_lines(path: SourcePath, name: str) -> list[bytes]:
    """The lines of a file beside this one; none where its end is not at hand."""
    raw = path.folder.read(name) if path.folder and name in path.folder.names() else b""
    return [line.strip() for line in raw.split(b"\n")] if raw.endswith(b"\n") else []


def _find_task(path: SourcePath, name: str) -> str | None:
    """The call that started the subagent of a `context_sub_1.jsonl`, by what the session's wire file has of it."""
    if path.folder is None or name not in path.folder.names() or f"{WIRE}.jsonl" not in path.folder.names():
        return None
    own = path.folder.read(name).splitlines()[:200]
    calls = {call.id for line in _parse(own, _ContextLine) for call in line.tool_calls or ()}
    prompts = [bytes(line.content) for line in _parse(own, _ContextLine) if line.role == "user"][:1]
    asked, begun = set[str](), list[str]()
    wire = [line for line in path.folder.read(f"{WIRE}.jsonl").splitlines() if b'"SubagentEvent"' in line]
    for line in _parse(wire, _WireLine):
        event = next(_parse([bytes(line.message.payload)], _WireEvent), _WireEvent())
        inner = next(_parse([bytes(event.event)], _WireMessage), _WireMessage())
        task = event.task_tool_call_id or ""
        if inner.type == "ToolCall" and next(_parse([bytes(inner.payload)], _ToolCall), _ToolCall()).id in calls:
            asked.add(task)
        elif inner.type == "TurnBegin" and any(_same_prompt(bytes(inner.payload), prompt) for prompt in prompts):
            begun.append(task)
    found = asked or set(begun)
    return found.pop() if len(found) == 1 else None


def _same_prompt(payload: bytes, prompt: bytes) -> bool:
    with suppress(ValueError, RecursionError):
        begin = msgspec.json.decode(payload)
        return isinstance(begin, dict) and begin.get("user_input") == msgspec.json.decode(prompt)
    return False


def _parse(lines: list[bytes], kind: type[Line]) -> Iterator[Line]:
    for line in lines:
        with suppress(ValueError, RecursionError):  # msgspec's errors
            yield msgspec.json.decode(line, type=kind)


class TracedLine(msgspec.Struct, frozen=True):
    """A line of a context file, and its place in the run: that of the original where it is a copy."""

    raw: bytes
    place: int
    is_copy: bool


class CopyState(msgspec.Struct):
    """How many lines at the beginning of a context file are copies so far, and if the last one was none.

    `follows_summary`: the lines behind the beginning were the summary of a compaction, and copies.
    """

    count: int = 0
    is_beginning: bool = True
    follows_summary: bool = False


class CopiedLines:
    """Finds the lines of a context file that are copies of the one before it."""

    def __init__(self, previous: list[TracedLine], state: CopyState) -> None:
        self.previous, self.state = previous, state
        self._places = {line.raw: line.place for line in previous if _MARK.match(line.raw) is None}

    def find(self, raw: bytes) -> int | None:
        """The place of the original of the next line; None for a line that is no copy."""
        state = self.state
        if state.is_beginning and state.count < len(self.previous) and self.previous[state.count].raw == raw:
            state.count += 1
            return self.previous[state.count - 1].place
        if state.is_beginning:
            state.is_beginning, state.follows_summary = False, is_summary(raw)
            return None
        place = self._places.get(raw) if state.follows_summary else None
        state.follows_summary = place is not None
        return place


def is_summary(raw: bytes) -> bool:
    return SUMMARY in raw[:200] and b'"user"' in raw[:20]


def trace_contexts(path: SourcePath, file: SessionFile, end: int) -> list[list[TracedLine]]:
    """The lines of the context files of a run before the epoch `end`. A file that is not at hand has none."""
    base = CONTEXT if file.is_wire else file.base
    last = _last_epoch(path, base)
    traced: list[list[TracedLine]] = [[]]
    for epoch in range(1, end):
        copies, own = CopiedLines(traced[-1], CopyState()), SessionFile(file.run, base, epoch)
        lines, name = list[TracedLine](), f"{base}.jsonl" if epoch == last else f"{base}_{epoch}.jsonl"
        for number, raw in enumerate(read_lines(path, name), 1):
            if raw:
                place = copies.find(raw)
                lines.append(TracedLine(raw, own.place(number) if place is None else place, place is not None))
        traced.append(lines)
    return traced[1:]


def place_calls(path: SourcePath, file: SessionFile, end: int) -> tuple[dict[str, int], dict[str, int]]:
    """The places of the calls in the context files before the epoch `end`, by their names, and how often each came."""
    places, counts = dict[str, int](), dict[str, int]()
    for traced in trace_contexts(path, file, end):
        asking = [line for line in traced if not line.is_copy and b'"tool_calls"' in line.raw]
        for line in asking:
            for message in _parse([line.raw], _ContextLine):
                for call in message.tool_calls or ():
                    asked = storable(call.function.arguments or "")
                    name = call_name(storable(call.id), storable(call.function.name), asked, counts)
                    places.setdefault(name, line.place)
    return places, counts


def count_contexts(path: SourcePath) -> int:
    return _last_epoch(path, CONTEXT)

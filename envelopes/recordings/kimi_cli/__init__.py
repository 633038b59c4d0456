"""Sessions of Kimi CLI, releases 0.59 to 1.50: a folder with the model's context and what the screen was told.

    <session>/context.jsonl     {role: user | assistant | tool, content, tool_calls?, tool_call_id?}, the messages as
                                sent, and {role: _system_prompt | _checkpoint | _usage, …} between them
    <session>/context_1.jsonl   the context that was left by a compaction, a D-Mail or a clearing
    <session>/wire.jsonl        {timestamp, message: {type, payload}}: calls, results, usage, with their times
    <session>/subagents/<id>/…  the same of a subagent; before 1.25 `context_sub_1.jsonl`, and its events in wire.jsonl

1. A message of the role tool is a receipt. Its texts are sent as they are: parts of a text each, or one text. An image
   is sent only by some APIs, so that such a receipt is rebuilt.
2. `ToolResult` has the result: what the tool printed, and the sentence about it, apart.
3. The records of a context file have places in the run: `PLACES` to a file. What only the wire file has is put at the
   place of the last call before it. It is written first, so that its last calls may be in no context yet.
4. A context file that follows another one begins with copies of its lines. They are no records, but show what left: all
   that the copies lack. After a compaction the summary stands between them.
5. Ids of calls are those of the provider, which may count from zero in each context: see `call_name`.
6. Neither the release, nor the model, nor the folder is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from envelopes.alignment.kimi_receipts import AGENT
from envelopes.recordings.base import Format, LineProblem, SourceLine, SourcePath
from envelopes.recordings.json_lines import ForeignEntry, parsed_lines, struct_reader
from envelopes.recordings.kimi_cli.context import ContextReader, KimiState, Records
from envelopes.recordings.kimi_cli.session_files import find_file, is_global_call_id, name_place
from envelopes.recordings.kimi_cli.wire import WireReader
from envelopes.recordings.session_lines import read_session

_MARKS = ("_system_prompt", "_checkpoint", "_usage")
_NO_FOLDER = "the folder of a file names its session; import it with that folder"


class KimiLine(ForeignEntry, frozen=True, gc=False):
    """The members by which a line differs from that of another agent. A time is a number."""

    role: str | None = None
    type: str | None = None
    protocol_version: str | None = None
    message: msgspec.Raw = msgspec.Raw()


class KimiMessage(msgspec.Struct, frozen=True):
    type: str | None = None
    payload: msgspec.Raw = msgspec.Raw()


_read_line = struct_reader(KimiLine)
_read_message = struct_reader(KimiMessage)


def sniff(head: bytes, path: SourcePath) -> bool:
    """By the first line: the mark of a context, or the version or the first event of a wire file."""
    first = next(parsed_lines(head, _read_line), None)
    if first is None:
        return False
    if first.role is not None:
        return first.role in _MARKS
    if first.type == "metadata" and first.protocol_version is not None:
        return True
    raw = bytes(first.message)
    if not raw.startswith(b"{") or not path.path.endswith("wire.jsonl"):
        return False
    message = _read_message(raw)
    return message.type is not None and bytes(message.payload).startswith(b"{")


def run_of(path: SourcePath) -> str:
    """Two subagents may have files with the same lines, and so may the parts of a context."""
    file = find_file(path)
    return f"{file.run} {file.base} {file.epoch}" if file else ""


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    state, file = msgspec.convert(saved.get(AGENT, {}), KimiState), find_file(path)
    if file is None:
        for line in lines:
            yield LineProblem(line=line.number, path="$", reason=_NO_FOLDER, raw=line.raw)
        return
    if state.run:  # a file that was read in part keeps its place in the run
        file = msgspec.structs.replace(file, run=state.run, epoch=state.epoch)
    state.run, state.epoch = file.run, file.epoch
    if file.is_wire:
        wire = WireReader(path, file, state)
        yield from wire.settle(list(read_session(lines, saved, AGENT, state, wire.read)))
    else:
        yield from read_session(lines, saved, AGENT, state, ContextReader(path, file, state).read)


FORMATS: tuple[Format, ...] = (
    Format(
        name=AGENT,
        title="Kimi CLI session",
        agent=AGENT,
        namespace=AGENT,
        mark="a context that begins with a checkpoint or a system prompt, or a wire file with its protocol's version",
        sniff=sniff,
        read=read,
        is_global_call_id=is_global_call_id,
        run_of=run_of,
        name_place=name_place,
    ),
)

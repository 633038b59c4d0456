"""Rollouts of the Codex CLI, `rollout-<time>-<thread>.jsonl`, of every release, and what `codex exec --json` prints.

1. A line is `{timestamp, ordinal?, type, payload}`. Releases before September 2025 wrote the payload of a
   `response_item` alone, behind a first line with `id` and `instructions`.
2. `response_item` is what went to the model and came from it: messages, calls (`function_call`, `custom_tool_call`,
   `local_shell_call`, `tool_search_call`) and the outputs that answer them, which are the receipts.
   A `web_search_call` is a call of a tool that the provider runs: it has arguments and a status, and no output. Its
   id is in the `web_search_end` with the same action, in some releases there alone.
3. What the runtime recorded of a call is in some releases only and follows from the lines, not from the version:
   `exec_command_end`, `patch_apply_end`, `mcp_tool_call_end`, `collab_agent_spawn_end`, or an `item_completed`.
4. A command that outlives its window goes on as a session. A `write_stdin` that sends nothing polls it: its output is
   a further receipt of the command, and the poll an event of it. One that sends something is a call of its own, and
   so is a poll of a session that the file does not name. The one record of a command also answers the input that
   reports its end.
5. Code mode has one call, `exec`, whose program calls tools by itself. Their items have ids of their own: each is an
   event of that call where only one was open, of the run otherwise. So is the end of a command that the person ran.
6. `token_count` repeats the usage of the last request; the sum over all requests distinguishes them.
7. A file that was not used for long is rewritten as `.jsonl.zst`, which is one document here: its records have the
   positions of its lines.
8. `arguments` is JSON in a string: the decoded object is stored, or the string where it is none.
9. Releases 0.45 to 0.131 sent the JSON that they recorded of a shell command or a patch as text, to models with the
   tool that takes patches as text: such a receipt is rebuilt. Since 0.53 the history cuts an output again when it is
   sent, and the line has it uncut: such a receipt is inflated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO

import msgspec

from envelopes.recordings.base import Format, LineProblem, LineRecord, Record, SourceLine, SourcePath
from envelopes.recordings.codex import exec_events, rollout
from envelopes.recordings.documents import ZSTD, unpack_beginning, unpack_zstd
from envelopes.text.untrusted_json import Untrusted

UNPACKED_BYTES = 256 * 1024 * 1024


def _sniff_packed(head: bytes, path: SourcePath) -> bool:
    return head.startswith(ZSTD) and rollout.sniff(unpack_beginning(head), path)


def _read_packed(
    lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]
) -> Iterator[Record | LineProblem]:
    """The lines of the file have nothing in common with those in it, whose numbers are the positions of the records."""
    content = list(lines)
    if not content:
        return
    line = content[0].number
    try:
        raw = unpack_zstd(b"".join(part.raw for part in content), UNPACKED_BYTES)
        if len(raw) > UNPACKED_BYTES:
            raise Untrusted(f"longer than {UNPACKED_BYTES:,} bytes when unpacked")
    except Untrusted as refusal:
        yield LineProblem(line=line, path="$", reason=refusal.reason, raw=b"", lines=len(content))
        return
    offset, unpacked = 0, []
    for number, text in enumerate(BytesIO(raw), start=1):
        unpacked.append(SourceLine(number, offset, text))
        offset += len(text)
    for record in rollout.read(unpacked, path, saved):
        if isinstance(record, LineProblem):
            place = f"$ of line {record.line}{record.path.removeprefix('$')}"
            yield LineProblem(line=line, path=place, reason=record.reason, raw=record.raw, part=True)
        elif isinstance(record, LineRecord):
            yield msgspec.structs.replace(record, line=line, position=record.place)
        else:
            yield msgspec.structs.replace(record, line=line)


ROLLOUT = Format(
    name="codex",
    title="Codex rollout",
    agent="codex",
    namespace="codex",
    mark="lines of session_meta, response_item or event_msg with a payload",
    version=8,
    sniff=rollout.sniff,
    read=rollout.read,
    is_global_call_id=rollout.is_global_call_id,
)
FORMATS: tuple[Format, ...] = (
    ROLLOUT,
    msgspec.structs.replace(
        ROLLOUT,
        name="codex-zst",
        title="Codex rollout, compressed",
        mark="such lines, compressed with zstd",
        sniff=_sniff_packed,
        read=_read_packed,
        recorded_as="codex",
        is_document=True,
        is_archive=True,
    ),
    Format(
        name="codex-exec",
        title="Codex exec events",
        agent="codex",
        namespace="codex-exec",
        mark="lines of thread.started, or of an item of a thread",
        sniff=exec_events.sniff,
        read=exec_events.read,
        is_global_call_id=exec_events.is_global_call_id,
    ),
)

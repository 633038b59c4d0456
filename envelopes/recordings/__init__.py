"""Recordings: the formats of foreign logs that can be read.

A new format is a module with `FORMATS`, its line in `RECORDINGS`, and a sample. A module that is not listed
fails a test.
"""

from __future__ import annotations

from pathlib import Path

from envelopes.recordings import (
    atif,
    audit,
    claude_code,
    cline,
    codex,
    continue_cli,
    copilot_cli,
    gemini_cli,
    inspect_ai,
    kimi_cli,
    kimi_code,
    mcp_frames,
    message_dumps,
    mistral_vibe,
    mistral_vibe_store,
    native,
    opencode,
    openhands,
    otlp,
    pi,
    qwen_code,
    swe_agent,
)
from envelopes.recordings.base import Container, Format, SourcePath
from envelopes.recordings.opencode import storage as opencode_storage
from envelopes.recordings.otlp.logs import MESSAGE_FORMAT, decode_logs, log_format
from envelopes.recordings.otlp.span_lines import decode_traces
from envelopes.recordings.otlp.spans import TraceLine, Unavailable, encode_protobuf_answer

__all__ = [
    "EXPORTS",
    "READABLE",
    "RECORDINGS",
    "TraceLine",
    "Unavailable",
    "UnknownFormat",
    "decode_logs",
    "decode_traces",
    "detect_format",
    "encode_protobuf_answer",
    "find_container",
    "find_format",
]

RECORDINGS: tuple[Format, ...] = (
    otlp.PROTOBUF,  # before the formats of lines: texts in its spans may have such lines
    *cline.FORMATS,  # before lines with the same names
    *qwen_code.FORMATS,  # before sessions with the same names
    *claude_code.FORMATS,
    *codex.FORMATS,
    *audit.FORMATS,
    *native.FORMATS,
    *otlp.FORMATS,
    log_format(claude_code.SESSION),
    log_format(codex.FORMATS[0]),
    MESSAGE_FORMAT,
    *copilot_cli.FORMATS,
    *gemini_cli.FORMATS,
    *opencode.FORMATS,
    *continue_cli.FORMATS,
    *pi.FORMATS,
    *kimi_code.FORMATS,  # before sessions with the same first line
    *kimi_cli.FORMATS,
    *openhands.FORMATS,
    *swe_agent.FORMATS,
    *atif.FORMATS,
    *inspect_ai.FORMATS,
    *mcp_frames.FORMATS,
    *mistral_vibe_store.FORMATS,
    *mistral_vibe.FORMATS,  # before messages of any program
    *message_dumps.FORMATS,
)
# What `export_run` writes for a run that was recorded in one of the formats above.
EXPORTS = tuple(audit.export_format(recording) for recording in RECORDINGS if recording not in audit.FORMATS)
READABLE = (*EXPORTS, *RECORDINGS)
CONTAINERS: tuple[Container, ...] = (*opencode_storage.CONTAINERS, *mistral_vibe_store.CONTAINERS)
UNRECOGNISED = (
    f"not a recording that can be read: its content is that of none of the {len(RECORDINGS)} formats, which "
    "import_runs --help and the page Importing recordings list; --format NAME reads a file as one of them"
)


class UnknownFormat(ValueError):
    """No format recognises the beginning of a file, or has the given name."""


def detect_format(head: bytes, path: SourcePath) -> Format:
    """Returns the first format that recognises `head`, the first 64 KiB of a file. Raises UnknownFormat."""
    for recording in READABLE:
        if recording.sniff(head, path):
            return recording
    raise UnknownFormat(UNRECOGNISED)


def find_container(path: Path) -> Container | None:
    """The kind of container that this file or folder is; None for any other."""
    return next((container for container in CONTAINERS if container.matches(path)), None)


def find_format(name: str) -> Format:
    """Raises UnknownFormat with the names of all formats."""
    for recording in READABLE:
        if recording.name == name:
            return recording
    raise UnknownFormat(f"no format {name!r}; there are {', '.join(recording.name for recording in RECORDINGS)}")

"""Builds events of OpenHands' conversations from visible values, and reads them with their folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envelopes.recordings import openhands
from envelopes.recordings.base import LineProblem, ReceiptRecord, Record, SourcePath
from tests.envelopes.recordings.samples import lines_of

[FORMAT] = openhands.FORMATS
RUN = "0123456789abcdef0123456789abcdef"
EVENTS = f"/srv/{RUN}/events"
TERMINAL = {"kind": "TerminalObservation", "command": "ls", "is_error": False}
EDITOR = {"kind": "FileEditorObservation", "command": "view", "is_error": False}


@dataclass
class Files:
    """A folder of files: their bytes by name."""

    content: dict[str, bytes]

    def names(self) -> Sequence[str]:
        return sorted(self.content)

    def read(self, name: str) -> bytes:
        return self.content[name]


def read_file(raw: bytes, path: str, folder: Files | None = None) -> list[Record | LineProblem]:
    return list(FORMAT.read(lines_of(raw), SourcePath(path, folder=folder), {}))


def event(number: int, kind: str, **members: Any) -> tuple[str, bytes]:
    """The name and the content of an event whose id has its number."""
    key = f"{number:08x}-0000-0000-0000-000000000000"
    about = {"id": key, "timestamp": "2026-11-28T06:51:15.694487", "source": "agent", "kind": kind}
    return f"event-{number:05}-{key}.json", json.dumps({**about, **members}).encode()


def key_of(number: int) -> str:
    return f"{number:08x}-0000-0000-0000-000000000000"


def read_events(*events: tuple[str, bytes]) -> list[Record | LineProblem]:
    files = Files(dict(events))
    return [record for name, raw in events for record in read_file(raw, f"{EVENTS}/{name}", files)]


def answer(number: int, observation: dict[str, Any], *, call: str = "c", tool: str = "terminal", **members: Any) -> Any:
    about = {"tool_name": tool, "tool_call_id": call, "action_id": key_of(number - 1)}
    return event(number, "ObservationEvent", observation=observation, **about, **members)


def action(number: int, call: str = "c", tool: str = "terminal", step: str = "r1", **members: Any) -> tuple[str, bytes]:
    asked = {"id": call, "name": tool, "arguments": json.dumps(members.pop("args", {"command": "ls"}))}
    about = {"tool_name": tool, "tool_call_id": call, "tool_call": asked, "llm_response_id": step, "thought": []}
    return event(number, "ActionEvent", **about, **members)


def blocks(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text, "cache_prompt": False} for text in texts]


def sent_texts(record: ReceiptRecord) -> list[str]:
    return [block["text"] for block in json.loads(record.content)]

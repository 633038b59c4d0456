"""Used-line recall of a command that the model polled: its receipts are one output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dashboard.experiments.recall_run import load_outputs, load_steps
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project
from envelopes.recall import build_items

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
FIRST, SECOND = "the first answer is plainly here", "the last line of all these lines"
POLL = {"name": "write_stdin", "arguments": '{"session_id": 7, "chars": ""}', "call_id": "p"}


def rollout(*payloads: dict[str, Any]) -> bytes:
    lines = [
        {"timestamp": f"2026-05-01T10:00:{number:02}Z", "type": "response_item", "payload": payload}
        for number, payload in enumerate(payloads)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def says(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def answer(call: str, state: str, text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call, "output": f"Process {state}\nOutput:\n{text}\n"}


def test_lines_of_every_receipt_of_a_polled_command_count(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "rollout-a.jsonl"
    asked = {"type": "function_call", "name": "exec_command", "arguments": '{"cmd": "x"}', "call_id": "c"}
    path.write_bytes(
        rollout(
            asked,
            answer("c", "running with session ID 7", FIRST),
            {"type": "function_call", **POLL},
            answer("p", "exited with code 0", SECOND),
            says(f"It says:\n{FIRST}\n{SECOND}"),
        )
    )
    import_paths(project, [path])
    call, run = Call.objects.get(), project.runs.get()
    (output,) = load_outputs(run)
    assert [receipt.seq for receipt in output] == [1, 2]
    steps = load_steps(run, {call.pk})
    (place,) = (number for number, step in enumerate(steps.steps) if step.kind == "output")
    assert steps.places[place].line == output[1].line
    pieces = steps.pieces(place)
    quoted = {pieces[carrier].text for item in build_items(steps.uses)[place] for carrier in item.carriers}
    assert {FIRST, SECOND} <= quoted
    (shape,) = steps.shapes
    assert shape.tokens == sum(receipt.tokens for receipt in output)
    assert sum(shape.line_lengths) + len(shape.line_lengths) - 1 == len(steps.steps[place].text)

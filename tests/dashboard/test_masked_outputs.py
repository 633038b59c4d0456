"""No output has a secret in the clear: shared files, Markdown, exports of calls, printed receipts, JSON, and MCP."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from django.core.management import call_command
from django.test import Client

from dashboard.models import Artifact, Call, Project, Run
from tests.dashboard import test_masking
from tests.dashboard.api.sending import Sender
from tests.dashboard.test_masked_credentials import ROWS, fill
from tests.dashboard.test_masked_notations import FORMS
from tests.dashboard.test_masking import SECRETS, build_store, readable

TOKENS = [fill(form) for _, form in ROWS]
ALL = "\n".join([*(text for text, _ in SECRETS), *(text for text, *_ in FORMS), *(text for text, _ in TOKENS)])
READABLE = [secret for _, secret in SECRETS]
READABLE += [secret for _, *secrets in FORMS for secret in secrets]
READABLE += [piece for _, pieces in TOKENS for piece in pieces]
SLICE = 12  # characters: a window may have the end of one secret and the next one its beginning
SLICES = {secret[at : at + SLICE] for secret in READABLE for at in range(0, max(1, len(secret) - SLICE + 1), 5)}
SLICES -= {"123456789012"}  # also in the public ids of the table
WINDOW = 700  # characters, so that borders of windows lie in many of the secrets


@pytest.fixture
def store(project: Project, tmp_path: Path, alice: object, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The store of `test_masking` with the notations and the tokens of services too."""
    monkeypatch.setattr(test_masking, "ALL", ALL)
    monkeypatch.setattr(test_masking, "READABLE", [*sorted(SLICES), "structured-pw-1"])
    return build_store(project, tmp_path)


def written(folder: Path, *command: str) -> str:
    """What a command prints and writes, each Parquet file as its values."""
    output = io.StringIO()
    call_command(*command, stdout=output)
    pieces = [output.getvalue()]
    for path in folder.rglob("*"):
        if path.suffix == ".parquet":
            pieces.append(json.dumps(parquet.read_table(path).to_pylist(), default=str, ensure_ascii=False))
        elif path.is_file():
            pieces.append(path.read_text("utf-8", "replace"))
    return "\n".join(pieces)


def commands(run: Run, folder: Path) -> Iterator[tuple[str, ...]]:
    for number, subject in enumerate((run, *Call.objects.filter(run=run))):
        yield "share", str(subject.pk), str(folder / f"{number}.html")
    for form in ("csv", "jsonl", "parquet"):
        yield "calls", "--project", run.project.slug, f"--{form}", str(folder / f"calls.{form}")
    for call in Call.objects.filter(run=run):
        for variant in ("receipt", "markdown", "tagged", "canonical_json"):
            yield "render", str(call.pk), "--variant", variant


@pytest.mark.extended
def test_no_command_writes_a_secret(store: Run, tmp_path: Path) -> None:
    shown: dict[str, list[str]] = {}
    for number, command in enumerate(commands(store, folder := tmp_path / "out")):
        folder.mkdir(exist_ok=True)
        text = written(folder, *command)
        assert len(text) > 100
        if leaks := readable(text):
            shown[f"{number} {command[0]} {command[-1]}"] = leaks
        for path in folder.iterdir():
            path.unlink()
    assert not shown


def windows(address: str, total: int) -> Iterator[str]:
    yield address
    for offset in range(0, total, WINDOW):
        yield f"{address}{'&' if '?' in address else '?'}offset={offset}&limit={WINDOW}"


def reads(run: Run) -> Iterator[str]:
    """Addresses of the reading API, with the texts of each call in windows."""
    yield from ("/api/v1/runs", f"/api/v1/runs/{run.pk}", "/api/v1/calls", "/api/v1/artifacts", "/api/v1/experiments")
    for position, call in enumerate(Call.objects.filter(run=run), 1):
        yield f"/api/v1/runs/{run.pk}/context/{position}"
        for part in ("args", "canonical", "receipt"):
            yield from windows(f"/api/v1/calls/{call.pk}/halves?part={part}", len(ALL) + 4 * WINDOW)
        yield f"/api/v1/calls/{call.pk}/unseen"
        yield from windows(f"/api/v1/calls/{call.pk}/variants/markdown", len(ALL) + 4 * WINDOW)
    for artifact in Artifact.objects.all():
        yield from windows(f"/api/v1/artifacts/{artifact.pk}", artifact.size)


@pytest.mark.extended
def test_no_answer_to_a_program_has_a_secret(store: Run, project: Project) -> None:
    reader, agent = Sender(project, "read"), Sender(project, "mcp")
    shown: dict[str, list[str]] = {}
    answered = set()
    for address in reads(store):
        response = reader.get(address)
        assert response.status_code in (200, 404, 422), address
        answered.add((address.split("?")[0].rstrip("0123456789abcdef-"), response.status_code))
        if leaks := readable(response.content.decode()):
            shown[address] = leaks
    calls = list(Call.objects.filter(run=store))
    asked = [("search_runs", {}), ("search_calls", {})]
    asked += [("context_at_step", {"run": str(store.pk), "position": number}) for number in range(1, len(calls) + 1)]
    for call in calls:
        asked += [("unseen_output", {"call": str(call.pk)}), ("variant_receipt", {"call": str(call.pk)})]
        asked += [
            ("call_halves", {"call": str(call.pk), "part": part, "offset": offset, "limit": WINDOW})
            for part in ("args", "canonical", "receipt")
            for offset in range(0, len(ALL), WINDOW)
        ]
    for name, arguments in asked:
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        response = agent.post("/mcp", json.dumps(message).encode(), "application/json")
        assert response.status_code == 200
        if leaks := readable(response.content.decode()):
            shown[f"{name} {arguments}"] = leaks
    assert not shown
    assert {("/api/v1/runs", 200), ("/api/v1/calls", 200), ("/api/v1/artifacts/", 200)} <= answered


@pytest.mark.extended
def test_no_copy_of_a_page_has_a_secret(store: Run, client: Client) -> None:
    """Markdown for issues, shared files and exports by page."""
    objects = [f"runs/{store.pk}", *(f"calls/{call.pk}" for call in Call.objects.filter(run=store))]
    asked = [(client.get, f"/{subject}/issue/", {}) for subject in objects]
    asked += [(client.post, f"/{subject}/share/", {}) for subject in objects]
    asked += [(client.post, "/calls/export/", {"form": form}) for form in ("csv", "jsonl", "parquet")]
    shown: dict[str, list[str]] = {}
    for ask, address, data in asked:
        response = ask(address, data)
        assert response.status_code == 200, (address, response.status_code)
        body = b"".join(response.streaming_content) if response.streaming else response.content
        text = body.decode("utf-8", "replace")
        if body.startswith(b"PAR1"):
            rows = parquet.read_table(io.BytesIO(body)).to_pylist()
            text = json.dumps(rows, default=str, ensure_ascii=False)
        if leaks := readable(text + " ".join(response.headers.values())):
            shown[address] = leaks
    assert not shown

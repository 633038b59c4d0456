"""The tap between an MCP host and a server: byte for byte what they write, and a recording of it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project
from tests.conftest import CHECKOUT

pytestmark = pytest.mark.extended  # each test starts the program
# Writes each line that it gets, reversed, in pieces; at the end something without a line end, and ends with status 3.
ECHO = """
import os, sys
for line in sys.stdin.buffer:
    answer = line.rstrip(b"\\n")[::-1] + b"\\n"
    for start in range(0, len(answer), 1000):
        os.write(1, answer[start : start + 1000])
os.write(1, b"end")
sys.exit(3)
"""
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"content": [{"type": "text", "text": "2 hits"}], "structuredContent": {"hits": 2}, "isError": False}
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def tapped(record: Path, program: str) -> list[str]:
    manage = [sys.executable, str(CHECKOUT / "manage.py")]
    return [*manage, "tap", "--record", str(record), "--", sys.executable, "-c", program]


def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"COUNTERFOIL_DATA": str(tmp_path / "data")}


def test_not_one_byte_is_changed_and_the_status_is_the_servers(tmp_path: Path) -> None:
    chance = random.Random(7)
    lines = [chance.randbytes(chance.choice((0, 1, 80, 5_000, 300_000))).replace(b"\n", b" ") for _ in range(40)]
    lines += [b'{"jsonrpc": "2.0", "id": 1e400, "x": "\\ud800"}', b"\r", b"\xff\xfe"]
    sent = b"".join(line + b"\n" for line in lines)
    record = tmp_path / "frames.jsonl"
    done = subprocess.run(tapped(record, ECHO), input=sent, capture_output=True, env=environment(tmp_path), timeout=300)
    assert done.stdout == b"".join(line[::-1] + b"\n" for line in lines) + b"end"
    assert done.returncode == 3
    frames = [json.loads(line) for line in record.read_bytes().splitlines()]
    assert sum(frame["dir"] == "client" for frame in frames) == len(lines)
    assert sum(frame["dir"] == "server" for frame in frames) == len(lines) + 1
    assert record.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["folder", "folder/file/frames.jsonl"])
def test_a_file_that_cannot_be_made_ends_the_recording_and_not_the_connection(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    command = tapped(tmp_path / name, ECHO)
    done = subprocess.run(command, input=b"abc\n", capture_output=True, env=environment(tmp_path), timeout=300)
    assert (done.stdout, done.returncode) == (b"cba\nend", 3)
    assert done.stderr.decode().startswith("counterfoil tap: nothing is recorded, the connection goes on: ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_ends_the_recording_and_not_the_connection(tmp_path: Path) -> None:
    command, sent = tapped(Path("/dev/full"), ECHO), b"abc\n" * 50_000
    done = subprocess.run(command, input=sent, capture_output=True, env=environment(tmp_path), timeout=300)
    assert (done.stdout, done.returncode) == (b"cba\n" * 50_000 + b"end", 3)
    assert done.stderr == b"counterfoil tap: recording stopped: No space left on device\n"


@pytest.mark.django_db
def test_the_recording_of_a_connection_has_both_halves_of_its_calls(project: Project, tmp_path: Path) -> None:
    record = tmp_path / "frames.jsonl"
    process = subprocess.Popen(
        tapped(record, SERVER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(tmp_path)
    )
    assert process.stdin is not None
    assert process.stdout is not None
    methods = ["initialize", *["tools/call"] * 50]
    for number, method in enumerate(methods):
        params = (
            {"name": "search", "arguments": {"q": f"word {number}"}} if number else {"protocolVersion": "2025-06-18"}
        )
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == number
    process.stdin.close()
    process.stdout.close()
    assert process.wait(30) == 0
    assert import_paths(project, [record]).problems == []
    assert Call.objects.count() == 50
    call = Call.objects.first()
    assert call is not None
    assert {row.surface for row in call.observations.all()} >= {"args", "result", "receipt"}


def test_a_server_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    command = [sys.executable, str(CHECKOUT / "manage.py"), "tap", "--", "/nowhere/server"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(tmp_path), timeout=300)
    assert done.returncode == 1
    assert "/nowhere/server cannot be started" in done.stderr

"""What a runtime records reaches the server once, whatever fails between them, or stays on its disk."""

from __future__ import annotations

import asyncio
import doctest
import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from envelopes import CompleteOutput, MemorySink, builtin, project, recorder, render
from envelopes.recorder import LiveRecorder, LiveRun
from envelopes.recorder import spool as spool_module
from envelopes.recorder.spool import REJECTED, SEGMENT_BYTES, Spool
from tests.envelopes.recorder.event_loop import run_apart

TOKEN = "token-of-a-test"


@dataclass
class IntakeServer:
    """Answers as the dashboard's intake does: a known line is stored once. `answers` come before that, one a request.

    0 in place of a status: the lines are stored, and the connection ends without an answer.
    """

    address: str = ""
    answers: list[int] = field(default_factory=list)
    refused: bytes = b"\0"  # lines with this are rejected
    faulty: bytes = b"\0"  # at lines with this the server fails
    lines: list[bytes] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)  # what was asked, and the key
    artifacts: dict[str, bytes] = field(default_factory=dict)

    def store(self, body: bytes) -> dict[str, Any]:
        rejected = []
        for number, line in enumerate(body.splitlines(keepends=True), 1):
            if self.refused in line:
                rejected.append({"line": number, "offset": 0, "path": "$.args", "reason": "not wanted"})
            elif line not in self.lines:
                self.lines.append(line)
        return {"accepted": len(self.lines), "already_known": 0, "rejected": rejected}

    def records(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in map(json.loads, self.lines) if record["type"] == kind]


@pytest.fixture
def server() -> Iterator[IntakeServer]:
    intake = IntakeServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.headers["Authorization"] == f"Bearer {TOKEN}"
            self._answer(body, intake.store)

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(body, lambda content: intake.artifacts.update({self.path.rpartition("/")[2]: content}) or {})

        def _answer(self, body: bytes, store: Any) -> None:
            intake.requests.append((f"{self.command} {self.path}", self.headers["Idempotency-Key"]))
            status = intake.answers.pop(0) if intake.answers else 500 if intake.faulty in body else 200
            answer = json.dumps(store(body) if status in (0, 200) else {"error": "no"}).encode()
            if status == 0:
                return
            self.send_response(status)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        intake.address = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield intake
        http.shutdown()
        thread.join()


def record_sums(run: LiveRun, count: int) -> None:
    for number in range(count):
        call = run.call("add", {"a": number}, call=f"c{number}")
        run.result(call, {"sum": number})
        run.receipt(call, str(number))


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*-*-*.jsonl"))


def test_what_was_recorded_is_at_the_server_in_order_and_leaves_the_spool(tmp_path: Path, server: IntakeServer) -> None:
    with LiveRecorder(tmp_path, server.address, TOKEN, is_synced=False) as live:
        with live.run("r1", title="Sums", model="m-1") as run:
            run.message("user", "Add numbers.")
            record_sums(run, 700)  # more than a batch
        assert live.close(30)
    assert [record["call"] for record in server.records("receipt")] == [f"c{number}" for number in range(700)]
    positions = [json.loads(line)["position"] for line in server.lines]
    assert positions == sorted(set(positions))
    first, last = server.records("run")
    assert (first["title"], first["model"], "ended_at" in first, "ended_at" in last) == ("Sums", "m-1", False, True)
    assert sum(segment.stat().st_size for segment in segments(tmp_path)) == sum(map(len, server.lines))
    with LiveRecorder(tmp_path, server.address, TOKEN) as live:
        live.run("r2").__enter__()
        assert live.close(30)
    assert len(segments(tmp_path)) == 1  # that of the first recorder is deleted


@pytest.mark.parametrize(
    "answers",
    [[503, 503], [500], [429], [0], pytest.param([401, 0, 507], marks=pytest.mark.extended)],
    ids=["busy", "fault", "limit", "lost answer", "all"],
)
def test_a_server_that_fails_gets_the_same_lines_again(
    tmp_path: Path, server: IntakeServer, answers: list[int]
) -> None:
    server.answers = list(answers)
    with LiveRecorder(tmp_path, server.address, TOKEN) as live:
        with live.run("r1") as run:
            record_sums(run, 20)
        assert live.close(30)
    assert len(server.lines) == 62
    assert len(server.requests) > len(answers)
    assert [record["call"] for record in server.records("call")] == [f"c{number}" for number in range(20)]
    assert not (tmp_path / REJECTED).exists()


def test_without_a_server_everything_stays_on_disk_for_the_next_process(tmp_path: Path, server: IntakeServer) -> None:
    first = LiveRecorder(tmp_path)
    with first.run("r1") as run:
        record_sums(run, 3)
    assert not first.close()
    with LiveRecorder(tmp_path, server.address, TOKEN) as second:
        assert second.close(30)
    assert len(server.lines) == 11


def test_a_refused_line_is_kept_with_its_reason_and_the_others_are_stored(tmp_path: Path, server: IntakeServer) -> None:
    server.refused = b'"a":3'
    with LiveRecorder(tmp_path, server.address, TOKEN) as live:
        with live.run("r1") as run:
            record_sums(run, 5)
        assert live.close(30)
    (kept,) = (tmp_path / REJECTED).read_text().splitlines()
    assert json.loads(kept)["reason"] == "$.args: not wanted"
    assert json.loads(json.loads(kept)["line"])["call"] == "c3"
    assert len(server.lines) == 16


def test_a_refused_batch_is_divided_until_the_refused_line_stands_alone(tmp_path: Path, server: IntakeServer) -> None:
    spool = Spool(tmp_path)
    spool.append([b'{"n":%d}\n' % number for number in range(4)])
    spool.close()
    server.answers = [413, 413, 200, 413, 200]  # all four, two, the first, the second, the other two
    with LiveRecorder(tmp_path, server.address, TOKEN) as live:
        assert live.close(30)
    assert server.lines == [b'{"n":0}\n', b'{"n":2}\n', b'{"n":3}\n']
    assert [json.loads(line) for line in (tmp_path / REJECTED).read_text().splitlines()] == [
        {"reason": "no", "line": '{"n":1}\n'}
    ]


@pytest.mark.parametrize("count", [1, 5])
def test_a_line_at_which_the_server_fails_does_not_block_those_behind_it(
    tmp_path: Path, server: IntakeServer, count: int
) -> None:
    server.faulty = b'"n":0'
    for number in range(count):
        spool = Spool(tmp_path)
        spool.append([b'{"n":%d}\n' % number])
        spool.append([b'{"n":"%d, later"}\n' % number] if number else [])
        spool.close()
    with LiveRecorder(tmp_path, server.address, TOKEN) as live:
        assert live.close(30)
    (kept,) = (tmp_path / REJECTED).read_text().splitlines()
    assert json.loads(kept)["line"] == '{"n":0}\n'
    assert "answered 500" in json.loads(kept)["reason"]
    assert len(server.lines) == 2 * (count - 1)


def test_a_server_that_fails_at_each_line_has_none_rejected(tmp_path: Path, server: IntakeServer) -> None:
    server.faulty = b"n"
    spool = Spool(tmp_path)
    spool.append([b'{"n":%d}\n' % number for number in range(40)])
    spool.close()
    assert not LiveRecorder(tmp_path, server.address, TOKEN).close(0.5)
    assert len(server.requests) > 20
    server.faulty = b"\0"
    with LiveRecorder(tmp_path, server.address, TOKEN) as live:
        assert live.close(30)
    assert len(server.lines) == 40
    assert not (tmp_path / REJECTED).exists()


def test_a_killed_process_leaves_what_it_recorded_and_no_part_of_a_line_is_sent(
    tmp_path: Path, server: IntakeServer
) -> None:
    program = """
import os, sys
from pathlib import Path
from envelopes.recorder import LiveRecorder
recorder = LiveRecorder(Path(sys.argv[1]))
with recorder.run("r1") as run:
    for number in range(50):
        run.call("add", {"a": number})
    print("recorded", flush=True)
    sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"recorded\n"
        process.send_signal(signal.SIGKILL)
    (segment,) = segments(tmp_path)
    with segment.open("ab") as file:
        file.write(b'{"v":1,"type":"call","run":"r1","ca')
    with LiveRecorder(tmp_path, server.address, TOKEN) as live:
        assert live.close(30)
        assert len(server.lines) == 51
    assert json.loads((tmp_path / REJECTED).read_text())["line"].endswith('"ca')
    assert not segments(tmp_path)


@pytest.mark.parametrize("note", [b"", b"-1", b"x\xff"])
def test_a_damaged_note_of_what_was_sent_has_it_sent_again(tmp_path: Path, server: IntakeServer, note: bytes) -> None:
    first = LiveRecorder(tmp_path)
    with first.run("r1") as run:
        record_sums(run, 3)
    first.close()
    [segment] = segments(tmp_path)
    segment.with_suffix(".sent").write_bytes(note)
    with LiveRecorder(tmp_path, server.address, TOKEN) as second:
        assert second.close(30)
    assert len(server.lines) == 11


def test_one_process_at_a_time_ships_a_folder(tmp_path: Path) -> None:
    first, second = Spool(tmp_path), Spool(tmp_path)
    with first.shipping() as is_first, second.shipping() as is_second:
        assert (is_first, is_second) == (True, False)
    with second.shipping() as is_second:
        assert is_second


def test_a_segment_ends_at_its_size_and_after_a_failed_write(tmp_path: Path) -> None:
    spool = Spool(tmp_path, is_synced=False)
    line = b"x" * (SEGMENT_BYTES - 1) + b"\n"
    spool.append([line])
    spool.append([b"y\n"])
    assert [segment.stat().st_size for segment in segments(tmp_path)] == [SEGMENT_BYTES, 2]
    assert spool._segment is not None
    os.close(spool._segment)
    read_only = os.open(segments(tmp_path)[1], os.O_RDONLY)
    if read_only != spool._segment:
        os.dup2(read_only, spool._segment)
    with pytest.raises(OSError, match="Bad file descriptor"):
        spool.append([b"lost\n"])
    spool.append([b"z\n"])
    assert segments(tmp_path)[2].read_bytes() == b"z\n"
    spool.close()


def test_a_decorated_function_records_its_arguments_its_result_and_its_receipt(
    tmp_path: Path, server: IntakeServer
) -> None:
    with LiveRecorder(tmp_path, server.address, TOKEN) as live:
        with live.run("r1") as run:

            def add(a: int, b: int = 2) -> dict[str, int]:
                """Adds."""
                return {"sum": a + b}

            async def wait(seconds: float) -> str:
                await asyncio.sleep(0)
                return f"waited {seconds}"

            def fail() -> None:
                raise ValueError("no such file")

            recorded = run.tool(add, receipt=lambda result: f"The sum is {result['sum']}.")
            assert (recorded(1), recorded.__doc__) == ({"sum": 3}, "Adds.")
            assert run_apart(run.tool(wait)(0.5)) == "waited 0.5"
            with pytest.raises(ValueError, match="no such file"):
                run.tool(fail)()
        assert live.close(30)
    assert [(call["tool"], call["args"]) for call in server.records("call")] == [
        ("add", {"a": 1, "b": 2}),
        ("wait", {"seconds": 0.5}),
        ("fail", {}),
    ]
    first, second, third = server.records("result")
    assert (first["complete"], second["complete"]) == ({"sum": 3}, "waited 0.5")
    assert (third["is_error"], third["error"]) == (
        True,
        {"kind": "ValueError", "message": "ValueError: no such file"},
    )
    (receipt,) = server.records("receipt")
    assert (receipt["text"], receipt["call"]) == ("The sum is 3.", first["call"])


def test_a_second_receipt_of_a_call_is_numbered(tmp_path: Path) -> None:
    with LiveRecorder(tmp_path) as live, live.run("r1") as run:
        call = run.call("read", {})
        run.receipt(call, "long text")
        run.receipt(call, "[cleared]", reason="compaction")
    records = [json.loads(line) for segment in segments(tmp_path) for line in segment.read_bytes().splitlines()]
    assert [record["seq"] for record in records if record["type"] == "receipt"] == [1, 2]


def test_a_value_that_json_cannot_hold_is_named(tmp_path: Path) -> None:
    class Opaque:
        def __repr__(self) -> str:
            return "<opaque>"

    args = {
        "when": datetime(2026, 1, 5, tzinfo=UTC),
        "rate": float("nan"),
        "of": [Opaque()],
        "text": "\ud800",
        "n": 2**70,
    }
    with LiveRecorder(tmp_path) as live, live.run("r1") as run:
        run.call("plot", args)
    (line,) = [line for line in segments(tmp_path)[0].read_bytes().splitlines() if b'"plot"' in line]
    record = json.loads(line)
    assert record["args"] == {
        "when": "2026-01-05T00:00:00Z",
        "rate": "nan",
        "of": ["<opaque>"],
        "text": "\ud800",
        "n": 2**70,
    }
    assert record["not_json"] == ["args.rate", "args.of[0]"]


def test_a_file_is_at_the_server_before_the_line_that_names_it(tmp_path: Path, server: IntakeServer) -> None:
    content = b"a long log\n" * 10
    with LiveRecorder(tmp_path, server.address, TOKEN) as live:
        with live.run("r1") as run:
            call = run.call("build", {})
            sha256 = run.artifact(call, content, path="build.log", role="stdout")
        assert live.close(30)
    assert server.artifacts == {hashlib.sha256(content).hexdigest(): content}
    (record,) = server.records("artifact")
    assert (record["sha256"], record["size"], record["role"]) == (sha256, len(content), "stdout")
    assert not list((tmp_path / "artifacts").iterdir())


def test_both_halves_of_a_call_of_this_library_are_recorded_as_sent(tmp_path: Path) -> None:
    family, definition = builtin("ExecCommand")
    data = {"exit_status": 0, "stdout": "ok\n", "stderr": "", "cmd": "true"}
    complete = CompleteOutput(
        tool_name=definition.name,
        status="success",
        summary_text="command exited with status 0",
        result=definition.read_data(data),
    )
    canonical = project(complete, family, family.projection, MemorySink()).canonical
    receipt = render(canonical, family, family.rendering)
    with LiveRecorder(tmp_path) as live, live.run("r1") as run:
        call = run.call("ExecCommand", {"cmd": "true"})
        run.envelope(call, canonical, receipt)
    records = [json.loads(line) for line in segments(tmp_path)[0].read_bytes().splitlines()]
    by_type = {record["type"]: record for record in records}
    assert by_type["result"]["canonical"] == canonical.to_json()
    assert (by_type["receipt"]["text"], by_type["receipt"]["fidelity"]) == (receipt.text, "exact")


def test_a_server_has_an_http_address(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="begins with http"):
        LiveRecorder(tmp_path, "ftp://example.org")


@pytest.mark.parametrize("module", [recorder, spool_module], ids=["recorder", "spool"])
def test_the_examples_of_the_docstrings_hold(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_the_example_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[3] / "dashboard/docs/recorder.md").read_text()
    example = text.split("```python\n")[1].split("```")[0].replace(', "http://127.0.0.1:8000", "the token"', "")
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "recorder.md", "exec"), {})
    records = [json.loads(line) for line in segments(tmp_path / "spool")[0].read_bytes().splitlines()]
    assert [record["type"] for record in records] == ["run", "message", "call", "result", "receipt", "run"]

"""Files of lines that were cut, repeated, shuffled, mixed or encoded in another way, in every format of lines.

What is left whole is imported, nothing counts twice, and each loss is a problem with its line.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.db.models import Sum

from dashboard.accounts import get_or_create_project
from dashboard.ingest.import_report import ImportReport
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Observation, Project, RecordedReceipt, RequestUsage
from envelopes.recordings import RECORDINGS
from tests.cases import extended_except
from tests.dashboard.api.native_records import one_run
from tests.dashboard.ingest.client_lines import json_lines, kimi, kimi_code, vibe
from tests.envelopes.recordings.samples import FOLDER

pytestmark = pytest.mark.django_db


def claude_code(name: str) -> bytes:
    session = {"sessionId": f"{name * 8}-bbbb-4bbb-8bbb-{name * 12}", "version": "2.1.39", "cwd": "/srv"}
    entries: list[dict[str, Any]] = [{"type": "user", "message": {"role": "user", "content": f"Run {name}"}}]
    for number in range(3):
        call = f"toolu_{name}{number}"
        asked = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": f"make {number}"}}
        usage = {"input_tokens": 10 + number, "output_tokens": 5}
        message = {"id": f"msg_{name}{number}", "role": "assistant", "model": "m", "content": [asked], "usage": usage}
        answer = {"type": "tool_result", "tool_use_id": call, "content": f"{name} {number}", "is_error": False}
        result = {"stdout": f"{name} {number}", "stderr": "", "interrupted": False}
        entries.append({"type": "assistant", "message": message})
        entries.append({"type": "user", "message": {"role": "user", "content": [answer]}, "toolUseResult": result})
    stamped = [
        entry | session | {"uuid": f"{name}-{number}", "timestamp": f"2026-02-10T10:00:{number:02}Z"}
        for number, entry in enumerate(entries)
    ]
    return json_lines(*stamped)


def stream_json(name: str) -> bytes:
    raw = (FOLDER / "stream.jsonl").read_bytes()
    return raw.replace(b"33333333-cccc", f"{name * 8}-cccc".encode()).replace(b"toolu_01", f"toolu_{name}1".encode())


def hooks(name: str) -> bytes:
    lines = []
    for number in range(3):
        called = {
            "session_id": f"session-{name}",
            "transcript_path": f"/home/session-{name}.jsonl",
            "cwd": "/srv",
            "tool_name": "Bash",
            "tool_input": {"command": f"make {number}"},
            "tool_use_id": f"toolu_{name}{number}",
        }
        answer = {"stdout": f"{name} {number}", "stderr": "", "interrupted": False}
        lines.append(called | {"hook_event_name": "PreToolUse"})
        lines.append(called | {"hook_event_name": "PostToolUse", "tool_response": answer, "duration_ms": 5})
    return json_lines(*lines)


def codex(name: str) -> bytes:
    thread = f"{name * 8}-bbbb-7bbb-8bbb-{name * 12}"
    payloads: list[tuple[str, dict[str, Any]]] = [("session_meta", {"id": thread, "cli_version": "0.125.0"})]
    for number in range(3):
        call = f"call_{name}{number}"
        asked = {"type": "function_call", "name": "exec_command", "arguments": json.dumps({"cmd": f"make {number}"})}
        end = {"type": "exec_command_end", "exit_code": 0, "aggregated_output": f"{name} {number}\n"}
        answer = {"type": "function_call_output", "output": f"Process exited with code 0\nOutput:\n{name} {number}\n"}
        usage = {"input_tokens": 10 + number, "output_tokens": 5, "total_tokens": 15 + number}
        info = {"last_token_usage": usage, "total_token_usage": {"total_tokens": 100 * (number + 1)}}
        payloads.append(("response_item", asked | {"call_id": call}))
        payloads.append(("event_msg", end | {"call_id": call}))
        payloads.append(("response_item", answer | {"call_id": call}))
        payloads.append(("event_msg", {"type": "token_count", "info": info}))
    return json_lines(
        *(
            {"timestamp": f"2026-05-01T10:00:{number:02}Z", "type": kind, "payload": payload}
            for number, (kind, payload) in enumerate(payloads)
        )
    )


def codex_exec(name: str) -> bytes:
    raw = (FOLDER / "codex_exec.jsonl").read_bytes()
    return raw.replace(b"000000000001", name.encode() * 12).replace(b"item_", f"item_{name}".encode())


def gemini(name: str) -> bytes:
    header = {"sessionId": f"chat-{name}", "projectHash": "p", "startTime": "2026-06-01T10:00:00Z"}
    messages = []
    for number in range(3):
        answer = [{"functionResponse": {"name": "read_file", "response": {"output": f"{name} {number}"}}}]
        call = {"id": f"read-{name}{number}", "name": "read_file", "args": {"file_path": f"{number}.py"}}
        tokens = {"input": 10 + number, "output": 5, "cached": 0}
        message = {"id": f"{name}{number}", "type": "gemini", "content": f"Reading {number}.", "tokens": tokens}
        messages.append(message | {"toolCalls": [call | {"status": "success", "result": answer}]})
    return json_lines(header, *messages)


def qwen_code(name: str) -> bytes:
    lines: list[dict[str, Any]] = [{"type": "user", "message": {"role": "user", "parts": [{"text": f"Run {name}"}]}}]
    for number in range(3):
        call = {"id": f"call_{name}{number}", "name": "read_file"}
        asked = {"functionCall": call | {"args": {"file_path": f"{number}.py"}}}
        usage = {"promptTokenCount": 10 + number, "candidatesTokenCount": 5}
        answer = {"functionResponse": call | {"response": {"output": f"{name} {number}"}}}
        recorded = {"callId": call["id"], "status": "success", "resultDisplay": "Read lines"}
        lines.append({"type": "assistant", "message": {"role": "model", "parts": [asked]}, "usageMetadata": usage})
        lines.append(
            {"type": "tool_result", "message": {"role": "user", "parts": [answer]}, "toolCallResult": recorded}
        )
    places = (
        {"uuid": f"{name}-{number}", "sessionId": f"session-{name}", "timestamp": f"2026-06-01T10:00:{number:02}Z"}
        for number in range(len(lines))
    )
    return json_lines(*(place | line for place, line in zip(places, lines, strict=True)))


def pi(name: str) -> bytes:
    header = {"type": "session", "version": 3, "id": f"session-{name}", "timestamp": "2026-06-01T10:00:00Z"}
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Run {name}"}]
    for number in range(3):
        call = {"type": "toolCall", "id": f"call_{name}{number}", "name": "read", "arguments": {"path": f"{number}.py"}}
        usage = {"input": 10 + number, "output": 5}
        answer = {"toolCallId": call["id"], "content": [{"type": "text", "text": f"{name} {number}"}], "isError": False}
        messages.append({"role": "assistant", "content": [call], "usage": usage})
        messages.append({"role": "toolResult", **answer, "details": {"count": number, "name": name}})
    entries = (
        {"type": "message", "id": f"{name}{number}", "parentId": f"{name}{number - 1}" if number else None}
        | {"timestamp": f"2026-06-01T10:00:{number:02}Z", "message": message}
        for number, message in enumerate(messages)
    )
    return json_lines(header | {"cwd": "/srv"}, *entries)


def copilot(name: str) -> bytes:
    begin = {"sessionId": f"session-{name}", "copilotVersion": "1.0.102"}
    events: list[tuple[str, dict[str, Any]]] = [("session.start", begin)]
    for number in range(3):
        call = {"toolCallId": f"call_{name}{number}"}
        request = call | {"name": "bash", "arguments": {"command": f"make {number}"}}
        usage = {"apiCallId": f"{name}{number}", "inputTokens": 10 + number, "outputTokens": 5}
        end = call | {"success": True, "result": {"content": f"{name} {number}"}, "shellExecution": {"exitCode": 0}}
        events.append(("assistant.message", {"messageId": f"m{number}", "toolRequests": [request]}))
        events.append(("tool.execution_start", call | {"toolName": "bash", "arguments": request["arguments"]}))
        events.append(("tool.execution_complete", end))
        events.append(("session.usage_record", {"usage": usage}))
    return json_lines(
        *(
            {"type": kind, "data": data, "id": f"{name}-{number}", "timestamp": f"2026-06-01T10:00:{number:02}Z"}
            for number, (kind, data) in enumerate(events)
        )
    )


def mcp(name: str) -> bytes:
    begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"clientInfo": {"name": name}}}
    frames: list[dict[str, Any]] = [begin, {"jsonrpc": "2.0", "id": 0, "result": {"capabilities": {}}}]
    for number in range(1, 4):
        id_ = f"{name}{number}"
        params = {"name": "search", "arguments": {"q": number}}
        result = {"content": [{"type": "text", "text": f"{name} {number}"}], "isError": False}
        frames.append({"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params})
        frames.append({"jsonrpc": "2.0", "id": id_, "result": result})
    return json_lines(*({"session_id": f"s-{name}", "msg": frame} for frame in frames))


def otlp(name: str) -> bytes:
    requests = []
    for number in range(3):
        common = {"gen_ai.conversation.id": f"talk-{name}", "gen_ai.tool.call.id": f"call_{name}{number}"}
        tool = common | {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": json.dumps({"q": number}),
            "gen_ai.tool.call.result": json.dumps({"hits": f"{name} {number}"}),
        }
        part = {"type": "tool_call_response", "id": f"call_{name}{number}", "response": f"{name} {number}"}
        model = common | {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps([{"role": "tool", "parts": [part]}]),
            "gen_ai.usage.input_tokens": 10 + number,
        }
        for kind, attributes in ((1, tool), (2, model)):
            start = 1_767_261_600 + 10 * number + kind
            span = {
                "traceId": name * 32,
                "spanId": f"{name * 14}{number}{kind}",
                "name": "span",
                "startTimeUnixNano": f"{start}000000000",
                "endTimeUnixNano": f"{start + 1}000000000",
                "attributes": [
                    {"key": key, "value": {"intValue" if isinstance(value, int) else "stringValue": value}}
                    for key, value in attributes.items()
                ],
            }
            requests.append({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    return json_lines(*requests)


def chat(name: str) -> bytes:
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Begin {name}"}]
    bodies = []
    for number in range(3):
        call = {"id": f"call_{name}{number}", "type": "function", "function": {"name": "search", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": f"{name} {number}"})
        bodies.append({"model": "m", "messages": list(messages)})
    return json_lines(*bodies)


def native(name: str) -> bytes:
    return json_lines(*({"v": 1, **entry} for entry in one_run(3, f"run-{name}")))


class Lines(NamedTuple):
    """`write(name)` gives the lines of a session with this name, a hexadecimal digit, in a file of this name."""

    write: Callable[[str], bytes]
    file: str = "session.jsonl"


def otlp_logs(name: str) -> bytes:
    requests = []
    for number in range(3):
        call = {"id": f"call_{name}{number}", "name": "search", "arguments": {"q": number}}
        answer = {"type": "tool_call_response", "id": f"call_{name}{number}", "response": f"{name} {number}"}
        messages = [
            {"role": "assistant", "parts": [{"type": "tool_call", **call}]},
            {"role": "tool", "parts": [answer]},
        ]
        attributes = {"gen_ai.conversation.id": f"talk-{name}", "gen_ai.input.messages": json.dumps(messages)}
        record = {
            "timeUnixNano": str(1_767_261_600_000_000_000 + number * 1_000_000_000),
            "eventName": "gen_ai.client.inference.operation.details",
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
        }
        requests.append({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})
    return json_lines(*requests)


FORMATS = {
    "qwen-code": Lines(qwen_code),
    "pi": Lines(pi),
    "kimi-cli": Lines(kimi, "context.jsonl"),
    "kimi-code": Lines(kimi_code, "agents/main/wire.jsonl"),
    "mistral-vibe": Lines(vibe, "messages.jsonl"),
    "claude-code": Lines(claude_code, "aaaaaaaa-bbbb-4bbb-8bbb-aaaaaaaaaaaa.jsonl"),
    "claude-code-stream": Lines(stream_json),
    "claude-code-hooks": Lines(hooks),
    "codex": Lines(codex, "rollout-aaaaaaaa-bbbb-7bbb-8bbb-aaaaaaaaaaaa.jsonl"),
    "codex-exec": Lines(codex_exec),
    "gemini-cli-jsonl": Lines(gemini),
    "copilot-cli": Lines(copilot),
    "mcp": Lines(mcp),
    "otlp": Lines(otlp),
    "otlp-logs": Lines(otlp_logs),
    "openai-chat": Lines(chat),
    "native": Lines(native),
}
each_format = pytest.mark.parametrize("name", extended_except(FORMATS))
each_format_or_one = pytest.mark.parametrize("name", extended_except(FORMATS, "codex"))


class Imported(NamedTuple):
    """What a project has: evidence as (call, surface, hash) with its lines, and the numbers that must not grow."""

    report: ImportReport
    evidence: dict[tuple[str, str, str], int]
    calls: int
    receipts: int
    tokens: int | None


def import_lines(name: str, raw: bytes, folder: Path, project: Project | None = None) -> Imported:
    folder.mkdir(exist_ok=True)
    path = folder / FORMATS[name].file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    project = project or get_or_create_project(folder.name)
    report = import_paths(project, [path])
    rows = Observation.objects.filter(call__project=project).values_list(
        "call__external_id", "surface", "sha256", "line"
    )
    calls = Call.objects.filter(project=project)
    return Imported(
        report,
        {(call, surface, sha256): line for call, surface, sha256, line in rows},
        calls.count(),
        RecordedReceipt.objects.filter(call__project=project).count(),
        RequestUsage.objects.filter(run__project=project).aggregate(total=Sum("input_tokens"))["total"],
    )


@pytest.fixture
def clean(name: str, tmp_path: Path) -> Imported:
    imported = import_lines(name, FORMATS[name].write("a"), tmp_path / "clean")
    assert imported.report.problems == []
    assert imported.calls == len({call for call, _, _ in imported.evidence}) >= 2
    return imported


@each_format
def test_repeated_lines_count_once(name: str, clean: Imported, tmp_path: Path) -> None:
    lines = FORMATS[name].write("a").splitlines(keepends=True)
    repeated = [line for number, line in enumerate(lines) for line in (lines[number // 2], line)]
    again = import_lines(name, b"".join(repeated), tmp_path / "again")
    assert again.report.problems == []
    assert again.evidence.keys() == clean.evidence.keys()
    assert again[2:] == clean[2:]


@each_format
def test_lines_in_another_order_have_the_same_evidence(name: str, clean: Imported, tmp_path: Path) -> None:
    lines = FORMATS[name].write("a").splitlines(keepends=True)
    rest = lines[1:]
    random.Random(15).shuffle(rest)
    shuffled = import_lines(name, b"".join([lines[0], *rest]), tmp_path / "shuffled")
    assert shuffled.report.problems == []
    assert shuffled.evidence.keys() == clean.evidence.keys()
    assert shuffled[2:] == clean[2:]


@each_format
def test_the_lines_that_are_left_have_their_evidence(name: str, clean: Imported, tmp_path: Path) -> None:
    lines = FORMATS[name].write("a").splitlines(keepends=True)
    kept = [0, *sorted(random.Random(15).sample(range(1, len(lines)), len(lines) * 2 // 3))]
    left = import_lines(name, b"".join(lines[number] for number in kept), tmp_path / "left")
    expected = {key for key, line in clean.evidence.items() if line - 1 in kept}
    assert left.report.problems == []
    assert expected <= left.evidence.keys() <= clean.evidence.keys()


@each_format_or_one
def test_a_last_line_that_is_cut_is_named_and_read_when_it_is_whole(name: str, clean: Imported, tmp_path: Path) -> None:
    raw = FORMATS[name].write("a")
    last = raw.rstrip(b"\n").rfind(b"\n") + 1
    number = raw.count(b"\n")
    project = get_or_create_project("cut")
    cut = import_lines(name, raw[: last + (len(raw) - last) // 2], tmp_path / "cut", project)
    assert [problem["line"] for problem in cut.report.problems] == [number]
    assert {key for key, line in clean.evidence.items() if line < number} <= cut.evidence.keys()
    whole = import_lines(name, raw, tmp_path / "cut", project)
    assert whole.report.problems == []
    assert whole.evidence == clean.evidence
    assert whole[2:] == clean[2:]


@each_format
def test_a_damaged_line_in_the_middle_is_the_only_loss(name: str, clean: Imported, tmp_path: Path) -> None:
    lines = FORMATS[name].write("a").splitlines(keepends=True)
    middle = len(lines) // 2
    lines[middle] = lines[middle][:-20] + b"\n"
    damaged = import_lines(name, b"".join(lines), tmp_path / "damaged")
    assert [problem["line"] for problem in damaged.report.problems] == [middle + 1]
    expected = {key for key, line in clean.evidence.items() if line != middle + 1}
    assert expected <= damaged.evidence.keys() <= clean.evidence.keys()


@each_format_or_one
def test_two_sessions_in_one_file_have_all_their_evidence(name: str, clean: Imported, tmp_path: Path) -> None:
    ours, others = (FORMATS[name].write(letter).splitlines(keepends=True) for letter in "ab")
    other = import_lines(name, b"".join(others), tmp_path / "other")
    pairs = [line for pair in zip(ours, others, strict=True) for line in pair]
    both = import_lines(name, b"".join(pairs), tmp_path / "both")
    assert both.report.problems == []
    assert both.evidence.keys() == clean.evidence.keys() | other.evidence.keys()
    assert both.receipts == clean.receipts + other.receipts


@each_format
@pytest.mark.parametrize(
    "encode",
    [
        lambda raw: raw.replace(b"\n", b"\r\n"),
        lambda raw: b"\xef\xbb\xbf" + raw,
        lambda raw: b"\n \n" + raw.replace(b"\n", b"\n\n"),
    ],
    ids=["CRLF", "BOM", "blank lines"],
)
def test_line_ends_marks_and_blank_lines_change_nothing(
    name: str, clean: Imported, tmp_path: Path, encode: Callable[[bytes], bytes]
) -> None:
    encoded = import_lines(name, encode(FORMATS[name].write("a")), tmp_path / "encoded")
    assert encoded.report.problems == []
    assert encoded.evidence.keys() == clean.evidence.keys()
    assert encoded[2:] == clean[2:]


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-32"])
def test_a_file_in_another_encoding_is_refused_with_its_name(project: Project, tmp_path: Path, codec: str) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(codex("a").decode().encode(codec))
    report = import_paths(project, [path])
    (problem,) = report.problems
    assert "UTF-" in problem["reason"]
    assert not Call.objects.exists()


def test_every_format_of_lines_is_tried() -> None:
    """Others of these formats have the same reader, or are lines that this dashboard writes itself."""
    same = {"claude-code-journal", "audit", "claude-code-otel", "codex-otel"}
    lines = {recording.name for recording in RECORDINGS if not recording.is_document}
    assert {name for name in lines if not name.endswith("-export")} - same <= FORMATS.keys()

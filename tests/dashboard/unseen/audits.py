"""Folders of a plan executor that are not whole, and lines of them that are odd."""

from __future__ import annotations

from typing import Any

from tests.dashboard.unseen.made import Recorded, lines

RUN = b'{"runId": "r7",\n  "plan": {"goal": "Tidy"},\n  "createdAt": "2026-01-01T00:00:00Z"\n}\n'
CALL: dict[str, Any] = {"runId": "r7", "callId": "c1", "stepId": "s1", "tool": "ExecCommand", "args": {"cmd": "ls"}}
RESULT: dict[str, Any] = {"runId": "r7", "callId": "c1", "ok": True, "data": {"exit_status": 0}, "durationMs": 5}
EVENT: dict[str, Any] = {"runId": "r7", "type": "step.started", "callId": "c1", "level": "warn", "message": "slow"}

RECORDINGS: dict[str, Recorded] = {
    "a whole audit folder": Recorded(
        {
            "r7/run.json": RUN,
            "r7/calls.jsonl": lines(CALL, {**CALL, "callId": "c2", "attempt": 2}),
            "r7/results.jsonl": lines(RESULT, {**RESULT, "callId": "c2", "ok": False, "error": {"code": "TIMEOUT"}}),
            "r7/events.jsonl": lines(EVENT, {"runId": "r7", "type": "never.heard.of"}),
        }
    ),
    "an audit folder without its run": Recorded({"r7/calls.jsonl": lines(CALL), "r7/results.jsonl": lines(RESULT)}),
    "an audit folder without its calls": Recorded({"r7/run.json": RUN, "r7/results.jsonl": lines(RESULT)}),
    "an audit folder without results": Recorded({"r7/run.json": RUN, "r7/calls.jsonl": lines(CALL)}),
    "an audit folder of events alone": Recorded({"r7/events.jsonl": lines(EVENT)}),
    "an audit folder with an empty file": Recorded(
        {"r7/run.json": RUN, "r7/calls.jsonl": b"", "r7/events.jsonl": b"\n"}
    ),
    "an audit folder from another system": Recorded(
        {"r7/run.json": b"\xef\xbb\xbf" + RUN.replace(b"\n", b"\r\n"), "r7/calls.jsonl": lines(CALL, end=b"\r\n")}
    ),
    "two runs that number their calls in one file": Recorded(
        {"calls.jsonl": lines(CALL, {**CALL, "runId": "r8"}), "results.jsonl": lines({**RESULT, "runId": "r8"}, RESULT)}
    ),
    "an audit folder with lines that cannot be read": Recorded(
        {
            "r7/calls.jsonl": lines(CALL, b"{", {"runId": "r7"}, {"callId": "c1", "tool": "t"}, [CALL]),
            "r7/results.jsonl": lines(RESULT, {**RESULT, "callId": None}, b"\xff", {**RESULT, "callId": "never asked"}),
        },
        {"r7/calls.jsonl": (2, 3, 4, 5), "r7/results.jsonl": (2, 3)},
    ),
}

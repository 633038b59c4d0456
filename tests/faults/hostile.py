"""Hostile recordings, by the class of their fault: JSON values for any slot, lines, whole files.

`CANARY` is in every text that would be markup: a page that contains it unescaped has failed.
"""

from __future__ import annotations

import json
from typing import Any

from tests.dashboard.sessions import SESSION, answers, asks, encoded

CANARY = '<canary-x onload="alert(1)" hx-post="/x" hx-trigger="load">'
MARK = "\ufdd0slot"  # is replaced by a value's own bytes, quotes included


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * depth + closing * depth


def quoted(text: str) -> bytes:
    return json.dumps(text).encode()


def object_of(keys: int) -> bytes:
    return b"{%s}" % b",".join(b'"k%d":%d' % (number, number) for number in range(keys))


def newlines(count: int) -> bytes:
    return b'"%s"' % (b"\\n" * count)


# A JSON value is put where another type, range, size or alphabet is expected.
KINDS: dict[str, dict[str, bytes]] = {
    "json-depth": {
        "nested 64 deep": nested(64),
        "nested 150 deep": nested(150),
        "nested 201 deep": nested(201),
        "objects nested 190 deep": nested(190, b'{"a":', b"}").replace(b":}", b":1}"),
        "nested 20,000 deep": nested(20_000),
        "fifty thousand brackets in a string": quoted("[" * 50_000),
    },
    "json-number": {
        "two to the 53rd plus one": b"9007199254740993",
        "two to the 63rd": b"9223372036854775808",
        "minus two to the 64th": b"-18446744073709551617",
        "four thousand digits": b"1" * 4_000,
        "five thousand digits": b"1" * 5_000,
        "a float beyond range": b"1e400",
        "a float of a long exponent": b"1e-999999999",
        "NaN": b"NaN",
        "minus infinity": b"-Infinity",
        "minus nought": b"-0.0",
        "one with three zeros": b"1.000",
    },
    "json-syntax": {
        "a leading zero": b"01",
        "a trailing comma": b"[1,]",
        "single quotes": b"'x'",
        "a comment": b"/* x */ 1",
        "a raw newline in a string": b'"a\tb"',
        "a bad escape": b'"\\x41"',
        "half an escape": b'"\\u12"',
        "nothing": b"",
        "two values": b"1 2",
        "hexadecimal": b"0x1F",
    },
    "json-keys": {
        "a key twice": b'{"stdout":"first","stdout":"second","status":"ok","status":"error"}',
        "keys of lookups": b'{"run__project__slug":"x","_connector":"OR","pk":1,"id__in":[1],"__class__":"x"}',
        "keys of markup": b"{" + quoted(CANARY) + b':1,"":2,"a/b~c":3,"__proto__":{"x":1},"constructor":4}',
        "an empty key in the way of a pointer": b'{"":{"":""},"/":"~","~1":"~0"}',
        "a thousand keys": object_of(1_000),
    },
    "unicode": {
        "a lone high surrogate": b'"a\\ud800b"',
        "a lone low surrogate": b'"\\udc00"',
        "surrogates the wrong way round": b'"\\udc00\\ud800"',
        "a surrogate as a key": b'{"\\ud800":"\\udfff"}',
        "a surrogate pair": b'"\\ud83d\\ude00"',
        "a NUL": b'"a\\u0000b"',
        "a NUL in a key": b'{"a\\u0000":"\\u0000"}',
        "an escaped backslash before u0000": b'"a\\\\u0000b"',
        "noncharacters": quoted("\ufffe\uffff\U0010ffff"),
        "the byte FF": b'"a\xffb"',
        "an overlong slash": b'"\xc0\xaf"',
        "a surrogate in UTF-8": b'"\xed\xa0\x80"',
        "a cut character": b'"\xe2\x82"',
        "Latin-1": b'"caf\xe9"',
        "line separators": quoted("a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"),
        "a byte order mark inside": quoted("\ufeffx"),
        "bidi": quoted("rm -rf /\u202e# txt.exe\u2066\u2069\u200b"),
        "many combining marks": quoted("a" + "\u0301" * 5_000),
        "escape codes": quoted("\x1b[31mred\x1b]8;;http://x/\x07link\x1b]8;;\x07\x1b[2J\x9b1m"),
    },
    "shapes": {
        "null": b"null",
        "true": b"true",
        "false": b"false",
        "nought": b"0",
        "minus one": b"-1",
        "a fraction": b"1.5",
        "an empty string": b'""',
        "white space": b'" \\t\\n"',
        "an empty array": b"[]",
        "an empty object": b"{}",
        "an array of everything": b'[null,true,1,1.5,"x",[],{},[[]],{"type":"text"},{"type":"image"}]',
        "text blocks of wrong types": b'[{"type":"text","text":1},{"type":1,"text":"x"},{"text":"x"},"bare",null]',
        "images of wrong types": (
            b'[{"type":"image","source":{"data":1}},{"type":"image","source":{"data":"%%%","media_type":"image/png"}},'
            b'{"type":"image","source":{"data":"PHN2Zz4=","media_type":"image/svg+xml"}},'
            b'{"type":"image","source":{"data":"AAAA","media_type":"text/html\\r\\nX-Evil: 1"}},'
            b'{"type":"image","source":{"data":"AAA","media_type":"image/png"}}]'
        ),
    },
    "names": {
        "markup": quoted(CANARY),
        "the end of a script": quoted(f"</script></pre></textarea>{CANARY}]]>-->"),
        "a template": quoted("{{ 7*7 }}{% load x %}{0.__class__}%(x)s%n${x}"),
        "ten kilobytes": quoted("n" * 10_240),
        "a hundred kilobytes on one line": quoted("m" * 102_400),
        "ten thousand newlines": newlines(10_000),
        "a path upwards": quoted("../../../../etc/passwd"),
        "an absolute path": quoted("/etc/passwd"),
        "a path with a NUL": b'"/tmp/a\\u0000b"',
        "a backslash path": quoted("..\\..\\windows\\win.ini"),
        "a name of 300 characters": quoted("x" * 300),
        "a file URL": quoted("file:///etc/passwd#x?y"),
        "a javascript URL": quoted("javascript:alert(1)//"),
        "no date": quoted("not a date"),
        "the year one east of Greenwich": quoted("0001-01-01T00:00:00+14:00"),
        "the last second of 9999 west": quoted("9999-12-31T23:59:59-12:00"),
        "a leap second": quoted("2026-06-30T23:59:60Z"),
        "a date of Unix": b"1767225600",
        "a date alone": quoted("2026-03-01"),
        "a week date": quoted("2026-W10-1"),
        "a zone of 25 hours": quoted("2026-03-01T00:00:00+25:00"),
        "a date in other digits": quoted("٢٠٢٦-03-01T00:00:00Z"),
        "a date of 2038": quoted("2038-01-19T03:14:08Z"),
    },
}
VALUES = {name: value for kind in KINDS.values() for name, value in kind.items()}

# The same again in sizes that take minutes in every slot of every layout: for the long run.
LARGE: dict[str, bytes] = {
    "nested 100,000 deep": nested(100_000),
    "half a million brackets in a string": quoted("[" * 500_000),
    "ten thousand keys": object_of(10_000),
    "a megabyte on one line": quoted("m" * 1_048_576),
    "three hundred thousand newlines": newlines(300_000),
}

_SLOTS: dict[str, dict[str, Any]] = {
    "args": asks("toolu_9", args=MARK),  # type: ignore[arg-type]
    "tool name": asks("toolu_9", MARK),
    "call id": asks(MARK),
    "step": asks("toolu_9", step=MARK),
    "session id": asks("toolu_9", session=MARK),
    "stamp": asks("toolu_9", at=MARK),
    "line id": {**asks("toolu_9"), "uuid": MARK},
    "version": {**asks("toolu_9"), "version": MARK},
    "folder": {**asks("toolu_9"), "cwd": MARK, "gitBranch": MARK},
    "type": {**asks("toolu_9"), "type": MARK},
    "sidechain": {**asks("toolu_9"), "isSidechain": True, "agentId": MARK, "parentUuid": MARK},
    "fork": {**asks("toolu_9"), "forkedFrom": MARK},
    "message": {**asks("toolu_9"), "message": MARK},
    "content": {**asks("toolu_9"), "message": {"id": "m", "role": "assistant", "content": MARK}},
    "receipt": answers("toolu_9", MARK),
    "result": answers("toolu_9", "x", MARK),
    "result's id": answers(MARK),
    "error flag": answers("toolu_9", is_error=MARK),  # type: ignore[arg-type]
    "answer's stamp": answers("toolu_9", at=MARK),
    "stdout": answers("toolu_9", "x", {"stdout": MARK, "stderr": MARK, "interrupted": MARK, "isImage": MARK}),
    "kept path": answers("toolu_9", "x", {"stdout": "", "persistedOutputPath": MARK, "persistedOutputSize": MARK}),
    "agent": answers("toolu_9", "x", {"agentId": MARK, "totalDurationMs": MARK, "durationMs": MARK, "prompt": MARK}),
    "file": answers("toolu_9", "x", {"type": MARK, "file": {"filePath": MARK, "content": MARK, "numLines": MARK}}),
    "patch": answers("toolu_9", "x", {"filePath": MARK, "oldString": MARK, "newString": MARK, "structuredPatch": MARK}),
    "search": answers("toolu_9", "x", {"mode": "content", "filenames": MARK, "numFiles": MARK, "content": MARK}),
    "title": {"type": "custom-title", "sessionId": SESSION, "customTitle": MARK},
    "summary": {"type": "summary", "summary": MARK, "leafUuid": MARK},
    "system": {"type": "system", "subtype": MARK, "content": MARK, "level": MARK, "sessionId": SESSION},
    "progress": {"type": "progress", "sessionId": SESSION, "parentToolUseID": "toolu_9", "data": {"type": MARK}},
    "agent progress": {
        "type": "progress",
        "sessionId": SESSION,
        "parentToolUseID": MARK,
        "data": {"type": "agent_progress", "agentId": MARK, "prompt": MARK, "message": asks("toolu_8")},
    },
    "progress message": {
        "type": "progress",
        "sessionId": SESSION,
        "data": {"type": "agent_progress", "agentId": "abc", "message": MARK},
    },
    "replacement": {
        "type": "content-replacement",
        "sessionId": SESSION,
        "agentId": MARK,
        "replacements": [{"toolUseId": "toolu_9", "replacement": MARK}, MARK],
    },
    "microcompaction": {
        "type": "system",
        "subtype": "microcompact_boundary",
        "sessionId": SESSION,
        "microcompactMetadata": {"compactedToolIds": MARK},
    },
}
_STREAM_SLOTS: dict[str, dict[str, Any]] = {
    "init": {
        "type": "system",
        "subtype": "init",
        "session_id": "s1",
        "model": MARK,
        "cwd": MARK,
        "claude_code_version": MARK,
    },
    "parent": {
        "type": "assistant",
        "session_id": "s1",
        "parent_tool_use_id": MARK,
        "message": asks("toolu_9")["message"],
    },
    "end": {"type": "result", "session_id": "s1", "is_error": MARK, "subtype": MARK, "timestamp": MARK},
    "task": {"type": "system", "subtype": MARK, "session_id": "s1", "tool_use_id": MARK, "content": MARK},
    "answer": {
        "type": "user",
        "session_id": MARK,
        "message": answers("toolu_9", MARK)["message"],
        "tool_use_result": MARK,
        "timestamp": MARK,
    },
}
_AUDIT_SLOTS: dict[str, tuple[str, dict[str, Any]]] = {
    "call": (
        "calls.jsonl",
        {"runId": "r", "callId": MARK, "tool": MARK, "args": MARK, "stepId": MARK, "attempt": MARK},
    ),
    "call's run": ("calls.jsonl", {"runId": MARK, "callId": "c9", "tool": "ExecCommand", "createdAt": MARK}),
    "result": (
        "results.jsonl",
        {"runId": "r", "callId": "c1", "ok": MARK, "status": MARK, "data": MARK, "durationMs": MARK, "effects": MARK},
    ),
    "error": ("results.jsonl", {"runId": "r", "callId": "c1", "ok": False, "error": MARK, "startedAt": MARK}),
    "event": (
        "events.jsonl",
        {"runId": "r", "type": MARK, "timestamp": MARK, "level": MARK, "message": MARK, "callId": MARK},
    ),
    "receipt": ("receipts.jsonl", {"run": "r", "call": "c1", "text": MARK, "fidelity": MARK, "at": MARK}),
    "parts": ("receipts.jsonl", {"run": "r", "call": "c1", "parts": MARK, "renderer": MARK}),
}


def with_value(line: dict[str, Any], value: bytes) -> bytes:
    return encoded(line).replace(quoted(MARK).replace(b"\\ufdd0", MARK[0].encode()), value)


def session_lines(value: bytes) -> dict[str, bytes]:
    return {slot: with_value(line, value) for slot, line in _SLOTS.items()}


def stream_lines(value: bytes) -> dict[str, bytes]:
    return {slot: with_value(line, value) for slot, line in _STREAM_SLOTS.items()}


def audit_lines(value: bytes) -> dict[str, tuple[str, bytes]]:
    return {slot: (name, with_value(line, value)) for slot, (name, line) in _AUDIT_SLOTS.items()}

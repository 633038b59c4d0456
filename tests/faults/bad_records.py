"""Bad records that programs send, by the class of their fault, each with what the intake answers.

The records of a row come behind a good call of three lines, which is stored whatever else is refused. An answer names
the line and the field, or the whole body, which is then not stored at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envelopes.recordings.native import ARRAY
from tests.dashboard.api.native_records import lines, one_call

RUN = "r1"
CALL, RESULT, RECEIPT = one_call(1, RUN)
GOOD = lines(one_call(2, "good"))


@dataclass(frozen=True)
class BadRecords:
    """`calls` are those of the row's own runs afterwards, `known` the lines that repeat another one."""

    name: str
    body: bytes
    rejected: tuple[str, ...] = ()
    calls: int = 1
    known: int = 0

    @property
    def answers(self) -> list[str]:
        repeated = [f"{self.known} already known"] if self.known else []
        return [*self.rejected, *repeated]


def sent(name: str, *records: Any, answer: str | tuple[str, ...] = (), calls: int = 1, known: int = 0) -> BadRecords:
    rejected = (answer,) if isinstance(answer, str) else answer
    return BadRecords(name, lines(records), rejected, calls, known)


def with_member(record: Mapping[str, Any], member: bytes) -> bytes:
    """The record as JSON with one more member at its end, as it is written."""
    return json.dumps(record).encode()[:-1] + b"," + member + b"}"


def without(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}


def called(call: str) -> dict[str, Any]:
    return CALL | {"call": call}


def artifact(path: object, **fields: Any) -> dict[str, Any]:
    return {"v": 1, "type": "artifact", "run": RUN, "call": "c1", "path": path, **fields}


RECORDS: dict[str, tuple[BadRecords, ...]] = {
    "json-depth": (
        sent("64 arrays in the arguments", CALL | {"args": json.loads("[" * 64 + "]" * 64)}),
        sent(
            "500 arrays",
            with_member(CALL, b'"args":' + b"[" * 500 + b"]" * 500),
            calls=0,
            answer="line 4: nested deeper than 200",
        ),
        sent(
            "300 objects in a plan",
            with_member({"v": 1, "type": "run", "run": RUN}, b'"plan":' + b'{"a":' * 300 + b"1" + b"}" * 300),
            calls=0,
            answer="line 4: nested deeper than 200",
        ),
        sent("a hundred thousand opening brackets", b"[" * 100_000, calls=0, answer="line 4: nested deeper than 200"),
    ),
    "json-number": (
        sent("2**53 + 1, which a float cannot hold", CALL | {"args": {"n": 2**53 + 1}}),
        sent(
            "a whole number of 5,000 digits",
            with_member(CALL, b'"x":' + b"9" * 5_000),
            calls=0,
            answer="line 4: a number of more than 4,300 digits",
        ),
        sent("1e400", with_member(CALL, b'"x":1e400')),
        sent("NaN", with_member(CALL, b'"x":NaN')),
        sent("a duration of 2**70", CALL, RESULT | {"duration_ms": 2**70}),
        sent("an attempt below one", CALL | {"attempt": -1}),
    ),
    "json-syntax": (
        sent(
            "a leading nought",
            with_member(CALL, b'"x":012'),
            calls=0,
            answer="line 4: expected ',' or '}' at character 147",
        ),
        sent(
            "a comma too many",
            json.dumps(CALL).encode()[:-1] + b",}",
            calls=0,
            answer="line 4: nothing between ',' and '}' at character 142",
        ),
        sent("two objects on a line", json.dumps(CALL).encode() + json.dumps(called("c2")).encode(), calls=2),
        sent("single quotes", b"{'v': 1}", calls=0, answer="line 4: expected a key at character 1"),
    ),
    "json-toplevel": (
        sent("a number", b"5", calls=0, answer="line 4: expected a JSON object"),
        sent("a list", [CALL], calls=0, answer=f"line 4: {ARRAY}"),
        sent("null", b"null", calls=0, answer="line 4: expected a JSON object"),
    ),
    "json-dupkeys": (
        sent("the run twice", b'{"v":1,"type":"call","run":"r0","run":"r1","call":"c1","tool":"T","args":{}}'),
        sent("the tool twice", with_member(CALL, b'"tool":"Other"')),
        sent("the status twice", CALL, with_member(RESULT, b'"status":"error"')),
    ),
    "json-keys": (
        sent("names of lookups", CALL | {"args": {"run__project__in": 1, "_connector": "OR"}}),
        sent("__proto__", CALL | {"args": {"__proto__": {"admin": True}, "constructor": 1}}),
        sent("an empty key", CALL | {"args": {"": {"": ""}}}),
    ),
    "unicode-surrogate": (
        sent(
            "half a character in the run", b'{"v":1,"type":"call","run":"r1\\ud800","call":"c1","tool":"T","args":{}}'
        ),
        sent("half a character in the arguments", with_member(without(CALL, "args"), b'"args":{"q":"\\udfff"}')),
        sent("two halves in the wrong order", CALL, with_member(RESULT, b'"note":"\\ude00\\ud83d"')),
    ),
    "unicode-nul": (
        sent("in the arguments", CALL | {"args": {"q": "a\x00b"}}),
        sent("in the id of the call", called("c\x001")),
        sent("in a receipt", CALL, RECEIPT | {"text": "a\x00b"}),
    ),
    "utf8-invalid": (
        sent(
            "the byte FF",
            b'{"v":1,"type":"call","run":"r1","call":"c1","tool":"\xff"}',
            calls=0,
            answer="line 4: not UTF-8 at byte 52: ff",
        ),
        sent(
            "an overlong slash",
            b'{"v":1,"type":"call","run":"r1","call":"\xc0\xaf"}',
            calls=0,
            answer="line 4: not UTF-8 at byte 40: c0",
        ),
        sent(
            "half a character in three bytes",
            b'{"v":1,"type":"call","run":"\xed\xa0\x80"}',
            calls=0,
            answer="line 4: not UTF-8 at byte 28: ed",
        ),
    ),
    "encoding": (
        sent(
            "a byte order mark in the middle",
            b"\xef\xbb\xbf" + json.dumps(CALL).encode(),
            calls=0,
            answer="line 4: expected a JSON object",
        ),
        sent("UTF-16", json.dumps(CALL).encode("utf-16-le"), calls=0, answer="line 4: expected a key at character 1"),
        sent(
            "Latin-1",
            json.dumps(CALL | {"tool": "café"}, ensure_ascii=False).encode("latin-1"),
            calls=0,
            answer="line 4: not UTF-8 at byte 64: e9",
        ),
    ),
    "schema-missing": (
        sent("no version", without(CALL, "v"), calls=0, answer='line 4: no version: expected "v":1 ($.v)'),
        sent("no type", without(CALL, "type"), calls=0, answer="line 4: no type, or not a string ($.type)"),
        sent("no run", without(CALL, "run"), calls=0, answer="line 4: no run, or not a string ($.run)"),
        sent("no tool", without(CALL, "tool"), calls=0, answer="line 4: no tool, or not a string ($.tool)"),
    ),
    "schema-type": (
        sent(
            "the call is a list", CALL | {"call": ["c1"]}, calls=0, answer="line 4: no call, or not a string ($.call)"
        ),
        sent("the run is null", CALL | {"run": None}, calls=0, answer="line 4: no run, or not a string ($.run)"),
        sent("the version is true", CALL | {"v": True}, calls=0, answer='line 4: no version: expected "v":1 ($.v)'),
        sent(
            "the text of a receipt is an object",
            CALL,
            RECEIPT | {"text": {"a": 1}},
            answer="line 5: a receipt is a text or a list of parts ($.text)",
        ),
    ),
    "schema-extra": (
        sent("columns of ours", CALL | {"project": 2, "project_id": 2, "id": 1, "derivation": "x"}),
        sent("a field of a later version", CALL | {"future": {"of": ["a", "later"]}}),
        sent("a hundred fields", CALL | {f"field{number}": number for number in range(100)}),
    ),
    "timestamp": (
        sent("a word", CALL | {"at": "yesterday"}),
        sent("before the first year", CALL | {"at": "0001-01-01T00:00:00+14:00"}),
        sent("behind the last year", CALL | {"at": "9999-12-31T23:59:59-12:00"}),
        sent("a number", CALL | {"at": 1e30}),
    ),
    "enum-unknown": (
        sent("a status", CALL, RESULT | {"status": "exploded"}),
        sent(
            "a type",
            {"v": 1, "type": "dance", "run": RUN},
            calls=0,
            answer="line 4: not a known type; there are run, message, usage, call, result, receipt, artifact, event, "
            "confirmation ($.type)",
        ),
        sent("a fidelity", CALL, RECEIPT | {"fidelity": "perfect"}),
    ),
    "tool-name": (
        sent("10,000 letters", CALL | {"tool": "x" * 10_000}),
        sent("empty", CALL | {"tool": ""}, calls=0, answer="line 4: no tool, or not a string ($.tool)"),
        sent("a path and a script", CALL | {"tool": "../<script>alert(1)</script>"}),
        sent("combining marks", CALL | {"tool": "e\u0301\u0301 "}),
    ),
    "artifact-ref": (
        sent("an address", CALL, artifact("https://evil.example/x")),
        sent("a path upwards", CALL, artifact("../../etc/passwd")),
        sent("no path", CALL, artifact(""), answer="line 5: no path, or not a string ($.path)"),
        sent(
            "a hash that is a path",
            CALL,
            artifact("x", sha256="../../etc"),
            answer="line 5: not a SHA-256: 64 hexadecimal digits in lower case ($.sha256)",
        ),
        sent("a size below nought", CALL, artifact("x", size=-1)),
    ),
    "schema-version": (
        sent("version 2", CALL | {"v": 2}, calls=0, answer="line 4: version 2 is not understood; version 1 is ($.v)"),
        sent("version nought", CALL | {"v": 0}, calls=0, answer='line 4: no version: expected "v":1 ($.v)'),
        sent("a version as text", CALL | {"v": "1"}, calls=0, answer='line 4: no version: expected "v":1 ($.v)'),
    ),
    "stream-end": (
        BadRecords("no line end", json.dumps(CALL).encode()),
        BadRecords(
            "cut in an object",
            lines([CALL]) + json.dumps(RESULT).encode()[:40],
            rejected=("line 5: not JSON: Unterminated string starting at character 36",),
        ),
        BadRecords(
            "cut in a character",
            lines([CALL]) + '{"v":1,"x":"é'.encode()[:-1],
            rejected=("line 5: not UTF-8 at byte 12: c3",),
        ),
    ),
    "stream-newline": (
        BadRecords("blank lines", b"\n \n\t\n" + lines([CALL]) + b"\n"),
        BadRecords("carriage returns", lines([CALL, RESULT]).replace(b"\n", b"\r\n")),
        BadRecords(
            "a carriage return alone",
            json.dumps(CALL).encode() + b"\r" + json.dumps(RESULT).encode(),
            calls=0,
            rejected=("line 4: more after the end of the JSON value at character 143",),
        ),
        sent("a line separator in a text", CALL | {"args": {"q": "a\u2028b\u0085c"}}),
    ),
    "stream-encoding": (
        sent(
            "a line in Latin-1, then a good one",
            '{"v":1,"x":"é"}'.encode("latin-1"),
            CALL,
            answer="line 4: not UTF-8 at byte 12: e9",
        ),
        sent(
            "a line in UTF-16, then a good one",
            '{"v":1}'.encode("utf-16-le"),
            b"",
            CALL,
            answer="line 4: expected a key at character 1",
        ),
        sent(
            "a line of noughts, then a good one",
            b"\x00" * 40,
            CALL,
            answer="line 4: expected a JSON object, found NUL bytes, a hole that a crash or a full disk left",
        ),
    ),
    "stream-bad-middle": (
        sent("the second of three lines", CALL, b"{not json", RESULT, answer="line 5: expected a key at character 1"),
        sent("a number between objects", CALL, b"17", RECEIPT, answer="line 5: expected a JSON object"),
        sent(
            "three bad lines between good ones",
            CALL,
            b"{",
            RESULT,
            b"}",
            RECEIPT,
            b"]",
            answer=(
                "line 5: expected a key at character 1",
                "line 7: expected a JSON object",
                "line 9: expected a JSON object",
            ),
        ),
    ),
    "stream-shape": (
        BadRecords(
            "an array over many lines",
            b"[\n1,\n2]\n",
            calls=0,
            rejected=(
                f"line 4: {ARRAY}",
                "line 5: expected a JSON object",
                "line 6: expected a JSON object",
            ),
        ),
        BadRecords(
            "an object over many lines",
            b'{\n"v": 1\n}\n',
            calls=0,
            rejected=(
                "line 4: expected a key at character 1",
                "line 5: expected a JSON object",
                "line 6: expected a JSON object",
            ),
        ),
        BadRecords(
            "text",
            b"Traceback (most recent call last):\n  File x\n",
            calls=0,
            rejected=("line 4: expected a JSON object", "line 5: expected a JSON object"),
        ),
    ),
    "stream-dup": (
        sent("the same call twice", CALL, CALL, known=1),
        sent(
            "the same bad line twice",
            CALL,
            b"[1]",
            b"[1]",
            answer=(f"line 5: {ARRAY}", f"line 6: {ARRAY}"),
        ),
        sent("another tool for the same call", CALL, CALL | {"tool": "Other"}),
        sent("two results", CALL, RESULT, RESULT | {"complete": {"text": "another"}}),
    ),
    "stream-order": (
        sent("the result before its call", RESULT, CALL),
        sent("the receipt first", RECEIPT, RESULT, CALL),
        sent("a result without its call", RESULT),
    ),
    "stream-clock": (
        sent(
            "a result before its call",
            CALL,
            RESULT | {"started_at": "2020-01-01T00:00:00Z", "ended_at": "2020-01-01T00:00:01Z"},
        ),
        sent(
            "an end before the start",
            CALL,
            RESULT | {"started_at": "2026-03-01T10:00:00Z", "ended_at": "2026-03-01T09:00:00Z"},
        ),
        sent("a duration below nought", CALL, RESULT | {"duration_ms": -5}),
    ),
    "stream-tree": (
        sent("a run that is its own parent", CALL, {"v": 1, "type": "run", "run": RUN, "parent_run": RUN}),
        sent(
            "two runs that are each other's parent",
            CALL,
            {"v": 1, "type": "run", "run": RUN, "parent_run": "r2"},
            {"v": 1, "type": "run", "run": "r2", "parent_run": RUN},
        ),
        sent("a call that starts its own run", CALL, RESULT | {"child_run": RUN}),
    ),
}

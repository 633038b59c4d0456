"""Bad lines, files and paths by the class of their fault."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile

from envelopes.recordings import UNRECOGNISED
from tests.dashboard.sessions import answers, asks, encoded
from tests.faults.bad_files import BadFile, fields, lines, output, result, settled, value, whole
from tests.faults.hostile import quoted

MISSING = "its file is missing"
NO_OBJECT = "line 2: expected a JSON object"
PACKED = "not a recording, it is compressed: unpack it and import what it holds"
UNKNOWN = UNRECOGNISED


def _zipped(raw: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("../../evil.jsonl", raw)
    return file.getvalue()


def _tarred(raw: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:bz2") as archive:
        member = tarfile.TarInfo("/etc/evil.jsonl")
        member.size = len(raw)
        archive.addfile(member, io.BytesIO(raw))
    return file.getvalue()


def _reversed(raw: bytes) -> bytes:
    return b"".join(reversed(raw.splitlines(keepends=True)))


LINES: dict[str, tuple[BadFile, ...]] = {
    "artifact-ref": (
        output("a file that is not there", "/tmp/gone.txt", answer=MISSING),
        output("an empty path", ""),
        output("a folder", "/tmp", answer=MISSING),
        output("an address", "https://evil.example/x", answer=MISSING),
        output(
            "a path of 5,000 letters",
            "/" + "p" * 5_000,
            answer=(
                "line 2: remark:length at path: shown and filtered by its first 1024 characters",
                "its file is missing",
            ),
        ),
        output(
            "a path that is a list",
            ["/etc"],
            answer="line 2: remark:value at $.toolUseResult.persistedOutputPath: left out: wrong type",
        ),
    ),
    "schema-version": (
        fields("a release of the future", {"version": "99.0.0-rc.1+x"}, {"version": "99.0.0"}),
        fields(
            "a release of 300 letters",
            {"version": "9" * 300},
            {},
            answer="line 1: remark:length at version: shown and filtered by its first 50 characters",
        ),
        fields("no release", {"version": None}, {"version": None}),
    ),
    "stream-end": (
        whole(
            "a last line that is cut",
            lambda raw: raw + b'{"type":"user","mess',
            answer="line 3: incomplete last line: 20 bytes without their end; it is read when the rest is there",
        ),
        whole("no line end behind the last line", lambda raw: raw[:-1]),
        whole(
            "a last line cut in a character",
            lambda raw: raw + b'{"type":"user","x":"\xe2',
            answer="line 3: incomplete last line: 21 bytes without their end; it is read when the rest is there",
        ),
        whole(
            "a hole of NUL bytes at the end",
            lambda raw: raw + b"\0" * 5_000,
            answer="line 3: incomplete last line: 5000 bytes without their end; it is read when the rest is there",
        ),
    ),
    "stream-newline": (
        lines("blank lines and white space", b"", b" \t ", b"\r"),
        whole("carriage returns", lambda raw: raw.replace(b"\n", b"\r\n")),
        lines(
            "line separators inside a string",
            encoded({"type": "user", "sessionId": "@S", "x": "a\u2028b\u0085c\u2029"}),
            answer="line 2: expected a JSON object ($.message)",
        ),
        lines("a form feed between entries", b"\x0c"),
        whole(
            "carriage returns alone",
            lambda raw: raw.replace(b"\n", b"\r"),
            answer="line 1: incomplete last line: 707 bytes without their end; it is read when the rest is there",
            calls=0,
        ),
    ),
    "stream-encoding": (
        lines(
            "a line of Latin-1, one of UTF-16 and a good one",
            b'{"type":"user","x":"\xe9"}',
            '{"type":"user"}'.encode("utf-16-le"),
            b'{"type":"user","sessionId":"@S"}',
            answer=(
                "line 2: not UTF-8 at byte 20: e9",
                "line 3: expected a key at character 1",
                "line 4: expected a JSON object ($.message)",
            ),
        ),
        lines("binary", bytes(range(11, 256)), answer="line 2: not UTF-8 at byte 117: 80"),
        lines(
            "compressed bytes",
            gzip.compress(b"x" * 100, mtime=0).replace(b"\n", b""),
            answer="line 2: not UTF-8 at byte 1: 8b",
        ),
    ),
    "stream-bad-middle": (
        lines(
            "an entry cut by the next one",
            b'{"type":"user","sessionId":"@S","x":"abc{"type":"user"}',
            answer="line 2: expected ',' or '}' at character 76",
        ),
        lines(
            "a marker of a merge",
            b"<<<<<<< HEAD",
            b"=======",
            b">>>>>>> main",
            answer=(
                "line 2: expected a JSON object",
                "line 3: expected a JSON object",
                "line 4: expected a JSON object",
            ),
        ),
        lines("a page of a proxy", b"<!doctype html><title>502 Bad Gateway</title>", answer=NO_OBJECT),
        lines("a line of a log", b"2026-03-01 09:00:00 INFO started", answer=NO_OBJECT),
        lines(
            "a hole of NUL bytes",
            b"\0" * 4_096,
            answer="line 2: expected a JSON object, found NUL bytes, a hole that a crash or a full disk left",
        ),
    ),
    "stream-shape": (
        whole(
            "the entries in one array over many lines",
            lambda raw: b"[\n" + b",\n".join(raw.splitlines()) + b"\n]\n",
            calls=0,
            answer="line 1: one JSON document over many lines; expected one object per line",
        ),
        whole(
            "an entry over many lines",
            lambda raw: json.dumps(json.loads(raw.splitlines()[0]), indent=1).encode(),
            calls=0,
            answer=UNKNOWN,
        ),
        whole(
            "two entries on one line",
            lambda raw: raw.replace(b"}\n{", b"}{"),
            answer="line 1: 2 JSON objects on one line, without a line end between them; each was read by itself",
        ),
        whole("a table", lambda raw: b"role,content\nuser,hello\n", answer=UNKNOWN, calls=0),
        whole(
            "the entries in one array on one line",
            lambda raw: b"[" + b",".join(raw.splitlines()) + b"]\n",
            answer=UNKNOWN,
            calls=0,
        ),
    ),
    "stream-dup": (
        whole("every line twice", lambda raw: b"".join(line * 2 for line in raw.splitlines(keepends=True))),
        whole("the file twice, one behind the other", lambda raw: raw * 2),
        lines(
            "the same call with other arguments",
            encoded(asks("@C", "Bash", {"command": "rm -rf /"}, session="@S")),
            answer="line 2: remark:arguments at args: kept beside the other arguments, which the page shows",
        ),
        lines(
            "the same call of another tool",
            encoded(asks("@C", "Read", {"file_path": "/x"}, session="@S")),
            answer=(
                "line 2: remark:arguments at args: kept beside the other arguments, which the page shows",
                "line 2: remark:tool at tool: left out: another record of the call has Bash",
            ),
        ),
        lines(
            "an answer again with another verdict",
            encoded(answers("@C", session="@S", is_error=True)),
            answer="line 3: remark:value at is_error: left out: another record of this result has true",
        ),
        lines(
            "an earlier answer that differs",
            encoded(answers("@C", "other", {"stdout": "other", "stderr": ""}, session="@S")),
            answer="line 3: remark:result at result: kept beside the other result, which the page shows",
        ),
        lines(
            "a second receipt without a result",
            encoded({**answers("@C", "other", session="@S"), "toolUseResult": None}),
            answer="line 3: remark:result at result: kept beside the other result, which the page shows",
        ),
    ),
    "stream-order": (
        whole("the answer before its call", _reversed),
        lines("an answer that nobody asked for", encoded(answers("@C-orphan", "x", session="@S")), calls=2),
        lines(
            "an entry of another session",
            encoded(asks("@C-other", session="99999999-0000-4000-8000-000000000000")),
            calls=2,
        ),
    ),
    "stream-clock": (
        fields(
            "an answer before its call",
            {"timestamp": "2026-03-01T09:00:05Z"},
            {"timestamp": "2026-03-01T09:00:00Z"},
            answer="line 1: remark:clock at timestamp: no duration: the clock ran backwards",
        ),
        fields(
            "an answer at the moment of its call",
            {"timestamp": "2026-03-01T09:00:05Z"},
            {"timestamp": "2026-03-01T09:00:05Z"},
        ),
        fields(
            "an answer after 300 years",
            {"timestamp": "1999-03-01T09:00:05Z"},
            {"timestamp": "2299-03-01T09:00:00Z"},
            answer="line 2: remark:timestamp at $.timestamp: left out: not of the years 1970 to 2199",
        ),
        result(
            "a measured time below nought",
            durationMs=-5,
            answer="line 2: remark:duration at $.toolUseResult.durationMs: left out: not a possible duration",
        ),
        result(
            "a measured time of 10**30",
            durationMs=10**30,
            answer="line 2: remark:duration at $.toolUseResult.durationMs: left out: not a possible duration",
        ),
        result(
            "a measured time that is a text",
            durationMs="5",
            answer="line 2: remark:value at $.toolUseResult.durationMs: left out: wrong type",
        ),
        settled(
            "times of an executor that are none",
            startedAt="soon",
            durationMs=-1,
            answer=(
                "line 1: remark:duration at $.durationMs: left out: not a possible number",
                "line 1: remark:timestamp at $.startedAt: kept as a field without meaning: no time",
            ),
        ),
        settled(
            "times of an executor of another form",
            startedAt="2026-03-01T09:00:00",
            endedAt=1767225600,
            answer=(
                "line 1: remark:timestamp at $.endedAt: kept as a field without meaning: no text",
                "line 1: remark:timestamp at $.startedAt: taken as UTC: it has no offset",
            ),
        ),
        settled(
            "a time of an executor with nanoseconds, of another century",
            startedAt="2026-03-01T09:00:00.000000001Z",
            endedAt="2226-03-01T09:00:00Z",
            answer=(
                "line 1: remark:timestamp at $.endedAt: kept as a field without meaning: not of the years 1970 to 2199",
                "line 1: remark:timestamp at $.startedAt: cut to microseconds",
            ),
        ),
    ),
    "stream-tree": (
        fields("an entry that is its own parent", {"uuid": "loop", "parentUuid": "loop"}, {}),
        fields(
            "two entries that are each other's parent",
            {"uuid": "a", "parentUuid": "b"},
            {"uuid": "b", "parentUuid": "a"},
        ),
        fields("a parent that is not there", {"parentUuid": "gone"}, {}),
        lines(
            "a sidechain of a call that is not there",
            b'{"type":"user","isSidechain":true,"agentId":"x","uuid":"q","sessionId":"@S","parentToolUseID":"gone","message":{"content":"x"}}',
        ),
        lines("a summary of nothing", b'{"type":"summary","leafUuid":"gone"}'),
        lines(
            "replacements that are none",
            b'{"type":"content-replacement","sessionId":"@S","replacements":7}',
            answer="line 2: expected an array ($.replacements)",
        ),
        lines(
            "a replacement for a call that is not there",
            b'{"type":"content-replacement","sessionId":"@S","replacements":[{"toolUseId":"toolu_nobody","replacement":"x"},7]}',
            answer="line 2: expected a JSON object ($.replacements[1])",
        ),
        lines(
            "a compaction of calls that are none",
            b'{"type":"system","subtype":"microcompact_boundary","sessionId":"@S",'
            b'"microcompactMetadata":{"compactedToolIds":[1,"toolu_n",null]}}',
            answer=(
                "line 2: expected a string ($.microcompactMetadata.compactedToolIds[0])",
                "line 2: expected a string ($.microcompactMetadata.compactedToolIds[2])",
            ),
        ),
        lines(
            "progress of nobody",
            b'{"type":"progress","sessionId":"@S","data":{"type":"agent_progress","agentId":"z","message":7}}',
            answer="line 2: expected a JSON object ($.data.message)",
        ),
        lines(
            "progress about itself",
            b'{"type":"progress","sessionId":"@S","parentToolUseID":"@C","data":{"type":"agent_progress","agentId":"",'
            b'"message":{"type":"assistant","message":{"content":[]}}}}',
        ),
        lines(
            "a chain of 2,000 entries",
            *(
                b'{"type":"user","uuid":"n%d","parentUuid":"n%d","sessionId":"@S","message":{"content":"x"}}'
                % (n, n - 1)
                for n in range(1, 2_001)
            ),
        ),
    ),
    "binary-output": (
        value(
            "receipt",
            "every control character",
            quoted("".join(map(chr, range(32))) + "\x7f" + "".join(map(chr, range(128, 160)))),
        ),
        value("receipt", "noncharacters", quoted("\ufffe\uffff\U0010ffff")),
        value(
            "receipt",
            "a picture that is none",
            b'[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%%%"}}]',
        ),
        value(
            "receipt",
            "a picture of an active type",
            b'[{"type":"image","source":{"type":"base64","media_type":"image/svg+xml","data":"PHN2Zz4="}}]',
        ),
        value("result", "bytes as a list", b'{"stdout":"","stderr":"","data":[' + b"255," * 999 + b"0]}"),
    ),
    "path-traversal": (
        output("upwards", "../../../../etc/passwd", answer=MISSING),
        output("upwards inside an allowed folder", "tool-results/../../../etc/passwd", answer=MISSING),
        output("upwards, encoded", "%2e%2e%2fetc%2fpasswd", answer=MISSING),
        output("upwards with backslashes", "..\\..\\windows\\win.ini", answer=MISSING),
    ),
    "path-absolute": (
        output("an absolute path", "/etc/passwd", answer=MISSING),
        output("an address of a file", "file:///etc/passwd", answer=MISSING),
        output("a process's own files", "/proc/self/environ", answer=MISSING),
    ),
    "path-sibling": (
        output("a folder that begins alike", "tool-results-evil/x.txt", answer=MISSING),
        output("the folder itself", "tool-results/.", answer=MISSING),
        output("a folder beside it", "tool-results/../x.txt", answer=MISSING),
    ),
    "path-control": (
        output(
            "a NUL",
            "/tmp/a\0b",
            answer=(
                "line 2: remark:value at $.toolUseResult.persistedOutputPath: "
                "shown with ⟨U+…⟩ for what no text column stores",
                "its file is missing",
            ),
        ),
        output("a line end", "/tmp/a\nb", answer=MISSING),
        output("an escape code and letters from right to left", "/tmp/\x1b[31m\u202etxt.exe", answer=MISSING),
    ),
    "path-odd-name": (
        whole("a name with a line end", lambda raw: raw, file="a\nb.jsonl"),
        whole("a name that looks like an option", lambda raw: raw, file="--watch.jsonl"),
        whole("a name that runs from right to left", lambda raw: raw, file="x\u202egnp.jsonl"),
        whole("a name that is not UTF-8", lambda raw: raw, file="x\udcff\udcfe.jsonl"),
        whole("a name of markup and templates", lambda raw: raw, file="{{x}}<b>%s{0}.jsonl"),
        whole("a name of 249 letters", lambda raw: raw, file="x" * 249 + ".jsonl"),
    ),
    "archive": (
        whole("a gzip file", lambda raw: gzip.compress(raw, mtime=0), answer=PACKED, calls=0),
        whole("a zip file with a path upwards", _zipped, answer=PACKED, calls=0),
        whole("a tar file with an absolute path", _tarred, answer=PACKED, calls=0),
        whole("a zstd frame", lambda raw: b"\x28\xb5\x2f\xfd" + raw, answer=PACKED, calls=0),
    ),
}

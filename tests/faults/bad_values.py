"""Bad values by the class of their fault: numbers, keys, characters, fields, stamps and names."""

from __future__ import annotations

from tests.faults.bad_files import BadFile, block, fields, lines, settled, stamp, tool, value, whole
from tests.faults.hostile import nested, object_of, quoted

NO_OBJECT = "line 2: expected a JSON object"
WIDE = "the text is UTF-16 or UTF-32: save it as UTF-8 and import that"
DEEP = "line 2: nested deeper than 200"
LONG = "line 2: a number of more than 4,300 digits"
UNKNOWN_KIND = "line 2: remark:line at $.type: an event without a meaning, like later lines of its kind: it is unknown"
NO_TIME = "line 1: remark:timestamp at $.timestamp: left out: no time"
NO_OFFSET = "line 1: remark:timestamp at $.timestamp: taken as UTC: it has no offset"
HIDES = "line 1: remark:name at tool: kept as it is: it has characters that hide"
BIG = b"9" * 4_301

VALUES: dict[str, tuple[BadFile, ...]] = {
    "json-depth": (
        value("args", "150 arrays in the arguments", b'{"a":' + nested(150) + b"}"),
        value("result", "150 objects in the result", nested(150, b'{"a":', b"}").replace(b":}", b":1}")),
        value("args", "fifty thousand brackets in a string", b'{"a":' + quoted("[{" * 25_000) + b"}"),
        lines("201 arrays", nested(201), answer=DEEP),
        lines("a hundred thousand opening brackets", b'{"type":"user","a":' + b"[" * 100_000, answer=DEEP),
        lines("depth behind a string of escaped quotes", b'{"a":"\\"\\\\","b":' + nested(300) + b"}", answer=DEEP),
    ),
    "json-number": (
        value("args", "2**53 + 1, which a float cannot hold", b'{"n":9007199254740993}'),
        value("args", "a whole number of 40 digits", b'{"n":1' + b"0" * 39 + b"}"),
        value("args", "1.10, 1E+2 and -0.0 as they were written", b'{"n":[1.10,1E+2,-0.0]}'),
        value(
            "args",
            "1e400",
            b'{"n":1e400}',
            answer="line 1: remark:number at args/n: kept as it is: too large for a number with 64 bits",
        ),
        value(
            "args",
            "NaN and -Infinity",
            b'{"n":[NaN,-Infinity]}',
            answer=(
                "line 1: remark:number at args/n/0: kept as it is: no number of JSON",
                "line 1: remark:number at args/n/1: kept as it is: no number of JSON",
            ),
        ),
        value(
            "result",
            "NaN in the result",
            b'{"stdout":"a","stderr":"","n":NaN}',
            answer="line 2: remark:number at result/n: kept as it is: no number of JSON",
        ),
        lines("4,301 digits", b'{"type":"user","n":' + BIG + b"}", answer=LONG),
        lines("4,301 digits behind a minus in an array", b'{"type":"user","n":[-' + BIG + b"]}", answer=LONG),
    ),
    "json-syntax": (
        lines("a leading zero", b'{"type":"user","n":01}', answer="line 2: expected ',' or '}' at character 20"),
        lines("a trailing comma", b'{"type":"user",}', answer="line 2: nothing between ',' and '}' at character 15"),
        lines(
            "one bracket too many",
            b'{"type":"user"}}',
            answer="line 2: more after the end of the JSON value at character 15",
        ),
        lines("a closing bracket", b"]", answer=NO_OBJECT),
        lines("a carriage return before the entry", b'\r{"type":"summary","leafUuid":"x"}'),
        lines("single quotes", b"{'type':'user'}", answer="line 2: expected a key at character 1"),
        lines("a comment", b'{"type":"user" /* who */}', answer="line 2: expected ',' or '}' at character 15"),
        lines(
            "a tab inside a string",
            b'{"type":"us\ter"}',
            answer="line 2: not JSON: Invalid control character at character 11",
        ),
        lines(
            "an escape that JSON lacks", b'{"type":"\\x41"}', answer="line 2: not JSON: Invalid \\escape at character 9"
        ),
        lines(
            "a string without its end",
            b'{"type":"user',
            answer="line 2: not JSON: Unterminated string starting at character 8",
        ),
        lines("a key without quotes", b'{type:"user"}', answer="line 2: expected a key at character 1"),
        lines(
            "True as Python writes it",
            b'{"type":"user","isMeta":True}',
            answer="line 2: not JSON: Expecting value at character 24",
        ),
    ),
    "json-toplevel": (
        lines("null", b"null", answer=NO_OBJECT),
        lines("a string", b'"{}"', answer=NO_OBJECT),
        lines("a number", b"-1", answer=NO_OBJECT),
        lines("an array of entries", b'[{"type":"user"}]', answer=NO_OBJECT),
        whole("an empty file", lambda raw: b"", answer="the file is empty", calls=0),
        whole(
            "a file of blank lines", lambda raw: b"\n \n\t\n", answer="the file begins with blank lines only", calls=0
        ),
    ),
    "json-dupkeys": (
        value(
            "args",
            "a key twice",
            b'{"command":"ls","command":"rm"}',
            answer="line 1: remark:key at args/command: the last value of this key is read",
        ),
        value(
            "args",
            "a key twice, once escaped",
            b'{"command":"ls","comm\\u0061nd":"rm"}',
            answer="line 1: remark:key at args/command: the last value of this key is read",
        ),
        value(
            "result",
            "two ends of one result",
            b'{"stdout":"a","stderr":"","interrupted":true,"interrupted":false}',
            answer="line 2: remark:key at result/interrupted: the last value of this key is read",
        ),
        lines(
            "a session twice in an entry",
            b'{"type":"user","sessionId":"x","sessionId":"@S","message":{"content":"x"}}',
            answer="line 2: remark:value at $.sessionId: the last value of this key is read",
        ),
        lines(
            "two stamps of a call, two ids and two names",
            b'{"type":"assistant","sessionId":"@S","timestamp":"2001-01-01T00:00:00Z","timestamp":"2026-03-01T09:00:02Z",'
            b'"message":{"content":[{"type":"tool_use","id":"@C-1","id":"@C-2","name":"Read","name":"Bash","input":{}}]}}',
            answer=(
                "line 2: remark:value at $.message.content[0].id: the last value of this key is read",
                "line 2: remark:value at $.message.content[0].name: the last value of this key is read",
                "line 2: remark:value at $.timestamp: the last value of this key is read",
            ),
            calls=2,
        ),
        lines(
            "two verdicts about an answer",
            b'{"type":"user","sessionId":"@S","message":{"content":[{"type":"tool_result","tool_use_id":"@C","content":"a",'
            b'"is_error":true,"content":"b","is_error":false}]}}',
            answer=(
                "line 2: remark:value at $.message.content[0].content: the last value of this key is read",
                "line 2: remark:value at $.message.content[0].is_error: the last value of this key is read",
            ),
        ),
        value(
            "args",
            "a key three times, deep in a list",
            b'{"l":[{"a":{"k":1,"k":2,"k":3}}]}',
            answer=(
                "line 1: remark:key at args/l/0/a/k: the last value of this key is read",
                "line 1: remark:key at args/l/0/a/k: the last value of this key is read",
            ),
        ),
    ),
    "json-keys": (
        value("args", "keys of lookups", b'{"run__project__slug":"x","_connector":"OR","pk":1,"id__in":[1]}'),
        value("args", "keys of prototypes", b'{"__proto__":{"x":1},"constructor":{"prototype":1},"__class__":"x"}'),
        value("args", "keys that a pointer escapes", b'{"a/b":1,"~":2,"~1":3,"":{"":4}}'),
        value("args", "five thousand keys", object_of(5_000)),
        lines(
            "keys that our own reader sets",
            b'{"type":"assistant","sessionId":"@S","(changed)":[["x","eA==","nothing"]],"message":{"content":[{"type":'
            b'"tool_use","id":"@C-2","name":"Bash","input":{},"(changed)":[["x","eA==","nothing"]]}]}}',
            calls=2,
        ),
        value("args", "a key of 20,000 letters", b'{"' + b"k" * 20_000 + b'":1}'),
    ),
    "unicode-surrogate": (
        value("args", "a high half alone", b'{"command":"a\\ud83d"}'),
        value("receipt", "a low half alone", b'"a\\ude00b"'),
        value("args", "a half as a key", b'{"\\udfff":1}'),
        tool(
            "a half in the name of a tool",
            "Ba\ud800sh",
            answer="line 1: remark:value at $.message.content[0].name: shown with ⟨U+…⟩ for what no text column stores",
        ),
        value("receipt", "both halves, escaped", b'"\\ud83d\\ude00"'),
    ),
    "unicode-nul": (
        value("args", "a NUL in an argument", b'{"command":"a\\u0000b"}'),
        value("receipt", "a NUL in a receipt", b'"\\u0000"'),
        tool(
            "a NUL in the name of a tool",
            "Ba\0sh",
            answer="line 1: remark:value at $.message.content[0].name: shown with ⟨U+…⟩ for what no text column stores",
        ),
        value("args", "an escaped backslash before u0000", b'{"command":"a\\\\u0000b"}'),
        fields(
            "a NUL in the folder of the run",
            {"cwd": "/tmp/\0x"},
            {},
            answer="line 1: remark:value at $.cwd: shown with ⟨U+…⟩ for what no text column stores",
        ),
        tool(
            "a name that looks like our own mark",
            "⟨U+0000⟩",
            answer="line 1: remark:value at $.message.content[0].name: shown with ⟨U+…⟩ for what no text column stores",
        ),
    ),
    "utf8-invalid": (
        lines("the byte FF", b'{"type":"user","x":"\xff"}', answer="line 2: not UTF-8 at byte 20: ff"),
        lines("an overlong slash", b'{"type":"user","x":"\xc0\xaf"}', answer="line 2: not UTF-8 at byte 20: c0"),
        lines("half a character", b'{"type":"user","x":"\xe2\x82"}', answer="line 2: not UTF-8 at byte 20: e2"),
        lines(
            "a half of a pair in UTF-8",
            b'{"type":"user","x":"\xed\xa0\x80"}',
            answer="line 2: not UTF-8 at byte 20: ed",
        ),
        lines(
            "a character beyond the last",
            b'{"type":"user","x":"\xf5\x80\x80\x80"}',
            answer="line 2: not UTF-8 at byte 20: f5",
        ),
    ),
    "encoding": (
        whole("a byte order mark", lambda raw: b"\xef\xbb\xbf" + raw),
        whole("UTF-16 with its mark", lambda raw: raw.decode().encode("utf-16"), answer=WIDE, calls=0),
        whole("UTF-16 without a mark", lambda raw: raw.decode().encode("utf-16-be"), answer=WIDE, calls=0),
        whole("UTF-32", lambda raw: raw.decode().encode("utf-32"), answer=WIDE, calls=0),
        lines(
            "a byte order mark before a later line", b'\xef\xbb\xbf{"type":"user","sessionId":"@S"}', answer=NO_OBJECT
        ),
        lines("Latin-1", '{"type":"user","x":"café"}'.encode("latin-1"), answer="line 2: not UTF-8 at byte 23: e9"),
    ),
    "schema-missing": (
        block(
            "a call without an id",
            {"id": None},
            {},
            answer="line 1: a tool_use block without id ($.message.content[0].id)",
        ),
        block(
            "a call without a name",
            {"name": None},
            {},
            answer="line 1: a tool_use block without name ($.message.content[0].name)",
        ),
        block("a call without arguments", {"input": None}, {}),
        block(
            "an answer without the id of its call",
            {},
            {"tool_use_id": None},
            answer="line 2: a tool_result block without tool_use_id ($.message.content[0].tool_use_id)",
        ),
        lines(
            "a line without a type",
            b'{"sessionId":"@S","message":{"content":"x"}}',
            answer="line 2: no type, or not a string ($.type)",
        ),
        lines("a message without content", b'{"type":"user","sessionId":"@S","message":{}}'),
        lines(
            "a turn without a message",
            b'{"type":"assistant","sessionId":"@S"}',
            answer="line 2: expected a JSON object ($.message)",
        ),
    ),
    "schema-type": (
        block(
            "the id of a call is a list",
            {"id": ["a"]},
            {},
            answer=(
                "line 1: a tool_use block without id ($.message.content[0].id)",
                "line 1: remark:value at $.message.content[0].id: left out: wrong type",
            ),
        ),
        block(
            "the name of a tool is an object",
            {"name": {"a": 1}},
            {},
            answer=(
                "line 1: a tool_use block without name ($.message.content[0].name)",
                "line 1: remark:value at $.message.content[0].name: left out: wrong type",
            ),
        ),
        block(
            "the arguments are a text",
            {"input": "ls -l"},
            {},
            answer="line 1: remark:arguments at args: kept as it is: no object",
        ),
        block(
            "the arguments are nothing",
            {"input": False},
            {},
            answer="line 1: remark:arguments at args: kept as it is: no object",
        ),
        block(
            "the flag of an error is a word",
            {},
            {"is_error": "no"},
            answer="line 2: remark:value at $.message.content[0].is_error: left out: wrong type",
        ),
        block("the receipt is a number", {}, {"content": 7}),
        block("the receipt is a list of odd parts", {}, {"content": [1, None, "x", {"type": 5}, {"type": "text"}]}),
        fields(
            "a folder, a branch and a version of wrong types",
            {"cwd": 5, "gitBranch": [], "version": {}},
            {},
            answer=(
                "line 1: remark:value at $.cwd: left out: wrong type",
                "line 1: remark:value at $.gitBranch: left out: wrong type",
                "line 1: remark:value at $.version: left out: wrong type",
            ),
        ),
        fields(
            "a flag is a number",
            {"isSidechain": 1},
            {},
            answer="line 1: remark:value at $.isSidechain: left out: wrong type",
        ),
        lines(
            "a message is a text",
            b'{"type":"user","sessionId":"@S","message":"x"}',
            answer="line 2: expected a JSON object ($.message)",
        ),
        lines(
            "content is a number",
            b'{"type":"user","sessionId":"@S","message":{"content":7}}',
            answer="line 2: expected a string or an array of blocks ($.message.content)",
        ),
        lines(
            "a type is a list",
            b'{"type":["user"],"sessionId":"@S"}',
            answer=(
                "line 2: no type, or not a string ($.type)",
                "line 2: remark:value at $.type: left out: wrong type",
            ),
        ),
        settled(
            "a verdict of an executor is a word",
            ok="perhaps",
            answer="line 1: remark:value at $.ok: left out: neither true nor false",
        ),
    ),
    "schema-extra": (
        fields("fields that are columns of ours", {"project_id": 1, "id": "x", "origin": "progress", "_state": 1}, {}),
        block("fields of the future in a block", {"caller": {"type": "direct"}, "tags": [1]}, {"trust": "low"}),
        lines(
            "two entries of one unknown type",
            b'{"type":"exploded","sessionId":"@S","uuid":"u"}',
            b'{"type":"exploded","sessionId":"@S","uuid":"v"}',
            answer=UNKNOWN_KIND,
        ),
        lines(
            "a block of an unknown type",
            b'{"type":"user","sessionId":"@S","message":{"content":[{"type":"hologram"}]}}',
        ),
    ),
    "timestamp": (
        stamp("no date", "yesterday", answer=NO_TIME),
        stamp("an empty text", "", answer=NO_TIME),
        stamp("a date alone", "2026-03-01", answer=NO_OFFSET),
        stamp("a moment without an offset", "2026-03-01T09:00:00", answer=NO_OFFSET),
        stamp("a small t and z", "2026-03-01t09:00:00z"),
        stamp(
            "a leap second",
            "2016-12-31T23:59:60Z",
            answer="line 1: remark:timestamp at $.timestamp: "
            "read as the first moment of the next minute: a leap second",
        ),
        stamp("nanoseconds", "2026-03-01T09:00:00.123456789Z"),
        stamp("the year one, east of Greenwich", "0001-01-01T00:00:00+14:00", answer=NO_TIME),
        stamp("the last second of 9999, west of it", "9999-12-31T23:59:59-12:00", answer=NO_TIME),
        stamp("an offset of 25 hours", "2026-03-01T00:00:00+25:00", answer=NO_TIME),
        stamp("February 30", "2026-02-30T00:00:00Z", answer=NO_TIME),
        stamp("other digits", "٢٠٢٦-03-01T00:00:00Z", answer=NO_TIME),
        stamp("seconds since 1970", 1767225600, answer="line 1: remark:value at $.timestamp: left out: wrong type"),
        stamp("milliseconds since 1970, as a text", "1767225600000", answer=NO_TIME),
        stamp("the first second of 1970", "1970-01-01T00:00:00Z"),
        stamp("a comma before the fraction", "2026-03-01T09:00:00,5Z"),
        stamp(
            "a week date",
            "2026-W10-1T00:00:00Z",
            answer="line 1: remark:clock at timestamp: no duration: the clock ran backwards",
        ),
        stamp("an offset of -00:00", "2026-03-01T09:00:00-00:00"),
    ),
    "enum-unknown": (
        lines(
            "an unknown subtype",
            b'{"type":"system","subtype":"telepathy","level":"shout","sessionId":"@S","content":"x"}',
        ),
        settled(
            "an unknown status of an executor",
            status="melted",
            answer="line 1: remark:status at status: an unknown word: the outcome follows from the result",
        ),
        settled(
            "an unknown error of an executor", ok=False, status="error", error={"code": "GREMLINS", "message": "x"}
        ),
        lines("an unknown role", b'{"type":"user","sessionId":"@S","message":{"role":"oracle","content":"x"}}'),
    ),
    "tool-name": (
        tool(
            "ten kilobytes",
            "n" * 10_240,
            answer="line 1: remark:length at tool: shown and filtered by its first 200 characters",
        ),
        lines(
            "a title of 300 characters that a person typed",
            b'{"type":"custom-title","sessionId":"@S","customTitle":"' + b"a " * 150 + b'"}',
            answer="line 2: remark:length at $.customTitle: shown by its first 199 characters",
        ),
        tool("no letter", "", answer="line 1: a tool_use block without name ($.message.content[0].name)"),
        tool(
            "a Cyrillic letter",
            "Bаsh",
            answer="line 1: remark:name at tool: kept as it is: Latin letters beside Cyrillic ones that look alike",
        ),
        tool(
            "a Greek letter",
            "Reαd",
            answer="line 1: remark:name at tool: kept as it is: Latin letters beside Greek ones that look alike",
        ),
        tool("a letter without width", "Ba\u200bsh", answer=HIDES),
        tool("a tag letter", "Bash\U000e0041", answer=HIDES),
        tool("a variation selector", "Bash\ufe0f", answer=HIDES),
        tool("letters that run from right to left", "Bash\u202ehsaB", answer=HIDES),
        tool("lines", "Ba\nsh\r\n", answer=HIDES),
        tool("a path", "../../admin/?x=1#y"),
        tool("markup", "<b onclick=x>Bash</b>"),
        tool("a quote and a backslash", "B\"a's\\h"),
    ),
}

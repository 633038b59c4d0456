"""Bad values by the class of their fault: numbers, keys, characters and encodings."""

from __future__ import annotations

from tests.faults.bad_files import BadFile, fields, lines, tool, value, whole
from tests.faults.hostile import nested, object_of, quoted

NO_OBJECT = "line 2: expected a JSON object"
WIDE = "the text is UTF-16 or UTF-32: save it as UTF-8 and import that"
DEEP = "line 2: nested deeper than 200"
LONG = "line 2: a number of more than 4,300 digits"
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
}

"""Bad fields by the class of their fault: absent ones, types, time stamps, words and names."""

from __future__ import annotations

from tests.faults.bad_files import BadFile, block, fields, lines, result, settled, stamp, tool

UNKNOWN_KIND = "line 2: remark:line at $.type: an event without a meaning, like later lines of its kind: it is unknown"
NO_TIME = "line 1: remark:timestamp at $.timestamp: left out: no time"
NO_OFFSET = "line 1: remark:timestamp at $.timestamp: taken as UTC: it has no offset"
HIDES = "line 1: remark:name at tool: kept as it is: it has characters that hide"

FIELDS: dict[str, tuple[BadFile, ...]] = {
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
            "tokens that are none",
            b'{"type":"assistant","sessionId":"@S","message":{"content":"x","usage":'
            b'{"input_tokens":5,"output_tokens":-1,"cache_read_input_tokens":"7"}}}',
            answer=(
                "line 2: remark:value at $.message.usage.cache_read_input_tokens: left out: wrong type",
                "line 2: remark:value at $.message.usage.output_tokens: left out: not a possible number",
            ),
        ),
        lines(
            "an edit of the context that cleared no number of tokens",
            b'{"type":"assistant","sessionId":"@S","message":{"content":"x","usage":{"input_tokens":5},'
            b'"context_management":{"applied_edits":[{"cleared_input_tokens":9007199254740992}]}}}',
            answer="line 2: remark:value at $.message.context_management.applied_edits[0].cleared_input_tokens: "
            "left out: not a possible number",
        ),
        result(
            "a size of a file below nought",
            persistedOutputSize=-1,
            answer="line 2: remark:value at $.toolUseResult.persistedOutputSize: left out: not a possible number",
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
        stamp(
            "nanoseconds",
            "2026-03-01T09:00:00.123456789Z",
            answer="line 1: remark:timestamp at $.timestamp: cut to microseconds",
        ),
        stamp(
            "tenths of a microsecond without an offset",
            "20260301T090000,1234567",
            answer="line 1: remark:timestamp at $.timestamp: taken as UTC: it has no offset; cut to microseconds",
        ),
        stamp("nanoseconds that are noughts", "2026-03-01T09:00:00.123456000Z"),
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
            answer="line 2: remark:value at $.level: not a known level: read as info",
        ),
        settled(
            "a reason of an executor that is longer than its column",
            deniedReason="n" * 41,
            answer="line 1: remark:status at deniedReason: shown and filtered by its first 39 characters",
        ),
        settled(
            "an unknown status of an executor",
            status="melted",
            answer="line 1: remark:status at status: an unknown word: the outcome follows from the result",
        ),
        settled(
            "an unknown error of an executor", ok=False, status="error", error={"code": "GREMLINS", "message": "x"}
        ),
        lines(
            "an unknown role",
            b'{"type":"user","sessionId":"@S","message":{"role":"oracle","content":"x"}}',
            answer="line 2: remark:value at $.message.role: left out: the line is of type user",
        ),
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

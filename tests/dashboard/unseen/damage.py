"""Bytes, stamps and lengths that no program should write, and disks and editors do."""

from __future__ import annotations

import json

from tests.dashboard.sessions import SESSION, answers, asks, encoded, user
from tests.dashboard.unseen.made import Recorded, lines, session, without

RECORDINGS: dict[str, Recorded] = {
    "stamps of every kind": session(
        *[
            one
            for at, stamp in enumerate(
                [
                    1772355601,
                    None,
                    "",
                    "yesterday",
                    "2026-03-01T09:00:01",
                    "2026-03-01T09:00:01.123456789Z",
                    "2026-03-01T10:00:01+01:00",
                    "0001-01-01T00:00:00+14:00",
                    "9999-12-31T23:59:59-12:00",
                ]
            )
            for one in ({**asks(f"toolu_{at}"), "timestamp": stamp}, {**answers(f"toolu_{at}"), "timestamp": stamp})
        ],
        without(asks("toolu_none"), "timestamp", "version", "uuid"),
    ),
    "bytes around the lines": Recorded(
        {
            f"{SESSION}.jsonl": b"\xef\xbb\xbf"
            + lines(asks("toolu_1"), answers("toolu_1"), end=b"\r\n")
            + b"\r\n \t\n\n"
            + b"  "
            + encoded(asks("toolu_2"))
            + b" \t\n"
            + json.dumps(answers("toolu_2", "a\u2028b\x85c\x0bd\x0ce"), ensure_ascii=False).encode()
            + b"\n\n"
        }
    ),
    "numbers and strings beyond UTF-8 and 64 bits": Recorded(
        {
            f"{SESSION}.jsonl": b"".join(
                encoded(asks(f"toolu_{at}"))
                + b"\n"
                + encoded(answers(f"toolu_{at}", "@", "#"))
                .replace(b'"@"', value if value.startswith(b'"') else b'"@"')
                .replace(b'"#"', value)
                + b"\n"
                for at, value in enumerate(
                    [
                        b'"\\ud83d"',
                        b'"a\\u0000b"',
                        b"NaN",
                        b"-Infinity",
                        b"1e400",
                        b"9" * 4000,
                        b"1.00",
                        b"-0",
                        b'{"a":1,"a":2}',
                        b'{"\\u0000":"\\udfff"}',
                        b"[" * 150 + b"]" * 150,
                        b'"\\/\\u00e9"',
                    ]
                )
            )
        }
    ),
    "bytes that cannot be read": Recorded(
        {
            f"{SESSION}.jsonl": lines(
                asks("toolu_1"),
                b'{"type":"user"',
                b"\x00" * 40,
                b"\xff\xfe",
                b"[1]",
                b"null",
                b"7",
                b'"x"',
                b"{}",
                b'{"type":7,"sessionId":"x"}',
                b'{"type":"user","sessionId":"x","message":{"content":7}}',
                b'{"a":' + b"[" * 300 + b"]" * 300 + b"}",
                b'{"type":"assistant"} {"type":"user"}',
                answers("toolu_1"),
            )
        },
        {f"{SESSION}.jsonl": (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13)},
    ),
    "NULs where a crash left a hole": Recorded(
        {f"{SESSION}.jsonl": b"\x00" * 100_000 + b"\n" + lines(asks("toolu_1"), answers("toolu_1"))},
        {f"{SESSION}.jsonl": (1,)},
    ),
    "a first line longer than 64 KiB": session(user("x" * 200_000, uuid="u1"), asks("toolu_1"), answers("toolu_1")),
    "a first snapshot longer than 64 KiB": session(
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {"x": "y" * 100_000}},
        user("hi", uuid="u1"),
        asks("toolu_1"),
        answers("toolu_1"),
    ),
    "a line of 12 MB": session(
        asks("toolu_1"),
        answers("toolu_1", "x" * 20_000, {"stdout": f"{'y' * 99}\n" * 120_000, "stderr": ""}),
        asks("toolu_2"),
        answers("toolu_2"),
    ),
    "a last line without an end": Recorded({f"{SESSION}.jsonl": lines(asks("toolu_1")) + encoded(answers("toolu_1"))}),
    "a last line that was cut": Recorded(
        {
            f"{SESSION}.jsonl": lines(asks("toolu_1"), answers("toolu_1"), asks("toolu_2"))
            + encoded(answers("toolu_2"))[:80]
        },
        {f"{SESSION}.jsonl": (4,)},
    ),
    "a name that is no session": session(asks("toolu_1"), answers("toolu_1"), name="my export (1).jsonl"),
}

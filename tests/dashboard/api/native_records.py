"""Native records of calls and runs."""

from __future__ import annotations

import functools
import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any

NDJSON = "application/x-ndjson"


def spaces(blocks: int) -> bytes:
    """So many million spaces as one member of gzip, of which a block of the deflated stream is made once."""
    block, packer = b" " * 1_000_000, zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    first = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)  # refers to nothing before it
    checksum = functools.reduce(lambda before, _: zlib.crc32(block, before), range(blocks), 0)
    header, end = b"\x1f\x8b\x08" + bytes(6) + b"\xff", struct.pack("<II", checksum, blocks * len(block))
    return header + first * blocks + packer.flush() + end


BOMB = spaces(70)  # 70 kB


def lines(records: Iterable[Any]) -> bytes:
    return b"".join((entry if isinstance(entry, bytes) else json.dumps(entry).encode()) + b"\n" for entry in records)


def one_call(number: int = 1, run: str = "r1") -> list[dict[str, Any]]:
    """The records of a call whose receipt shows a part of its result."""
    at = f"2026-03-01T09:{number // 60 % 60:02}:{number % 60:02}"
    base = {"v": 1, "run": run, "call": f"c{number}"}
    text = "".join(f"line {line} of {number}\n" for line in range(20))
    return [
        base | {"type": "call", "tool": "Search", "args": {"q": f"word {number}"}, "step": "s1", "at": f"{at}.000Z"},
        base
        | {"type": "result", "status": "ok", "complete": {"text": text}, "started_at": f"{at}.100Z"}
        | {"ended_at": f"{at}.500Z", "risk": "low"},
        base | {"type": "receipt", "seq": 1, "text": text[:60], "fidelity": "exact", "at": f"{at}.600Z"},
    ]


def failed_call(run: str = "r1") -> list[dict[str, Any]]:
    """The records of a command that failed, and of whose output the model got the first half."""
    base, times = {"v": 1, "run": run, "call": "broken"}, ("2026-03-01T09:05:00Z", "2026-03-01T09:05:09Z")
    stdout = "".join(f"line {number} of the build\n" for number in range(1, 9))
    return [
        base | {"type": "call", "tool": "ExecCommand", "args": {"cmd": "make"}, "at": times[0]},
        base | {"type": "result", "complete": {"exit_status": 2, "stdout": stdout}, "ended_at": times[1]},
        base | {"type": "receipt", "text": f"{stdout[: len(stdout) // 2]}[4 lines omitted]", "at": times[1]},
    ]


def one_run(calls: int = 2, run: str = "r1") -> list[dict[str, Any]]:
    start = "2026-03-01T08:59:00Z"
    records: list[dict[str, Any]] = [
        {"v": 1, "type": "run", "run": run, "title": "A run", "agent": "my-agent", "started_at": start},
        {"v": 1, "type": "message", "run": run, "seq": 1, "role": "user", "text": "Look.", "at": start},
    ]
    for number in range(1, calls + 1):
        records += one_call(number, run)
    return [
        *records,
        {"v": 1, "type": "usage", "run": run, "request": "q1", "input_tokens": 900, "at": "2026-03-01T09:30:00Z"},
        {"v": 1, "type": "event", "run": run, "seq": 1, "event": "step.finished", "at": "2026-03-01T09:31:00Z"},
        {"v": 1, "type": "run", "run": run, "ended_at": "2026-03-01T09:32:00Z"},
    ]

"""Bad recordings by the class of their fault, each in a file of its own, and what an import makes of each.

An answer is one sentence for each Problem, remark and artifact that the file leaves; without any, the file is stored
as it is. Every file has a good call around its fault, which is never lost. A value is also stored with its own bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.dashboard.sessions import answers, asks, encoded
from tests.faults.hostile import with_value

MARK = "\ufdd0slot"
Answer: TypeAlias = str | tuple[str, ...]
SESSION = "00000000-0000-4000-8000-{:012}"


@dataclass(frozen=True)
class BadFile:
    """`content` makes the file from its session and the id of its call, `beside` other files of its folder.

    `value` is what the call's `surface` keeps, `calls` the number of calls in the run, `file` the name where that is
    not the session's.
    """

    name: str
    content: Callable[[str, str], bytes]
    answer: Answer = ()
    calls: int = 1
    surface: str = ""
    value: bytes = b""
    file: str = ""
    beside: Callable[[str, str], dict[str, bytes]] = lambda session, call: {}

    def files(self, session: str, call: str) -> dict[str, bytes]:
        return {self.file or f"{session}.jsonl": self.content(session, call), **self.beside(session, call)}

    @property
    def answers(self) -> list[str]:
        return [self.answer] if isinstance(self.answer, str) else list(self.answer)


def _file(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _pair(session: str, call: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return asks(call, session=session), answers(call, session=session)


def lines(name: str, *raws: bytes, answer: Answer = (), calls: int = 1) -> BadFile:
    """Lines between the call and its answer; @S and @C in them are the session and the call."""

    def content(session: str, call: str) -> bytes:
        asked, answered = (encoded(line) for line in _pair(session, call))
        return _file(
            asked, *(raw.replace(b"@S", session.encode()).replace(b"@C", call.encode()) for raw in raws), answered
        )

    return BadFile(name, content, answer, calls)


def whole(
    name: str, make: Callable[[bytes], bytes] = bytes, answer: Answer = (), calls: int = 1, file: str = ""
) -> BadFile:
    """The file that `make` does to a good one."""

    def content(session: str, call: str) -> bytes:
        return make(_file(*map(encoded, _pair(session, call))))

    return BadFile(name, content, answer, calls, file=file)


def value(surface: str, name: str, raw: bytes, answer: Answer = ()) -> BadFile:
    """A JSON value as the arguments, result or receipt of the only call."""

    def content(session: str, call: str) -> bytes:
        lines = {
            "args": (asks(call, session=session, args=MARK), answers(call, session=session)),  # type: ignore[arg-type]
            "result": (asks(call, session=session), answers(call, "x", MARK, session=session)),
            "receipt": (asks(call, session=session), answers(call, MARK, session=session)),
        }
        return _file(*(with_value(line, raw) for line in lines[surface]))

    return BadFile(name, content, answer, surface=surface, value=raw)


def fields(
    name: str,
    asked: dict[str, Any] | None = None,
    answered: dict[str, Any] | None = None,
    answer: Answer = (),
    calls: int = 1,
) -> BadFile:
    """A call and its answer with other fields of their lines."""

    def content(session: str, call: str) -> bytes:
        changes = (asked or {}, answered or {})
        pair = zip(_pair(session, call), changes, strict=True)
        return _file(*(json.dumps(line | change).encode() for line, change in pair))

    return BadFile(name, content, answer, calls)


def block(
    name: str,
    asked: dict[str, Any] | None = None,
    answered: dict[str, Any] | None = None,
    answer: Answer = (),
    calls: int = 1,
) -> BadFile:
    """A call and its answer with other fields of their content blocks; None takes a field away."""

    def content(session: str, call: str) -> bytes:
        pair = _pair(session, call)
        for line, change in zip(pair, (asked or {}, answered or {}), strict=True):
            members = line["message"]["content"][0] | change
            line["message"]["content"] = [{key: member for key, member in members.items() if member is not None}]
        return _file(*(json.dumps(line).encode() for line in pair))

    return BadFile(name, content, answer, calls)


def stamp(name: str, at: object, answer: Answer = ()) -> BadFile:
    return fields(name, {"timestamp": at}, answer=answer)


def tool(name: str, text: str, answer: Answer = ()) -> BadFile:
    return block(name, {"name": text}, answer=answer)


def result(name: str, answer: Answer = (), **members: Any) -> BadFile:
    return fields(name, answered={"toolUseResult": {"stdout": "a", "stderr": ""} | members}, answer=answer)


def output(name: str, path: object, answer: Answer = ()) -> BadFile:
    """A result that names a file."""
    return result(name, answer, persistedOutputPath=path, persistedOutputSize=10)


def settled(name: str, answer: Answer = (), **members: Any) -> BadFile:
    """A result of an executor, in an audit folder."""

    def content(session: str, call: str) -> bytes:
        return _file(encoded({"runId": session, "callId": call, "ok": True, "data": {"a": 1}} | members))

    def beside(session: str, call: str) -> dict[str, bytes]:
        asked = {"runId": session, "callId": call, "tool": "Bash", "args": {}}
        return {"run.json": _file(encoded({"runId": session, "plan": {}})), "calls.jsonl": _file(encoded(asked))}

    return BadFile(name, content, answer, file="results.jsonl", beside=beside)

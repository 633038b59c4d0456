"""The audit layout of a plan executor: a folder of four files, and receipts where there are any.

    run.json        one document: the plan, the policy snapshot, the confirmation
    calls.jsonl     ToolCall, one a line
    results.jsonl   ToolResult, one a line
    events.jsonl    ExecutionEvent, one a line
    receipts.jsonl  receipts as native records (snake case)

1. Fields are camelCase. Each file is read by itself; the `runId` in every object ties them together.
2. What a record has no place for is kept in `extra`; nothing is left out.
3. A call is `providerCallId` where there is one (an export of another agent's run), else `callId`.
   Its result is `recorded`, the source's own, where there is one, else `data`.
4. `run.json` may be spread over many lines, and over two parts of a file that grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeVar, get_args

import msgspec

from envelopes.alignment.mapping import ReceiptFidelity
from envelopes.recordings.base import (
    BYTE_ORDER_MARK,
    CallRecord,
    EventRecord,
    Format,
    LineProblem,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    is_blank,
    read_json_lines,
    valid_timestamp,
)
from envelopes.text.untrusted_json import Untrusted, admit, joined, members, tame, visible

Found = Iterator[Record | LineProblem]
Choice = TypeVar("Choice")
_LONGEST_DOCUMENT = 2**20
_LONGEST_NAME = 1_000  # of a run that is remembered as told of
_FIDELITIES: dict[str, ReceiptFidelity] = {name: name for name in get_args(ReceiptFidelity)}
_LEVELS: dict[str, Literal["info", "warn", "error"]] = {"info": "info", "warn": "warn", "error": "error"}


class Fields:
    """The members of one object. What is taken out of it is not part of `rest`."""

    def __init__(self, line: int, raw: bytes) -> None:
        self.line = line
        self._left = members(raw)

    def slice(self, *names: str) -> bytes | None:
        """The first of `names` that is there, as its own bytes; a null is nothing."""
        for name in names:
            if self._left.get(name, b"null") != b"null":
                return self._left.pop(name)
        return None

    def text(self, *names: str) -> str | None:
        """The first of `names` that is a string, as a text column can hold it."""
        for name in names:
            if self._left.get(name, b"").startswith(b'"'):
                return visible(str(tame(self._left.pop(name)))).replace("\0", "\\u0000")
        return None

    def needed(self, *names: str) -> str:
        found = self.text(*names)
        if not found:
            place = next((name for name in names if name in self._left), names[0])
            raise Untrusted(f"no {' or '.join(names)}, or one that is no string", f"$.{place}")
        return found

    def time(self, *names: str) -> str | None:
        for name in names:
            if self._left.get(name, b"").startswith(b'"') and (found := valid_timestamp(str(tame(self._left[name])))):
                del self._left[name]
                return found
        return None

    def choice(self, name: str, table: dict[str, Choice], default: Choice) -> Choice:
        """What `table` has for the string; a string that it does not have stays in `rest`."""
        for word, meaning in table.items():
            if self._left.get(name) == b'"' + word.encode() + b'"':
                del self._left[name]
                return meaning
        return default

    def has(self, name: str) -> bool:
        return name in self._left

    def whole(self, name: str, least: int) -> int | None:
        found = tame(self._left.get(name, b"null"))
        if isinstance(found, int) and not isinstance(found, bool) and least <= found < 2**53:
            del self._left[name]
            return found
        return None

    def flag(self, name: str) -> bool | None:
        found = self._left.get(name)
        return {b"true": True, b"false": False}.get(found) if found else None

    def rest(self) -> bytes | None:
        return joined(self._left) if self._left else None


def sniff(head: bytes, place: SourcePath) -> bool:
    """One of the five names, and the beginning of an object that speaks of a run."""
    if _name(place) not in _READERS:
        return False
    beginning = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    return beginning.startswith(b"{") and any(key in beginning for key in (b'"runId"', b'"plan"', b'"run"'))


def read(lines: Iterable[SourceLine], place: SourcePath, state: dict[str, object]) -> Found:
    """A file of another name is read by what its objects say."""
    if _name(place) == "run.json":
        yield from _document(lines, place, state)
        return
    told = _told(state)
    for line in read_json_lines(lines, state):
        if isinstance(line, LineProblem):
            yield line
            continue
        try:
            fields = Fields(line.number, line.raw)
            run = fields.needed("runId", "run")
            records = list(_READERS.get(_name(place), _by_content)(fields, run))
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
            continue
        if run not in told:
            yield RunRecord(line=line.number, run=run)
            told = [*told, run][-64:] if len(run) <= _LONGEST_NAME else told
        yield from records
        state["told"] = told


def is_global_call_id(call: str) -> bool:
    """A call id is unique within its run only."""
    return False


def _told(state: dict[str, object]) -> list[str]:
    return msgspec.convert(state.get("told", []), list[str])


def _name(place: SourcePath) -> str:
    return place.path.rsplit("/", 1)[-1]


def _document(lines: Iterable[SourceLine], place: SourcePath, state: dict[str, object]) -> Found:
    """What came of an unfinished document waits in `state`, byte for byte as Latin-1."""
    earlier = str(state.get("document", "")).encode("latin-1")
    found = list(lines)
    raw = (earlier + b"".join(line.raw for line in found)).removeprefix(BYTE_ORDER_MARK)
    if is_blank(raw) or not found:
        return
    first = int(str(state.get("document_line", found[0].number)))
    try:
        admit(raw)
        yield _run(Fields(first, raw), place)
    except Untrusted as refusal:
        yield LineProblem(
            line=found[0].number,
            path=refusal.path,
            reason=f"run.json is one JSON document: {refusal.reason}",
            raw=raw,
            lines=sum(not is_blank(line.raw) for line in found),
        )
        if len(raw) <= _LONGEST_DOCUMENT:
            state.update(document=raw.decode("latin-1"), document_line=first)
        return
    state.pop("document", None)


def _run(fields: Fields, place: SourcePath) -> RunRecord:
    """A folder's name stands in for a missing `runId`."""
    folders = place.path.split("/")[:-1]
    run = fields.text("runId", "id") or (folders[-1] if folders else None)
    if not run:
        raise Untrusted("no runId, or one that is no string", "$.runId")
    plan = fields.slice("plan")
    return RunRecord(
        line=fields.line,
        run=run,
        title=fields.text("title") or _goal(plan),
        agent=fields.text("agent"),
        model=fields.text("model"),
        version=fields.text("executorVersion"),
        started_at=fields.time("startedAt", "createdAt"),
        ended_at=fields.time("endedAt", "finishedAt"),
        plan=plan,
        extra=fields.rest(),
    )


def _goal(plan: bytes | None) -> str | None:
    if plan is None or not plan.startswith(b"{"):
        return None
    return Fields(0, plan).text("title", "goal", "summary", "intent")


def _calls(fields: Fields, run: str) -> Found:
    yield CallRecord(
        line=fields.line,
        run=run,
        call=fields.needed("providerCallId", "callId"),
        tool=fields.needed("tool"),
        args=fields.slice("args") or b"null",
        step=fields.text("stepId"),
        attempt=fields.whole("attempt", 1) or 1,
        at=fields.time("createdAt"),
        extra=fields.rest(),
    )


def _results(fields: Fields, run: str) -> Found:
    call = fields.needed("providerCallId", "callId")
    status = fields.text("status")
    ok = fields.flag("ok")
    result = fields.slice("recorded", "data")
    yield ResultRecord(
        line=fields.line,
        run=run,
        call=call,
        result=result,
        fidelity="structured" if result else "absent",
        is_error=None if ok is None and status is None else ok is False or status not in (None, "ok", "skipped"),
        status=status,
        at=fields.time("endedAt"),
        started_at=fields.time("startedAt"),
        duration_ms=fields.whole("durationMs", 0),
        error=fields.slice("error"),
        effects=fields.slice("effects"),
        extra=fields.rest(),
    )


def _events(fields: Fields, run: str) -> Found:
    kind = fields.needed("type", "event")
    at = fields.time("timestamp")
    if kind == "run.started":
        yield RunRecord(line=fields.line, run=run, started_at=at)
    if kind == "run.finished":
        yield RunRecord(line=fields.line, run=run, ended_at=at)
    yield EventRecord(
        line=fields.line,
        run=run,
        kind=kind,
        message=fields.text("message") or kind,
        level=fields.choice("level", _LEVELS, "info"),
        call=fields.text("providerCallId", "callId"),
        payload=fields.slice("payload") or b"null",
        at=at,
        extra=fields.rest(),
    )


def _receipts(fields: Fields, run: str) -> Found:
    call = fields.needed("call", "providerCallId", "callId")
    fidelity = fields.choice("fidelity", _FIDELITIES, "recorded")
    parts = fields.slice("parts")
    content = parts if parts not in (None, b"[]") else fields.slice("text")
    yield ReceiptRecord(
        line=fields.line,
        run=run,
        call=call,
        content=content or b"null",
        fidelity=fidelity if content else "absent",
        at=fields.time("at"),
        extra=fields.rest(),
    )


def _by_content(fields: Fields, run: str) -> Found:
    """Beginning with what only that object has: a call its arguments, a result its status."""
    for key, read_object in (("args", _calls), ("status", _results), ("renderer", _receipts)):
        if fields.has(key):
            yield from read_object(fields, run)
            return
    yield from _events(fields, run)


_READERS: dict[str, Callable[[Fields, str], Found]] = {
    "run.json": _by_content,
    "calls.jsonl": _calls,
    "results.jsonl": _results,
    "events.jsonl": _events,
    "receipts.jsonl": _receipts,
}
FORMATS: tuple[Format, ...] = (
    Format(
        name="audit",
        title="Audit folder of a plan executor",
        agent="audit",
        namespace="audit",
        sniff=sniff,
        read=read,
        is_global_call_id=is_global_call_id,
    ),
)

"""Files of requests, each with the history before it: which call is which, and which receipts a later request lacks.

1. A call is known by its id. Ids that a server counts in each turn (`call_0` every time) name several calls: it is then
   the call with the same tool, arguments and answer, or the one at the same message of a history that has grown.
2. The first text of an answer is the receipt. A later request with another text replaced it.
3. A request with a later answer that lacks an earlier one was sent without it. What a still later line has again never
   left: that request had another branch of the conversation, or a part of it.
4. A request without its beginning counts its messages anew: its records are placed behind the calls known of it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec

from envelopes.alignment.receipt_parts import parse_parts
from envelopes.recordings.base import (
    LATER_TEXT,
    CallRecord,
    LineProblem,
    LineRecord,
    MessageRecord,
    ReceiptRecord,
    Record,
    ResultRecord,
    SupersedeRecord,
)
from envelopes.recordings.documents import compact_json, unused_id
from envelopes.text.untrusted_json import Untrusted, parse_json

Records = Iterator[Record | LineProblem]
_SLOT = "message_dumps"  # key of the saved state
_LACKING = "not in a later request"
_COUNTED_ID = re.compile(r"\D*\d{1,3}")


class PlacedCall(msgspec.Struct, frozen=True):
    """A call of a dump: the recorded id, the id that the dump gave it, and the number of its message.

    `asked` is a digest of its tool and arguments.
    """

    own: str
    call: str
    number: int
    asked: str


class SentCall(msgspec.Struct):
    """A call of a run, as the last line had it.

    `first` and `sent` are digests of its first answer and of the last one. `order` counts the answers of the run, 0 for
    a call without one. `place` is that of the call in the run.
    """

    own: str
    asked: str
    number: int
    place: int
    first: str = ""
    sent: str = ""
    order: int = 0
    is_gone: bool = False


class RunHistory(msgspec.Struct):
    """The calls of a run by their ids, the number of its answers, and the messages of its last line."""

    calls: dict[str, SentCall] = {}
    answers: int = 0
    messages: int = 0


class DumpedLine(msgspec.Struct, frozen=True):
    """The calls and records of a line. Not `is_history`: it need not have all that was sent before."""

    run: str
    calls: list[PlacedCall]
    records: list[Record | LineProblem]
    messages: int
    is_history: bool


def asked_digest(tool: str, args: bytes) -> str:
    return _digest(tool.encode("utf-8", "surrogatepass") + b"\0" + compact_json(args))


def _answer_digest(content: bytes) -> str:
    """The digest of the parts that the model got: a text, and a list with this text alone, are the same."""
    try:
        parts = parse_parts(parse_json(content))
    except Untrusted:
        return _digest(content)
    shown = "".join(part if isinstance(part, str) else repr(part) for part in parts)
    return _digest(shown.encode("utf-8", "surrogatepass"))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


class Histories:
    """The histories of the runs of a file. They are saved as JSON for the lines that are read later."""

    def __init__(self, saved: dict[str, object]) -> None:
        self._saved = saved
        self._runs = msgspec.convert(saved.get(_SLOT, {}), dict[str, RunHistory])
        self._removals: dict[tuple[str, str], SupersedeRecord] = {}

    def end(self) -> Records:
        """Yields the removals that no later line contradicts, and saves the histories."""
        for (run, call), removal in self._removals.items():
            self._runs[run].calls[call].is_gone = True
            yield removal
        self._saved[_SLOT] = msgspec.to_builtins(self._runs)

    def place(self, line: DumpedLine) -> Records:
        """Yields the records of a line under the ids of the run, each at its place in it."""
        history = self._runs.setdefault(line.run, RunHistory())
        known = set(history.calls)
        sent = [_answer_digest(record.content) if isinstance(record, ReceiptRecord) else "" for record in line.records]
        names = _identify(history, line, sent)
        shift = _note_calls(history, line, names)
        records = [_place(record, names, place) for place, record in enumerate(line.records, start=1 + shift)]
        # The end of what was sent: an answer of the model may stand behind it.
        end = next((record for record in reversed(records) if _is_sent(record)), None)
        last = end.place if isinstance(end, LineRecord) else 0
        here, answered = set(names.values()), set[str]()
        for record, answer in zip(records, sent, strict=True):
            call = record.call if isinstance(record, ResultRecord | ReceiptRecord) else ""
            entry = history.calls.get(call)
            is_other = entry is not None and call not in here and answer not in (entry.first, entry.sent)
            if is_other and _COUNTED_ID.fullmatch(call):
                continue  # the answer to a call that this line does not have, which may be any of that id
            if isinstance(record, ReceiptRecord) and entry is not None:
                answered.add(call)
                yield from _answer(history, record, answer, last)
            else:
                yield record
        for call in answered:
            self._removals.pop((line.run, call), None)
        if end and line.is_history and not known.isdisjoint(here):
            latest = max((history.calls[call].order for call in answered), default=0)
            for call, known_call in history.calls.items():
                if 0 < known_call.order < latest and not known_call.is_gone and call not in answered:
                    removal = SupersedeRecord(line=end.line, run=line.run, call=call, reason=_LACKING, position=last)
                    self._removals.setdefault((line.run, call), removal)


def _is_sent(record: Record | LineProblem) -> bool:
    return isinstance(record, ReceiptRecord) or (isinstance(record, MessageRecord) and record.role == "user")


def _place(record: Record | LineProblem, names: dict[str, str], place: int) -> Record | LineProblem:
    if isinstance(record, CallRecord | ResultRecord | ReceiptRecord):
        record = msgspec.structs.replace(record, call=names.get(record.call, record.call))
    return msgspec.structs.replace(record, position=place) if isinstance(record, LineRecord) else record


def _answer(history: RunHistory, record: ReceiptRecord, sent: str, last: int) -> Records:
    """The receipt of a call when it is first answered, and what replaces it where a later request has another text."""
    entry = history.calls[record.call]
    if not entry.order:
        history.answers += 1
        entry.order, entry.first = history.answers, sent
        yield record
    elif sent not in (entry.sent, entry.first):
        yield SupersedeRecord(
            line=record.line,
            run=record.run,
            call=record.call,
            reason=LATER_TEXT,
            content=record.content,
            at=record.at,
            position=max(last, record.place + 1),
        )
    entry.sent = sent


def _identify(history: RunHistory, line: DumpedLine, sent: list[str]) -> dict[str, str]:
    """The id in the run of each call of a line, by the id that its dump gave it. `sent` has the digests of answers."""
    pairs = zip(line.records, sent, strict=True)
    answers = {record.call: answer for record, answer in pairs if isinstance(record, ReceiptRecord)}
    by_own: dict[str, list[str]] = defaultdict(list)
    for call, entry in history.calls.items():
        by_own[entry.own].append(call)
    uses = Counter(call.own for call in line.calls)
    names: dict[str, str] = {}
    taken: set[str] = set()
    for placed in line.calls:
        others = by_own[placed.own]
        if line.is_history and not _COUNTED_ID.fullmatch(placed.own) and uses[placed.own] == 1 and len(others) < 2:
            name = others[0] if others else placed.call
        else:
            free = [call for call in others if call not in taken and history.calls[call].asked == placed.asked]
            name = _find_same(history, line, placed, free, answers.get(placed.call, ""))
            name = name or unused_id(placed.call, f"{placed.own}-{placed.number}", history.calls.keys() | taken)
        names[placed.call] = name
        taken.add(name)
    return names


def _find_same(history: RunHistory, line: DumpedLine, placed: PlacedCall, calls: list[str], answer: str) -> str:
    """Which of the known calls with the same id, tool and arguments this is; empty for another one."""
    known = history.calls
    here = [call for call in calls if known[call].number == placed.number]
    same = [call for call in reversed(calls) if answer in (known[call].first, known[call].sent)]
    waiting = [call for call in reversed(calls) if not known[call].order]
    has_grown = line.is_history and line.messages > history.messages
    choices = [
        *(call for call in here if call in same or not answer or call in waiting),
        *(waiting if answer else ()),
        *(same if answer else ()),
        *(here if has_grown else ()),
    ]
    return choices[0] if choices else ""


def _note_calls(history: RunHistory, line: DumpedLine, names: dict[str, str]) -> int:
    """Notes the calls of a line, and returns by how much its records stand behind their places in it."""
    places = {record.call: at for at, record in enumerate(line.records, start=1) if isinstance(record, CallRecord)}
    known = [(history.calls[names[call.call]], call) for call in line.calls if names[call.call] in history.calls]
    shift = max((entry.place - places[call.call] for entry, call in known), default=0) if line.is_history else 0
    shift = max(0, shift)
    for entry, call in known:
        entry.number = call.number
    for call in line.calls:
        new = SentCall(call.own, call.asked, call.number, places[call.call] + shift)
        history.calls.setdefault(names[call.call], new)
    history.messages = line.messages
    return shift

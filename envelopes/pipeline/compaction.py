"""What survives when a call ages out of the model's history: the RFC's compaction contract.

    compact          one canonical envelope made smaller, and what went
    recap            the text that stands for it in the history
    compact_history  a whole run within a budget in tokens, its newest rounds untouched

Compaction reads canonical results alone, never receipt text (RFC-141, RFC-143), and never fetches
anything back from storage, so nothing that went comes again. Whatever the budget says, it keeps

    tool_name, status, summary_text, artifacts                 RFC-136, RFC-140
    the error's kind, message, recovery_hint and retryable     RFC-137
    handles, by the one rule of `envelopes.pipeline.droppable`             RFC-138
    short members of every object that is or holds one of these

What goes, each only while the envelope is still too large (RFC-139):

    preview   a string named `…_preview` or of more than 200 characters, the largest first
    text      another string of more than 80 characters, the largest first
    members   a list or an object without a handle, below `result` or `error.details`, the largest first
    rows      of the objects in a list of more than 20, all but their handles, in the order of the envelope

Each leaves a mark of its own type that says how much went, so a family's renderer can still speak
for the rest and nothing shortened looks whole: `[8000 characters dropped by compaction]`, an empty
list beside `<field>_omitted`, `<field>_reduced` beside bare rows, an object with the one member `omitted`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from envelopes.pipeline.droppable import (
    SHORT,
    DroppableMembers,
    DroppableRows,
    DroppableText,
    find_droppable,
    handles_only,
    json_characters,
    text_mark,
)
from envelopes.schema.receipt import Receipt, Role, Segment, SegmentSource, text_receipt
from envelopes.schema.result import SUMMARY_CHARACTERS, CanonicalResult, JsonValue, ToolError
from envelopes.text.outline import outline
from envelopes.text.pointer import join, resolve
from envelopes.text.tokens import count_tokens

Kind: TypeAlias = Literal["preview", "text", "members", "rows"]
Measure: TypeAlias = Callable[[CanonicalResult], int]

RESULT = "/result"
DETAILS = "/error/details"


class Dropped(msgspec.Struct, frozen=True):
    """What went from the canonical envelope. `size`: characters of a string, else how many members or rows."""

    pointer: str
    kind: Kind
    size: int


class Compacted(msgspec.Struct, frozen=True):
    """`fits` is False when what must be kept is larger than the budget."""

    canonical: CanonicalResult
    dropped: tuple[Dropped, ...]
    fits: bool


def envelope_characters(canonical: CanonicalResult) -> int:
    """Characters of the envelope's JSON without white space."""
    return json_characters(canonical.to_json())


def compact(canonical: CanonicalResult, budget: int, *, measure: Measure = envelope_characters) -> Compacted:
    """Drops as little as the order allows until `measure` says at most `budget`.

    Compacting twice gives what compacting once to the smaller budget gives.
    """
    order = _order(canonical)
    smallest = _without(canonical, order)
    if measure(smallest) > budget:
        return Compacted(smallest, tuple(order), fits=False)
    count = bisect_left(range(len(order)), 1, key=lambda n: measure(_without(canonical, order[:n])) <= budget)
    kept = _without(canonical, order[:count])
    return Compacted(kept, tuple(order[:count]), fits=True)


def _order(canonical: CanonicalResult) -> list[Dropped]:
    """Everything that may go. What already went is a mark, and no mark is in here."""
    texts: list[DroppableText] = []
    members: list[DroppableMembers] = []
    rows: list[DroppableRows] = []
    for root, value in _roots(canonical):
        found = find_droppable(value, root)
        texts += found.texts
        rows += found.rows
        is_whole = not found.has_handle and (root == DETAILS or isinstance(value, list))
        members += [DroppableMembers(root, found.size)] if is_whole and found.size > SHORT else found.members
    document = canonical.to_json()
    return [
        *(Dropped(one.pointer, _kind(one), one.length) for one in sorted(texts, key=_previews_first)),
        *(
            Dropped(one.pointer, "members", _count(resolve(document, one.pointer)))
            for one in sorted(members, key=lambda one: (-one.size, one.pointer))
        ),
        *(Dropped(one.pointer, "rows", one.length) for one in rows),
    ]


def _previews_first(text: DroppableText) -> tuple[bool, int, str]:
    return _kind(text) == "text", -text.length, text.pointer


def _kind(text: DroppableText) -> Kind:
    is_preview = text.length > SUMMARY_CHARACTERS or text.name.lower().endswith("preview")
    return "preview" if is_preview else "text"


def _roots(canonical: CanonicalResult) -> Iterator[tuple[str, JsonValue]]:
    if canonical.error is None:
        yield RESULT, canonical.result
    elif canonical.error.details is not None:
        yield DETAILS, canonical.error.details


def _count(value: JsonValue) -> int:
    return len(value) if isinstance(value, dict | list) else 0


def _without(canonical: CanonicalResult, dropped: Sequence[Dropped]) -> CanonicalResult:
    if not dropped:
        return canonical
    gone = _Gone(dropped)
    if canonical.error is None:
        return msgspec.structs.replace(canonical, result=_kept(canonical.result, RESULT, gone))
    details = _kept(canonical.error.details, DETAILS, gone)
    error: ToolError = msgspec.structs.replace(canonical.error, details=details)
    return msgspec.structs.replace(canonical, error=error)


class _Gone(dict[str, Dropped]):
    """By pointer; `ways` are the pointers of all that something went from, what went among them."""

    def __init__(self, dropped: Sequence[Dropped]) -> None:
        super().__init__((one.pointer, one) for one in dropped)
        self.ways: set[str] = set()
        for pointer in self:
            while pointer not in self.ways:
                self.ways.add(pointer)
                pointer = pointer.rpartition("/")[0]


def _kept(value: JsonValue, pointer: str, gone: _Gone) -> JsonValue:
    """Nothing is made anew that nothing went from."""
    if pointer not in gone.ways:
        return value
    if pointer in gone and gone[pointer].kind != "rows":
        return text_mark(len(value)) if isinstance(value, str) else _emptied(value)
    if isinstance(value, dict):
        kept = {key: _kept_member(key, child, join(pointer, key), gone) for key, child in value.items()}
        return kept | _marks(value, pointer, gone)
    assert isinstance(value, list)  # something went from it, so it holds something
    return [_kept(child, join(pointer, index), gone) for index, child in enumerate(value)]


def _kept_member(key: str, child: JsonValue, pointer: str, gone: _Gone) -> JsonValue:
    kept = _kept(child, pointer, gone)
    return handles_only(kept, key) if pointer in gone and gone[pointer].kind == "rows" else kept


def _marks(members: dict[str, JsonValue], pointer: str, gone: _Gone) -> dict[str, JsonValue]:
    """How much went from each list, said beside it, as a projector's own cut of a list says it."""
    marks: dict[str, JsonValue] = {}
    for key, child in members.items():
        one, before = gone.get(join(pointer, key)), members.get(f"{key}_omitted", 0)
        if one is not None and isinstance(child, list):
            if one.kind == "rows":
                marks[f"{key}_reduced"] = one.size
            elif isinstance(before, int):
                marks |= {key: [], f"{key}_omitted": before + len(child)}
    return marks


def _emptied(value: JsonValue) -> JsonValue:
    words = f"{_count(value)} {'items' if isinstance(value, list) else 'members'} dropped by compaction"
    return [f"[{words}]"] if isinstance(value, list) else {"omitted": words}


def recap(canonical: CanonicalResult) -> Receipt:
    """Outcome first, then the error or the result as an outline, then artifact paths (RFC-142).

    Serves every family, and every character of it comes from the envelope or is the recap's own word.
    """
    return text_receipt(_recap(canonical))


def _recap(canonical: CanonicalResult) -> Iterator[Segment]:
    yield _whole("/tool_name", canonical.tool_name)
    yield Segment(" succeeded: " if canonical.error is None else " failed: ", "label")
    yield _whole("/summary_text", canonical.summary_text, "headline")
    if canonical.error is not None:
        yield from _recap_error(canonical.error, canonical.summary_text)
    elif canonical.result not in ({}, []):
        yield Segment("\n", "break")
        yield from outline(canonical.result, RESULT)
    for index, artifact in enumerate(canonical.artifacts):
        yield from _line("Artifact", f"/artifacts/{index}/path", artifact.path)


def _recap_error(error: ToolError, said: str) -> Iterable[Segment]:
    yield from _line("Kind", "/error/kind", error.kind)
    if error.message != said:
        yield from _line("Message", "/error/message", error.message)
    if error.recovery_hint:
        yield from _line("Hint", "/error/recovery_hint", error.recovery_hint, "hint")
    yield Segment("\nRetryable: ", "label")
    yield Segment("yes" if error.retryable else "no", "value", SegmentSource("canonical", "/error/retryable"))
    if error.details:
        yield Segment("\n", "break")
        yield from outline(error.details, DETAILS)


def _line(title: str, pointer: str, text: str, role: Role = "value") -> Iterable[Segment]:
    return Segment(f"\n{title}: ", "label"), _whole(pointer, text, role)


def _whole(pointer: str, text: str, role: Role = "value") -> Segment:
    return Segment(text, role, SegmentSource("canonical", pointer, 0, len(text)))


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One call as it stands in the history. Calls made at once share a `round`, a number that grows.

    `text` is what the model reads: the receipt as it was sent, or the recap of what was compacted.
    """

    call_id: str
    round: int
    canonical: CanonicalResult
    text: str
    is_compacted: bool = False


class CompactedCall(msgspec.Struct, frozen=True):
    """One call that became smaller now. `dropped` is empty where only the receipt became a recap."""

    call_id: str
    tokens_before: int
    tokens_after: int
    dropped: tuple[Dropped, ...]


class CompactedHistory(msgspec.Struct, frozen=True, kw_only=True):
    """`fits` is False when the newest rounds and what must be kept are larger than the budget."""

    entries: tuple[HistoryEntry, ...]
    losses: tuple[CompactedCall, ...]
    tokens: int
    fits: bool


def compact_history(
    entries: Sequence[HistoryEntry],
    tokens: int,
    keep_newest: int = 2,
    *,
    count: Callable[[str], int] = lambda text: count_tokens(text).count,
    write: Callable[[CanonicalResult], str] = lambda canonical: recap(canonical).text,
) -> CompactedHistory:
    """Compacts the oldest calls first, and each only as far as the whole still is above `tokens`.

    The newest `keep_newest` rounds stand exactly as they were sent (spec/tools.md B.3). A call is
    left alone when its recap would be no smaller. `write` words a compacted call, so that a family's
    renderer may serve instead of the recap; `count` must be the same from time to time.
    """
    exact = _newest(entries, keep_newest)
    kept, losses = list(entries), []
    costs = [count(entry.text) for entry in entries]
    total = sum(costs)
    for index in sorted(range(len(entries)), key=lambda at: entries[at].round):
        if total <= tokens:
            break
        if entries[index].round in exact:
            continue
        budget = costs[index] - (total - tokens)
        smaller = compact(entries[index].canonical, budget, measure=lambda one: count(write(one)))
        text = write(smaller.canonical)
        after = count(text)
        if after < costs[index]:
            kept[index] = msgspec.structs.replace(
                entries[index], canonical=smaller.canonical, text=text, is_compacted=True
            )
            losses.append(CompactedCall(entries[index].call_id, costs[index], after, smaller.dropped))
            total += after - costs[index]
    return CompactedHistory(entries=tuple(kept), losses=tuple(losses), tokens=total, fits=total <= tokens)


def _newest(entries: Sequence[HistoryEntry], rounds: int) -> set[int]:
    numbers = sorted({entry.round for entry in entries}, reverse=True)
    return set(numbers[:rounds])

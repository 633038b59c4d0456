"""Makes calls smaller when they age out of the model's history: the RFC's compaction contract.

    compact          makes one canonical envelope smaller, and lists what was dropped
    recap            the text that replaces its receipt in the history
    compact_history  fits a whole run into a budget in tokens, its newest rounds untouched

Compaction reads canonical results alone, never receipt text (RFC-141, RFC-143), and never loads anything from
storage, so nothing that was dropped comes back. Whatever the budget is, it keeps

    tool_name, status, summary_text, artifacts                 RFC-136, RFC-140
    the error's kind, message, recovery_hint and retryable     RFC-137
    handles, by the rule of `envelopes.pipeline.droppable_parts`   RFC-138
    short members of every object that is or holds one of these

These are dropped, each only while the envelope is still too large (RFC-139):

    preview   a string named `…_preview` or of more than 200 characters, the largest first
    text      another string of more than 80 characters, the largest first
    members   a list or an object without a handle, below `result` or `error.details`, the largest first
    rows      of the objects in a list of more than 20, or in an object of more than 20 by their ids, all but their
              handles, in the order of the envelope

Each is replaced by a mark of its own type that states how much was dropped, so that a family's renderer can still
render the rest and nothing shortened looks whole: `[8000 characters dropped by compaction]`, an empty list beside
`<field>_omitted`, `<field>_reduced` beside reduced rows or a last item where the result is a list itself, an object
with the one member `omitted`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from envelopes.families.fitting import indent_lines
from envelopes.families.segments import word_repetition
from envelopes.pipeline.droppable_parts import (
    REDUCED,
    SHORT,
    DroppableMembers,
    DroppableParts,
    DroppableRows,
    DroppableText,
    find_droppable,
    handles_only,
    is_long,
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
QUOTES = 3  # and the comma


class Dropped(msgspec.Struct, frozen=True):
    """A part that was dropped from an envelope. `size` counts characters of a string, else members or rows."""

    pointer: str
    kind: Kind
    size: int


class Compacted(msgspec.Struct, frozen=True):
    """A smaller envelope and what was dropped; `fits` is False when what must be kept exceeds the budget.

    >>> Compacted(CanonicalResult(tool_name="Ask", status="success", summary_text="asked", result={}), (), True).fits
    True
    """

    canonical: CanonicalResult
    dropped: tuple[Dropped, ...]
    fits: bool


def envelope_characters(canonical: CanonicalResult) -> int:
    """Characters of the envelope's JSON without white space."""
    return json_characters(canonical.to_json())


def compact(canonical: CanonicalResult, budget: int, *, measure: Measure = envelope_characters) -> Compacted:
    """Drops as little as the order allows until `measure` gives at most `budget`, by default characters of JSON.

    Compacting twice gives what compacting once to the smaller budget gives.

    >>> long = CanonicalResult(tool_name="Ask", status="success", summary_text="asked", result={"text": "x" * 5_000})
    >>> compacted = compact(long, 500)
    >>> compacted.canonical.result
    {'text': '[5000 characters dropped by compaction]'}
    >>> compacted.dropped
    (Dropped(pointer='/result/text', kind='preview', size=5000),)
    """
    order = _order(canonical)
    smallest = _without(canonical, order)
    if measure(smallest) > budget:
        return Compacted(smallest, tuple(order), fits=False)
    count = bisect_left(range(len(order)), 1, key=lambda n: measure(_without(canonical, order[:n])) <= budget)
    return Compacted(_without(canonical, order[:count]), tuple(order[:count]), fits=True)


def _order(canonical: CanonicalResult) -> list[Dropped]:
    """Everything that may be dropped, in order. The marks of what was dropped before are never part of it."""
    texts: list[DroppableText] = []
    members: list[DroppableMembers] = []
    rows: list[DroppableRows] = []
    for root, value in _roots(canonical):
        parts = find_droppable(value, root)
        texts += parts.texts
        rows += [DroppableRows(root, _count(value))] if _is_long_root(value, parts) else parts.rows
        is_whole = not parts.has_handle and (root == DETAILS or isinstance(value, list))
        members += [DroppableMembers(root, parts.size)] if is_whole and parts.size > SHORT else parts.members
    document = canonical.to_json()
    return [
        *(
            Dropped(text.pointer, _kind(text), text.length)
            for text in sorted(texts, key=lambda text: (_kind(text) == "text", -text.length, text.pointer))
        ),
        *(
            Dropped(part.pointer, "members", _count(resolve(document, part.pointer)))
            for part in sorted(members, key=lambda part: (-part.size, part.pointer))
        ),
        *(Dropped(part.pointer, "rows", part.length) for part in rows),
    ]


def _is_long_root(value: JsonValue, parts: DroppableParts) -> bool:
    return isinstance(value, list) and is_long(value, parts, len(_rows_mark(len(value))) + QUOTES)


def _rows_mark(count: int) -> str:
    return f"[{count} rows reduced to their handles by compaction]"


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
    parts = _DroppedParts(dropped)
    if canonical.error is None:
        return msgspec.structs.replace(canonical, result=_drop(canonical.result, RESULT, parts))
    details = _drop(canonical.error.details, DETAILS, parts)
    error: ToolError = msgspec.structs.replace(canonical.error, details=details)
    return msgspec.structs.replace(canonical, error=error)


class _DroppedParts(dict[str, Dropped]):
    """Dropped parts by pointer; `changed` are their pointers and those of everything that contains them."""

    def __init__(self, dropped: Sequence[Dropped]) -> None:
        super().__init__((part.pointer, part) for part in dropped)
        self.changed: set[str] = set()
        for pointer in self:
            while pointer not in self.changed:
                self.changed.add(pointer)
                pointer = pointer.rpartition("/")[0]


def _drop(value: JsonValue, pointer: str, parts: _DroppedParts) -> JsonValue:
    """The value without the dropped parts. A value from which nothing was dropped is not copied."""
    if pointer not in parts.changed:
        return value
    if pointer in parts and parts[pointer].kind != "rows":
        return text_mark(len(value)) if isinstance(value, str) else _container_mark(value)
    if isinstance(value, dict):
        members: dict[str, JsonValue] = {}
        for key, child in value.items():
            below = join(pointer, key)
            members[key] = _drop(child, below, parts)
            if below in parts and parts[below].kind == "rows":
                members[key] = handles_only(members[key], key)
        return members | _list_marks(value, pointer, parts)
    assert isinstance(value, list)  # something was dropped from it, so it is not empty
    items: list[JsonValue] = [_drop(child, join(pointer, index), parts) for index, child in enumerate(value)]
    if pointer == RESULT and pointer in parts:  # there is no object beside it for the number of its rows
        reduced = handles_only(items, "")
        return [*reduced, _rows_mark(len(value))] if isinstance(reduced, list) else items
    return items


def _list_marks(members: dict[str, JsonValue], pointer: str, parts: _DroppedParts) -> dict[str, JsonValue]:
    """The members beside each list that count what was dropped from it, named as a projector names its own cut."""
    marks: dict[str, JsonValue] = {}
    for key, child in members.items():
        part, before = parts.get(join(pointer, key)), members.get(f"{key}_omitted", 0)
        if part is not None and part.kind == "rows":
            marks[f"{key}{REDUCED}"] = part.size
        elif part is not None and isinstance(child, list) and isinstance(before, int):
            marks |= {key: [], f"{key}_omitted": before + len(child)}
    return marks


def _container_mark(value: JsonValue) -> JsonValue:
    words = f"{_count(value)} {'items' if isinstance(value, list) else 'members'} dropped by compaction"
    return [f"[{words}]"] if isinstance(value, list) else {"omitted": words}


def recap(canonical: CanonicalResult) -> Receipt:
    """Renders the outcome, then the error or the result as an outline, then artifact paths (RFC-142).

    Works for every family: every character comes from the envelope or is a label.
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


def _recap_error(error: ToolError, summary: str) -> Iterable[Segment]:
    yield from _line("Kind", "/error/kind", error.kind)
    if error.message != summary:
        yield from _line("Message", "/error/message", error.message)
    if error.recovery_hint:
        yield from _line("Hint", "/error/recovery_hint", error.recovery_hint, "hint")
    yield Segment("\nSame call again: ", "label")
    yield Segment(word_repetition(error), "value", SegmentSource("canonical", "/error/retryable"))
    if error.details:
        yield Segment("\n", "break")
        yield from outline(error.details, DETAILS)


def _line(title: str, pointer: str, text: str, role: Role = "value") -> Iterable[Segment]:
    return Segment(f"\n{title}: ", "label"), *indent_lines(_whole(pointer, text, role))


def _whole(pointer: str, text: str, role: Role = "value") -> Segment:
    return Segment(text, role, SegmentSource("canonical", pointer, 0, len(text)))


class HistoryCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call in the history. Calls that were made at once have the same `round`, a number that grows.

    `text` is what the model reads: the receipt as it was sent, or the recap of a compacted result.
    """

    call_id: str
    round: int
    canonical: CanonicalResult
    text: str
    is_compacted: bool = False


class CompactedCall(msgspec.Struct, frozen=True):
    """A call that this compaction made smaller. `dropped` is empty where only its receipt became a recap."""

    call_id: str
    tokens_before: int
    tokens_after: int
    dropped: tuple[Dropped, ...]


class CompactedHistory(msgspec.Struct, frozen=True, kw_only=True):
    """`fits` is False when the newest rounds and what must be kept exceed the budget."""

    entries: tuple[HistoryCall, ...]
    compacted: tuple[CompactedCall, ...]
    tokens: int
    fits: bool


def compact_history(
    entries: Sequence[HistoryCall],
    tokens: int,
    keep_newest: int = 2,
    *,
    count: Callable[[str], int] = lambda text: count_tokens(text).count,
    write: Callable[[CanonicalResult], str] = lambda canonical: recap(canonical).text,
) -> CompactedHistory:
    """Compacts the oldest calls first, and each only as far as the whole still exceeds `tokens`.

    The newest `keep_newest` rounds stay exactly as they were sent, and so does a call whose
    recap would be no smaller. `write` renders a compacted call, so that a family's renderer may be used instead of
    the recap; `count` must give the same tokens for the same text.
    """
    newest = set(sorted({entry.round for entry in entries}, reverse=True)[:keep_newest])
    history, compacted = list(entries), []
    costs = [count(entry.text) for entry in entries]
    total = sum(costs)
    for index in sorted(range(len(entries)), key=lambda at: entries[at].round):
        if total <= tokens:
            break
        if entries[index].round in newest:
            continue
        budget = costs[index] - (total - tokens)
        smaller = compact(entries[index].canonical, budget, measure=lambda canonical: count(write(canonical)))
        text = write(smaller.canonical)
        after = count(text)
        if after < costs[index]:
            history[index] = msgspec.structs.replace(
                entries[index], canonical=smaller.canonical, text=text, is_compacted=True
            )
            compacted.append(CompactedCall(entries[index].call_id, costs[index], after, smaller.dropped))
            total += after - costs[index]
    return CompactedHistory(entries=tuple(history), compacted=tuple(compacted), tokens=total, fits=total <= tokens)

"""The items of a run's history in one order: messages, calls, receipts, replacements, compactions.

An item's cursor is (line, rank, start, key): the line of the source, the rank of its kind within a line, the byte where
a message begins, and the row's id.
Messages and calls are read a page at a time. What a receipt adds ends where it is superseded, which may be far behind:
the lines and tokens of receipts are read for the whole run in one pass, and everything else about them only for those
that a page shows. Compactions are few and read whole. Payloads are read last, for the items of one page.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from dashboard.evidence.context_changes import ContextDrop, load_drops
from dashboard.models import Message, Observation, RecordedReceipt, Run, RunCall, load_slices
from dashboard.models.fields import UUIDDigits
from dashboard.models.sources import SLICE_FIELDS, SourceSlice
from dashboard.runs.compactions import Compaction, is_kept, load_compactions
from dashboard.runs.history_sizes import (
    PLACE,
    AddedText,
    HistorySize,
    count_tokens,
    find_added,
    load_call_sizes,
    load_message_sizes,
    weigh_standing,
)
from dashboard.runs.run_marks import Branch, Gap, Removal, load_branches_and_removals, load_gaps, outermost
from dashboard.text.params import LARGEST, parse_integer
from dashboard.text.payload_preview import Payload
from envelopes.text.tokens import CHARACTERS_PER_TOKEN

if TYPE_CHECKING:
    from dashboard.runs.replay import ReplayedReceipts

WHOLE_BYTES = 1_000_000  # a longer payload is read only as far as it is shown
HEAD_BYTES = 64 * 1024
NO_KEY = UUID(int=0)
ADDED = ", added by the client"  # behind a kind that is no role
RANKS = {
    "message": 0,
    "call": 1,
    "receipt": 2,
    "replacement": 3,
    "compaction": 4,
    "gap": 5,
    "branch": 6,
    "removal": 7,
    "drop": 8,
}
KINDS = tuple(RANKS)
# The columns of a call that an item shows, beside its receipt's.
_CALL_FIELDS = ("run_id", "tool", "outcome", "exit_status", "derivation", "started_at", "args_bytes", "result_fidelity")
_SHOWN_CALL = tuple(f"call__{name}" for name in _CALL_FIELDS)
_RECEIPT_FIELDS = tuple(field.name for field in RecordedReceipt._meta.concrete_fields)
# The columns of line, start and key. These two kinds are read a page at a time.
PAGED = {"message": ("line", "place", "id"), "call": ("ordinal", "call_id")}


@dataclass(frozen=True, slots=True, order=True)
class HistoryCursor:
    line: int
    rank: int
    start: int = 0
    key: UUID = NO_KEY

    def __str__(self) -> str:
        return f"{self.line}-{self.rank}-{self.start}-{self.key.hex}"

    @classmethod
    def parse(cls, text: str) -> HistoryCursor | None:
        """A cursor from the address bar; None for anything else."""
        *parts, key = text.split("-")
        numbers = [parse_integer(part) for part in parts]
        if len(parts) not in (2, 3) or None in numbers:  # older links have no start
            return None
        try:
            line, rank, *start = (number or 0 for number in numbers)
            return cls(line, rank, start[0] if start else 0, UUID(hex=key))
        except ValueError:
            return None


class ReceiptMark(NamedTuple):
    """A receipt as numbers, its id in hexadecimal, and the line that superseded it, None while it is current."""

    line: int
    key: str
    tokens: int
    superseded_line: int | None
    superseded_at: datetime | None
    superseded_reason: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """Receipts that one line superseded: a compaction may supersede hundreds."""

    count: int
    reason: str


ItemRow: TypeAlias = (
    Message | RunCall | RecordedReceipt | Replacement | Compaction | Gap | Branch | Removal | ContextDrop
)


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """`tokens` is what the item adds to the model's history, negative when a receipt is taken out of it."""

    cursor: HistoryCursor
    at: datetime | None
    tokens: int
    row: ItemRow

    @property
    def kind(self) -> str:
        return KINDS[self.cursor.rank]

    @property
    def standing_kind(self) -> str:
        """The kind of what is part of every request from here on, whatever is compacted; empty for all else."""
        return self.row.kind if isinstance(self.row, Message) and self.row.is_standing else ""


@dataclass(frozen=True, slots=True)
class HistoryCounts:
    """`before` items come in front of a cursor, out of `total`; `tokens` are those of them that are still there."""

    before: int
    total: int
    tokens: int


class _Mark(NamedTuple):
    """An item of a kind that is read whole, as small as possible: a run may have a hundred thousand receipts.

    No two have the same line, rank and key, so sorting compares nothing behind these. `row` is loaded for receipts
    on a page.
    """

    line: int
    rank: int
    key: str  # hexadecimal
    tokens: int
    at: datetime | None = None
    row: Replacement | Compaction | Gap | Branch | Removal | ContextDrop | None = None


class Timeline:
    """One run's items, or those of `branch`, which a rewind left. A fixed number of queries, whatever is asked for.

    A branch that was left is one item. `until` is the line of a request: the items are those before it, as they stood
    then.
    """

    def __init__(
        self,
        run: Run,
        replayed: ReplayedReceipts | None = None,
        branch: Branch | None = None,
        until: int | None = None,
    ) -> None:
        self.run, self._replayed, self._branch, self._until = run, replayed, branch, until
        branches, removals = load_branches_and_removals(run, until)
        branches = [other for other in branches if other != branch]
        if branch:
            branches = [other for other in branches if branch.has(other.start) and branch.has(other.end - 1)]
        self.left = outermost(branches)
        self.drops = [drop for drop in load_drops(run) if self.has(drop.line, is_request=True)]
        self.compactions = [event for event in load_compactions(run) if self.has(event.line)]
        self._keeping = {event.line for event in self.compactions if event.kept}
        self.receipts = self._load_receipts()
        marks = [_Mark(gone.line, RANKS["removal"], gone.key.hex, 0, gone.at, gone) for gone in removals]
        marks += self._build_marks(load_gaps(run))
        marks += [_Mark(drop.line - 1, RANKS["drop"], NO_KEY.hex, 0, None, drop) for drop in self.drops]
        marks = [mark for mark in marks if self.has(mark.line)]
        marks += [_Mark(other.start, RANKS["branch"], other.key.hex, 0, other.at, other) for other in self.left]
        marks += [_Mark(receipt.line, RANKS["receipt"], receipt.key, receipt.tokens) for receipt in self.receipts]
        self._marks = sorted(marks, key=_sort_key)
        self._sizes: dict[str, list[HistorySize]] = {}

    def has(self, line: int, *, is_request: bool = False) -> bool:
        """True for a line inside the branch, before `until`, and in no branch that was left.

        With `is_request` the line `until` counts too.
        """
        is_inside = self._branch is None or self._branch.has(line)
        is_before = self._until is None or line < self._until + is_request
        is_left = bool(self.left) and any(other.has(line) for other in self.left)
        return is_inside and is_before and not is_left

    def _load_receipts(self) -> list[ReceiptMark]:
        """In no order, without what superseded them later."""
        receipts = _load_receipt_marks(self._restrict(RecordedReceipt.objects.filter(run=self.run), "line"))
        if self._replayed:  # calls without a receipt come in
            receipts = [receipt for receipt in self._replayed.replace_marks(receipts) if self.has(receipt.line)]
        until = LARGEST if self._until is None else self._until
        return [
            receipt._replace(superseded_line=None) if (receipt.superseded_line or 0) >= until else receipt
            for receipt in receipts
        ]

    def _build_marks(self, gaps: Iterable[Gap]) -> list[_Mark]:
        marks = [*self._replacements()]
        rank = RANKS["compaction"]
        marks += [_Mark(event.line, rank, event.key.hex, 0, event.at, event) for event in self.compactions]
        marks += [_Mark(gap.line, RANKS["gap"], UUID(int=gap.problem).hex, 0, None, gap) for gap in gaps]
        return marks

    def _replacements(self) -> Iterator[_Mark]:
        """One item for each line at which receipts are replaced.

        Receipts compacted away before that line had no more tokens in the history, and cannot be taken out again.
        """
        ended = [receipt for receipt in self.receipts if receipt.superseded_line is not None]
        ended.sort(key=lambda receipt: receipt.superseded_line or 0)
        for line, group in groupby(ended, key=lambda receipt: receipt.superseded_line or 0):
            replaced = list(group)
            at = max((receipt.superseded_at for receipt in replaced if receipt.superseded_at), default=None)
            row = Replacement(len(replaced), max(receipt.superseded_reason for receipt in replaced))
            since = self.last_compaction(line)
            present = [receipt for receipt in replaced if receipt.line > since or self.keeps(receipt.line, since)]
            tokens = -sum(receipt.tokens for receipt in present)
            yield _Mark(line, RANKS["replacement"], NO_KEY.hex, tokens, at, row)

    def after(self, cursor: HistoryCursor | None, limit: int) -> list[HistoryItem]:
        """The first `limit` items behind the cursor; from the beginning when it is None."""
        start = 0 if cursor is None else bisect_right(self._marks, _sort_key(cursor), key=_sort_key)
        items = [item for kind in PAGED for item in self._load_page(kind, cursor, limit, ascending=True)]
        items += self._load_marked(self._marks[start : start + limit])
        return sorted(items, key=lambda item: item.cursor)[:limit]

    def before(self, cursor: HistoryCursor | None, limit: int) -> list[HistoryItem]:
        """The last `limit` items in front of the cursor; of the whole history when it is None."""
        end = len(self._marks) if cursor is None else bisect_left(self._marks, _sort_key(cursor), key=_sort_key)
        items = [item for kind in PAGED for item in self._load_page(kind, cursor, limit, ascending=False)]
        items += self._load_marked(self._marks[max(0, end - limit) : end])
        return sorted(items, key=lambda item: item.cursor)[-limit:]

    def counts(self, cursor: HistoryCursor | None, *, since: int) -> HistoryCounts:
        """The items in front of the cursor, none when it is None.

        Tokens count from `since`, the last compaction in front of it or -1, with what that kept, and for what stands
        in every request.
        """
        ahead = [] if cursor is None else self._marks[: bisect_left(self._marks, _sort_key(cursor), key=_sort_key)]
        before, total = len(ahead), len(self._marks)
        tokens = sum(mark.tokens for mark in ahead if mark.line > since) + self.kept_tokens(since)
        for kind in PAGED:
            if cursor is None and kind not in self._sizes:
                total += self._rows(kind).count()
                continue
            sizes = self._load_sizes(kind)
            total += len(sizes)
            if cursor is not None:
                position = cursor.line, cursor.rank, cursor.start, cursor.key.hex
                ahead_of = bisect_left(sizes, position, key=lambda size: (size.line, RANKS[kind], size.start, size.key))
                before += ahead_of
                tokens += sum(size.tokens for size in sizes[:ahead_of] if size.line > since or size.is_standing)
        return HistoryCounts(before, total, max(0, tokens))

    def last_compaction(self, line: int) -> int:
        """The line of the last compaction before this one, -1 without one."""
        return max((event.line for event in self.compactions if event.line < line), default=-1)

    def keeps(self, line: int, since: int) -> bool:
        """True for a line that the compaction at the line `since` kept, and each one before that it came in before."""
        return since in self._keeping and line <= since and is_kept(self.compactions, line, since)

    def kept_tokens(self, since: int) -> int:
        """The tokens of what the compaction at the line `since` kept, without what stands in every request."""
        if since not in self._keeping:
            return 0
        messages = [message for message in self._load_sizes("message") if not message.is_standing]
        receipts = [receipt for receipt in self.receipts if (receipt.superseded_line or since + 1) > since]
        items: list[HistorySize | ReceiptMark] = [*messages, *self._load_sizes("call"), *receipts]
        return sum(item.tokens for item in items if self.keeps(item.line, since))

    def tokens_before(self, line: int) -> int:
        """The tokens of the history before this line that nothing recorded has removed."""
        return self.counts(HistoryCursor(line, 0), since=self.last_compaction(line)).tokens

    def standing(self, line: int | None = None) -> dict[str, int]:
        """The tokens of what stands in every request from before `line`, or at the end, by kind."""
        return weigh_standing(self._load_sizes("message"), line)

    def added(self) -> list[AddedText]:
        """In order, the texts that the client added to the messages."""
        return find_added(self._load_sizes("message"), self._load_sizes("call"))

    def weigh_kinds(self, since: int) -> dict[str, tuple[int, int]]:
        """The number and the tokens of what came behind the line `since` and is still there; not of what was not sent.

        By kind or role of the messages, then `arguments` and `receipts`. What a compaction at that line kept is among
        them, what `standing` has is not.
        """

        def is_there(item: HistorySize | ReceiptMark) -> bool:
            return item.line > since or self.keeps(item.line, since)

        groups: dict[str, list[int]] = defaultdict(list)
        for size in self._load_sizes("message"):
            if is_there(size) and size.kind is not None and not size.is_standing:
                groups[f"{size.kind}{ADDED}" if size.is_added else size.kind].append(size.tokens)
        groups["arguments"] = [size.tokens for size in self._load_sizes("call") if is_there(size)]
        present = (receipt for receipt in self.receipts if receipt.superseded_line is None)
        groups["receipts"] = [receipt.tokens for receipt in present if is_there(receipt)]
        return {kind: (len(groups[kind]), sum(groups[kind])) for kind in groups if groups[kind]}

    def _load_sizes(self, kind: str) -> list[HistorySize]:
        """All messages or all calls in order, asked for once: each page counts and weighs them several times."""
        if kind not in self._sizes:
            load_sizes = load_message_sizes if kind == "message" else load_call_sizes
            self._sizes[kind] = load_sizes(self._rows(kind))
        return self._sizes[kind]

    def _rows(self, kind: str) -> QuerySet[Any]:
        is_message = kind == "message"
        rows: QuerySet[Any] = self.run.messages.alias(place=PLACE) if is_message else self.run.members.all()
        return self._restrict(rows, PAGED[kind][0])

    def _restrict(self, rows: QuerySet[Any], line: str) -> QuerySet[Any]:
        """The rows that `has` is true for; `line` is their column of lines."""
        if self._branch:
            rows = rows.filter(**{f"{line}__gte": self._branch.start, f"{line}__lt": self._branch.end})
        if self._until is not None:
            rows = rows.filter(**{f"{line}__lt": self._until})
        for other in self.left:
            rows = rows.exclude(**{f"{line}__gte": other.start, f"{line}__lt": other.end})
        return rows

    def _load_page(
        self, kind: str, cursor: HistoryCursor | None, limit: int, *, ascending: bool
    ) -> Iterator[HistoryItem]:
        order = [name if ascending else f"-{name}" for name in PAGED[kind]]
        rows = self._rows(kind).filter(_is_beside(kind, cursor, ascending=ascending)).order_by(*order)
        if kind == "message":
            for message in rows.defer("own_data")[:limit]:
                key = HistoryCursor(message.line, RANKS[kind], message.start or 0, message.pk)
                yield HistoryItem(key, message.at, self._message_tokens(message), message)
        else:
            receipts = RecordedReceipt.objects.filter(run=self.run, call=OuterRef("call"))
            members = rows.select_related("call").only("run_id", "call_id", "ordinal", "inherited", *_SHOWN_CALL)
            for member in members.annotate(has_receipt=Exists(receipts))[:limit]:
                key = HistoryCursor(member.ordinal, RANKS[kind], key=member.call_id)
                yield HistoryItem(key, member.call.started_at, member.call.args_bytes // CHARACTERS_PER_TOKEN, member)

    def _message_tokens(self, message: Message) -> int:
        if message.is_standing:
            return next(size.tokens for size in self._load_sizes("message") if size.key == message.pk.hex)
        return count_tokens(message.delivery, message.tokens, message.size)

    def _load_marked(self, marks: Sequence[_Mark]) -> Iterator[HistoryItem]:
        keys = [UUID(mark.key) for mark in marks if mark.rank == RANKS["receipt"]]
        joined = RecordedReceipt.objects.select_related("call").only(*_RECEIPT_FIELDS, *_SHOWN_CALL)
        receipts = joined.in_bulk(keys) if keys else {}
        if self._replayed:
            receipts = {**self._replayed.unsent_receipts(keys), **receipts}
        for mark in marks:
            cursor = HistoryCursor(mark.line, mark.rank, key=UUID(mark.key))
            if mark.row is not None:
                yield HistoryItem(cursor, mark.at, mark.tokens, mark.row)
            else:
                receipt = receipts[cursor.key]
                yield HistoryItem(cursor, receipt.at, mark.tokens, receipt)


def _load_receipt_marks(receipts: QuerySet[RecordedReceipt]) -> list[ReceiptMark]:
    """In no order. Ids stay text: converting 100,000 takes longer than reading them."""
    rows = receipts.annotate(key=UUIDDigits("id"))
    columns: Any = rows.values_list("line", "key", "tokens", "superseded_line", "superseded_at", "superseded_reason")
    return [ReceiptMark(*row) for row in columns]


def _sort_key(position: HistoryCursor | _Mark) -> tuple[int, int, str]:
    return position.line, position.rank, position.key if isinstance(position.key, str) else position.key.hex


def _is_beside(kind: str, cursor: HistoryCursor | None, *, ascending: bool) -> Q:
    """The rows of one kind strictly behind the cursor, or in front of it when not `ascending`."""
    if cursor is None:
        return Q()
    line, *start, key = PAGED[kind]
    beyond, rank = "gt" if ascending else "lt", RANKS[kind]
    if rank == cursor.rank:
        same = {line: cursor.line} | dict.fromkeys(start, cursor.start)
        behind = Q(**same, **{f"{key}__{beyond}": cursor.key})
        for name in start:
            behind |= Q(**{line: cursor.line, f"{name}__{beyond}": cursor.start})
        return Q(**{f"{line}__{beyond}": cursor.line}) | behind
    includes_line = (rank > cursor.rank) is ascending
    return Q(**{f"{line}__{beyond}{'e' if includes_line else ''}": cursor.line})


def load_item_payloads(
    messages: Sequence[UUID], calls: Sequence[UUID], observations: Sequence[UUID]
) -> tuple[dict[UUID, Payload], dict[UUID, Payload], dict[UUID, Payload]]:
    """The contents of messages, of the arguments of calls by call, and of the observations of receipts.

    Arguments and receipts are slices of the same frames, which are read once.
    """
    given = Observation.objects.filter(surface="args", selected=True, call__in=calls)
    sent = Observation.objects.filter(pk__in=observations)
    texts = list(Message.objects.filter(pk__in=messages).only(*SLICE_FIELDS)) if messages else []
    arguments = list(given.only(*SLICE_FIELDS, "call_id")) if calls else []
    receipts = list(sent.only(*SLICE_FIELDS)) if observations else []
    load_slices([*texts, *arguments, *receipts])
    return (
        {row.pk: _cut_payload(row) for row in texts},
        {row.call_id: _cut_payload(row) for row in arguments},
        {row.pk: _cut_payload(row) for row in receipts},
    )


def _cut_payload(row: SourceSlice) -> Payload:
    """The data, or only the head of one beyond WHOLE_BYTES."""
    return Payload(row.data if row.size <= WHOLE_BYTES else row.data[:HEAD_BYTES], row.size)

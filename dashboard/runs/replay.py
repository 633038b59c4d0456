"""A run with the receipts of another variant: the tokens of each call and of the whole history, and of the tab Replay.

Writing a hundred thousand receipts takes longer than a page may: a request writes for a second and caches what it has,
the next one goes on. A page that shows these numbers shows how many calls they cover.

Only receipts change: messages stay as recorded, arguments count by their size, and what the model would have done
otherwise is unknown. A receipt counts at the line of its call, in its last version. No model ever saw these receipts.

The address of a run's page contains the variant: `?with=markdown`. Without it a page asks the database for nothing
more.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.core.cache import cache
from django.urls import reverse

from dashboard.evidence.call_inputs import load_call_inputs
from dashboard.models import Call, RecordedReceipt, Run
from dashboard.runs.compactions import load_compactions
from dashboard.runs.history_sizes import load_message_sizes
from dashboard.runs.run_marks import load_branches
from dashboard.runs.timeline import ReceiptMark
from dashboard.runs.waterfall import CallRowPage
from dashboard.text.formatting import format_change
from dashboard.text.params import parse_integer
from dashboard.variants.variant_list import (
    RECORDED,
    UnusableColumns,
    VariantColumn,
    bind_columns,
    offered_by_family,
    variant_names,
)
from envelopes.pipeline.render import render
from envelopes.text.deadline import current_deadline
from envelopes.text.tokens import CHARACTERS_PER_TOKEN, count_all
from envelopes.variants.template import TemplateUnanswered

CACHE_SECONDS = 600
NO_VARIANT, NOT_WRITTEN = -1, -2  # the call's family has no such variant or no result; the variant failed
DEFAULT_LIMIT = 200_000  # tokens, where no compaction was recorded
DEFAULT_VARIANT = "receipt"  # offered by the switch before it has been used
MAX_LIMIT = 10_000_000  # tokens
MAX_VARIANT_CHARACTERS = 64
CALLS_PER_PAGE = 100


@dataclass(frozen=True, slots=True)
class ReplayCall:
    """A call of the run: its line, the tokens of its arguments and of its recorded receipt."""

    key: UUID
    tool: str
    family: str
    line: int
    args_tokens: int
    receipt_tokens: int
    is_answered: bool

    def has_variant(self, column: VariantColumn) -> bool:
        """False for a call that nothing answered: no variant can write its receipt."""
        return self.is_answered and self.family in column.variants


@dataclass(frozen=True, kw_only=True)
class Replay:
    """`written` has the tokens of the first calls of the run, in order, or NO_VARIANT or NOT_WRITTEN."""

    name: str
    column: VariantColumn | None
    calls: Sequence[ReplayCall]
    written: Sequence[int]

    @cached_property
    def tokens(self) -> Mapping[UUID, int]:
        """By call. One that is missing counts as recorded."""
        return {call.key: tokens for call, tokens in zip(self.calls, self.written, strict=False) if tokens >= 0}

    @property
    def unwritten(self) -> int:
        return len(self.calls) - len(self.written)

    @property
    def failed(self) -> int:
        return sum(tokens == NOT_WRITTEN for tokens in self.written)

    @property
    def versions(self) -> tuple[str, ...]:
        variants = self.column.variants.values() if self.column else ()
        return tuple(dict.fromkeys(f"{variant.id} version {variant.version}" for variant in variants))


def load_replay(run: Run, name: str) -> Replay:
    """The tokens that are cached, and a slice more where they do not cover all calls."""
    calls = list(_load_calls(run))
    try:
        column = bind_columns(run.project, [RECORDED, name], {call.family for call in calls})[1]
    except UnusableColumns:  # no family of the run has this variant
        return Replay(name=name, column=None, calls=calls, written=[NO_VARIANT] * len(calls))
    # Another import, version or policy makes another key.
    hashes = "-".join(variant.hash for _, variant in sorted(column.variants.items()))
    key = f"replay-{run.pk.hex}-{run.revision}-{hashlib.sha256(hashes.encode()).hexdigest()[:16]}"
    written = array("i", cache.get(key, b""))
    if len(written) < len(calls):
        for tokens in _count_slice(calls[len(written) :], column, run.model):
            written.extend(tokens)
        cache.set(key, written.tobytes(), CACHE_SECONDS)
    return Replay(name=name, column=column, calls=calls, written=written[: len(calls)])


def _load_calls(run: Run) -> Iterator[ReplayCall]:
    columns = ("call_id", "call__tool", "call__family", "ordinal", "call__args_bytes", "call__tokens", "call__status")
    copies = RecordedReceipt.objects.shown_in(run)
    for key, tool, family, line, args_bytes, tokens, status in run.members.order_by("ordinal", "call_id").values_list(
        *columns
    ):
        is_answered = status != Call.Status.UNKNOWN
        tokens = copies[key].tokens if key in copies else tokens
        yield ReplayCall(key, tool, family, line, args_bytes // CHARACTERS_PER_TOKEN, tokens, is_answered)


def _count_slice(calls: Sequence[ReplayCall], column: VariantColumn, model: str) -> Iterator[list[int]]:
    """The tokens of one batch of calls after the other, until the time is up."""
    deadline = current_deadline()
    for start in range(0, len(calls), settings.REPLAY_BATCH):
        batch = calls[start : start + settings.REPLAY_BATCH]
        with_variant = [call.key for call in batch if call.has_variant(column)]
        texts = dict(write_receipts(column, with_variant))
        if deadline.is_over and with_variant[-1:] != list(texts)[-1:]:
            batch = batch[: max((number for number, call in enumerate(batch, start=1) if call.key in texts), default=0)]
        counts = count_all([text or "" for text in texts.values()], model=model)
        tokens = {
            key: count.count for (key, text), count in zip(texts.items(), counts, strict=True) if text is not None
        }
        yield [tokens.get(call.key, NOT_WRITTEN if call.has_variant(column) else NO_VARIANT) for call in batch]
        if deadline.is_over:
            return


def write_receipts(column: VariantColumn, calls: Sequence[UUID]) -> Iterator[tuple[UUID, str | None]]:
    """The variant's receipt of each call, None where it cannot write one; those after the deadline are left out."""
    deadline = current_deadline()
    for subject in load_call_inputs(calls, with_recorded=False):
        variant = column.variants.get(subject.family.name)
        if variant is None:
            continue
        try:
            text = render(subject.canonical, subject.family, variant.policy, variant=variant).text
        except TemplateUnanswered:
            return
        except Exception:  # a variant may be anybody's; the call counts as not written, and the page counts those
            text = None
        yield subject.key, text
        if deadline.is_over:
            return


@dataclass(frozen=True, slots=True)
class ReplayedReceipt:
    """A receipt that was never sent, and how the page labels it."""

    text: str
    label: str
    meaning: str
    recorded: str


class ReplayedReceipts:
    """The receipts of a replay, for the history of the run.

    The first receipt of a call is the variant's; a later one that replaced it stays as recorded, and further ones that
    the model got behind it weigh nothing. A call without a recorded receipt has one here, at the line of the call.
    """

    def __init__(self, run: Run, replay: Replay) -> None:
        self._replay = replay
        self._calls: Mapping[UUID, ReplayCall] = {call.key: call for call in replay.calls}
        latest_first = RecordedReceipt.objects.filter(run=run).order_by("call", "-seq")
        rows = list(latest_first.values_list("id", "call_id", "superseded_line"))
        first = {call: key for key, call, _ in rows}
        ended = {key for key, _, superseded in rows if superseded is not None}
        self._further = {
            key.hex
            for key, call, _ in rows
            if call in replay.tokens and key != first[call] and not ended & {key, first[call]}
        }
        # The id of the first receipt, or that of the call itself where none was recorded.
        self._call_by_receipt = {first.get(call, call): call for call in replay.tokens}
        self._unsent = {call for call in replay.tokens if call not in first}

    def replace_marks(self, receipts: Iterable[ReceiptMark]) -> list[ReceiptMark]:
        tokens = dict.fromkeys(self._further, 0)
        tokens |= {key.hex: self._replay.tokens[call] for key, call in self._call_by_receipt.items()}
        marks = [receipt._replace(tokens=tokens.get(receipt.key, receipt.tokens)) for receipt in receipts]
        for call in self._unsent:
            marks.append(ReceiptMark(self._calls[call].line, call.hex, tokens[call.hex], None, None, ""))
        return marks

    def unsent_receipts(self, keys: Iterable[UUID]) -> dict[UUID, RecordedReceipt]:
        """Unsaved rows for calls without a recorded receipt, by the id of the call."""
        calls = {key: Call(id=key, tool=self._calls[key].tool) for key in keys if key in self._unsent}
        return {key: RecordedReceipt(id=key, call=call, fidelity="absent") for key, call in calls.items()}

    def write(self, keys: Iterable[UUID]) -> dict[UUID, ReplayedReceipt]:
        """By receipt; those that the variant cannot write are left out, and those after the deadline have no text."""
        receipt_by_call = {self._call_by_receipt[key]: key for key in keys if key in self._call_by_receipt}
        if self._replay.column is None or not receipt_by_call:
            return {}
        receipts = {}
        texts = dict(write_receipts(self._replay.column, list(receipt_by_call)))
        for call, receipt in receipt_by_call.items():
            text = texts.get(call, "")
            if text is None:
                continue
            label = "never seen by the model" if call in texts else "not written in the time of one page"
            recorded = f"recorded: {self._calls[call].receipt_tokens:,} tokens"
            receipts[receipt] = ReplayedReceipt(
                text=text,
                label=f"replayed with {self._replay.name}: {label}",
                meaning=f"Written now from the stored envelope by {', '.join(self._replay.versions)}.",
                recorded="no receipt was recorded" if call in self._unsent else recorded,
            )
        return receipts


@dataclass(frozen=True, kw_only=True)
class ReplayedCall:
    """`after` is None where the variant wrote nothing; the recorded receipt counts then.

    `before_running` and `after_running` are the tokens of the history up to and with the call.
    """

    call: ReplayCall
    after: int | None
    before_running: int
    after_running: int

    @property
    def change(self) -> str:
        return "" if self.after is None else format_change(self.after - self.call.receipt_tokens)


@dataclass(frozen=True, kw_only=True)
class HistoryTokens:
    """Tokens of a whole history; `full_at` is the line at which it first reaches the limit."""

    tokens: int = 0
    receipts: int = 0
    full_at: int | None = None

    def add(self, line: int, tokens: int, receipt: int, limit: int) -> HistoryTokens:
        total = self.tokens + tokens + receipt
        full_at = line if self.full_at is None and total >= limit else self.full_at
        return HistoryTokens(tokens=total, receipts=self.receipts + receipt, full_at=full_at)


@dataclass(frozen=True, kw_only=True)
class ReplayTotals:
    """A history as recorded (`before`) and replayed (`after`).

    `compacted_at` is the line of the first recorded compaction; the limit is then the tokens in front of it, unless
    the address has another one.
    """

    limit: int
    compacted_at: int | None
    before: HistoryTokens
    after: HistoryTokens
    calls: tuple[ReplayedCall, ...]

    @property
    def change(self) -> str:
        share = f" ({format_change(self.after.tokens / self.before.tokens - 1, '+.1%')})" if self.before.tokens else ""
        return f"{format_change(self.after.tokens - self.before.tokens)}{share}"


def add_up_replay(run: Run, replay: Replay, limit: int | None = None) -> ReplayTotals:
    """Adds up messages and calls in the order of their lines, with recorded and with replayed receipts."""
    entries: list[tuple[int, int, ReplayCall | None]] = [
        (size.line, size.tokens, None) for size in load_message_sizes(run.messages.all())
    ]
    entries += [(call.line, call.args_tokens, call) for call in replay.calls]
    left = load_branches(run)
    entries = [entry for entry in entries if not any(branch.has(entry[0]) for branch in left)]
    entries.sort(key=lambda entry: entry[0])
    compactions = [event for event in load_compactions(run) if not any(branch.has(event.line) for branch in left)]
    compaction = next(iter(compactions), None)
    if limit is None:
        limit = DEFAULT_LIMIT if compaction is None else _tokens_before(entries, compaction.line)
    before = after = HistoryTokens()
    calls = []
    for line, tokens, call in entries:
        if call is None:
            before, after = before.add(line, tokens, 0, limit), after.add(line, tokens, 0, limit)
            continue
        replayed = replay.tokens.get(call.key)
        before = before.add(line, tokens, call.receipt_tokens, limit)
        after = after.add(line, tokens, call.receipt_tokens if replayed is None else replayed, limit)
        calls.append(ReplayedCall(call=call, after=replayed, before_running=before.tokens, after_running=after.tokens))
    compacted_at = None if compaction is None else compaction.line
    return ReplayTotals(limit=limit, compacted_at=compacted_at, before=before, after=after, calls=tuple(calls))


def _tokens_before(entries: Iterable[tuple[int, int, ReplayCall | None]], line: int) -> int:
    """Tokens of the recorded history in front of a line."""
    tokens = [count + (call.receipt_tokens if call else 0) for at, count, call in entries if at < line]
    return sum(tokens) if tokens else DEFAULT_LIMIT


@dataclass(frozen=True, kw_only=True)
class ReplayChoice:
    name: str
    url: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class ReplayView:
    """A replay on a page of its run. `url` leads to its numbers call by call."""

    replay: Replay
    totals: ReplayTotals
    choices: tuple[ReplayChoice, ...]
    url: str

    @property
    def name(self) -> str:
        return self.replay.name


@dataclass(frozen=True, kw_only=True)
class ReplaySwitch:
    """`view` is None as recorded; `first` is the choice offered then."""

    recorded_url: str
    first: ReplayChoice
    view: ReplayView | None = None


@dataclass(frozen=True, kw_only=True)
class ReplayPage:
    run: Run
    view: ReplayView
    calls: tuple[ReplayedCall, ...]
    next_url: str
    size: int = CALLS_PER_PAGE

    @property
    def model_query(self) -> str:
        return urlencode({"with": self.view.name})


def _choice(name: str, params: Mapping[str, str], *, is_current: bool = False) -> ReplayChoice:
    return ReplayChoice(name=name, url="?" + urlencode({**params, "with": name}), is_current=is_current)


AS_RECORDED = ReplaySwitch(recorded_url="?", first=_choice(DEFAULT_VARIANT, {}))


def load_switch(run: Run, query: Mapping[str, str], *names_to_keep: str) -> ReplaySwitch:
    """`names_to_keep` are the parameters of the page that stay when the switch is used."""
    params = {name: query[name] for name in ("limit", *names_to_keep) if query.get(name)}
    variant = query.get("with", "")[:MAX_VARIANT_CHARACTERS]
    return ReplaySwitch(
        recorded_url="?" + urlencode(params),
        first=_choice(DEFAULT_VARIANT, params),
        view=_load_view(run, variant, params) if variant else None,
    )


def load_replay_page(run: Run, query: Mapping[str, str]) -> ReplayPage:
    params = {name: query[name] for name in ("limit", "position") if query.get(name)}
    view = _load_view(run, query.get("with", "")[:MAX_VARIANT_CHARACTERS] or DEFAULT_VARIANT, params)
    start = parse_integer(query.get("from")) or 0
    end = start + CALLS_PER_PAGE
    calls = view.totals.calls
    next_url = "?" + urlencode({**params, "with": view.name, "from": end}) if end < len(calls) else ""
    return ReplayPage(run=run, view=view, calls=calls[start:end], next_url=next_url)


def _load_view(run: Run, variant: str, params: Mapping[str, str]) -> ReplayView:
    replay = load_replay(run, variant)
    limit = parse_integer(params.get("limit"))
    limit = None if limit is None else min(limit, MAX_LIMIT)
    families = {call.family for call in replay.calls}
    offers = {family: variants for family, variants in offered_by_family(run.project).items() if family in families}
    names = dict.fromkeys([*variant_names(offers)[1:], variant])
    query = {"with": variant} | ({} if limit is None else {"limit": str(limit)})
    return ReplayView(
        replay=replay,
        totals=add_up_replay(run, replay, limit),
        choices=tuple(_choice(name, params, is_current=name == variant) for name in names),
        url=f"{reverse('run-replay', args=[run.pk])}?{urlencode(query)}",
    )


def replace_tokens(page: CallRowPage, switch: ReplaySwitch) -> CallRowPage:
    """The rows of a run's page with the variant's tokens, where it wrote the receipt."""
    if switch.view is None:
        return page
    tokens = switch.view.replay.tokens
    rows = list(page.rows)
    for index, row in enumerate(rows):
        if (count := tokens.get(UUID(row["key"]))) is not None:
            rows[index] = {**row, "tokens": f"{count:,}"}
    return replace(page, rows=tuple(rows))

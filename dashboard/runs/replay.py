"""A whole run as another variant would have written its receipts: what the history had weighed.

Only receipts change: messages stay as recorded, arguments count by their size, and what the model would
have done otherwise nobody knows. A receipt counts at the line of its call, as the last one stood.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.core.cache import cache

from dashboard.comparisons.cells import Cell
from dashboard.comparisons.columns import RECORDED, Column, UnusableColumns, bound_columns, known_names
from dashboard.comparisons.measure import rows_of
from dashboard.comparisons.subjects import subjects_of
from dashboard.models import Message, Project, Run, RunCall
from dashboard.renderers.variant_list import offered_by_family
from dashboard.runs.model_history import GAUGE_TOKENS
from envelopes.tokens import CHARACTERS_PER_TOKEN

MOST_CALLS = 3_000
PAGE = 100
KEPT_FOR = 600  # seconds
LARGEST_LIMIT = 10_000_000


@dataclass(frozen=True, kw_only=True)
class ReplayedCall:
    """`after` is None where the family has no such variant; the recorded receipt counts then."""

    key: UUID
    tool: str
    line: int
    before: int
    after: int | None
    before_running: int
    after_running: int

    @property
    def change(self) -> str:
        return "" if self.after is None else f"{self.after - self.before:+,}"


@dataclass(frozen=True, kw_only=True)
class Side:
    """`compacted_at` is the line at which the history passes the limit for the first time."""

    tokens: int
    receipts: int
    compacted_at: int | None


@dataclass(frozen=True, kw_only=True)
class Choice:
    name: str
    href: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class ReplayPage:
    run: Run
    choices: tuple[Choice, ...]
    variant: str
    versions: tuple[str, ...]
    limit: int
    before: Side
    after: Side
    calls: tuple[ReplayedCall, ...]
    total: int
    unread: int  # calls beyond MOST_CALLS, which count as recorded
    next_href: str

    @property
    def change(self) -> str:
        share = f" ({self.after.tokens / self.before.tokens - 1:+.1%})" if self.before.tokens else ""
        return f"{self.after.tokens - self.before.tokens:+,}{share}"


def replay_page(run: Run, query: Mapping[str, str]) -> ReplayPage:
    offers = offered_by_family(run.project)
    names = known_names(offers)[1:]
    name = query.get("with", names[0])
    name = name if name in names else names[0]
    limit = _number(query.get("limit", ""), GAUGE_TOKENS)
    start = _number(query.get("from", ""), 0)
    members = _members(run)
    cells, versions = _cells(run, name, members)
    calls, before, after = _weighed(run, members, cells, limit)
    rest = {"with": name} | ({"limit": limit} if limit != GAUGE_TOKENS else {})
    more = f"?{urlencode({**rest, 'from': start + PAGE})}"
    return ReplayPage(
        run=run,
        choices=tuple(
            Choice(name=one, href=f"?{urlencode({**rest, 'with': one})}", is_current=one == name) for one in names
        ),
        variant=name,
        versions=versions,
        limit=limit,
        before=before,
        after=after,
        calls=tuple(calls[start : start + PAGE]),
        total=len(calls),
        unread=max(0, len(members) - MOST_CALLS),
        next_href=more if start + PAGE < len(calls) else "",
    )


def _number(text: str, otherwise: int) -> int:
    return min(int(text), LARGEST_LIMIT) if text.isascii() and text.isdigit() and len(text) < 9 else otherwise


@dataclass(frozen=True, slots=True)
class _Member:
    key: UUID
    tool: str
    family: str
    line: int
    args: int
    receipt: int


def _members(run: Run) -> list[_Member]:
    found = RunCall.objects.filter(run=run).order_by("ordinal", "call_id")
    columns = ("call_id", "call__tool", "call__family", "ordinal", "call__args_bytes", "call__tokens")
    return [
        _Member(key, tool, family, line, -(-args // CHARACTERS_PER_TOKEN), tokens)
        for key, tool, family, line, args, tokens in found.values_list(*columns)
    ]


def _cells(run: Run, name: str, members: list[_Member]) -> tuple[dict[UUID, int], tuple[str, ...]]:
    """Tokens by call, kept until the run or a variant changes."""
    families = sorted({one.family for one in members})
    column = _column(run.project, name, families)
    versions = tuple(f"{one.id} version {one.version}" for one in column.variants.values()) if column else ()
    if column is None:
        return {}, ()
    hashes = "-".join(one.hash for one in column.variants.values())
    key = f"replay:{run.pk.hex}:{run.revision}:{len(members)}:{name}:{hash(hashes)}"
    known: dict[UUID, int] | None = cache.get(key)
    if known is None:
        ids = [one.key for one in members[:MOST_CALLS] if one.family in column.variants]
        known = dict(_measured(ids, column))
        cache.set(key, known, KEPT_FOR)
    return known, tuple(dict.fromkeys(versions))


def _column(project: Project, name: str, families: list[str]) -> Column | None:
    """None when no family of the run has it."""
    try:
        return bound_columns(project, [RECORDED, name], families)[1]
    except UnusableColumns:
        return None


def _measured(ids: list[UUID], column: Column) -> Iterator[tuple[UUID, int]]:
    alone = Column(0, column.name, column.variants)
    for row in rows_of(subjects_of(ids, with_recorded=False), [alone]):
        cell: Cell | None = row.measured(0)
        if cell is not None:
            yield row.key, cell.tokens


def _weighed(
    run: Run, members: Iterable[_Member], cells: Mapping[UUID, int], limit: int
) -> tuple[list[ReplayedCall], Side, Side]:
    """Messages and calls in the order of their lines; both histories grow beside each other."""
    messages = [(line, tokens, None) for line, tokens in Message.objects.filter(run=run).values_list("line", "tokens")]
    entries = sorted([*messages, *((one.line, one.args, one) for one in members)], key=lambda entry: entry[0])
    calls: list[ReplayedCall] = []
    running, receipts = [0, 0], [0, 0]
    passed: list[int | None] = [None, None]
    for line, tokens, member in entries:
        after = None if member is None else cells.get(member.key)
        added = (0, 0) if member is None else (member.receipt, member.receipt if after is None else after)
        for side in (0, 1):
            running[side] += tokens + added[side]
            receipts[side] += added[side]
            passed[side] = line if passed[side] is None and running[side] > limit else passed[side]
        if member is not None:
            calls.append(_replayed(member, after, running))
    before, then = (Side(tokens=running[side], receipts=receipts[side], compacted_at=passed[side]) for side in (0, 1))
    return calls, before, then


def _replayed(member: _Member, after: int | None, running: list[int]) -> ReplayedCall:
    return ReplayedCall(
        key=member.key,
        tool=member.tool,
        line=member.line,
        before=member.receipt,
        after=after,
        before_running=running[0],
        after_running=running[1],
    )

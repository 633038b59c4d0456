"""A whole run as another variant would have written its receipts, in tokens by call.

Writing a hundred thousand receipts takes longer than a page may: a request writes for SLICE_SECONDS and keeps
what it has, the next one goes on. Whoever shows these numbers says how many calls they cover.
"""

from __future__ import annotations

import hashlib
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.core.cache import cache

from dashboard.evidence.call_inputs import subjects_of
from dashboard.models import Call, Run, RunCall
from dashboard.variants.variant_list import RECORDED, UnusableColumns, VariantColumn, bind_columns
from envelopes.pipeline.render import render
from envelopes.text.tokens import CHARACTERS_PER_TOKEN, count_all

SLICE_SECONDS = 1.0
PORTION = 200  # calls between two looks at the clock
KEPT_FOR = 600  # seconds
NO_VARIANT, NOT_WRITTEN = -1, -2  # of the call's family, or nothing to write; by the variant, for this call


@dataclass(frozen=True, slots=True)
class Member:
    """A call of the run: the line that it stands at, tokens of its arguments and of its recorded receipt."""

    key: UUID
    tool: str
    family: str
    line: int
    args: int
    receipt: int
    is_answered: bool

    def is_written_by(self, column: VariantColumn) -> bool:
        """Of a call that nothing answered there is no text, whatever would have written it."""
        return self.is_answered and self.family in column.variants


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """`written` says something of the first calls of the run, in order: tokens, NO_VARIANT or NOT_WRITTEN."""

    name: str
    column: VariantColumn | None
    members: Sequence[Member]
    written: Sequence[int]

    @cached_property
    def tokens(self) -> Mapping[UUID, int]:
        """By call. One that is missing stands as it was recorded."""
        return {one.key: tokens for one, tokens in zip(self.members, self.written, strict=False) if tokens >= 0}

    @property
    def left(self) -> int:
        return len(self.members) - len(self.written)

    @property
    def failed(self) -> int:
        return sum(tokens == NOT_WRITTEN for tokens in self.written)

    @property
    def versions(self) -> tuple[str, ...]:
        variants = self.column.variants.values() if self.column else ()
        return tuple(dict.fromkeys(f"{one.id} version {one.version}" for one in variants))


def replayed(run: Run, name: str) -> Replayed:
    """What is known by now, and a slice more where that is not all of it."""
    members = list(_members(run))
    column = _column(run, name, {one.family for one in members})
    if column is None:
        return Replayed(name=name, column=None, members=members, written=[NO_VARIANT] * len(members))
    key = _key(run, column)
    written = array("i", cache.get(key, b""))
    if len(written) < len(members):
        for some in _slices(members[len(written) :], column, run.model):
            written.extend(some)
        cache.set(key, written.tobytes(), KEPT_FOR)
    return Replayed(name=name, column=column, members=members, written=written[: len(members)])


def _members(run: Run) -> Iterator[Member]:
    found = RunCall.objects.filter(run=run).order_by("ordinal", "call_id")
    columns = ("call_id", "call__tool", "call__family", "ordinal", "call__args_bytes", "call__tokens", "call__status")
    for key, tool, family, line, args, tokens, status in found.values_list(*columns):
        yield Member(
            key, tool, family, line, args // CHARACTERS_PER_TOKEN, tokens, is_answered=status != Call.Status.UNKNOWN
        )


def _column(run: Run, name: str, families: set[str]) -> VariantColumn | None:
    """None when no family of the run has it."""
    try:
        return bind_columns(run.project, [RECORDED, name], families)[1]
    except UnusableColumns:
        return None


def _key(run: Run, column: VariantColumn) -> str:
    """Another import, version or policy makes another key."""
    said = "-".join(one.hash for _, one in sorted(column.variants.items()))
    return f"replay-{run.pk.hex}-{run.revision}-{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _slices(members: Sequence[Member], column: VariantColumn, model: str) -> Iterator[list[int]]:
    until = time.monotonic() + SLICE_SECONDS
    for start in range(0, len(members), PORTION):
        some = members[start : start + PORTION]
        tokens = _tokens([one.key for one in some if one.is_written_by(column)], column, model)
        yield [tokens.get(one.key, NOT_WRITTEN if one.is_written_by(column) else NO_VARIANT) for one in some]
        if time.monotonic() > until:
            return


def _tokens(keys: Sequence[UUID], column: VariantColumn, model: str) -> dict[UUID, int]:
    texts = dict(texts_under(column, keys))
    return {key: found.count for key, found in zip(texts, count_all(list(texts.values()), model=model), strict=True)}


def texts_under(column: VariantColumn, keys: Sequence[UUID]) -> Iterator[tuple[UUID, str]]:
    """Of the calls that the variant can write."""
    for subject in subjects_of(keys, with_recorded=False):
        variant = column.variants.get(subject.family.name)
        if variant is None:
            continue
        try:
            receipt = render(subject.canonical, subject.family, variant.policy, variant=variant)
        except Exception:  # a variant may be anybody's; the call counts as not written, and the page says how many
            continue
        yield subject.key, receipt.text

"""Many calls' halves at a time, a few payloads in memory: what a comparison measures.

A rendered column needs the stored envelope and nothing else. The recorded column needs the evidence too,
which may be a hundred times as large, and is read and aligned again as on the Call page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import msgspec

from dashboard.calls.surfaces import Surfaces, surfaces_from
from dashboard.models import Artifact, Call, CanonicalProjection, Observation, Receipt
from envelopes.families import family
from envelopes.families.base import Family, FieldCut
from envelopes.finding import Shortened
from envelopes.result import CanonicalResult
from envelopes.untrusted import tame

AT_ONCE_BYTES = 4_000_000  # of payloads
AT_ONCE = 200  # as a batch has
COLUMNS = ("id", "namespace", "external_id", "tool", "family", "source_error", "is_cut", "args_bytes", "result_bytes")


@dataclass(frozen=True)
class Subject:
    """One call as it is measured. `missing` are artifacts whose content is not there."""

    call: Call
    family: Family
    canonical: CanonicalResult
    data: bytes
    cuts: tuple[Shortened, ...]
    missing: frozenset[str]
    surfaces: Surfaces | None  # only when the recorded receipt is measured


def subjects_of(ids: Sequence[UUID], *, with_recorded: bool) -> Iterator[Subject]:
    """In the order of `ids`; calls that were deleted since are left out."""
    calls = Call.objects.only(*COLUMNS, "receipt_characters", "run_id").in_bulk(ids)
    for some in _portions([calls[one] for one in ids if one in calls]):
        yield from _loaded(some, with_recorded=with_recorded)


def _portions(calls: Iterable[Call]) -> Iterator[list[Call]]:
    portion: list[Call] = []
    weight = 0
    for call in calls:
        size = call.args_bytes + call.result_bytes + call.receipt_characters
        if portion and (weight + size > AT_ONCE_BYTES or len(portion) == AT_ONCE):
            yield portion
            portion, weight = [], 0
        portion.append(call)
        weight += size
    if portion:
        yield portion


def _loaded(calls: list[Call], *, with_recorded: bool) -> Iterator[Subject]:
    stored: dict[UUID, list[CanonicalProjection]] = defaultdict(list)
    for one in CanonicalProjection.objects.filter(call__in=calls).order_by("id"):
        stored[one.call_id].append(one)
    missing: dict[UUID, set[str]] = defaultdict(set)
    gone = Artifact.objects.filter(call__in=calls, state=Artifact.State.MISSING)
    for key, path in gone.values_list("call_id", "path"):
        missing[key].add(path)
    # One envelope is the one; of several, the evidence says which.
    doubtful = calls if with_recorded else [call for call in calls if len(stored[call.pk]) != 1]
    evidence = _surfaces(doubtful, stored)
    for call in calls:
        found = evidence.get(call.pk)
        yield _subject(call, stored[call.pk], found, frozenset(missing[call.pk]), is_recorded=with_recorded)


def _surfaces(calls: Sequence[Call], stored: Mapping[UUID, Sequence[CanonicalProjection]]) -> dict[UUID, Surfaces]:
    if not calls:
        return {}
    observations: dict[UUID, list[Observation]] = defaultdict(list)
    for observation in Observation.objects.filter(call__in=calls).order_by("surface", "line", "id"):
        observations[observation.call_id].append(observation)
    receipts: dict[UUID, list[Receipt]] = defaultdict(list)
    for receipt in Receipt.objects.filter(call__in=calls).order_by("seq"):
        receipts[receipt.call_id].append(receipt)
    return {call.pk: surfaces_from(call, tuple(observations[call.pk]), tuple(receipts[call.pk]), {}) for call in calls}


def _subject(
    call: Call,
    stored: Sequence[CanonicalProjection],
    surfaces: Surfaces | None,
    missing: frozenset[str],
    *,
    is_recorded: bool,
) -> Subject:
    chosen = stored[0] if surfaces is None else surfaces.projection
    if chosen is not None:
        data, mapping = bytes(chosen.data), chosen.mapping
        lost = msgspec.json.decode(bytes(chosen.cuts), type=tuple[FieldCut, ...])
    else:
        surfaces = surfaces or _surfaces([call], {})[call.pk]
        data, mapping = surfaces.canonical, surfaces.halves.mapping
        lost = surfaces.halves.projection.cuts
    return Subject(
        call=call,
        family=family(mapping.partition(":")[0]),
        canonical=CanonicalResult.from_json(tame(data)),
        data=data,
        cuts=tuple(Shortened(one.pointer, one.cut) for one in lost),
        missing=missing,
        surfaces=surfaces if is_recorded else None,
    )

"""Many calls' halves at a time, a few payloads in memory: what a comparison measures.

A rendered column needs the stored envelope and nothing else, and envelopes are bounded. The recorded column
needs the evidence too, which may be a hundred times as large, and is read and aligned again as on the Call page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from django.db.models import QuerySet

from dashboard.evidence.call_evidence import Surfaces, surfaces_from
from dashboard.models import Artifact, Call, CanonicalProjection, Observation, Receipt
from dashboard.prepared import given, prepared
from envelopes.families.base import Family, FieldCut
from envelopes.families.registry import family
from envelopes.lint.model import Shortened
from envelopes.schema.result import CanonicalResult
from envelopes.text.untrusted_json import parse_json

AT_ONCE = 200  # calls, as a batch has
AT_ONCE_BYTES = 4_000_000  # of evidence
CALL = ("id", "tool", "args_bytes", "result_bytes", "receipt_characters")
EVIDENCE = ("namespace", "external_id", "tool", "family", "source_error", "is_cut", "status", "run_id")
NO_CUTS = b"[]"

_cuts = msgspec.json.Decoder(tuple[FieldCut, ...])


class Subject(msgspec.Struct, frozen=True):
    """One call as it is measured. `missing` are artifacts whose content is not there."""

    key: UUID
    tool: str
    family: Family
    canonical: CanonicalResult
    data: bytes
    cuts: tuple[Shortened, ...]
    missing: frozenset[str]
    surfaces: Surfaces | None  # only when the recorded receipt is measured


class _Envelope(NamedTuple):
    mapping: str
    data: bytes
    cuts: bytes


class _Stored(NamedTuple):
    """A call with its envelopes, of which there is more than one when several sources spoke."""

    key: UUID
    tool: str
    weight: int
    envelopes: list[_Envelope]


def subjects_of(ids: Sequence[UUID], *, with_recorded: bool) -> Iterator[Subject]:
    """In the order of `ids`. Left out are calls that were deleted since, those that nothing answered, whose
    envelope would claim a result, and those that a family read whose package is no longer installed."""
    for start in range(0, len(ids), AT_ONCE):
        some = ids[start : start + AT_ONCE]
        found = _stored(some)
        missing = _missing(some)
        for portion in _portions([found[one] for one in some if one in found], is_light=not with_recorded):
            # One envelope is the one; of several, the evidence says which.
            doubtful = [one.key for one in portion if with_recorded or len(one.envelopes) != 1]
            evidence = _surfaces(doubtful)
            for one in portion:
                gone = frozenset(missing.get(one.key, ()))
                subject = _subject(one, evidence.get(one.key), gone, is_recorded=with_recorded)
                if subject is not None:
                    yield subject


def _portions(calls: Sequence[_Stored], *, is_light: bool) -> Iterator[Sequence[_Stored]]:
    portion: list[_Stored] = []
    weight = 0
    for call in calls:
        if portion and not is_light and weight + call.weight > AT_ONCE_BYTES:
            yield portion
            portion, weight = [], 0
        portion.append(call)
        weight += call.weight
    if portion:
        yield portion


def _any_of(field: str) -> dict[str, Any]:
    return {f"{field}__in": [given(f"id_{place}", Call, "id") for place in range(AT_ONCE)]}


def _ids(ids: Sequence[UUID]) -> dict[str, UUID]:
    """For the places of `_any_of`: fewer are filled up, so that one compiled query serves any number."""
    return {f"id_{place}": ids[min(place, len(ids) - 1)] for place in range(AT_ONCE)}


@prepared
def _envelopes() -> QuerySet[Any, Any]:
    answered = Call.objects.filter(**_any_of("id")).exclude(status=Call.Status.UNKNOWN)
    stored = ("projections__mapping", "projections__data", "projections__cuts")
    return answered.order_by().values_list(*CALL, *stored)


@prepared
def _artifacts() -> QuerySet[Any, Any]:
    gone = Call.objects.filter(**_any_of("id"), artifacts__state=Artifact.State.MISSING)
    return gone.order_by().values_list("id", "artifacts__path")


def _stored(ids: Sequence[UUID]) -> dict[UUID, _Stored]:
    found: dict[UUID, _Stored] = {}
    for key, tool, args, result, receipt, mapping, data, cuts in _envelopes(**_ids(ids)):
        one = found.setdefault(key, _Stored(key, tool, args + result + receipt, []))
        if mapping is not None:
            one.envelopes.append(_Envelope(mapping, bytes(data), bytes(cuts)))
    return found


def _missing(ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    found: dict[UUID, list[str]] = defaultdict(list)
    for key, path in _artifacts(**_ids(ids)):
        found[key].append(path)
    return found


def _surfaces(keys: Sequence[UUID]) -> dict[UUID, Surfaces]:
    if not keys:
        return {}
    observations: dict[UUID, list[Observation]] = defaultdict(list)
    for observation in Observation.objects.filter(call__in=keys).order_by("surface", "line", "id"):
        observations[observation.call_id].append(observation)
    receipts: dict[UUID, list[Receipt]] = defaultdict(list)
    for receipt in Receipt.objects.filter(call__in=keys).order_by("seq"):
        receipts[receipt.call_id].append(receipt)
    stored: dict[UUID, list[CanonicalProjection]] = defaultdict(list)
    for one in CanonicalProjection.objects.filter(call__in=keys).order_by("id"):
        stored[one.call_id].append(one)
    return {
        key: surfaces_from(call, tuple(observations[key]), tuple(receipts[key]), {}, tuple(stored[key]))
        for key, call in Call.objects.only(*EVIDENCE).in_bulk(keys).items()
    }


def _chosen(call: _Stored, surfaces: Surfaces | None) -> _Envelope:
    if surfaces is None:
        return call.envelopes[0]
    if (kept := surfaces.projection) is not None:
        return _Envelope(kept.mapping, bytes(kept.data), bytes(kept.cuts))
    made = surfaces.halves
    return _Envelope(made.mapping, surfaces.canonical, msgspec.json.encode(made.projection.cuts))


def _subject(call: _Stored, surfaces: Surfaces | None, missing: frozenset[str], *, is_recorded: bool) -> Subject | None:
    chosen = _chosen(call, surfaces)
    try:
        owner = family(chosen.mapping.partition(":")[0])
    except KeyError:
        return None
    data = chosen.data
    lost = () if chosen.cuts == NO_CUTS else _cuts.decode(chosen.cuts)
    return Subject(
        key=call.key,
        tool=call.tool,
        family=owner,
        canonical=CanonicalResult.from_json(parse_json(data)),
        data=data,
        cuts=tuple([Shortened(one.pointer, one.cut) for one in lost]),
        missing=missing,
        surfaces=surfaces if is_recorded else None,
    )

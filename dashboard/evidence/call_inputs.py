"""Loads the stored envelopes of many calls, and their evidence where the recorded receipt is needed too.

Envelopes are bounded in size. Evidence may be a hundred times as large, so it is loaded for a few calls at a time, and
read and aligned again as on the Call page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from dashboard.evidence.call_evidence import CallEvidence, build_evidence
from dashboard.models import Artifact, Call, CanonicalProjection, Observation, RecordedReceipt
from envelopes.families.base import Family, FieldCut
from envelopes.families.registry import family
from envelopes.lint.model import Shortened
from envelopes.schema.result import CanonicalResult
from envelopes.text.untrusted_json import parse_json

CALLS_AT_ONCE = 200  # as many as a batch of a comparison has
EVIDENCE_BYTES_AT_ONCE = 4_000_000
EVIDENCE_COLUMNS = ("namespace", "external_id", "tool", "family", "source_error", "is_cut", "status", "run_id")
NO_CUTS = b"[]"

_cuts = msgspec.json.Decoder(tuple[FieldCut, ...])


class CallInput(msgspec.Struct, frozen=True):
    """What variants render of one call. `missing` are paths of artifacts whose content is not stored."""

    key: UUID
    tool: str
    family: Family
    canonical: CanonicalResult
    data: bytes
    cuts: tuple[Shortened, ...]
    missing: frozenset[str]
    surfaces: CallEvidence | None  # only when the recorded receipt is needed


class _Envelope(NamedTuple):
    mapping: str
    data: bytes
    cuts: bytes


class _StoredCall(NamedTuple):
    """A call with its envelopes: more than one when several sources reported it."""

    key: UUID
    tool: str
    evidence_bytes: int
    envelopes: list[_Envelope]


def load_call_inputs(ids: Sequence[UUID], *, with_recorded: bool) -> Iterator[CallInput]:
    """In the order of `ids`, without calls that were deleted, never answered, or read by an uninstalled family.

    An envelope of an unanswered call would claim a result. `with_recorded` loads the evidence of every call.
    """
    for start in range(0, len(ids), CALLS_AT_ONCE):
        portion = ids[start : start + CALLS_AT_ONCE]
        stored = _load_envelopes(portion)
        missing = _load_missing_artifacts(portion)
        calls = [stored[key] for key in portion if key in stored]
        for group in _split_by_evidence(calls) if with_recorded else [calls]:
            # Of several envelopes, and of none, the evidence decides which one counts.
            uncertain = [call.key for call in group if with_recorded or len(call.envelopes) != 1]
            evidence = _load_evidence(uncertain) if uncertain else {}
            for call in group:
                surfaces = evidence.get(call.key)
                envelope = call.envelopes[0] if surfaces is None else _choose_envelope(surfaces)
                try:
                    owner = family(envelope.mapping.partition(":")[0])
                except KeyError:
                    continue
                cuts = () if envelope.cuts == NO_CUTS else _cuts.decode(envelope.cuts)
                yield CallInput(
                    key=call.key,
                    tool=call.tool,
                    family=owner,
                    canonical=CanonicalResult.from_json(parse_json(envelope.data)),
                    data=envelope.data,
                    cuts=tuple([Shortened(cut.pointer, cut.cut) for cut in cuts]),
                    missing=frozenset(missing.get(call.key, ())),
                    surfaces=surfaces if with_recorded else None,
                )


def _load_envelopes(ids: Sequence[UUID]) -> dict[UUID, _StoredCall]:
    rows = Call.objects.filter(id__in=ids).exclude(status=Call.Status.UNKNOWN).order_by()
    sizes = ("args_bytes", "result_bytes", "receipt_characters")
    columns = ("projections__mapping", "projections__data", "projections__cuts")
    calls: dict[UUID, _StoredCall] = {}
    for key, tool, args, result, receipt, mapping, data, cuts in rows.values_list("id", "tool", *sizes, *columns):
        call = calls.setdefault(key, _StoredCall(key, tool, args + result + receipt, []))
        if mapping is not None:
            call.envelopes.append(_Envelope(mapping, bytes(data), bytes(cuts)))
    return calls


def _load_missing_artifacts(ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    paths: dict[UUID, list[str]] = defaultdict(list)
    artifacts = Artifact.objects.filter(call__in=ids, state=Artifact.State.MISSING).order_by()
    for key, path in artifacts.values_list("call_id", "path"):
        paths[key].append(path)
    return paths


def _split_by_evidence(calls: Sequence[_StoredCall]) -> Iterator[Sequence[_StoredCall]]:
    """Groups of calls with at most EVIDENCE_BYTES_AT_ONCE of evidence, or of a single call with more."""
    group: list[_StoredCall] = []
    size = 0
    for call in calls:
        if group and size + call.evidence_bytes > EVIDENCE_BYTES_AT_ONCE:
            yield group
            group, size = [], 0
        group.append(call)
        size += call.evidence_bytes
    if group:
        yield group


def _load_evidence(keys: Sequence[UUID]) -> dict[UUID, CallEvidence]:
    observations: dict[UUID, list[Observation]] = defaultdict(list)
    for observation in Observation.objects.filter(call__in=keys).order_by("surface", "line", "id"):
        observations[observation.call_id].append(observation)
    receipts: dict[UUID, list[RecordedReceipt]] = defaultdict(list)
    for receipt in RecordedReceipt.objects.filter(call__in=keys).order_by("seq"):
        receipts[receipt.call_id].append(receipt)
    projections: dict[UUID, list[CanonicalProjection]] = defaultdict(list)
    for projection in CanonicalProjection.objects.filter(call__in=keys).order_by("id"):
        projections[projection.call_id].append(projection)
    return {
        key: build_evidence(call, tuple(observations[key]), tuple(receipts[key]), {}, tuple(projections[key]))
        for key, call in Call.objects.only(*EVIDENCE_COLUMNS).in_bulk(keys).items()
    }


def _choose_envelope(surfaces: CallEvidence) -> _Envelope:
    stored = surfaces.projection
    if stored is not None:
        return _Envelope(stored.mapping, bytes(stored.data), bytes(stored.cuts))
    halves = surfaces.halves
    return _Envelope(halves.mapping, surfaces.canonical, msgspec.json.encode(halves.projection.cuts))

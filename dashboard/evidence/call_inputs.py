"""The input of variants for many calls: loaded here, read here or in a process without a database.

    load_stored_calls(ids)   what the store has of each call, as bytes that another process can be sent
    read_inputs(stored)      the same calls as variants take them: a pure function
    load_call_inputs(ids)    both at once

A comparison loads in the process that writes, and renders in others. Envelopes are bounded in size; evidence is loaded
only where the recorded receipt is needed, or where a call has no stored envelope yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

import msgspec

from dashboard.evidence.call_evidence import (
    CALLS_AT_ONCE,
    NO_CUTS,
    CallEvidence,
    load_many_evidence,
    parse_envelope,
    split_by_evidence,
)
from dashboard.evidence.execution import recorded_skip
from dashboard.models import Artifact, Call, load_slices
from envelopes.families.base import Family, FieldCut
from envelopes.families.registry import family, projection_fingerprint
from envelopes.halves import Halves, read_halves
from envelopes.lint.model import Shortened
from envelopes.schema.result import CanonicalResult, ToolError
from envelopes.text.untrusted_json import dump_json, parse_json

COLUMNS = (
    *("namespace", "external_id", "tool", "family", "source_error", "is_cut", "author", "status", "run_id"),
    *("args_bytes", "result_bytes", "receipt_characters"),
)
_cuts = msgspec.json.Decoder(tuple[FieldCut, ...])


class RecordedBytes(msgspec.Struct, frozen=True, array_like=True):
    """The recorded bytes of one call that are in view, and the columns that their reading depends on.

    `mapping` is that of the stored envelope, empty where there is none. `author` and `is_cut` are of the receipt.
    """

    namespace: str
    args: bytes
    result: bytes | None
    content: bytes | None
    answer: bytes | None
    is_answer_sent: bool
    is_error: bool | None
    skip: ToolError | None
    mapping: str
    author: str
    is_cut: bool


class StoredCall(msgspec.Struct, frozen=True, array_like=True):
    """One call as the store has it. `data` is the envelope as JSON, `cuts` are those of its fields, as JSON.

    `versions` are those of the mapping and the policy that made `data`; both are empty where no envelope is stored,
    and `recorded` is then what it follows from. `missing` are paths of artifacts whose content is not stored.
    """

    key: UUID
    tool: str
    versions: str
    data: bytes
    cuts: bytes
    missing: tuple[str, ...]
    recorded: RecordedBytes | None = None

    @property
    def size(self) -> int:
        """Bytes of the envelope and of the recorded halves."""
        row = self.recorded
        evidence = 0 if row is None else len(row.args) + len(row.result or b"") + len(row.content or b"")
        return len(self.data) + evidence

    def read_halves(self) -> Halves | None:
        """Both halves as recorded; None without the recorded bytes."""
        row = self.recorded
        if row is None:
            return None
        return read_halves(
            agent=row.namespace,
            tool=self.tool,
            args=row.args,
            result=row.result,
            content=row.content,
            answer=row.answer,
            is_answer_sent=row.is_answer_sent,
            is_error=row.is_error,
            skip=row.skip,
            stored=lambda mapping: parse_envelope(self.data) if mapping == row.mapping else None,
        )


class CallInput(msgspec.Struct, frozen=True):
    """The input of variants for one call. `missing` are paths of artifacts whose content is not stored.

    `halves` are those of the recorded bytes, where these were loaded; `author` and `is_cut` are of their receipt.
    """

    key: UUID
    tool: str
    family: Family
    canonical: CanonicalResult
    data: bytes
    versions: str  # of the mapping and the policy that made `data`
    cuts: tuple[Shortened, ...]
    missing: frozenset[str]
    halves: Halves | None
    author: str = ""
    is_cut: bool = False


def load_call_inputs(ids: Sequence[UUID], *, with_recorded: bool) -> Iterator[CallInput]:
    """In the order of `ids`, without calls that were deleted, never answered, or read by an uninstalled family.

    An envelope of an unanswered call would claim a result. `with_recorded` loads the evidence of every call. Raises
    DamagedEvidence.
    """
    return read_inputs(load_stored_calls(ids, with_recorded=with_recorded))


def load_stored_calls(ids: Sequence[UUID], *, with_recorded: bool) -> Iterator[StoredCall]:
    """In the order of `ids`, without calls that were deleted or never answered. Raises DamagedEvidence."""
    for start in range(0, len(ids), CALLS_AT_ONCE):
        portion = ids[start : start + CALLS_AT_ONCE]
        rows = Call.objects.exclude(status=Call.Status.UNKNOWN).select_related("projection__observation")
        stored = rows.only(*COLUMNS, "projection").in_bulk(portion)
        missing = _load_missing_artifacts(portion)
        for group in split_by_evidence([stored[key] for key in portion if key in stored]):
            uncertain = [call for call in group if with_recorded or not hasattr(call, "projection")]
            loaded = load_many_evidence(uncertain, {}) if uncertain else {}
            envelopes = [call.projection for call in group if call.pk not in loaded]
            load_slices(row.observation for row in envelopes if row.observation)
            for call in group:
                yield _store_call(call, tuple(missing.get(call.pk, ())), loaded.get(call.pk))


def _store_call(call: Call, missing: tuple[str, ...], evidence: CallEvidence | None) -> StoredCall:
    envelope = call.projection if evidence is None else evidence.projection
    versions, data, cuts = "", b"", NO_CUTS
    if envelope is not None:
        versions, data, cuts = envelope.versions, envelope.data, bytes(envelope.cuts)
    recorded = None
    if evidence is not None:
        recorded = RecordedBytes(
            namespace=call.namespace,
            args=evidence.args,
            result=evidence.result,
            content=evidence.content,
            answer=bytes(evidence.answer.data) if evidence.answer else None,
            is_answer_sent=evidence.is_answer_sent,
            is_error=call.source_error,
            skip=recorded_skip(next((row for row in evidence.observations if row.surface == "timing"), None)),
            mapping="" if envelope is None else envelope.mapping,
            author=evidence.call.author,
            is_cut=evidence.call.is_cut,
        )
    return StoredCall(call.pk, call.tool, versions, data, cuts, missing, recorded)


def read_inputs(stored_calls: Iterable[StoredCall]) -> Iterator[CallInput]:
    """In the same order, without calls that were read by a family that is not installed here. Asks no database."""
    for call in stored_calls:
        halves = call.read_halves()
        versions, data, cuts = call.versions, call.data, call.cuts
        if halves is not None and not versions:
            versions = f"{halves.mapping} {projection_fingerprint(family(halves.family))}"
            data = dump_json(halves.projection.canonical.to_json())
            cuts = msgspec.json.encode(halves.projection.cuts)
        try:
            owner = family(versions.partition(":")[0])
        except KeyError:
            continue
        field_cuts = () if cuts == NO_CUTS else _cuts.decode(cuts)
        yield CallInput(
            key=call.key,
            tool=call.tool,
            family=owner,
            canonical=CanonicalResult.from_json(parse_json(data)),
            data=data,
            versions=versions,
            cuts=tuple([Shortened(cut.pointer, cut.cut) for cut in field_cuts]),
            missing=frozenset(call.missing),
            halves=halves,
            author=call.recorded.author if call.recorded else "",
            is_cut=call.recorded.is_cut if call.recorded else False,
        )


def _load_missing_artifacts(ids: Sequence[UUID]) -> dict[UUID, list[str]]:
    paths: dict[UUID, list[str]] = defaultdict(list)
    artifacts = Artifact.objects.filter(call__in=ids, state=Artifact.State.MISSING).order_by()
    for key, path in artifacts.values_list("call_id", "path"):
        paths[key].append(path)
    return paths

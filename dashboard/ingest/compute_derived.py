"""Computes what is derived of calls: from the store, or from bytes in a process that has none.

    compute_calls(keys)              reads the evidence of calls and derives
    load_recorded_calls(keys)        the evidence alone, which `pack_calls` encodes for another process
    compute_portion(packed, keys)    derives packed calls, and those of which it reads the evidence
    count_calls(calls)               derives the columns of rows in memory, of those that wait

Nothing is written here: `store_derived` stores the results.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from django.db import models

from dashboard.evidence.call_evidence import CallEvidence
from dashboard.evidence.hook_outputs import HookOutput, load_hook_outputs
from dashboard.ingest.bulk import ModelRow, unsaved_row
from dashboard.ingest.derive import Derived, RecordedCall, derive
from dashboard.models import Call, CanonicalProjection, Observation, RecordedReceipt, load_slices
from dashboard.models.search import Entry, prepare_entry
from dashboard.variants.fingerprints import envelope_sha256, read_fingerprint
from envelopes.families.registry import all_families, projection_fingerprint, unlisted_versions
from envelopes.text.tokens import TokenCount, count_all, current_encoding
from envelopes.variants import variants_for

CUT_VERSION = 7  # of lines, cuts and authors of receipts: raise it with the rules of alignment, cuts and rewrites
COUNTS_VERSION = 15  # of the other columns


class DerivedCall(NamedTuple):
    """Everything derived of a call from the evidence of `evidence_version`; rows as dictionaries of their columns."""

    key: UUID
    evidence_version: int
    columns: dict[str, Any]
    projection: dict[str, Any]
    artifacts: list[dict[str, Any]]
    receipts: list[dict[str, Any]]  # the rows of RecordedReceipt whose columns follow
    fingerprints: list[dict[str, Any]]  # of those receipts that state the variant that wrote them
    remarks: list[dict[str, Any]]
    entry: Entry  # of the index of payloads
    note: str
    subject: UUID | None  # the observation that the note is about


@cache
def current_derivation() -> str:
    """The versions of all that derives: mappings and policies of envelopes, tokens, cuts, counts, renderers."""
    digest = hashlib.blake2b(f"{unlisted_versions()}\n".encode(), digest_size=6)
    variants: set[tuple[str, int]] = set()
    for family in all_families():
        mappings = sorted({(mapping.agent, mapping.version) for mapping in family.mappings})
        digest.update(f"{family.name} {projection_fingerprint(family)} {mappings}\n".encode())
        variants |= {(variant.id, variant.version) for variant in variants_for(family)}
    renderers = hashlib.blake2b(repr(sorted(variants)).encode(), digest_size=3)
    return f"{digest.hexdigest()}.{current_encoding()}.{CUT_VERSION}.{COUNTS_VERSION}.{renderers.hexdigest()}"


def compute_calls(keys: Sequence[UUID]) -> list[DerivedCall]:
    """Reads the evidence of these calls and derives. Writes nothing, so any process may do it."""
    return derive_calls(load_recorded_calls(keys))


def count_calls(calls: Iterable[Call]) -> None:
    """Gives calls that wait the columns and the envelopes that an import would store; they are not saved."""
    waiting = {call.pk: call for call in calls if not call.derivation}
    for derived in compute_calls([*waiting]) if waiting else ():
        call = waiting[derived.key]
        vars(call).update(derived.columns | {"derivation": current_derivation()})
        call.projection = unsaved_row(CanonicalProjection, **derived.projection)


def update_columns(evidence: CallEvidence, hooks: Sequence[HookOutput]) -> None:
    """The same for a call whose evidence is loaded: without the envelope."""
    recorded = RecordedCall(evidence.call, evidence.observations, evidence.receipts, hooks)
    vars(evidence.call).update(derive(recorded).columns | {"derivation": current_derivation()})


def derive_calls(recorded: Sequence[RecordedCall]) -> list[DerivedCall]:
    products = [derive(call) for call in recorded]
    texts: dict[str, list[str]] = defaultdict(list)  # by model
    for call, product in zip(recorded, products, strict=True):
        texts[call.model] += product.texts
    counts = {model: iter(count_all(model_texts, model=model)) for model, model_texts in texts.items()}
    return [
        _derived_call(call, product, [next(counts[call.model]) for _ in product.texts])
        for call, product in zip(recorded, products, strict=True)
    ]


def _derived_call(recorded: RecordedCall, product: Derived, counts: Sequence[TokenCount]) -> DerivedCall:
    """`counts` are of the product's texts; that of the call's own receipt is the first."""
    call = recorded.call
    tokens = dict(zip(product.receipts, counts, strict=False))
    return DerivedCall(
        key=call.pk,
        evidence_version=call.evidence_version,
        columns=product.columns | {"tokens": counts[0].count, "token_certainty": counts[0].certainty},
        projection=_values(product.projection),
        artifacts=[_values(artifact) for artifact in product.artifacts],
        receipts=[
            {"id": receipt.pk, "tokens": tokens[key].count} | product.receipts[key].columns
            for receipt in recorded.receipts
            if (key := receipt.observation_id) in product.receipts and key is not None
        ],
        fingerprints=list(_fingerprints(recorded, product)),
        remarks=product.remarks,
        entry=prepare_entry(product.searched),
        note=product.note,
        subject=product.subject.pk if product.subject else None,
    )


def _fingerprints(recorded: RecordedCall, product: Derived) -> Iterator[dict[str, Any]]:
    """Rows of ReceiptFingerprint for receipts whose records state the variant that wrote them."""
    deliveries = [row for row in recorded.observations if row.surface == Observation.Surface.DELIVERY]
    records = {(row.source_id, row.line): row.data for row in deliveries}
    for receipt in recorded.receipts if records else ():
        sent = product.receipts.get(receipt.observation_id) if receipt.observation_id else None
        record = records.get(sent.place) if sent and sent.place else None
        stated = read_fingerprint(recorded.call.project_id, record, sent.text) if sent and record else None
        if stated is not None:
            product.projection.observation = product.subject  # whose bytes are loaded
            is_same = envelope_sha256(product.projection.data) == stated["canonical_sha256"]
            projected_by = product.projection.versions if is_same else ""
            yield {"receipt_id": receipt.pk, **stated, "projected_by": projected_by, "drift": "", "checked_at": None}


def _values(row: models.Model) -> dict[str, Any]:
    return {name: value for name, value in vars(row).items() if name != "_state"}


CALL_COLUMNS = (
    *("id", "project_id", "run_id", "namespace", "tool", "source_error", "evidence_version"),
    *("source_id", "line", "started_at", "ended_at"),
)
OBSERVATION_COLUMNS = ("id", "surface", "line", "sha256", "fidelity", "selected", "source_id", "size", "data")
STORED_COLUMNS = (*OBSERVATION_COLUMNS[:-1], "call_id", "start", "own_data")
RECEIPT_COLUMNS = ("id", "run_id", "seq", "observation_id", "superseded_line", "superseded_reason")
PackedCall: TypeAlias = tuple[
    tuple[UUID, int, UUID, str, str, bool | None, int, int | None, int, datetime | None, datetime | None],
    list[tuple[UUID, str, int, str, str, bool, int | None, int, bytes]],
    list[tuple[UUID, UUID, int, UUID | None, int | None, str]],
    list[HookOutput],
    str,
]
_call_values: Callable[[Call], tuple[Any, ...]] = attrgetter(*CALL_COLUMNS)
_observation_values: Callable[[Observation], tuple[Any, ...]] = attrgetter(*OBSERVATION_COLUMNS)
_receipt_values: Callable[[RecordedReceipt], tuple[Any, ...]] = attrgetter(*RECEIPT_COLUMNS)
_packed_calls = msgspec.msgpack.Decoder(list[PackedCall])


def load_recorded_calls(keys: Sequence[UUID]) -> list[RecordedCall]:
    """Those of the calls that exist, each with its evidence. Five queries. Raises DamagedEvidence.

    Only with the columns that `derive` reads: whole rows take twice as long.
    """
    rows = Call.objects.filter(pk__in=keys).values_list(*CALL_COLUMNS, "run__model")
    calls = [(_unsaved(Call, CALL_COLUMNS, values), model) for *values, model in rows]
    stored = Observation.objects.filter(call__in=keys).order_by("surface", "line", "id")
    slices = [_unsaved(Observation, STORED_COLUMNS, values) for values in stored.values_list(*STORED_COLUMNS)]
    load_slices(slices)
    observations: dict[UUID, list[Observation]] = defaultdict(list)
    for observation in slices:
        observations[observation.call_id].append(observation)
    receipts: dict[UUID, list[RecordedReceipt]] = defaultdict(list)
    sent = RecordedReceipt.objects.filter(call__in=keys).order_by("seq")
    for call, *values in sent.values_list("call_id", *RECEIPT_COLUMNS):
        receipts[call].append(_unsaved(RecordedReceipt, RECEIPT_COLUMNS, values))
    hooks = load_hook_outputs({call.pk: call.tool for call, _ in calls})
    return [
        RecordedCall(call, observations[call.pk], receipts[call.pk], hooks.get(call.pk, ()), model)
        for call, model in calls
    ]


def _unsaved(model: type[ModelRow], columns: Sequence[str], values: Sequence[Any]) -> ModelRow:
    return unsaved_row(model, **dict(zip(columns, values, strict=True)))


def pack_calls(recorded: Iterable[RecordedCall]) -> bytes:
    """Encodes what `derive` reads of these calls, for another process. Pickled models take six times as long."""
    return msgspec.msgpack.encode(
        [
            (
                _call_values(call.call),
                [_observation_values(row) for row in call.observations],
                [_receipt_values(row) for row in call.receipts],
                list(call.hooks),
                call.model,
            )
            for call in recorded
        ]
    )


def unpack_calls(packed: bytes) -> list[RecordedCall]:
    return [
        RecordedCall(
            _unsaved(Call, CALL_COLUMNS, call),
            [_unsaved(Observation, OBSERVATION_COLUMNS, row) for row in observations],
            [_unsaved(RecordedReceipt, RECEIPT_COLUMNS, row) for row in receipts],
            hooks,
            model,
        )
        for call, observations, receipts, hooks, model in _packed_calls.decode(packed)
    ]


def compute_portion(packed: bytes, keys: Sequence[UUID]) -> list[DerivedCall]:
    """Derives calls that were packed with their evidence, and those of which it is read here."""
    return derive_calls(unpack_calls(packed)) + (compute_calls(keys) if keys else [])

"""One call's evidence: its observations, the ones in view, and both halves read from those.

Several sources may report the same surface, and an earlier receipt may have been replaced. The query string chooses
observations by id (`?args= ?result= ?receipt=`); without it the selected ones are in view, and of receipts the one
that is current in the run that the reader came from (`?run=`), or in the call's own run. Evidence may be a hundred
times as large as an envelope, so of many calls it is loaded for a few at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from uuid import UUID

import msgspec

from dashboard.evidence.execution import recorded_skip
from dashboard.models import (
    Call,
    CanonicalProjection,
    Observation,
    RecordedReceipt,
    current_receipts,
    find_replaced,
    load_slices,
    receipts_in,
    select_receipt,
)
from dashboard.text.params import Params
from envelopes.alignment.receipt_parts import join_contents
from envelopes.families.base import FieldCut
from envelopes.halves import Halves, project_complete, read_halves
from envelopes.pipeline.project import Projection
from envelopes.schema.result import CanonicalResult, InvalidOutput
from envelopes.text.pointer import text_at
from envelopes.text.tokens import TokenCount, count_tokens
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

SURFACES = ("args", "result", "receipt")
MAX_LINKS = 200
COMPLETE_BYTES = 100_000  # of a result whose canonical form is built member by member for a page
# What an envelope has in place of details that were too large, and of a result that was.
BOUNDED_MARKS = (b'"omitted":true', b'"result_characters":', b'"error_characters":')


@dataclass(frozen=True)
class CallEvidence:
    """`chosen` has the observation of each surface that is in view.

    `joined` are the receipts in view where the model got several that count together: `chosen` has the last of them.
    `receipts` are those of one run; `replacements` are observations that followed another receipt in any run. `first`
    is the number of characters of the receipt that are aligned with their sources, None for all.
    """

    call: Call
    observations: tuple[Observation, ...]
    receipts: tuple[RecordedReceipt, ...]
    chosen: Mapping[str, Observation]
    first: int | None = None
    replacements: frozenset[UUID | None] = frozenset()
    joined: tuple[Observation, ...] = ()

    @property
    def args(self) -> bytes:
        return self.bytes_of("args") or b"null"

    @property
    def result(self) -> bytes | None:
        return self.bytes_of("result")

    @property
    def content(self) -> bytes | None:
        if self.joined:
            return join_contents([bytes(observation.data) for observation in self.joined])
        return self.bytes_of("receipt")

    @cached_property
    def _first(self) -> RecordedReceipt | None:
        first = None if self.joined else find_replaced(self.receipts)
        return None if first is self.receipt else first

    @cached_property
    def answer(self) -> Observation | None:
        """The first receipt, where the one in view took its place."""
        key = self._first.observation_id if self._first else None
        return next((row for row in self.observations if row.pk == key), None)

    @property
    def is_answer_sent(self) -> bool:
        """True where the model had the first receipt before."""
        return self._first is not None and self._first.was_replaced_later

    @property
    def is_further(self) -> bool:
        """True for one receipt alone that the model got behind others which it still has."""
        return not self.joined and self.receipt in current_receipts(self.receipts)[1:]

    def bytes_of(self, surface: str) -> bytes | None:
        observation = self.chosen.get(surface)
        return None if observation is None else bytes(observation.data)

    @property
    def is_answered(self) -> bool:
        """False without a result: the envelope of such a call would claim a success."""
        return self.call.status != Call.Status.UNKNOWN

    @property
    def has_canonical(self) -> bool:
        """False where no result was recorded and no error is known: the envelope would be invented."""
        is_recorded = self.result is not None or self.halves.reading.fidelity == "parsed_from_receipt"
        return self.is_answered and (is_recorded or self.envelope.error is not None)

    @cached_property
    def receipt(self) -> RecordedReceipt | None:
        """The row of the receipt in view; None for one that only another source reports."""
        chosen = self.chosen.get("receipt")
        if chosen is None:
            return None
        return next((receipt for receipt in self.receipts if receipt.observation_id == chosen.pk), None)

    @cached_property
    def halves(self) -> Halves:
        # At import no line of the outputs was missing: then a beginning can be aligned by itself.
        is_long = self.first is not None and len(self.content or b"") > self.first
        is_known_whole = is_long and not self.call.is_cut and not self.call.author
        is_as_imported = all(observation.selected for observation in self.chosen.values())
        return read_halves(
            agent=self.call.namespace,
            tool=self.call.tool,
            args=self.args,
            result=self.result,
            content=self.content,
            answer=bytes(self.answer.data) if self.answer else None,
            is_answer_sent=self.is_answer_sent,
            is_error=self.call.source_error,
            skip=recorded_skip(next((row for row in self.observations if row.surface == "timing"), None)),
            is_further=self.is_further,
            stored=self._stored_envelope,
            first=self.first if is_known_whole and is_as_imported else None,
        )

    @cached_property
    def projection(self) -> CanonicalProjection | None:
        """The stored envelope of what is in view, under any mapping; None when another observation was chosen."""
        subject = self.chosen.get("result") or self.answer or self.chosen.get("receipt") or self.chosen.get("args")
        row: CanonicalProjection | None = getattr(self.call, "projection", None)
        if row is None or subject is None or row.observation_id is None:
            return row
        if row.observation_id != subject.pk:
            return None
        row.observation = subject  # whose bytes may be loaded
        return row

    @cached_property
    def canonical(self) -> bytes:
        """The stored envelope where it is of what is in view, else one that is computed now."""
        if self.projection is not None:
            return self.projection.data
        return dump_json(self.halves.projection.canonical.to_json())

    @cached_property
    def envelope(self) -> CanonicalResult:
        """The canonical result in view, or today's projection where the stored one cannot be read."""
        if self.projection is None or self.projection.mapping == self.halves.mapping:
            return self.halves.projection.canonical
        return parse_envelope(self.canonical) or self.halves.projection.canonical

    @cached_property
    def own_cuts(self) -> tuple[FieldCut, ...]:
        """The fields that our projection shortened in the canonical result."""
        if self.projection is None:
            return self.halves.projection.cuts
        cuts = bytes(self.projection.cuts)
        return () if cuts == NO_CUTS else _cuts.decode(cuts)

    @property
    def is_bounded(self) -> bool:
        """True where our projection shortened something: a field, the details of an error, or the whole result."""
        return bool(self.own_cuts) or any(mark in self.canonical for mark in BOUNDED_MARKS)

    @cached_property
    def is_slow_to_complete(self) -> bool:
        """True for a long result that our projection shortened elsewhere than in texts that were recorded as such.

        Its canonical form would be built member by member; a page shows it as it was recorded.
        """
        if not self.is_bounded or len(self.result or b"") <= COMPLETE_BYTES:
            return False
        recorded, links = self.halves.evidence.result, self.halves.reading.links
        if len(links) > MAX_LINKS:  # a link for each member of a list
            return True
        texts = {canonical for pointer, canonical in links.items() if text_at(recorded, pointer) is not None}
        return not self.own_cuts or any(cut.pointer not in texts for cut in self.own_cuts)

    @cached_property
    def complete(self) -> Projection:
        """The canonical result as far as it was recorded: nobody may take our own cut for the tool's output."""
        if not self.is_bounded:
            return Projection(self.envelope)
        return project_complete(self.halves, self.result)

    @cached_property
    def complete_json(self) -> bytes:
        return dump_json(self.complete.canonical.to_json()) if self.is_bounded else self.canonical

    @cached_property
    def receipt_text(self) -> str:
        return self.halves.receipt.text if self.halves.receipt else ""

    @cached_property
    def receipt_bytes(self) -> int:
        return utf8_length(self.receipt_text)

    @cached_property
    def receipt_tokens(self) -> TokenCount:
        """The count of the import, which names no encoding; a receipt chosen by hand is counted now."""
        row = self.receipt
        if row is not None and row.tokens and row.characters == len(self.receipt_text):
            is_exact = self.call.token_certainty == "exact"  # noqa: S105 - a count of tokens
            return TokenCount(row.tokens, "", "exact" if is_exact else "estimate")
        return self.tokens(self.receipt_text)

    def tokens(self, text: str) -> TokenCount:
        """Counts each text once: several panes show the size of the same one."""
        if text not in self._token_counts:
            self._token_counts[text] = count_tokens(text, model=self.call.run.model)
        return self._token_counts[text]

    @cached_property
    def _token_counts(self) -> dict[str, TokenCount]:
        return {}

    def _stored_envelope(self, mapping: str) -> CanonicalResult | None:
        row = self.projection
        return None if row is None or row.mapping != mapping else parse_envelope(row.data)


def load_evidence(call: Call, query: Mapping[str, str], *, first: int | None = None) -> CallEvidence:
    """Three queries. A call has few observations, so their bytes are loaded too."""
    observations = sorted(call.observations.with_source(), key=attrgetter("surface", "line", "pk"))
    load_slices(observations)
    receipts = sorted(call.receipts.all(), key=attrgetter("seq"))
    return build_evidence(call, tuple(observations), tuple(receipts), query, first=first)


def build_evidence(
    call: Call,
    observations: tuple[Observation, ...],
    receipts: tuple[RecordedReceipt, ...],
    query: Mapping[str, str],
    *,
    first: int | None = None,
) -> CallEvidence:
    """Builds the evidence from loaded rows, in the order of `load_evidence`.

    The stored envelope is one more query, unless the call was loaded with it.

    A copy of the call in another run may have another receipt: the call's columns, unsaved, are then those of it.
    """
    chosen = {}
    replacements = frozenset(receipt.observation_id for receipt in receipts if receipt.seq > 1)
    receipts = tuple(receipts_in(receipts, Params(query).uuid("run") or call.run_id))
    if receipts and receipts[0].run_id != call.run_id:
        select_receipt(receipts).show_in(call)
    for surface in SURFACES:
        candidates = [observation for observation in observations if observation.surface == surface]
        observation = _choose_observation(surface, candidates, receipts, query.get(surface, ""))
        if observation is not None:
            chosen[surface] = observation
    is_named = "receipt" in chosen and str(chosen["receipt"].pk) == query.get("receipt")
    joined = () if is_named else find_joined(observations, receipts)
    return CallEvidence(call, observations, receipts, chosen, first, replacements, joined)


def find_joined(observations: Sequence[Observation], receipts: Sequence[RecordedReceipt]) -> tuple[Observation, ...]:
    """The observations of the receipts of one run that the model has together; empty for one alone."""
    current = current_receipts(receipts)
    by_key: dict[UUID | None, Observation] = {row.pk: row for row in observations} if len(current) > 1 else {}
    return tuple(by_key[receipt.observation_id] for receipt in current if receipt.observation_id in by_key)


def _choose_observation(
    surface: str, candidates: Sequence[Observation], receipts: Sequence[RecordedReceipt], key: str
) -> Observation | None:
    named = next((observation for observation in candidates if str(observation.pk) == key), None)
    if named is not None:
        return named
    if surface == "receipt" and receipts:
        latest = select_receipt(receipts)
        return next((observation for observation in candidates if observation.pk == latest.observation_id), None)
    selected = (observation for observation in candidates if observation.selected)
    return next(selected, candidates[0] if candidates else None)


def utf8_length(text: str) -> int:
    """Bytes of `text` in UTF-8, its lone surrogates as \\udxxx. ASCII, which most text is, needs no encoding."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "backslashreplace"))


def parse_envelope(data: bytes) -> CanonicalResult | None:
    """None for an envelope that this version cannot read."""
    try:
        return CanonicalResult.from_json(parse_json(data))
    except (Untrusted, msgspec.ValidationError, InvalidOutput):
        return None


CALLS_AT_ONCE = 200  # as many as a batch of a comparison has
EVIDENCE_BYTES_AT_ONCE = 4_000_000
NO_CUTS = b"[]"

_cuts = msgspec.json.Decoder(tuple[FieldCut, ...])


def split_by_evidence(calls: Sequence[Call]) -> Iterator[Sequence[Call]]:
    """Yields groups of calls with at most EVIDENCE_BYTES_AT_ONCE of evidence, or of a single call with more."""
    group: list[Call] = []
    size = 0
    for call in calls:
        evidence = call.args_bytes + call.result_bytes + call.receipt_characters
        if group and size + evidence > EVIDENCE_BYTES_AT_ONCE:
            yield group
            group, size = [], 0
        group.append(call)
        size += evidence
    if group:
        yield group


def load_recorded(
    calls: Sequence[UUID],
) -> tuple[dict[UUID, list[Observation]], dict[UUID, list[RecordedReceipt]]]:
    """The observations, with their bytes, and the receipts of many calls, by call. Three queries."""
    observations: dict[UUID, list[Observation]] = defaultdict(list)
    rows = list(Observation.objects.filter(call__in=calls).order_by("surface", "line", "id"))
    load_slices(rows)
    for observation in rows:
        observations[observation.call_id].append(observation)
    receipts: dict[UUID, list[RecordedReceipt]] = defaultdict(list)
    for receipt in RecordedReceipt.objects.filter(call__in=calls).order_by("seq"):
        receipts[receipt.call_id].append(receipt)
    return observations, receipts


def load_many_evidence(calls: Sequence[Call], query: Mapping[str, str]) -> dict[UUID, CallEvidence]:
    observations, receipts = load_recorded([call.pk for call in calls])
    return {
        call.pk: build_evidence(call, tuple(observations[call.pk]), tuple(receipts[call.pk]), query) for call in calls
    }


def iterate_evidence(ids: Sequence[UUID], run: UUID | None = None) -> Iterator[CallEvidence]:
    """The evidence of calls with their runs, in the order of `ids` without deleted ones, a few calls in memory.

    `run`: with the receipts that this run has, where it copied the calls of another one.
    """
    query = {"run": str(run)} if run else {}
    rows = Call.objects.with_run_and_source().select_related("projection")
    for start in range(0, len(ids), CALLS_AT_ONCE):
        portion = ids[start : start + CALLS_AT_ONCE]
        stored = rows.in_bulk(portion)
        for group in split_by_evidence([stored[key] for key in portion if key in stored]):
            loaded = load_many_evidence(group, query)
            yield from (loaded.pop(call.pk) for call in group)

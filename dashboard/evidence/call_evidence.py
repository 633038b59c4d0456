"""One call's evidence: what was recorded of it, which of it is looked at, and both halves read from that.

Several sources may speak of one surface, and an earlier receipt may have been replaced. The query
string names what to look at by observation (`?args= ?result= ?receipt=`); without it the selected
observations are shown, and of receipts the one that stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import msgspec

from dashboard.models import Call, CanonicalProjection, Observation, RecordedReceipt
from envelopes.halves import Halves, read_halves
from envelopes.schema.result import CanonicalResult, InvalidOutput
from envelopes.text.tokens import TokenCount, count_tokens
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

SURFACES = ("args", "result", "receipt")


@dataclass(frozen=True)
class CallEvidence:
    """`chosen` holds the observation of each surface that is looked at.

    `first` characters of the receipt are all that is shown with sources, None: the whole of it is.
    """

    call: Call
    observations: tuple[Observation, ...]
    receipts: tuple[RecordedReceipt, ...]
    chosen: Mapping[str, Observation]
    stored: tuple[CanonicalProjection, ...] | None = None  # of this call, by id, where somebody has them at hand
    first: int | None = None

    @property
    def args(self) -> bytes:
        return self.bytes_of("args") or b"null"

    @property
    def result(self) -> bytes | None:
        return self.bytes_of("result")

    @property
    def content(self) -> bytes | None:
        return self.bytes_of("receipt")

    def bytes_of(self, surface: str) -> bytes | None:
        observation = self.chosen.get(surface)
        return None if observation is None else bytes(observation.data)

    @property
    def is_answered(self) -> bool:
        """Of a call that nothing answered there is no result: its envelope would claim a success."""
        return self.call.status != Call.Status.UNKNOWN

    def of_surface(self, surface: str) -> list[Observation]:
        return [one for one in self.observations if one.surface == surface]

    @cached_property
    def receipt(self) -> RecordedReceipt | None:
        """The row of the receipt that is looked at; None for one that only another source reports."""
        shown = self.chosen.get("receipt")
        return next((one for one in self.receipts if shown is not None and one.observation_id == shown.pk), None)

    @cached_property
    def halves(self) -> Halves:
        return read_halves(
            agent=self.call.namespace,
            tool=self.call.tool,
            args=self.args,
            result=self.result,
            content=self.content,
            is_error=self.call.source_error,
            stored=self._stored,
            first=self.first if self._is_known_whole else None,
        )

    @property
    def _is_known_whole(self) -> bool:
        """The import, which looked at all of what is looked at now, found no line of the outputs missing."""
        is_long = self.first is not None and len(self.content or b"") > self.first
        return is_long and not self.call.is_cut and all(one.selected for one in self.chosen.values())

    @cached_property
    def projection(self) -> CanonicalProjection | None:
        """The stored envelope of what is looked at; None when another observation was chosen."""
        fitting = self._fitting
        return next((one for one in fitting if one.mapping == self.halves.mapping), fitting[0] if fitting else None)

    @cached_property
    def canonical(self) -> bytes:
        """The stored projection where it is of what is looked at, else the one that is computed now."""
        if self.projection is not None:
            return bytes(self.projection.data)
        return dump_json(self.halves.projection.canonical.to_json())

    @cached_property
    def envelope(self) -> CanonicalResult:
        """The canonical result that the left half shows, or the one of today where that is no envelope."""
        if self.projection is None or self.projection.mapping == self.halves.mapping:
            return self.halves.projection.canonical
        return _envelope(self.canonical) or self.halves.projection.canonical

    @cached_property
    def receipt_text(self) -> str:
        return self.halves.receipt.text if self.halves.receipt else ""

    @cached_property
    def receipt_bytes(self) -> int:
        return utf8_length(self.receipt_text)

    @cached_property
    def receipt_tokens(self) -> TokenCount:
        """As the import counted them, for whose words no encoding is named; a receipt chosen by hand is counted now."""
        row = self.receipt
        if row is not None and row.tokens and row.characters == len(self.receipt_text):
            return TokenCount(row.tokens, "", "exact" if self.call.token_certainty == "exact" else "estimate")
        return self.tokens(self.receipt_text)

    def tokens(self, text: str) -> TokenCount:
        """Each text is counted once: several panes show the size of the same one."""
        if text not in self._counted:
            self._counted[text] = count_tokens(text, model=self.call.run.model)
        return self._counted[text]

    @cached_property
    def _counted(self) -> dict[str, TokenCount]:
        return {}

    @cached_property
    def _fitting(self) -> list[CanonicalProjection]:
        """Of what is looked at, under any mapping."""
        subject = self.chosen.get("result") or self.chosen.get("receipt") or self.chosen.get("args")
        stored = self.stored
        if stored is None:
            stored = tuple(sorted(self.call.projections.all(), key=attrgetter("pk")))
        return [one for one in stored if subject is None or one.observation_id in (None, subject.pk)]

    def _stored(self, mapping: str) -> CanonicalResult | None:
        kept = next((one for one in self._fitting if one.mapping == mapping), None)
        return None if kept is None else _envelope(bytes(kept.data))


def load_evidence(call: Call, wanted: Mapping[str, str], *, first: int | None = None) -> CallEvidence:
    """Two queries. A call has few observations, so they come with their bytes.

    They are sorted here: a database that sorts would carry the payloads through its sorter.
    """
    observations = sorted(call.observations.with_source(), key=attrgetter("surface", "line", "pk"))
    receipts = sorted(call.receipts.all(), key=attrgetter("seq"))
    return build_evidence(call, tuple(observations), tuple(receipts), wanted, first=first)


def build_evidence(
    call: Call,
    observations: tuple[Observation, ...],
    receipts: tuple[RecordedReceipt, ...],
    wanted: Mapping[str, str],
    stored: tuple[CanonicalProjection, ...] | None = None,
    *,
    first: int | None = None,
) -> CallEvidence:
    """The same from rows at hand, in the same order; envelopes that are not given are loaded."""
    chosen = {
        surface: found
        for surface in SURFACES
        if (found := _chosen(surface, observations, receipts, wanted.get(surface, ""))) is not None
    }
    return CallEvidence(call, observations, receipts, chosen, stored, first)


def utf8_length(text: str) -> int:
    """Bytes of `text` in UTF-8, its lone surrogates as \\udxxx; ASCII, most of what there is, is not encoded for it."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "backslashreplace"))


def _envelope(data: bytes) -> CanonicalResult | None:
    try:
        return CanonicalResult.from_json(parse_json(data))
    except (Untrusted, msgspec.ValidationError, InvalidOutput):
        return None


def _chosen(
    surface: str, observations: tuple[Observation, ...], receipts: tuple[RecordedReceipt, ...], wanted: str
) -> Observation | None:
    candidates = [one for one in observations if one.surface == surface]
    named = next((one for one in candidates if str(one.pk) == wanted), None)
    if named is not None:
        return named
    if surface == "receipt":
        standing = [one for one in receipts if one.superseded_at is None and one.superseded_line is None]
        for receipt in (standing or list(receipts))[-1:]:
            return next((one for one in candidates if one.pk == receipt.observation_id), None)
    return next((one for one in candidates if one.selected), candidates[0] if candidates else None)

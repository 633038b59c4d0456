"""One call's evidence: what was recorded of it, which of it is looked at, and both halves read from that.

Several sources may speak of one surface, and an earlier receipt may have been replaced. The query
string names what to look at by observation (`?args= ?result= ?receipt=`); without it the selected
observations are shown, and of receipts the one that stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dashboard.models import Call, CanonicalProjection, Observation, Receipt
from envelopes.halves import Halves, read_halves
from envelopes.tokens import TokenCount, count_tokens

SURFACES = ("args", "result", "receipt")


@dataclass(frozen=True)
class Surfaces:
    """`chosen` holds the observation of each surface that is looked at."""

    call: Call
    observations: tuple[Observation, ...]
    receipts: tuple[Receipt, ...]
    chosen: Mapping[str, Observation]

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

    def of_surface(self, surface: str) -> list[Observation]:
        return [one for one in self.observations if one.surface == surface]

    @cached_property
    def receipt(self) -> Receipt | None:
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
        )

    @cached_property
    def projection(self) -> CanonicalProjection | None:
        """The stored envelope of what is looked at; None when another observation was chosen."""
        subject = self.chosen.get("result") or self.chosen.get("receipt") or self.chosen.get("args")
        stored = list(CanonicalProjection.objects.filter(call=self.call).order_by("id"))
        fitting = [one for one in stored if subject is None or one.observation_id in (None, subject.pk)]
        return next((one for one in fitting if one.mapping == self.halves.mapping), fitting[0] if fitting else None)

    def tokens(self, text: str) -> TokenCount:
        """Each text is counted once: several panes show the size of the same one."""
        if text not in self._counted:
            self._counted[text] = count_tokens(text, model=self.call.run.model)
        return self._counted[text]

    @cached_property
    def _counted(self) -> dict[str, TokenCount]:
        return {}


def surfaces_of(call: Call, wanted: Mapping[str, str]) -> Surfaces:
    """Two queries. A call has few observations, so they come with their bytes."""
    observations = tuple(call.observations.select_related("source").order_by("surface", "line", "id"))
    receipts = tuple(call.receipts.order_by("seq"))
    chosen = {
        surface: found
        for surface in SURFACES
        if (found := _chosen(surface, observations, receipts, wanted.get(surface, ""))) is not None
    }
    return Surfaces(call, observations, receipts, chosen)


def _chosen(
    surface: str, observations: tuple[Observation, ...], receipts: tuple[Receipt, ...], wanted: str
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

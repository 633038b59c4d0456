"""A run's receipts as a variant would have written them, for its model view. No model ever saw these.

The first receipt of a call is the variant's; what replaced it later stands as it was recorded. A call whose
receipt was not recorded has one here all the same, at the line of the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from dashboard.models import Receipt, Run
from dashboard.runs.history_rows import RECEIPT, Placed
from dashboard.runs.replay import Member, Replayed, texts_under

NEVER_SEEN = "never seen by the model"


class Instead(NamedTuple):
    """A receipt that was never sent, and what the page says of it."""

    text: str
    label: str
    means: str
    recorded: str


class Rewritten:
    def __init__(self, run: Run, replayed: Replayed) -> None:
        self._replayed = replayed
        self._members: Mapping[UUID, Member] = {one.key: one for one in replayed.members}
        later_first = Receipt.objects.filter(call__memberships__run=run).order_by("call", "-seq")
        first = {call: key for key, call in later_first.values_list("id", "call_id")}
        self._calls = {first.get(call, call): call for call in replayed.tokens}  # by receipt; by itself without one
        self._unsent = {call for call in replayed.tokens if call not in first}

    def placed(self, receipts: Iterable[Placed]) -> list[Placed]:
        tokens = {key.hex: self._replayed.tokens[call] for key, call in self._calls.items()}
        found = [one._replace(tokens=tokens.get(one.key, one.tokens)) for one in receipts]
        for call in self._unsent:
            found.append(Placed(self._members[call].line, call.hex, tokens[call.hex], None, None, ""))
        return found

    def unsent_details(self, keys: Iterable[UUID]) -> dict[UUID, Mapping[str, Any]]:
        """Rows like those of stored receipts, for calls that have none."""
        empty = dict.fromkeys(RECEIPT)
        return {
            key: {**empty, "id": key, "call_id": key, "call__tool": self._members[key].tool, "fidelity": "absent"}
            for key in keys
            if key in self._members
        }

    def receipts(self, keys: Iterable[UUID]) -> dict[UUID, Instead]:
        """By stored receipt; those that the variant does not write are left out."""
        wanted = {self._calls[key]: key for key in keys if key in self._calls}
        column = self._replayed.column
        found = texts_under(column, list(wanted)) if column and wanted else ()
        return {wanted[call]: self._instead(call, text) for call, text in found}

    def _instead(self, call: UUID, text: str) -> Instead:
        recorded = self._members[call].receipt
        return Instead(
            text=text,
            label=f"as {self._replayed.name} would have: {NEVER_SEEN}",
            means=f"Written now from the stored envelope by {', '.join(self._replayed.versions)}.",
            recorded="no receipt was recorded" if call in self._unsent else f"recorded: {recorded:,} tokens",
        )

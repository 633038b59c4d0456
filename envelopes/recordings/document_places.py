"""The places in a run of a document that is read again as a whole when it has grown.

What was read before keeps its places, so that the rows of an earlier version stay where they are, and what is new gets
later ones. What an earlier version had and this one lacks is known by its places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class DocumentPlaces:
    """The places of messages in the run; `sizes` has the number of slots of each.

    The slots of a message are in one piece, or in several where it grew when a later one had begun: `[slot, place]`.
    """

    def __init__(self, saved: dict[str, Any]) -> None:
        self.next: int = saved.setdefault("next", 1)
        self.sizes: dict[str, int] = saved.setdefault("sizes", {})
        self._pieces: dict[str, list[list[int]]] = saved.setdefault("pieces", {})
        self._saved = saved

    def take(self, key: str, size: int) -> None:
        """Gives places to the slots that have none."""
        known, pieces = self.sizes.get(key, 0), self._pieces.setdefault(key, [])
        if size > known:
            if not pieces or pieces[-1][1] + known - pieces[-1][0] != self.next:
                pieces.append([known, self.next])
            self._saved["next"] = self.next = self.next + size - known
            self.sizes[key] = size

    def skip(self) -> None:
        """Leaves the next place to an event."""
        self._saved["next"] = self.next = self.next + 1

    def find(self, key: str, slot: int) -> int:
        start, place = next(piece for piece in reversed(self._pieces[key]) if piece[0] <= slot)
        return place + slot - start

    def remove_missing(self, sizes: Mapping[str, int]) -> list[tuple[int, int]]:
        """The first and the last place of what had one and is no longer in the session, which is forgotten."""
        spans: list[tuple[int, int]] = []
        for key, known in list(self.sizes.items()):
            size = sizes.get(key, 0)
            for place in (self.find(key, slot) for slot in range(size, known)):
                start = spans.pop()[0] if spans and spans[-1][1] == place - 1 else place
                spans.append((start, place))
            if key not in sizes:
                del self.sizes[key], self._pieces[key]
            elif size < known:
                self.sizes[key] = size
        return spans

"""The places of records in a run: their words, and how a document that has grown keeps them.

A format whose records are lines has the line as the place. Others number their records by themselves, and state in
`Format.name_place` what such a number means, so that a person finds the record again: the message of a document, the
file of an event. `name_position` is for those whose numbers give the order alone.

A document is read again as a whole when it has grown. What was read before keeps its places, so that the rows of an
earlier version stay where they are, and what is new gets later ones. What an earlier version had and this one lacks is
known by its places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias


class PlaceName(NamedTuple):
    """A place in words, such as "line 1,204" or "line 3 of context 2"; without a number the noun is all of it.

    >>> str(PlaceName("line", 3, " of context 2"))
    'line 3 of context 2'
    """

    noun: str
    number: int | None = None
    within: str = ""

    def __str__(self) -> str:
        return self.noun if self.number is None else f"{self.noun} {self.number:,}{self.within}"

    def through(self, last: PlaceName) -> str:
        """Names the places from this one to `last`, which is one of them.

        >>> PlaceName("event", 3).through(PlaceName("event", 9))
        'events 3 to 9'
        """
        if self == last:
            return str(self)
        if self.number is None or last.number is None or (self.noun, self.within) != (last.noun, last.within):
            return f"{self} to {last}"
        return f"{self.noun}s {self.number:,} to {last.number:,}{self.within}"


NamePlace: TypeAlias = Callable[[int], PlaceName]


def name_line(place: int) -> PlaceName:
    """The line of a file. What stands before its first line is at the start."""
    return PlaceName("line", place) if place > 0 else PlaceName("the start")


def name_position(place: int) -> PlaceName:
    """A number that gives the order of a run and is found nowhere in the recording, or not always."""
    return PlaceName("position", place)


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
        """The first place and the one behind the last of what is no longer in the session, which is forgotten."""
        spans: list[tuple[int, int]] = []
        for key, known in list(self.sizes.items()):
            size = sizes.get(key, 0)
            for place in (self.find(key, slot) for slot in range(size, known)):
                start = spans.pop()[0] if spans and spans[-1][1] == place else place
                spans.append((start, place + 1))
            if key not in sizes:
                del self.sizes[key], self._pieces[key]
            elif size < known:
                self.sizes[key] = size
        return spans

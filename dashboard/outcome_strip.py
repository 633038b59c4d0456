"""The strip of a run's calls: one bar a call, its height and colour by outcome, as SVG paths."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

STEP, BAR, HEIGHT = 3, 2, 14
WIDEST = 120 * STEP


@dataclass(frozen=True)
class Outcome:
    name: str  # the data-outcome of the stylesheet
    word: str
    top: int  # where the bar begins: trouble stands taller, so that the colour is not the only signal


OUTCOMES = {
    "o": Outcome("ok", "ok", 8),
    "w": Outcome("waiting", "waited on a person", 6),
    "c": Outcome("cut", "cut", 3),
    "u": Outcome("unanswered", "unanswered", 5),
    "e": Outcome("failed", "failed", 0),
    "x": Outcome("failed", "failed and cut", 0),
}


@dataclass(frozen=True)
class StripPath:
    outcome: str
    d: str


@dataclass(frozen=True)
class Strip:
    paths: tuple[StripPath, ...]
    width: int
    label: str


@lru_cache(maxsize=4096)
def strip_of_letters(letters: str) -> Strip:
    """One path for each outcome that occurs, however many calls there are."""
    bars: dict[str, list[str]] = {}
    for index, letter in enumerate(letters):
        outcome = OUTCOMES.get(letter, OUTCOMES["u"])
        bars.setdefault(outcome.name, []).append(f"M{index * STEP} {outcome.top}h{BAR}V{HEIGHT}h-{BAR}z")
    paths = tuple(StripPath(name, "".join(drawn)) for name, drawn in bars.items())
    return Strip(paths, max(STEP, len(letters) * STEP), _label(letters))


def _label(letters: str) -> str:
    counts = Counter(OUTCOMES.get(letter, OUTCOMES["u"]).word for letter in letters)
    return ", ".join(f"{number} {word}" for word, number in counts.most_common()) or "no calls"

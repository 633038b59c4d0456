"""The strip of a run's calls: one bar a call, its height and colour by outcome, as SVG paths.

In a run with more calls than bars each bar shows the worst of several (`ingest.derive`); the label is then made
from the run's own counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from dashboard.ingest.derive import STRIP_LETTERS
from dashboard.models import Run

STEP, HEIGHT = 3, 14  # a stroke of 2 and a gap of 1


@dataclass(frozen=True)
class Outcome:
    """`name` is the `data-outcome` of the stylesheet; `word` counts calls, `sentence` describes one of them.

    `top` is where the bar begins: bars of trouble are taller, so that the colour is not the only signal.
    """

    name: str
    word: str
    sentence: str
    top: int


# By the letters of `ingest.derive`; the legend of a run lists them in this order.
OUTCOMES = {
    "o": Outcome("ok", "ok", "answered", 8),
    "w": Outcome("waiting", "waited for a person", "waited for a person", 6),
    "c": Outcome("cut", "cut", "cut before the model", 3),
    "e": Outcome("failed", "failed", "failed", 0),
    "x": Outcome("failed", "failed and cut", "failed, and cut before the model", 0),
    "u": Outcome("unanswered", "unanswered", "unanswered", 5),
}


@dataclass(frozen=True)
class OutcomeStrip:
    """The drawing of the tag `outcome_strip`: `label` is its text alternative, `paths` has one path an outcome."""

    label: str
    width: int
    paths: tuple[tuple[str, str], ...]
    height: int = HEIGHT


def build_strip(run: Run) -> OutcomeStrip:
    return _draw_strip(run.strip, run.call_count, run.failed_count, run.cut_count, run.unanswered_count)


@lru_cache(4096)  # most runs of a store look alike
def _draw_strip(letters: str, calls: int, failed: int, cut: int, unanswered: int) -> OutcomeStrip:
    """The label is the strip in words: 12 ok, 2 failed, 1 cut."""
    paths: dict[str, str] = {}
    words: Counter[str] = Counter()
    for index, letter in enumerate(letters):
        outcome = OUTCOMES.get(letter, OUTCOMES["u"])
        paths[outcome.name] = f"{paths.get(outcome.name, '')}M{index * STEP + 1} {outcome.top}V{HEIGHT}"
        words[outcome.word] += 1
    label = ", ".join(f"{number} {word}" for word, number in words.most_common()) or "no calls"
    if calls > len(letters) == STRIP_LETTERS:
        counts = ((failed, "failed"), (cut, "cut"), (unanswered, "unanswered"))
        troubles = ", ".join(f"{number:,} {word}" for number, word in counts if number)
        label = f"{calls:,} calls{': ' if troubles else ''}{troubles}; a bar is the worst of several"
    return OutcomeStrip(label, max(STEP, len(letters) * STEP), tuple(paths.items()))

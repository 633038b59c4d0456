"""The strip of a run's calls: one bar a call, its height and colour by outcome, as SVG paths.

Of a run with more calls than bars each bar shows the worst of several (`tally.strip_of`), so that the words
come from the run's own counts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from dashboard.ingest.run_stats import STRIP_LETTERS
from dashboard.text.escaping import Html

STEP, HEIGHT = 3, 14  # a stroke of 2 and a gap of 1


class Counted(Protocol):
    @property
    def strip(self) -> str: ...
    @property
    def call_count(self) -> int: ...
    @property
    def failed_count(self) -> int: ...
    @property
    def cut_count(self) -> int: ...
    @property
    def unanswered_count(self) -> int: ...


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


def strip_markup(run: Counted) -> Html:
    """The <svg>: one path for each outcome that occurs, however many calls there are. Holds no foreign text."""
    return _drawn(run.strip, strip_label(run))


@lru_cache(maxsize=4096)
def _drawn(letters: str, label: str) -> Html:
    bars: dict[str, list[str]] = {}
    for index, letter in enumerate(letters):
        outcome = OUTCOMES.get(letter, OUTCOMES["u"])
        bars.setdefault(outcome.name, []).append(f"M{index * STEP + 1} {outcome.top}V{HEIGHT}")
    paths = "".join(f'<path data-outcome="{name}" d="{"".join(drawn)}"/>' for name, drawn in bars.items())
    width = max(STEP, len(letters) * STEP)
    return Html(
        f'<svg class="marks" role="img" aria-label="{label}" viewBox="0 0 {width} {HEIGHT}" width="{width}" '
        f'preserveAspectRatio="none"><title>{label}</title>{paths}</svg>'
    )


def strip_label(run: Counted) -> str:
    """What the strip says to who does not see it: 12 ok, 2 failed, 1 cut."""
    if run.call_count > len(run.strip) == STRIP_LETTERS:
        told = ((run.failed_count, "failed"), (run.cut_count, "cut"), (run.unanswered_count, "unanswered"))
        worse = ", ".join(f"{number:,} {word}" for number, word in told if number)
        return f"{run.call_count:,} calls{': ' if worse else ''}{worse}; a bar is the worst of several"
    return _counted(run.strip)


@lru_cache(maxsize=4096)
def _counted(letters: str) -> str:
    counts = Counter(OUTCOMES.get(letter, OUTCOMES["u"]).word for letter in letters)
    return ", ".join(f"{number} {word}" for word, number in counts.most_common()) or "no calls"

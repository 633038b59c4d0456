"""The strip of a run's calls: one bar a call, its height and colour by outcome, as SVG paths."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from dashboard.inert import Html

STEP, HEIGHT = 3, 14  # a stroke of 2 and a gap of 1


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


@lru_cache(maxsize=4096)
def strip_markup(letters: str) -> Html:
    """The <svg>: one path for each outcome that occurs, however many calls there are. Holds no foreign text."""
    bars: dict[str, list[str]] = {}
    for index, letter in enumerate(letters):
        outcome = OUTCOMES.get(letter, OUTCOMES["u"])
        bars.setdefault(outcome.name, []).append(f"M{index * STEP + 1} {outcome.top}V{HEIGHT}")
    paths = "".join(f'<path data-outcome="{name}" d="{"".join(drawn)}"/>' for name, drawn in bars.items())
    width, label = max(STEP, len(letters) * STEP), strip_label(letters)
    return Html(
        f'<svg class="marks" role="img" aria-label="{label}" viewBox="0 0 {width} {HEIGHT}" width="{width}" '
        f'preserveAspectRatio="none"><title>{label}</title>{paths}</svg>'
    )


def strip_label(letters: str) -> str:
    """What the strip says to who does not see it: 12 ok, 2 failed, 1 cut."""
    counts = Counter(OUTCOMES.get(letter, OUTCOMES["u"]).word for letter in letters)
    return ", ".join(f"{number} {word}" for word, number in counts.most_common()) or "no calls"

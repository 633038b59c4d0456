"""The state of a preview: the query of its address, read into knobs.

    variant=receipt   budget=800 of=950 (tokens; absent, or all there is: the variant's own)
    head=50   cut=lines|characters
    against=recorded|<variant>   view=side|unified   spaces=1   row=0

What cannot be read stands at its default, and `problems` says so: nothing is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from dashboard.text.diff_markup import DiffView
from dashboard.variants.variant_list import OfferedVariant, find_variant
from envelopes.schema.budget import CutAt, RenderPolicy

RECORDED = "recorded"
MOST_TOKENS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """`budget` is None where the variant's own policy stands. `against` is empty without a comparison."""

    chosen: OfferedVariant
    budget: int | None
    head_share: int
    cut_at: CutAt
    against: str
    view: DiffView
    spaces: bool
    row: int
    problems: tuple[str, ...]

    @property
    def policy(self) -> RenderPolicy:
        own = self.chosen.variant.policy
        return msgspec.structs.replace(own, head_share=self.head_share, cut_at=self.cut_at)


class _Reading:
    def __init__(self, query: Mapping[str, str]) -> None:
        self._query = query
        self.problems: list[str] = []

    def text(self, name: str) -> str:
        return self._query.get(name, "")

    def number(self, name: str, default: int, least: int, most: int) -> int:
        text = self.text(name)
        if text == "":
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 9 or not least <= int(text) <= most:
            self.problems.append(f"{name}={text[:40]}: a whole number from {least:,} to {most:,} is expected.")
            return default
        return int(text)

    def one_of(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        text = self.text(name)
        if text in ("", *choices):
            return text or default
        self.problems.append(f"{name}={text[:40]}: it is one of {', '.join(choices)}.")
        return default


def knobs(query: Mapping[str, str], variants: tuple[OfferedVariant, ...], *, has_recorded: bool) -> Knobs:
    """`variants` are those of the family, the receipt first."""
    reading = _Reading(query)
    chosen = _chosen(reading, variants)
    own = chosen.variant.policy
    others = (*((RECORDED,) if has_recorded else ()), "none", *(one.key for one in variants))
    default = RECORDED if has_recorded else "none"
    against = reading.one_of("against", default, others)
    return Knobs(
        chosen=chosen,
        budget=_budget(reading),
        head_share=reading.number("head", own.head_share, 0, 100),
        cut_at=_cut_at(reading.one_of("cut", own.cut_at, get_args(CutAt))),
        against="" if against == "none" else against,
        view=_view(reading.one_of("view", "side", get_args(DiffView))),
        spaces="spaces" in query,
        row=reading.number("row", 0, 0, 10_000_000),
        problems=tuple(reading.problems),
    )


def _chosen(reading: _Reading, variants: tuple[OfferedVariant, ...]) -> OfferedVariant:
    wanted = reading.text("variant")
    found = find_variant(variants, wanted) if wanted else variants[0]
    if found is None:
        names = ", ".join(one.key for one in variants)
        reading.problems.append(f"variant={wanted[:60]}: this family has no such variant. It has {names}.")
    return found or variants[0]


def _budget(reading: _Reading) -> int | None:
    """A slider at its right end asks for the whole, also of the next variant, whose whole is another number."""
    budget = reading.number("budget", 0, 1, MOST_TOKENS)
    whole = reading.number("of", MOST_TOKENS, 1, MOST_TOKENS)
    return budget if 0 < budget < whole else None


def _cut_at(text: str) -> Literal["lines", "characters"]:
    return "characters" if text == "characters" else "lines"


def _view(text: str) -> DiffView:
    return "unified" if text == "unified" else "side"

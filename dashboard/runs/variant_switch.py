"""The switch "as recorded | as <variant> would have" of a run's pages. The address holds it: `?with=markdown`.

Without it a page asks the database nothing more than it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from dashboard.models import Run
from dashboard.runs.replay import Replayed, replayed
from dashboard.runs.replay_weights import Weights, weights_of
from dashboard.runs.waterfall import Page
from dashboard.variants.variant_list import offered_by_family, variant_names

FIRST = "receipt"  # what the switch offers before it has been used
LARGEST_LIMIT = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Choice:
    name: str
    href: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class Flipped:
    """A variant was asked for. `href` leads to its numbers call by call."""

    replayed: Replayed
    weights: Weights
    choices: tuple[Choice, ...]
    href: str

    @property
    def name(self) -> str:
        return self.replayed.name


@dataclass(frozen=True, kw_only=True)
class VariantSwitch:
    """`under` is None as recorded; `first` is what may be asked for then."""

    recorded_href: str
    first: Choice
    under: Flipped | None


AS_RECORDED = VariantSwitch(
    recorded_href="?", first=Choice(name=FIRST, href=f"?with={FIRST}", is_current=False), under=None
)


def variant_switch(run: Run, query: Mapping[str, str], *kept: str) -> VariantSwitch:
    """`kept` names the parameters of the page that stay when the switch is turned."""
    rest = {name: query[name] for name in ("limit", *kept) if query.get(name)}
    wanted = query.get("with", "")[:64]
    return VariantSwitch(
        recorded_href="?" + urlencode(rest),
        first=_choice(FIRST, rest, wanted),
        under=flipped(run, wanted, rest) if wanted else None,
    )


def flipped(run: Run, name: str, rest: Mapping[str, str]) -> Flipped:
    """`rest` is what else the page's address says, the limit with it."""
    found = replayed(run, name)
    limit = _limit(rest.get("limit", ""))
    families = {one.family for one in found.members}
    offers = {owner: some for owner, some in offered_by_family(run.project).items() if owner in families}
    names = dict.fromkeys([*variant_names(offers)[1:], name])
    asked = {"with": name} | ({} if limit is None else {"limit": str(limit)})
    return Flipped(
        replayed=found,
        weights=weights_of(run, found, limit),
        choices=tuple(_choice(one, rest, name) for one in names),
        href=f"{reverse('run-replay', args=[run.pk])}?{urlencode(asked)}",
    )


def with_tokens(page: Page, switch: VariantSwitch) -> Page:
    """The rows of a run's page with the tokens of the variant, where it wrote the call."""
    if switch.under is None:
        return page
    tokens = switch.under.replayed.tokens
    found = ((row, tokens.get(UUID(row.key))) for row in page.rows)
    rows = tuple(row if count is None else row._replace(tokens=f"{count:,}") for row, count in found)
    return replace(page, rows=rows)


def _choice(name: str, rest: Mapping[str, str], wanted: str) -> Choice:
    return Choice(name=name, href="?" + urlencode({**rest, "with": name}), is_current=name == wanted)


def _limit(text: str) -> int | None:
    return min(int(text), LARGEST_LIMIT) if text.isascii() and text.isdigit() and len(text) < 9 else None

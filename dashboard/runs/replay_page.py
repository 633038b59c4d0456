"""The switch between the recorded receipts and those of a variant, and the Replay page: a run call by call.

The address of a run's page contains the variant: `?with=markdown`. Without it a page asks the database for nothing
more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from dashboard.models import Run
from dashboard.runs.replay import Replay, ReplayedCall, ReplayTotals, add_up_replay, load_replay
from dashboard.runs.waterfall import CallRowPage
from dashboard.text.params import parse_integer
from dashboard.variants.variant_list import offered_by_family, variant_names

DEFAULT_VARIANT = "receipt"  # offered by the switch before it has been used
MAX_LIMIT = 10_000_000  # tokens
MAX_VARIANT_CHARACTERS = 64
CALLS_PER_PAGE = 100


@dataclass(frozen=True, kw_only=True)
class ReplayChoice:
    name: str
    url: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class ReplayView:
    """A replay on a page of its run. `url` leads to its numbers call by call."""

    replay: Replay
    totals: ReplayTotals
    choices: tuple[ReplayChoice, ...]
    url: str

    @property
    def name(self) -> str:
        return self.replay.name


@dataclass(frozen=True, kw_only=True)
class ReplaySwitch:
    """`view` is None as recorded; `first` is the choice offered then."""

    recorded_url: str
    first: ReplayChoice
    view: ReplayView | None = None


@dataclass(frozen=True, kw_only=True)
class ReplayPage:
    run: Run
    view: ReplayView
    calls: tuple[ReplayedCall, ...]
    next_url: str
    size: int = CALLS_PER_PAGE

    @property
    def model_query(self) -> str:
        return urlencode({"with": self.view.name})


def _choice(name: str, params: Mapping[str, str], *, is_current: bool = False) -> ReplayChoice:
    return ReplayChoice(name=name, url="?" + urlencode({**params, "with": name}), is_current=is_current)


AS_RECORDED = ReplaySwitch(recorded_url="?", first=_choice(DEFAULT_VARIANT, {}))


def load_switch(run: Run, query: Mapping[str, str], *names_to_keep: str) -> ReplaySwitch:
    """`names_to_keep` are the parameters of the page that stay when the switch is used."""
    params = {name: query[name] for name in ("limit", *names_to_keep) if query.get(name)}
    variant = query.get("with", "")[:MAX_VARIANT_CHARACTERS]
    return ReplaySwitch(
        recorded_url="?" + urlencode(params),
        first=_choice(DEFAULT_VARIANT, params),
        view=_load_view(run, variant, params) if variant else None,
    )


def load_replay_page(run: Run, query: Mapping[str, str]) -> ReplayPage:
    params = {"limit": query["limit"]} if query.get("limit") else {}
    view = _load_view(run, query.get("with", "")[:MAX_VARIANT_CHARACTERS] or DEFAULT_VARIANT, params)
    start = parse_integer(query.get("from")) or 0
    end = start + CALLS_PER_PAGE
    calls = view.totals.calls
    next_url = "?" + urlencode({**params, "with": view.name, "from": end}) if end < len(calls) else ""
    return ReplayPage(run=run, view=view, calls=calls[start:end], next_url=next_url)


def _load_view(run: Run, variant: str, params: Mapping[str, str]) -> ReplayView:
    replay = load_replay(run, variant)
    limit = parse_integer(params.get("limit"))
    limit = None if limit is None else min(limit, MAX_LIMIT)
    families = {call.family for call in replay.calls}
    offers = {family: variants for family, variants in offered_by_family(run.project).items() if family in families}
    names = dict.fromkeys([*variant_names(offers)[1:], variant])
    query = {"with": variant} | ({} if limit is None else {"limit": str(limit)})
    return ReplayView(
        replay=replay,
        totals=add_up_replay(run, replay, limit),
        choices=tuple(_choice(name, params, is_current=name == variant) for name in names),
        url=f"{reverse('run-replay', args=[run.pk])}?{urlencode(query)}",
    )


def replace_tokens(page: CallRowPage, switch: ReplaySwitch) -> CallRowPage:
    """The rows of a run's page with the variant's tokens, where it wrote the receipt."""
    if switch.view is None:
        return page
    tokens = switch.view.replay.tokens
    rows = list(page.rows)
    for index, row in enumerate(rows):
        if (count := tokens.get(UUID(row["key"]))) is not None:
            rows[index] = {**row, "tokens": f"{count:,}"}
    return replace(page, rows=tuple(rows))

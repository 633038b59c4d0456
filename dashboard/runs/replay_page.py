"""A run call by call, as recorded and as a variant would have written it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from dashboard.models import Run
from dashboard.runs.replay_weights import ReplayedCall
from dashboard.runs.variant_switch import FIRST, Flipped, flipped

PAGE = 100


@dataclass(frozen=True, kw_only=True)
class ReplayPage:
    run: Run
    under: Flipped
    calls: tuple[ReplayedCall, ...]
    next_href: str

    @property
    def model_query(self) -> str:
        return urlencode({"with": self.under.name})


def replay_page(run: Run, query: Mapping[str, str]) -> ReplayPage:
    rest = {"limit": query["limit"]} if query.get("limit") else {}
    under = flipped(run, query.get("with", "")[:64] or FIRST, rest)
    text = query.get("from", "")
    start = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    more = urlencode({**rest, "with": under.name, "from": start + PAGE})
    calls = under.weights.calls
    return ReplayPage(
        run=run,
        under=under,
        calls=calls[start : start + PAGE],
        next_href=f"?{more}" if start + PAGE < len(calls) else "",
    )

"""Tokens of recorded requests by time and model, and what they cost at the prices of the operator's own file.

`COUNTERFOIL_PRICES` names a TOML or JSON file (dashboard/docs/insights.md). Counterfoil has no prices of its own: a
request without a price costs no number. A request of a run is priced by the model of its run, because recordings do not
name the model with the tokens in a column; copies of a request in a fork count once.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
from django.conf import settings
from django.db import connection
from django.db.models import Min

from dashboard.filters.language import parse
from dashboard.insights.call_numbers import (
    ChoiceLink,
    InsightsParams,
    TimeSpanLabel,
    TimeUnit,
    build_spans,
    choose_unit,
    start_of,
)
from dashboard.models import Project, RequestUsage
from dashboard.models.fields import HourText
from dashboard.text.chart_markup import Chart, ChartSeries

LARGEST_FILE = 1_000_000  # bytes
TOKENS_OF_A_PRICE = 1_000_000
KINDS = ("input", "cache_read", "cache_write", "output")
COLUMNS = ("input_tokens", "cache_read_tokens", "cache_creation_tokens", "output_tokens")
IDENTITY = ("request", "at", *COLUMNS)  # equal in a request and its copy in a fork
SUM_REQUESTS = """
SELECT bucket, model, count(*), sum(input_tokens), sum(cache_read_tokens), sum(cache_creation_tokens),
  sum(output_tokens) FROM ({}) requests GROUP BY bucket, model
"""


Price: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class ModelPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"since": "from"}):
    """Prices of a million tokens of each kind for models that fit `model`, a name with `*`, from that day on.

    Without a price of one kind, requests of a model in an hour or day that have such tokens cost no number.
    """

    model: str
    since: date
    input: Price | None = None
    output: Price | None = None
    cache_read: Price | None = None
    cache_write: Price | None = None

    def cost(self, tokens: Sequence[int]) -> float | None:
        """`tokens` are in the order of KINDS."""
        prices: list[float | None] = [getattr(self, kind) for kind in KINDS]
        cost = 0.0
        for number, price in zip(tokens, prices, strict=True):
            if number and price is None:
                return None
            cost += number * (price or 0) / TOKENS_OF_A_PRICE
        return cost


class PriceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    currency: str
    price: tuple[ModelPrice, ...]


@dataclass(frozen=True)
class PriceList:
    """`problem` is a sentence about a file that cannot be used. Without a file there are no prices and no problem."""

    currency: str = ""
    prices: tuple[ModelPrice, ...] = ()
    problem: str = ""

    def find(self, model: str, day: date) -> ModelPrice | None:
        """The price that began last before that day, among those that fit the model; the first of several."""
        name = model.casefold()
        fitting = [price for price in self.prices if price.since <= day and fnmatchcase(name, price.model.casefold())]
        return max(fitting, key=lambda price: price.since, default=None)


def load_prices() -> PriceList:
    """Reads the file again when it has changed."""
    path = Path(settings.PRICES) if settings.PRICES else None
    if path is None:
        return PriceList()
    try:
        status = path.stat()
    except OSError as error:
        return PriceList(problem=f"The price file cannot be opened: {error.strerror}.")
    return _read_prices(path, status.st_mtime_ns, status.st_size)


@lru_cache(4)
def _read_prices(path: Path, _changed: int, size: int) -> PriceList:
    if size > LARGEST_FILE:
        return PriceList(problem=f"The price file has {size:,} bytes; at most {LARGEST_FILE:,} are read.")
    try:
        text = path.read_text("utf-8")
        document: Any = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
        prices = msgspec.convert(document, PriceFile, strict=False)
    except (OSError, ValueError, RecursionError, msgspec.ValidationError) as error:
        words = f"{error.strerror}." if isinstance(error, OSError) else error  # not its path, which is the server's
        return PriceList(problem=f"The price file cannot be read: {words}")
    return PriceList(prices.currency, prices.price)


class RequestGroup(NamedTuple):
    """Requests of one model in one hour or day; `time` is empty for those without one."""

    time: str
    model: str
    number: int
    tokens: tuple[int, ...]  # in the order of KINDS
    cost: float | None


@dataclass
class RequestSums:
    requests: int = 0
    priced: int = 0
    tokens: tuple[int, ...] = (0, 0, 0, 0)
    cost: float = 0.0

    def add(self, group: RequestGroup) -> None:
        self.requests += group.number
        self.tokens = tuple(map(sum, zip(self.tokens, group.tokens, strict=True)))
        if group.cost is not None:
            self.priced += group.number
            self.cost += group.cost

    @property
    def has_cost(self) -> bool:
        return self.priced > 0

    @property
    def unpriced(self) -> int:
        return self.requests - self.priced

    @property
    def cost_text(self) -> str:
        """A dash for no price; two digits behind the point, more for small amounts, of which none becomes 0."""
        if not self.priced:
            return "–"
        if self.cost >= 0.1 or not self.cost:
            return f"{self.cost:,.2f}"
        return f"{self.cost:.4f}" if self.cost >= 0.0001 else "<0.0001"

    @property
    def cost_words(self) -> str:
        """The cost, and how many requests are not in it."""
        return self.cost_text + (f" ({self.unpriced:,} requests without a price)" if self.unpriced else "")


@dataclass(frozen=True)
class ModelCost:
    model: str
    sums: RequestSums


@dataclass(frozen=True)
class CostPage:
    prices: PriceList
    totals: RequestSums
    models: tuple[ModelCost, ...]
    charts: tuple[Chart, ...]
    untimed: int
    units: tuple[ChoiceLink, ...]
    is_of_runs: bool  # a filter over calls chooses runs, and all requests of these are counted


def load_costs(project: Project, params: InsightsParams) -> CostPage:
    """Sums requests in the database, by day or hour and model. The range is that of the requests' own times."""
    prices = load_prices()
    requests = RequestUsage.objects.filter(run__project=project)
    query = parse(params.q, over="calls")
    if query:
        requests = requests.filter(run__in=query.calls_in(project).values("run"))
    if params.first:
        requests = requests.filter(at__gte=datetime.combine(params.first, time.min, UTC))
    if params.last:
        requests = requests.filter(at__lt=datetime.combine(params.last + timedelta(days=1), time.min, UTC))
    groups = _sum_requests(requests, prices, characters=10)
    unit = choose_unit(params.unit, [date.fromisoformat(group.time) for group in groups if group.time])
    if unit == "hour":
        groups = _sum_requests(requests, prices, characters=13)
    totals, by_model = RequestSums(), dict[str, RequestSums]()
    for group in groups:
        totals.add(group)
        by_model.setdefault(group.model, RequestSums()).add(group)
    models = sorted(by_model.items(), key=lambda item: (-item[1].cost, -sum(item[1].tokens), item[0]))
    return CostPage(
        prices=prices,
        totals=totals,
        models=tuple(ModelCost(model, sums) for model, sums in models),
        charts=tuple(_build_charts([group for group in groups if group.time], unit, prices, totals)),
        untimed=sum(group.number for group in groups if not group.time),
        units=tuple(params.link_units(unit)),
        is_of_runs=bool(query),
    )


def _sum_requests(requests: Any, prices: PriceList, *, characters: int) -> list[RequestGroup]:
    """A request of which a fork has a copy is one row of the inner query, with one of its runs' models."""
    named = requests.order_by().annotate(bucket=HourText("at", characters=characters))
    once = named.values(*IDENTITY, "bucket").annotate(model=Min("run__model"))
    if once.query.is_empty():
        return []
    statement, values = once.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(SUM_REQUESTS.format(statement), values)
        rows = cursor.fetchall()
    groups = []
    for bucket, model, number, *sums in rows:
        tokens = tuple(map(int, sums))
        price = prices.find(model, date.fromisoformat(bucket[:10])) if bucket and model else None
        groups.append(RequestGroup(bucket or "", model, number, tokens, price.cost(tokens) if price else None))
    return groups


def _build_charts(
    groups: Sequence[RequestGroup], unit: TimeUnit, prices: PriceList, totals: RequestSums
) -> Iterator[Chart]:
    spans = build_spans((group.time for group in groups), unit)
    if not spans:
        return
    by_span = _sum_by_span(groups, spans, unit)
    labels, head = [span.label for span in spans], unit.capitalize()
    names = ("new input", "read from the cache", "written to the cache", "output")
    kinds = [
        ChartSeries(name=name, ink=ink, values=[sums.tokens[index] for sums in by_span])
        for index, (name, ink) in enumerate(zip(names, ("accent", "ok", "wait", "cut"), strict=True))
    ]
    title = "Tokens of requests, as recorded"
    yield Chart(id="requests", title=title, head=head, labels=labels, series=kinds, kind="stacked")
    if totals.has_cost:
        cost = ChartSeries(
            name=prices.currency,
            ink="accent",
            values=[sums.cost if sums.has_cost else None for sums in by_span],
            texts=[sums.cost_words for sums in by_span],
        )
        title = f"Cost of requests with a price, in {prices.currency}"
        yield Chart(id="cost", title=title, head=head, labels=labels, series=[cost], kind="bars")


def _sum_by_span(groups: Sequence[RequestGroup], spans: Sequence[TimeSpanLabel], unit: TimeUnit) -> list[RequestSums]:
    by_start = {span.key: RequestSums() for span in spans}
    for group in groups:
        by_start[start_of(group.time, unit)].add(group)
    return list(by_start.values())

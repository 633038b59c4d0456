"""Tokens of requests, and costs at the prices of the operator's file: no price, no number."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.insights.request_costs import RequestSums, load_prices
from dashboard.models import Project, RequestUsage, Run
from dashboard.models.identity import derive_id
from tests.cases import each
from tests.dashboard.factories import START, create_call, create_run
from tests.dashboard.insights.test_call_numbers import load

pytestmark = pytest.mark.django_db
PRICES = """
currency = "EUR"
[[price]]
model = "opus-*"
from = 2026-01-01
input = 10.0
output = 50.0
cache_read = 1.0
[[price]]
model = "OPUS-4"
from = 2026-03-02
input = 20.0
output = 100.0
cache_read = 2.0
"""


@pytest.fixture
def prices(settings: Settings, tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    settings.PRICES = str(path)
    return path


def create_request(run: Run, number: int, *, day: int = 0, written: int = 0, name: str = "") -> None:
    RequestUsage.objects.create(
        id=derive_id("request", run.pk.bytes, number),
        run=run,
        request=name or f"msg_{run.external_id}_{number}",
        line=number,
        at=START + timedelta(days=day),
        input_tokens=1_000_000,
        cache_read_tokens=2_000_000,
        cache_creation_tokens=written,
        output_tokens=100_000,
        size=2,
        own_data=b"{}",
    )


@pytest.fixture
def runs(project: Project) -> list[Run]:
    runs = [create_run(project, model=model) for model in ("opus-4", "sonnet", "")]
    for run in runs:
        create_request(run, 1)
    create_call(runs[0], tool="Bash")
    return runs


@pytest.mark.usefixtures("alice", "runs")
def test_without_prices_there_are_tokens_and_no_cost(client: Client) -> None:
    page = load(client, "?show=cost")
    assert page.facts["Requests with recorded usage"] == "3"
    assert page.facts["Read from the cache"] == "6,000,000"
    assert "Cost" not in page.facts
    assert "no prices are supplied" in page.text
    assert [row[0] for row in page.rows(".insights-table tbody tr")] == ["not recorded", "opus-4", "sonnet"]


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice", "prices")
def test_a_request_costs_what_the_file_says_for_its_model_and_day(client: Client, runs: list[Run]) -> None:
    create_request(runs[0], 2, day=1)
    page = load(client, "?show=cost")
    # 10 + 2 + 5 at the first price, 20 + 4 + 10 at the one that began a day later
    assert page.facts["Cost"] == "51.00 EUR, without 2 requests that have no price"
    costs = {row[0]: row[-1] for row in page.rows(".insights-table tbody tr")}
    assert costs == {"opus-4": "51.00", "sonnet": "–", "not recorded": "–"}
    days = page.by_role("region", "Table: Cost of requests").rows("tbody tr")
    assert days == [["2026-03-01", "17.00 (2 requests without a price)"], ["2026-03-02", "34.00"]]


@pytest.mark.usefixtures("alice", "prices")
def test_tokens_of_a_kind_without_a_price_have_no_cost(client: Client, runs: list[Run]) -> None:
    create_request(runs[0], 2, day=2, written=5)
    page = load(client, "?show=cost&from=2026-03-03&to=2026-03-03")
    assert page.facts["Requests with recorded usage"] == "1"
    assert "Cost" not in page.facts
    assert "No price of the price file fits" in page.text


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice", "prices")
def test_the_copy_of_a_request_in_a_fork_counts_once(client: Client, project: Project, runs: list[Run]) -> None:
    create_request(create_run(project, model="opus-4"), 9, name=f"msg_{runs[0].external_id}_1")
    assert load(client, "?show=cost").facts["Requests with recorded usage"] == "3"


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice", "runs")
def test_a_filter_over_calls_counts_the_requests_of_their_runs(client: Client) -> None:
    page = load(client, "?show=cost&q=tool:Bash")
    assert page.facts["Requests with recorded usage"] == "1"
    assert "all requests of the runs that have a call of the filter" in page.text


@pytest.mark.usefixtures("alice", "runs")
@each(
    ("content", "problem"),
    [
        ("currency = ", "The price file cannot be read: Invalid value"),
        ('currency = "EUR"', "missing required field `price`"),
        (PRICES.replace("20.0", "-1"), "$.price[1].input"),
        (PRICES.replace("20.0", "nan"), "$.price[1].input"),
        (PRICES.replace("cache_read", "cached"), "unknown field `cached`"),
        ("x" * 1_000_001, "at most 1,000,000 are read"),
    ],
)
def test_a_file_that_cannot_be_used_is_reported(client: Client, prices: Path, content: str, problem: str) -> None:
    prices.write_text(content)
    page = load(client, "?show=cost")
    assert problem in page.by_role("alert").text
    assert "Cost" not in page.facts


def test_a_missing_file_is_reported_and_json_is_read_too(settings: Settings, tmp_path: Path) -> None:
    settings.PRICES = str(tmp_path / "prices.json")
    assert load_prices().problem == "The price file cannot be opened: No such file or directory."
    price = {"model": "a", "from": "2026-01-01", "input": 1}
    (tmp_path / "prices.json").mkdir()
    assert load_prices().problem == "The price file cannot be read: Is a directory."
    (tmp_path / "prices.json").rmdir()
    (tmp_path / "prices.json").write_text(json.dumps({"currency": "EUR", "price": [price]}))
    assert load_prices().find("A", date(2026, 1, 1)) is not None
    assert load_prices().find("a", date(2025, 12, 31)) is None


@each(("cost", "text"), [(0.0, "0.00"), (0.00001, "<0.0001"), (0.0123, "0.0123"), (1_234.5, "1,234.50")])
def test_a_small_cost_is_not_shown_as_none(cost: float, text: str) -> None:
    assert RequestSums(requests=1, priced=1, cost=cost).cost_text == text

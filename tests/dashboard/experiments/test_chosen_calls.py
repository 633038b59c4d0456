"""A comparison of calls that were chosen one by one."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode
from uuid import UUID

import pytest
from django.test import Client

from dashboard.experiments.stored_comparison import load_results
from dashboard.models import Call, Comparison, Project
from dashboard.worker import work_until_idle
from tests.dashboard.factories import create_call, create_project, create_run
from tests.dashboard.measured_comparisons import import_commands
from tests.dashboard.page_text import Page, parse_page


@pytest.fixture
def calls(project: Project, tmp_path: Path) -> list[Call]:
    return import_commands(project, tmp_path, ["one", "two", "three"])


def load(client: Client, address: str) -> Page:
    response = client.get(address)
    assert response.status_code == 200
    return parse_page(response)


@pytest.mark.postgresql
def test_chosen_calls_are_compared_and_again_chosen(operator_client: Client, calls: list[Call]) -> None:
    chosen = [calls[2].pk, calls[0].pk]
    form = load(operator_client, f"/experiments/new/?{urlencode({'call': [key.hex for key in chosen]}, doseq=True)}")
    assert form.by_id("matching").text == "2 calls match."
    assert [box["value"] for box in form.select("input[type=hidden][name=call]")] == [key.hex for key in chosen]
    assert not form.has("#query")
    fields = {"baseline": "recorded", "variant": ["receipt"], "call": [str(key) for key in chosen]}
    address = operator_client.post("/experiments/new/", fields).url
    work_until_idle(Comparison.objects.get())
    page = load(operator_client, address)
    assert page.select(".comparison-facts dd")[0].text == "2, chosen one by one"
    rows = [row for batch in load_results(Comparison.objects.get()) for row in batch]
    assert {row.key for row in rows} == set(chosen)
    again = load(operator_client, page.select_one("[data-key=n]")["href"])
    assert {box["value"] for box in again.select("input[type=hidden][name=call]")} == {key.hex for key in chosen}


def test_calls_that_cannot_be_chosen_are_reported(operator_client: Client, calls: list[Call]) -> None:
    def matching(*keys: object) -> str:
        address = urlencode({"call": keys}, doseq=True)
        return load(operator_client, f"/experiments/new/?{address}").by_id("matching").text

    elsewhere = create_call(create_run(create_project("elsewhere")))
    assert matching(calls[0].pk, elsewhere.pk) == "1 call matches."
    assert "call=nonsense is not an id" in matching("nonsense", calls[0].pk)
    assert "At most 200 calls can be chosen" in matching(*(UUID(int=number) for number in range(201)))

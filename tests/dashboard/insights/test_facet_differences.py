"""What differs in calls that meet a condition: shares on both sides, each with the calls that it counts."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.models import Project
from tests.dashboard.factories import create_call, create_run
from tests.dashboard.insights.test_call_numbers import calls, count_listed, leading_number, load

__all__ = ["calls"]
pytestmark = pytest.mark.django_db


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_shares_are_of_each_side_and_the_largest_difference_is_first(client: Client, project: Project) -> None:
    run, other = create_run(project, model="opus"), create_run(project, model="haiku")
    for number in range(4):
        create_call(run, tool="Bash", is_cut=True, tokens=6_000)
        create_call(other if number else run, tool="Read" if number < 3 else "Bash", tokens=10)
    page = load(client, "?show=differs")
    rows = {(row[0], row[1]): row[2:] for row in page.rows(".differences tbody tr")}
    assert rows["Tokens of the receipt", "5,000 and more"] == ["100% 4", "0%", "+100.0"]
    assert rows["Tool", "Read"] == ["0%", "75% 3", "−75.0"]
    assert rows["Model", "opus"] == ["100% 4", "25% 1", "+75.0"]
    points = [float(row[-1].lstrip("+−")) for row in page.rows(".differences tbody tr")]
    assert points == sorted(points, reverse=True)
    assert ("Outcome", "succeeded") not in rows, "all calls succeeded, on either side"
    assert "what differs need not be a cause" in page.select_one("caption").text
    assert "One side has few calls" in page.text


@pytest.mark.usefixtures("alice", "calls")
@pytest.mark.parametrize(
    "address",
    [
        "",
        "where=status:failed or took:>5s&q=-tool:Read",
        pytest.param("where=tool:bash -took:>2s", marks=pytest.mark.extended),
        pytest.param("where=context:uncertain&from=2026-03-02", marks=pytest.mark.extended),
    ],
)
def test_every_count_is_that_of_the_list_it_leads_to(client: Client, project: Project, address: str) -> None:
    page = load(client, f"?show=differs&{address}")
    for link in page.select("caption a"):
        assert count_listed(project, link) == leading_number(link.text)
    cells = page.select(".differences tbody a")
    assert len(cells) > 20
    for link in cells:
        assert count_listed(project, link) == leading_number(link.select_one("small").text), link["href"]


@pytest.mark.usefixtures("alice", "calls")
def test_without_two_sides_nothing_is_compared(client: Client) -> None:
    assert "No call of the filter meets" in load(client, "?show=differs&where=tool:Nobody").text
    assert "Every call of the filter meets" in load(client, "?show=differs&q=cut:yes").text

"""The navigation of every page, and Setup, which leads to what an operator sets up and looks after."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.models import Project
from tests.dashboard.factories import create_user
from tests.dashboard.page_text import parse_page

pytestmark = pytest.mark.postgresql


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize(
    ("address", "current"),
    [
        ("/runs/", "Runs"),
        ("/insights/", "Runs"),
        ("/calls/", "Calls"),
        ("/review/", "Calls"),
        ("/experiments/", "Experiments"),
        ("/setup/", "Setup"),
        ("/tools/", "Setup"),
        ("/docs/", "Setup"),
    ],
)
def test_the_navigation_marks_the_part_that_a_page_belongs_to(client: Client, address: str, current: str) -> None:
    pages = parse_page(client.get(address)).by_role("navigation", "Pages")
    assert pages.texts("a") == ["Runs", "Calls", "Experiments", "Setup"]
    assert pages.texts("a[aria-current]") == [current]


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("address", ["/nowhere/", "/search/?q=denied"])
def test_the_navigation_marks_no_part_for_an_address_of_none(client: Client, address: str) -> None:
    assert not parse_page(client.get(address)).by_role("navigation", "Pages").select("a[aria-current]")


@pytest.mark.usefixtures("alice")
def test_every_page_searches_everything(client: Client) -> None:
    form = parse_page(client.get("/docs/")).select_one("header.bar form[role=search]")
    assert (form["action"], form.select_one("input")["name"]) == ("/search/", "q")
    assert client.get("/search/?q=denied").status_code == 200


def test_every_link_of_setup_opens_also_for_a_viewer_who_is_offered_fewer(
    client: Client, project: Project, alice: User
) -> None:
    addresses = [link["href"] for link in parse_page(client.get("/setup/")).select("main h2 a")]
    assert {client.get(address).status_code for address in addresses} == {200}
    assert "/audit/" in addresses
    client.force_login(create_user("vera", project=project, role="viewer"))
    offered = [link["href"] for link in parse_page(client.get("/setup/")).select("main h2 a")]
    assert {client.get(address).status_code for address in offered} == {200}
    assert set(addresses) - set(offered) == {"/runs/import/", "/masking/", "/tokens/", "/audit/"}

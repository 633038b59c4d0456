"""The tabs of a run without a call open, and their keys."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.models import Project
from tests.dashboard.factories import create_call, create_run
from tests.dashboard.page_text import parse_page

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize(
    ("plan", "is_offered"),
    [
        (b'{"version": 1, "goal": "ship", "steps": []}', True),
        (b'{"todos": [{"content": "one"}]}', False),
        (b'"A plan in words"', False),
        (None, False),
    ],
)
def test_the_tab_of_a_plan_is_that_of_an_executor(
    client: Client, project: Project, plan: bytes | None, *, is_offered: bool
) -> None:
    run = create_run(project, plan=plan)
    assert ("Plan" in parse_page(client.get(run.get_absolute_url())).texts(".tabs a")) == is_offered
    shown = client.get(f"/runs/{run.pk}/plan")
    assert ("the executor ended" in shown.content.decode()) == (is_offered and not run.is_live)


@pytest.mark.usefixtures("alice")
def test_the_key_that_leads_back_to_the_step_is_no_key_of_the_open_tab(client: Client, project: Project) -> None:
    run = create_run(project)
    create_call(run)
    for tab, key in (("context", "m"), ("replay", "P")):
        page = parse_page(client.get(f"/runs/{run.pk}/{tab}"))
        keys = [link["data-key"] for link in page.select("[data-key]") if key in link["data-key"].split()]
        assert keys == [key]

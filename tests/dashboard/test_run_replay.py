"""A whole run as another variant would have written it: sums that can be recounted, and where it would have ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.http import QueryDict
from django.test import Client

from dashboard.calls.surfaces import surfaces_of
from dashboard.calls.variants import rendered
from dashboard.models import Call, Message, Project, Run
from dashboard.runs.replay import replay_page
from envelopes.tokens import count_tokens
from tests.dashboard.comparisons import import_commands
from tests.dashboard.page_text import text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(project: Project, tmp_path: Path) -> Run:
    import_commands(project, tmp_path, ["short", "\n".join(f"a line with number {n}" for n in range(900))])
    return Run.objects.get()


def test_the_history_is_recounted_from_its_parts(run: Run) -> None:
    page = replay_page(run, QueryDict("with=receipt"))
    calls = list(Call.objects.all())
    around = sum(one.tokens for one in Message.objects.all()) + sum(-(-one.args_bytes // 4) for one in calls)
    receipts = sum(count_tokens(rendered(surfaces_of(call, {}), "receipt").receipt.text).count for call in calls)
    assert page.before.tokens == around + sum(one.tokens for one in calls)
    assert page.after.tokens == around + receipts
    assert page.after.receipts == receipts
    assert page.calls[-1].after_running == page.after.tokens
    assert page.versions == ("command/receipt version 1",)


def test_where_the_history_passes_the_limit_depends_on_the_variant(run: Run) -> None:
    whole = replay_page(run, QueryDict("with=receipt"))
    assert (whole.before.compacted_at, whole.after.compacted_at) == (None, None)
    between = (whole.before.tokens + whole.after.tokens) // 2
    page = replay_page(run, QueryDict(f"with=receipt&limit={between}"))
    assert page.before.compacted_at == page.calls[-1].line
    assert page.after.compacted_at is None


def test_a_variant_that_no_family_of_the_run_has_changes_nothing(run: Run) -> None:
    Call.objects.update(family="file")
    page = replay_page(run, QueryDict("with=tail_first"))
    assert page.before == page.after
    assert page.versions == ()


def test_the_pages_of_the_run_lead_there_and_back(operator_client: Client, run: Run) -> None:
    there = f"/runs/{run.pk}/variants/"
    assert there in operator_client.get(f"/runs/{run.pk}/").content.decode()
    assert there in operator_client.get(f"/runs/{run.pk}/model/").content.decode()
    page = operator_client.get(f"{there}?with=markdown&limit=nonsense&from=-1").content.decode()
    assert "Written by markdown version 1" in text_of(page)
    assert f"/runs/{run.pk}/model/" in page

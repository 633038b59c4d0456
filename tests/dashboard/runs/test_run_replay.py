"""A whole run as another variant would have written it: sums that can be recounted, and where it would have ended."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.evidence.call_evidence import load_evidence
from dashboard.models import Call, Message, Project, RecordedReceipt, Run
from dashboard.runs.replay import ReplayTotals, ReplayView, load_replay_page
from dashboard.variants.render_call import render_call
from dashboard.variants.variant_list import save_version
from envelopes import variants
from envelopes.families.registry import family
from envelopes.schema.receipt import Segment, Variant
from envelopes.text.tokens import count_tokens
from tests.dashboard.factories import create_event, create_user
from tests.dashboard.measured_comparisons import import_commands
from tests.dashboard.page_text import Page, parse_page

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def imported(kept_project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    outputs = ["short", "\n".join(f"a line with number {n}" for n in range(900))]
    import_commands(kept_project, tmp_path_factory.mktemp("sessions"), outputs)


@pytest.fixture
def run(project: Project, imported: None) -> Run:
    return project.runs.get()


def replay(run: Run, name: str, **query: str) -> ReplayView:
    return load_replay_page(run, {"with": name} | query).view


def load_totals(run: Run, name: str, **query: str) -> ReplayTotals:
    return replay(run, name, **query).totals


def load(client: Client, address: str, **headers: str) -> Page:
    response = client.get(address, headers=headers)
    assert response.status_code == 200
    return parse_page(response)


def test_the_history_is_recounted_from_its_parts(run: Run) -> None:
    page = load_replay_page(run, {"with": "receipt"})
    totals = page.view.totals
    calls = list(Call.objects.all())
    around = sum(message.tokens or message.size // 4 for message in Message.objects.all())
    around += sum(call.args_bytes // 4 for call in calls)
    receipts = sum(count_tokens(render_call(load_evidence(call, {}), "receipt").receipt.text).count for call in calls)
    assert totals.before.tokens == around + sum(call.tokens for call in calls)
    assert totals.after.tokens == around + receipts
    assert totals.after.receipts == receipts
    assert page.calls[-1].after_running == totals.after.tokens
    assert page.view.replay.versions == (f"command/receipt version {family('command').versions['receipt']}",)


@pytest.mark.postgresql
def test_where_the_history_passes_the_limit_depends_on_the_variant(run: Run) -> None:
    whole = load_totals(run, "receipt")
    assert (whole.limit, whole.before.full_at, whole.after.full_at) == (200_000, None, None)
    between = load_totals(run, "receipt", limit=str((whole.before.tokens + whole.after.tokens) // 2))
    assert between.before.full_at == whole.calls[-1].call.line
    assert between.after.full_at is None


def test_a_recorded_compaction_sets_the_limit(run: Run) -> None:
    whole = load_totals(run, "receipt")
    line = whole.calls[-1].call.line + 5
    create_event(run, "compact_boundary", line=line)
    totals = load_totals(run, "receipt")
    assert (totals.limit, totals.compacted_at) == (whole.before.tokens, line)
    assert load_totals(run, "receipt", limit="7").limit == 7


def test_an_unanswered_call_is_replayed_as_it_was_recorded(run: Run) -> None:
    unanswered = Call.objects.order_by("line")[0]
    Call.objects.filter(pk=unanswered.pk).update(status=Call.Status.UNKNOWN)
    replayed = replay(run, "receipt").replay
    assert unanswered.pk not in replayed.tokens
    assert replayed.failed == 0


def test_a_variant_that_no_family_of_the_run_has_changes_nothing(run: Run) -> None:
    Call.objects.update(family="file")
    view = replay(run, "tail_first")
    assert view.totals.before == view.totals.after
    assert view.replay.versions == ()


def test_a_long_run_is_written_in_slices_that_say_how_far_they_are(
    operator_client: Client, run: Run, settings: Settings
) -> None:
    settings.ANSWER_SECONDS, settings.REPLAY_BATCH = 0.0, 1
    address = f"/runs/{run.pk}/replay?with=receipt"
    first = load(operator_client, address, **{"HX-Request": "true"}).by_id("totals")
    assert "1 of 2 calls are written so far" in first.text
    assert first["hx-trigger"].startswith("load")
    second = load(operator_client, address, **{"HX-Request": "true"}).by_id("totals")
    assert "written so far" not in second.text
    assert "hx-get" not in second
    assert f"{load_totals(run, 'receipt').after.tokens:,}" in second.text
    begun, done = (load(operator_client, f"/runs/{run.pk}/?with=markdown").select_one(".replay-notice") for _ in "12")
    assert "The sums are not complete: 1 of 2 calls are not written yet" in begun.text
    assert "History:" not in begun.text, "a part is not shown as the whole"
    assert "History:" in done.text


def test_a_template_that_takes_the_time_of_a_page_leaves_the_rest_for_the_next_one(
    operator_client: Client, project: Project, run: Run, settings: Settings
) -> None:
    """Twenty calls of a slow template took 8 s, because only a whole batch had a time limit."""
    author = create_user("author", project=project)
    source = "{% for i in (1..60000) %}{% endfor %}{{ summary_text }}"
    save_version(project, family("command"), author, name="slow", title="", source=source, characters="4000")
    settings.ANSWER_SECONDS = 0.001
    address = f"/runs/{run.pk}/replay?with=slow"
    assert "1 of 2 calls are written so far" in load(operator_client, address).text
    assert "written so far" not in load(operator_client, address).text
    settings.ANSWER_SECONDS = 0.0
    model = load(operator_client, f"/runs/{run.pk}/context?with=slow")
    assert model.text.count("replayed with slow: never seen by the model") == 1
    assert model.text.count("replayed with slow: not written in the time of one page") == 1


def test_a_call_that_the_variant_cannot_write_counts_as_recorded_and_is_counted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> list[Segment]:
        raise RuntimeError("no words")

    broken = Variant(id="broken", version=1, title="Broken", render=fails)
    monkeypatch.setattr(variants, "VARIANTS", (*variants.VARIANTS, broken))
    view = replay(run, "broken")
    assert view.replay.failed == 2
    assert view.totals.before == view.totals.after


def test_the_switch_of_the_run_page_shows_the_variants_tokens_and_keeps_the_rest(
    operator_client: Client, run: Run
) -> None:
    address = f"/runs/{run.pk}/"
    recorded = load(operator_client, f"{address}?q=tool:Bash")
    switch = recorded.by_role("navigation", "Receipts")
    assert switch.by_role("link", "Replay with receipt or another renderer")["href"] == "?q=tool%3ABash&with=receipt"
    assert "Never seen by the model" not in recorded.text
    page = load(operator_client, f"{address}?q=tool:Bash&with=markdown")
    totals = load_totals(run, "markdown")
    notice = page.select_one(".replay-notice").text
    assert "Never seen by the model." in notice
    assert f"{totals.after.tokens:,} with this variant" in notice
    tokens = page.texts("[data-list] .row-tokens")
    assert tokens == [f"{weighed.after:,}" for weighed in totals.calls]
    assert page.by_role("link", "In context")["href"] == f"/runs/{run.pk}/context?with=markdown"
    assert page.select_one("input[name=with]")["value"] == "markdown"


def test_the_model_view_shows_what_the_variant_would_have_written_and_never_calls_it_seen(
    operator_client: Client, run: Run
) -> None:
    page = load(operator_client, f"/runs/{run.pk}/context?with=markdown")
    call = Call.objects.order_by("line").first()
    badges = page.texts(".entry .badge")
    assert badges.count("replayed with markdown: never seen by the model") == 2
    assert "recorded as seen" not in badges
    assert render_call(load_evidence(call, {}), "markdown").receipt.text.splitlines()[0] in page.text
    gauges = [gauge["title"] for gauge in page.select(".gauge")]
    assert f"about {load_totals(run, 'markdown').after.tokens:,} tokens of history up to here, an estimate" in gauges
    assert "never seen by the model" not in load(operator_client, f"/runs/{run.pk}/context").text


@pytest.mark.postgresql
def test_a_call_without_a_recorded_receipt_has_one_under_a_variant(operator_client: Client, run: Run) -> None:
    RecordedReceipt.objects.all().delete()
    Call.objects.update(receipt_count=0, tokens=0)
    badges = load(operator_client, f"/runs/{run.pk}/context?with=receipt").texts(".entry .badge")
    assert badges.count("no receipt was recorded") == 2
    assert badges.count("replayed with receipt: never seen by the model") == 2


def test_the_pages_of_the_run_lead_there_and_back(operator_client: Client, run: Run) -> None:
    address = f"/runs/{run.pk}/replay"
    for name in ("", "context"):
        link = load(operator_client, f"/runs/{run.pk}/{name}?with=receipt").by_role("link", "Call by call")
        assert link["href"] == f"{address}?with=receipt"
    page = load(operator_client, f"{address}?with=markdown&limit=nonsense&from=-1")
    assert "Written by markdown version 1" in page.select_one(".replay-note").text
    assert page.by_role("link", "The history itself")["href"] == f"/runs/{run.pk}/context?with=markdown"


@pytest.mark.usefixtures("alice")
def test_the_old_address_of_a_replay_leads_to_the_new_one(run: Run, client: Client) -> None:
    response = client.get(f"/runs/{run.pk}/variants/?with=receipt&limit=5000")
    assert response.status_code == 302
    assert response.headers["Location"] == f"/runs/{run.pk}/replay?with=receipt&limit=5000"

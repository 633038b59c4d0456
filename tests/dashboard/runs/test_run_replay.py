"""A whole run as another variant would have written it: sums that can be recounted, and where it would have ended."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client

from dashboard.evidence.call_evidence import surfaces_of
from dashboard.models import Call, Message, Project, Receipt, Run
from dashboard.runs import replay
from dashboard.runs.replay_page import replay_page
from dashboard.runs.replay_weights import Weights
from dashboard.variants.render_call import render_call
from envelopes import variants
from envelopes.schema.receipt import Segment
from envelopes.schema.variant import Variant
from envelopes.text.tokens import count_tokens
from tests.dashboard.factories import create_event
from tests.dashboard.measured_comparisons import import_commands
from tests.dashboard.page_text import text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(project: Project, tmp_path: Path) -> Run:
    import_commands(project, tmp_path, ["short", "\n".join(f"a line with number {n}" for n in range(900))])
    return Run.objects.get()


def weights_under(run: Run, name: str, **asked: str) -> Weights:
    return replay_page(run, {"with": name} | asked).under.weights


def test_the_history_is_recounted_from_its_parts(run: Run) -> None:
    page = replay_page(run, {"with": "receipt"})
    weights = page.under.weights
    calls = list(Call.objects.all())
    around = sum(one.tokens or one.size // 4 for one in Message.objects.all()) + sum(
        one.args_bytes // 4 for one in calls
    )
    receipts = sum(count_tokens(render_call(surfaces_of(call, {}), "receipt").receipt.text).count for call in calls)
    assert weights.before.tokens == around + sum(one.tokens for one in calls)
    assert weights.after.tokens == around + receipts
    assert weights.after.receipts == receipts
    assert page.calls[-1].after_running == weights.after.tokens
    assert page.under.replayed.versions == ("command/receipt version 1",)


def test_where_the_history_passes_the_limit_depends_on_the_variant(run: Run) -> None:
    whole = weights_under(run, "receipt")
    assert (whole.limit, whole.before.compacted_at, whole.after.compacted_at) == (200_000, None, None)
    between = weights_under(run, "receipt", limit=str((whole.before.tokens + whole.after.tokens) // 2))
    assert between.before.compacted_at == whole.calls[-1].member.line
    assert between.after.compacted_at is None


def test_a_recorded_compaction_sets_the_limit(run: Run) -> None:
    whole = weights_under(run, "receipt")
    line = whole.calls[-1].member.line + 5
    create_event(run, "compact_boundary", line=line)
    weights = weights_under(run, "receipt")
    assert (weights.limit, weights.recorded_at) == (whole.before.tokens, line)
    assert weights_under(run, "receipt", limit="7").limit == 7


def test_a_call_that_nothing_answered_stands_as_it_was_recorded(run: Run) -> None:
    asked = Call.objects.order_by("line")[0]
    Call.objects.filter(pk=asked.pk).update(status=Call.Status.UNKNOWN)
    replayed = replay_page(run, {"with": "receipt"}).under.replayed
    assert asked.pk not in replayed.tokens
    assert replayed.failed == 0


def test_a_variant_that_no_family_of_the_run_has_changes_nothing(run: Run) -> None:
    Call.objects.update(family="file")
    under = replay_page(run, {"with": "tail_first"}).under
    assert under.weights.before == under.weights.after
    assert under.replayed.versions == ()


def test_a_long_run_is_written_in_slices_that_say_how_far_they_are(
    operator_client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(replay, "PORTION", 1)
    address = f"/runs/{run.pk}/variants/?with=receipt"
    first = operator_client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "1 of 2 calls are written so far" in text_of(first)
    assert 'hx-trigger="load' in first
    second = operator_client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "written so far" not in second
    assert "hx-get" not in second
    assert f"{weights_under(run, 'receipt').after.tokens:,}" in text_of(second)
    begun, done = (text_of(operator_client.get(f"/runs/{run.pk}/?with=markdown").content.decode()) for _ in range(2))
    assert "The sums are not there yet: the last 1 of 2 calls are still to be written" in begun
    assert "The history weighs" not in begun, "a part is not shown as the whole"
    assert "The history weighs" in done


def test_a_call_that_the_variant_cannot_write_counts_as_recorded_and_is_counted(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> list[Segment]:
        raise RuntimeError("no words")

    broken = Variant(id="broken", version=1, title="Broken", render=fails)
    monkeypatch.setattr(variants, "VARIANTS", (*variants.VARIANTS, broken))
    under = replay_page(run, {"with": "broken"}).under
    assert under.replayed.failed == 2
    assert under.weights.before == under.weights.after


def test_the_switch_of_the_run_page_shows_the_variants_tokens_and_keeps_the_rest(
    operator_client: Client, run: Run
) -> None:
    page = f"/runs/{run.pk}/"
    plain = operator_client.get(f"{page}?q=tool:Bash").content.decode()
    assert "?q=tool%3ABash&amp;with=receipt" in plain
    assert "Never seen by the model" not in plain
    under = operator_client.get(f"{page}?q=tool:Bash&with=markdown").content.decode()
    weights = weights_under(run, "markdown")
    assert "Never seen by the model." in text_of(under)
    assert f"{weights.after.tokens:,} so" in text_of(under)
    assert re.findall(r'class="tok">([\d,]+)<', under) == [f"{one.after:,}" for one in weights.calls]
    assert f"/runs/{run.pk}/model/?with=markdown" in under
    assert 'name="with" value="markdown"' in under


def test_the_model_view_shows_what_the_variant_would_have_written_and_never_calls_it_seen(
    operator_client: Client, run: Run
) -> None:
    page = operator_client.get(f"/runs/{run.pk}/model/?with=markdown").content.decode()
    call = Call.objects.order_by("line").first()
    assert text_of(page).count("as markdown would have: never seen by the model") == 2
    assert render_call(surfaces_of(call, {}), "markdown").receipt.text.splitlines()[0] in text_of(page)
    assert "recorded as seen" not in text_of(page)
    assert f"{weights_under(run, 'markdown').after.tokens:,} tokens of history up to here" in page
    assert "never seen by the model" not in operator_client.get(f"/runs/{run.pk}/model/").content.decode()


def test_a_call_without_a_recorded_receipt_has_one_under_a_variant(operator_client: Client, run: Run) -> None:
    Receipt.objects.all().delete()
    Call.objects.update(receipt_count=0, tokens=0)
    page = text_of(operator_client.get(f"/runs/{run.pk}/model/?with=receipt").content.decode())
    assert page.count("no receipt was recorded") == 2
    assert "as receipt would have: never seen by the model" in page


def test_the_pages_of_the_run_lead_there_and_back(operator_client: Client, run: Run) -> None:
    there = f"/runs/{run.pk}/variants/"
    assert there in operator_client.get(f"/runs/{run.pk}/?with=receipt").content.decode()
    assert there in operator_client.get(f"/runs/{run.pk}/model/?with=receipt").content.decode()
    page = operator_client.get(f"{there}?with=markdown&limit=nonsense&from=-1").content.decode()
    assert "Written by markdown version 1" in text_of(page)
    assert f"/runs/{run.pk}/model/" in page

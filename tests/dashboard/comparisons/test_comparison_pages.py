"""The pages of comparisons: put together, watched, read, followed down to a call."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.comparisons import lifecycle
from dashboard.comparisons.column_order import ColumnOrder
from dashboard.comparisons.lifecycle import start_comparison
from dashboard.comparisons.new_comparison import Selection
from dashboard.comparisons.params import calls_href
from dashboard.comparisons.results import count_done, load_results
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Comparison, ComparisonColumn, Observation, Project
from dashboard.worker.comparisons import work_once, work_until_idle
from tests.dashboard.factories import create_project, create_user
from tests.dashboard.measured_comparisons import compared, import_commands
from tests.dashboard.page_text import text_of
from tests.dashboard.sessions import answers, asks, user, write

OUTPUTS = ["one", "two\nlines", "\n".join(f"line {number} of many" for number in range(900)), 'a "quoted"\ntext here']
OTHER = "0f5f6d8e-0000-4000-8000-000000000007"
HOSTILE = '<script>alert(1)</script>"\n<img src=x onerror=alert(1)>'


@pytest.fixture
def calls(project: Project, tmp_path: Path) -> list[Call]:
    return import_commands(project, tmp_path, OUTPUTS)


def page(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status
    return response.content.decode()


def test_without_any_comparison_the_page_says_how_to_make_one(operator_client: Client) -> None:
    assert "compare_variants" in page(operator_client, "/comparisons/")


def test_the_form_says_how_many_calls_match_before_anything_starts(operator_client: Client, calls: list[Call]) -> None:
    assert "4 calls match." in text_of(page(operator_client, "/comparisons/new/"))
    assert "1 call matches." in text_of(
        page(operator_client, "/comparisons/new/?family=command&sample=&query=toolu_00101")
    )
    drawn = text_of(page(operator_client, "/comparisons/new/?sample=3"))
    assert "4 calls match, 3 of them are sampled." in drawn
    Call.objects.filter(pk=calls[0].pk).update(status="unknown")
    left = "1 of them has no recorded result and is left out."
    assert f"4 calls match. {left}" in text_of(page(operator_client, "/comparisons/new/"))
    drawn = text_of(page(operator_client, "/comparisons/new/?sample=2"))
    assert "4 calls match, 2 of the 3 with a recorded result are sampled." in drawn
    form = page(operator_client, "/comparisons/new/").partition("<form action")[2]
    assert re.findall(r"<(\w+)[^>]*csrfmiddlewaretoken", form) == ["button"], (
        "or counting would put it into the address"
    )
    assert "“nonsense:” is not a filter" in page(operator_client, "/comparisons/new/?query=nonsense:1")
    assert "whole number" in page(operator_client, "/comparisons/new/?sample=many")


def test_a_comparison_is_started_watched_cancelled_and_resumed(operator_client: Client, calls: list[Call]) -> None:
    asked = {"family": "command", "baseline": "recorded", "variant": ["receipt", "tail_first"], "name": "Tails"}
    address = operator_client.post("/comparisons/new/", asked).url
    comparison = Comparison.objects.get()
    assert (comparison.name, comparison.created_by.username) == ("Tails", "olga")
    queued = text_of(page(operator_client, address))
    assert "Queued: 0 of 4 calls." in queued
    assert "Waiting for a background process" in queued, "nobody is there"
    comparison.batches.update(leased_until=timezone.now() + timedelta(seconds=60))
    assert "Background processes continue" in text_of(page(operator_client, address))
    comparison.batches.update(leased_until=None)
    operator_client.post(address, {"do": "cancel"})
    cancelled = text_of(page(operator_client, address))
    assert "Cancelled: 0 of 4 calls." in cancelled
    assert "Partial results are hidden" in cancelled
    assert "cancelled after 0 of 4" in text_of(page(operator_client, "/comparisons/"))
    operator_client.post(address, {"do": "resume"})
    work_until_idle("worker")
    shown = text_of(page(operator_client, address))
    assert "Totals and differences" in shown
    assert "Over 4 calls." in shown
    assert "Tokens are estimates, counted in o200k_base." in shown
    fragment = operator_client.get(address, headers={"HX-Request": "true"})
    assert fragment["HX-Refresh"] == "true"


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"query": "tool:Nobody"}, "No call matches"), ({"variant": ["recorded"]}, "2 to 8 variants")],
)
def test_what_cannot_be_started_is_said_on_the_form(
    operator_client: Client, calls: list[Call], asked: dict[str, object], said: str
) -> None:
    response = operator_client.post("/comparisons/new/", asked)
    assert response.status_code == 422
    assert said in response.content.decode()


def test_the_page_shows_the_numbers_that_were_added_up_and_the_versions(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, summary = compared(project, ["recorded", "receipt", "canonical_json"])
    shown = text_of(page(operator_client, comparison.get_absolute_url()))
    for column in summary.columns:
        assert f"{column.totals['tokens'].value:,}" in shown
    assert f"{summary.columns[2].deltas['characters'].change:+,}" in shown
    assert "escaped_json" in shown
    assert "command/receipt" in shown
    assert "b7ba0365e14843ae" in shown
    by_tool = page(operator_client, f"{comparison.get_absolute_url()}?by=tool&measure=lint&order=2&column=2")
    assert "Bash" in by_tool
    assert "Mean lint findings a call" in by_tool


@pytest.mark.parametrize(
    "query",
    [
        "?column=99",
        "?column=x",
        "?measure=love&by=moon&order=9",
        "?order=²",
        "?column=0",
        "?columns=1&column=1",
        "?columns=1.1",
        "?columns=0.9",
    ],
)
def test_an_address_that_makes_no_sense_shows_the_page(
    operator_client: Client, project: Project, calls: list[Call], query: str
) -> None:
    comparison, _ = compared(project, ["recorded", "receipt"])
    assert "Totals and differences" in page(operator_client, comparison.get_absolute_url() + query)


def test_a_total_over_fewer_calls_is_not_shown_as_one_over_all(
    operator_client: Client, project: Project, calls: list[Call], tmp_path: Path
) -> None:
    lines = [
        user("go", uuid="u2", session=OTHER),
        asks("toolu_read", tool="Read", args={"file_path": "/a"}, session=OTHER),
        answers("toolu_read", "1\tx", {"type": "text", "file": {"filePath": "/a", "content": "x"}}, session=OTHER),
    ]
    import_paths(project, [write(tmp_path / f"{OTHER}.jsonl", lines)])
    comparison, _ = compared(project, ["recorded", "receipt", "tail_first"])
    shown = " ".join(re.sub("<[^>]*>", " ", page(operator_client, comparison.get_absolute_url())).split())
    assert "Calls with a text 5 5 4 of 5" in shown
    assert "over 4 calls only" in shown
    assert "Calls with a text in both – 5 4" in shown


def test_a_difference_says_what_it_is_worth_without_colour(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    """One long output is cut and decides the total; all the others grow by a headline."""
    import_commands(project, tmp_path, ["short"] * 8 + ["\n".join(f"{line} and more" for line in range(4_000))])
    comparison, _ = compared(project, ["recorded", "receipt", "canonical_json"])
    shown = text_of(page(operator_client, comparison.get_absolute_url()))
    assert "no clear difference" in shown
    assert "8 more, 1 fewer, p = 0.039" in shown
    assert "receipt takes fewer tokens than recorded in all, but more in 8 of 9 calls" in shown
    assert "+1 (+11.1 points)" in shown
    assert ": too few calls to tell" in shown, "nine calls, however alike, are no proof"
    assert 'data-tone="good"' not in page(operator_client, comparison.get_absolute_url()).partition('id="heat"')[0]
    grid = page(operator_client, f"{comparison.get_absolute_url()}?measure=cut").partition('id="heat"')[2]
    assert "+11.1 points" in grid
    assert "fullest at 25 points" in grid
    assert re.findall(r'data-heat="(-?\d)"', grid) == ["0", "2", "2"]
    assert grid.count(" data-faint") == 2, "nine calls are not drawn like nine hundred"
    assert "the same in every call" in shown


def test_the_columns_are_put_into_another_order_under_another_baseline(
    operator_client: Client, client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, _ = compared(project, ["recorded", "receipt", "canonical_json"])
    address = comparison.get_absolute_url()
    moved = page(operator_client, f"{address}?columns=0.2.1&measure=lint")
    assert links(moved, r'<a href="(\?[^"]*)#calls"') == [
        f"?columns=0.2.1{one}&measure=lint" for one in ("", "&column=2")
    ]
    assert re.findall(r'name="columns" value="([\d.]+)"', moved) == ["2.0.1", "1.0.2"]
    assert "Show 1 hidden column" in page(operator_client, f"{address}?columns=0.2")
    assert "No results against canonical_json yet" in text_of(page(operator_client, f"{address}?columns=2.1"))

    asked = operator_client.post(f"{address}?measure=lint", {"do": "baseline", "columns": "2.1"})
    assert asked.url == f"{address}?columns=2.1&measure=lint"
    assert "Computing the results against canonical_json" in text_of(page(operator_client, asked.url))
    later = start_comparison(project, Selection(), ["recorded", "receipt"])
    assert work_once("worker")
    assert count_done(later) == 0, "who looks at a page does not wait for a hundred thousand calls of others"
    lifecycle.cancel(later)
    assert not work_once("worker"), "once is enough"
    shown = page(operator_client, asked.url)
    _, own = compared(project, ["canonical_json", "receipt"])
    anew = ColumnOrder.read(comparison, {"columns": "2.1"}).summary
    assert anew is not None
    assert anew.columns == own.columns, "as if it had been made so"
    assert f"{own.columns[1].deltas['tokens'].change:+,}" in text_of(shown)
    worst = links(shown, r'<li data-item><a href="([^"]*)"')[0]
    assert "columns=2.1" in worst
    pair = page(operator_client, worst)
    assert re.findall(r"Text by (\w+)", pair) == ["canonical_json", "receipt"]
    assert "columns=2.1" in links(pair, r'href="([^"]*)" data-key="j"')[0]
    cell = links(shown, r'data-heat="[^"]*"[^>]* data-head="receipt"><a href="([^"]*)"')[0]
    assert "Tokens, canonical_json" in page(operator_client, cell)

    client.force_login(create_user("vera", project=project, role="viewer"))
    assert "as baseline" not in page(client, address)
    assert client.post(address, {"do": "baseline", "columns": "1.0.2"}).status_code == 403


def test_calls_that_were_all_deleted_leave_a_page_that_says_so(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison = start_comparison(project, Selection(), ["recorded", "receipt"])
    Call.objects.all().delete()
    work_until_idle("worker", comparison)
    shown = text_of(page(operator_client, comparison.get_absolute_url()))
    assert "Nothing to compare" in shown
    assert "Totals and differences" not in shown


def test_a_renderer_that_serves_many_families_is_named_once(
    operator_client: Client, project: Project, calls: list[Call], tmp_path: Path
) -> None:
    comparison, _ = compared(project, ["recorded", "canonical_json"])
    ComparisonColumn.objects.create(
        comparison=comparison, ordinal=1, name="canonical_json", family="file", variant="canonical_json",
        version=1, hash=comparison.columns.get(ordinal=1).hash, policy="p",
    )  # fmt: skip
    shown = page(operator_client, comparison.get_absolute_url())
    assert "command, file" in shown
    assert shown.count(comparison.columns.filter(ordinal=1)[0].hash) == 1


def test_each_bar_of_a_distribution_leads_to_its_calls(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, summary = compared(project, ["recorded", "receipt"])
    shown = page(operator_client, comparison.get_absolute_url())
    for number, count in summary.columns[1].changes.items():
        href = calls_href(comparison, 1, changes=number)
        assert href.replace("&", "&amp;") in shown
        assert len(re.findall(r"<tr data-item>", page(operator_client, href))) == count
    assert "No such call" in page(operator_client, calls_href(comparison, 1, changes=40))
    of_tool = page(operator_client, calls_href(comparison, 0, tool="Bash"))
    for number in range(len(calls)):
        assert f"step {number}" in text_of(of_tool), "or one command could not be told from another"
        assert f"step {number}" in text_of(shown)
    assert len(re.findall(r"<tr data-item>", of_tool)) == len(calls)


def test_a_long_list_of_calls_goes_on_where_it_ended(operator_client: Client, project: Project, tmp_path: Path) -> None:
    import_commands(project, tmp_path, [f"output {number}" for number in range(60)])
    comparison, _ = compared(project, ["recorded", "receipt"])
    first = page(operator_client, calls_href(comparison, 1, tool="Bash"))
    following = re.search(r'href="(\?[^"]*after=[^"]*)"', first)
    assert following is not None
    second = page(operator_client, f"/comparisons/{comparison.pk}/calls/" + following[1].replace("&amp;", "&"))
    keys = [re.findall(r"/calls/([0-9a-f-]{36})/\?column", one) for one in (first, second)]
    assert (len(keys[0]), len(keys[1])) == (50, 10)
    assert len(set(keys[0] + keys[1])) == 60
    assert ">50 of 60</a>" in page(operator_client, comparison.get_absolute_url())
    assert "the first 50 of 60 calls" in page(operator_client, calls_href(comparison, 1, changed="tokens"))
    assert "No such call" in page(operator_client, calls_href(comparison, 1, tool="Nothing"))


def test_a_comparison_is_made_again_as_it_was_asked_for(operator_client: Client, calls: list[Call]) -> None:
    asked = {"query": "tool:Bash", "family": "command", "sample": "3", "seed": "9", "baseline": "receipt"}
    address = operator_client.post("/comparisons/new/", {**asked, "variant": ["recorded", "tail_first"]}).url
    (again,) = links(page(operator_client, address), r'href="([^"]*)" title="A new comparison')
    form = page(operator_client, again)
    assert 'value="tool:Bash"' in form
    assert "4 calls match, 3 of them are sampled." in text_of(form)
    assert links(form, r'name="variant" value="(\w+)" checked') == ["recorded", "tail_first"]
    assert links(form, r"<option selected>(\w+)") == ["command", "receipt"]
    assert 'value="9"' in form


def test_a_variant_that_is_another_today_is_told_without_opening_anything(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, _ = compared(project, ["recorded", "receipt"])
    assert "changed since" not in page(operator_client, comparison.get_absolute_url())
    ComparisonColumn.objects.filter(comparison=comparison, ordinal=1).update(hash="0" * 16)
    summary = page(operator_client, comparison.get_absolute_url()).partition("Versions compared")[2]
    assert "changed since" in summary.partition("</summary>")[0]


def test_a_pair_shows_both_texts_and_walks_the_list_it_came_from(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, summary = compared(project, ["recorded", "canonical_json"])
    worst, second = summary.columns[1].changed["tokens"][:2]
    shown = page(operator_client, f"/comparisons/{comparison.pk}/calls/{worst.key}/?column=1&changed=tokens")
    assert "Text by recorded" in shown
    assert "Text by canonical_json" in shown
    assert f"/comparisons/{comparison.pk}/calls/{second.key}/" in shown
    assert "1 of 4" in text_of(shown)
    assert "measured another one" not in shown


def links(shown: str, pattern: str) -> list[str]:
    return [one.replace("&amp;", "&") for one in re.findall(pattern, shown)]


def test_a_pair_walks_the_calls_of_the_list_it_came_from(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    """Every third call has output; the last of them lie in the second batch."""
    import_commands(project, tmp_path, ["", "", "some output"] * 74)
    comparison, summary = compared(project, ["recorded", "receipt"])
    bucket = next(number for number, count in summary.columns[0].sizes.items() if number and count)
    first = page(operator_client, calls_href(comparison, 0, sizes=bucket))
    (onward,) = links(first, r'href="(\?[^"]*after=[^"]*)"')
    second = page(operator_client, f"/comparisons/{comparison.pk}/calls/{onward}")
    listed = [one for shown in (first, second) for one in links(shown, r'<th scope="row"><a href="([^"]*)"')]
    assert len(listed) == 74
    assert "74 calls" in second
    across = next(place for place, one in enumerate(listed) if "at=1." in one) - 2
    at, seen = listed[across], []
    while at:
        seen.append(at)
        shown = page(operator_client, at)
        at = "".join(links(shown, r'href="([^"]*)" data-key="j"'))
    assert seen == listed[across:]
    assert "Up to the list" in shown
    assert links(shown, r'href="([^"]*)" data-key="k"') == [listed[-2]]


def test_a_pair_says_by_how_much_it_changed_and_lays_its_difference_out_as_asked(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, summary = compared(project, ["recorded", "receipt", "canonical_json"])
    worst = summary.columns[2].changed["tokens"][0]
    address = f"/comparisons/{comparison.pk}/calls/{worst.key}/"
    shown = page(operator_client, f"{address}?column=2")
    assert f"{worst.change:+,} tokens ({worst.after / worst.before - 1:+.1%})" in text_of(shown)
    assert 'data-view="side"' in shown
    assert f"{worst.call[-8:]}" in text_of(shown)
    assert "receipt against recorded" in text_of(shown)
    assert "step 2" in shown  # what it was called with
    unified = page(operator_client, f"{address}?column=2&view=unified&spaces=1")
    assert 'data-view="unified"' in unified
    assert "Hide white space" in text_of(unified)
    for odd in ("?row=²", "?row=99999", "?at=x.y&tool=Bash", "?at=9999.1&tool=Bash&listed=7", "?at=-1&sizes=3"):
        assert "Difference, line by line" in page(operator_client, address + odd)


def test_a_text_that_changed_since_is_said_to_have_changed(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, _ = compared(project, ["recorded", "receipt"])
    Observation.objects.filter(call=calls[0], surface="receipt").update(data=b'"another"')
    shown = page(operator_client, f"/comparisons/{comparison.pk}/calls/{calls[0].pk}/")
    assert "measured another one" in shown


def test_hostile_outputs_stay_text(operator_client: Client, project: Project, tmp_path: Path) -> None:
    (call,) = import_commands(project, tmp_path, [HOSTILE])
    Call.objects.filter(pk=call.pk).update(tool="<b>Bash</b>")
    comparison, _ = compared(project, ["recorded", "canonical_json"])
    Comparison.objects.filter(pk=comparison.pk).update(name=HOSTILE)
    for address in ("/comparisons/", comparison.get_absolute_url(), f"/comparisons/{comparison.pk}/calls/{call.pk}/"):
        shown = page(operator_client, address)
        assert "<script>alert" not in shown
        assert "<img src=x" not in shown
        assert "<b>Bash" not in shown


def test_nobody_sees_or_changes_the_comparisons_of_another_project(
    operator_client: Client, calls: list[Call], tmp_path: Path
) -> None:
    other = create_project("other")
    theirs = import_commands(other, tmp_path, ["secret"], session="0f5f6d8e-0000-4000-8000-000000000009")
    comparison, _ = compared(other, ["recorded", "receipt"])
    key = comparison.pk
    for address in (f"/comparisons/{key}/", f"/comparisons/{key}/calls/", f"/comparisons/{key}/calls/{theirs[0].pk}/"):
        page(operator_client, address, 404)
    assert operator_client.post(f"/comparisons/{key}/", {"do": "delete"}).status_code == 404
    assert Comparison.objects.filter(pk=key).exists()


def test_a_viewer_reads_and_changes_nothing(client: Client, project: Project, calls: list[Call]) -> None:
    comparison, _ = compared(project, ["recorded", "receipt"])
    client.force_login(create_user("vera", project=project, role="viewer"))
    assert "Delete" not in page(client, comparison.get_absolute_url())
    for deed in ("cancel", "pin", "delete"):
        assert client.post(comparison.get_absolute_url(), {"do": deed}).status_code == 403
    assert client.post("/comparisons/new/", {"variant": ["receipt"]}).status_code == 403


def test_a_comparison_is_pinned_and_deleted(operator_client: Client, project: Project, calls: list[Call]) -> None:
    comparison, _ = compared(project, ["recorded", "receipt"])
    operator_client.post(comparison.get_absolute_url(), {"do": "pin"})
    assert "pinned" in page(operator_client, "/comparisons/")
    assert operator_client.post(comparison.get_absolute_url(), {"do": "sing"}).status_code == 404
    assert operator_client.post(comparison.get_absolute_url(), {"do": "delete"}).url == "/comparisons/"
    assert not Comparison.objects.exists()


def test_an_unfinished_comparison_has_no_numbers_to_show(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison = start_comparison(project, Selection(), ["recorded", "receipt"])
    page(operator_client, f"/comparisons/{comparison.pk}/calls/{calls[0].pk}/", 404)
    assert "Totals" not in page(operator_client, comparison.get_absolute_url())
    assert list(load_results(comparison)) == []

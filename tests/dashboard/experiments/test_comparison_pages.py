"""The pages of comparisons: put together, watched, read, followed down to a call."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from dashboard.experiments import stored_comparison
from dashboard.experiments.params import ColumnOrder, calls_href
from dashboard.experiments.stored_comparison import Selection, load_results, start_comparison
from dashboard.ingest.importer import import_paths
from dashboard.leadership import leadership
from dashboard.models import Call, Comparison, ComparisonColumn, Observation, Project
from dashboard.text.formatting import format_change
from dashboard.worker import Leader, work_until_idle
from envelopes.families.registry import family
from envelopes.variants import family_variant
from tests.cases import each
from tests.dashboard.factories import create_project, create_user
from tests.dashboard.measured_comparisons import compared, import_commands
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.sessions import answers, asks, user, write

OUTPUTS = ["one", "two\nlines", "\n".join(f"line {number} of many" for number in range(900)), 'a "quoted"\ntext here']
OTHER = "0f5f6d8e-0000-4000-8000-000000000007"
HOSTILE = '<script>alert(1)</script>"\n<img src=x onerror=alert(1)>'


def load(client: Client, address: str, status: int = 200) -> Page:
    response = client.get(address)
    assert response.status_code == status
    return parse_page(response)


def hrefs(page: Page, selector: str) -> list[str]:
    return [link["href"] for link in page.select(selector)]


def test_without_any_comparison_the_page_says_how_to_make_one(operator_client: Client) -> None:
    assert "compare_variants" in load(operator_client, "/experiments/").text


def test_the_form_says_how_many_calls_match_before_anything_starts(operator_client: Client, calls: list[Call]) -> None:
    def matching(query: str = "") -> str:
        return load(operator_client, f"/experiments/new/{query}").by_id("matching").text

    assert matching() == "4 calls match."
    assert matching("?family=command&sample=&query=toolu_00101") == "1 call matches."
    assert matching("?sample=3") == "4 calls match, 3 of them are sampled."
    Call.objects.filter(pk=calls[0].pk).update(status="unknown")
    assert matching() == "4 calls match. 1 of them has no recorded result and is left out."
    assert matching("?sample=2") == "4 calls match, 2 of the 3 with a recorded result are sampled."
    tokens = load(operator_client, "/experiments/new/").select("form.comparison-form [name=csrfmiddlewaretoken]")
    assert [token.tag for token in tokens] == ["button"], "or counting would put it into the address"
    assert "“nonsense:” at character 1 is not a filter" in matching("?query=nonsense:1")
    assert "sample=many is not a whole number" in matching("?sample=many")


@pytest.mark.postgresql
def test_a_comparison_is_started_watched_cancelled_and_resumed(operator_client: Client, calls: list[Call]) -> None:
    form = {"family": "command", "baseline": "recorded", "variant": ["receipt", "tail_first"], "name": "Tails"}
    address = operator_client.post("/experiments/new/", form).url
    comparison = Comparison.objects.get()
    assert (comparison.name, comparison.created_by.username) == ("Tails", "olga")
    queued = load(operator_client, address).by_id("progress").text
    assert "Queued: 0 of 4 calls." in queued
    assert "Waiting for the background work" in queued, "nobody is there"
    with leadership():
        assert "The background work continues" in load(operator_client, address).by_id("progress").text
    operator_client.post(address, {"do": "cancel"})
    cancelled = load(operator_client, address).by_id("progress").text
    assert "Cancelled: 0 of 4 calls." in cancelled
    assert "Partial results are hidden" in cancelled
    assert "cancelled after 0 of 4" in load(operator_client, "/experiments/").text
    operator_client.post(address, {"do": "resume"})
    work_until_idle()
    totals = load(operator_client, address).select_one("section[aria-labelledby=totals-title]")
    assert "Over 4 calls." in totals.text
    assert "Tokens are estimates, counted in o200k_base." in totals.text
    fragment = operator_client.get(address, headers={"HX-Request": "true"})
    assert fragment["HX-Refresh"] == "true"


@pytest.mark.parametrize(
    ("form", "reason"),
    [({"query": "tool:Nobody"}, "No call matches"), ({"variant": ["recorded"]}, "2 to 8 variants")],
)
def test_a_comparison_that_cannot_start_is_reported_on_the_form(
    operator_client: Client, calls: list[Call], form: dict[str, object], reason: str
) -> None:
    response = operator_client.post("/experiments/new/", form)
    assert response.status_code == 422
    assert reason in parse_page(response).by_role("alert").text


def test_the_page_shows_the_numbers_that_were_added_up_and_the_versions(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, summary = compared(project, ["recorded", "receipt", "canonical_json"])
    text = load(operator_client, comparison.get_absolute_url()).text
    for column in summary.columns:
        assert f"{column.totals['tokens'].value:,}" in text
    assert format_change(summary.columns[2].deltas["characters"].change) in text
    assert "text escaped as JSON" in text
    assert "command/receipt" in text
    assert family_variant(family("command"), "receipt").hash in text
    grid = load(operator_client, f"{comparison.get_absolute_url()}?by=tool&measure=lint&order=2&column=2").by_id("heat")
    assert "Bash" in grid.texts("tbody th")
    assert "Mean lint findings a call" in grid.text


@each(
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
    comparison = project.comparisons.first() or compared(project, ["recorded", "receipt"])[0]
    assert load(operator_client, comparison.get_absolute_url() + query).by_role("heading", "Totals and differences")


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
    rows = load(operator_client, comparison.get_absolute_url()).select_one("table.figures").rows("tbody tr")
    cells = {label: cells for label, *cells in rows}
    assert cells["Calls with a text"] == ["5", "5", "4 of 5"]
    assert cells["Calls with a text in both"] == ["–", "5", "4"]
    tokens = next(cells for label, *cells in rows if label == "Tokens")
    assert "over 4 calls only" in tokens[2]


def test_a_difference_says_what_it_is_worth_without_colour(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    """One long output is cut and decides the total; all the others grow by a headline."""
    import_commands(project, tmp_path, ["short"] * 8 + ["\n".join(f"{line} and more" for line in range(4_000))])
    comparison, _ = compared(project, ["recorded", "receipt", "canonical_json"])
    page = load(operator_client, comparison.get_absolute_url())
    assert "no clear difference" in page.text
    assert "8 more, 1 fewer, p = 0.039" in page.text
    assert "receipt takes fewer tokens than recorded in all, but more in 8 of 9 calls" in page.text
    assert "+1 (+11.1 points)" in page.text
    assert "the same in every call" in page.text
    totals = page.select_one("section[aria-labelledby=totals-title]")
    assert ": too few calls to tell" in totals.text, "nine calls, however alike, are no proof"
    assert not totals.has("[data-tone=good]")
    grid = load(operator_client, f"{comparison.get_absolute_url()}?measure=cut").by_id("heat")
    assert "+11.1 points" in grid.text
    assert "fullest at 25 points" in grid.text
    assert [cell["data-heat"] for cell in grid.select("[data-heat]")] == ["0", "2", "2"]
    assert len(grid.select("[data-faint]")) == 2, "nine calls are not drawn like nine hundred"


@pytest.mark.postgresql
def test_the_columns_are_put_into_another_order_under_another_baseline(
    operator_client: Client, client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, _ = compared(project, ["recorded", "receipt", "canonical_json"])
    address = comparison.get_absolute_url()
    moved = load(operator_client, f"{address}?columns=0.2.1&measure=lint")
    assert hrefs(moved, "#calls .tabs a") == [
        f"?columns=0.2.1{column}&measure=lint#calls" for column in ("", "&column=2")
    ]
    assert [button["value"] for button in moved.select("button[name=columns]")] == ["2.0.1", "1.0.2"]
    assert load(operator_client, f"{address}?columns=0.2").by_role("link", "Show 1 hidden column")
    assert "No results against canonical_json yet" in load(operator_client, f"{address}?columns=2.1").text

    posted = operator_client.post(f"{address}?measure=lint", {"do": "baseline", "columns": "2.1"})
    assert posted.url == f"{address}?columns=2.1&measure=lint"
    assert "Computing the results against canonical_json" in load(operator_client, posted.url).text
    later = start_comparison(project, Selection(), ["recorded", "receipt"])
    with Leader() as leader:
        assert leader.step()
        later.refresh_from_db()
        assert later.state == Comparison.State.QUEUED, "a page does not wait for a hundred thousand calls of others"
        stored_comparison.cancel(later)
        assert not leader.step(), "once is enough"
    page = load(operator_client, posted.url)
    _, own = compared(project, ["canonical_json", "receipt"])
    summary = ColumnOrder.read(comparison, {"columns": "2.1"}).summary
    assert summary is not None
    assert summary.columns == own.columns, "as if it had been made so"
    assert format_change(own.columns[1].deltas["tokens"].change) in page.text
    worst = hrefs(page, ".changed [data-item] a")[0]
    assert "columns=2.1" in worst
    pair = load(operator_client, worst)
    assert [half["aria-label"] for half in pair.select(".half[aria-label^=Receipt]")] == [
        "Receipt by canonical_json",
        "Receipt by receipt",
    ]
    assert "columns=2.1" in hrefs(pair, 'a[data-key="j"]')[0]
    cell = hrefs(page, "[data-heat][data-head=receipt] a")[0]
    assert "Tokens, canonical_json" in load(operator_client, cell).texts("thead th")

    client.force_login(create_user("vera", project=project, role="viewer"))
    assert not load(client, address).all_by_role("button", "as baseline")
    assert client.post(address, {"do": "baseline", "columns": "1.0.2"}).status_code == 403


def test_calls_that_were_all_deleted_leave_a_page_that_says_so(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison = start_comparison(project, Selection(), ["recorded", "receipt"])
    Call.objects.all().delete()
    work_until_idle(comparison)
    page = load(operator_client, comparison.get_absolute_url())
    assert page.by_role("heading", "Nothing to compare")
    assert not page.all_by_role("heading", "Totals and differences")


def test_a_renderer_that_serves_many_families_is_named_once(
    operator_client: Client, project: Project, calls: list[Call], tmp_path: Path
) -> None:
    comparison, _ = compared(project, ["recorded", "canonical_json"])
    ComparisonColumn.objects.create(
        comparison=comparison, ordinal=1, name="canonical_json", family="file", variant="canonical_json",
        version=1, hash=comparison.columns.get(ordinal=1).hash, policy="p",
    )  # fmt: skip
    page = load(operator_client, comparison.get_absolute_url())
    assert "command, file" in page.text
    assert page.text.count(comparison.columns.filter(ordinal=1)[0].hash) == 1


def test_each_bar_of_a_distribution_leads_to_its_calls(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, summary = compared(project, ["recorded", "receipt"])
    page = load(operator_client, comparison.get_absolute_url())
    for number, count in summary.columns[1].changes.items():
        href = calls_href(comparison, 1, changes=number)
        assert href in hrefs(page, ".chart-table a")
        assert len(load(operator_client, href).select("tr[data-item]")) == count
    assert "No such call" in load(operator_client, calls_href(comparison, 1, changes=40)).text
    of_tool = load(operator_client, calls_href(comparison, 0, tool="Bash"))
    for number in range(len(calls)):
        assert f"step {number}" in of_tool.text, "or one command could not be told from another"
        assert f"step {number}" in page.text
    assert len(of_tool.select("tr[data-item]")) == len(calls)


def test_the_list_of_calls_compares_the_first_column_with_the_baseline_and_the_baseline_with_nothing(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, _ = compared(project, ["recorded", "receipt"])
    address = f"/experiments/{comparison.pk}/calls/"
    assert load(operator_client, address).texts("thead th")[3:6] == ["Tokens, recorded", "Tokens, receipt", "Change"]
    assert "?column=1&" in hrefs(load(operator_client, address), "tr[data-item] th a")[0]
    of_baseline = load(operator_client, calls_href(comparison, 0))
    assert of_baseline.texts("thead th")[3:] == ["Tokens, recorded", "Fields dropped", "Lint"]
    assert {len(row.select("th, td")) for row in of_baseline.select("tr[data-item]")} == {6}


def test_a_long_list_of_calls_goes_on_where_it_ended(operator_client: Client, project: Project, tmp_path: Path) -> None:
    import_commands(project, tmp_path, [f"output {number}" for number in range(60)])
    comparison, _ = compared(project, ["recorded", "receipt"])
    first = load(operator_client, calls_href(comparison, 1, tool="Bash"))
    following = first.by_role("link", "Next 50")["href"]
    second = load(operator_client, f"/experiments/{comparison.pk}/calls/{following}")
    keys = [[href.partition("?")[0] for href in hrefs(page, "tr[data-item] th a")] for page in (first, second)]
    assert (len(keys[0]), len(keys[1])) == (50, 10)
    assert len(set(keys[0] + keys[1])) == 60
    assert load(operator_client, comparison.get_absolute_url()).by_role("link", "50 of 60", exact=True)
    assert "the first 50 of 60 calls" in load(operator_client, calls_href(comparison, 1, changed="tokens")).text
    assert "No such call" in load(operator_client, calls_href(comparison, 1, tool="Nothing")).text


def test_a_comparison_is_repeated_with_the_same_parameters(operator_client: Client, calls: list[Call]) -> None:
    form = {"query": "tool:Bash", "family": "command", "sample": "3", "seed": "9", "baseline": "receipt"}
    address = operator_client.post("/experiments/new/", {**form, "variant": ["recorded", "tail_first"]}).url
    page = load(operator_client, load(operator_client, address).by_role("link", "Again", exact=True)["href"])
    assert page.by_id("query")["value"] == "tool:Bash"
    assert "4 calls match, 3 of them are sampled." in page.by_id("matching").text
    chosen = [box["value"] for box in page.select("[name=variant][checked]")]
    assert chosen == ["recorded", "tail_first"]
    assert page.texts("option[selected]") == ["command", "receipt"]
    assert page.by_id("seed")["value"] == "9"


def test_a_variant_that_changed_is_reported_without_opening_anything(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    def versions() -> str:
        return load(operator_client, comparison.get_absolute_url()).by_role("button", "Versions compared").text

    comparison, _ = compared(project, ["recorded", "receipt"])
    assert "changed since" not in versions()
    ComparisonColumn.objects.filter(comparison=comparison, ordinal=1).update(hash="0" * 16)
    assert "changed since" in versions()


def test_a_pair_shows_both_texts_and_walks_the_list_it_came_from(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, summary = compared(project, ["recorded", "canonical_json"])
    worst, second = summary.columns[1].changed["tokens"][:2]
    page = load(operator_client, f"/experiments/{comparison.pk}/calls/{worst.key}/?column=1&changed=tokens")
    assert page.by_role("region", "Text by recorded")
    assert page.by_role("region", "Text by canonical_json")
    assert page.by_role("link", "Next")["href"].startswith(f"/experiments/{comparison.pk}/calls/{second.key}/")
    assert "1 of 4" in page.select_one(".page-head .actions").text
    assert "measured another one" not in page.text


def test_a_pair_walks_the_calls_of_the_list_it_came_from(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    """Every third call has output; the last of them lie in the second batch."""
    import_commands(project, tmp_path, ["", "", "some output"] * 74)
    comparison, summary = compared(project, ["recorded", "receipt"])
    bucket = next(number for number, count in summary.columns[0].sizes.items() if number and count)
    first = load(operator_client, calls_href(comparison, 0, sizes=bucket))
    second = load(operator_client, f"/experiments/{comparison.pk}/calls/{first.by_role('link', 'Next 50')['href']}")
    listed = [href for page in (first, second) for href in hrefs(page, "tr[data-item] th a")]
    assert len(listed) == 74
    assert "74 calls" in second.text
    across = next(index for index, href in enumerate(listed) if "at=1." in href) - 2
    address, visited = listed[across], []
    while address:
        visited.append(address)
        page = load(operator_client, address)
        address = "".join(hrefs(page, 'a[data-key="j"]'))
    assert visited == listed[across:]
    assert page.select_one('a[data-key="u"]')["data-key-help"] == "Up to the list"
    assert hrefs(page, 'a[data-key="k"]') == [listed[-2]]


def test_a_pair_shows_by_how_much_it_changed_and_its_difference_in_the_chosen_layout(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, summary = compared(project, ["recorded", "receipt", "canonical_json"])
    worst = summary.columns[2].changed["tokens"][0]
    address = f"/experiments/{comparison.pk}/calls/{worst.key}/"
    page = load(operator_client, f"{address}?column=2")
    assert f"−{-worst.change:,} tokens (−{1 - worst.after / worst.before:.1%})" in page.text
    assert page.has("[data-view=side]")
    assert worst.call[-8:] in page.by_role("heading", "Bash").text
    assert page.by_role("link", "receipt against recorded")
    assert "step 2" in page.by_role("button", "Arguments").text
    unified = load(operator_client, f"{address}?column=2&view=unified&spaces=1")
    assert unified.has("[data-view=unified]")
    assert unified.by_role("link", "Hide white space")
    for odd in ("?row=²", "?row=99999", "?at=x.y&tool=Bash", "?at=9999.1&tool=Bash&listed=7", "?at=-1&sizes=3"):
        assert load(operator_client, address + odd).by_role("heading", "Difference, line by line")


def test_a_text_that_changed_since_is_reported_as_changed(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison, _ = compared(project, ["recorded", "receipt"])
    Observation.objects.filter(call=calls[0], surface="receipt").update(own_data=b'"another"', start=None)
    page = load(operator_client, f"/experiments/{comparison.pk}/calls/{calls[0].pk}/")
    assert "the comparison measured another one" in page.by_role("region", "Receipt by recorded").text


def test_hostile_outputs_stay_text(operator_client: Client, project: Project, tmp_path: Path) -> None:
    (call,) = import_commands(project, tmp_path, [HOSTILE])
    Call.objects.filter(pk=call.pk).update(tool="<b>Bash</b>")
    comparison, _ = compared(project, ["recorded", "canonical_json"])
    Comparison.objects.filter(pk=comparison.pk).update(name=HOSTILE)
    for address in ("/experiments/", comparison.get_absolute_url(), f"/experiments/{comparison.pk}/calls/{call.pk}/"):
        page = load(operator_client, address)
        assert not [script for script in page.select("script") if "alert" in script.exact]
        assert not page.has("img")
        assert not [bold for bold in page.select("b") if bold.text == "Bash"]


def test_nobody_sees_or_changes_the_comparisons_of_another_project(
    operator_client: Client, calls: list[Call], tmp_path: Path
) -> None:
    other = create_project("other")
    theirs = import_commands(other, tmp_path, ["secret"], session="0f5f6d8e-0000-4000-8000-000000000009")
    comparison, _ = compared(other, ["recorded", "receipt"])
    key = comparison.pk
    for address in (f"/experiments/{key}/", f"/experiments/{key}/calls/", f"/experiments/{key}/calls/{theirs[0].pk}/"):
        load(operator_client, address, 404)
    assert operator_client.post(f"/experiments/{key}/", {"do": "delete"}).status_code == 404
    assert Comparison.objects.filter(pk=key).exists()


def test_a_viewer_reads_and_changes_nothing(client: Client, project: Project, calls: list[Call]) -> None:
    comparison, _ = compared(project, ["recorded", "receipt"])
    client.force_login(create_user("vera", project=project, role="viewer"))
    assert not load(client, comparison.get_absolute_url()).all_by_role("button", "Delete")
    for action in ("cancel", "pin", "delete"):
        assert client.post(comparison.get_absolute_url(), {"do": action}).status_code == 403
    assert client.post("/experiments/new/", {"variant": ["receipt"]}).status_code == 403


@pytest.mark.postgresql
def test_a_comparison_is_pinned_and_deleted(operator_client: Client, project: Project, calls: list[Call]) -> None:
    comparison, _ = compared(project, ["recorded", "receipt"])
    operator_client.post(comparison.get_absolute_url(), {"do": "pin"})
    assert "pinned" in load(operator_client, "/experiments/").texts("tr[data-item] .badge")
    assert operator_client.post(comparison.get_absolute_url(), {"do": "sing"}).status_code == 404
    assert operator_client.post(comparison.get_absolute_url(), {"do": "delete"}).url == "/experiments/"
    assert not Comparison.objects.exists()


def test_an_unfinished_comparison_has_no_numbers_to_show(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    comparison = start_comparison(project, Selection(), ["recorded", "receipt"])
    load(operator_client, f"/experiments/{comparison.pk}/calls/{calls[0].pk}/", 404)
    assert "Totals" not in load(operator_client, comparison.get_absolute_url()).text
    assert list(load_results(comparison)) == []

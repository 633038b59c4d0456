"""The Experiments page, the addresses of its parts in earlier versions, and the way from one call to many."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from django.contrib.auth.models import User
from django.test import Client

from dashboard.experiments.drift import check_all
from dashboard.experiments.stored_comparison import load_results, pin
from dashboard.models import Comparison, Project
from dashboard.variants.variant_list import save_version
from dashboard.worker import work_until_idle
from envelopes.families.registry import family
from tests.cases import each
from tests.dashboard.measured_comparisons import compared, import_commands
from tests.dashboard.page_text import parse_page
from tests.dashboard.sessions import SESSION

MOVED = {
    "/renderers/": "/experiments/",
    "/renderers/drifted/": "/experiments/drifted/",
    "/renderers/command/": "/experiments/renderers/command/",
    "/renderers/command/canonical/": "/experiments/renderers/command/canonical/",
    "/renderers/command/templates/": "/experiments/renderers/command/templates/",
    "/renderers/command/templates/mine/": "/experiments/renderers/command/templates/mine/",
    "/comparisons/": "/experiments/",
    "/comparisons/new/": "/experiments/new/",
    "/comparisons/{comparison}/": "/experiments/{comparison}/",
    "/comparisons/{comparison}/calls/": "/experiments/{comparison}/calls/",
    "/comparisons/{comparison}/calls/{call}/": "/experiments/{comparison}/calls/{call}/",
    "/comparisons/{comparison}/verdicts/": "/experiments/{comparison}/verdicts/",
    "/comparisons/{comparison}/export/numbers": "/experiments/{comparison}/export/numbers",
}
LONG = "\n".join(f"line {number} of the build" for number in range(200))
QUERY = "call={call}&variant=tail_first&column=1&tool=a%26b&offset=0"


def test_every_old_address_leads_to_the_same_page_with_its_query(
    operator_client: Client, operator: User, project: Project, tmp_path: Path
) -> None:
    call = import_commands(project, tmp_path, ["one", "two"])[0]
    fields = {"title": "T", "source": "{{ status }}", "characters": "4000"}
    save_version(project, family("command"), operator, name="mine", **fields)
    keys = {"comparison": compared(project, ["recorded", "receipt"])[0].pk, "call": call.pk}
    for old, new in MOVED.items():
        for query in ("", f"?{QUERY.format(**keys)}"):
            response = operator_client.get(old.format(**keys) + query)
            assert (response.status_code, response["Location"]) == (301, new.format(**keys) + query)
            assert operator_client.get(response["Location"]).status_code == 200, response["Location"]


@each("rest", ["a%3Fb/", "%2F%2Fexample.org/", "..%2F..%2Fruns/", "é/"])
def test_an_odd_old_address_stays_below_experiments(operator_client: Client, rest: str) -> None:
    parts = urlsplit(operator_client.get(f"/renderers/{rest}")["Location"])
    assert (parts.scheme, parts.netloc, parts.query) == ("", "", "")
    assert parts.path.startswith("/experiments/renderers/")


def test_the_page_has_one_call_and_many_calls(operator_client: Client, project: Project, tmp_path: Path) -> None:
    import_commands(project, tmp_path, ["one", "two"])
    empty = parse_page(operator_client.get("/experiments/"))
    assert empty.texts("main h2") == ["One call", "On many calls"]
    assert "No comparison yet" in empty.by_role("region", "On many calls").text
    comparison, _ = compared(project, ["recorded", "receipt"])
    page = parse_page(operator_client.get("/experiments/"))
    assert page.by_role("region", "On many calls").has(f'a[href="{comparison.get_absolute_url()}"]')
    assert page.by_role("region", "One call").has('a[href="/experiments/renderers/command/"]')
    rows = parse_page(operator_client.get("/experiments/", headers={"HX-Request": "true"}))
    assert rows.is_fragment
    assert rows.has("#rows")
    assert not rows.has("h2")


def test_a_preview_leads_to_a_comparison_of_all_calls_of_its_tool(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    call = import_commands(project, tmp_path, ["one", "two", "three"])[0]
    page = parse_page(operator_client.get(f"/experiments/renderers/command/?call={call.pk}&variant=markdown"))
    link = page.by_role("link", f"On all 3 calls of {call.tool}")
    asked = parse_qs(urlsplit(link["href"]).query)
    assert asked == {"query": [f"tool:{call.tool}"], "family": ["command"], "variant": ["markdown"]}
    form = parse_page(operator_client.get(link["href"]))
    assert form.by_id("matching").text.startswith("3 calls match")
    assert [box["value"] for box in form.select("[name=variant][checked]")] == ["markdown"]
    assert form.by_id("budget")["value"] == ""
    import_commands(project, tmp_path, [LONG], session=f"{SESSION[:-2]}99")
    long = project.calls.order_by("-tokens")[0]
    page = parse_page(operator_client.get(f"/experiments/renderers/command/?call={long.pk}&variant=markdown&budget=99"))
    form = parse_page(operator_client.get(page.by_role("link", "On all 4 calls")["href"]))
    assert form.by_id("budget")["value"] == "99"
    sample = parse_page(operator_client.get("/experiments/renderers/command/?variant=markdown"))
    assert "On all" not in sample.text


def test_a_budget_bounds_every_rendered_receipt_and_is_no_change_of_a_variant(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    output = "\n".join(f"line {number} of a build" for number in range(90))
    call = import_commands(project, tmp_path, [output, "short"])[0]
    form = {"variant": ["receipt", "markdown"], "baseline": "recorded", "budget": "50"}
    address = operator_client.post("/experiments/new/", form)["Location"]
    work_until_idle()
    comparison = Comparison.objects.get()
    recorded, *rendered = [row.cells for rows in load_results(comparison) for row in rows if row.key == call.pk][0]
    assert recorded.characters == len(output)
    assert [100 < cell.characters <= 200 for cell in rendered] == [True, True]
    page = parse_page(operator_client.get(address))
    assert "at 50 tokens" in page.select_one("h1").text
    assert page.facts["Budget"] == "50 tokens"
    assert "would differ" not in page.text
    assert "budget=50" in page.by_role("link", "Again")["href"]
    pair = parse_page(operator_client.get(f"{address}calls/{call.pk}/?column=1"))
    assert "line 45 of a build" in pair.select_one("main").text
    pin(comparison, is_pinned=True)
    assert check_all(project).drifted == ()
    for budget in ("15", "x"):
        refused = operator_client.post("/experiments/new/", form | {"budget": budget})
        assert (refused.status_code, "budget" in parse_page(refused).text.lower()) == (422, True)

"""The Tools pages: the built-in definitions, their samples under every variant, and their recorded use."""

from __future__ import annotations

import json
from datetime import timedelta

import msgspec
import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.ingest.run_stats import refresh_stats
from dashboard.models import Project, RunFacet
from dashboard.tools.tool_detail import SORTS, describe_type, render_samples
from dashboard.tools.tool_list import PLANES
from envelopes.families.registry import builtin, tools
from envelopes.transports import TRANSPORTS
from envelopes.variants import variants_for
from tests.cases import extended_except
from tests.dashboard.factories import START, create_call, create_project, create_run, create_user
from tests.dashboard.page_text import Page, parse_page

TOOL = "WebFetch"
HOSTILE = '<script>alert(1)</script><b hx-post="/x">\x1b[31m\u202e'


@pytest.fixture
def project(db: None) -> Project:
    return create_project()


@pytest.fixture
def reader(client: Client, project: Project) -> Client:
    client.force_login(create_user("bob", project=project, role="viewer"))
    return client


def load(client: Client, address: str) -> Page:
    response = client.get(address)
    assert response.status_code == 200, address
    return parse_page(response)


def test_every_definition_is_listed_under_its_first_plane(reader: Client) -> None:
    page = load(reader, "/tools/")
    planes = {}
    for body in page.select("table.tool-table tbody"):
        title, *rows = body.select("tr")
        planes |= {row.select_one("th a").text: title.text for row in rows}
    assert sorted(planes) == list(tools())
    for name, title in planes.items():
        assert title.startswith(PLANES[tools()[name].planes[0]])
    assert f"{len(tools())} built-in tools" in page.text


def test_a_plane_of_ones_own_is_listed_behind_the_built_in_ones(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = msgspec.structs.replace(tools()[TOOL], planes=("vault",))
    monkeypatch.setattr("dashboard.tools.tool_list.tools", lambda: {**tools(), TOOL: own})
    *_, last = load(reader, "/tools/").select("table.tool-table tbody")
    title, row = last.select("tr")
    assert (title.text.startswith("vault"), row.select_one("th a").text) == (True, TOOL)


@pytest.mark.postgresql
def test_of_a_large_project_the_last_days_are_counted(reader: Client, project: Project, settings: Settings) -> None:
    """Each number leads to a list of as many calls or runs."""
    for day in range(3):
        run = create_run(project, started_at=START + timedelta(days=day))
        create_call(run, tool=TOOL, started_at=START + timedelta(days=day))
        refresh_stats([run])
    for settings.NEWEST_CALLS, is_whole, number in ((3, False, 3), (2, False, 2), (2, True, 3)):
        page = load(reader, f"/tools/{'?all=1' * is_whole}")
        assert page.has("#last-days") is (number == 2)
        called = page.select_one(".called-table tbody tr")
        used = page.select_one('.tool-table a[href^="/runs/"]')
        for link, text in ((called.select_one("a"), called.texts("td")[1]), (used, used.text)):
            assert text.startswith(f"{number}"), link["href"]
            assert len(load(reader, link["href"]).select("[data-item]")) == number, link["href"]


def test_a_row_says_risk_planes_and_who_may_not_call(reader: Client) -> None:
    row = load(reader, "/tools/").by_role("link", TOOL, exact=True).closest("tr")
    assert row is not None
    assert {"read-only", "experimental", "never"} <= set(row.texts("td"))


def test_recorded_use_counts_calls_and_runs_of_this_project_alone(reader: Client, project: Project) -> None:
    for number in (2, 5):
        run = create_run(project)
        RunFacet.objects.create(run=run, project=project, kind="tool", value=TOOL, sort_at=run.sort_at, count=number)
    create_run(create_project("other"), facets={"tool": [TOOL]})
    for address in ("/tools/", f"/tools/{TOOL}/"):
        assert load(reader, address).by_role("link", "7 calls in 2 runs")["href"] == f"/runs/?q=tool%3A{TOOL}"


def test_the_number_of_calls_of_an_agents_tool_leads_to_these_calls(reader: Client, project: Project) -> None:
    run = create_run(project, agent="claude-code")
    for tool in ("Grep", "Grep", "Read"):
        create_call(run, tool=tool)
    refresh_stats([run])
    chips = {chip.text: chip["href"] for chip in load(reader, "/tools/").select(".agent-table a.chip")}
    assert {text: len(load(reader, url).select("tbody tr")) for text, url in chips.items()} == {
        "Read 1": 1,
        "Grep 2": 2,
    }


@pytest.mark.postgresql
def test_the_tools_that_agents_called_are_listed_with_what_came_of_their_calls(
    reader: Client, project: Project
) -> None:
    run, other = create_run(project), create_run(create_project("other"))
    for outcome, is_cut in (("succeeded", False), ("succeeded", True), ("failed", False), ("timed_out", True)):
        create_call(run, tool="Bash", family="command", outcome=outcome, is_cut=is_cut, tokens=1_000)
    create_call(run, tool='mcp__x "y"', family="external", outcome="refused", tokens=7)
    create_call(run, tool="bash", family="command", tokens=500)  # the same tool for a filter
    create_call(other, tool="Bash", family="command", outcome="failed")
    refresh_stats([run])  # the filter knows spellings by them
    page = load(reader, "/tools/")
    rows = [[cell.text for cell in row.select("th, td")] for row in page.select(".called-table tbody tr")]
    assert rows == [
        ["Bash", "command", "5", "2", "", "2", "≈4,500"],
        ['mcp__x "y"', "external", "1", "", "1", "", "≈7"],
    ]
    for row, numbers in zip(page.select(".called-table tbody tr"), ([5, 2, 2], [1, 1]), strict=True):
        links = [str(link["href"]) for link in row.select("a")]
        assert [len(load(reader, link).select("table tbody tr")) for link in links] == numbers
    assert not page.by_role("group", "24 built-in tools").has("[open]")


def test_the_queries_are_the_same_however_much_is_recorded(
    reader: Client, project: Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    load(reader, "/tools/")
    queries = {"/tools/": 6, f"/tools/{TOOL}/": 4}  # session, user, memberships, facets; and days and calls
    for address in queries:
        with django_assert_num_queries(queries[address]):
            load(reader, address)
    for number in range(20):
        create_run(project, facets={"tool": [TOOL, "Bash", f"mcp__x__{number}"]})
    for address in queries:
        with django_assert_num_queries(queries[address]):
            load(reader, address)


@pytest.mark.postgresql("TaskStatus")
@pytest.mark.rendering
@pytest.mark.parametrize("name", extended_except(tools(), "TaskStatus", "ExecCommandBatch"))
def test_every_definition_has_its_page(reader: Client, name: str) -> None:
    _, definition = builtin(name)
    page = load(reader, f"/tools/{name}/")
    assert set(definition.error_kinds) <= set(page.texts(".kinds code"))
    assert len(page.select(".examples [data-tone=bad]")) == len(definition.counter_examples)
    assert "additionalProperties" in page.text
    for result in definition.result:
        assert page.by_id(f"type-{result.__name__}")
    assert len(page.markup) < 1_000_000


@pytest.mark.extended
@pytest.mark.rendering
@pytest.mark.parametrize("name", list(tools()))
def test_every_sample_is_shown_under_every_variant(reader: Client, name: str) -> None:
    family, _ = builtin(name)
    samples = render_samples(name)
    assert list(samples)[: len(SORTS)] == list(SORTS)
    for sort, sample in samples.items():
        page = load(reader, f"/tools/{name}/?sample={sort}")
        texts = [text.exact for text in page.select("#gallery pre.exact")]
        assert texts == [
            rendered.receipt.text[: len(text)] for rendered, text in zip(sample.rendered, texts, strict=True)
        ]
        cut = [rendered for rendered, text in zip(sample.rendered, texts, strict=True) if text != rendered.receipt.text]
        notes = [note for note in page.texts("[id^=variant-] .more") if "This page shows the first" in note]
        assert len(notes) == len(cut)
        assert all(f"of {len(rendered.receipt.text):,} characters" in " ".join(notes) for rendered in cut)
        assert [rendered.variant.id for rendered in sample.rendered] == [variant.id for variant in variants_for(family)]
        assert sample.rendered[0].variant.name == "receipt"


@pytest.mark.rendering
def test_a_refused_example_says_why(reader: Client) -> None:
    refusals = load(reader, f"/tools/{TOOL}/").texts(".examples [data-tone=bad] .refusal")
    assert any("`sha256` is result metadata and never startup input" in refusal for refusal in refusals)


@pytest.mark.rendering
def test_a_bounded_sample_says_what_was_left_out(reader: Client) -> None:
    sample = render_samples(TOOL)["large"]
    page = load(reader, f"/tools/{TOOL}/?sample=large")
    loss = sample.losses[0]
    assert loss.shown < loss.total
    assert f"{loss.pointer} {loss.shown:,} of {loss.total:,} {loss.unit}" in page.by_id("gallery").text
    assert all(rendered.is_cut for rendered in sample.rendered)
    assert f"{sample.rendered[0].characters:,} characters" in page.text


@pytest.mark.rendering
def test_htmx_gets_the_gallery_alone(reader: Client) -> None:
    response = reader.get(f"/tools/{TOOL}/?sample=error", headers={"HX-Request": "true"})
    page = parse_page(response)
    assert [element.get("id") for element in page.select("body > *")] == ["gallery"]
    assert "HX-Request" in response["Vary"]
    assert json.loads(render_samples(TOOL)["error"].canonical)["error"]["kind"] in page.text


@pytest.mark.parametrize("address", ["/tools/Nothing/", f"/tools/{TOOL}/?sample=nothing", "/tools/%3Cscript%3E/"])
def test_what_does_not_exist_is_not_found(reader: Client, address: str) -> None:
    response = reader.get(address)
    assert response.status_code == 404
    assert b"<script>" not in response.content  # of the address: looks at bytes, as a browser gets them


def test_names_from_recordings_are_text(reader: Client, project: Project) -> None:
    create_call(create_run(project, facets={"tool": [HOSTILE, TOOL]}), tool=HOSTILE)
    for address in ("/tools/", f"/tools/{TOOL}/"):
        page = load(reader, address)
        assert "<script>alert(1)" not in page.markup
        assert not page.has("b[hx-post]")
        assert page.by_role("link", "1 call in 1 run")
    name = load(reader, "/tools/").select_one(".called-table th a")
    assert name.text.startswith("<script>alert(1)</script><b hx-post=")
    assert len(load(reader, name["href"]).select("table tbody tr")) == 1


def test_a_stranger_sees_no_tools(client: Client, project: Project) -> None:
    client.force_login(create_user("charlie"))
    assert client.get("/tools/").status_code == 403
    client.logout()
    assert client.get(f"/tools/{TOOL}/").status_code == 302


@pytest.mark.parametrize(
    ("schema", "description"),
    [
        ({"type": "string"}, "text"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({"type": "array", "items": {"$ref": "#/$defs/Hit"}}, "list of Hit"),
        ({"enum": ["a", "b"]}, '"a" or "b"'),
        ({"type": "array"}, "list of any JSON"),
        ({}, "any JSON"),
    ],
)
def test_a_field_is_described_in_words(schema: dict[str, object], description: str) -> None:
    assert describe_type(schema) == description


@pytest.mark.rendering
def test_the_definition_is_shown_in_the_form_of_each_provider(reader: Client) -> None:
    _, definition = builtin("UseWorkspace")
    for transport in TRANSPORTS:
        address = f"/tools/UseWorkspace/?form={transport.name}"
        if transport.name == "openai_responses_custom":
            assert reader.get(address).status_code == 404  # its input is more than one text
            continue
        panel = load(reader, address).by_role("region", "Definition")
        assert json.loads(panel.select_one("[data-exact]").exact) == transport.declare(definition)
        assert panel.texts("[aria-current]") == [transport.title]
        assert "Rules between fields are left out here" in panel.text


@pytest.mark.rendering
def test_the_schema_alone_has_its_conditions(reader: Client) -> None:
    page = load(reader, "/tools/UseWorkspace/")
    assert "oneOf" in page.text
    assert "Rules between fields are left out" not in page.text
    assert "Rules between fields" not in load(reader, "/tools/TaskList/?form=anthropic").text


def test_a_tool_of_an_agent_is_not_the_built_in_tool_of_its_name(reader: Client, project: Project) -> None:
    for agent, number in (("claude-code", 5), ("my-runtime", 2)):
        run = create_run(project, agent=agent)
        RunFacet.objects.create(
            run=run, project=project, kind="tool", value="TaskList", sort_at=run.sort_at, count=number
        )
    page = parse_page(reader.get("/tools/TaskList/"))
    uses = [link for link in page.all_by_role("link") if "tool%3ATaskList" in link["href"]]
    assert "q=tool%3ATaskList+-agent%3Aclaude-code" in uses[0]["href"]
    assert "2 calls" in page.text
    assert "5 calls" not in page.text


def test_calls_whose_tool_was_not_recorded_are_counted_without_a_link(reader: Client, project: Project) -> None:
    """The filter language has no term for an empty name."""
    create_call(create_run(project), tool="", family="external", status="error", outcome="failed")
    row = load(reader, "/tools/").select_one(".called-table tbody tr")
    assert row.texts("th, td")[:4] == ["not recorded", "external", "1", "1"]
    assert not row.has("a")

"""The Tools pages: what may the model call, and how must it look?"""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard.models import Project, RunFacet
from dashboard.tools.samples import SORTS, tool_samples
from dashboard.tools.schema_tables import kind_of
from dashboard.tools.tool_list import PLANES
from envelopes.families.registry import builtin, tools
from envelopes.transports import TRANSPORTS
from envelopes.variants import variants_for
from tests.dashboard.factories import create_project, create_run, create_user
from tests.dashboard.page_text import text_of

TOOL = "WebFetch"
HOSTILE = '<script>alert(1)</script><b hx-post="/x">\x1b[31m\u202e'


@pytest.fixture
def project(db: None) -> Project:
    return create_project()


@pytest.fixture
def reader(client: Client, project: Project) -> Client:
    client.force_login(create_user("bob", project=project, role="viewer"))
    return client


def page(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, address
    return response.content.decode()


def words(html: str) -> str:
    return " ".join(text_of(html).split())


def test_every_definition_stands_under_its_first_plane(reader: Client) -> None:
    html = page(reader, "/tools/")
    assert "What may the model call, and how must it look?" in html
    groups = re.split(r'<tr class="plane">', html)[1:]
    found = {name: group for group in groups for name in re.findall(r'href="/tools/(\w+)/"', group)}
    assert sorted(found) == list(tools())
    for name, group in found.items():
        assert text_of(group).strip().startswith(PLANES[tools()[name].planes[0]])
    assert f"{len(tools())} built-in tools" in html


def test_a_row_says_risk_planes_and_who_may_not_call(reader: Client) -> None:
    row = words(page(reader, "/tools/").partition(f'href="/tools/{TOOL}/"')[2].partition("</tr>")[0])
    assert "read-only" in row
    assert "experimental" in row
    assert "never" in row


def test_recorded_use_counts_calls_and_runs_of_this_project_alone(reader: Client, project: Project) -> None:
    for number in (2, 5):
        run = create_run(project)
        RunFacet.objects.create(run=run, project=project, kind="tool", value=TOOL, sort_at=run.sort_at, count=number)
    create_run(create_project("other"), facets={"tool": [TOOL]})
    for address in ("/tools/", f"/tools/{TOOL}/"):
        html = page(reader, address)
        assert f'<a href="/runs/?q=tool%3A{TOOL}">7 calls in 2 runs</a>' in html


def test_the_queries_are_the_same_however_much_is_recorded(
    reader: Client, project: Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    page(reader, "/tools/")
    for address in ("/tools/", f"/tools/{TOOL}/"):
        with django_assert_num_queries(4):  # session, user, memberships, facets
            page(reader, address)
    for number in range(20):
        create_run(project, facets={"tool": [TOOL, "Bash", f"mcp__x__{number}"]})
    for address in ("/tools/", f"/tools/{TOOL}/"):
        with django_assert_num_queries(4):
            page(reader, address)


@pytest.mark.rendering
@pytest.mark.parametrize("name", list(tools()))
def test_every_definition_has_its_page(reader: Client, name: str) -> None:
    _, definition = builtin(name)
    html = page(reader, f"/tools/{name}/")
    shown = words(html)
    for kind in definition.error_kinds:
        assert f"<code>{kind}</code>" in html
    assert html.count("refused</span>") == len(definition.counter_examples)
    assert "additionalProperties" in shown
    for result in definition.result:
        assert f'id="shape-{result.__name__}"' in html
    assert len(html) < 1_000_000


@pytest.mark.rendering
@pytest.mark.parametrize("name", list(tools()))
def test_every_sample_stands_there_under_every_variant(reader: Client, name: str) -> None:
    family, _ = builtin(name)
    assert list(tool_samples(name))[: len(SORTS)] == list(SORTS)
    for sort, sample in tool_samples(name).items():
        html = page(reader, f"/tools/{name}/?sample={sort}")
        texts = [unescape(text_of(found)) for found in re.findall(r'<pre class="exact"[^>]*>(.*?)</pre>', html, re.S)]
        assert texts == [one.receipt.text for one in sample.rendered]
        assert [one.variant.id for one in sample.rendered] == [one.id for one in variants_for(family)]
        assert sample.rendered[0].variant.name == "receipt"


@pytest.mark.rendering
def test_a_refused_example_says_why(reader: Client) -> None:
    shown = words(page(reader, f"/tools/{TOOL}/"))
    assert "`sha256` is result metadata and never startup input" in shown


@pytest.mark.rendering
def test_a_bounded_sample_says_what_was_left_out(reader: Client) -> None:
    sample = tool_samples(TOOL)["large"]
    html = page(reader, f"/tools/{TOOL}/?sample=large")
    lost = sample.lost[0]
    assert lost.shown < lost.total
    assert f"<code>{lost.pointer}</code> {lost.shown:,} of {lost.total:,} {lost.unit}" in html
    assert all(one.is_cut for one in sample.rendered)
    assert f"{sample.rendered[0].characters:,} characters" in html


@pytest.mark.rendering
def test_htmx_gets_the_gallery_alone(reader: Client) -> None:
    response = reader.get(f"/tools/{TOOL}/?sample=error", headers={"HX-Request": "true"})
    html = response.content.decode()
    assert html.lstrip().startswith('<section id="gallery"')
    assert "HX-Request" in response["Vary"]
    assert json.loads(tool_samples(TOOL)["error"].canonical)["error"]["kind"] in html


@pytest.mark.parametrize("address", ["/tools/Nothing/", f"/tools/{TOOL}/?sample=nothing", "/tools/%3Cscript%3E/"])
def test_what_does_not_exist_is_not_found(reader: Client, address: str) -> None:
    response = reader.get(address)
    assert response.status_code == 404
    assert b"<script>" not in response.content


def test_names_from_recordings_do_not_reach_the_pages(reader: Client, project: Project) -> None:
    create_run(project, facets={"tool": [HOSTILE, TOOL]})
    for address in ("/tools/", f"/tools/{TOOL}/"):
        html = page(reader, address)
        assert "alert(1)" not in html
        assert "1 call in 1 run" in html


def test_a_stranger_sees_no_tools(client: Client, project: Project) -> None:
    client.force_login(create_user("charlie"))
    assert client.get("/tools/").status_code == 403
    client.logout()
    assert client.get(f"/tools/{TOOL}/").status_code == 302


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "text"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({"type": "array", "items": {"$ref": "#/$defs/Hit"}}, "list of Hit"),
        ({"enum": ["a", "b"]}, '"a" or "b"'),
        ({"type": "array"}, "list of any JSON"),
        ({}, "any JSON"),
    ],
)
def test_a_field_is_said_in_words(schema: dict[str, object], said: str) -> None:
    assert kind_of(schema) == said


@pytest.mark.rendering
def test_the_definition_stands_there_as_each_provider_is_told_it(reader: Client) -> None:
    _, definition = builtin("UseWorkspace")
    for one in TRANSPORTS:
        address = f"/tools/UseWorkspace/?form={one.name}"
        if one.name == "openai_responses_custom":
            assert reader.get(address).status_code == 404  # its input is more than one text
            continue
        html = page(reader, address)
        panel = html.partition('id="schema-title"')[2]
        assert json.loads(
            unescape(text_of(panel.partition("data-exact>")[2].partition("</section>")[0]))
        ) == one.declare(definition)
        assert re.findall(r'aria-current="true">([^<]+)</a>', panel.partition("</nav>")[0]) == [one.title]
        assert "Rules between fields are left out here" in panel


@pytest.mark.rendering
def test_the_schema_alone_has_its_conditions(reader: Client) -> None:
    html = page(reader, "/tools/UseWorkspace/")
    assert "oneOf" in words(html)
    assert "Rules between fields are left out" not in html
    assert "Rules between fields" not in page(reader, "/tools/TaskList/?form=anthropic")

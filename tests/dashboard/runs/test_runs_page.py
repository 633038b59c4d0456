"""The Runs page: which run needs me?"""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.ingest import run_stats
from dashboard.models import Project, Run
from tests.cases import extended_except
from tests.dashboard.factories import START, create_call, create_project, create_run, create_user
from tests.dashboard.page_text import Page, assert_harmless, parse_page

HTMX = {"HX-Request": "true"}
HOSTILE = '<script>alert(1)</script><b hx-post="/runs/" hx-trigger="load">\u202e\x1b[31m'


def load(client: Client, address: str = "/runs/", **headers: str) -> Page:
    response = client.get(address, headers=headers)
    assert response.status_code == 200
    return parse_page(response)


def titles(page: Page) -> list[str]:
    """The titles of the runs in the table, in its order."""
    return page.texts("tbody th a.isolate")


def following(page: Page) -> str:
    """The address of the next page, empty on the last one."""
    links = page.select("a[rel=next]")
    return f"/runs/{links[0]['href']}" if links else ""


@pytest.mark.usefixtures("alice")
def test_an_empty_project_says_what_to_do_next(client: Client) -> None:
    page = load(client)
    assert page.by_role("heading", "Runs", exact=True)
    assert page.by_role("heading", "No runs yet")
    assert page.select_one("pre").text == "python manage.py import_runs ~/.claude/projects --project ledger"


@pytest.mark.usefixtures("alice")
def test_a_row_describes_a_run_by_its_metadata(client: Client, project: Project) -> None:
    run = create_run(
        project,
        title="Fix the login",
        agent="claude-code",
        model="opus",
        source_format="audit",
        call_count=1_234,
        failed_count=3,
        cut_count=2,
        unanswered_count=1,
        token_count=56_789,
        duration_ms=192_000,
        ended_at=START,
        strip="oecxuw",
    )
    row = load(client).select_one("tbody tr")
    cells = row.texts("td")
    assert cells[:3] == ["opus claude-code", "audit", "ended"]
    assert cells[4:10] == ["1,234", "3", "2", "1", "≈56,789", "3 min 12 s"]
    assert row.by_role("link", "Fix the login", exact=True)["href"] == f"/runs/{run.pk}/"
    outcomes = "1 ok, 1 failed, 1 cut, 1 failed and cut, 1 unanswered, 1 waited for a person"
    assert row.by_role("img").name == outcomes


@pytest.mark.usefixtures("alice")
def test_exact_tokens_and_none_carry_no_sign_of_an_estimate(client: Client, project: Project) -> None:
    for count, certainty in ((77, "exact"), (0, "estimate")):
        run = create_run(project, token_count=count, token_certainty=certainty)
        assert load(client).select_one('[data-label="tokens"]').text == f"{count}"
        assert load(client, run.get_absolute_url()).facts["Tool-result tokens"] == f"{count}"
        run.delete()


@pytest.mark.usefixtures("alice")
def test_where_words_match_nothing_the_way_to_the_payloads_stands_with_that(client: Client, project: Project) -> None:
    create_run(project, title="Fix the login")
    for address in ("/runs/?q=gofmt", "/calls/?q=gofmt"):
        page = load(client, address)
        assert len(page.all_by_role("link", "Search payloads for")) == 1
        assert page.select_one(".empty").by_role("link", "Search payloads for any:gofmt")
    assert load(client, "/runs/?q=login").select_one(".pager").by_role("link", "Search payloads for any:login")


@pytest.mark.usefixtures("alice")
def test_the_output_of_a_tool_is_shown_as_text(client: Client, project: Project) -> None:
    create_run(project, title=HOSTILE, agent=HOSTILE[:100], model=HOSTILE[:100], facets={"tool": [HOSTILE]})
    searched = load(client, f"/runs/?q={quote(HOSTILE)}&sort=<script>")
    everything = load(client)
    for page in (searched, everything):
        assert not page.has("[hx-post]")
        assert "<script>alert" not in page.markup  # whatever a parser makes of it
        assert "<script>alert(1)</script>" in page.text
    assert_harmless(everything)


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("filter_text", ["\x00", "tool:a\x00b", "\x1b[31m", "status:\x00\x08"])
def test_control_characters_of_a_filter_are_marked(client: Client, project: Project, filter_text: str) -> None:
    create_run(project)
    page = load(client, f"/runs/?q={quote(filter_text)}&after={quote(filter_text)}")
    assert not set(page.markup) & {chr(code) for code in range(32) if chr(code) not in "\n\t"}
    assert page.by_id("q")["value"] == filter_text.translate({0: 0x2400, 8: 0x2408, 27: 0x241B})


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("sort", ["newest", "tokens"])
def test_a_rare_filter_is_sorted_and_paged_like_a_common_one(
    client: Client, project: Project, sort: str, settings: Settings
) -> None:
    settings.ROWS_PER_PAGE = 2
    for number in range(5):
        at = START + timedelta(seconds=number)
        create_run(project, title=f"Run {number}", sort_at=at, token_count=number, facets={"tool": ["Rare"]})
    first = load(client, f"/runs/?q=tool:Rare&sort={sort}")
    assert titles(first) == ["Run 4", "Run 3"]
    assert titles(load(client, following(first))) == ["Run 2", "Run 1"]


@pytest.mark.usefixtures("alice")
def test_presets_are_filters_with_ids_that_stay(client: Client, project: Project) -> None:
    create_run(project, title="Failed run", facets={"state": ["failed"]}, token_count=1)
    create_run(project, title="Cut run", facets={"state": ["cut"]}, token_count=3)
    create_run(project, title="Open run", facets={"state": ["unanswered"]}, token_count=2)
    create_run(project, title="Odd run", facets={"state": ["disagree"]})
    halves = create_run(project, title="Halves run")
    create_call(halves, status="success", source_error=True)
    run_stats.refresh_stats([halves])
    assert sorted(titles(load(client, "/runs/?preset=errors"))) == ["Failed run", "Halves run"]
    assert titles(load(client, "/runs/?preset=cut")) == ["Cut run"]
    assert titles(load(client, "/runs/?preset=biggest"))[:3] == ["Cut run", "Open run", "Failed run"]
    assert titles(load(client, "/runs/?preset=unanswered")) == ["Open run"]
    assert titles(load(client, "/runs/?preset=disagree")) == ["Odd run"]
    assert titles(load(client, "/runs/?preset=halves")) == ["Halves run"]
    create_run(project, title="Retried run", facets={"state": ["retried"]})
    assert titles(load(client, "/runs/?preset=retried")) == ["Retried run"]
    assert load(client, "/runs/?preset=errors").by_id("q")["value"] == "status:failed"
    problems = load(client, "/runs/?preset=gone&sort=size").by_role("alert").text
    assert "There is no preset “gone”; these are the runs without it." in problems
    assert "There is no sort “size”; the newest are first." in problems


@pytest.mark.usefixtures("alice")
def test_facets_write_the_search_bar(client: Client, project: Project) -> None:
    create_run(project, title="words", facets={"tool": ["Bash", "my tool"]})
    facets = load(client, "/runs/?q=words&sort=tokens").select_one(".facets")
    assert facets.by_role("link", "Bash")["href"] == "?q=words+tool%3ABash&sort=tokens"
    assert facets.by_role("link", "my tool")["href"] == "?q=words+tool%3A%22my+tool%22&sort=tokens"
    current = load(client, "/runs/?q=tool:Bash&sort=tokens").select_one(".facets a[aria-current=true]")
    assert current["href"] == "?sort=tokens"


@pytest.mark.usefixtures("alice")
def test_a_word_that_is_no_filter_is_named_and_finds_nothing(client: Client, project: Project) -> None:
    create_run(project, title="Some run")
    page = load(client, "/runs/?q=foo:bar")
    assert "“foo:” at character 1 is not a filter" in page.by_role("alert").text
    assert titles(page) == []


@pytest.mark.usefixtures("alice")
def test_a_filter_without_a_match_says_so(client: Client, project: Project) -> None:
    create_run(project)
    assert load(client, "/runs/?q=nowhere").by_role("heading", "No run matches")


@pytest.mark.usefixtures("alice")
def test_a_name_that_occurs_nowhere_is_named_on_the_empty_list(client: Client, project: Project) -> None:
    create_run(project, facets={"tool": ["Bash"]})
    page = load(client, "/runs/?q=tool:bsh")
    assert "“tool:bsh” at character 1 occurs nowhere; the nearest that does is “tool:Bash”." in page.text
    create_call(create_run(project), tool="Late", status="unknown", derivation="")
    waiting = load(client, "/runs/?q=tool:Late").text
    assert "1 call is being counted." in waiting
    assert "occurs nowhere" not in waiting


@pytest.mark.usefixtures("alice")
def test_child_runs_are_left_out_and_the_page_says_so(client: Client, project: Project) -> None:
    parent = create_run(project, title="Parent")
    create_run(project, title="Child", parent=parent, facets={"state": ["child", "failed"]})
    page = load(client)
    assert titles(page) == ["Parent"]
    assert "Child runs are left out" in page.select_one(".pager").text
    assert page.by_role("link", "show them too")["href"] == "?q=child%3Aany"
    page = load(client, "/runs/?q=child:any")
    assert "hild runs" not in page.select_one(".pager").text
    assert page.select_one(".child")["title"].startswith("A child run")
    page = load(client, "/runs/?preset=errors")
    assert titles(page) == ["Child"]
    assert page.by_role("link", "leave them out")["href"] == "?q=status%3Afailed+child%3Ano"


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize(
    "sort", extended_except(["newest", "calls", "failed", "cut", "tokens", "duration"], "newest", "tokens")
)
def test_pages_follow_one_another_without_gap_or_repeat(client: Client, project: Project, sort: str) -> None:
    for number in range(120):
        value = number // 7  # equal values, so that the tie decides
        create_run(
            project,
            f"r{number:03}",
            title=f"Run {number:03}",
            sort_at=START + timedelta(seconds=value),
            call_count=value,
            failed_count=value,
            cut_count=value,
            token_count=value,
            duration_ms=value,
        )
    listed, address = [], f"/runs/?sort={sort}"
    while address:
        page = load(client, address)
        listed += titles(page)
        address = following(page)
    assert sorted(listed) == [f"Run {number:03}" for number in range(120)]
    assert listed[0].startswith("Run 1")
    assert "the list ends here" in page.select_one(".pager").text


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("after", ["x", "~", "1~2", "0001-01-01T00:00:00+23:59~" + "0" * 32, "\x00", "9" * 400, "é~é"])
@pytest.mark.parametrize("sort", ["newest", "tokens", "tokens'--", ""])
def test_a_damaged_cursor_is_reported_and_breaks_nothing(
    client: Client, project: Project, after: str, sort: str
) -> None:
    create_run(project, title="First")
    page = load(client, f"/runs/?sort={quote(sort)}&after={quote(after)}")
    assert "does not exist; these are the first runs" in page.by_role("alert").text
    assert titles(page) == ["First"]


@pytest.mark.usefixtures("alice")
def test_the_list_polls_only_while_a_run_is_live_and_only_for_news(client: Client, project: Project) -> None:
    run = create_run(project, title="Live", last_at=timezone.now())
    rows = load(client).by_id("rows")
    assert rows["hx-trigger"] == "every 5s"
    poll = f"/runs/{rows['hx-get']}"
    assert client.get(poll, headers=HTMX).status_code == 204
    Run.objects.filter(pk=run.pk).update(revision=7)
    fragment = load(client, poll, **HTMX)
    assert fragment.is_fragment
    assert [element.get("id") for element in fragment.select("body > *")] == ["rows"]
    Run.objects.filter(pk=run.pk).update(ended_at=timezone.now())
    assert not load(client, poll, **HTMX).has("[hx-trigger]")


@pytest.mark.usefixtures("alice")
def test_page_and_fragment_vary_by_who_asks(client: Client) -> None:
    assert "HX-Request" in client.get("/runs/")["Vary"]


@pytest.mark.usefixtures("alice")
@pytest.mark.postgresql("1")
@pytest.mark.parametrize("runs", [1, 60])
def test_the_number_of_queries_does_not_grow(
    client: Client, project: Project, runs: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for _ in range(runs):
        run = create_run(project, facets={"tool": ["Bash"], "state": ["failed"]})
    create_call(run, exit_status=1)
    client.get("/runs/")
    # Session, user, memberships, saved views, runs, their annotations, waiting calls, newest facet.
    with django_assert_num_queries(8):
        client.get("/runs/")
    with django_assert_num_queries(18):  # and names of tools, two rare facets; these again, and counts, for the facets
        client.get("/runs/?q=tool:Bash+status:failed&sort=tokens")


@pytest.mark.usefixtures("alice")
def test_another_projects_runs_are_not_listed(client: Client) -> None:
    create_run(create_project("other"), title="Secret", facets={"tool": ["SecretTool"]})
    assert "Secret" not in load(client).text


@pytest.mark.usefixtures("alice")
def test_an_operator_deletes_a_run_after_a_question(client: Client, project: Project) -> None:
    run = create_run(project, title="To go", own_call_count=1)
    address = f"/runs/{run.pk}/delete/"
    page = load(client, address)
    assert page.by_role("heading", "Delete this run?")
    assert page.by_text("To go")
    assert "Deletes its 1 call, with" in page.text
    assert "Deletes the notes, tags, assignments and review marks" in page.text
    assert Run.objects.filter(pk=run.pk).exists()
    assert client.post(address).status_code == 302
    assert not Run.objects.filter(pk=run.pk).exists()


def test_only_operators_of_the_project_delete(client: Client, project: Project) -> None:
    run = create_run(project)
    address = f"/runs/{run.pk}/delete/"
    client.force_login(create_user("bob", project=project, role="viewer"))
    assert client.get(address).status_code == client.post(address).status_code == 403
    client.force_login(create_user("charlie", project=create_project("other")))
    assert client.get(address).status_code == client.post(address).status_code == 404
    assert Run.objects.filter(pk=run.pk).exists()


@pytest.mark.usefixtures("alice")
def test_the_first_ten_presets_have_keys_of_their_own(client: Client, project: Project) -> None:
    """From the sign-in link to both halves of a failed call: Enter, 2, j, Enter, f, Enter."""
    create_run(project)
    presets = load(client).select('.presets a[data-hotkey="click"]')
    keys = [(link["data-key"], link["data-key-help"]) for link in presets]
    assert keys[:2] == [("1", "All runs"), ("2", "Errors")]
    assert len({key for key, _ in keys}) == len(keys) == 10


@pytest.mark.usefixtures("alice")
def test_a_run_whose_recording_has_no_times_shows_no_duration_and_when_it_was_imported(
    client: Client, project: Project
) -> None:
    imported = timezone.now() - timedelta(minutes=5, seconds=9)
    run = create_run(project, started_at=None, last_at=None, duration_ms=0, sort_at=imported)
    create_call(run, args={"session_id": 7}, summary="command exited with status 0", result={"stdout": ""})
    page = load(client)
    assert page.texts("td")[-2:] == ["–", "imported 5 min ago"]
    assert not page.has("td:is([data-label=long], [data-label=ago])"), "a narrow page showed “– long”"
    age = page.select_one("td time")
    assert age["title"].startswith("The recording has no times; imported 20")
    assert load(client, f"/runs/{run.pk}/").facts["Duration"] == "–"
    step = load(client, f"/runs/{run.pk}/1/halves").select_one(".step-args > summary")
    assert " ".join(step.text.split()) == 'asked {"session_id": 7}'

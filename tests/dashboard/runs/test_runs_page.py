"""The Runs page: which run needs me?"""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import quote

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dashboard.ingest import run_stats
from dashboard.models import Project, Run
from tests.dashboard.factories import START, create_call, create_project, create_run, create_user

HTMX = {"HX-Request": "true"}
HOSTILE = '<script>alert(1)</script><b hx-post="/runs/" hx-trigger="load">\u202e\x1b[31m'


def text_of(client: Client, address: str = "/runs/", **headers: str) -> str:
    response = client.get(address, headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def shown(html: str, *titles: str) -> list[str]:
    """Those of the titles that stand in the table, in its order."""
    places = {title: html.find(f">{title}</a>") for title in titles}
    return sorted((title for title in titles if places[title] >= 0), key=places.__getitem__)


@pytest.mark.usefixtures("alice")
def test_an_empty_project_says_what_to_do_next(client: Client) -> None:
    html = text_of(client)
    assert "Which run needs me?" in html
    assert "No runs yet" in html
    assert "import_runs" in html


@pytest.mark.usefixtures("alice")
def test_a_row_tells_a_run_from_its_metadata(client: Client, project: Project) -> None:
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
    html = text_of(client)
    for words in ("Fix the login", "claude-code", "opus", "audit", "ended", "1,234", "≈56,789", "3 min 12 s"):
        assert words in html
    assert f'href="/runs/{run.pk}/"' in html
    assert "1 ok, 1 failed, 1 cut, 1 failed and cut, 1 unanswered, 1 waited on a person" in html


@pytest.mark.usefixtures("alice")
def test_exact_tokens_carry_no_sign_of_an_estimate(client: Client, project: Project) -> None:
    create_run(project, token_count=77, token_certainty="exact")
    html = text_of(client)
    assert ">77<" in html
    assert "≈77" not in html


@pytest.mark.usefixtures("alice")
def test_what_a_tool_said_is_text(client: Client, project: Project) -> None:
    create_run(project, title=HOSTILE, agent=HOSTILE[:100], model=HOSTILE[:100], facets={"tool": [HOSTILE]})
    searched = text_of(client, f"/runs/?q={quote(HOSTILE)}&sort=<script>")
    html = text_of(client)
    for page in (searched, html):
        assert "<script>alert" not in page
        assert "<b hx-post" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\u202e" not in html
    assert "\x1b" not in html


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("asked", ["\x00", "tool:a\x00b", "\x1b[31m", "status:\x00\x08"])
def test_control_characters_of_a_filter_are_drawn(client: Client, project: Project, asked: str) -> None:
    create_run(project)
    html = text_of(client, f"/runs/?q={quote(asked)}&after={quote(asked)}")
    assert not set(html) & {chr(code) for code in range(32) if chr(code) not in "\n\t"}
    assert f'value="{asked.translate({0: 0x2400, 8: 0x2408, 27: 0x241B})}"' in html


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("sort", ["newest", "tokens"])
def test_a_rare_filter_is_sorted_and_paged_like_a_common_one(
    client: Client, project: Project, sort: str, settings: Settings
) -> None:
    settings.ROWS_PER_PAGE = 2
    for number in range(5):
        at = START + timedelta(seconds=number)
        create_run(project, title=f"Run {number}", sort_at=at, token_count=number, facets={"tool": ["Rare"]})
    names = [f"Run {number}" for number in range(5)]
    first = text_of(client, f"/runs/?q=tool:Rare&sort={sort}")
    assert shown(first, *names) == ["Run 4", "Run 3"]
    following = first.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0].replace("&amp;", "&")
    assert shown(text_of(client, f"/runs/{following}"), *names) == ["Run 2", "Run 1"]


@pytest.mark.usefixtures("alice")
def test_presets_are_filters_with_ids_that_stay(client: Client, project: Project) -> None:
    create_run(project, title="Failed run", facets={"state": ["failed"]}, token_count=1)
    create_run(project, title="Cut run", facets={"state": ["cut"]}, token_count=3)
    create_run(project, title="Open run", facets={"state": ["unanswered"]}, token_count=2)
    create_run(project, title="Odd run", facets={"state": ["disagree"]})
    halves = create_run(project, title="Halves run")
    create_call(halves, status="success", source_error=True)
    run_stats.refresh_stats(halves)
    names = ("Failed run", "Cut run", "Open run", "Odd run")
    assert shown(text_of(client, "/runs/?preset=errors"), *names) == ["Failed run"]
    assert shown(text_of(client, "/runs/?preset=cut"), *names) == ["Cut run"]
    assert shown(text_of(client, "/runs/?preset=biggest"), *names) == ["Cut run", "Open run", "Failed run", "Odd run"]
    assert shown(text_of(client, "/runs/?preset=unanswered"), *names) == ["Open run"]
    assert shown(text_of(client, "/runs/?preset=disagree"), *names) == ["Odd run"]
    assert shown(text_of(client, "/runs/?preset=halves"), *names, "Halves run") == ["Halves run"]
    create_run(project, title="Retried run", facets={"state": ["retried"]})
    assert shown(text_of(client, "/runs/?preset=retried"), *names, "Retried run") == ["Retried run"]
    assert 'value="status:failed"' in text_of(client, "/runs/?preset=errors")
    html = text_of(client, "/runs/?preset=gone&sort=size")
    assert "There is no preset “gone”; these are the runs without it." in html
    assert "There is no sort “size”; the newest are first." in html


@pytest.mark.usefixtures("alice")
def test_facets_write_the_search_bar(client: Client, project: Project) -> None:
    create_run(project, facets={"tool": ["Bash", "my tool"]})
    html = text_of(client, "/runs/?q=words&sort=tokens")
    assert 'href="?q=words+tool%3ABash&amp;sort=tokens"' in html
    assert 'href="?q=words+tool%3A%22my+tool%22&amp;sort=tokens"' in html
    assert 'href="?sort=tokens" aria-current="true"' in text_of(client, "/runs/?q=tool:Bash&sort=tokens")


@pytest.mark.usefixtures("alice")
def test_a_word_that_is_no_filter_is_named_and_finds_nothing(client: Client, project: Project) -> None:
    create_run(project, title="Some run")
    html = text_of(client, "/runs/?q=foo:bar")
    assert "“foo:” is not a filter" in html
    assert "Some run" not in html


@pytest.mark.usefixtures("alice")
def test_a_filter_without_a_match_says_so(client: Client, project: Project) -> None:
    create_run(project)
    assert "No run matches" in text_of(client, "/runs/?q=nowhere")


@pytest.mark.usefixtures("alice")
def test_child_runs_are_left_out_and_the_page_says_so(client: Client, project: Project) -> None:
    parent = create_run(project, title="Parent")
    create_run(project, title="Child", parent=parent, facets={"state": ["child", "failed"]})
    html = text_of(client)
    assert shown(html, "Parent", "Child") == ["Parent"]
    assert "Child runs are left out" in html
    assert 'href="?q=child%3Aany"' in html
    html = text_of(client, "/runs/?q=child:any")
    assert "hild runs" not in html.partition('class="pager"')[2]
    assert "A child run" in html
    html = text_of(client, "/runs/?preset=errors")
    assert shown(html, "Parent", "Child") == ["Child"]
    assert 'are among them: <a href="?q=status%3Afailed+child%3Ano">leave them out</a>' in html


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("sort", ["newest", "calls", "failed", "cut", "tokens", "duration"])
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
    names = [f"Run {number:03}" for number in range(120)]
    seen, address = [], f"/runs/?sort={sort}"
    for _ in range(3):
        html = text_of(client, address)
        seen += shown(html, *names)
        if 'rel="next"' not in html:
            break
        address = "/runs/" + html.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0].replace(
            "&amp;", "&"
        )
    assert sorted(seen) == names
    assert [name[:5] for name in seen][0] == "Run 1"
    assert "the list ends here" in html


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("after", ["x", "~", "1~2", "0001-01-01T00:00:00+23:59~" + "0" * 32, "\x00", "9" * 400, "é~é"])
@pytest.mark.parametrize("sort", ["newest", "tokens", "tokens'--", ""])
def test_a_damaged_cursor_is_told_and_breaks_nothing(client: Client, project: Project, after: str, sort: str) -> None:
    create_run(project, title="First")
    html = text_of(client, f"/runs/?sort={quote(sort)}&after={quote(after)}")
    assert "does not exist; these are the first runs" in html
    assert "First" in html


@pytest.mark.usefixtures("alice")
def test_the_list_polls_only_while_a_run_is_live_and_only_for_news(client: Client, project: Project) -> None:
    run = create_run(project, title="Live", last_at=timezone.now())
    html = text_of(client)
    assert 'hx-trigger="every 5s"' in html
    poll = "/runs/" + html.partition('hx-get="')[2].partition('"')[0].replace("&amp;", "&")
    assert client.get(poll, headers=HTMX).status_code == 204
    Run.objects.filter(pk=run.pk).update(revision=7)
    fragment = text_of(client, poll, **HTMX)
    assert fragment.lstrip().startswith('<div id="rows"')
    assert "<html" not in fragment
    Run.objects.filter(pk=run.pk).update(ended_at=timezone.now())
    assert "hx-trigger" not in text_of(client, poll, **HTMX)


@pytest.mark.usefixtures("alice")
def test_page_and_fragment_vary_by_who_asks(client: Client) -> None:
    assert "HX-Request" in client.get("/runs/")["Vary"]


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("runs", [1, 60])
def test_the_number_of_queries_does_not_grow(
    client: Client, project: Project, runs: int, django_assert_num_queries
) -> None:
    for _ in range(runs):
        create_run(project, facets={"tool": ["Bash"], "state": ["failed"]})
    client.get("/runs/")
    with django_assert_num_queries(6):  # session, user, memberships, saved views, runs, newest facet
        client.get("/runs/")
    with django_assert_num_queries(8):
        client.get("/runs/?q=tool:Bash+status:failed&sort=tokens")


@pytest.mark.usefixtures("alice")
def test_another_projects_runs_are_not_listed(client: Client) -> None:
    create_run(create_project("other"), title="Secret", facets={"tool": ["SecretTool"]})
    html = text_of(client)
    assert "Secret" not in html


@pytest.mark.usefixtures("alice")
def test_an_operator_deletes_a_run_after_a_question(client: Client, project: Project) -> None:
    run = create_run(project, title="To go")
    address = f"/runs/{run.pk}/delete/"
    page = text_of(client, address)
    assert "Delete this run?" in page
    assert "To go" in page
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
def test_every_preset_has_a_key_of_its_own(client: Client, project: Project) -> None:
    """From the sign-in link to both halves of a failed call: Enter, 2, j, Enter, f, Enter."""
    create_run(project)
    keys = re.findall(r'data-key="([0-9])" data-key-help="([^"]*)" data-hotkey="click"', text_of(client))
    assert keys[:2] == [("1", "All runs"), ("2", "Errors")]
    assert len({key for key, _ in keys}) == len(keys) == 9

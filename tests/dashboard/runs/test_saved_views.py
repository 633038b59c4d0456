"""Saved views of the Runs page: a filter and a sort under a name."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from dashboard.models import Project, SavedView
from dashboard.runs.saved_views import MOST_VIEWS
from tests.dashboard.factories import create_project, create_run, create_user

NO_SUCH_VIEW = "There is no such saved view"
SAVE, DELETE = "Save this view", "Delete this view"


@pytest.fixture
def project(db: None) -> Project:
    project = create_project()
    create_run(project, title="Failed run", facets={"state": ["failed"]})
    create_run(project, title="Good run")
    return project


@pytest.fixture
def operator(project: Project, client: Client) -> Client:
    client.force_login(create_user("alice", project=project))
    return client


def saved(project: Project, name: str = "Mine", query: str = "status:failed", sort: str = "tokens") -> SavedView:
    return SavedView.objects.create(project=project, name=name, query=query, sort=sort)


def page(client: Client, address: str = "/runs/") -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def current(html: str) -> list[str]:
    chips = re.findall(r'<a class="chip[^>]*aria-current="true">(?:<svg.*?</svg>)?([^<]*)', html, re.DOTALL)
    return [chip.strip() for chip in chips]


def test_an_operator_saves_opens_and_deletes_a_view(operator: Client, project: Project) -> None:
    assert SAVE not in page(operator)
    assert SAVE in page(operator, "/runs/?q=status:failed&sort=tokens")

    answer = operator.post("/runs/views/", {"name": "  Failed,\n big ", "q": "status:failed", "sort": "tokens"})
    view = project.saved_views.get()
    assert (view.name, view.query, view.sort, str(view.created_by)) == (
        "Failed, big",
        "status:failed",
        "tokens",
        "alice",
    )
    assert (answer.status_code, answer["Location"]) == (302, f"/runs/?view={view.pk}")

    html = page(operator, answer["Location"])
    assert "Failed run" in html
    assert "Good run" not in html
    assert current(html) == ["Failed, big"]
    assert DELETE in html
    assert SAVE not in html

    answer = operator.post(f"/runs/views/{view.pk}/delete/")
    assert (answer.status_code, answer["Location"]) == (302, "/runs/?q=status%3Afailed&sort=tokens")
    assert not project.saved_views.exists()


def test_a_view_is_current_by_what_it_holds(operator: Client, project: Project) -> None:
    first, second = saved(project, "A"), saved(project, "B")
    assert current(page(operator)) == ["All runs"]
    assert current(page(operator, "/runs/?q=status:failed&sort=tokens")) == ["A"]
    assert current(page(operator, f"/runs/?view={second.pk}")) == ["B"]
    assert current(page(operator, f"/runs/?view={first.pk}&sort=calls")) == []


@pytest.mark.parametrize("asked", ["0", "-1", "x", "9" * 400, "%00", "1%27", "%F0%9F%98%80"])
def test_an_unknown_view_shows_all_runs_and_says_so(operator: Client, asked: str) -> None:
    html = page(operator, f"/runs/?view={asked}")
    assert NO_SUCH_VIEW in html
    assert "these are all runs" in html
    assert "Good run" in html


def test_another_projects_view_is_neither_listed_nor_opened_nor_deleted(operator: Client) -> None:
    foreign = saved(create_project("other"), "Secret")
    html = page(operator, f"/runs/?view={foreign.pk}")
    assert NO_SUCH_VIEW in html
    assert "Secret" not in html
    assert operator.post(f"/runs/views/{foreign.pk}/delete/").status_code == 404
    assert operator.post(f"/runs/views/{'9' * 30}/delete/").status_code == 404
    assert SavedView.objects.filter(pk=foreign.pk).exists()


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"name": " \n"}, "A view needs a name."),
        ({"name": "x" * 61}, "The name has 61 characters; at most 60 are kept."),
        ({"name": "Mine"}, "There is already a view named “Mine”"),
        ({"name": "New", "q": "foo:bar"}, "The filter finds nothing, so it is not kept."),
        ({"name": "New", "q": "x" * 2_001}, "The filter has 2001 characters"),
    ],
)
def test_what_cannot_be_saved_is_said_beside_the_name(
    operator: Client, project: Project, said: dict[str, str], problem: str
) -> None:
    saved(project)
    answer = operator.post("/runs/views/", {"q": "status:failed"} | said)
    html = answer.content.decode()
    assert answer.status_code == 422
    assert problem in html
    assert '<details class="drop saved-view" open>' in html
    assert 'aria-describedby="view-problem"' in html
    assert project.saved_views.count() == 1


def test_a_project_has_only_so_many_views(operator: Client, project: Project) -> None:
    SavedView.objects.bulk_create(SavedView(project=project, name=f"view {n}") for n in range(MOST_VIEWS))
    answer = operator.post("/runs/views/", {"name": "One more", "q": "words"})
    assert f"The project has {MOST_VIEWS} views" in answer.content.decode()


def test_two_projects_may_use_the_same_name(operator: Client, project: Project) -> None:
    saved(create_project("other"))
    assert operator.post("/runs/views/", {"name": "Mine", "q": "words", "sort": "nonsense"}).status_code == 302
    assert project.saved_views.get().sort == "newest"


def test_a_hostile_name_is_drawn_not_obeyed(operator: Client, project: Project) -> None:
    operator.post("/runs/views/", {"name": "<script>alert(1)</script>\u202e\x1b\x00", "q": "words"})
    html = page(operator, f"/runs/?view={project.saved_views.get().pk}")
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;⟨RLO⟩" in html


def test_a_viewer_sees_views_and_cannot_change_them(project: Project, client: Client) -> None:
    view = saved(project)
    client.force_login(create_user("bob", project=project, role="viewer"))
    html = page(client, f"/runs/?view={view.pk}")
    assert current(html) == ["Mine"]
    assert DELETE not in html
    assert SAVE not in page(client, "/runs/?q=words")
    assert client.post("/runs/views/", {"name": "New", "q": "words"}).status_code == 403
    assert client.post(f"/runs/views/{view.pk}/delete/").status_code == 403
    assert [kept.name for kept in project.saved_views.all()] == ["Mine"]


def test_only_a_post_with_its_token_changes_views(project: Project) -> None:
    view = saved(project)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(create_user("alice", project=project))
    assert strict.get(f"/runs/views/{view.pk}/delete/").status_code == 405
    assert strict.post(f"/runs/views/{view.pk}/delete/").status_code == 403
    assert strict.post("/runs/views/", {"name": "New", "q": "words"}).status_code == 403
    assert project.saved_views.count() == 1

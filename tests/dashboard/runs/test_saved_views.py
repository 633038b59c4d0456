"""Saved views of the Runs page: a filter and a sort under a name."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.filters.saved_views import MAX_VIEWS
from dashboard.models import Project, SavedView
from tests.dashboard.factories import create_project, create_run, create_user
from tests.dashboard.page_text import Page, assert_harmless, parse_page

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


def save(project: Project, name: str = "Mine", query: str = "status:failed", sort: str = "tokens") -> SavedView:
    return SavedView.objects.create(project=project, name=name, query=query, sort=sort)


def load(client: Client, address: str = "/runs/") -> Page:
    response = client.get(address)
    assert response.status_code == 200
    return parse_page(response)


def current(page: Page) -> list[str]:
    """The presets and views that are marked as shown."""
    return page.texts("a.chip[aria-current=true]")


def offers(page: Page) -> list[str]:
    return page.texts(".saved-view summary")


def titles(page: Page) -> list[str]:
    return page.texts("tbody th a.isolate")


@pytest.mark.postgresql
def test_an_operator_saves_opens_and_deletes_a_view(operator: Client, project: Project) -> None:
    assert offers(load(operator)) == []
    assert offers(load(operator, "/runs/?q=status:failed&sort=tokens")) == [SAVE]

    answer = operator.post("/runs/views/", {"name": "  Failed,\n big ", "q": "status:failed", "sort": "tokens"})
    view = project.saved_views.get()
    assert (view.name, view.query, view.sort, str(view.created_by)) == (
        "Failed, big",
        "status:failed",
        "tokens",
        "alice",
    )
    assert (answer.status_code, answer["Location"]) == (302, f"/runs/?view={view.pk}")

    page = load(operator, answer["Location"])
    assert titles(page) == ["Failed run"]
    assert current(page) == ["Failed, big"]
    assert offers(page) == [DELETE]

    answer = operator.post(f"/runs/views/{view.pk}/delete/")
    assert (answer.status_code, answer["Location"]) == (302, "/runs/?q=status%3Afailed&sort=tokens")
    assert not project.saved_views.exists()


def test_a_view_is_current_by_what_it_holds(operator: Client, project: Project) -> None:
    first, second = save(project, "A"), save(project, "B")
    assert current(load(operator)) == ["All runs"]
    assert current(load(operator, "/runs/?q=status:failed&sort=tokens")) == ["A"]
    assert current(load(operator, f"/runs/?view={second.pk}")) == ["B"]
    assert current(load(operator, f"/runs/?view={first.pk}&sort=calls")) == []


@pytest.mark.parametrize("view", ["0", "-1", "x", "9" * 400, "%00", "1%27", "%F0%9F%98%80"])
def test_an_unknown_view_shows_all_runs_and_says_so(operator: Client, view: str) -> None:
    page = load(operator, f"/runs/?view={view}")
    assert NO_SUCH_VIEW in page.by_role("alert").text
    assert "these are all runs" in page.by_role("alert").text
    assert "Good run" in titles(page)


def test_another_projects_view_is_neither_listed_nor_opened_nor_deleted(operator: Client) -> None:
    foreign = save(create_project("other"), "Secret")
    page = load(operator, f"/runs/?view={foreign.pk}")
    assert NO_SUCH_VIEW in page.by_role("alert").text
    assert "Secret" not in page.text
    assert operator.post(f"/runs/views/{foreign.pk}/delete/").status_code == 404
    assert operator.post(f"/runs/views/{'9' * 30}/delete/").status_code == 404
    assert SavedView.objects.filter(pk=foreign.pk).exists()


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"name": " \n"}, "A view needs a name."),
        ({"name": "x" * 61}, "The name has 61 characters; at most 60 are stored."),
        ({"name": "Mine"}, "There is already a view named “Mine”"),
        ({"name": "New", "q": "foo:bar"}, "The filter matches nothing, so it is not saved."),
        ({"name": "New", "q": "x" * 2_001}, "The filter has 2001 characters"),
    ],
)
def test_a_reason_that_prevents_saving_is_shown_beside_the_name(
    operator: Client, project: Project, form: dict[str, str], problem: str
) -> None:
    save(project)
    answer = operator.post("/runs/views/", {"q": "status:failed"} | form)
    assert answer.status_code == 422
    page = parse_page(answer)
    assert problem in page.by_id("view-problem").text
    assert "open" in page.select_one("details.saved-view")
    assert page.by_id("view-name")["aria-describedby"] == "view-problem"
    assert project.saved_views.count() == 1


def test_a_project_has_only_so_many_views(operator: Client, project: Project) -> None:
    SavedView.objects.bulk_create(SavedView(project=project, name=f"view {n}") for n in range(MAX_VIEWS))
    answer = operator.post("/runs/views/", {"name": "One more", "q": "words"})
    assert f"The project has {MAX_VIEWS} views" in parse_page(answer).by_id("view-problem").text


def test_two_projects_may_use_the_same_name(operator: Client, project: Project) -> None:
    save(create_project("other"))
    assert operator.post("/runs/views/", {"name": "Mine", "q": "words", "sort": "nonsense"}).status_code == 302
    assert project.saved_views.get().sort == "newest"


def test_a_hostile_name_is_shown_as_text(operator: Client, project: Project) -> None:
    operator.post("/runs/views/", {"name": "<script>alert(1)</script>\u202e\x1b\x00", "q": "words"})
    page = load(operator, f"/runs/?view={project.saved_views.get().pk}")
    assert_harmless(page)
    assert "<script>alert(1)</script>⟨RLO⟩" in current(page)[0]


def test_a_viewer_sees_views_and_cannot_change_them(project: Project, client: Client) -> None:
    view = save(project)
    client.force_login(create_user("bob", project=project, role="viewer"))
    page = load(client, f"/runs/?view={view.pk}")
    assert current(page) == ["Mine"]
    assert offers(page) == offers(load(client, "/runs/?q=words")) == []
    assert client.post("/runs/views/", {"name": "New", "q": "words"}).status_code == 403
    assert client.post(f"/runs/views/{view.pk}/delete/").status_code == 403
    assert [view.name for view in project.saved_views.all()] == ["Mine"]


def test_only_a_post_with_its_token_changes_views(project: Project) -> None:
    view = save(project)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(create_user("alice", project=project))
    assert strict.get(f"/runs/views/{view.pk}/delete/").status_code == 405
    assert strict.post(f"/runs/views/{view.pk}/delete/").status_code == 403
    assert strict.post("/runs/views/", {"name": "New", "q": "words"}).status_code == 403
    assert project.saved_views.count() == 1

"""The Problems page lists refused lines with their reasons and bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard.ingest.importer import import_paths
from dashboard.models import Problem, Project
from tests.dashboard.factories import create_problem, create_project, create_user
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.sessions import SESSION, answers, asks, write

HOSTILE = b'<script>alert(1)</script><b hx-post="/x" hx-trigger="load">\x1b[31m\x00\xff\xe2\x80\xae'


@pytest.fixture
def project(db: None) -> Project:
    return create_project()


@pytest.fixture
def reader(client: Client, project: Project) -> Client:
    client.force_login(create_user("bob", project=project, role="viewer"))
    return client


def load(client: Client, address: str = "/problems/") -> Page:
    response = client.get(address)
    assert response.status_code == 200
    return parse_page(response)


def reasons(page: Page) -> list[str]:
    return page.texts("#problems .reason")


def test_a_project_without_problems_has_an_empty_page(reader: Client) -> None:
    page = load(reader)
    assert page.by_role("heading", "Problems", exact=True)
    assert page.by_role("heading", "No problems")
    assert page.by_role("main").by_role("link", "Back to the runs")["href"] == "/runs/"


def test_a_problem_has_its_file_line_reason_and_bytes(reader: Client, project: Project) -> None:
    create_problem(project, b'{"a": 1', file="logs/a.jsonl", line=12, path="$.a", reason="It ends too early.")
    problem = load(reader).select_one("#problems li")
    assert problem.by_role("heading").text == "logs/a.jsonl"
    assert problem.by_text("line 12, $.a", exact=True)
    assert problem.select_one(".reason").text == "It ends too early."
    assert problem.select_one("pre").exact == '{"a": 1'
    assert problem.by_text("All 7 B are shown.", exact=True)


def test_a_problem_links_to_the_run_of_its_file_and_is_resolved_when_the_file_was_repaired(
    reader: Client, project: Project, tmp_path: Path
) -> None:
    log = write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_1"), answers("toolu_1"), b"[1, 2]"])
    import_paths(project, [log])
    page = load(reader)
    run = project.runs.get()
    assert page.by_id("problems").by_role("link", SESSION)["href"] == run.get_absolute_url()
    assert "1 problem in all" in page.select_one(".pager").text
    assert not page.all_by_text("Resolved")
    import_paths(project, [write(log, [asks("toolu_1"), answers("toolu_1")])])
    assert load(reader).by_text("Resolved: file imported again", exact=True)


def test_an_incomplete_last_line_is_pending(reader: Client, project: Project, tmp_path: Path) -> None:
    log = write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_1")])
    log.write_bytes(log.read_bytes() + b'{"type": "us')
    import_paths(project, [log])
    assert load(reader).by_text("Pending: incomplete last line", exact=True)


def test_a_long_line_has_its_sizes_shown_and_stored(reader: Client, project: Project) -> None:
    create_problem(project, b"x" * 65_536, raw_size=9_000_000)
    problem = load(reader).select_one("#problems li")
    assert "The first 400 B of 9.0 MB are shown; the first 65.5 KB are stored." in problem.text
    assert problem.select_one("pre").exact == "x" * 400


@pytest.mark.postgresql
def test_an_empty_file_is_a_problem_without_bytes(reader: Client, project: Project, tmp_path: Path) -> None:
    (tmp_path / "begun.jsonl").touch()
    import_paths(project, [tmp_path])
    problem = load(reader).select_one("#problems li")
    assert problem.select_one(".reason").text == "the file is empty"
    assert problem.by_text("the whole file", exact=True)
    assert not problem.has("pre")
    raw = reader.get(f"/problems/{Problem.objects.get().pk}/raw")
    assert (raw.status_code, b"".join(raw)) == (200, b"")


def test_refused_bytes_are_text(reader: Client, project: Project) -> None:
    create_problem(project, HOSTILE, file="<script>f", line=7, path="<script>p", reason="<script>r")
    page = load(reader)
    assert not page.has("script:not([src])")
    assert not page.has("[hx-post], [hx-trigger=load]")
    problem = page.select_one("#problems li")
    assert problem.by_role("heading").text == "<script>f"
    assert problem.select_one(".reason").text == "<script>r"
    assert problem.by_text("line 7, <script>p", exact=True)
    assert problem.select_one("pre").exact == HOSTILE.decode("utf-8", "backslashreplace")
    assert not set("\x1b\x00\u202e") & set(page.markup)


def test_the_raw_bytes_are_a_download_and_never_a_page(reader: Client, project: Project) -> None:
    problem = create_problem(project, HOSTILE)
    response = reader.get(f"/problems/{problem.pk}/raw")
    assert response.content == HOSTILE
    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"] == f'attachment; filename="problem-{problem.pk}.bin"'
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in response["Content-Security-Policy"]


def test_problems_are_filtered_by_file(reader: Client, project: Project) -> None:
    create_problem(project, file="a b&c.jsonl", reason="Reason A")
    create_problem(project, file="other.jsonl", reason="Reason O")
    choice = load(reader).by_role("region", "Files").by_role("link", "a b&c.jsonl")
    assert choice["href"] == "?file=a+b%26c.jsonl"
    page = load(reader, f"/problems/{choice['href']}")
    assert reasons(page) == ["Reason A"]
    current = page.by_role("region", "Files").by_role("link", "a b&c.jsonl")
    assert (current["aria-current"], current["href"]) == ("true", "/problems/")
    assert load(reader, "/problems/?file=%00nowhere").by_role("heading", "No problem here")


def test_pages_follow_one_another(reader: Client, project: Project) -> None:
    for number in range(65):
        create_problem(project, reason=f"Reason {number:02}.", file="one.jsonl")
    page = load(reader, "/problems/?file=one.jsonl")
    listed = reasons(page)
    for _ in range(2):
        page = load(reader, "/problems/" + page.by_role("link", "Next page")["href"])
        listed += reasons(page)
        assert page.by_role("link", "First page")["href"] == "?file=one.jsonl"
    assert listed == [f"Reason {number:02}." for number in reversed(range(65))]
    assert not page.all_by_role("link", "Next page")


@pytest.mark.parametrize("after", ["x", "-1", "9" * 30, "²", "%00"])
def test_a_damaged_cursor_is_reported(reader: Client, project: Project, after: str) -> None:
    create_problem(project, reason="Still here.")
    page = load(reader, f"/problems/?after={after}")
    assert "is not a whole number" in page.by_role("alert").text
    assert reasons(page) == ["Still here."]


def test_another_projects_problems_stay_hidden(reader: Client) -> None:
    problem = create_problem(create_project("other"), reason="Secret reason")
    assert "Secret reason" not in load(reader).text
    assert reader.get(f"/problems/{problem.pk}/raw").status_code == 404
    assert reader.get(f"/problems/{9 * 10**30}/raw").status_code == 404


@pytest.mark.parametrize("problems", [1, 40])
def test_the_number_of_queries_does_not_grow(
    reader: Client, project: Project, problems: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    Problem.objects.bulk_create(
        Problem(project=project, file="f", line=n, path="$", reason="r", raw=b"x", raw_size=1) for n in range(problems)
    )
    reader.get("/problems/")
    with django_assert_num_queries(6):  # session, user, memberships, problems, files, sources
        reader.get("/problems/")

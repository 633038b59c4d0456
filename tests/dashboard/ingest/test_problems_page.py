"""The Problems page: what could not be taken in?"""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from dashboard.ingest.importer import import_paths
from dashboard.models import Problem, Project
from tests.dashboard.factories import create_problem, create_project, create_user
from tests.dashboard.sessions import SESSION, answers, asks, write

HOSTILE = b'<script>alert(1)</script><b hx-post="/x" hx-trigger="load">\x1b[31m\x00\xff\xe2\x80\xae'


@pytest.fixture
def project(db: None) -> Project:
    return create_project()


@pytest.fixture
def reader(client: Client, project: Project) -> Client:
    client.force_login(create_user("bob", project=project, role="viewer"))
    return client


def text_of(client: Client, address: str = "/problems/") -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def test_nothing_refused_is_said(reader: Client) -> None:
    html = text_of(reader)
    assert "What could not be taken in?" in html
    assert "Nothing was refused" in html


def test_a_problem_tells_file_place_reason_and_bytes(reader: Client, project: Project) -> None:
    create_problem(project, b'{"a": 1', file="logs/a.jsonl", line=12, path="$.a", reason="It ends too early.")
    html = text_of(reader)
    for words in ("logs/a.jsonl", "line 12, $.a", "It ends too early.", "{&quot;a&quot;: 1", "All 7 B are shown"):
        assert words in html


def test_a_problem_leads_to_the_run_of_its_file_and_is_past_when_the_file_was_mended(
    reader: Client, project: Project, tmp_path: Path
) -> None:
    log = write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_1"), answers("toolu_1"), b"[1, 2]"])
    import_paths(project, [log])
    html = text_of(reader)
    assert f'href="/runs/{project.runs.get().pk}/"' in html
    assert "1 problem in all" in html
    assert "past: the file" not in html
    import_paths(project, [write(log, [asks("toolu_1"), answers("toolu_1")])])
    assert "past: the file was read anew since" in text_of(reader)


def test_a_long_line_says_how_much_of_it_is_shown_and_kept(reader: Client, project: Project) -> None:
    create_problem(project, b"x" * 65_536, raw_size=9_000_000)
    html = text_of(reader)
    assert "The first 400 B of 9.0 MB are shown; the first 65.5 KB are kept." in html
    assert "x" * 401 not in html


def test_an_empty_file_is_a_problem_without_bytes(reader: Client, project: Project, tmp_path: Path) -> None:
    (tmp_path / "begun.jsonl").touch()
    import_paths(project, [tmp_path])
    html = text_of(reader)
    assert "the file is empty" in html
    assert "the whole file" in html
    raw = reader.get(f"/problems/{Problem.objects.get().pk}/raw")
    assert (raw.status_code, b"".join(raw)) == (200, b"")


def test_refused_bytes_are_text(reader: Client, project: Project) -> None:
    create_problem(project, HOSTILE, file="<script>f", path="<script>p", reason="<script>r")
    html = text_of(reader)
    assert "<script>alert" not in html
    assert "<b hx-post" not in html
    assert all(f"<script>{end}" not in html for end in "fpr")
    assert "\x1b" not in html
    assert "\x00" not in html
    assert "\u202e" not in html
    assert "\\xff" in html


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
    assert 'href="?file=a+b%26c.jsonl"' in text_of(reader)
    html = text_of(reader, "/problems/?file=a+b%26c.jsonl")
    assert "Reason A" in html
    assert "Reason O" not in html
    assert "No problem here" in text_of(reader, "/problems/?file=%00nowhere")


def test_pages_follow_one_another(reader: Client, project: Project) -> None:
    for number in range(65):
        create_problem(project, reason=f"Reason {number:02}.", file="one.jsonl")
    seen, address = "", "/problems/?file=one.jsonl"
    for _ in range(3):
        html = text_of(reader, address)
        seen += html
        address = "/problems/" + html.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0]
        address = address.replace("&amp;", "&")
    assert [seen.count(f"Reason {number:02}.") for number in range(65)] == [1] * 65
    assert 'rel="next"' not in html


@pytest.mark.parametrize("after", ["x", "-1", "9" * 30, "²", "%00"])
def test_a_damaged_cursor_is_told(reader: Client, project: Project, after: str) -> None:
    create_problem(project, reason="Still here.")
    html = text_of(reader, f"/problems/?after={after}")
    assert "does not exist" in html
    assert "Still here." in html


def test_another_projects_problems_stay_hidden(reader: Client) -> None:
    problem = create_problem(create_project("other"), reason="Secret reason")
    assert "Secret reason" not in text_of(reader)
    assert reader.get(f"/problems/{problem.pk}/raw").status_code == 404
    assert reader.get(f"/problems/{9 * 10**30}/raw").status_code == 404


@pytest.mark.parametrize("problems", [1, 40])
def test_the_number_of_queries_does_not_grow(
    reader: Client, project: Project, problems: int, django_assert_max_num_queries
) -> None:
    Problem.objects.bulk_create(
        Problem(project=project, file="f", line=n, path="$", reason="r", raw=b"x", raw_size=1) for n in range(problems)
    )
    reader.get("/problems/")
    with django_assert_max_num_queries(6):
        reader.get("/problems/")

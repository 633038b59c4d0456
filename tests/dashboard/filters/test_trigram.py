"""The search over the text of runs, by an index of trigrams."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import connection
from django.test import Client

from dashboard.filters.language import parse
from dashboard.filters.queryset import candidate_ids, select_runs
from dashboard.models import Project, Run
from tests.dashboard.factories import create_project, create_run
from tests.dashboard.page_text import parse_page

pytestmark = pytest.mark.postgresql


def search_ids(project: Project, text: str) -> frozenset[UUID] | None:
    return candidate_ids(project, parse(text).tree)


def indexed_texts() -> list[str]:
    """The texts in the index of SQLite. PostgreSQL indexes the runs themselves."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT text FROM dashboard_runtext" if connection.vendor == "sqlite" else "SELECT 1 WHERE false"
        )
        return [row[0] for row in cursor.fetchall()]


def titles(project: Project, text: str) -> list[str]:
    return sorted(run.title for run in parse(text).runs(project))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("login", ["Fix the LOGIN page", "login again"]),
        ("LOG", ["Fix the LOGIN page", "login again"]),
        ('"the login"', ["Fix the LOGIN page"]),
        ("lo", ["Fix the LOGIN page", "login again"]),
        ("100%_done", ["100%_done"]),
        ("ünïcode", ["Ünïcode ünïcode"]),
        ("session-7", ["by its id"]),
        (r'"say \"hi\""', ['say "hi" now']),
        ("login -again", ["Fix the LOGIN page"]),
        ("gin page", ["Fix the LOGIN page"]),
        ("logan", []),
    ],
)
def test_a_text_is_found_at_every_position(project: Project, text: str, expected: list[str]) -> None:
    for title in ("Fix the LOGIN page", "login again", "100%_done", "1000 done", "Ünïcode ünïcode", 'say "hi" now'):
        create_run(project, title=title)
    create_run(project, "session-77", title="by its id")
    create_run(create_project("other"), title="another's login")
    assert titles(project, text) == expected


def test_the_index_follows_what_happens_to_a_run(project: Project) -> None:
    run = create_run(project, "first", title="Renamed later")
    Run.objects.filter(pk=run.pk).update(title="Quite another")
    assert (titles(project, "renamed"), titles(project, "quite")) == ([], ["Quite another"])
    Run.objects.filter(pk=run.pk).update(project=create_project("other"))
    assert titles(project, "quite") == []
    assert titles(create_project("other"), "quite") == ["Quite another"]
    run.delete()
    assert titles(create_project("other"), "quite") == []


def test_a_rare_text_is_looked_up_and_leaves_nothing_behind(project: Project) -> None:
    run = create_run(project, title="Zebra crossing")
    create_run(project, title="Plain")
    assert search_ids(project, "zebra") == ({run.pk} if connection.vendor == "sqlite" else None)
    assert search_ids(project, "ze") == search_ids(project, "zebra")
    assert search_ids(project, "-zebra") is None
    run.delete()
    assert not [text for text in indexed_texts() if "Zebra" in text]
    assert not search_ids(project, "zebra")


@pytest.mark.parametrize("text", ["zebra", "ze", "tool:Rare"])
def test_what_is_rare_is_found_by_its_ids_and_not_by_walking_the_list(text: str, project: Project) -> None:
    create_run(project, title="Zebra crossing", facets={"tool": ["Rare"]})
    plan = parse(text).runs(project).explain()
    if connection.vendor == "sqlite":
        assert "(id=?)" in plan
        assert "project_id=?" not in plan


def test_a_common_text_is_not_looked_up_again(project: Project) -> None:
    for number in range(3):
        create_run(project, title=f"Everywhere {number}")
    tree = parse("everywhere").tree
    assert candidate_ids(project, tree, few=1) is None
    Run.objects.exclude(title="Everywhere 0").delete()
    assert candidate_ids(project, tree, few=1) is None  # that it is common is remembered
    runs, is_small = select_runs(project, tree, few=1)
    assert [run.title for run in runs] == ["Everywhere 0"]
    assert not is_small


def test_the_page_finds_by_text_and_facet_at_once(operator_client: Client, project: Project) -> None:
    create_run(project, title="Zebra one", facets={"tool": ["Bash"]})
    create_run(project, title="Zebra two", facets={"tool": ["Edit"]})
    page = parse_page(operator_client.get("/runs/?q=zebra+tool:Edit"))
    assert page.texts("tbody th > a.isolate") == ["Zebra two"]

"""Filters on values that follow from several columns: times, exit status, and what the model got of an output."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.filters.language import parse
from dashboard.ingest.importer import import_paths
from dashboard.ingest.run_stats import refresh_stats
from dashboard.models import Call, Project
from tests.cases import extended_except
from tests.dashboard.factories import create_call, create_project, create_run
from tests.dashboard.page_text import parse_page
from tests.dashboard.sessions import FORK, SESSION, write_cut_fork

pytestmark = pytest.mark.postgresql

CALLS = {
    "measured": {"duration_ms": 90_000, "tool_ms": 2_000},
    "unsplit": {"duration_ms": 45_000},
    "question": {"duration_ms": 609_000, "is_waiting": True},
    "span": {"tool_ms": 50_000},  # measured by a span, without stamps
    "clocks": {"duration_ms": 1_000, "tool_ms": 1_400},
    "timeless": {},
    "failed": {"exit_status": 1},
    "killed": {"exit_status": -9},
    "fine": {"exit_status": 0},
    "half": {"output_lines": 100, "seen_lines": 50, "is_cut": True},
    "little": {"output_lines": 1_482, "seen_lines": 20, "is_cut": True},
    "none": {"output_lines": 30, "seen_lines": 0, "is_cut": True},
    "whole": {"output_lines": 7, "seen_lines": 7},
    "inflated": {"output_lines": 10, "seen_lines": 9, "is_cut": True, "receipt_fidelity": "inflated"},
    "bounded": {"output_lines": 10, "seen_lines": 8, "is_cut": True, "result_fidelity": "bounded"},
    "unrecorded": {"output_lines": 40, "seen_lines": 0, "receipt_fidelity": "absent"},
}
TIMED = {name for name, columns in CALLS.items() if "duration_ms" in columns or "tool_ms" in columns}
FOUND = {
    "took:>30s": {"unsplit", "span"},
    "took:2s": {"measured"},
    "took:<=2s": {"measured", "clocks"},
    "-took:>30s": set(CALLS) - {"unsplit", "span"},
    "took:>=0ms": TIMED - {"question"},
    "waited:>30s": {"measured", "question"},
    "waited:0ms": {"clocks"},
    "waited:>=0ms": {"measured", "question", "clocks"},
    "-waited:>=0ms took:>0ms": {"unsplit", "span"},
    "waited:>30s took:<5s": {"measured"},
    "exit:1": {"failed"},
    "exit:>0": {"failed"},
    "exit:-9": {"killed"},
    "exit:<0 or exit:1..127": {"failed", "killed"},
    "exit:-10..0": {"killed", "fine"},
    "-exit:0": set(CALLS) - {"fine"},
    "seen:<50%": {"little", "none"},
    "seen:50%": {"half"},
    "seen:<=50%": {"little", "none", "half"},
    "seen:>50%": {"whole"},
    "seen:100%": {"whole"},
    "seen:<100%": {"half", "little", "none", "inflated", "bounded"},
    "seen:1%..1.4%": {"little"},
    "seen:0": {"none"},
    "seen:0%": {"none"},
    "seen:8": {"bounded"},
    "seen:>8": {"half", "little"},
    "seen:7..20": {"whole", "little", "bounded"},
    "seen:<9 seen:>0": {"whole", "bounded"},
    "seen:<10": {"none", "whole", "inflated", "bounded"},
    "-seen:>=0 output": set(),
}


@pytest.fixture(scope="module")
def stored(kept_project: Project) -> None:
    runs = []
    for name, columns in CALLS.items():
        run = create_run(kept_project, f"run-{name}", title=f"The {name} run")
        create_call(run, name, **{"receipt_fidelity": "recorded", **columns})
        runs.append(run)
    refresh_stats(runs)


@pytest.fixture
def store(project: Project, stored: None) -> Project:
    return project


@pytest.mark.parametrize("few", extended_except([400, 0], 400))
def test_each_filter_finds_its_calls_and_the_runs_that_have_them(store: Project, settings: Settings, few: int) -> None:
    settings.FEW_RUNS = few
    for text, expected in FOUND.items():
        query = parse(text, over="calls")
        assert (text, query.problems) == (text, ())
        found = set(query.calls_in(store).values_list("external_id", flat=True))
        assert (text, found) == (text, expected)
        for run in store.runs.all():
            here = {run.external_id.removeprefix("run-")} & expected
            assert (text, {call.external_id for call in query.calls(run)}) == (text, here)
        if not text.startswith("-"):  # a dash before a term means that no call of the run is so
            runs = {run.external_id.removeprefix("run-") for run in parse(text).runs(store)}
            assert (text, runs) == (text, expected)


def test_the_expressions_of_the_database_follow_the_rules_of_a_row(store: Project) -> None:
    for call in Call.objects.filter(project=store):
        for kind, value in (("took", call.own_ms), ("waited", call.wait_ms)):
            same = parse(f"{kind}:{value}ms" if value is not None else f"-{kind}:>=0ms", over="calls")
            assert same.calls_in(store).filter(pk=call.pk).exists(), (kind, call.external_id)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("exit:one", "“exit:” at character 1 cannot be “one”; it takes a whole number: 1, >0, -9, 1..127."),
        ("exit:1.5", "“exit:” at character 1 cannot be “1.5”"),
        ("exit:", "“exit:”"),
        ("seen:half", "it takes a number of lines or a share of them: 0, >100, <50%, 10%..50%."),
        ("seen:101%", "“seen:” at character 1 cannot be “101%”"),
        ("seen:-1", "“seen:” at character 1 cannot be “-1”"),
        ("seen:10..50%", "“seen:” at character 1 cannot be “10..50%”"),
        ("waited:30", "“waited:” at character 1 cannot be “30”; it takes a duration with its unit"),
    ],
)
def test_a_value_that_the_key_does_not_take_is_refused_with_examples(text: str, problem: str) -> None:
    assert [problem in sentence for sentence in parse(text, over="calls").problems] == [True]


@pytest.mark.usefixtures("alice")
def test_the_list_shows_the_time_that_it_filters_and_sorts_by(client: Client, store: Project) -> None:
    page = parse_page(client.get(f"/calls/?sort=took&columns=took,waited&q={quote('took:>0ms or waited:>0ms')}"))
    assert page.texts("tbody .c-took") == ["50.0 s", "45.0 s", "2.0 s", "1.4 s", "waited 10 min"]
    assert page.texts("tbody .c-waited") == ["", "", "1 min 28 s", "0 ms", "10 min 9 s"]


@pytest.mark.django_db
def test_a_fork_is_selected_by_the_lines_that_its_own_receipt_has(tmp_path: Path) -> None:
    project = create_project()
    import_paths(project, write_cut_fork(tmp_path))
    lines = {
        run.external_id: [call.external_id for call in parse("seen:<100%", over="calls").calls(run)]
        for run in project.runs.all()
    }
    assert lines[SESSION] == []
    assert lines[FORK] == ["toolu_01"]

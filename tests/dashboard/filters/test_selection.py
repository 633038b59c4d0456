"""What a filter selects, beside a plain reading of the language over the same calls."""

from __future__ import annotations

import random
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dashboard.filters.language import parse
from dashboard.filters.syntax import And, Node, Not, Term
from dashboard.ingest.importer import import_paths
from dashboard.ingest.run_stats import refresh_stats
from dashboard.models import Call, Project, Run
from dashboard.runs.run_filters import load_facet_groups
from tests.dashboard.factories import START, create_call, create_project, create_run
from tests.dashboard.page_text import parse_page
from tests.dashboard.sessions import FORK, SESSION, write_cut_fork

pytestmark = pytest.mark.postgresql

DAY = timedelta(days=1)
# Title, columns of the run, and the calls, each (id, columns).
RUNS = [
    ("login", {"model": "claude-opus-4", "branch": "main"}, "a Bash cut; b Bash unrecorded; c Read"),
    ("Log out", {"model": "claude-opus-5", "branch": "fix/login"}, "d Read cut; e Bash failed"),
    ("third", {"model": "gpt-5", "agent": "codex", "started_at": START + 3 * DAY}, "f bash timeout slow; g Read big"),
    ("quiet", {"model": "GPT-5", "agent": "codex"}, "h Grep"),
    ("empty", {"branch": "main"}, ""),
]
MARKS = {
    "cut": {"is_cut": True},
    "failed": {"exit_status": 1},
    "timeout": {"status": "error", "error_kind": "timeout"},
    "slow": {"duration_ms": 45_000},
    "big": {"tokens": 7_000},
    "unrecorded": {"receipt_fidelity": "absent"},
}


@pytest.fixture(scope="module")
def stored(kept_project: Project) -> None:
    runs = [create_run(kept_project, f"id-{title}", title=title, **columns) for title, columns, _ in RUNS]  # type: ignore[arg-type]
    for run, (_, _, calls) in zip(runs, RUNS, strict=True):
        for words in filter(None, calls.split("; ")):
            name, tool, *marks = words.split()
            columns = {"receipt_fidelity": "exact"} | {
                key: value for mark in marks for key, value in MARKS[mark].items()
            }
            create_call(run, name, tool=tool, family="x", started_at=run.started_at, **columns)
    refresh_stats(runs)


@pytest.fixture
def store(project: Project, stored: None) -> Project:
    return project


def run_titles(project: Project, text: str) -> str:
    assert parse(text).problems == ()
    return " ".join(sorted(run.title.split()[0] for run in parse(text).runs(project)))


def call_ids(project: Project, text: str) -> str:
    query = parse(text, over="calls")
    assert query.problems == ()
    everywhere = "".join(sorted(call.external_id for call in query.calls_in(project)))
    by_run = sorted(call.external_id for run in project.runs.all() for call in query.calls(run))
    assert everywhere == "".join(by_run)
    return everywhere


SELECTED = [  # the filter, the runs, the calls
    ("tool:bash", "Log login third", "abef"),
    ("-tool:bash", "empty quiet", "cdgh"),
    ("tool:Bash cut:yes", "login", "a"),
    ("tool:Bash -cut:yes", "third", "bef"),
    ("tool:Bash cut:no", "third", "ef"),
    ("tool:B* or tool:grep", "Log login quiet third", "abefh"),
    ("tool:Bash (cut:yes or status:failed)", "Log login third", "aef"),
    ("tool:Read (cut:yes or status:failed)", "Log", "d"),
    ("-(tool:Bash cut:yes)", "Log empty quiet third", "bcdefgh"),
    ("(tool:Read cut:yes) or took:>30s", "Log third", "df"),
    ("tool:Read model:claude*", "Log login", "cd"),
    ("model:gpt-5", "quiet third", "fgh"),
    ("model:claude-*-5 or model:GPT*", "Log quiet third", "defgh"),
    ("branch:fix/*", "Log", "de"),
    ("branch:MAIN", "empty login", "abc"),
    ("error:timeout", "third", "f"),
    ("outcome:timed_out", "third", "f"),
    ("failed:>0", "Log third", "defg"),
    ("failed:0 calls:1..3", "login quiet", "abch"),
    ("calls:0", "empty", ""),
    ("tokens:>5k", "third", "g"),
    ("took:45s took:..1m", "third", "f"),
    ("title:log", "Log login", "abcde"),
    ("after:2026-03-04", "third", "fg"),
    ("before:2026-03-04", "Log empty login quiet", "abcdeh"),
    ("age:>1d -age:>9999d", "Log empty login quiet third", "abcdefgh"),
    ("status:ended or status:waiting", "", ""),
    ("status:idle tool:Grep", "quiet", "h"),
    ("status:ok", "empty login quiet", "abcdgh"),
    ("agent:codex -tool:Read", "quiet", "fh"),
    ("-(agent:codex or tool:Read)", "empty", "abe"),
    ("child:no cut:yes", "Log login", "ad"),
    ("tool:nowhere", "", ""),
    ("model:no*where", "", ""),
    ("-model:no*where (tool:no*where or tool:Grep)", "quiet", "h"),
]


def test_each_filter_selects_runs_and_calls(store: Project) -> None:
    for text, runs, calls in SELECTED:
        assert (text, run_titles(store, text), call_ids(store, text)) == (text, runs, calls)
    assert run_titles(store, "tool:Bash tool:Read") == run_titles(store, "(tool:Bash) (tool:Read)") == "Log login third"
    assert run_titles(store, "(tool:Bash) (cut:yes)") == "Log login"
    assert run_titles(store, "LOG") == run_titles(store, "id-log") == "Log login"
    assert call_ids(store, "READ") == "cdg"


def test_the_number_beside_a_facet_is_how_many_runs_a_click_lists(store: Project, settings: Settings) -> None:
    texts = [text for text, _, _ in SELECTED[::3]]
    for text in ("", *texts, "tool:Bash tool:Read", "tool:Bash cut:yes", "tool:read or cut:yes", "-tool:Read"):
        for group in load_facet_groups(store, parse(text), str):
            for value in group.values:
                listed = text if value.is_current else value.url
                assert (text, listed, value.number) == (text, listed, str(parse(listed).runs(store).count()))
    settings.COUNTED_RUNS = 1
    settings.FEW_RUNS = 1
    groups = load_facet_groups(store, parse("tool:*"), str)
    numbers = {value.label: value.number for group in groups for value in group.values}
    assert numbers["bash"] == "1+"
    assert all(number.endswith("+") for number in numbers.values())


def test_a_tool_of_no_selected_call_is_no_facet_however_many_tools_the_runs_have(project: Project) -> None:
    run = create_run(project, "many tools")
    for number in range(20):
        create_call(run, f"call {number}", tool=f"Tool{number:02}", exit_status=int(number == 19))
    refresh_stats([run])
    for text in ("status:failed", "tool:Tool19 status:failed"):
        tools = next(group for group in load_facet_groups(project, parse(text), str) if group.label == "Tool")
        for value in tools.values:
            listed = text if value.is_current else value.url
            assert (text, listed, value.number) == (text, listed, str(parse(listed).runs(project).count()))
            assert value.number == "1"
        assert len(tools.values) + tools.left_out == (1 if text == "status:failed" else 20)


TERMS = ("tool:bash", "tool:Read", "tool:*e*", "cut:yes", "status:failed", "tokens:>5k", "took:>30s", "failed:0")
TERMS += ("model:gpt*", "agent:codex")


def random_filter(source: random.Random, depth: int = 3) -> str:
    shape = source.random() if depth else 0
    if shape < 0.4:
        return source.choice(("", "", "-")) + source.choice(TERMS)
    parts = [random_filter(source, depth - 1) for _ in range(source.randint(2, 3))]
    group = f"({(' or ' if shape < 0.7 else ' ').join(parts)})"
    return group if shape < 0.9 else f"-{group}"


def holds(term: Term, call: Call | None, run: Run) -> bool:
    tool = call.tool.lower() if call else ""
    match term.kind:
        case "tool":
            return fnmatchcase(tool, term.value.lower())
        case "cut":
            return call is not None and call.is_cut
        case "status":
            return call is not None and call.has_failed
        case "tokens":
            return call is not None and call.tokens > 5_000
        case "took":
            return call is not None and (call.duration_ms or 0) > 30_000
        case "model":
            return run.model.lower().startswith("gpt")
        case "agent":
            return run.agent == "codex"
    return run.failed_count == 0


def call_matches(node: Node, call: Call) -> bool:
    match node:
        case Term():
            return holds(node, call, call.run)
        case Not():
            return not call_matches(node.node, call)
        case And():
            return all(call_matches(child, call) for child in node.nodes)
    return any(call_matches(child, call) for child in node.nodes)


def run_matches(node: Node, run: Run, calls: list[Call]) -> bool:
    """By trying every call of the run, and none, as the one that the terms beside each other ask for."""
    if isinstance(node, And):
        return any(meets(node, run, calls, call) for call in [*calls, None])
    return any(meets(And((node,)), run, calls, call) for call in [*calls, None])


def meets(node: Node, run: Run, calls: list[Call], call: Call | None, *, is_inner: bool = False) -> bool:
    match node:
        case Term():
            return holds(node, call, run)
        case Not():
            return not run_matches(node.node, run, calls)
        case And():
            if is_inner:
                return run_matches(node, run, calls)
            return all(meets(child, run, calls, call, is_inner=True) for child in node.nodes)
    return any(meets(child, run, calls, call) for child in node.nodes)


def test_random_filters_select_what_a_plain_reading_selects(store: Project) -> None:
    source = random.Random(7)
    calls = {run: list(run.own_calls.all()) for run in store.runs.all()}
    for _ in range(50):
        text = random_filter(source)
        by_call = parse(text, over="calls")
        if not by_call.problems:
            expected = {call.pk for of_run in calls.values() for call in of_run if call_matches(by_call.tree, call)}
            assert (text, set(by_call.calls_in(store).values_list("pk", flat=True))) == (text, expected)
        by_run = parse(text)
        if not by_run.problems:
            matching = {run.pk for run, of_run in calls.items() if run_matches(by_run.tree, run, of_run)}
            assert (text, {run.pk for run in by_run.runs(store)}) == (text, matching)


@pytest.mark.django_db
def test_a_fork_is_selected_by_the_receipts_that_it_has(tmp_path: Path) -> None:
    """The call is complete in its own run and cut in the fork, and cut and of Bash it is in the fork alone."""
    project = create_project()
    for path in write_cut_fork(tmp_path):
        import_paths(project, [path])
    assert [run.external_id for run in parse("tool:Bash cut:yes").runs(project)] == [FORK]
    assert [run.external_id for run in parse("tool:Bash -cut:yes").runs(project)] == [SESSION]
    assert list(parse("tool:Bash cut:yes", over="calls").calls_in(project)) == []
    for text in ("tool:Bash", "tool:Bash cut:yes", "cut:yes or context:uncertain"):
        for group in load_facet_groups(project, parse(text), str):
            for value in group.values:
                listed = text if value.is_current else value.url
                assert (text, listed, value.number) == (text, listed, str(parse(listed).runs(project).count()))


def test_a_name_that_occurs_nowhere_is_named_with_the_nearest_that_does(store: Project) -> None:
    query = parse("model:gtp-5 -branch:mian or tool:BASH or agent:zzz or agent:laude*")
    assert query.hints(store) == [
        "“model:gtp-5” at character 1 occurs nowhere; the nearest that does is “model:gpt-5”.",
        "“branch:mian” at character 14 occurs nowhere; the nearest that does is “branch:main”.",
        "“agent:zzz” at character 42 occurs nowhere; “claude-code”, “codex” do.",
        "“agent:laude*” at character 55 occurs nowhere; the nearest that does is “agent:claude-code”.",
    ]
    assert parse("source:x", over="calls").hints(create_project("other")) == [
        "“source:x” at character 1 occurs nowhere; nothing does."
    ]


@pytest.mark.django_db
def test_the_age_of_a_run_is_counted_from_now() -> None:
    project = create_project()
    now = timezone.now()
    for days in (0, 3):
        run = create_run(project, f"{days} days", title=f"{days}", started_at=now - timedelta(days=days, hours=1))
        create_call(run, f"call {days}", started_at=run.started_at)
    assert (run_titles(project, "age:<2d"), run_titles(project, "age:1d..4d")) == ("0", "3")
    assert call_ids(project, "age:>=3d") == "call 3"


def test_every_page_with_a_filter_answers_with_what_matches(store: Project, operator_client: Client) -> None:
    """Each kind of term in each page's own question to the database."""
    run = store.runs.get(title="Log out")
    call = run.own_calls.get(external_id="d")
    pages = (
        "/runs/?",
        "/calls/?",
        f"/runs/{run.pk}/?",
        f"/calls/{call.pk}/?run={run.pk}&",
        "/experiments/new/?query=&",
    )
    others = [
        "tool:Bash cut:yes",
        "author:hook",
        "context:uncertain",
        "remark:clock",
        "state:drifted",
        "state:halves",
        "child:yes",
        "words",
    ]
    texts = [*others, *(text for text, _, _ in SELECTED[::3])]
    for number, text in enumerate(texts):
        question = urlencode({"q": text, "query": text})
        asked = pages if number < len(others) or number % 4 == 0 else pages[:2]
        answers = [operator_client.get(page.replace("query=&", "") + question) for page in asked]
        assert (text, [answer.status_code for answer in answers]) == (text, [200] * len(asked))
        expected = parse(text, over="calls").calls_in(store).count()
        listed = len(parse_page(answers[1]).select("tbody tr"))
        assert (text, listed) == (text, expected)

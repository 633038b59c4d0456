"""The language of the search bar, and the rows that it finds."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from dashboard.filters.language import parse
from dashboard.filters.queryset import select_runs
from dashboard.ingest import run_stats
from dashboard.ingest.importer import import_paths
from dashboard.models import Project, Run
from tests.dashboard.factories import create_call, create_project, create_run
from tests.dashboard.sessions import FORK, write_cut_fork

READ = [
    ("", ""),
    ("status:failed tool:Bash", "status:failed tool:Bash"),
    ("-tool:Bash", "-tool:Bash"),
    ("STATUS:Failed", "status:failed"),
    ('"two words" plain', '"two words" plain'),
    ('tool:"my tool"', 'tool:"my tool"'),
    (r'"say \"hi\""', r'"say \"hi\""'),
    ("words words", "words"),
    ("  spaced\n\tout  ", "spaced out"),
    ("tool:mcp__a__b", "tool:mcp__a__b"),
    ('-"not this"', '-"not this"'),
    ("flaky-test", "flaky-test"),
    ("nul\x00inside", "nul␀inside"),
    ("a OR b c", "a or b c"),
    ("(a or b) -(c d)", "(a or b) -(c d)"),
    ("f(x) (f(y))", '"f(x)" ("f(y)")'),
    ("model:Opus*4", "model:Opus*4"),
    ('model:"Opus*"', 'model:"Opus*"'),
    ("failed:>=3 tokens:1k..5000 took:<=1.5m age:>2D", "failed:>=3 tokens:1k..5000 took:<=1.5m age:>2D"),
    ("after:2026-01-20T14:00+01:00", "after:2026-01-20T14:00+01:00"),
]

REFUSED = [
    ("foo:bar", "“foo:” at character 1 is not a filter. Text with a colon needs quotes."),
    ("words too:Bash", "“too:” at character 7 is not a filter; did you mean “tool:”?"),
    ("https://example.org", "“https:” at character 1 is not a filter"),
    ("status:faild", "“status:” at character 1 cannot be “faild”; it is one of failed, ok,"),
    ("status:faild", "did you mean “failed”?"),
    ("tool:", "“tool:” at character 1 has no value"),
    ("failed:many", "“failed:” at character 1 cannot be “many”; it takes a number: 3, >3,"),
    ("failed:>..3", "“failed:” at character 1 cannot be “>..3”"),
    ("tokens:99999999999999999999", "cannot be “9999"),
    ("took:>30", "it takes a duration with its unit (ms, s, m, h, d): >30s"),
    ("after:yesterday", "it takes a day or a time in UTC: 2026-01-20, 2026-01-20T14:00"),
    ("before:0001-01-01", "it takes a day or a time"),
    ("receipt:--", "“receipt:” at character 1 needs a letter or a digit to search for."),
    ("canonical:*sion*", "“canonical:*sion*” at character 1 is looked for call by call"),
    ("reviewed:perhaps", "“reviewed:” at character 1 cannot be “perhaps”; it is one of yes, no"),
    ("or a", "“or” at character 1 has nothing before it"),
    ("a or", "“or” at character 3 has nothing behind it"),
    ("(a b", "“(” at character 1 opens a group that nothing closes"),
    ("a b)", "“)” at character 4 closes nothing"),
    ("a ()", "The parentheses at character 3 contain no term"),
    ("(tool:Bash or (cut:yes cut:no))", "“cut:yes” and “cut:no” cannot both hold"),
    ("tool:bash -tool:Bash", "“tool:bash” and “-tool:Bash” cannot both hold"),
    ("cut:yes cut:no", "“cut:yes” and “cut:no” cannot both hold"),
    ("tool:Bash -tool:Bash", "“tool:Bash” and “-tool:Bash” cannot both hold"),
    ("status:failed status:ok", "“status:failed” and “status:ok” cannot both hold"),
    ("agent:a agent:b", "cannot both hold"),
    ('"never closed', "opens a quotation that nothing closes"),
    ('tool:"never closed', "opens a quotation that nothing closes"),
    ("-", "contains no text to search for"),
    ('""', "contains no text to search for"),
    ("-child:any", "leaves no run at all"),
    ("x" * 60_000, "The filter has 60000 characters; at most 2000 are read"),
    (" ".join(f"word{n}" for n in range(21)), "The filter has 21 terms; at most 20 are read"),
]

HOSTILE = [
    "\x00",
    "'; DROP TABLE dashboard_run; --",
    "100%_done\\",
    "<script>alert(1)</script>",
    "\u202etool:Bash\u202c",
    "tool:\u0000",
    ":::",
    '"""',
    "%_" * 1_000,
    "\\",
    '\\"',
    "tool:" + "é" * 500,
    "\U0001f600\ufffd\ufeff",
]


@pytest.fixture
def project(db: None) -> Project:
    return create_project()


def titles(project: Project, text: str) -> list[str]:
    return sorted(run.title for run in parse(text).runs(project))


@pytest.mark.parametrize(("text", "written"), READ)
def test_a_filter_is_read_and_written_again(text: str, written: str) -> None:
    query = parse(text)
    assert query.problems == ()
    assert str(query) == written
    assert parse(written) == query


@pytest.mark.parametrize(("text", "problem"), REFUSED)
def test_a_word_that_cannot_be_read_is_named(text: str, problem: str) -> None:
    assert problem in " ".join(parse(text).problems)


def test_a_filter_with_a_problem_finds_nothing(project: Project) -> None:
    create_run(project, title="one")
    assert titles(project, "foo:bar") == []
    assert titles(project, "") == ["one"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_input_breaks_the_search(project: Project, text: str) -> None:
    run = create_run(project)
    assert list(parse(text).runs(project)) == []
    assert list(parse(text, over="calls").calls(run)) == []


def test_calls_exclude_each_other_where_runs_have_both() -> None:
    assert str(parse("tool:Bash tool:Read cut:yes")) == "(tool:Bash) (tool:Read) (cut:yes)"
    assert str(parse("outcome:refused status:failed")) == "(outcome:refused) (status:failed)"
    assert str(parse("outcome:timed_out status:failed")) == "outcome:timed_out status:failed"
    assert str(parse("outcome:refused status:ok")) == "outcome:refused status:ok"  # no call of the run failed
    both = ("“status:failed” and “outcome:refused” cannot both hold.",)
    assert parse("status:failed outcome:refused", over="calls").problems == both
    assert parse("tool:Bash tool:bash model:a*").problems == ()
    problems = parse("tool:Bash tool:Read", over="calls").problems
    assert problems == ("“tool:Bash” and “tool:Read” cannot both hold.",)


def test_a_facet_is_toggled_in_the_text() -> None:
    assert parse("status:failed words").toggled("tool", "Bash") == "status:failed words tool:Bash"
    assert parse("tool:Bash words").toggled("tool", "Bash") == "words"
    assert parse("-tool:Bash words").toggled("tool", "Bash") == "words tool:Bash"
    assert parse("tool:bash words").toggled("tool", "Bash") == "words"
    assert parse("tool:Bash tool:Read").toggled("tool", "Read") == "(tool:Bash)"
    assert parse("tool:Bash or words").toggled("tool", "Read") == "(tool:Bash or words) tool:Read"


def test_runs_are_found_by_what_their_calls_were(project: Project) -> None:
    create_run(project, title="good", facets={"tool": ["Bash", "Read"], "family": ["command"], "state": ["top"]})
    create_run(project, title="bad", facets={"tool": ["Bash"], "state": ["failed", "cut", "top"], "agent": ["codex"]})
    assert titles(project, "tool:Bash") == ["bad", "good"]
    assert titles(project, "tool:Bash tool:Read") == ["good"]
    assert titles(project, "status:failed") == ["bad"]
    assert titles(project, "status:ok") == ["good"]
    assert titles(project, "-status:failed") == ["good"]
    assert titles(project, "cut:yes") == titles(project, "-cut:no") == ["bad"]
    assert titles(project, "cut:no tool:Bash") == ["good"]
    assert titles(project, "agent:codex -tool:Read") == ["bad"]
    assert titles(project, "tool:bash") == ["bad", "good"]


def test_a_run_is_retried_when_one_of_its_calls_was_tried_again(project: Project) -> None:
    for title, attempts in (("once", (1, 1)), ("again", (1, 2))):
        run = create_run(project, title=title)
        for attempt in attempts:
            create_call(run, attempt=attempt)
        run_stats.refresh_stats([run])
    assert titles(project, "state:retried") == ["again"]
    assert titles(project, "-state:retried") == ["once"]


def test_a_common_facet_selects_the_same_runs_as_a_rare_one(project: Project) -> None:
    for number in range(6):
        create_run(project, title=f"run {number}", facets={"tool": ["Bash"] if number % 2 else ["Read"]})
    tree = parse("tool:Bash -tool:Read").tree
    for few, is_small in ((3, True), (2, False)):
        selection = select_runs(project, tree, few=few)
        assert selection.is_small is is_small
        assert sorted(run.title for run in selection.runs) == ["run 1", "run 3", "run 5"]


def test_child_runs_are_left_out_of_the_whole_list_and_found_by_every_filter(project: Project) -> None:
    parent = create_run(project, title="parent", facets={"state": ["top"]})
    create_run(project, title="child", parent=parent, facets={"state": ["child", "failed"]})
    assert titles(project, "") == ["parent"]
    assert titles(project, "status:failed") == titles(project, "hild") == ["child"]
    assert titles(project, "status:failed child:no") == []
    assert titles(project, "child:any") == ["child", "parent"]
    assert titles(project, "child:yes") == titles(project, "state:child") == ["child"]


def test_runs_are_found_by_text_in_title_or_id(project: Project) -> None:
    create_run(project, "session-42", title="Fix 100% of the_bugs")
    create_run(project, "session-43", title="Other")
    assert titles(project, "fix 100%") == ["Fix 100% of the_bugs"]
    assert titles(project, "SESSION-42") == ["Fix 100% of the_bugs"]
    assert titles(project, "1%0") == []
    assert titles(project, "the_bugs -other") == ["Fix 100% of the_bugs"]


def test_runs_are_found_by_whether_they_go_on(project: Project) -> None:
    now = timezone.now()
    create_run(project, title="live", last_at=now)
    create_run(project, title="ended", last_at=now, ended_at=now)
    create_run(project, title="idle", last_at=now - timedelta(hours=1))
    create_run(project, title="silent", last_at=None)
    assert titles(project, "status:live") == ["live"]
    assert titles(project, "status:ended") == ["ended"]
    assert titles(project, "status:idle") == ["idle", "silent"]
    assert titles(project, "-status:live") == ["ended", "idle", "silent"]


def test_another_projects_runs_are_never_found(project: Project) -> None:
    create_run(create_project("other"), "run-x", title="secret", facets={"tool": ["Bash"]})
    for text in ("", "tool:Bash", "-tool:Read", "secret", "status:ok", "cut:no", "child:any"):
        assert titles(project, text) == []


def test_calls_of_a_run_are_found(project: Project) -> None:
    run = create_run(project)
    create_call(run, "a", summary="exit 0", exit_status=0)
    create_call(run, "b", exit_status=2, is_cut=True)
    create_call(run, "c", tool="Read", family="file", status="error")
    create_call(run, "d", tool="Read", family="file", status="unknown", attempt=2)

    def ids(text: str) -> str:
        return "".join(call.external_id for call in parse(text, over="calls").calls(run))

    assert ids("") == "abcd"
    assert ids("status:failed") == "bc"
    assert ids("status:ok") == "a"
    assert ids("-status:ok") == "bcd"
    assert ids("status:unanswered") == ids("state:retried") == "d"
    assert ids("cut:yes") == "b"
    assert ids("-tool:Read") == ids("family:command") == "ab"
    assert ids('"EXIT 0"') == "a"


def test_over_all_runs_a_call_is_filtered_by_what_its_own_run_has(project: Project, tmp_path: Path) -> None:
    """Each call is listed once there, as its own run has it; a filter in a fork follows the fork."""
    for path in write_cut_fork(tmp_path):
        import_paths(project, [path])
    forked = project.runs.get(external_id=FORK)

    def matching(text: str, run: Run | None = None) -> set[str]:
        query = parse(text, over="calls")
        return {call.external_id for call in (query.calls(run) if run else query.calls_in(project))}

    assert (matching("cut:yes", forked), matching("cut:yes")) == ({"toolu_01"}, set())
    assert "toolu_01" in matching("cut:no")
    assert {"toolu_02", "toolu_03"} <= matching("context:uncertain", forked)
    assert matching("context:uncertain") == set()

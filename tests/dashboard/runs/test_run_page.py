"""The Run page: what happened, in what order, and where did the time and the tokens go?"""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import product

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from dashboard.filters.language import parse
from dashboard.ingest.run_stats import halves_disagree, outcome_letter
from dashboard.models import Call, Project, Run, RunCall
from dashboard.runs.overview import LETTER, overview_of
from dashboard.runs.run_detail import Ask, run_page
from dashboard.runs.time_axis import axis_of, plain_axis
from tests.dashboard.factories import START, create_call, create_project, create_run, create_source, create_user

HTMX = {"HX-Request": "true"}
HOSTILE = '<script>alert(1)</script><b hx-post="/runs/" hx-trigger="load">\u202e\x1b[31m'
SECOND = 1_000


@pytest.fixture
def run(project: Project) -> Run:
    return create_run(project, "session-one", title="Fix the login", ended_at=START + timedelta(seconds=100))


def filled(run: Run, number: int) -> Run:
    for line in range(1, number + 1):
        create_call(run, f"{run.external_id}-{line}", line=line, summary=f"call of line {line}", duration_ms=10)
    run.call_count = number
    run.save()
    return run


def text_of(client: Client, run: Run, asked: str = "", **headers: str) -> str:
    response = client.get(f"/runs/{run.pk}/{asked}", headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def lines_in(html: str) -> list[int]:
    return [int(line) for line in re.findall(r"call of line (\d+)", html)]


def rows_of(run: Run, **asked: object) -> list[tuple[str, str]]:
    return [(row.summary, row.tie) for row in run_page(run, Ask(**asked)).calls.rows]  # type: ignore[arg-type]


@pytest.mark.usefixtures("alice")
def test_the_head_tells_where_the_run_came_from_and_what_it_cost(client: Client, project: Project) -> None:
    run = create_run(
        project,
        title="Fix the login",
        agent="claude-code",
        model="opus",
        version="2.1.7",
        cwd="/home/dev/shop",
        branch="main",
        duration_ms=192_000,
        call_count=5,
        failed_count=2,
        progress_call_count=3,
        token_count=56_789,
        plan=b'{"steps":[]}',
    )
    create_source(project, "sessions/one.jsonl").runs.add(run)
    html = text_of(client, run)
    for words in ("What happened, in what order", "opus", "2.1.7", "/home/dev/shop", "main", "3 min 12 s", "one.jsonl"):
        assert words in html
    assert "Seen only in progress" in html
    assert "56,789" in html
    assert "Plan, as recorded" in html


@pytest.mark.usefixtures("alice")
def test_a_run_without_an_end_is_assumed_ended_and_says_why(client: Client, project: Project) -> None:
    html = text_of(client, create_run(project, last_at=START))
    assert "assumed ended" in html
    assert "The recording has no end. Nothing came for 15 minutes" in html


@pytest.mark.usefixtures("alice")
def test_calls_stand_in_the_order_of_the_recording(client: Client, run: Run) -> None:
    for line in (30, 10, 20):
        create_call(run, line=line, summary=f"call of line {line}")
    assert lines_in(text_of(client, run)) == [10, 20, 30]


@pytest.mark.usefixtures("alice")
def test_a_row_tells_its_outcome_size_time_and_cut_in_words(client: Client, run: Run) -> None:
    create_call(
        run,
        line=1,
        tool="Grep",
        summary="Found 194 lines",
        is_cut=True,
        seen_lines=16,
        output_lines=194,
        tokens=599,
        duration_ms=5_000,
        tool_ms=2_000,
        started_at=START + timedelta(seconds=10),
    )
    html = text_of(client, run)
    for words in ("Grep", "Found 194 lines", "cut before the model", "16 / 194", "599", "5.0 s"):
        assert words in html
    assert "began 10.0 s into the run, took 5.0 s: 3.0 s waiting, 2.0 s work" in html
    assert "<em>waited 3.0 s</em> <code>echo hello</code> Found 194 lines" in html
    assert '<span class="ms">2.0 s</span>' in html


@pytest.mark.usefixtures("alice")
def test_time_and_tokens_are_added_up_by_tool_without_a_persons_time(client: Client, run: Run) -> None:
    create_call(run, tool="Bash", duration_ms=30_000, tokens=10)
    create_call(run, tool="Grep", duration_ms=50_000, tool_ms=10_000, tokens=30)
    create_call(run, tool="Write", duration_ms=900_000, is_waiting=True, tokens=0)
    run.call_count = 3
    run.save()
    assert overview_of(run).by_tool.rows == [
        ("Bash", False, 1, 30_000, 75, 10, 25),
        ("Grep", False, 1, 10_000, 25, 30, 75),
        ("Write", False, 1, 0, 0, 0, 0),
    ]
    assert "By tool: Bash took 75 % of the tools&#x27; time, Grep got 75 % of the tokens" in text_of(client, run)


def test_a_path_in_the_runs_own_folder_is_told_without_it(project: Project) -> None:
    run = create_run(project, "at-home", cwd="/home/dev/shop")
    create_call(run, "c1", line=1, summary="read 20 lines of /home/dev/shop/app/cart.py")
    create_call(run, "c2", line=2, summary="read 20 lines of /etc/hosts")
    assert [said for said, _ in rows_of(run)] == ["read 20 lines of app/cart.py", "read 20 lines of /etc/hosts"]


def test_the_bar_draws_waiting_before_work() -> None:
    bar = plain_axis(START, START + timedelta(seconds=100), 0).bar(START + timedelta(seconds=10), 20_000, 15_000)
    assert bar is not None
    assert bar.wait == "M10.00 0h15.00v1h-15.00z"
    assert bar.work == "M25.00 0h5.00v1h-5.00z"


def test_a_call_too_short_to_see_is_still_drawn_within_the_width() -> None:
    bar = plain_axis(START, START + timedelta(hours=9), 0).bar(START + timedelta(hours=9), 3, None)
    assert bar is not None
    assert bar.work == "M99.65 0h0.35v1h-0.35z"


def test_squeezing_keeps_the_work_and_shrinks_the_gap() -> None:
    busy = [(0, 10 * SECOND), (3_600 * SECOND, 3_610 * SECOND)]
    end = START + timedelta(seconds=3_610)
    squeezed = axis_of(START, end, busy)
    assert squeezed.percent(10 * SECOND) == pytest.approx(49.5, abs=0.01)
    assert squeezed.percent(3_600 * SECOND) == pytest.approx(50.5, abs=0.01)
    assert plain_axis(START, end, 20 * SECOND).idle_percent == 99


def test_calls_of_one_message_are_bracketed_and_tries_apart_from_them(run: Run) -> None:
    create_call(run, line=1, step="msg_1", summary="a")
    create_call(run, line=2, step="msg_1", summary="b")
    create_call(run, line=3, step="msg_1", summary="c")
    create_call(run, line=4, step="msg_2", summary="alone")
    create_call(run, line=5, step="msg_3", summary="first try")
    create_call(run, line=6, step="msg_4", summary="second try", attempt=2)
    run.call_count = 6
    assert rows_of(run) == [
        ("a", "first step"),
        ("b", "middle step"),
        ("c", "last step"),
        ("alone", ""),
        ("first try", "first tries"),
        ("second try", "last tries"),
    ]


@pytest.mark.usefixtures("alice")
def test_failed_calls_are_a_strip_that_jumps_to_their_rows(client: Client, run: Run) -> None:
    create_call(run, line=1)
    failed = create_call(run, line=2, tool="Edit", status="error")
    Run.objects.filter(pk=run.pk).update(call_count=2, failed_count=1)
    html = text_of(client, run)
    assert "1 failed" in html
    assert f'href="?skip=1#c-{failed.pk}"' in html
    assert f'id="c-{failed.pk}"' in html


@pytest.mark.usefixtures("alice")
def test_a_row_leads_to_its_call_with_the_list_that_it_came_from(client: Client, run: Run) -> None:
    call = create_call(run, line=1, tool="Bash")
    html = text_of(client, run, "?q=tool:Bash")
    assert f'href="/calls/{call.pk}/?from=run&amp;run={run.pk}&amp;q=tool%3ABash"' in html


@pytest.mark.usefixtures("alice")
def test_the_filter_and_the_chips_are_two_editors_of_one_query(client: Client, project: Project) -> None:
    run = create_run(project, call_count=2, facets={"tool": ["Bash", "Read"], "state": ["failed", "top"]})
    create_call(run, line=1, tool="Bash", summary="call of line 1")
    create_call(run, line=2, tool="Read", summary="call of line 2")
    html = text_of(client, run, "?q=tool:Read")
    assert lines_in(html) == [2]
    assert "1 of 2 calls match" in html
    assert '<span class="n">2</span>' in html
    assert 'value="tool:Read"' in html
    assert '<a class="chip" href="?" aria-current="true">Read' in html
    assert 'href="?q=tool%3ARead+state%3Afailed"' in html
    assert ">top <" not in html


@pytest.mark.usefixtures("alice")
def test_a_filter_that_cannot_be_read_says_so_and_finds_nothing(client: Client, run: Run) -> None:
    filled(run, 2)
    html = text_of(client, run, "?q=colour:red")
    assert "colour:” is not a filter." in html
    assert lines_in(html) == []
    assert "No call of this run matches." in html


@pytest.mark.usefixtures("alice")
def test_a_long_run_shows_its_first_rows_and_the_rest_one_step_away(client: Client, run: Run) -> None:
    filled(run, settings.ROWS_PER_PAGE + 30)
    seen = []
    asked = ""
    while True:
        html = text_of(client, run, asked)
        seen += lines_in(html)
        found = re.search(r'class="sentinel"><a href="(\?after=[^"]+)" hx-get="\1" hx-trigger="revealed"', html)
        if not found:
            break
        assert "30 more calls" in html
        asked = found[1]
    assert seen == list(range(1, settings.ROWS_PER_PAGE + 31))


@pytest.mark.usefixtures("alice")
def test_the_next_rows_come_as_a_fragment_without_the_page_around_them(client: Client, run: Run) -> None:
    filled(run, settings.ROWS_PER_PAGE + 2)
    cursor = run_page(run, Ask()).calls.next_cursor
    fragment = text_of(client, run, f"?after={cursor}", **HTMX)
    assert lines_in(fragment) == [settings.ROWS_PER_PAGE + 1, settings.ROWS_PER_PAGE + 2]
    assert "<html" not in fragment
    assert "51" in re.findall(r'class="n">(\d+)<', fragment)


@pytest.mark.parametrize(
    "asked",
    ["?after=%00", "?after=1-", "?skip=99999999999999999", "?since=-1", "?q=%22", "?after=9999999-0&q=x", "?time=1"],
)
@pytest.mark.usefixtures("alice")
def test_a_mangled_address_is_answered_with_a_page(client: Client, run: Run, asked: str) -> None:
    filled(run, 1)
    html = text_of(client, run, asked)
    assert "What happened" in html
    assert ("does not exist; these are the first calls" in html) is (asked in ("?after=%00", "?after=1-"))
    assert lines_in(html) == ([] if "q=" in asked else [1])


@pytest.mark.usefixtures("alice")
def test_a_live_run_polls_and_is_told_nothing_when_nothing_is_new(client: Client, project: Project) -> None:
    run = filled(create_run(project, last_at=timezone.now(), revision=7), 1)
    assert 'hx-get="?since=7" hx-trigger="every 2s"' in text_of(client, run)
    assert client.get(f"/runs/{run.pk}/?since=7", headers=HTMX).status_code == 204
    fragment = text_of(client, run, "?since=6", **HTMX)
    assert lines_in(fragment) == [1]
    assert "<html" not in fragment


@pytest.mark.usefixtures("alice")
def test_polling_stops_by_itself_when_the_run_is_over(client: Client, project: Project) -> None:
    run = filled(create_run(project, last_at=START, revision=7), 1)
    fragment = text_of(client, run, "?since=7", **HTMX)
    assert 'id="live"' in fragment
    assert "hx-trigger" not in fragment
    assert "assumed ended" in fragment


def test_a_live_run_is_looked_at_from_its_tail(project: Project) -> None:
    run = filled(create_run(project, last_at=timezone.now()), settings.ROWS_PER_PAGE + 5)
    page = run_page(run, Ask())
    assert page.calls.before == 5
    assert page.calls.rows[-1].summary == f"call of line {settings.ROWS_PER_PAGE + 5}"
    assert run_page(run, Ask(skip=0)).calls.rows[0].summary == "call of line 1"


@pytest.mark.usefixtures("alice")
def test_a_run_without_calls_points_to_the_model_view(client: Client, run: Run) -> None:
    html = text_of(client, run)
    assert "This run made no tool calls" in html
    assert f'href="/runs/{run.pk}/model/"' in html


@pytest.mark.parametrize("number", [10, 100])
@pytest.mark.usefixtures("alice")
def test_the_queries_are_as_many_for_10_calls_as_for_100(
    client: Client, project: Project, number: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    run = filled(create_run(project, f"of-{number}", facets={"tool": ["Bash"]}), number)
    create_run(project, parent=run)
    client.get(f"/runs/{run.pk}/")
    with django_assert_num_queries(11):
        client.get(f"/runs/{run.pk}/")


@pytest.mark.usefixtures("alice")
def test_hostile_text_is_text(client: Client, project: Project) -> None:
    run = create_run(
        project, title=HOSTILE[:200], cwd=HOSTILE, branch=HOSTILE, call_count=1, facets={"tool": [HOSTILE]}
    )
    create_call(run, line=1, tool=HOSTILE, summary=HOSTILE, status="error")
    html = text_of(client, run)
    assert "<script>alert" not in html
    assert "<b hx-post" not in html
    assert "\u202e" not in html
    assert "\x1b" not in html


def test_a_run_of_another_project_does_not_exist(client: Client, run: Run) -> None:
    client.force_login(create_user("charlie", project=create_project("other")))
    assert client.get(f"/runs/{run.pk}/").status_code == 404
    assert client.get(f"/runs/{run.pk}/model/").status_code == 404


@pytest.mark.usefixtures("alice")
def test_an_inherited_call_is_shown_in_the_run_that_copied_it(client: Client, project: Project, run: Run) -> None:
    call = create_call(run, line=5, summary="call of line 5")
    fork = create_run(project, "fork", call_count=1)
    RunCall.objects.create(run=fork, call=call, ordinal=2, inherited=True)
    html = text_of(client, fork)
    assert lines_in(html) == [5]
    assert "inherited" in html


def test_the_database_gives_each_call_the_letter_that_the_tally_gives(run: Run) -> None:
    kinds = product(Call.Status.values, (None, False, True), (None, 0, 1), (False, True), (False, True))
    calls = [
        create_call(run, status=status, source_error=flag, exit_status=code, is_cut=cut, is_waiting=waits)
        for status, flag, code, cut, waits in kinds
    ]
    asked = dict(Call.objects.filter(run=run).annotate(letter=LETTER).values_list("id", "letter"))
    assert asked == {call.pk: outcome_letter(call) for call in calls}
    told_otherwise = {call.pk for call in calls if halves_disagree(call)}
    assert len(told_otherwise) == 24
    assert set(parse("state:halves", over="calls").calls(run).values_list("pk", flat=True)) == told_otherwise


def test_the_overview_draws_every_call_once_and_says_what_it_leaves_out(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(run, 7)
    monkeypatch.setattr("dashboard.runs.overview.LIMIT", 5)
    overview = overview_of(run)
    assert sum(band.path.count("M") for band in overview.bands) == 5
    assert overview.left == 2


def test_a_viewer_sees_no_button_that_deletes(client: Client, project: Project, run: Run) -> None:
    client.force_login(create_user("bob", project=project, role="viewer"))
    assert "/delete/" not in text_of(client, run)


def test_a_row_says_that_it_was_only_seen_in_progress(run: Run) -> None:
    create_call(run, line=1, origin="progress", attempt=3, is_superseded=True)
    assert run_page(run, Ask()).calls.rows[0].flags == "try 3, only in progress, replaced later"

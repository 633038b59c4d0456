"""The Run page: what happened, in what order, and where did the time and the tokens go?"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import product

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.filters.language import parse
from dashboard.ingest.run_stats import OUTCOMES, halves_disagree, outcome_letter
from dashboard.models import Call, Project, Run, RunCall
from dashboard.runs.overview import load_overview, plain_axis, squeezed_axis
from dashboard.runs.run_detail import RunDetailParams, RunPage, load_run_page
from tests.dashboard.factories import (
    START,
    create_call,
    create_project,
    create_receipt,
    create_run,
    create_source,
    create_user,
)
from tests.dashboard.page_text import Element, Page, assert_harmless, parse_page
from tests.dashboard.recorded_calls import bash, load_call

HTMX = {"HX-Request": "true"}
HOSTILE = '<script>alert(1)</script><b hx-post="/runs/" hx-trigger="load">\u202e\x1b[31m'
SECOND = 1_000


@pytest.fixture
def run(project: Project) -> Run:
    return create_run(project, "session-one", title="Fix the login", ended_at=START + timedelta(seconds=100))


@pytest.fixture
def short_pages(settings: Settings) -> int:
    settings.ROWS_PER_PAGE = 5
    return 5


def fill(run: Run, number: int) -> Run:
    for line in range(1, number + 1):
        create_call(run, f"{run.external_id}-{line}", line=line, summary=f"call of line {line}", duration_ms=10)
    run.call_count = number
    run.save()
    return run


def load(client: Client, run: Run, query: str = "", **headers: str) -> Page:
    response = client.get(f"/runs/{run.pk}/{query}", headers=headers)
    assert response.status_code == 200
    return parse_page(response)


def build(run: Run, **query: str) -> RunPage:
    return load_run_page(run, RunDetailParams(query))


def call_rows(page: Page) -> list[Element]:
    return page.select("a.call-row[id^=c-]")


def lines(page: Page) -> list[int]:
    """The lines of calls that `fill` made, in the order of the page."""
    return [int(row.select_one(".row-summary").text.rpartition(" ")[2]) for row in call_rows(page)]


@pytest.mark.usefixtures("alice")
def test_the_head_shows_the_origin_and_the_cost_of_the_run(client: Client, project: Project) -> None:
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
    page = load(client, run)
    assert page.title == "Fix the login: 2 of 5 calls failed · Counterfoil"
    facts = {
        "Agent": "claude-code 2.1.7 what its recordings have",
        "Model": "opus",
        "In": "/home/dev/shop",
        "Branch": "main",
        "From": "one.jsonl",
        "Duration": "3 min 12 s",
        "Seen only in progress": "3",
        "Tool-result tokens": "≈ 56,789",
    }
    assert page.facts.items() >= facts.items()
    assert page.by_role("link", "what its recordings have")["href"] == "/docs/agents/#claude-code"
    assert page.select_one(".run-plan").text == 'Plan, as recorded { "steps": [] }'


@pytest.mark.usefixtures("alice")
def test_a_run_without_an_end_is_assumed_ended_and_says_why(client: Client, project: Project) -> None:
    status = load(client, create_run(project, last_at=START)).by_text("ended (no closing line)")
    assert "No record came for 15 minutes" in status["title"]


@pytest.mark.usefixtures("alice")
def test_rows_and_titles_of_commands_show_what_they_printed(client: Client, run: Run) -> None:
    calls = [bash(run, text, line=line) for line, text in enumerate(("\n3 passed\nin 2 s\n", '{\n  "ok": 1\n}', ""), 1)]
    summaries = [row.select_one(".row-summary").text for row in call_rows(load(client, run))]
    assert summaries == ["make test 3 passed", 'make test "ok": 1', "make test no output"]
    assert load_call(client, calls[0]).title == "1 · Bash: 3 passed · Counterfoil"


@pytest.mark.usefixtures("alice")
def test_calls_are_in_the_order_of_the_recording(client: Client, run: Run) -> None:
    for line in (30, 10, 20):
        create_call(run, line=line, summary=f"call of line {line}")
    assert lines(load(client, run)) == [10, 20, 30]


@pytest.mark.usefixtures("alice")
def test_a_row_names_its_outcome_size_time_and_cut_in_words(client: Client, run: Run) -> None:
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
    (row,) = call_rows(load(client, run))
    assert row.select_one("b").text == "Grep"
    assert row.select_one(".row-status").text == "succeeded, cut before the model"
    assert row.select_one(".row-summary").text == "waited 3.0 s echo hello Found 194 lines"
    assert (row.texts("em"), row.texts("code")) == (["waited 3.0 s"], ["echo hello"])
    cells = [row.select_one(f".row-{name}").text for name in ("cut", "tokens", "duration")]
    assert cells == ["16 / 194", "599", "2.0 s"]
    assert row.select_one("title").text == "began 10.0 s into the run, took 5.0 s: 3.0 s waiting, 2.0 s work"


@pytest.mark.usefixtures("alice")
def test_time_and_tokens_are_added_up_by_tool_without_a_persons_time(client: Client, run: Run) -> None:
    create_call(run, tool="Bash", duration_ms=30_000, tokens=10)
    create_call(run, tool="Grep", duration_ms=50_000, tool_ms=10_000, tokens=30)
    create_call(run, tool="Write", duration_ms=900_000, is_waiting=True, tokens=0)
    run.call_count = 3
    run.save()
    assert load_overview(run).tools == (
        ("Bash", False, 1, 30_000, 75, 10, 25),
        ("Grep", False, 1, 10_000, 25, 30, 75),
        ("Write", False, 1, 0, 0, 0, 0),
    )
    summary = load(client, run).by_id("by-tool").select_one("summary")
    assert summary.text == "By tool: Bash took 75% of the tools' time, Grep got 75% of the tokens"


def test_a_path_in_the_runs_own_folder_is_shown_relative_to_it(project: Project) -> None:
    run = create_run(project, "at-home", cwd="/home/dev/shop")
    create_call(run, "c1", line=1, summary="read 20 lines of /home/dev/shop/app/cart.py")
    create_call(run, "c2", line=2, summary="read 20 lines of /etc/hosts")
    summaries = [row["summary"] for row in build(run).calls.rows]
    assert summaries == ["read 20 lines of app/cart.py", "read 20 lines of /etc/hosts"]


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
    squeezed = squeezed_axis(START, end, busy)
    assert squeezed.percent(10 * SECOND) == pytest.approx(49.5, abs=0.01)
    assert squeezed.percent(3_600 * SECOND) == pytest.approx(50.5, abs=0.01)
    assert plain_axis(START, end, 20 * SECOND).idle_percent == 99


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_idle_time_can_be_hidden_and_shown_again(client: Client, project: Project) -> None:
    run = create_run(project, started_at=START, ended_at=START + timedelta(hours=1), call_count=1)
    create_call(run, line=1, started_at=START + timedelta(minutes=30), duration_ms=1_000)
    page = load(client, run)
    assert "100% idle time is hidden" in page.select_one(".waterfall-head").text
    real = load(client, run, page.by_role("link", "show it")["href"])
    assert "idle at least 100% of the time" in real.select_one(".waterfall-head").text
    assert real.by_role("link", "hide idle time")["href"] == "?"
    old = load(client, run, "?time=squeezed")
    bars = [view.select_one(".waterfall path.work")["d"] for view in (page, real, old)]
    assert bars == ["M0.98 0h98.04v1h-98.04z", "M50.00 0h0.35v1h-0.35z", "M0.98 0h98.04v1h-98.04z"]


def test_calls_of_one_message_are_bracketed_and_tries_apart_from_them(run: Run) -> None:
    create_call(run, line=1, step="msg_1", summary="a")
    create_call(run, line=2, step="msg_1", summary="b")
    create_call(run, line=3, step="msg_1", summary="c")
    create_call(run, line=4, step="msg_2", summary="alone")
    create_call(run, line=5, step="msg_3", summary="first try")
    create_call(run, line=6, step="msg_4", summary="second try", attempt=2)
    run.call_count = 6
    assert [(row["summary"], row["group"]) for row in build(run).calls.rows] == [
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
    page = load(client, run)
    strip = page.by_role("navigation", "Failed calls")
    assert strip.by_role("heading").text == "1 failed"
    assert strip.by_role("link", "#2 Edit")["href"] == f"?skip=1#c-{failed.pk}"
    assert page.by_id(f"c-{failed.pk}")


@pytest.mark.usefixtures("alice")
def test_a_row_leads_to_its_call_with_the_list_that_it_came_from(client: Client, run: Run) -> None:
    create_call(run, line=1, tool="Read")
    create_call(run, line=2, tool="Bash")
    (row,) = call_rows(load(client, run, "?q=tool:Bash"))
    assert row["href"] == f"/runs/{run.pk}/2/halves?q=tool%3ABash"


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_the_filter_and_the_chips_are_two_editors_of_one_query(client: Client, project: Project) -> None:
    run = create_run(project, call_count=2, facets={"tool": ["Bash", "Read"], "state": ["failed", "top"]})
    create_call(run, line=1, tool="Bash", summary="call of line 1")
    create_call(run, line=2, tool="Read", summary="call of line 2")
    page = load(client, run, "?q=tool:Read")
    assert lines(page) == [2]
    assert "1 of 2 calls matches ·" in page.select_one(".waterfall-head").text
    assert call_rows(page)[0].select_one(".row-number").text == "2"
    assert page.by_id("q")["value"] == "tool:Read"
    chips = page.select_one(".filter-chips")
    assert chips.select_one("[aria-current=true]")["href"] == "?"
    assert chips.by_role("link", "failed")["href"] == "?q=tool%3ARead+state%3Afailed"
    assert not chips.all_by_text("top")


@pytest.mark.usefixtures("alice")
def test_a_filter_that_cannot_be_read_says_so_and_finds_nothing(client: Client, run: Run) -> None:
    fill(run, 2)
    page = load(client, run, "?q=colour:red")
    assert "“colour:” at character 1 is not a filter." in page.by_id("q-problems").text
    assert call_rows(page) == []
    assert page.by_text("No call of this run matches.")
    create_run(run.project, facets={"tool": ["Bash"]})
    assert "the nearest that does is “tool:Bash”." in load(client, run, "?q=tool:bsh").text


@pytest.mark.usefixtures("alice")
def test_a_long_run_shows_its_first_rows_and_the_rest_one_step_away(client: Client, run: Run, short_pages: int) -> None:
    fill(run, short_pages + 3)
    first = load(client, run)
    link = first.select_one(".sentinel a")
    assert (link.text, link["hx-get"], link["hx-trigger"]) == ("3 more calls", link["href"], "intersect once")
    second = load(client, run, link["href"])
    assert lines(first) + lines(second) == list(range(1, short_pages + 4))
    assert not second.has(".sentinel")


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_the_next_rows_come_as_a_fragment_without_the_page_around_them(
    client: Client, run: Run, short_pages: int
) -> None:
    fill(run, short_pages + 2)
    cursor = build(run).calls.next_cursor
    fragment = load(client, run, f"?after={cursor}", **HTMX)
    assert lines(fragment) == [short_pages + 1, short_pages + 2]
    assert fragment.is_fragment
    assert fragment.texts(".row-number") == ["6", "7"]


@pytest.mark.parametrize(
    "query",
    ["?after=%00", "?after=1-", "?skip=99999999999999999", "?since=-1", "?q=%22", "?after=9999999-0&q=x", "?time=1"],
)
@pytest.mark.usefixtures("alice")
def test_a_mangled_address_is_answered_with_a_page(client: Client, run: Run, query: str) -> None:
    fill(run, 1)
    page = load(client, run, query)
    assert page.by_role("heading", "Fix the login")
    lost = page.all_by_text("does not exist; these are the first calls")
    assert bool(lost) is (query in ("?after=%00", "?after=1-"))
    assert lines(page) == ([] if "q=" in query else [1])


@pytest.mark.usefixtures("alice")
def test_a_live_run_polls_and_gets_an_empty_answer_when_nothing_is_new(client: Client, project: Project) -> None:
    run = fill(create_run(project, last_at=timezone.now(), revision=7), 1)
    live = load(client, run).by_id("live")
    assert (live["hx-get"], live["hx-trigger"]) == ("?since=7", "every 2s")
    assert client.get(f"/runs/{run.pk}/?since=7", headers=HTMX).status_code == 204
    fragment = load(client, run, "?since=6", **HTMX)
    assert lines(fragment) == [1]
    assert not fragment.has("main")
    assert fragment.title.endswith(" · Counterfoil")


@pytest.mark.usefixtures("alice")
def test_polling_stops_by_itself_when_the_run_is_over(client: Client, project: Project) -> None:
    run = fill(create_run(project, last_at=START, revision=7), 1)
    fragment = load(client, run, "?since=7", **HTMX)
    assert fragment.by_id("live")
    assert not fragment.has("[hx-trigger]")
    assert fragment.facts["Status"] == "ended (no closing line)"


def test_a_live_run_is_looked_at_from_its_tail(project: Project, short_pages: int) -> None:
    run = fill(create_run(project, last_at=timezone.now()), short_pages + 5)
    page = build(run)
    assert page.calls.before == 5
    assert page.calls.rows[-1]["summary"] == f"call of line {short_pages + 5}"
    assert build(run, skip="0").calls.rows[0]["summary"] == "call of line 1"


@pytest.mark.usefixtures("alice")
def test_a_run_without_calls_points_to_the_model_view(client: Client, run: Run) -> None:
    page = load(client, run)
    assert page.by_text("This run made no tool calls")
    assert page.by_role("link", "history of the run")["href"] == f"/runs/{run.pk}/context"


@pytest.mark.parametrize("number", [10, 100])
@pytest.mark.usefixtures("alice")
def test_the_queries_are_as_many_for_10_calls_as_for_100(
    client: Client, project: Project, number: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    run = fill(create_run(project, f"of-{number}", facets={"tool": ["Bash"]}), number)
    Run.objects.filter(pk=run.pk).update(own_call_count=number)
    create_run(project, parent=run)
    client.get(f"/runs/{run.pk}/")
    with django_assert_num_queries(17):
        client.get(f"/runs/{run.pk}/")


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_hostile_text_is_text(client: Client, project: Project) -> None:
    run = create_run(
        project, title=HOSTILE[:200], cwd=HOSTILE, branch=HOSTILE, call_count=1, facets={"tool": [HOSTILE]}
    )
    create_call(run, line=1, tool=HOSTILE, summary=HOSTILE, status="error")
    page = load(client, run)
    assert_harmless(page)


def test_a_run_of_another_project_does_not_exist(client: Client, run: Run) -> None:
    client.force_login(create_user("charlie", project=create_project("other")))
    assert client.get(f"/runs/{run.pk}/").status_code == 404
    assert client.get(f"/runs/{run.pk}/context").status_code == 404


@pytest.mark.usefixtures("alice")
def test_an_inherited_call_is_shown_in_the_run_that_copied_it(client: Client, project: Project, run: Run) -> None:
    call = create_call(run, line=5, summary="call of line 5")
    fork = create_run(project, "fork", call_count=1)
    RunCall.objects.create(run=fork, call=call, ordinal=2, inherited=True)
    page = load(client, fork)
    assert lines(page) == [5]
    assert page.texts(".call-row em") == ["inherited"]


def test_the_database_gives_each_call_the_letter_that_the_tally_gives(run: Run) -> None:
    kinds = product(Call.Status.values, (None, False, True), (None, 0, 1), (False, True), (False, True))
    calls = [
        create_call(run, status=status, source_error=flag, exit_status=code, is_cut=cut, is_waiting=waits)
        for status, flag, code, cut, waits in kinds
    ]
    letters = Counter(OUTCOMES[outcome_letter(call)].sentence for call in calls)
    assert {band.state: band.number for band in load_overview(run).bands} == letters
    disagreeing = {call.pk for call in calls if halves_disagree(call)}
    assert len(disagreeing) == 20  # without those of a command that exits with 1 and sets no error flag
    assert set(parse("state:halves", over="calls").calls(run).values_list("pk", flat=True)) == disagreeing


def test_a_measured_time_of_the_tool_is_its_work_and_a_persons_time_is_none(run: Run) -> None:
    for line, (took, tool, waits) in enumerate([(9, None, False), (9, 4, False), (9, 12, False), (9, 4, True)]):
        create_call(run, line=line, duration_ms=took, tool_ms=tool, is_waiting=waits)
    create_call(run, line=9, duration_ms=None, tool_ms=3)
    assert [sums.time_ms for sums in load_overview(run).tools] == [9 + 4 + 9]


def test_the_overview_draws_every_call_once_and_says_what_it_leaves_out(run: Run) -> None:
    fill(run, 7)
    overview = load_overview(run, limit=5)
    assert sum(band.path.count("M") for band in overview.bands) == 5
    assert overview.left_out == 2


def test_a_viewer_sees_no_button_that_deletes(client: Client, project: Project, run: Run) -> None:
    client.force_login(create_user("bob", project=project, role="viewer"))
    assert not load(client, run).all_by_role("link", "Delete")


def test_a_row_says_that_it_was_only_seen_in_progress(run: Run) -> None:
    create_receipt(create_call(run, line=1, origin="progress", attempt=3), "x", superseded_line=9)
    assert build(run).calls.rows[0]["flags"] == "try 3, only in progress, replaced later"

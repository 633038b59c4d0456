"""A run without a call open: its overview, the forms of tabs for the whole run, the strip, and earlier addresses."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from dashboard.filters.language import parse
from dashboard.ingest.run_stats import refresh_stats
from dashboard.models import Project, Run
from dashboard.models.notes import Note
from dashboard.runs.overview import plain_axis
from dashboard.runs.waterfall import RowSelection, load_call_rows
from dashboard.workspace.run_strip import load_run_strip
from tests.dashboard.factories import START, create_call, create_event, create_message, create_run
from tests.dashboard.imported_sessions import import_session
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.sessions import steps

pytestmark = pytest.mark.postgresql

CURSOR = f"2-0-{'0' * 32}"


@pytest.fixture
def run(project: Project, alice: User) -> Run:
    run = create_run(project, "session-one", title="Fix the login", call_count=3)
    create_message(run, "go", line=1)
    for line in (2, 4, 6):
        create_call(run, line=line, tool="Bash")
    create_event(run, "compact_boundary", line=5)
    return run


def open_page(client: Client, address: str) -> Page:
    response = client.get(address)
    assert response.status_code == 200
    return parse_page(response)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("model/", "context"),
        ("model/?after=C", "context?after=C"),
        ("model/?before=C&with=markdown", "context?before=C&with=markdown"),
        ("model/?at=end", "context?at=end"),
        ("model/?branch=2", "context?branch=2"),
        ("model/?step=4", "context?step=4"),
        ("model/?message=M", "context?message=M"),
        ("model/?message=M&raw=1", "context?message=M&raw=1"),
        ("model/?message=M&from=1", "context?message=M&from=1"),
        ("replay/", "replay"),
        ("replay/?with=markdown&limit=5000&from=1", "replay?with=markdown&limit=5000&from=1"),
        ("variants/?with=receipt", "replay?with=receipt"),
    ],
)
def test_addresses_of_the_earlier_pages_lead_to_the_same_thing(client: Client, run: Run, old: str, new: str) -> None:
    message = str(run.messages.get().pk)
    old, new = (text.replace("C", CURSOR).replace("M", message) for text in (old, new))
    response = client.get(f"/runs/{run.pk}/{old}")
    assert (response.status_code, response.url) == (302, f"/runs/{run.pk}/{new}")
    assert client.get(response.url).status_code == 200


@pytest.mark.parametrize(
    ("query", "positions"),
    [("", [1, 2, 3]), ("?q=tool:Bash&time=squeezed", [1, 2, 3]), ("?skip=2", [3]), ("?with=markdown&skip=1", [2, 3])],
)
def test_the_address_of_the_run_page_lists_the_same_calls(
    client: Client, run: Run, query: str, positions: list[int]
) -> None:
    page = open_page(client, f"/runs/{run.pk}/{query}")
    assert [int(row["data-position"]) for row in page.select("[data-list] .call-row")] == positions


def test_a_list_begins_behind_the_rows_that_are_passed_over(project: Project) -> None:
    run = create_run(project)
    calls = [create_call(run, line=line) for line in (1, 2, 2, 2, 3, 3)]
    keys = [str(call.pk) for call in sorted(calls, key=lambda call: (call.line, call.pk))]
    for skip in range(len(keys)):
        selection = RowSelection(parse("", over="calls"), len(keys), skip=skip)
        page = load_call_rows(run, selection, plain_axis(None, None, 0))
        assert ([row["key"] for row in page.rows], page.before, page.after) == (keys[skip:], skip, 0)


@pytest.mark.parametrize("tab", ["context", "replay"])
def test_a_tab_has_a_form_for_the_whole_run_that_leads_back_to_the_step(client: Client, run: Run, tab: str) -> None:
    whole_url = open_page(client, f"/runs/{run.pk}/2/{tab}").by_role("link", "the whole run")["href"]
    page = open_page(client, whole_url)
    assert [link["data-tab"] for link in page.by_role("navigation", "Views of the run").select("[aria-current]")] == [
        tab
    ]
    assert page.select_one(".steps [aria-current=true]")["data-position"] == "2"
    assert page.by_role("link", "call 2")["href"] == f"/runs/{run.pk}/2/{tab}"
    without_step = open_page(client, f"/runs/{run.pk}/{tab}")
    assert without_step.by_role("link", "the last call")["href"] == f"/runs/{run.pk}/3/{tab}"
    assert not without_step.has(".steps .call-row[aria-current]")


def test_the_replay_of_a_run_draws_both_histories_and_the_limit(client: Client, run: Run) -> None:
    chart = open_page(client, f"/runs/{run.pk}/replay?with=markdown").select_one(".chart")
    assert chart.texts("thead th") == ["Call", "as recorded", "markdown", "limit"]
    assert chart.texts("tbody th") == ["1", "2", "3"]
    assert len(chart.select("path.line")) == 3


@pytest.mark.usefixtures("alice")
def test_the_strip_has_the_recorded_size_of_the_context_and_marks_its_changes(
    client: Client, project: Project, tmp_path: Path
) -> None:
    run = import_session(project, tmp_path, *steps(60_000, 138_395, 95_864, 96_000))
    strip = load_run_strip(run)
    assert strip.line.most == 138_395
    assert [(mark.kind, mark.position) for mark, _ in strip.marks] == [("drop", 3)]
    heights = [float(part.partition("V")[2]) for part in strip.line.path.split("H")[1:-1]]
    assert heights.index(min(heights)) == 0, "the second request is the largest: least is highest"
    page = open_page(client, f"/runs/{run.pk}/")
    assert "1 unexplained drop" in page.select_one(".steps-counts").text
    assert page.select_one(".run-strip a")["href"] == f"/runs/{run.pk}/3/context"


def test_the_head_counts_every_outcome_but_success(client: Client, run: Run) -> None:
    for line, outcome in enumerate(("failed", "cancelled", "cancelled", "refused", "interrupted"), start=10):
        create_call(run, line=line, outcome=outcome)
    create_call(run, line=20, outcome="unanswered", status="unknown")
    refresh_stats([run])
    words = open_page(client, f"/runs/{run.pk}/").select_one(".steps-counts").text
    assert words == "9 calls 1 failed 1 refused 2 cancelled 1 interrupted 1 unanswered 1 compaction"


def test_the_strip_of_a_run_without_recorded_usage_has_no_line_and_says_so(client: Client, run: Run) -> None:
    strip = load_run_strip(run)
    assert strip.line.path == ""
    assert strip.label.endswith("the size of the context is not recorded")
    assert [(mark.kind, mark.position, url) for mark, url in strip.marks] == [
        ("compaction", 3, f"/runs/{run.pk}/3/context")
    ]
    assert not open_page(client, f"/runs/{run.pk}/").has(".context-line")


def test_the_earlier_items_of_a_context_are_one_link_away(client: Client, run: Run) -> None:
    for line in range(10, 60):
        create_message(run, f"message {line}", line=line)
    create_call(run, line=60)
    page = open_page(client, f"/runs/{run.pk}/4/context")
    link = page.select_one(".earlier a")
    assert link.text == "35 earlier left out"
    pages = [page]
    while pages[-1].has(".earlier"):
        pages.append(open_page(client, f"/runs/{run.pk}/4/context{pages[-1].select_one('.earlier a')['href']}"))
    shown = [int(entry.select_one(".where").text.split()[1]) for view in pages for entry in view.select(".entry")]
    assert shown == sorted(shown, reverse=True)
    assert (len(shown), shown[0], shown[-1]) == (55, 59, 1)


def test_rows_show_notes_and_tags_in_both_lists(client: Client, run: Run, alice: User) -> None:
    call = run.own_calls.get(line=4)
    Note.objects.create(project=run.project, call=call, text="look here", created_by=alice)
    for address in ("", "1/halves"):
        rows = open_page(client, f"/runs/{run.pk}/{address}").select(".steps .call-row[id]")
        assert [row.has(".row-notes") for row in rows] == [False, True, False]


def test_the_counts_beside_an_open_step_of_a_live_run_follow(client: Client, project: Project, alice: User) -> None:
    run = create_run(project, "live", last_at=timezone.now(), call_count=1, revision=1)
    create_call(run, line=1)
    Run.objects.filter(pk=run.pk).update(revision=2, call_count=2, failed_count=1)
    headers = {"HX-Request": "true", "HX-Target": "step-rows"}
    fragment = parse_page(client.get(f"/runs/{run.pk}/1/halves?since=1", headers=headers))
    head = fragment.by_id("run-head")
    assert head["hx-swap-oob"] == "true"
    assert head.select_one(".steps-counts").text.startswith("2 calls 1 failed")


@pytest.mark.usefixtures("alice")
def test_the_history_of_a_live_run_asks_for_what_follows_until_it_ends(client: Client, project: Project) -> None:
    run = create_run(project, "live", last_at=timezone.now(), call_count=1, revision=1)
    create_call(run, "first", line=1, receipt="one")
    address = f"/runs/{run.pk}/context"
    tail = open_page(client, address).by_id("history-tail")
    assert tail["hx-trigger"] == "every 2s"
    headers = {"HX-Request": "true", "HX-Target": "history-tail"}
    assert client.get(address + tail["hx-get"], headers=headers).status_code == 204
    create_call(run, "second", line=3, receipt="two")
    Run.objects.filter(pk=run.pk).update(revision=2, call_count=2)
    fragment = parse_page(client.get(address + tail["hx-get"], headers=headers))
    assert [entry.select_one(".where").text.split()[1] for entry in fragment.select(".entry")] == ["3", "3"]
    tail = fragment.by_id("history-tail")
    assert client.get(address + tail["hx-get"], headers=headers).status_code == 204
    Run.objects.filter(pk=run.pk).update(revision=3)  # by what is no item of a history
    again = parse_page(client.get(address + tail["hx-get"], headers=headers))
    assert not again.has(".entry")
    assert "after=" in again.by_id("history-tail")["hx-get"]
    Run.objects.filter(pk=run.pk).update(ended_at=timezone.now())
    assert client.get(address + tail["hx-get"], headers=headers).content.strip() == b""
    rows = {"HX-Request": "true", "HX-Target": "step-rows"}
    Run.objects.filter(pk=run.pk).update(plan=b"{}")
    for tab in ("context", "replay", "plan"):
        page = parse_page(client.get(f"/runs/{run.pk}/{tab}?since=1", headers=rows))
        assert page.by_id("run-head").select_one(".steps-counts").text.startswith("2 calls")
        assert not page.has("#plan, .history, article"), tab


@pytest.mark.usefixtures("alice")
def test_a_run_without_times_has_no_idle_time_and_no_scale(client: Client, project: Project) -> None:
    run = create_run(project, started_at=None, call_count=1)
    create_call(run, line=1, started_at=None)
    page = parse_page(client.get(run.get_absolute_url()))
    assert "idle" not in page.select_one(".waterfall-head").text
    assert page.select_one(".columns .axis").text == ""


@pytest.mark.usefixtures("alice")
def test_a_row_of_an_external_tool_shows_what_it_answered(client: Client, project: Project) -> None:
    """Its summary names only the tool, which the row does too. An empty name is no facet: no filter selects it."""
    run = create_run(project, call_count=2, facets={"tool": ["", "weather"]})
    external = {"tool": "weather", "family": "external", "summary": "weather returned a result", "first_line": "sunny"}
    create_call(run, args={"n": 1}, **external)
    create_call(run, args={"n": 2}, **external, status="error", outcome="failed")
    page = open_page(client, f"/runs/{run.pk}/")
    assert page.texts(".row-summary") == ['{"n": 1} sunny', '{"n": 2} weather returned a result']
    assert page.texts(".filter-chips .chip") == ["weather 1"]
    titles = [open_page(client, f"/runs/{run.pk}/{step}/halves").title for step in (1, 2)]
    assert titles == ["1 · weather: sunny · Counterfoil", "2 · weather: weather returned a result · Counterfoil"]


@pytest.mark.usefixtures("alice")
def test_a_row_of_a_command_shows_the_first_line_that_it_printed(client: Client, project: Project) -> None:
    run, summary = create_run(project, call_count=2), "command exited with status 0"
    create_call(run, summary=summary, first_line="3 files")
    create_call(run, summary=summary)
    page = open_page(client, f"/runs/{run.pk}/")
    assert page.texts(".row-summary") == ["echo hello 3 files", f"echo hello {summary}"]


def test_a_key_of_a_run_opens_its_first_change_of_the_context(client: Client, run: Run, project: Project) -> None:
    page = open_page(client, f"/runs/{run.pk}/")
    link = page.select_one('a[data-key="]"]')
    assert client.get(link["href"], follow=False).url == f"/runs/{run.pk}/3/context"
    plain = create_run(project, call_count=1)
    create_call(plain)
    assert not open_page(client, f"/runs/{plain.pk}/").has('a[data-key="]"]')


@pytest.mark.parametrize("address", ["/runs/{run}/", "/calls/"])
def test_a_filter_of_words_offers_to_search_payloads_for_them(client: Client, run: Run, address: str) -> None:
    """A word that stands in payloads alone would seem to be nowhere."""
    page = open_page(client, f"{address.format(run=run.pk)}?q=tool:bash+denied")
    link = page.by_role("link", "Search payloads for")
    assert link["href"] == "?q=tool%3Abash%20any%3Adenied"
    assert "payloads for" not in open_page(client, f"{address.format(run=run.pk)}?q=tool:bash").text


def test_places_of_records_that_a_program_sent_are_times(client: Client, project: Project, alice: User) -> None:
    """Their lines are microseconds since 1970, in which they are ordered."""
    run, sent = create_run(project, call_count=2), 1_792_489_225_494_446
    create_message(run, " \n ", line=sent)
    create_call(run, line=sent + 1)
    create_call(run, line=sent + 2_000_000)
    for address in ("2/context", "context"):
        text = open_page(client, f"/runs/{run.pk}/{address}").text
        assert "09:40:25.494" in text, address
        assert "1,792,489" not in text, address
        assert "1792489" not in text, address
    assert "White space only." in open_page(client, f"/runs/{run.pk}/context").text


@pytest.mark.usefixtures("alice")
def test_a_run_of_which_only_the_beginning_has_a_time_has_no_duration(client: Client, project: Project) -> None:
    for fields, duration in (({}, "–"), ({"ended_at": START}, "0 ms")):
        page = open_page(client, create_run(project, **fields).get_absolute_url())
        assert page.facts["Duration"] == duration

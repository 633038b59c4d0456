"""Used-line recall over imported runs: planted items that are scored exactly, the pages, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.http import QueryDict
from django.test import Client
from pytest_django import Settings

from dashboard.experiments.recall_report import (
    RecallResults,
    RecallSummary,
    ToolRecall,
    load_recall_results,
    load_recall_summary,
    measure_next_recall,
)
from dashboard.experiments.receipt_limits import load_limits_page
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, CanonicalProjection, Project, RecallReport, RequestUsage, Run
from dashboard.worker import work_until_idle
from tests.cases import each
from tests.dashboard.factories import create_project, create_user
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.sessions import answers, asks, user, write

pytestmark = pytest.mark.postgresql

FILLER = [f"filler {number} has nothing that anybody quotes" for number in range(120)]
HEAD, MIDDLE, TAIL = (
    "the first answer is plainly here",
    "a middle line that matters most",
    "the last line of all these lines",
)
OUTPUT = "\n".join([HEAD, *FILLER[:60], MIDDLE, *FILLER[60:], TAIL])


def says(text: str, *, uuid: str, session: str) -> dict[str, Any]:
    line = asks(uuid, session=session, step=f"msg-{uuid}")
    line["message"]["content"] = [{"type": "thinking", "thinking": FILLER[0]}, {"type": "text", "text": text}]
    return line


def session_lines(session: str, quotes: list[str], *, output: str = OUTPUT, tool: str = "Bash") -> list[Any]:
    """One call, whose output's lines the model quotes in a message each."""
    key = f"toolu_{session}"
    result = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
    lines: list[Any] = [
        user(f"please go on with {session}", uuid=f"u-{session}", session=session),
        asks(key, tool, {"command": f"run-{session}"}, session=session),
        answers(key, output, result, session=session),
    ]
    return lines + [says(quote, uuid=f"{session}-{number}", session=session) for number, quote in enumerate(quotes)]


def import_session(project: Project, folder: Path, session: str, quotes: list[str], **fields: Any) -> Call:
    import_paths(project, [write(folder / f"{session}.jsonl", session_lines(session, quotes, **fields))])
    return Call.objects.get(external_id=f"toolu_{session}")


def add_requests(run: Run, *lines: int) -> None:
    tokens = dict.fromkeys(("input_tokens", "cache_read_tokens", "cache_creation_tokens", "output_tokens"), 1)
    for line in lines:
        key = UUID(int=line)
        RequestUsage.objects.create(id=key, run=run, request=f"m{line}", line=line, size=0, own_data=b"{}", **tokens)


def measure(client: Client, **fields: Any) -> RecallReport:
    response = client.post("/experiments/recall/", {"variant": ["receipt"]} | fields)
    assert response.status_code == 302
    work_until_idle()
    report = RecallReport.objects.order_by("created_at").last()
    assert report
    assert report.get_absolute_url() == response["Location"]
    assert report.is_finished, report.problem
    return report


def read(report: RecallReport) -> tuple[RecallSummary, RecallResults]:
    return load_recall_summary(report), load_recall_results(report)


def only_tool(summary: RecallSummary) -> ToolRecall:
    (tool,) = summary.tools
    return tool


def load(client: Client, address: str) -> Page:
    response = client.get(address)
    assert response.status_code == 200, address
    return parse_page(response)


def test_a_planted_corpus_is_scored_exactly(operator_client: Client, project: Project, tmp_path: Path) -> None:
    first = import_session(project, tmp_path, "one", [HEAD, f"it says:\n{TAIL}"])
    import_session(project, tmp_path, "two", [MIDDLE])
    import_session(project, tmp_path, "three", ["nothing of it"])
    summary, results = read(measure(operator_client))
    tool = only_tool(summary)
    assert (tool.tool, tool.scored, tool.quoted, tool.items, tool.sessions) == ("Bash", 3, 2, 3, 2)
    assert {name: (cell.calls, cell.mean) for name, cell in tool.cells[256].items() if name in ("first", "last")} == {
        "first": (2, 0.25),
        "last": (2, 0.25),
    }
    assert tool.cells[256]["head+tail"].mean == 0.5
    assert tool.cells[256]["head+tail"].difference == 0.25
    assert sorted(tool.cells) == [256, 1_000]
    assert all(cell.characters <= 1_024 for cell in tool.cells[256].values())
    (recalled,) = [call for call in results.calls if call.call == first.pk.bytes]
    assert [(item.lines, item.used_by.kind) for item in recalled.items] == [((0,), "message"), ((122,), "message")]
    assert recalled.recall(256, "head+tail") == 1.0
    assert recalled.recall(4_000, "first") is None


def test_a_variant_keeps_what_its_receipt_has(operator_client: Client, project: Project, tmp_path: Path) -> None:
    import_session(project, tmp_path, "one", [HEAD, MIDDLE, TAIL])
    report = measure(operator_client, variant=["receipt", "markdown"])
    (recalled,) = load_recall_results(report).calls
    for column in ("receipt", "markdown"):
        assert recalled.scores[256][column].kept == 0b101, column  # head and tail; the middle is cut
        assert recalled.scores[1_000][column].characters <= 4_000


def test_features_that_other_runs_write_unprompted_are_no_items(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    import_session(project, tmp_path, "one", [HEAD, TAIL])
    import_session(project, tmp_path, "two", [HEAD], output="nothing to see")
    summary, results = read(measure(operator_client))
    assert summary.stopped > 0
    assert [[item.lines for item in call.items] for call in results.calls] == [[(122,)]]


def test_lists_of_names_echoes_and_calls_outside_the_filter_are_not_scored(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    import_session(project, tmp_path, "one", [HEAD], tool="Glob")
    import_session(project, tmp_path, "two", [TAIL], tool="Write")
    import_session(project, tmp_path, "three", [MIDDLE])
    summary, results = read(measure(operator_client))
    assert summary.not_scored == {"a list of names": 1, "an echo of its arguments": 1}
    assert [tool.tool for tool in summary.tools] == ["Bash"]
    insights = parse_page(operator_client.get("/insights/?show=quoted"))
    assert (insights.facts["Calls measured"], insights.facts["With a quoted line"]) == ("1", "1 (100%)")
    assert insights.texts("[aria-labelledby=tools-title] tbody th") == ["Bash"]
    assert "2 of the 3 calls of the filter are not measured" in insights.text
    summary, results = read(measure(operator_client, query="tool:Glob"))
    assert (summary.calls, summary.tools, results.calls) == (1, (), ())


def test_a_receipt_is_carried_by_the_later_requests_of_its_run(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    call = import_session(project, tmp_path, "one", [HEAD])
    add_requests(call.run, 2, 4, 5, 6)
    (shape,) = load_recall_results(measure(operator_client)).shapes
    assert (shape.requests, len(shape.line_lengths), sum(shape.line_lengths)) == (3, 123, len(OUTPUT) - 122)


LIMITS = {  # 123 lines: quoted are the first, the 62nd and the last; three requests carried them
    "unit=lines&cap=123": (0, 0),
    "unit=lines&cap=122": (1, 1),  # half and half: the one line in the middle goes
    "unit=lines&cap=10": (1, 1),
    "unit=lines&cap=10&head=100": (1, 2),
    "unit=lines&cap=100&head=100": (1, 1),
    "unit=lines&cap=10&head=0": (1, 2),
    "unit=tokens&cap=100": (1, 1),
    "unit=tokens&cap=1000000": (0, 0),
}


@each("query", LIMITS)
def test_a_limit_affects_and_loses_what_is_planted(
    operator_client: Client, project: Project, tmp_path: Path, query: str
) -> None:
    if (report := project.recall_reports.first()) is None:
        call = import_session(project, tmp_path, "one", [HEAD, MIDDLE, TAIL])
        add_requests(call.run, 2, 4, 5, 6)
        report = measure(operator_client)
    page = load_limits_page(report, QueryDict(query))
    assert page
    (tool,) = page.tools
    assert (tool.affected, tool.lost) == LIMITS[query]
    assert tool.carried == 3 * tool.once
    assert (tool.once > 0) == bool(tool.affected)
    assert len(page.losing) == bool(tool.lost)
    shown = load(operator_client, f"{report.get_absolute_url()}limits/?{query}")
    assert shown.facts["Calls affected"] == f"{tool.affected} of 1"
    assert ("no evidence" in shown.text) is False


def test_half_of_the_lines_of_equal_length_are_half_of_the_tokens(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    call = import_session(project, tmp_path, "one", ["nothing"], output="\n".join(["equal lines here"] * 100))
    page = load_limits_page(measure(operator_client), QueryDict("cap=50"))
    assert page
    (tool,) = page.tools
    assert tool.once == round(call.tokens / 2)
    assert (tool.quoted, tool.items, tool.uncounted, tool.carried) == (0, 0, 1, 0)  # nothing recorded a request
    text = load(operator_client, f"{page.report.get_absolute_url()}limits/?cap=50&head=x").text
    assert "no evidence" in text
    assert "head=x is not a whole number" in text


def test_each_number_leads_to_its_calls_and_each_call_to_its_lines_and_steps(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    call = import_session(project, tmp_path, "one", [HEAD, TAIL])
    import_session(project, tmp_path, "two", ["nothing"], tool="WebSearch")
    report = measure(operator_client)
    page = load(operator_client, report.get_absolute_url())
    assert "What these numbers cannot tell" in page.text
    assert "1 of 1 calls were quoted (100% coverage), 2 items, 1 session" in page.text
    assert "WebSearch (1 call)" in page.by_role("region", "No evidence").text
    assert "too few calls to tell" in page.text
    links = {link["href"] for link in page.select(".recall-table a")}
    assert len(links) == 12  # six columns at two budgets
    address = next(link for link in sorted(links) if "first" in link and "budget=256" in link)
    calls = load(operator_client, address)
    assert "1 of 2" in calls.text
    (row,) = calls.select("tr[data-item] a")
    lines = load(operator_client, row["href"])
    assert [code.text for code in lines.select(".quoted-line code")] == [HEAD, TAIL]
    assert lines.has(f'a[href="/calls/{call.pk}/"]')
    steps = [link["href"] for link in lines.all_by_role("link", "a message of the model")]
    messages = [load(operator_client, step).text for step in steps]
    assert HEAD in messages[0]
    assert TAIL in messages[1]


def test_pages_of_what_is_missing_say_so(operator_client: Client, project: Project, tmp_path: Path) -> None:
    call = import_session(project, tmp_path, "one", ["nothing"])
    assert "Nothing measured yet" in load(operator_client, "/experiments/recall/").text
    operator_client.post("/experiments/recall/", {"variant": ["receipt"]})
    report = RecallReport.objects.get()
    assert "Queued" in load(operator_client, report.get_absolute_url()).text
    assert "No evidence" in load(operator_client, f"{report.get_absolute_url()}calls/").text
    work_until_idle()
    assert "No later step quoted a line" in load(operator_client, report.get_absolute_url()).text
    assert operator_client.get(f"{report.get_absolute_url()}calls/{call.pk}/").status_code == 404
    refused = operator_client.post("/experiments/recall/", {"variant": ["receipt"], "query": "nonsense:1"})
    assert refused.status_code == 422
    assert "is not a filter" in parse_page(refused).text


def test_a_deleted_call_is_still_counted_and_its_lines_are_gone(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    call = import_session(project, tmp_path, "one", [HEAD])
    report = measure(operator_client)
    address = f"{report.get_absolute_url()}calls/{call.pk}/"
    assert operator_client.post(f"/runs/{call.run_id}/delete/").status_code == 302
    assert "the call was deleted" in load(operator_client, f"{report.get_absolute_url()}calls/").text
    assert operator_client.get(address).status_code == 404
    page = parse_page(operator_client.get(report.get_absolute_url()))
    assert page.has("details.menu button[value=delete]"), "one press alone deletes nothing"
    assert operator_client.post(report.get_absolute_url(), {"do": "delete"})["Location"] == "/experiments/recall/"
    assert not RecallReport.objects.exists()


def test_a_cancelled_report_stops_and_one_whose_process_died_begins_anew(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    import_session(project, tmp_path, "one", [HEAD])
    operator_client.post("/experiments/recall/", {"variant": ["receipt"]})
    report = RecallReport.objects.get()
    operator_client.post(report.get_absolute_url(), {"do": "cancel"})
    assert not measure_next_recall()
    RecallReport.objects.update(state="queued")
    assert measure_next_recall(is_over=lambda: True)  # a server that ends counts no attempt
    report.refresh_from_db()
    assert (report.is_open, report.attempts) == (True, 0)
    RecallReport.objects.update(state="running", attempts=1)
    assert measure_next_recall()
    report.refresh_from_db()
    assert report.is_finished
    RecallReport.objects.update(state="running", attempts=3)
    assert measure_next_recall()
    report.refresh_from_db()
    assert (report.state, report.problem) == ("failed", "It ended its process 3 times.")


def test_a_damaged_envelope_stops_a_report_that_names_its_call(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    call = import_session(project, tmp_path, "one", [HEAD])
    CanonicalProjection.objects.update(packed=b"damaged")
    operator_client.post("/experiments/recall/", {"variant": ["receipt"]})
    assert measure_next_recall()
    report = RecallReport.objects.get()
    assert report.state == "failed"
    assert f"the stored envelope of call {call.pk} cannot be read" in report.problem


def test_only_operators_measure_and_other_projects_see_nothing(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    import_session(project, tmp_path, "one", [HEAD])
    report = measure(operator_client)
    viewer, other = Client(), Client()
    viewer.force_login(create_user("vera", project=project, role="viewer"))
    other.force_login(create_user("otto", project=create_project("other")))
    assert viewer.get(report.get_absolute_url()).status_code == 200
    assert viewer.post("/experiments/recall/", {"variant": ["receipt"]}).status_code == 403
    assert viewer.post(report.get_absolute_url(), {"do": "delete"}).status_code == 403
    assert other.get(report.get_absolute_url()).status_code == 404
    assert "all calls" not in load(other, "/experiments/recall/").text


def test_a_limit_leads_to_the_calls_that_it_affects(operator_client: Client, project: Project, tmp_path: Path) -> None:
    import_session(project, tmp_path, "one", [HEAD])
    import_session(project, tmp_path, "two", ["nothing"], tool="WebSearch")
    report = measure(operator_client, query="tool:bash or tool:websearch")
    page = load_limits_page(report, QueryDict("unit=tokens&cap=10"))
    assert page
    for tool in page.tools:
        assert tool.affected == 1
        rows = load(operator_client, tool.href).select("[data-item]")
        assert len(rows) == 1, tool.href
        assert tool.tool in rows[0].text


def test_what_no_request_carried_is_no_zero(operator_client: Client, project: Project, tmp_path: Path) -> None:
    import_session(project, tmp_path, "one", [HEAD])
    report = measure(operator_client)
    address = f"{report.get_absolute_url()}limits/?cap=50"
    assert load(operator_client, address).facts["over the requests that carried them"] == "not recorded"
    call = import_session(project, tmp_path, "two", [HEAD])
    add_requests(call.run, 4, 5)
    address = f"{measure(operator_client).get_absolute_url()}limits/?cap=50"
    assert "without 1 call" in load(operator_client, address).text


def test_a_report_of_one_family_says_so(operator_client: Client, project: Project, tmp_path: Path) -> None:
    import_session(project, tmp_path, "one", [HEAD])
    form = load(operator_client, "/experiments/recall/?family=command")
    assert form.has('input[name="family"][value="command"]')  # Measure takes the calls that were counted
    report = measure(operator_client, family="command")
    assert "family command" in load(operator_client, report.get_absolute_url()).text
    assert "family command" in load(operator_client, f"{report.get_absolute_url()}limits/").text
    page = load_limits_page(report, QueryDict("cap=50"))
    assert page
    assert [tool.href for tool in page.tools] == ["/calls/?q=family%3Acommand+tool%3ABash&sort=tokens"]


def test_a_long_quoted_line_is_masked_before_it_is_cut_and_says_that_it_is(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    token = "ghp_" + "a1B2c3D4" * 5
    line = f"src/app/quoted_name.py {'x ' * 180}{token} and more of it"
    assert line.index(token) < 400 < line.index(token) + len(token)
    import_session(project, tmp_path, "one", ["see src/app/quoted_name.py"], output="\n".join([line, *FILLER]))
    (call,) = load_recall_results(report := measure(operator_client)).calls
    page = load(operator_client, f"{report.get_absolute_url()}calls/{UUID(bytes=call.call)}/")
    assert "a1B2c3" not in page.text
    assert f"the first 400 of {len(line)} characters" in page.text


def test_a_call_without_a_text_in_its_arguments_was_not_deleted(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    lines = session_lines("one", [HEAD])
    lines[1]["message"]["content"][0]["input"] = {"number": 7}
    import_paths(project, [write(tmp_path / "one.jsonl", lines)])
    report = measure(operator_client)
    for address in ("calls/", "limits/?cap=5&head=0"):
        page = load(operator_client, report.get_absolute_url() + address)
        assert "the call was deleted" not in page.text
        assert page.has(f'a[href^="{report.get_absolute_url()}calls/"]')
    Run.objects.get().delete()
    for address in ("calls/", "limits/?cap=5&head=0"):
        page = load(operator_client, report.get_absolute_url() + address)
        assert "the call was deleted" in page.text
        assert not page.has(f'a[href^="{report.get_absolute_url()}calls/"]')


def test_a_page_of_a_whole_file_that_was_quoted_lists_its_first_items(
    operator_client: Client, project: Project, tmp_path: Path, settings: Settings
) -> None:
    settings.LISTED_ITEMS = 2
    call = import_session(project, tmp_path, "one", [HEAD, MIDDLE, TAIL])
    page = load(operator_client, f"{measure(operator_client).get_absolute_url()}calls/{call.pk}/")
    assert page.facts["Items"] == "3"
    assert [code.text for code in page.select(".quoted-line code")] == [HEAD, MIDDLE]
    assert "1 more item is not listed" in page.text


def test_the_lease_is_looked_at_before_each_receipt(operator_client: Client, project: Project, tmp_path: Path) -> None:
    import_session(project, tmp_path, "one", [HEAD])
    looks = []
    for names in (["receipt"], ["receipt", "markdown"]):
        operator_client.post("/experiments/recall/", {"variant": names})
        polls = iter(range(1_000))
        assert measure_next_recall(is_over=lambda polls=polls: next(polls) > 900)  # type: ignore[misc]
        looks.append(next(polls))
    assert looks[1] - looks[0] == 2  # one variant more, at two budgets

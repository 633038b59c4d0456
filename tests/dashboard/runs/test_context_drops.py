"""What left a model's context: recorded usage beside the recorded history, in the store and on the pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.evidence.context_changes import load_drops
from dashboard.filters.language import parse
from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.models import Project, RequestUsage, Run, Source, load_slices
from dashboard.models.evidence import INPUT_COLUMNS
from dashboard.runs.export_run import export_run
from tests.dashboard.factories import create_project, create_run
from tests.dashboard.imported_sessions import import_session
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.runs.test_receipt_presence import presence
from tests.dashboard.sessions import (
    SESSION,
    answers,
    asks,
    boundary,
    encoded,
    steps,
    user,
    weighs,
    write,
)

pytestmark = pytest.mark.django_db
CHAIN = "parentUuid"


@pytest.mark.postgresql
def test_a_request_is_stored_once_with_its_usage_as_recorded(tmp_path: Path) -> None:
    project = create_project()
    asked = weighs(asks("toolu_01"), 50_000)
    again = weighs({**asks("toolu_02"), "uuid": "a-2"}, 50_000)
    whole = weighs({**asks("toolu_03"), "uuid": "a-3"}, 50_000, output=812)
    run = import_session(project, tmp_path, user("list", uuid="u1"), asked, again, whole, answers("toolu_01"))
    [request] = run.requests.all()
    assert (request.line, request.context_tokens, request.output_tokens) == (2, 50_000, 812)
    load_slices([request])
    assert json.loads(request.data) == asked["message"]["usage"]
    assert request.data in encoded(asked)
    assert (request.start is not None, request.own_data) == (True, None)


@pytest.mark.postgresql
def test_deleting_a_run_deletes_its_requests(tmp_path: Path) -> None:
    run = import_session(create_project(), tmp_path, *steps(50_000))
    delete_run(run)
    assert not RequestUsage.objects.exists()
    assert not Source.objects.exists()


@pytest.mark.parametrize("at_once", [True, False])
def test_edits_that_only_the_last_line_of_an_answer_has_are_stored(tmp_path: Path, *, at_once: bool) -> None:
    project, path = create_project(), tmp_path / f"{SESSION}.jsonl"
    edits = {"applied_edits": [{"cleared_input_tokens": 41_000}]}
    last = weighs({**asks("toolu_03", step="msg_2"), "uuid": "a-3"}, 95_864, context_management=edits)
    lines = [*steps(138_395, 95_864)[:4], last]
    for end in (5,) if at_once else (4, 5):
        import_paths(project, [write(path, lines[:end])])
    run = Run.objects.get()
    assert (run.requests.get(request="msg_2").cleared_tokens, run.drop_count) == (41_000, 0)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_request_of_several_passes_weighs_what_its_last_one_got(tmp_path: Path, *, at_once: bool) -> None:
    """The first line of the answer has the usage of the first pass, the last one the sum of both."""
    project, path = create_project(), tmp_path / f"{SESSION}.jsonl"
    passes = [{"input_tokens": 100_000, "type": "message"}, {"input_tokens": 110_000, "type": "message"}]
    answer = {**asks("toolu_02b", step="msg_2"), "uuid": "a-2b"}
    usage = {"input_tokens": 210_000, "output_tokens": 900, "iterations": passes}
    summed = {**answer, "message": {**answer["message"], "usage": usage}}
    lines = [*steps(90_000, 100_000)[:4], summed, answers("toolu_02b"), weighs(asks("toolu_03", step="msg_3"), 112_000)]
    for end in (7,) if at_once else (4, 7):
        import_paths(project, [write(path, lines[:end])])
    run = Run.objects.get()
    assert [request.context_tokens for request in run.requests.order_by("line")] == [90_000, 110_000, 112_000]
    counts = run.requests.filter(request="msg_2").values_list("line", "input_tokens", "output_tokens")
    assert list(counts) == [(4, 210_000, 900)]
    assert run.drop_count == 0
    export_run(run, tmp_path / "out")
    again = create_project("again")
    assert import_paths(again, [tmp_path / "out"]).problems == []
    stored = [
        list(RequestUsage.objects.filter(run__project=owner).order_by("line").values_list(*INPUT_COLUMNS))
        for owner in (project, again)
    ]
    assert stored[0] == stored[1]


def test_a_summary_that_the_provider_made_within_a_request_explains_a_drop(tmp_path: Path) -> None:
    lines = steps(180_000, 23_000)
    passes = [{"input_tokens": 180_500, "type": "compaction"}, {"input_tokens": 23_000, "type": "message"}]
    lines[3]["message"]["usage"] = {"input_tokens": 23_000, "output_tokens": 9, "iterations": passes}
    assert import_session(create_project(), tmp_path, *lines).drop_count == 0
    del lines[3]["message"]["usage"]["iterations"]
    assert import_session(create_project("other"), tmp_path, *lines).drop_count == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_agents_own_file_counts_in_any_order_of_import(tmp_path: Path, order: tuple[int, int]) -> None:
    own = {**weighs(asks("toolu_01"), 50_000, output=1), "agentId": "a1", "isSidechain": True}
    reported = {**own, "message": {**own["message"], "usage": {"input_tokens": 50_000, "output_tokens": 900}}}
    data = {"type": "agent_progress", "agentId": "a1", "prompt": "Look.", "message": reported}
    progress = {"type": "progress", "sessionId": SESSION, "uuid": "p1", "data": data}
    files = [
        write(tmp_path / f"{SESSION}.jsonl", [user("list", uuid="u1"), progress]),
        write(tmp_path / SESSION / "subagents" / "agent-a1.jsonl", [own]),
    ]
    project = create_project()
    for index in order:
        import_paths(project, [files[index]])
    [request] = RequestUsage.objects.all()
    assert (request.origin, request.line, request.output_tokens) == ("message", 1, 1)


@pytest.mark.parametrize(
    ("between", "drops"),
    [
        pytest.param([], 1, id="nothing is recorded"),
        pytest.param([boundary("compact_boundary")], 0, id="a compaction"),
        pytest.param(
            [boundary("microcompact_boundary", microcompactMetadata={"tokensSaved": 30_000})], 0, id="a clear"
        ),
        pytest.param(
            [boundary("microcompact_boundary", microcompactMetadata={"tokensSaved": 900})], 1, id="a small one"
        ),
        pytest.param([boundary("microcompact_boundary", microcompactMetadata={})], 0, id="a clear of unknown size"),
        pytest.param([boundary("stop_hook_summary")], 1, id="a line that removes nothing"),
        pytest.param([{**user("Go on", uuid="u2"), CHAIN: None}], 0, id="a new conversation"),
    ],
)
def test_a_drop_that_nothing_recorded_explains_is_a_facet_of_the_run(
    between: list[dict[str, Any]], drops: int, tmp_path: Path
) -> None:
    lines = steps(60_000, 138_395, 95_864)
    run = import_session(create_project(), tmp_path, *lines[:5], *between, *lines[5:])
    assert run.drop_count == drops
    facets = run.facets.filter(kind="context").values_list("value", "count")
    assert list(facets) == ([("uncertain", 1)] if drops else [])
    assert [(drop.tokens, drop.before) for drop in load_drops(run)] == [(42_531, 4)] * drops


def test_edits_that_the_provider_states_explain_a_drop(tmp_path: Path) -> None:
    edits = {"applied_edits": [{"cleared_input_tokens": 41_000}]}
    lines = steps(138_395, 95_864)
    lines[3] = weighs(asks("toolu_02", step="msg_2"), 95_864, context_management=edits)
    run = import_session(create_project(), tmp_path, *lines)
    assert run.drop_count == 0
    assert json.loads(run.requests.get(request="msg_2").edits or b"") == edits


def test_a_drop_that_is_explained_by_a_later_reading_is_one_no_more(tmp_path: Path) -> None:
    """The agent's own file has the line that its parent's file left out."""
    project, folder = create_project(), tmp_path / SESSION / "subagents"
    own = [
        {**line, "agentId": "a1", "isSidechain": True}
        for line in (*steps(90_000)[:3], boundary("compact_boundary"), *steps(0, 40_000)[3:])
    ]
    progress = [
        {
            "type": "progress",
            "sessionId": SESSION,
            "uuid": f"p{number}",
            "data": {"type": "agent_progress", "agentId": "a1", "prompt": "Look.", "message": own[line]},
        }
        for number, line in enumerate((1, 4))
    ]
    write(tmp_path / f"{SESSION}.jsonl", [user("list the files", uuid="u1"), *progress])
    import_paths(project, [tmp_path / f"{SESSION}.jsonl"])
    child = Run.objects.get(external_id=f"{SESSION}/a1")
    assert (child.drop_count, child.requests.filter(origin="progress").count()) == (1, 2)
    import_paths(project, [write(folder / "agent-a1.jsonl", own)])
    child.refresh_from_db()
    assert (child.drop_count, child.requests.filter(origin="message").count()) == (0, 2)
    assert not child.facets.filter(kind="context").exists()


@pytest.fixture(scope="module")
def imported(kept_project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    import_session(kept_project, tmp_path_factory.mktemp("sessions"), *steps(60_000, 138_395, 95_864, 96_000))


@pytest.fixture
def dropped(project: Project, imported: None) -> Run:
    """Requests at the lines 2, 4, 6, 8; the one at line 6 lost 42,531 tokens, and nothing recorded says why."""
    return project.runs.get()


def model_view(client: Client, run: Run, query: str = "") -> Page:
    return parse_page(client.get(f"/runs/{run.pk}/context{query}"))


def badges(page: Page) -> dict[str, list[str]]:
    """The badges of each entry that speak of what may be gone, by where it stands."""
    entries = {entry.select_one(".where").text.split(" ·")[0]: entry for entry in reversed(page.select(".entry"))}
    words = ("uncertain", "contradicted", "not explained", "new conversation")
    texts = {
        line: [text for text in entry.texts(".badge") if any(word in text for word in words)]
        for line, entry in entries.items()
    }
    return {line: of_entry for line, of_entry in texts.items() if of_entry}


@pytest.mark.usefixtures("alice")
def test_the_model_view_shows_an_unexplained_drop_where_it_happened(client: Client, dropped: Run) -> None:
    page = model_view(client, dropped)
    [drop] = page.select('.entry[data-kind="drop"]')
    assert drop.select_one("h2").text == (
        "42,531 tokens left the context before this step; nothing in the recording says why, nor what."
    )
    lines = [(entry["data-kind"], entry.select_one(".where").text.split(" ·")[0]) for entry in page.select(".entry")]
    assert lines[4:7] == [("receipt", "line 5"), ("drop", "line 6"), ("call", "line 6")]
    assert drop.select_one(".badge").text == "not explained"
    uncertain = ["uncertain from line 6 on"]
    assert badges(page) == {"line 1": uncertain, "line 2": uncertain, "line 3": uncertain, "line 6": ["not explained"]}
    badge = page.select(".entry")[2].by_text("uncertain from line 6 on", exact=True)
    assert badge["title"] == (
        "42,531 tokens left the context before the step at line 6; nothing in the recording says why, nor what. "
        "This may be among them."
    )
    assert "cleared" not in page.text


@pytest.mark.usefixtures("alice")
def test_a_line_that_could_not_be_read_before_a_drop_may_say_why(
    client: Client, project: Project, tmp_path: Path
) -> None:
    lines = steps(60_000, 138_395, 95_864)
    run = import_session(project, tmp_path, *lines[:5], b'{"type":"system","subtype":"compact_bou', *lines[5:])
    [drop] = model_view(client, run).select('.entry[data-kind="drop"] h2')
    assert drop.text == (
        "42,531 tokens left the context before this step; a line of the recording could not be read, and nothing else "
        "in it says why, nor what."
    )
    run = import_session(create_project("other"), tmp_path / "other", b'{"type":"sys', *lines)
    [before] = load_drops(run)
    assert not before.has_gap
    run.source_format = "cline-session"  # whose places are no lines, so that no line is before another place
    [before] = load_drops(run)
    assert before.has_gap


@pytest.mark.usefixtures("alice")
def test_the_gauge_shows_the_recorded_weight_of_each_request_and_what_is_not_recorded(
    client: Client, dropped: Run
) -> None:
    page = model_view(client, dropped)
    by_line = {entry.select_one(".where").text.split(" ·")[0]: entry for entry in page.select(".entry")}
    assert by_line["line 2"].texts(".gauge span")[0] == "60,000"
    assert by_line["line 2"].select_one(".request").text == (
        "The request of this step weighed 60,000 tokens, as recorded. About 4 of them are shown before it; the rest, "
        "about 59,996, is not recorded: system prompt, tool definitions and the like, or what is shown is estimated "
        "too low."
    )
    assert by_line["line 3"].texts(".gauge span")[0].startswith("≈60,0")
    assert not by_line["line 3"].has(".request")
    rest = model_view(client, dropped, f"?after=5-2-{'f' * 32}")
    assert rest.texts(".entry .gauge span")[0].startswith("≈138,4")
    assert rest.select(".entry")[1].texts(".gauge span")[0] == "95,864"


@pytest.mark.usefixtures("alice")
def test_a_history_that_weighs_more_than_its_request_is_contradicted(
    client: Client, project: Project, tmp_path: Path
) -> None:
    lines = steps(60_000, 20_000, 9_000)
    lines[2] = answers("toolu_01", "word " * 30_000)
    run = import_session(project, tmp_path, *lines)
    page = model_view(client, run)
    request = page.select('.entry[data-kind="call"]')[-1].select_one(".request")
    assert request.text.startswith(
        "The request of this step weighed 9,000 tokens, as recorded. What is shown before it as "
    )
    assert request.text.endswith("more than that: some of it was no longer there, or is counted too high here.")
    assert badges(page)["line 3"] == ["contradicted by the recorded usage"]
    assert "line 5" not in badges(page)


@pytest.mark.usefixtures("alice")
def test_after_a_new_conversation_nothing_above_it_is_in_the_context(
    client: Client, project: Project, tmp_path: Path
) -> None:
    lines = steps(60_000, 138_395, 95_864)
    run = import_session(project, tmp_path, *lines[:5], {**user("Go on", uuid="u2"), CHAIN: None}, *lines[5:])
    page = model_view(client, run)
    [mark] = page.select('.entry[data-kind="compaction"]')
    assert mark.select_one("h2").text == (
        "the conversation began anew at line 6. The model no longer saw anything above this line."
    )
    assert mark.select_one(".where").text.startswith("line 5")
    assert badges(page) == {f"line {line}": ["not in the new conversation"] for line in (1, 2, 3, 4, 5)}


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_the_run_page_marks_a_drop_between_the_calls_and_in_the_drawing(client: Client, dropped: Run) -> None:
    page = parse_page(client.get(f"/runs/{dropped.pk}/"))
    items = page.select(".waterfall > li")
    [mark] = [item for item in items if "run-mark" in item.classes]
    sentence = "42,531 tokens left the context before this step; nothing in the recording says why, nor what"
    assert mark.text == f"{sentence} line 6"
    assert items.index(mark) == 2
    [drawn] = page.select(".overview svg .drop")
    assert drawn["d"] == "M2 0V41"
    assert drawn.select_one("title").text == f"{sentence} (line 6)"
    assert "1 unexplained drop of the context" in page.select_one(".overview figcaption").text
    first = model_view(client, dropped, mark.select_one("a")["href"].partition("context")[2]).select(".entry")
    assert [entry["data-kind"] for entry in first[:3]] == ["receipt", "drop", "call"]


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_drops_are_a_filter_a_facet_and_a_preset(client: Client, dropped: Run, project: Project) -> None:
    other = create_run(project, external_id="whole", title="Whole")
    for query in ("?q=context:uncertain", "?preset=dropped"):
        page = parse_page(client.get(f"/runs/{query}"))
        assert page.texts("tbody tr th .isolate") == ["list the files"]
        assert page.by_role("link", "dropped unexplained1", exact=True)
    page = parse_page(client.get("/runs/?q=-context:uncertain"))
    assert page.texts("tbody tr th .isolate") == ["Whole"]
    assert page.by_role("link", "Context dropped unexplained", exact=True)
    calls = [call.external_id for call in parse("context:uncertain", over="calls").calls(dropped)]
    assert calls == ["toolu_01"]
    assert not parse("context:uncertain", over="calls").calls(other)
    assert [call.external_id for call in parse("context:uncertain", over="calls").calls_in(project)] == calls


@pytest.mark.usefixtures("alice")
def test_a_receipt_is_contradicted_where_all_that_is_shown_weighs_more_than_the_last_request(
    client: Client, project: Project, tmp_path: Path
) -> None:
    lines = steps(60_000, 138_395, 9_000)
    lines[2] = answers("toolu_01", "word " * 30_000)
    run = import_session(project, tmp_path, *lines)
    text = presence(client, run, "toolu_01")
    assert "contradicted by the recorded usage" in text
    assert text.endswith("more than the 9,000 of the last request.")
    [badge] = [badge for texts in badges(model_view(client, run)).values() for badge in texts if "contra" in badge][:1]
    assert badge == "contradicted by the recorded usage"


@pytest.mark.usefixtures("alice")
def test_a_content_replacement_explains_as_much_as_its_receipt_weighed(
    client: Client, project: Project, tmp_path: Path
) -> None:
    replaced = [{"kind": "tool-result", "toolUseId": "toolu_01", "replacement": "saved"}]
    replacement = {"type": "content-replacement", "sessionId": SESSION, "uuid": "c1", "replacements": replaced}
    lines = steps(60_000, 100_000, 70_000)
    run = import_session(project, tmp_path, *lines[:5], replacement, *lines[5:])
    assert run.drop_count == 1
    page = model_view(client, run)
    [drop] = page.select('.entry[data-kind="drop"] h2')
    assert "what is recorded accounts for" in drop.text
    other = create_project("other")
    lines[2] = answers("toolu_01", "word " * 30_000)
    assert import_session(other, tmp_path / "other", *lines[:5], replacement, *lines[5:]).drop_count == 0


def graded(client: Client, run: Run, step: int) -> tuple[str, dict[str, str], Page]:
    """The counts of the grades at a step, the grade of each receipt by its line, and the page."""
    page = model_view(client, run, f"?step={step}")
    words = ("still there", "no longer there", "uncertain", "contradicted")
    receipts = {entry.select_one(".where").text.split(" ·")[0]: entry for entry in page.select('[data-kind="receipt"]')}
    grades = {
        line: next(badge for badge in entry.texts(".badge") if badge.startswith(words))
        for line, entry in receipts.items()
    }
    return page.texts("[data-step] p")[1].removeprefix("Receipts at this step: "), grades, page

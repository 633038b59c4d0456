"""What a client added to the messages, and what stands in every request: in the history, its sums and the search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.accounts import get_or_create_project
from dashboard.api.reading import load_step_context
from dashboard.experiments.recall_run import load_steps
from dashboard.ingest.importer import import_paths
from dashboard.models import Message, Project, Run
from dashboard.runs.export_run import export_run
from dashboard.runs.replay import add_up_replay, load_replay
from envelopes.text.tokens import CHARACTERS_PER_TOKEN
from tests.dashboard.factories import create_message
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.sessions import SESSION, answers, asks, boundary, user, weighs, write

pytestmark = pytest.mark.django_db
PROMPT, LONGER = "You are an agent. " * 40, "You are an agent. " * 60
TOOLS = [{"name": "Bash", "description": "Runs a command. " * 20}]


def attached(uuid: str, kind: str, rendered: str = "", **fields: Any) -> dict[str, Any]:
    about = {"type": "attachment", "uuid": uuid, "sessionId": SESSION, "attachment": {"type": kind, **fields}}
    return about | ({"rendered": [{"content": rendered}], "renderedRole": "system"} if rendered else {})


def snapshot(uuid: str, *prompt: str, **fields: Any) -> dict[str, Any]:
    return attached(uuid, "prompt_snapshot", systemPrompt=list(prompt), **fields)


def session() -> list[dict[str, Any]]:
    return [
        user("fix the build", uuid="u1"),
        snapshot("s1", PROMPT),
        weighs(asks("toolu_01", step="msg_1"), 4_200),
        answers("toolu_01"),
        attached("h1", "hook_additional_context", "The log is in ci/last.log.", toolUseID="toolu_01"),
        snapshot("s2", PROMPT, tools=TOOLS),
        weighs(asks("toolu_02", step="msg_2"), 4_700),
        answers("toolu_02"),
        boundary("compact_boundary"),
        snapshot("s3", LONGER, tools=TOOLS),
        weighs(asks("toolu_03", step="msg_3"), 2_600),
        answers("toolu_03"),
    ]


@pytest.fixture(scope="module")
def imported(kept_project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    import_paths(kept_project, [write(tmp_path_factory.mktemp("sessions") / f"{SESSION}.jsonl", list(session()))])


@pytest.fixture
def run(project: Project, imported: None) -> Run:
    """Requests at the lines 3, 7 and 11, a compaction at line 9; the prompt changes at line 10."""
    return project.runs.get()


def history(client: Client, run: Run, query: str = "") -> Page:
    return parse_page(client.get(f"/runs/{run.pk}/context{query}"))


def tokens(run: Run, *kinds: str) -> list[int]:
    """The tokens of the messages of these kinds in order, an estimate by their size."""
    sizes = run.messages.filter(kind__in=kinds).order_by("line").values_list("size", flat=True)
    return [size // CHARACTERS_PER_TOKEN for size in sizes]


@pytest.mark.usefixtures("alice")
def test_the_history_states_what_each_text_is_and_what_of_a_request_is_not_recorded(client: Client, run: Run) -> None:
    page = history(client, run)
    badges = {entry.select_one("h2").text: entry.texts(".badge") for entry in page.select('[data-kind="message"]')}
    assert badges["hook_additional_context"][:2] == ["added by the client", "compacted away later"]
    assert badges["system prompt"] == badges["tool definitions"] == ["in every request"]
    rests = [text.split("is not recorded")[1] for text in page.texts(".request")]
    assert rests == [
        ": tool definitions and the like, or what is shown is estimated too low.",
        *[", or counted otherwise by the provider."] * 2,
    ]
    [compaction] = page.select('[data-kind="compaction"] h2')
    assert compaction.text.endswith("anything above this line, except what is in every request.")


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize("query", ["", f"?after=5-0-{'0' * 32}", f"?after=9-9-{'f' * 32}"])
def test_the_sums_keep_what_is_in_every_request_over_a_compaction_and_replace_it_once(
    client: Client, run: Run, query: str
) -> None:
    """The same on every page, wherever it begins."""
    first, last = tokens(run, "system prompt")
    [tools] = tokens(run, "tool definitions")
    page = history(client, run, query)
    by_line = {entry.select_one(".where").text.split(" ·")[0]: entry for entry in page.select(".entry")}
    request = by_line["line 11"].select_one(".request").text
    assert f"About {last + tools:,} of them are shown before it" in request
    assert by_line["line 10"].texts(".gauge .muted") == [f"+{last - first:,}"]


@pytest.mark.usefixtures("alice")
def test_definitions_that_weigh_more_than_their_request_contradict_no_receipt(
    client: Client, project: Project, tmp_path: Path
) -> None:
    """A client may hold back a part of the definitions; the history by itself fits into the request."""
    lines = session()
    lines[6] = weighs(asks("toolu_02", step="msg_2"), 100)
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", list(lines[:8]))])
    page = history(client, project.runs.get())
    request = page.select(".request")[1]
    assert "not all of system prompt and tool definitions was sent, or it is counted too high here" in request.text
    assert "data-tone" not in request.attributes
    assert not any("contradicted" in text for text in page.texts(".badge"))


@pytest.mark.usefixtures("alice")
def test_the_kinds_of_a_step_name_what_is_in_every_request_and_what_was_added(client: Client, run: Run) -> None:
    kinds = load_step_context(run.project, run.pk, 3).kinds
    assert kinds == {
        "system prompt": tokens(run, "system prompt")[-1],
        "set of tool definitions": tokens(run, "tool definitions")[0],
    }
    kinds = load_step_context(run.project, run.pk, 2).kinds
    assert {"message of the user", "hook_additional_context, added by the client"} <= kinds.keys()
    create_message(run, "2 hits", role="tool", line=1)
    assert "message of tool" in load_step_context(run.project, run.pk, 2).kinds


@pytest.mark.usefixtures("alice")
def test_both_halves_name_what_came_between_the_receipt_and_the_next_answer(client: Client, run: Run) -> None:
    pages = [parse_page(client.get(f"/runs/{run.pk}/{number}/halves")) for number in (1, 2)]
    assert pages[0].texts(".presence code") == ["hook_additional_context"]
    assert "Between it and the model's next answer the client added" in pages[0].select_one(".presence").text
    assert not pages[1].has(".presence code")


@pytest.mark.usefixtures("alice")
def test_a_message_by_itself_has_its_kind_as_heading(client: Client, run: Run) -> None:
    key = run.messages.get(kind="tool definitions").pk
    page = history(client, run, f"?message={key}")
    assert page.select_one("h1").text == "tool definitions at line 6"
    assert page.texts("h1 ~ .badge") == ["in every request"]
    assert "Bash" in page.select_one("main").text


def test_an_added_text_is_no_use_of_an_output(run: Run) -> None:
    steps = load_steps(run, set(run.members.values_list("call_id", flat=True))).steps
    assert [step.text for step in steps if step.kind in ("user", "assistant")] == ["fix the build"]


def test_a_replay_counts_what_is_in_every_request_once(run: Run) -> None:
    totals = add_up_replay(run, load_replay(run, "receipt"))
    own = sum(tokens(run, "", "hook_additional_context"))
    standing = tokens(run, "system prompt")[-1] + sum(tokens(run, "tool definitions"))
    arguments = sum(size // CHARACTERS_PER_TOKEN for size in run.members.values_list("call__args_bytes", flat=True))
    assert totals.before.tokens - totals.before.receipts == own + standing + arguments


@pytest.mark.postgresql
def test_an_export_keeps_the_kinds(project: Project, run: Run, tmp_path: Path) -> None:
    export_run(run, tmp_path / "first")
    again = get_or_create_project("again")
    assert import_paths(again, [tmp_path / "first"]).problems == []
    columns = ("role", "kind", "delivery", "line", "tokens")
    stored = [
        list(Message.objects.filter(run__project=owner).order_by("line", "kind").values_list(*columns))
        for owner in (project, again)
    ]
    assert stored[0] == stored[1]
    assert {row[1] for row in stored[0]} == {"", "system prompt", "tool definitions", "hook_additional_context"}

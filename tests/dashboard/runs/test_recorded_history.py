"""What a session's lines say of the context, on the Run page and in the Model view: small sessions, imported whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.ingest.importer import import_paths
from dashboard.models import Project, Run
from tests.dashboard.page_text import Element, Page, parse_page
from tests.dashboard.sessions import SESSION, answers, asks, user, write

pytestmark = pytest.mark.usefixtures("alice")
AT = "2026-03-01T09:00:02.000Z"


def import_session(project: Project, folder: Path, *lines: dict[str, Any] | bytes) -> Run:
    """The session's run. The lines come in two parts, so that what is shown does not depend on one import."""
    path = folder / f"{SESSION}.jsonl"
    for end in (len(lines) // 2, len(lines)):
        import_paths(project, [write(path, list(lines[:end]))])
    return Run.objects.get(external_id=SESSION)


def run_page(client: Client, run: Run, query: str = "") -> Page:
    return parse_page(client.get(f"/runs/{run.pk}/{query}"))


def model_view(client: Client, run: Run, query: str = "") -> Page:
    return parse_page(client.get(f"/runs/{run.pk}/model/{query}"))


def entry_at(page: Page, line: int) -> Element:
    [entry] = [entry for entry in page.select(".entry") if f"line {line} " in entry.select_one(".where").text]
    return entry


def queue(operation: str, **fields: str) -> dict[str, Any]:
    return {"type": "queue-operation", "operation": operation, "timestamp": AT, "sessionId": SESSION, **fields}


def test_what_was_typed_while_a_tool_ran_stands_where_it_was_sent(
    client: Client, project: Project, tmp_path: Path
) -> None:
    run = import_session(
        project,
        tmp_path,
        user("list the files", uuid="u1"),
        asks("toolu_01"),
        queue("enqueue", content="only the <b>Python</b> ones"),
        answers("toolu_01"),
        queue("remove"),
        asks("toolu_02", step="msg_2"),
        queue("enqueue", content="never sent"),
    )
    entry = entry_at(model_view(client, run), 5)
    assert entry.select_one("pre").exact == "only the <b>Python</b> ones"
    badge = entry.by_text("queued while a step ran", exact=True)
    assert badge["title"].endswith("How the client worded it for the model is not recorded.")
    page = run_page(client, run)
    items = page.select(".waterfall > li")
    assert [item.text for item in items if "run-mark" in item.classes] == [
        "user, queued while a step ran only the <b>Python</b> ones line 5"
    ]
    assert "run-mark" in items[1].classes
    assert (
        "only the <b>Python</b> ones"
        in model_view(client, run, page.select_one(".run-mark a")["href"].split("/")[-1]).text
    )
    assert "never sent" not in page.text + model_view(client, run).text
    assert not run_page(client, run, "?q=tool:Bash").has(".run-mark")


@pytest.mark.parametrize("rows", [1, 2])
def test_a_mark_is_on_one_page_of_calls_whatever_its_size(
    client: Client, project: Project, tmp_path: Path, settings: Any, rows: int
) -> None:
    settings.ROWS_PER_PAGE = rows
    lines: list[dict[str, Any]] = [queue("enqueue", content="before all"), queue("remove")]
    for number in range(4):
        lines += [
            asks(f"toolu_{number}", step=f"msg_{number}"),
            queue("enqueue", content=f"after {number}"),
            queue("remove"),
        ]
    run = import_session(project, tmp_path, *lines)
    page, texts = run_page(client, run), []
    while True:
        texts += [mark.text.split(" ran ")[1].rpartition(" line")[0] for mark in page.select(".run-mark")]
        more = page.select(".sentinel a")
        if not more:
            break
        page = run_page(client, run, more[0]["href"])
    assert texts == ["before all", "after 0", "after 1", "after 2", "after 3"]


def reports_an_error(text: str) -> dict[str, Any]:
    message = {"id": "e1", "role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "uuid": "e1", "sessionId": SESSION, "message": message, "isApiErrorMessage": True}


def notes(subtype: str, text: str) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, "uuid": f"s-{subtype}", "sessionId": SESSION, "content": text}


def test_what_the_client_keeps_from_the_model_is_shown_as_not_sent_and_not_counted(
    client: Client, project: Project, tmp_path: Path
) -> None:
    text = "API Error: 529 overloaded " * 40
    run = import_session(
        project,
        tmp_path,
        user("list the files", uuid="u1"),
        reports_an_error(text),
        notes("informational", text),
        notes("local_command", f"<local-command-stdout>{text}"),
        asks("toolu_01"),
        user("go on", uuid="u2"),
    )
    page = model_view(client, run)
    badges = [entry_at(page, line).texts(".badge") for line in range(1, 7)]
    not_sent, unclear = ["not sent to the model"], ["perhaps not sent to the model"]
    assert badges == [[], not_sent, not_sent, unclear, ["no receipt recorded: nothing answered this call"], []]
    assert [entry_at(page, line).select_one(".gauge .muted").text for line in (2, 3, 4)] == ["+0"] * 3
    gauges = [entry_at(page, line).select(".gauge span")[0].text for line in (1, 4)]
    assert gauges[0] == gauges[1]
    ahead = model_view(client, run, "?after=5-1-" + "f" * 32)
    assert ahead.texts(".gauge span") == page.texts(".entry:last-child .gauge span")
    whole = model_view(client, run, entry_at(page, 2).by_role("link", "whole message")["href"].partition("model/")[2])
    assert whole.texts(".badge") == not_sent

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

"""Pages call the place of a call or a message a line only where it is one of the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Message, Project, Run
from dashboard.models.runs import step_url
from envelopes.recordings.base import REWIND
from tests.dashboard.factories import (
    create_call,
    create_event,
    create_message,
    create_problem,
    create_run,
    create_source,
)
from tests.dashboard.page_text import parse_page

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("alice")]
SAMPLES = Path(__file__).resolve().parents[2] / "envelopes" / "recordings"
KIMI = "kimi_cli/1.50.0"
PLACE_WORDS = {
    "cline/3.0.65": "message",
    "cline/tasks/2.18.0-truncated": "message",
    KIMI: "line",
    "openhands/1.58.2": "event",
    "releases/opencode_1.18.33_compacted.json": "position",
}
# As pages name places; "Of line 3 it got the beginning", "lines 1–3: seen" and ".json, line 3" are those of outputs and
# of the source of a call.
NUMBER = r"(\d{1,3}(?:,\d{3})*)(?!,?\d|[:–])"
NAMED = r"(?:\b(?:at|from|after|behind|step of) |rewound: |[>(]\s*)"
CLAIM = re.compile(rf"{NAMED}lines? {NUMBER}(?: to {NUMBER})?( of context \d)?")
CALLS = 4
BY_DEFAULT = ("cline/3.0.65", KIMI)


def read_files(path: Path) -> dict[Path, str]:
    paths = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {file: file.read_text("utf-8") for file in paths}


def addresses(run: Run) -> Iterator[str]:
    """The Run page, its history with a step and a message, its replay, and calls with what was before them."""
    yield run.get_absolute_url()
    history = reverse("run-context", args=[run.pk])
    yield from (history, f"{history}?at=end", reverse("run-replay", args=[run.pk]))
    calls = Call.objects.in_run_with_ordinals(run)
    for position in range(1, CALLS + 1):
        yield from (step_url(run.pk, position, tab) for tab in ("halves", "context"))
    yield f"{history}?step={calls[CALLS].ordinal}"
    if message := Message.objects.filter(run=run).last():
        yield f"{history}?message={message.pk}"


def read_pages(client: Client, run: Run) -> str:
    return "\n".join(client.get(address).content.decode() for address in addresses(run))


@pytest.mark.parametrize(
    "sample",
    [sample if sample in BY_DEFAULT else pytest.param(sample, marks=pytest.mark.extended) for sample in PLACE_WORDS],
)
def test_no_page_calls_a_number_a_line_that_is_no_line_of_the_file(
    client: Client, project: Project, sample: str
) -> None:
    """Kimi CLI alone has lines: those of its contexts. What a recorded text says of lines does not count."""
    import_paths(project, [SAMPLES / sample])
    run = Run.objects.filter(project=project).latest("call_count")
    page, files = read_pages(client, run), read_files(SAMPLES / sample)
    assert re.search(rf"\b{PLACE_WORDS[sample]}s? \d", page)
    recorded = {match.group() for text in files.values() for match in CLAIM.finditer(text)}
    claims = [match.groups() for match in CLAIM.finditer(page) if match.group() not in recorded]
    if sample != KIMI:
        assert claims == []
        return
    lengths = {path.stem: text.count("\n") for path, text in files.items() if path.parent.name == run.external_id}
    for first, last, within in claims:
        number = int((within or " of context 1").rpartition(" ")[2])
        assert int((last or first).replace(",", "")) <= lengths.get(f"context_{number}", lengths["context"])
    assert any(within for _, _, within in claims)


@pytest.mark.parametrize("source_format", ["cline", "claude-code"])
def test_marks_notes_and_tables_name_places_as_the_format_of_the_run_does(
    client: Client, project: Project, source_format: str
) -> None:
    """A line that could not be read is a line of the file in both."""
    run = create_run(project, "s1", source_format=source_format)
    call = create_call(run, "c1", line=3_002)
    create_call(run, "c2", line=9_001)
    create_message(run, "Do it otherwise.", line=4_001, delivery=Message.Delivery.QUEUED)
    rewind = b'{"left": [5001, 7001], "returned": null}'
    create_event(run, REWIND, line=8_001, own_data=rewind, size=len(rewind))
    create_event(run, "note", call=call.pk, line=3_003)
    source = create_source(project)
    source.runs.add(run)
    create_problem(project, source=source, file=source.path, line=8_500)
    names = {"cline": "message {0}", "claude-code": "line {0},{1}"}
    place = names[source_format].format
    rewound = {"cline": "messages 5 to 7", "claude-code": "lines 5,001 to 7,000"}[source_format]
    marks = parse_page(client.get(run.get_absolute_url())).texts(".run-mark")
    assert any(place(4, "001") in mark for mark in marks)
    assert f"rewound: {rewound} left the conversation at {place(8, '001')} {place(5, '001')}" in marks
    history = reverse("run-context", args=[run.pk])
    where = [text.partition(" · ")[0] for text in parse_page(client.get(history)).texts(".where")]
    assert where == [place(3, "002"), place(4, "001"), place(5, "001"), "line 8,500", place(9, "001")]
    branch = parse_page(client.get(f"{history}?{urlencode({'branch': 5_001})}")).by_role("status").text
    assert f"from {place(5, '001')} on" in branch
    assert f"after {place(8, '001')}." in branch
    assert place(3, "003") in parse_page(client.get(call.get_absolute_url(), follow=True)).select_one(".events").text

"""What pages claim about recordings of real agents, compared with what these recordings have."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, Run
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.recorded_calls import load_call
from tests.envelopes.recordings.samples import FOLDER


@pytest.fixture(autouse=True)
def imported(project: Project, alice: User, request: pytest.FixtureRequest) -> None:
    del alice  # signs in
    import_paths(project, [FOLDER / request.param])


def of_sample(path: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("imported", [path], indirect=True, ids=[""])


def load(client: Client, address: str) -> Page:
    return parse_page(client.get(address, follow=True, headers={"HX-Request": "true"}))


@of_sample("releases/copilot_cli_1.0.102.jsonl")
def test_text_that_only_the_receipt_has_is_not_said_to_be_of_the_runtime(client: Client) -> None:
    """Of a command this agent records the exit status beside the text that it sent, and no output."""
    page = load_call(client, Call.objects.get(asked="command=seq 1 9000"))
    share = page.select_one(".share").text
    assert share == "1 of 887 characters comes from the result; the rest is in the receipt alone."
    assert page.texts("details.fields .muted") == ["canonical, 1 character"]
    (explained,) = page.texts('[data-half="canonical"] .explains p')
    sentence = "The source kept only a part of the result. The rest was read out of the text for the model."
    assert explained == f"{sentence} parsed_from_receipt"


@of_sample("releases/copilot_cli_1.0.102.jsonl")
def test_the_row_of_a_child_run_with_one_call_counts_it_as_one(client: Client) -> None:
    page = load(client, Run.objects.exclude(parent=None).get().parent.get_absolute_url())
    assert page.select_one(".child-row em").text == "1 call, 0 failed, 0 cut"


@pytest.mark.parametrize(
    ("imported", "ends"),
    [
        ("releases/copilot_cli_1.0.102.jsonl", {"command=rm -rf notes.txt": False}),
        ("releases/opencode_1.18.33.json", {"command=rm -rf new.txt": False, "command=curl http://127.0.0.1:9/": True}),
        ("openhands/1.58.2", {"command=rm -rf a.txt": True}),
    ],
    indirect=["imported"],
)
def test_nobody_waited_for_a_person_where_a_rule_refused(client: Client, ends: dict[str, bool]) -> None:
    calls = {call.asked: call for call in Call.objects.filter(outcome="refused")}
    badges = {asked: load_call(client, call).texts(".step-line .badge") for asked, call in calls.items()}
    assert {asked: "waited for a person" in texts for asked, texts in badges.items()} == ends


@of_sample("otlp/ai_sdk_4.3.19.jsonl")
def test_a_receipt_that_was_rebuilt_is_nowhere_called_recorded(client: Client) -> None:
    call = Call.objects.filter(tool="read_notes").order_by("started_at")[0]
    page = load_call(client, call)
    assert page.select_one(".cut p").text == (
        "result The recorded output (2 lines) is not in the receipt word for word. It may be there in another form."
    )
    strip = load(client, f"/calls/{call.pk}/variants/")
    assert strip.select_one("#variants p").text == "Variants of external compared with the rebuilt 8 tokens"
    variant = load_call(client, call, "?right=variant-markdown").select_one(".share").text
    assert variant.endswith("the receipt that was rebuilt.")


@of_sample("otlp/langchain_1.5.2_langsmith_0.15.1.jsonl")
def test_an_exact_receipt_came_into_the_context_as_the_model_saw_it(client: Client) -> None:
    call = Call.objects.filter(receipt_fidelity="exact")[0]
    words = load_call(client, call).select_one(".presence").text
    assert " on, as the model saw it. At the end of the recording: still there" in words


@of_sample("codex_exec.jsonl")
def test_what_has_no_time_is_shown_without_one(client: Client) -> None:
    page = load(client, Run.objects.get().get_absolute_url())
    explained = page.by_text("ended (no closing line)")["title"]
    assert explained.startswith("The recording has no end and its records have no time, so the run counts as ended.")
    assert page.texts("a.call-row .row-tokens") == ["–"] * 6, "none of its calls has a receipt"
    halves = load_call(client, Call.objects.get(tool="web_search")).texts("[data-half] h2")
    assert halves == ["No result was recorded", "No receipt was recorded"]
    rows = load(client, "/calls/").select("tbody tr")
    assert {row.select_one("[data-head=Tokens]").text for row in rows} == {"–"}
    assert {cell.text for cell in page.select("#by-tool td[data-head^=Time], #by-tool td[data-head*=time]")} == {"–"}


@of_sample("cline/3.0.65")
def test_the_source_of_a_call_is_named_with_the_line_of_the_file(client: Client) -> None:
    """The reader numbers the records of a session; the line of the file is another number."""
    name = "1795857600000_3065.messages.json"
    lines = (FOLDER / "cline" / "3.0.65" / name).read_text("utf-8").splitlines()
    call = Call.objects.get(asked="commands=seq 1 2500")
    (source,) = [text for text in load_call(client, call).texts(".facts dd") if text.startswith(name)]
    line = int(source.removeprefix(f"{name}, line ").replace(",", ""))
    assert [lines[line].strip(), lines[line + 5].strip()] == ['"type": "tool_use",', '"seq 1 2500"']

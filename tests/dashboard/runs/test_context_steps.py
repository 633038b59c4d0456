"""The context of a run at one of its steps: what came before its request, and what of it was still there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.models import Project, Run
from tests.dashboard.api.sending import Sender, load_contexts
from tests.dashboard.api.test_traces import START, request, span
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.sessions import SESSION, answers, asks, boundary, steps, user, write
from tests.envelopes.session_lines import tool_use

pytestmark = pytest.mark.django_db
CHAIN = "parentUuid"
JSON = "application/json"


def import_session(project: Project, folder: Path, *lines: dict[str, Any] | bytes) -> Run:
    import_paths(project, [write(folder / f"{SESSION}.jsonl", list(lines))])
    return Run.objects.get(project=project, external_id=SESSION)


def model_view(client: Client, run: Run, query: str = "") -> Page:
    return parse_page(client.get(f"/runs/{run.pk}/context{query}"))


@pytest.mark.postgresql("9-2 still there, 1 no longer there-grades3")
@pytest.mark.parametrize(
    ("step", "counts", "grades"),
    [
        (2, "none", []),
        (4, "1 still there", ["still there"]),
        (6, "2 still there", ["still there", "still there"]),
        (9, "2 still there, 1 no longer there", ["no longer there", "still there", "still there"]),
        (
            11,
            "1 still there, 1 no longer there, 2 uncertain",
            ["no longer there", "uncertain from line 11 on", "uncertain from line 11 on", "still there"],
        ),
    ],
)
@pytest.mark.usefixtures("alice")
def test_receipts_are_graded_as_they_stood_at_a_step(
    client: Client, project: Project, tmp_path: Path, step: int, counts: str, grades: list[str]
) -> None:
    """Requests at the lines 2, 4, 6, 9 and 11; a clear at line 8, and tokens that left before line 11."""
    lines = steps(60_000, 100_000, 130_000, 138_395, 95_864)
    clear = boundary("microcompact_boundary", microcompactMetadata={"compactedToolIds": ["toolu_01"]})
    run = import_session(project, tmp_path, *lines[:7], clear, *lines[7:])
    page = model_view(client, run, f"?step={step}")
    about, receipts, _ = page.texts("[data-step] p")
    assert receipts == f"Receipts at this step: {counts}"
    weights = {2: "60,000", 4: "100,000", 6: "130,000", 9: "138,395", 11: "95,864"}
    assert f"The request of this step weighed {weights[step]} tokens, as recorded." in about
    words = ("still there", "no longer there", "uncertain", "contradicted")
    entries = page.select('.entry[data-kind="receipt"]')
    assert [[text for text in entry.texts(".badge") if text.startswith(words)] for entry in entries] == [
        [grade] for grade in grades
    ]
    items = page.select('.entry:not([data-kind="drop"])')  # the drop of this request itself is shown before it
    assert all(int(entry.select_one(".where").text.split()[1]) < step for entry in items)
    assert ("cleared after this step, at line 8: microcompact" in page.text) == (step in (4, 6))


@pytest.mark.usefixtures("alice")
def test_a_step_whose_request_weighs_less_than_what_is_shown_contradicts_by_an_estimate(
    client: Client, project: Project, tmp_path: Path
) -> None:
    lines = steps(60_000, 138_395, 9_000)
    lines[2] = answers("toolu_01", "word " * 30_000)
    run = import_session(project, tmp_path, *lines)
    before, at = (model_view(client, run, f"?step={line}") for line in (4, 6))
    assert before.texts("[data-step] p")[1] == "Receipts at this step: 1 still there"
    assert at.texts("[data-step] p")[1] == "Receipts at this step: 1 still there, 1 contradicted by the recorded usage"
    badge = at.by_text("contradicted by the recorded usage", exact=True)
    assert "tokens by our estimate, more than the 9,000 of its request as recorded." in badge["title"]


@pytest.mark.usefixtures("alice")
def test_a_step_is_found_by_any_line_of_its_answer(client: Client, project: Project, tmp_path: Path) -> None:
    """Two calls of one message on lines of their own: neither was in the request that they answer."""
    lines = steps(60_000, 70_000)
    second = {**lines[3], "uuid": "a-2b", "message": {**lines[3]["message"], "content": [tool_use("toolu_2b")]}}
    run = import_session(project, tmp_path, *lines[:4], second, *lines[4:], answers("toolu_2b"))
    for line in (4, 5):
        assert "at the step of line 4" in model_view(client, run, f"?step={line}").select_one("[data-step]").text
    page = model_view(client, run)
    links = [link["href"] for link in page.all_by_role("link", "the context at this step")]
    calls = [f"/calls/{member.call_id}/?run={run.pk}&tab=context" for member in run.members.order_by("ordinal")]
    assert links == calls
    assert [client.get(link, follow=False).url for link in links] == [
        f"/runs/{run.pk}/{number}/context" for number in (1, 2, 3)
    ]
    call = run.members.get(call__external_id="toolu_2b").call
    link = parse_page(client.get(f"/calls/{call.pk}/")).by_role("link", "Its context")
    assert link["href"] == f"/runs/{run.pk}/3/context"


@pytest.mark.usefixtures("alice")
def test_before_a_rewind_the_branch_that_it_left_is_context(client: Client, project: Project, tmp_path: Path) -> None:
    lines = [user("begin", uuid="u1"), {**user("this way", uuid="u2"), CHAIN: "u1"}]
    lines += [{**asks("toolu_01", step="msg_1"), CHAIN: "u2"}, {**answers("toolu_01"), CHAIN: "a-toolu_01"}]
    lines += [{**asks("toolu_02", step="msg_2"), CHAIN: "r-toolu_01"}]
    lines += [{**user("no, that way", uuid="u3"), CHAIN: "u1"}, {**asks("toolu_03", step="msg_3"), CHAIN: "u3"}]
    run = import_session(project, tmp_path, *lines)

    def kinds(step: int) -> list[str]:
        return [entry["data-kind"] for entry in model_view(client, run, f"?step={step}").select(".entry")]

    assert kinds(5) == ["message", "message", "call", "receipt"]
    assert kinds(7) == ["message", "branch", "message"]


def asked(*ids: str) -> dict[str, Any]:
    calls = [{"type": "tool_call", "id": call, "name": "find", "arguments": {"q": call}} for call in ids]
    return {"role": "assistant", "parts": [{"type": "text", "content": f"I look for {ids}."}, *calls]}


def answered(*ids: str) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call, "response": "hit"} for call in ids]}


def trace(*, outputs: bool = True, models: bool = True) -> list[dict[str, Any]]:
    """An agent with two calls at once, and two that begin before the answer that has them has ended."""
    talk = {"gen_ai.conversation.id": "talk"}
    turns = [{"role": "user", "parts": [{"type": "text", "content": "Go."}]}, asked("c1", "c2"), answered("c1", "c2")]
    turns += [
        asked("c3", "c4"),
        answered("c3", "c4"),
        {"role": "assistant", "parts": [{"type": "text", "content": "Done."}]},
    ]
    spans = [span(99, "invoke_agent", talk | {"gen_ai.operation.name": "invoke_agent"}, seconds=0)]
    for number, place in enumerate((1, 3, 5) if models else ()):
        messages = {"gen_ai.input.messages": json.dumps(turns[:place])}
        messages |= {"gen_ai.output.messages": json.dumps(turns[place : place + 1])} if outputs else {}
        counted = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 1_000 * (number + 1)}
        spans.append(span(number + 1, "chat", talk | counted | messages, seconds=10 * number))
    for call, begin in (("c1", 5), ("c2", 6), ("c3", 10), ("c4", 10)):
        named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": call}
        whole = {"gen_ai.tool.call.arguments": json.dumps({"q": call}), "gen_ai.tool.call.result": "hit"}
        spans.append(span(int(call[1:]) + 10, "execute_tool", talk | named | whole, seconds=begin))
    for number, begin in ((-2, 10_200_000_000), (-1, 10_300_000_000)):  # the answer ends at 10.5 seconds
        spans[number]["startTimeUnixNano"] = str(START + begin)
    return spans


FIRST = ["message user"]
SECOND = [*FIRST, "message assistant", "call find", "call find", "receipt find", "receipt find"]
BATCHES: dict[str, list[list[int]]] = {
    "one request": [[0, 1, 2, 3, 4, 5, 6, 7]],
    "one request, in reverse": [[7, 6, 5, 4, 3, 2, 1, 0]],
    "each span": [[number] for number in range(8)],
    "each span, in reverse": [[number] for number in reversed(range(8))],
    "tools before models": [[4, 5], [6, 7], [3], [2, 1], [0]],
    "models before tools": [[0, 3], [1, 2], [6, 4], [7, 5]],
    "pairs": [[1, 6], [2, 5], [3, 4], [0, 7]],
}


@pytest.mark.postgresql("pairs")
@pytest.mark.parametrize("name", BATCHES)
def test_the_context_at_a_step_of_a_trace_is_that_of_its_request(project: Project, name: str) -> None:
    """However its spans are batched: the step is the model span whose answer has the call, not the agent's span."""
    sender = Sender(project)
    for batch in BATCHES[name]:
        sender.post("/v1/traces", json.dumps(request(*(trace()[number] for number in batch))).encode(), JSON)
    contexts = load_contexts(run := Run.objects.get(external_id="talk"))
    kinds = {call: [item.rpartition(" ")[0] for item in items] for call, (_, items) in contexts.items()}
    assert kinds == {"c1": FIRST, "c2": FIRST, "c3": SECOND, "c4": SECOND}
    weights = [recorded.partition(" tokens")[0] for recorded, _ in contexts.values()]
    assert weights == ["The request of this step weighed 1,000", "The request of this step weighed 1,000", "", ""]
    steps = run.own_calls.order_by("external_id").values_list("step", flat=True)
    assert list(steps) == [f"{number:016x}" for number in (1, 1, 2, 2)]


@pytest.mark.parametrize(("outputs", "models"), [(False, True), (True, False)])
def test_a_call_that_no_answer_of_a_trace_has_names_no_request(
    project: Project, *, outputs: bool, models: bool
) -> None:
    """A model's span without its answer, and tools without models: nothing states which request led to a call."""
    sender, spans = Sender(project), trace(outputs=outputs, models=models)
    contexts = []
    for batches in ([spans], [[one] for one in reversed(spans)]):
        for batch in batches:
            sender.post("/v1/traces", json.dumps(request(*batch)).encode(), JSON)
        run = Run.objects.get(external_id="talk")
        contexts.append(load_contexts(run))
        assert {recorded for recorded, _ in contexts[-1].values()} == {""}
        assert set(run.own_calls.values_list("step", flat=True)) == {""}
        delete_run(run)
    assert contexts[0] == contexts[1]

"""Spans of tools without a call id: their results go to the one call that fits, whatever the order of arrival."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.ingest.span_pairs import CONTESTED, PAIRED
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import Call, Note, Observation, Project, Remark, Run
from tests.dashboard.api.sending import Sender, export_all
from tests.dashboard.api.test_traces import (
    PROTOBUF,
    RESULT,
    assert_both_halves,
    openinference,
    protobuf,
    request,
    span,
)
from tests.dashboard.factories import create_project

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
Span = dict[str, Any]


def model(
    number: int,
    seconds: int,
    *,
    made: Sequence[str] = (),
    answered: Sequence[str] = (),
    args: str = '{"q":"x", "n":1}',
) -> Span:
    """A span of the model that calls the tool with equal arguments, and gets earlier receipts."""
    attributes = {"openinference.span.kind": "LLM", "session.id": "talk", "llm.model_name": "m-1"}
    for place, call in enumerate(made):
        start = f"llm.output_messages.0.message.tool_calls.{place}.tool_call."
        attributes |= {
            "llm.output_messages.0.message.role": "assistant",
            f"{start}id": call,
            f"{start}function.name": "search",
            f"{start}function.arguments": args,
        }
    for place, call in enumerate(answered):
        start = f"llm.input_messages.{place}.message."
        attributes |= {f"{start}role": "tool", f"{start}tool_call_id": call, f"{start}content": f"answer to {call}"}
    return span(number, "llm", attributes, seconds=seconds)


def tool(number: int, seconds: int, *, args: str = '{"n": 1, "q": "x"}') -> Span:
    attributes = {
        "openinference.span.kind": "TOOL",
        "session.id": "talk",
        "tool.name": "search",
        "input.value": args,
        "output.value": json.dumps({"of": number}),
    }
    return span(number, "search", attributes, seconds=seconds)


def send(project: Project, spans: Iterable[Span]) -> None:
    sender = Sender(project)
    for one in spans:
        for _ in range(2):
            assert sender.post("/v1/traces", protobuf(request(one)), PROTOBUF).status_code == 200
    project.tokens.all().delete()


def results(project: Project) -> dict[str, Any]:
    """The result of each call, None without one."""
    derive_waiting(project)
    recorded = Observation.objects.filter(surface="result", selected=True)
    values = {row.call_id: json.loads(row.data)["of"] for row in recorded}
    return {call.external_id: values.get(call.pk) for call in Call.objects.filter(project=project)}


def without_call_ids(spans: Iterable[Span]) -> list[Span]:
    return [one | {"attributes": [pair for pair in one["attributes"] if pair["key"] != "tool.id"]} for one in spans]


SEQUENCE = [model(1, 1, made=["c1"]), tool(2, 2), model(3, 3, answered=["c1"])]
REPEATED = [*SEQUENCE[:2], model(3, 3, made=["c2"], answered=["c1"]), tool(4, 4), model(5, 5, answered=["c2"])]
PARALLEL = [model(1, 1, made=["c1", "c2"]), tool(2, 2), tool(3, 2), model(4, 3, answered=["c1", "c2"])]
UNANSWERED = [model(1, 1, made=["c1"]), tool(2, 2), model(3, 3, made=["c2"]), tool(4, 4)]
RAN_TWICE = [*UNANSWERED, tool(5, 5)]
LATER_RIVAL = [model(1, 1, made=["c1"]), tool(2, 2), model(3, 1, made=["c2"]), model(4, 3, answered=["c1"])]
PYTHON = [model(1, 1, made=["c1"]), tool(2, 2, args="{'q': 'x', 'n': 1}"), model(3, 3, answered=["c1"])]
ONE_TEXT = [model(1, 1, made=["c1"], args='{"q": "x"}'), tool(2, 2, args="x"), model(3, 3, answered=["c1"])]
OTHER_TEXT = [model(1, 1, made=["c1"], args='{"q": "x"}'), tool(2, 2, args="y")]
TWO_TEXTS = [model(1, 1, made=["c1"], args='{"q": "x", "p": "x"}'), tool(2, 2, args="x")]
OTHER_VALUE = [model(1, 1, made=["c1"]), tool(2, 2, args="{'q': ('x',), 'n': 1}")]
NO_LITERAL = [model(1, 1, made=["c1"]), tool(2, 2, args="{'q': x, 'n': 1}")]
OTHER_ARGUMENTS = [model(1, 1, made=["c1"]), tool(2, 2, args='{"q": "y"}')]
BEFORE_THE_CALL = [tool(2, 0), model(1, 1, made=["c1"]), model(4, 3, answered=["c1"])]
CASES: dict[str, tuple[list[Span], dict[str, Any], set[str]]] = {
    "one call and one span": (SEQUENCE, {"c1": 2}, {PAIRED}),
    "the same call again": (REPEATED, {"c1": 2, "c2": 4}, {PAIRED}),
    "the same call again, without receipts": (UNANSWERED, {"c1": 2, "c2": 4}, {PAIRED}),
    "one of two calls ran twice": (
        RAN_TWICE,
        {"c1": None, "c2": None, **{f"span {number:016x}": number for number in (2, 4, 5)}},
        {CONTESTED},
    ),
    "two equal calls at once": (
        PARALLEL,
        {"c1": None, "c2": None, f"span {2:016x}": 2, f"span {3:016x}": 3},
        {CONTESTED},
    ),
    "another call that fits": (LATER_RIVAL, {"c1": None, "c2": None, f"span {2:016x}": 2}, {CONTESTED}),
    "arguments as Python writes them": (PYTHON, {"c1": 2}, {PAIRED}),
    "the only argument without its name": (ONE_TEXT, {"c1": 2}, {PAIRED}),
    "another text": (OTHER_TEXT, {"c1": None, f"span {2:016x}": 2}, set()),
    "one of two arguments": (TWO_TEXTS, {"c1": None, f"span {2:016x}": 2}, set()),
    "a Python value that JSON lacks": (OTHER_VALUE, {"c1": None, f"span {2:016x}": 2}, set()),
    "text that only looks like Python": (NO_LITERAL, {"c1": None, f"span {2:016x}": 2}, set()),
    "other arguments": (OTHER_ARGUMENTS, {"c1": None, f"span {2:016x}": 2}, set()),
    "a span before the call": (BEFORE_THE_CALL, {"c1": None, f"span {2:016x}": 2}, set()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_span_belongs_to_the_one_call_that_fits(project: Project, name: str) -> None:
    spans, expected, remarks = CASES[name]
    send(project, spans)
    assert results(project) == expected
    assert set(Remark.objects.filter(kind="pair").values_list("became", flat=True)) == remarks
    run = Run.objects.get(external_id="talk")
    assert run.call_count == len(expected) == run.members.count()


@pytest.mark.extended
@pytest.mark.parametrize("name", CASES)
def test_every_order_of_arrival_gives_the_same_export(project: Project, tmp_path: Path, name: str) -> None:
    spans, expected, _ = CASES[name]
    first: dict[str, bytes] = {}
    orders = itertools.permutations(spans)
    step = 1 if len(spans) < 5 else 5  # of 120 orders 24
    for number, order in enumerate(itertools.islice(orders, 0, None, step)):
        send(project, order)
        assert results(project) == expected, [one["spanId"] for one in order]
        exported = export_all(project, tmp_path / str(number))
        first = first or exported
        assert exported == first
        delete_run(Run.objects.get(external_id="talk"))


def test_the_halves_of_openinference_without_call_ids_are_those_of_one_call(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"".join(json.dumps(request(one)).encode() + b"\n" for one in without_call_ids(openinference())))
    report = import_paths(project, [path])
    assert (report.added["calls"], report.problems) == (1, [])
    assert_both_halves(project)
    assert json.loads(Observation.objects.get(surface="result").data) == RESULT


@pytest.mark.parametrize("write", [protobuf, lambda document: json.dumps(document, indent=1).encode()])
def test_a_pair_of_a_file_is_taken_apart_and_read_again(
    project: Project, tmp_path: Path, write: Callable[[Span], bytes]
) -> None:
    path = tmp_path / "first.pb"
    path.write_bytes(write(request(*LATER_RIVAL[:2])))
    import_paths(project, [path])
    assert results(project) == {"c1": 2}
    send(project, LATER_RIVAL[2:])
    assert results(project) == LATER_RIVAL_RESULTS
    separate = Call.objects.get(external_id=f"span {2:016x}")
    assert (separate.tool, separate.tool_ms, separate.status) == ("search", 500, "success")
    assert Call.objects.get(external_id="c1").tool_ms is None


LATER_RIVAL_RESULTS = CASES["another call that fits"][1]


def test_notes_on_a_span_go_with_its_result(project: Project) -> None:
    send(project, [tool(2, 2)])
    derive_waiting(project)
    Note.objects.create(project=project, call=Call.objects.get(), text="odd")
    send(project, [SEQUENCE[0]])
    assert Note.objects.get().call == Call.objects.get(external_id="c1")


@pytest.mark.parametrize("rivals", [[], [model(4, 0, made=["c0"])]])
def test_a_call_of_which_a_receipt_states_that_it_failed_gets_the_result_of_its_span_too(rivals: list[Span]) -> None:
    """The end that the receipt states stays where another call fits the span as well."""
    answer = json.dumps({"call_id": "c1", "content": "no file", "is_error": True})
    attributes = {"openinference.span.kind": "LLM", "session.id": "talk", "llm.input_messages.0.function.0": answer}
    spans = [model(1, 0, made=["c1"]), tool(2, 1), span(3, "llm", attributes, seconds=2), *rivals]
    for number, order in enumerate(itertools.islice(itertools.permutations(spans), 0, None, 1 + 4 * len(rivals))):
        send(project := create_project(f"order-{number}"), order)
        call = project.calls.get(external_id="c1")
        has_result = call.observations.filter(surface="result").exists()
        assert (call.source_error, has_result) == (True, not rivals), [entry["name"] for entry in order]

"""Tests notifications: the runtime writes them, they have a receipt, and no tool makes one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families import FAMILIES
from envelopes.families.notification import FAMILY
from envelopes.families.notification.results import Delivery, OperatorNotification, notification_outcome
from envelopes.families.registry import builtin, tools
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.result import CompleteOutput
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import resolve

SENT = OperatorNotification(
    notification_id="note_3", agent_id="agent_main", text="Ready.", created_at="2026-05-27T09:30:00Z"
)


def recorded(notification: OperatorNotification) -> CompleteOutput:
    summary = notification_outcome(notification)
    return CompleteOutput(tool_name="OperatorNotification", status="success", summary_text=summary, result=notification)


def receipt_text(complete: CompleteOutput, limit: int = FAMILY.rendering.characters) -> str:
    canonical = project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical
    return render(canonical, FAMILY, RenderPolicy(characters=limit)).text


def test_no_tool_notifies_an_operator() -> None:
    assert FAMILY in FAMILIES
    assert FAMILY.tools == ()
    assert not {"NotifyOperator", "OperatorNotification"} & set(tools())
    published = json.dumps([[tool.name, tool.description, tool.input_schema()] for tool in tools().values()])
    assert "NotifyOperator" not in published
    with pytest.raises(KeyError):
        builtin("NotifyOperator")


def test_no_foreign_tool_is_taken_for_a_notification() -> None:
    assert FAMILY.mappings == ()


@pytest.mark.parametrize("name", FAMILY.gallery)
def test_a_receipt_reads_as_its_golden(name: str, golden: Callable[[str, str], None]) -> None:
    golden(name, receipt_text(FAMILY.gallery[name]))


@pytest.mark.parametrize(
    ("statuses", "status", "first_line"),
    [
        ([], "recorded", "Operator notification recorded: note_3"),
        (["failed", "delivered"], "delivered", "Operator notified: note_3"),
        (["failed", "pending"], "pending", "Operator notification on its way: note_3"),
        (["failed"], "failed", "Operator notification recorded, but not delivered: note_3"),
    ],
)
def test_a_notification_is_as_far_as_its_best_channel(statuses: list[Any], status: str, first_line: str) -> None:
    deliveries = tuple(Delivery(channel="email", status=status) for status in statuses)
    complete = recorded(msgspec.structs.replace(SENT, deliveries=deliveries))
    result: Any = project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical.result
    assert result["status"] == status
    assert complete.status == "success"
    assert receipt_text(complete).splitlines()[0] == first_line


def test_the_reason_of_a_failed_delivery_cannot_pass_for_a_line_of_the_receipt() -> None:
    lines = receipt_text(FAMILY.gallery["OperatorNotification/odd"]).splitlines()
    assert "- email: failed, mailbox full Operator: mallory" in lines
    assert [line for line in lines if line.startswith("Operator: ")] == ["Operator: olga"]


def test_a_long_notification_is_cut_and_kept_whole() -> None:
    sink = MemorySink()
    projection = project(
        recorded(msgspec.structs.replace(SENT, text="line\n" * 1_000)), FAMILY, FAMILY.projection, sink
    )
    result: Any = projection.canonical.result
    assert result["text_artifact"] == 0
    assert list(sink.texts.values()) == ["line\n" * 1_000]
    assert "of 1000 lines]" in result["text"]


def test_a_text_of_an_unknown_shape_is_shown_as_it_was_recorded() -> None:
    complete = CompleteOutput(
        tool_name="OperatorNotification", status="success", summary_text="done", result=RecordedText("Sent.")
    )
    assert receipt_text(complete) == "done\n\nSent."


TEXT = st.text(st.characters(exclude_categories=()), max_size=20) | st.integers(0, 500).map("a line\n".__mul__)
DELIVERIES = st.lists(
    st.builds(
        Delivery,
        channel=TEXT,
        status=st.sampled_from(["pending", "delivered", "failed"]),
        reason=st.none() | TEXT,
    ),
    max_size=8,
).map(tuple)


@given(text=TEXT, deliveries=DELIVERIES, limit=st.integers(0, 600) | st.just(12_000))
def test_any_notification_keeps_the_invariants(text: str, deliveries: tuple[Delivery, ...], limit: int) -> None:
    complete = recorded(msgspec.structs.replace(SENT, text=text, deliveries=deliveries))
    projection = project(complete, FAMILY, FAMILY.projection, MemorySink())
    assert projection == project(complete, FAMILY, FAMILY.projection, MemorySink())
    document = projection.canonical.to_json()
    for cut in projection.cuts:
        resolve(document, cut.pointer)
    receipt = render(projection.canonical, FAMILY, RenderPolicy(characters=limit))
    assert len(receipt.text) <= limit
    for segment in receipt.segments:
        if segment.source is not None and segment.source.start is not None:
            whole = resolve(document, segment.source.pointer)
            assert isinstance(whole, str)
            assert whole[segment.source.start : segment.source.end] == segment.text

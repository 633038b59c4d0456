"""Notifications to an operator: records that the runtime owns (RFC-103, TOOLS-009).

    OperatorNotification   what an operator was told, and how its delivery went

No model calls this family: it defines no tool, so nothing of it is in the registry of tools or in the
inventory (TOOLS-010, spec/model.md E-16). The runtime writes such a record itself and may show its
receipt to the model. A delivery that failed is a verdict inside a success: the notification is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from envelopes.alignment.lenient_structs import RecordedObject, RecordedText
from envelopes.families.base import Family, Projector, ResultMembers, project_by_type
from envelopes.families.segments import (
    headline,
    item_lines,
    label,
    member_line,
    receipt_renderer,
    text_block,
    text_value,
    value,
)
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.follow_up_handles import to_members
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult, JsonValue, summarize

RECORD = "OperatorNotification"  # what stands in `tool_name`; no tool has this name
REASON_CHARACTERS = 200


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt over one channel. Times are ISO 8601 with zone."""

    channel: str
    status: Literal["pending", "delivered", "failed"]
    attempted_at: str | None = None
    reason: str | None = None


class OperatorNotification(msgspec.Struct, frozen=True, kw_only=True):
    notification_id: str
    agent_id: str
    text: str
    operator: str | None = None
    work_item_id: str | None = None
    created_at: str
    deliveries: tuple[Delivery, ...] = ()


def notification_outcome(found: OperatorNotification) -> str:
    return summarize(f"Notification {found.notification_id} {_state(found)}")


def _state(found: OperatorNotification) -> str:
    """The best that any channel reached; without a channel the record is all there is."""
    reached = {delivery.status for delivery in found.deliveries}
    return next((state for state in ("delivered", "pending", "failed") if state in reached), "recorded")


def _notification(found: OperatorNotification, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    deliveries: list[JsonValue] = [to_members(delivery) for delivery in found.deliveries]
    shown = projector.items("deliveries", deliveries, policy)
    return {
        "notification_id": found.notification_id,
        "status": _state(found),
        "agent_id": found.agent_id,
        "operator": found.operator,
        "work_item_id": found.work_item_id,
        "created_at": found.created_at,
        **projector.text("text", found.text, policy.details, role="notification"),
        **{name: _with_short_reasons(member, projector) for name, member in shown.items()},
    }


def _with_short_reasons(deliveries: JsonValue, projector: Projector) -> JsonValue:
    if not isinstance(deliveries, list):
        return deliveries
    return [
        {**delivery, "reason": projector.line(f"deliveries/{index}/reason", _line(reason), REASON_CHARACTERS)}
        if (reason := RecordedObject(delivery).text("reason")) is not None
        else delivery
        for index, delivery in enumerate(deliveries)
    ]


def _line(text: str) -> str:
    return " ".join(text.split())


_HEADLINES = {
    "delivered": "Operator notified: ",
    "pending": "Operator notification on its way: ",
    "failed": "Operator notification recorded, but not delivered: ",
    "recorded": "Operator notification recorded: ",
}


def _body(canonical: CanonicalResult) -> Iterator[Segment]:
    status = RecordedObject(canonical.result).text("status")
    if status is None:
        yield headline(canonical.summary_text)
        yield from text_block(canonical, "/result/text")
        return
    yield headline(_HEADLINES.get(status, _HEADLINES["recorded"]), "/result/status")
    yield value(canonical, "/result/notification_id")
    yield from member_line(canonical, "Operator", "/result/operator")
    yield from member_line(canonical, "Work item", "/result/work_item_id")
    yield from item_lines(canonical, "/result/deliveries", _delivery)
    yield from text_block(canonical, "/result/text", "Text")


def _delivery(delivery: JsonValue, pointer: str) -> Iterator[Segment]:
    found = RecordedObject(delivery)
    for mark, member in (("- ", "channel"), (": ", "status"), (", ", "reason")):
        if text := found.text(member):
            yield label(mark)
            yield text_value(text, f"{pointer}/{member}")


FAMILY = Family(
    name="notification",
    title="Notifications to operators",
    results=(OperatorNotification, RecordedText),
    project=project_by_type({OperatorNotification: _notification}),
    renderers={"receipt": receipt_renderer(_body, details=(("Agent", "agent_id"),))},
    examples=Path(__file__).with_name("examples.json"),
)

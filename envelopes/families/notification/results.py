"""A notification to an operator and its bounded form. `OperatorNotification` stands in `tool_name`; no tool has it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from envelopes.families.base import Projection, Projector, ResultMembers
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import JsonValue, summarize, to_members

REASON_CHARACTERS = 200


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt over one channel. Times are ISO 8601 with zone."""

    channel: str
    status: Literal["pending", "delivered", "failed"]
    attempted_at: str | None = None
    reason: str | None = None


class OperatorNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A message to an operator and the attempts to deliver it."""

    notification_id: str
    agent_id: str
    text: str
    operator: str | None = None
    work_item_id: str | None = None
    created_at: str
    deliveries: tuple[Delivery, ...] = ()

    @property
    def status(self) -> str:
        """The best that any channel reached; without a channel the record is all there is."""
        reached = {delivery.status for delivery in self.deliveries}
        return next((status for status in ("delivered", "pending", "failed") if status in reached), "recorded")


def notification_outcome(result: OperatorNotification) -> str:
    return summarize(f"Notification {result.notification_id} {result.status}")


def _project_notification(
    result: OperatorNotification, projector: Projector, policy: ProjectionPolicy
) -> ResultMembers:
    deliveries: list[JsonValue] = [to_members(delivery) for delivery in result.deliveries]
    listed: dict[str, Any] = projector.items("deliveries", deliveries, policy)
    text = projector.text("text", result.text, policy.details, role="notification")
    for index, delivery in enumerate(listed["deliveries"]):
        if "reason" in delivery:
            field = f"deliveries/{index}/reason"
            delivery["reason"] = projector.one_line(field, delivery["reason"], REASON_CHARACTERS)
    return {
        "notification_id": result.notification_id,
        "status": result.status,
        "agent_id": result.agent_id,
        "operator": result.operator,
        "work_item_id": result.work_item_id,
        "created_at": result.created_at,
        **text,
        **listed,
    }


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {OperatorNotification: _project_notification}

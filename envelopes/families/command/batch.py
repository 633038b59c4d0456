"""A sequential batch of commands, whole, and its bounded projection (spec/tools.md, ExecCommandBatch).

Canonical `result`:

    item_count, completed_count, failed_count, rejected_count, skipped_count, stop_on_error
    items  [{index (from 1), cmd, cmd_digest, status, result?, error_kind?, error_message?, duration_ms?}]

An item's `result` is nested as ExecCommand has it; artifact indices in it point into the envelope's
one list. All previews of a batch share one budget, evenly over the streams that are not empty.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.families.base import Projector, ResultMembers
from envelopes.families.command.results import CommandResult, command_members, shares, wanted
from envelopes.schema.budget import ProjectionPolicy
from envelopes.text.command_preview import preview_command

ItemStatus: TypeAlias = Literal["completed", "failed", "rejected", "skipped"]

MOST_ITEMS = 12
MESSAGE_CHARACTERS = 400
SKIPPED = "skipped_after_previous_error"
COUNTED: tuple[ItemStatus, ...] = ("completed", "failed", "rejected", "skipped")


class BatchItem(msgspec.Struct, frozen=True, kw_only=True):
    """One command of a batch. A non-zero exit is failed; a command over its window was killed and failed.

    `duration_ms` is wall time. Rejected: refused before it ran; skipped: an earlier one did not complete.
    """

    cmd: str
    status: ItemStatus
    result: CommandResult | None = None
    error_kind: str | None = None
    error_message: str | None = None
    duration_ms: int | None = None


class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    items: tuple[BatchItem, ...]
    stop_on_error: bool = False

    def count(self, status: ItemStatus) -> int:
        return sum(item.status == status for item in self.items)


def batch_outcome(batch: BatchResult) -> str:
    """The summary of a batch."""
    others = [f"{batch.count(status)} {status}" for status in COUNTED[1:] if batch.count(status)]
    return f"batch completed {batch.count('completed')}/{len(batch.items)} commands" + "".join(
        f", {other}" for other in others
    )


def project_batch(batch: BatchResult, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    shown = batch.items[:MOST_ITEMS]
    asked = [wanted(item.result) if item.result else [] for item in shown]
    limits = iter(shares([length for one in asked for length in one], policy.preview))
    items: list[Any] = [
        _item(number, item, [next(limits) for _ in own], projector, policy)
        for number, (item, own) in enumerate(zip(shown, asked, strict=True), start=1)
    ]
    omitted = len(batch.items) - len(shown)
    if omitted:
        projector.rows("items", [item.status for item in batch.items], MOST_ITEMS)
    counts = {f"{status}_count": batch.count(status) for status in COUNTED}
    members: ResultMembers = {"item_count": len(batch.items), **counts, "stop_on_error": batch.stop_on_error}
    return members | {"items": items} | ({"items_omitted": omitted} if omitted else {})


def _item(
    number: int, item: BatchItem, limits: list[int], projector: Projector, policy: ProjectionPolicy
) -> dict[str, Any]:
    text = preview_command(item.cmd)
    members = {
        "index": number,
        "cmd": text.preview,
        "cmd_digest": text.digest,
        "status": item.status,
        "result": _nested(number, item.result, limits, projector, policy),
        "error_kind": item.error_kind,
        "error_message": _message(number, item.error_message, projector),
        "duration_ms": item.duration_ms,
    }
    return {name: value for name, value in members.items() if value is not None}


def _nested(
    number: int, result: CommandResult | None, limits: list[int], projector: Projector, policy: ProjectionPolicy
) -> ResultMembers | None:
    if result is None:
        return None
    at, role = f"items/{number - 1}/result/", f"command-{number}-"
    return command_members(result, projector, limits, policy, at=at, role=role)


def _message(number: int, message: str | None, projector: Projector) -> str | None:
    field = f"items/{number - 1}/error_message"
    return message and projector.line(field, " ".join(message.split()), MESSAGE_CHARACTERS)

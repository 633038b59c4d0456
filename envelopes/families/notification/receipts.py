"""The receipt of a notification: whether it reached the operator, each delivery, and its text."""

from __future__ import annotations

from collections.abc import Iterable

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.indented_values import with_indented_values
from envelopes.families.segments import (
    headline,
    item_lines,
    marked_values,
    member_lines,
    receipt_renderer,
    text_block,
    value,
)
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult, JsonValue

HEADLINES = {
    "delivered": "Operator notified: ",
    "pending": "Operator notification on its way: ",
    "failed": "Operator notification recorded, but not delivered: ",
    "recorded": "Operator notification recorded: ",
}


@with_indented_values
def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    status = RecordedObject(canonical.result).text("status")
    if status is None:
        yield headline(canonical.summary_text)
        yield from text_block(canonical, "/result/text")
        return
    yield headline(HEADLINES.get(status, HEADLINES["recorded"]), "/result/status")
    yield value(canonical, "/result/notification_id")
    yield from member_lines(canonical, (("Operator", "operator"), ("Work item", "work_item_id")))
    yield from item_lines(canonical, "/result/deliveries", _delivery)
    yield from text_block(canonical, "/result/text", "Text")


def _delivery(delivery: JsonValue, pointer: str) -> Iterable[Segment]:
    return marked_values(RecordedObject(delivery), pointer, (("- ", "channel"), (": ", "status"), (", ", "reason")))


receipt = receipt_renderer(_body, details=(("Agent", "agent_id"),))

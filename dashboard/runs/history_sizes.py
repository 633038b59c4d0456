"""The places and the tokens of the messages and the calls of a run, of which a page counts all and shows a few.

What stands in every request (the system prompt, the definitions of tools) replaces the one of its kind before it: its
tokens are the difference, so that a sum over all of them is what stands at the end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.db.models.functions import Coalesce

from dashboard.models import Message
from dashboard.models.fields import UUIDDigits
from envelopes.recordings.base import STANDING_KINDS
from envelopes.text.tokens import CHARACTERS_PER_TOKEN

PLACE = Coalesce("start", 0)  # of a message among those of its line
NOT_COUNTED = (Message.Delivery.WITHHELD, Message.Delivery.UNCLEAR)


class HistorySize(NamedTuple):
    """`kind` is that of the message, or its role; None for a call and for what was not sent.

    `is_added`: no message, but what the client added to them. `start` is where a message begins in its source.
    """

    line: int
    key: str  # hexadecimal
    tokens: int
    kind: str | None = None
    is_added: bool = False
    start: int = 0

    @property
    def is_standing(self) -> bool:
        return self.kind in STANDING_KINDS


def count_tokens(delivery: str, tokens: int, size: int) -> int:
    """Those of a message in the context: by its size, where it was stored without a count; 0 where it was not sent."""
    return 0 if delivery in NOT_COUNTED else tokens or size // CHARACTERS_PER_TOKEN


def load_message_sizes(rows: QuerySet[Message]) -> list[HistorySize]:
    """Returns the sizes of the messages in their order."""
    sizes, standing = [], dict[str, int]()
    columns = ("line", "place", "hex", "role", "kind", "delivery", "tokens", "size")
    stored: Any = rows.annotate(hex=UUIDDigits("id"), place=PLACE).order_by().values_list(*columns)
    for line, start, key, role, kind, delivery, tokens, size in sorted(stored):
        counted = count_tokens(delivery, tokens, size)
        if kind in STANDING_KINDS:
            counted, standing[kind] = counted - standing.get(kind, 0), counted
        is_added = bool(kind) and kind not in STANDING_KINDS
        shown = None if delivery in NOT_COUNTED else kind or role
        sizes.append(HistorySize(line, key, counted, shown, is_added, start))
    return sizes


def load_call_sizes(rows: QuerySet[Any]) -> list[HistorySize]:
    """In order. The tokens of the arguments, by their size."""
    stored = rows.annotate(hex=UUIDDigits("call_id")).order_by().values_list("ordinal", "hex", "call__args_bytes")
    return [HistorySize(line, key, size // CHARACTERS_PER_TOKEN) for line, key, size in sorted(stored)]


class AddedText(NamedTuple):
    """A text that the client added; `answer` is the line of the model's last answer before it, -1 without one."""

    line: int
    answer: int
    kind: str


def find_added(messages: Sequence[HistorySize], calls: Iterable[HistorySize]) -> list[AddedText]:
    added = [size for size in messages if size.is_added]
    if not added:
        return []
    answers = sorted(
        {-1, *(size.line for size in calls), *(size.line for size in messages if size.kind == "assistant")}
    )
    return [AddedText(size.line, answers[bisect_left(answers, size.line) - 1], size.kind or "") for size in added]


def weigh_standing(sizes: Iterable[HistorySize], line: int | None = None) -> dict[str, int]:
    """The tokens of what stands in every request from before `line`, or at the end, by kind."""
    tokens: dict[str, int] = {}
    for size in sizes:
        if size.kind in STANDING_KINDS and (line is None or size.line < line):
            tokens[size.kind] = tokens.get(size.kind, 0) + size.tokens
    return tokens

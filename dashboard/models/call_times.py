"""The times of a call: the tool's own, and what was waiting, as far as the recording tells them apart.

A recording has the time from the call to its answer (`duration_ms`), in which an agent may have waited for a person's
permission, and of some tools their own measure (`tool_ms`). Of a question to a person, and of a refusal that names one
(`is_waiting`), all of it was waiting. Of any other call without a measure nothing tells how much was.
"""

from __future__ import annotations

from django.db.models import BigIntegerField, Case, F, Value, When
from django.db.models.functions import Coalesce


class CallTimes:
    """The two times of a row of calls."""

    duration_ms: int | None
    tool_ms: int | None
    is_waiting: bool

    @property
    def own_ms(self) -> int | None:
        """The tool's own time, or all of the time where nothing tells how much of it was waiting.

        None for a call that waited for a person: how long anything ran in that time is unknown.
        """
        if self.is_waiting:
            return None
        return self.duration_ms if self.tool_ms is None else self.tool_ms

    @property
    def wait_ms(self) -> int | None:
        """The part of the duration that was not the tool's own work; None when that was not measured."""
        if self.duration_ms is None:
            return None
        if self.is_waiting:
            return self.duration_ms
        return None if self.tool_ms is None else max(0, self.duration_ms - self.tool_ms)


def own_time(prefix: str = "") -> Case:
    """`own_ms` as an expression; `prefix` leads to the call. An index of calls has it in these words."""
    measured = Coalesce(f"{prefix}tool_ms", f"{prefix}duration_ms")
    return Case(When(**{f"{prefix}is_waiting": True}, then=None), default=measured)


def waiting_time(prefix: str = "") -> Case:
    """`wait_ms` as an expression."""
    took, own = F(f"{prefix}duration_ms"), F(f"{prefix}tool_ms")
    return Case(
        When(**{f"{prefix}is_waiting": True}, then=took),
        When(**{f"{prefix}duration_ms__lt": own}, then=Value(0)),
        default=took - own,
        output_field=BigIntegerField(),
    )

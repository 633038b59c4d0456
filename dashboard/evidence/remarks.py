"""Loads the remarks of a run or a call for its page: values that were changed, left out or assumed on import."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.models import Call, Remark, Run
from dashboard.text.masks import mask_value

MAX_REMARKS = 50


@dataclass(frozen=True)
class RemarkList:
    """The first remarks in the order of the recording; `total` counts all of them."""

    rows: Sequence[Remark] = ()
    total: int = 0

    @property
    def omitted(self) -> int:
        return self.total - len(self.rows)


def load_remarks(run: Run, call: Call | None = None) -> RemarkList:
    """Those of a call in that run, or all of the run's."""
    if not run.remark_count:
        return RemarkList()
    remarks = Remark.objects.filter(run=run)
    if call is not None:
        remarks = remarks.filter(call=call.pk)
    rows = list(remarks.order_by("line", "kind", "pk")[: MAX_REMARKS + 1])
    total = remarks.count() if len(rows) > MAX_REMARKS else len(rows)
    for row in rows:  # the value alone does not show that it is that of a password
        row.was = mask_value(re.split(r"[/.]", row.path)[-1], row.was)
    return RemarkList(rows[:MAX_REMARKS], total)

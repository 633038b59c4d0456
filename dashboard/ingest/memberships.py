"""Which runs a call stands in, as a batch tells it. Called by `recording` within its transaction, and by nothing else.

A call that only its answer has told of stands in the run of that answer, at its line, until its own line
is met: then it stands where that says, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from dashboard.ingest.bulk import fresh, insert
from dashboard.ingest.grouping import Drafts
from dashboard.ingest.merge import CallRows
from dashboard.models import RunCall


def write(drafts: Drafts, rows: Mapping[UUID, CallRows], run_id: Callable[[str], UUID]) -> list[RunCall]:
    members = [
        fresh(
            RunCall,
            run_id=run_id(run),
            call_id=key,
            ordinal=one.line,
            inherited=one.inherited or rows[key].call.run_id != run_id(run),
        )
        for (run, key), one in drafts.members.items()
    ]
    met = {call for _, call in drafts.members}
    orphans = [key for key, row in rows.items() if row.is_new and key not in met]
    members += [
        fresh(RunCall, run_id=rows[key].call.run_id, call_id=key, ordinal=rows[key].call.line) for key in orphans
    ]
    insert(RunCall, members, ignore_known=True)
    return members


def leave_answers_runs(rows: Mapping[UUID, CallRows]) -> set[UUID]:
    """The runs that held calls whose own line is met only now; their counts have to follow."""
    found = [key for key, row in rows.items() if row.was_answer_alone and row.call.tool]
    if not found:
        return set()
    held = RunCall.objects.filter(call__in=found)
    runs = set(held.values_list("run_id", flat=True))
    held.delete()
    return runs

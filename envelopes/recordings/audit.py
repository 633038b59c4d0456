"""The audit layout of a plan executor: a folder of four files, and receipts where there are any.

    run.json        one document: the plan, the policy snapshot, the confirmation
    calls.jsonl     ToolCall, one a line
    results.jsonl   ToolResult, one a line
    events.jsonl    ExecutionEvent, one a line
    receipts.jsonl  receipts as native records (snake case)

Fields are camelCase. Each file is read by itself: `runId` in every object ties them together. What a
record has no place for is kept in `extra`; nothing is left out.
"""

from __future__ import annotations

from envelopes.recordings.base import Format

FORMATS: tuple[Format, ...] = ()

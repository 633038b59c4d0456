"""Kilo Code's task, which is OpenCode's that it is a fork of, and its own tools, whose receipts are sentences."""

from __future__ import annotations

import msgspec

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedText, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.families.agent import opencode

AGENT = "kilo-code"
SENTENCES = (
    *("board_post", "board_read", "cron_create", "cron_delete", "cron_list", "schedule_wakeup", "cancel_wakeup"),
    *("goal", "kilo_local_recall", "link_pr", "question", "skill", "suggest", "plan_enter", "plan_exit"),
)


def _read_sentence(evidence: Evidence) -> Reading:
    """The receipt; what is recorded beside it are ids and counts."""
    if failure := read_failure(evidence):
        return failure
    text = evidence.receipt_text or ""
    summary = text[:1_000].partition("\n")[0] or f"{evidence.tool} returned no text"
    return reading(evidence, RecordedText(text), summary, links={}, fidelity="parsed_from_receipt")


MAPPINGS = (
    *(msgspec.structs.replace(mapping, agent=AGENT) for mapping in opencode.MAPPINGS),
    ToolMapping(agent=AGENT, tools=SENTENCES, version=1, read=_read_sentence, align=align_failure),
)

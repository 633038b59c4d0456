"""Inspect's bash and python: one text for the model, which is also the recorded result, cut where it was too long."""

from __future__ import annotations

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import align_untyped
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.spans import Span
from envelopes.families.command.claude_code import read_text


def _read_output(evidence: Evidence) -> Reading:
    return read_failure(evidence) or read_text(evidence)


def _align_output(evidence: Evidence, text: str) -> list[Span]:
    return align_failure(evidence, text) if evidence.is_error else align_untyped(evidence, text)


MAPPINGS = (
    ToolMapping(
        agent="inspect-ai", tools=("bash", "python", "bash_session"), version=1, read=_read_output, align=_align_output
    ),
)

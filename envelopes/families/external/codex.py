"""Codex's code mode: `exec` runs a program, and `wait` waits for one that runs on.

No result is recorded. The receipt begins with how the program ended, and its error is behind its output:

    Script completed / Wall time 0.1 seconds / Output: / the output
    Script failed / Wall time 0.1 seconds / Output: / the output / Script error: / the error
    Script terminated, after a `wait` whose argument `terminate` is true; Script running with cell ID 3
"""

from __future__ import annotations

import re

import msgspec

from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.source_cuts import find_receipt_cuts
from envelopes.families.external.any_agent import FALLBACK_MAPPING
from envelopes.schema.result import summarize

HEADER = re.compile(
    r"(?P<sentence>Script (?P<end>completed|failed|terminated|running)[^\n]*)\n"
    r"Wall time:? [\d.]+ seconds\nOutput:(?:\n|\Z)"
)
SUMMARY_CHARACTERS = 400


def _read_script(evidence: Evidence) -> Reading:
    """Reads a program that failed or was terminated as an error. A `wait` that was to terminate it did so."""
    text = evidence.receipt_text or ""
    header = HEADER.match(text)
    if header is None or evidence.result is not None:
        return FALLBACK_MAPPING.read(evidence)
    is_asked = RecordedObject(evidence.args).flag("terminate") is True
    is_failure = header["end"] == "failed" or (header["end"] == "terminated" and not is_asked)
    failure = read_failure(msgspec.structs.replace(evidence, is_error=True)) if is_failure else None
    if failure is not None:
        cuts = failure.source_cuts + find_receipt_cuts(text)
        return msgspec.structs.replace(failure, source_cuts=cuts)
    read = FALLBACK_MAPPING.read(evidence)
    printed = text[header.end() : header.end() + SUMMARY_CHARACTERS].strip().partition("\n")[0]
    is_over = header["end"] == "completed" and bool(printed)
    summary = summarize(printed if is_over else header["sentence"])
    complete = msgspec.structs.replace(read.complete, summary_text=summary)
    return msgspec.structs.replace(read, build=lambda: complete)


MAPPINGS = (
    ToolMapping(agent="codex", tools=("exec", "wait"), version=2, read=_read_script, align=FALLBACK_MAPPING.align),
)

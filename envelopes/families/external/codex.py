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

ENDED = re.compile(r"Script (?P<end>failed|terminated)\nWall time:? [\d.]+ seconds\nOutput:(?:\n|\Z)")


def _read_script(evidence: Evidence) -> Reading:
    """Reads a program that failed or was terminated as an error. A `wait` that was to terminate it did so."""
    ended = ENDED.match(evidence.receipt_text or "")
    is_asked = RecordedObject(evidence.args).flag("terminate") is True and ended is not None
    if ended is None or evidence.result is not None or (is_asked and ended["end"] == "terminated"):
        return FALLBACK_MAPPING.read(evidence)
    failure = read_failure(msgspec.structs.replace(evidence, is_error=True))
    if failure is None:
        return FALLBACK_MAPPING.read(evidence)
    cuts = failure.source_cuts + find_receipt_cuts(evidence.receipt_text or "")
    return msgspec.structs.replace(failure, source_cuts=cuts)


MAPPINGS = (
    ToolMapping(agent="codex", tools=("exec", "wait"), version=1, read=_read_script, align=FALLBACK_MAPPING.align),
)

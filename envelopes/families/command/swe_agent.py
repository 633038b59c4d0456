"""The commands of SWE-agent, and where their receipts come from.

SWE-agent runs its tools (`open`, `edit`, `find_file` …) as commands in one shell. The recorded result is the raw
observation, one text without an exit code. Its receipt is that text in a template, which names the open file and the
folder behind it; a long one ends in `<response clipped>`.
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.spans import Span
from envelopes.families.command.claude_code import read_text

SHELL_TOOLS = (
    *("bash", "open", "goto", "scroll_up", "scroll_down", "create", "edit", "insert", "find_file", "search_dir"),
    *("search_file", "filemap", "submit", "exit_forfeit"),
)
CLIPPED = re.compile(r"(?:…|\.\.\.)?<response clipped>")
LEAST_OUTPUT = 3  # characters: a shorter one occurs in a template by chance


def _read_observation(evidence: Evidence) -> Reading:
    return read_failure(evidence) or read_text(evidence)


def _align_observation(evidence: Evidence, text: str) -> list[Span]:
    """Links the observation where the receipt has it whole, or its beginning up to the mark of a clip."""
    observation = evidence.result
    if not isinstance(observation, str) or not observation.strip():
        return align_failure(evidence, text)
    start = len(observation) - len(observation.lstrip())
    core = observation.strip()
    at = 0 if text.lstrip().startswith(core) and len(core) < LEAST_OUTPUT else text.find(core)
    if at >= 0 and (len(core) >= LEAST_OUTPUT or text.lstrip().startswith(core)):
        at = text.find(core)
        is_certain = text.find(core, at + 1) < 0 or not text[:at].strip()
        return [Span(at, at + len(core), "", start, start + len(core))] if is_certain else []
    clipped = CLIPPED.search(text)
    if clipped is None:
        return []
    shown = text[: clipped.start()]
    first = observation[: len(shown)]
    return [Span(0, len(shown), "", 0, len(shown))] if shown and shown == first else []


MAPPINGS = (
    ToolMapping(agent="swe-agent", tools=SHELL_TOOLS, version=2, read=_read_observation, align=_align_observation),
)

"""The commands of SWE-agent, and where their receipts come from.

SWE-agent runs its tools (`open`, `edit`, `find_file` …) as commands in one shell. The recorded result is the raw
observation, one text without an exit code. Its receipt is that text in a template, which may begin with `Observation:`
and names the open file and the folder behind it; a long one ends in `<response clipped>`.
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.spans import Span, match_once
from envelopes.families.command.claude_code import read_text

SHELL_TOOLS = (
    *("bash", "open", "goto", "scroll_up", "scroll_down", "create", "edit", "insert", "find_file", "search_dir"),
    *("search_file", "filemap", "submit", "exit_forfeit"),
)
LABEL = re.compile(r"\s*(?:Observation:|OBSERVATION:\n)\s*")
CLIPPED = re.compile(r"(?:…|\.\.\.)?(?P<mark><response clipped>)")
LEAST_OUTPUT = 3  # characters: a shorter one occurs in a template by chance


def _read_observation(evidence: Evidence) -> Reading:
    return read_failure(evidence) or read_text(evidence)


def _align_observation(evidence: Evidence, text: str) -> list[Span]:
    """Links the observation where the receipt has it whole, or its beginning up to the mark of a clip.

    Its place is the beginning of the receipt, behind a label. Anywhere else it has to occur once.
    """
    observation = evidence.result
    if not isinstance(observation, str) or not observation.strip():
        return align_failure(evidence, text)
    start = len(observation) - len(observation.lstrip())
    core = observation.strip()
    label = LABEL.match(text)
    places = [*([label.end()] if label else []), len(text) - len(text.lstrip())]
    for at in places:
        if text.startswith(core, at) and not _goes_on(text, at + len(core)):
            return [Span(at, at + len(core), "", start, start + len(core))]
    if len(core) >= LEAST_OUTPUT and (span := match_once(text, core, "")):
        return [Span(span.start, span.end, "", start, start + len(core))]
    ends = [end for mark in CLIPPED.finditer(text) for end in (mark.start("mark"), mark.start())]
    for at in places:
        for end in sorted(ends, reverse=True):
            if at < end and observation.startswith(text[at:end], start):
                return [Span(at, end, "", start, start + end - at)]
    return []


def _goes_on(text: str, end: int) -> bool:
    """True where a word or a number continues behind this character."""
    return text[end - 1 : end].isalnum() and text[end : end + 1].isalnum()


MAPPINGS = (
    ToolMapping(agent="swe-agent", tools=SHELL_TOOLS, version=3, read=_read_observation, align=_align_observation),
)

"""The commands of Terminus, keys that it sends to a terminal, and what the terminal showed after them.

There is no exit code. What the terminal showed may have lines of earlier commands, and ends before a command that
still runs has ended. Of more than 10,000 bytes the middle is left out.
"""

from __future__ import annotations

from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import align_untyped
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.families.command.claude_code import read_text


def _read_screen(evidence: Evidence) -> Reading:
    return read_failure(evidence) or read_text(evidence)


MAPPINGS = (
    ToolMapping(agent="terminus-2", tools=("bash_command",), version=1, read=_read_screen, align=align_untyped),
)

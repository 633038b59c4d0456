"""Commands: Claude Code's Bash and relatives, and the shape that our own ExecCommand will fill.

results      the typed result and its bounded projection
receipts     the text that the model gets
claude_code  what Claude Code recorded, read
alignment    what Claude Code told the model, traced back
samples      outputs to look at
"""

from __future__ import annotations

from envelopes.families.base import Facet, Family
from envelopes.families.command.alignment import align_background, align_command
from envelopes.families.command.claude_code import read_background, read_command
from envelopes.families.command.receipts import command_receipt
from envelopes.families.command.results import CommandResult, project_command
from envelopes.families.command.samples import SAMPLES
from envelopes.foreign import ForeignTool

FAMILY = Family(
    name="command",
    title="Commands",
    results=(CommandResult,),
    project=project_command,
    renderers={"receipt": command_receipt},
    foreign=(
        ForeignTool(
            agent="claude-code", tools=("Bash", "PowerShell"), version=1, read=read_command, align=align_command
        ),
        ForeignTool(
            agent="claude-code", tools=("BashOutput",), version=1, read=read_background, align=align_background
        ),
    ),
    facets=(
        Facet("stdout", "/result/stdout_preview", "terminal"),
        Facet("stderr", "/result/stderr_preview", "terminal"),
        Facet("Output", "/result/combined_output_preview", "terminal"),
        Facet("Initial output", "/result/initial_output_preview", "terminal"),
        Facet("Outcome", "/result/exit_status", "text"),
    ),
    samples=SAMPLES,
)

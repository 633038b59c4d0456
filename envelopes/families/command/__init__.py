"""Commands: ExecCommand and ExecCommandBatch, and Claude Code's Bash and relatives.

tools         the definitions of the built-in tools
results       the typed result of one command and its bounded projection
batch         the same of a batch
output_tokens how much output a caller asks for
receipts      the text that the model gets
streams       how an output stream is shown, by variant
laid_out      JSON laid out for reading
claude_code   what Claude Code recorded, read
alignment     what Claude Code told the model, traced back
samples       outputs to look at
gallery       those of the built-in tools, by tool and sort
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from envelopes.alignment.mapping import ToolMapping
from envelopes.families.base import Family, Projected, Projection, Projector
from envelopes.families.command.alignment import align_background, align_command
from envelopes.families.command.batch import BatchResult, project_batch
from envelopes.families.command.claude_code import read_background, read_command
from envelopes.families.command.receipts import RENDERERS
from envelopes.families.command.results import CommandResult, RunningCommand, project_command, project_running
from envelopes.families.command.tools import TOOLS
from envelopes.lint.rules import must_mention
from envelopes.schema.budget import ProjectionPolicy
from envelopes.storage.file_store import ArtifactSink

_PROJECTIONS: dict[type[msgspec.Struct], Projection] = {
    CommandResult: project_command,
    RunningCommand: project_running,
    BatchResult: project_batch,
}


def project_any(result: msgspec.Struct, policy: ProjectionPolicy, sink: ArtifactSink) -> Projected:
    """Nulls stay: an empty stream has a null preview (RFC-123)."""
    projector = Projector(sink)
    return projector.done(_PROJECTIONS[type(result)](result, projector, policy))


FAMILY = Family(
    name="command",
    title="Commands",
    results=(CommandResult, RunningCommand, BatchResult),
    project=project_any,
    renderers=RENDERERS,
    tools=TOOLS,
    mappings=(
        ToolMapping(
            agent="claude-code", tools=("Bash", "PowerShell"), version=2, read=read_command, align=align_command
        ),
        ToolMapping(
            agent="claude-code", tools=("BashOutput",), version=1, read=read_background, align=align_background
        ),
    ),
    lint=(
        must_mention("task_unsaid", "which task runs the command", "/result/task_handle/task_id"),
        must_mention("saved_output_unsaid", "where the whole output was saved", "/result/saved_output/path"),
    ),
    examples=Path(__file__).with_name("examples.json"),
)

"""Files: ApplyPatch, and Claude Code's Read, Edit, MultiEdit, Write and NotebookEdit.

tools           the definition of the built-in tool
results         the typed results and their bounded projection
patch           the same of a patch
receipts        the text that the model gets
patch_receipts  the same of a patch, and of a failure
claude_code     what Claude Code recorded, read
alignment       what Claude Code told the model, traced back
samples         outputs to look at
gallery         those of the built-in tool, by sort
"""

from __future__ import annotations

from pathlib import Path

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.alignment.mapping import ToolMapping
from envelopes.families.base import Family
from envelopes.families.file.alignment import align_change, align_notebook_edit, align_read
from envelopes.families.file.claude_code import read_change, read_file, read_notebook_edit
from envelopes.families.file.patch import PatchResult
from envelopes.families.file.receipts import file_receipt
from envelopes.families.file.results import FileChange, FileRead, project_file
from envelopes.families.file.tools import TOOLS

_CHANGES = ("Edit", "MultiEdit", "Write")

FAMILY = Family(
    name="file",
    title="Files",
    results=(FileRead, FileChange, PatchResult, RecordedText),
    project=project_file,
    renderers={"receipt": file_receipt},
    tools=TOOLS,
    mappings=(
        ToolMapping(agent="claude-code", tools=("Read",), version=1, read=read_file, align=align_read),
        ToolMapping(agent="claude-code", tools=_CHANGES, version=1, read=read_change, align=align_change),
        ToolMapping(
            agent="claude-code",
            tools=("NotebookEdit",),
            version=1,
            read=read_notebook_edit,
            align=align_notebook_edit,
        ),
    ),
    examples=Path(__file__).with_name("examples.json"),
)

"""Files: reads and changes, for Claude Code's Read, Edit, MultiEdit, Write and NotebookEdit.

results      the typed results and their bounded projection
receipts     the text that the model gets
claude_code  what Claude Code recorded, read
alignment    what Claude Code told the model, traced back
samples      outputs to look at
"""

from __future__ import annotations

from envelopes.families.base import Facet, Family
from envelopes.families.file.alignment import align_change, align_notebook_edit, align_read
from envelopes.families.file.claude_code import read_change, read_file, read_notebook_edit
from envelopes.families.file.receipts import file_receipt
from envelopes.families.file.results import FileChange, FileRead, project_file
from envelopes.families.file.samples import SAMPLES
from envelopes.foreign import ForeignTool
from envelopes.recorded import RecordedText

_CHANGES = ("Edit", "MultiEdit", "Write")

FAMILY = Family(
    name="file",
    title="Files",
    results=(FileRead, FileChange, RecordedText),
    project=project_file,
    renderers={"receipt": file_receipt},
    foreign=(
        ForeignTool(agent="claude-code", tools=("Read",), version=1, read=read_file, align=align_read),
        ForeignTool(agent="claude-code", tools=_CHANGES, version=1, read=read_change, align=align_change),
        ForeignTool(
            agent="claude-code",
            tools=("NotebookEdit",),
            version=1,
            read=read_notebook_edit,
            align=align_notebook_edit,
        ),
    ),
    facets=(
        Facet("Diff", "/result/diff_preview", "diff"),
        Facet("Content", "/result/content_preview", "code"),
        Facet("Image", "/result/image", "image"),
        Facet("Text", "/result/text", "text"),
    ),
    samples=SAMPLES,
)

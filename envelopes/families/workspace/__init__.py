"""Workspaces: UseWorkspace, a short confirmation with the names that the next call needs (RFC-103, RFC-104)."""

from __future__ import annotations

from pathlib import Path

from envelopes.families.base import Family, project_by_type
from envelopes.families.workspace.receipts import receipt
from envelopes.families.workspace.results import PROJECTIONS, WorkspaceResult, workspace_outcome
from envelopes.families.workspace.tools import TOOLS

FAMILY = Family(
    name="workspace",
    title="Workspaces",
    results=tuple(PROJECTIONS),
    project=project_by_type(PROJECTIONS),
    renderers={"receipt": receipt},
    versions={"receipt": 5},
    tools=TOOLS,
    outcomes={WorkspaceResult: workspace_outcome},
    examples=Path(__file__).with_name("examples.json"),
)

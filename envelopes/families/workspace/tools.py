"""The definition of UseWorkspace."""

from __future__ import annotations

from typing import Any, ClassVar

from envelopes.families.workspace.results import WorkspaceMode, WorkspaceResult
from envelopes.schema.tool import NonEmpty, ToolDefinition, ToolInput

AGENT_HOME = "agent_home"


class UseWorkspaceInput(ToolInput, frozen=True, kw_only=True):
    trimmed: ClassVar[tuple[str, ...]] = ("path", "workspace_id", "cwd", "isolation_label")

    path: NonEmpty | None = None
    workspace_id: NonEmpty | None = None
    mode: WorkspaceMode | None = "direct"
    cwd: NonEmpty | None = None
    isolation_label: NonEmpty | None = None

    def check(self) -> None:
        if (self.path is None) == (self.workspace_id is None):
            raise ValueError("workspace_id: give exactly one of path and workspace_id")
        if self.mode == "isolated" and self.workspace_id == AGENT_HOME:
            raise ValueError(f"mode: {AGENT_HOME} can only be used direct")


EXAMPLES: tuple[dict[str, Any], ...] = (
    {"path": "/srv/ledger"},
    {"workspace_id": "ws_ledger", "mode": "isolated", "isolation_label": "fix-totals", "cwd": "api"},
)
COUNTER_EXAMPLES: tuple[dict[str, Any], ...] = (
    {"path": "/srv/ledger", "workspace_id": "ws_ledger"},
    {"mode": "direct"},
    {"workspace_id": AGENT_HOME, "mode": "isolated"},
    {"path": "/srv/ledger", "execution_root": "/srv"},
)
_GIVEN = {"type": "string"}
_NOT_GIVEN = {"type": "null"}
CONDITIONS: dict[str, Any] = {
    "oneOf": [
        {"required": [given], "properties": {given: _GIVEN, other: _NOT_GIVEN}}
        for given, other in (("path", "workspace_id"), ("workspace_id", "path"))
    ],
    "not": {
        "required": ["workspace_id", "mode"],
        "properties": {"workspace_id": {"const": AGENT_HOME}, "mode": {"const": "isolated"}},
    },
}
USE_WORKSPACE = ToolDefinition(
    name="UseWorkspace",
    capability="local_environment",
    planes=("workspace",),
    risk="writes",
    path_args=("/path", "/cwd"),
    effects=("switch-workspace",),
    destructive=False,
    is_mutation=True,
    description=(
        "Switch the active workspace. Give exactly one of path, a folder, and workspace_id, one that is known. mode "
        "direct uses its own root, shared and read; isolated makes a git worktree for you alone, to write in, with the "
        "files of the last commit; with an isolation_label the same one is used again. "
        f"{AGENT_HOME} can only be used direct. cwd is a folder below the root. Later "
        "commands and patches start from the cwd that the result names."
    ),
    input=UseWorkspaceInput,
    result=(WorkspaceResult,),
    error_kinds=("invalid_tool_input", "execution_root_violation", "unsupported_runtime_capability"),
    result_only=("workspace_anchor", "execution_root", "projection_kind"),
    hint="give exactly one of path, an existing folder, and workspace_id, a known workspace",
    conditions=CONDITIONS,
    examples=EXAMPLES,
    counter_examples=COUNTER_EXAMPLES,
)
TOOLS = (USE_WORKSPACE,)

"""Workspaces: UseWorkspace, a small confirmation with the names that the next call needs (RFC-103, RFC-104).

Canonical `result` (RFC-034), all of it bounded by its nature:

    workspace_id, workspace_anchor, execution_root, cwd, mode: direct | isolated, projection_kind

direct is the canonical root, shared and read; isolated is a git worktree of its own, exclusive and
written. Paths are as the runtime shows them to the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from envelopes.families.base import Family, Projector, ResultMembers, project_by_type
from envelopes.families.segments import headline, label, member_line, receipt_renderer, value
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult
from envelopes.schema.tool import NonEmpty, ToolDefinition, ToolInput

Mode: TypeAlias = Literal["direct", "isolated"]

AGENT_HOME = "agent_home"
PATH_CHARACTERS = 4_096  # no path is longer, and a shortened one is of no use to the next call
LINES = (("Cwd", "cwd"), ("Execution root", "execution_root"), ("Anchor", "workspace_anchor"))
ACCESS = {"direct": ": shared, for reading)", "isolated": ": yours alone, for writing)"}


class WorkspaceResult(msgspec.Struct, frozen=True, kw_only=True):
    workspace_id: str
    workspace_anchor: str
    execution_root: str
    cwd: str
    mode: Mode
    projection_kind: str


class UseWorkspaceInput(ToolInput, frozen=True, kw_only=True):
    trimmed: ClassVar[tuple[str, ...]] = ("path", "workspace_id", "cwd", "isolation_label")

    path: NonEmpty | None = None
    workspace_id: NonEmpty | None = None
    mode: Mode | None = "direct"
    cwd: NonEmpty | None = None
    isolation_label: NonEmpty | None = None

    def check(self) -> None:
        if (self.path is None) == (self.workspace_id is None):
            raise ValueError("workspace_id: give exactly one of path and workspace_id")
        if self.mode == "isolated" and self.workspace_id == AGENT_HOME:
            raise ValueError(f"mode: {AGENT_HOME} can only be used direct")


def _project(result: WorkspaceResult, projector: Projector, _policy: ProjectionPolicy) -> ResultMembers:
    members: dict[str, Any] = msgspec.to_builtins(result)
    return {name: projector.line(name, text, PATH_CHARACTERS) for name, text in members.items()}


def _receipt(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline("Using workspace ", "/result/workspace_id")
    yield value(canonical, "/result/workspace_id")
    yield label(" (")
    yield value(canonical, "/result/mode")
    yield label(ACCESS.get(_mode(canonical), ")"))
    for title, member in LINES:
        yield from member_line(canonical, title, f"/result/{member}")
    yield from member_line(canonical, "Projection", "/result/projection_kind")


def _mode(canonical: CanonicalResult) -> str:
    mode = canonical.result.get("mode") if isinstance(canonical.result, dict) else None
    return mode if isinstance(mode, str) else ""


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
    is_mutation=True,
    description=(
        "Switch the active workspace. Give exactly one of path, a folder, and workspace_id, one that is known. mode "
        "direct uses its own root, shared and read; isolated makes a git worktree for you alone, to write in, and "
        f"may be given an isolation_label. {AGENT_HOME} can only be used direct. cwd is a folder below the root. Later "
        "commands and patches start from the cwd that the result names."
    ),
    input=UseWorkspaceInput,
    result=(WorkspaceResult,),
    error_kinds=("invalid_tool_input",),
    result_only=("workspace_anchor", "execution_root", "projection_kind"),
    hint="give exactly one of path, an existing folder, and workspace_id, a known workspace",
    conditions=CONDITIONS,
    examples=EXAMPLES,
    counter_examples=COUNTER_EXAMPLES,
)


FAMILY = Family(
    name="workspace",
    title="Workspaces",
    results=(WorkspaceResult,),
    project=project_by_type({WorkspaceResult: _project}),
    renderers={"receipt": receipt_renderer(_receipt, details=(("Field", "field"),))},
    tools=(USE_WORKSPACE,),
    examples=Path(__file__).with_name("examples.json"),
)

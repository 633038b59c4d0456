"""The result of UseWorkspace and its bounded form.

Canonical `result` (RFC-034), all of it bounded by its nature:

    workspace_id, workspace_anchor, execution_root, cwd, mode: direct | isolated, projection_kind

direct is the canonical root, shared and read; isolated is a git worktree of its own, exclusive and
written. Paths are as the runtime shows them to the model.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.families.base import Projection, Projector, ResultMembers
from envelopes.schema.budget import ProjectionPolicy

WorkspaceMode: TypeAlias = Literal["direct", "isolated"]

PATH_CHARACTERS = 4_096  # no path is longer, and a shortened one is of no use to the next call


class WorkspaceResult(msgspec.Struct, frozen=True, kw_only=True):
    workspace_id: str
    workspace_anchor: str
    execution_root: str
    cwd: str
    mode: WorkspaceMode
    projection_kind: str


def _project_workspace(result: WorkspaceResult, projector: Projector, _policy: ProjectionPolicy) -> ResultMembers:
    members: dict[str, Any] = msgspec.to_builtins(result)
    return {name: projector.line(name, text, PATH_CHARACTERS) for name, text in members.items()}


def workspace_outcome(result: WorkspaceResult) -> str:
    return f"using workspace {result.workspace_id} ({result.mode})"


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {WorkspaceResult: _project_workspace}

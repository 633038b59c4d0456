"""What ApplyPatch changed, whole, and its bounded projection (spec/tools.md, ApplyPatch).

Canonical `result` (RFC-033: changed paths and receipt metadata, never the files):

    changed_files [{action: add | modify | delete | move, path, from_path?}], changed_paths, changed_file_count
    ignored_metadata [{path, kind, value}]   git's lines that were accepted and not applied
    diagnostics [{path, kind, message}]      what was odd in a patch that could be applied

The last two are there only when there is something to say. `changed_file_count` counts every file;
where the list was cut, `changed_files_omitted` says by how much and `changed_files_artifact` holds
a line for each file.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.families.base import Projector, ResultMembers
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import summarize

PatchAction: TypeAlias = Literal["add", "modify", "delete", "move"]

PATHS_CHARACTERS = 4_000  # RFC-115: paths and actions; a receipt names the paths once more
NOTES_CHARACTERS = 2_000
MESSAGE_CHARACTERS = 300
DIAGNOSTIC_ROWS = 20
MARKS: dict[str, str] = {"add": "A", "modify": "M", "delete": "D", "move": "R"}
SUMMARY_DIAGNOSTICS = 3


class PatchedFile(msgspec.Struct, frozen=True, kw_only=True):
    """`from_path` is where a moved file was before."""

    action: PatchAction
    path: str
    from_path: str | None = None

    @property
    def line(self) -> str:
        moved = f"{self.from_path} -> " if self.from_path is not None else ""
        return f"{MARKS[self.action]} {moved}{self.path}"


class IgnoredMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A git header that changes nothing here, `kind` as index, similarity, old_mode, new_mode."""

    path: str
    kind: str
    value: str


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    kind: str
    message: str


class PatchResult(msgspec.Struct, frozen=True, kw_only=True):
    changed_files: tuple[PatchedFile, ...]
    ignored_metadata: tuple[IgnoredMetadata, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def patch_outcome(patch: PatchResult) -> str:
    """The summary: each file with its mark, and the first three diagnostics, as far as 200 characters go."""
    files = ", ".join(f"{MARKS[file.action]}:{file.path}" for file in patch.changed_files)
    said = "; ".join(one.message for one in patch.diagnostics[:SUMMARY_DIAGNOSTICS])
    return summarize(f"applied patch to {files or 'no file'}{f'; diagnostics: {said}' if said else ''}")


def project_patch(patch: PatchResult, policy: ProjectionPolicy, projector: Projector) -> ResultMembers:
    files = _listed("changed_files", patch.changed_files, PATHS_CHARACTERS, policy, projector)
    shown: list[Any] = files["changed_files"]
    if "changed_files_omitted" in files:
        everything = "".join(f"{file.line}\n" for file in patch.changed_files)
        files["changed_files_artifact"] = projector.store("changed-files", everything)
    members: ResultMembers = files | {
        "changed_paths": [file["path"] for file in shown],
        "changed_file_count": len(patch.changed_files),
    }
    if patch.ignored_metadata:
        members |= _listed("ignored_metadata", patch.ignored_metadata, NOTES_CHARACTERS, policy, projector)
    if patch.diagnostics:
        members |= _diagnostics(patch.diagnostics, policy, projector)
    return members


def _diagnostics(found: tuple[Diagnostic, ...], policy: ProjectionPolicy, projector: Projector) -> dict[str, Any]:
    """Which ones are listed depends on paths and kinds alone; each message is shortened by itself."""
    places = tuple(msgspec.structs.replace(one, message="") for one in found)
    policy = msgspec.structs.replace(policy, rows=min(policy.rows, DIAGNOSTIC_ROWS))
    members = _listed("diagnostics", places, NOTES_CHARACTERS, policy, projector)
    for number, row in enumerate(members["diagnostics"]):
        message = " ".join(found[number].message.split())
        row["message"] = projector.line(f"diagnostics/{number}/message", message, MESSAGE_CHARACTERS)
    return members


def _listed(
    field: str, items: tuple[msgspec.Struct, ...], characters: int, policy: ProjectionPolicy, projector: Projector
) -> dict[str, Any]:
    policy = msgspec.structs.replace(policy, preview=min(policy.preview, characters))
    return projector.items(field, [_members(item) for item in items], policy)


def _members(item: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(item).items() if value is not None}

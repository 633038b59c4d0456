"""The results of reading, changing and patching files, and their bounded forms.

Canonical `result` of a read:

    path, content_preview (null: no text), start_line, line_count, total_lines, truncated
    kind      where it is no plain text: image, notebook, pdf, pages, unchanged
    image     {media_type, size, width, height} of an image; the pixels stay with the evidence

of a change (RFC-033: changed paths and receipt metadata, never the file):

    changed_files [{action: add | modify | delete, path}], changed_paths, changed_file_count,
    additions, deletions (null: no patch was recorded), user_modified, replaced_all, diff_preview

of a patch that ApplyPatch applied (spec/tools.md):

    changed_files [{action: add | modify | delete | move, path, from_path?}], changed_paths, changed_file_count
    ignored_metadata [{path, kind, value}]?   git's lines that were accepted and not applied
    diagnostics [{path, kind, message}]?      what was odd in a patch that could be applied

`content_artifact` and `diff_artifact` index into `artifacts` and are there only for a preview that was cut.
`total_lines` beyond `line_count` means that only a part of the file was asked for. `changed_file_count` counts every
file; where the list was cut, `changed_files_artifact` has a line for each file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.base import Projection, Projector, ResultMembers, pick, without_nulls
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import summarize

ReadKind: TypeAlias = Literal["text", "image", "notebook", "pdf", "pages", "unchanged"]
ChangeAction: TypeAlias = Literal["add", "modify", "delete"]
PatchAction: TypeAlias = Literal["add", "modify", "delete", "move"]

DIFF_SHARE = 2  # a diff gets half of the preview budget: the caller knows the text that it asked to change
PATHS_CHARACTERS = 4_000  # RFC-115: paths and actions; a receipt names the paths once more
NOTES_CHARACTERS = 2_000
MESSAGE_CHARACTERS = 300
DIAGNOSTIC_ROWS = 20
MARKS: dict[str, str] = {"add": "A", "modify": "M", "delete": "D", "move": "R"}
SUMMARY_DIAGNOSTICS = 3


class FileImage(msgspec.Struct, frozen=True, kw_only=True):
    """`size` in bytes of the original file."""

    media_type: str | None = None
    size: int | None = None
    width: int | None = None
    height: int | None = None


class FileContent(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a file that a tool read. `start_line` counts from 1; None: the source did not record it."""

    path: str
    kind: ReadKind = "text"
    content: str = ""
    start_line: int | None = None
    line_count: int | None = None
    total_lines: int | None = None
    image: FileImage | None = None
    size: int | None = None


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """One hunk of a unified diff; each line has its mark (blank, +, -, backslash) in front."""

    old_start: int = 0
    old_lines: int = 0
    new_start: int = 0
    new_lines: int = 0
    lines: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        header = f"@@ -{self.old_start},{self.old_lines} +{self.new_start},{self.new_lines} @@"
        return "\n".join((header, *self.lines)) + "\n"


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """`content` is the whole new text of a file that was written at once; `hunks` None: no patch was recorded."""

    path: str
    action: ChangeAction = "modify"
    hunks: tuple[Hunk, ...] | None = None
    content: str = ""
    user_modified: bool | None = None
    replaced_all: bool | None = None


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


def patch_outcome(result: PatchResult) -> str:
    """The summary: each file with its mark, and the first three diagnostics, as far as 200 characters go."""
    files = ", ".join(f"{MARKS[file.action]}:{file.path}" for file in result.changed_files)
    messages = "; ".join(diagnostic.message for diagnostic in result.diagnostics[:SUMMARY_DIAGNOSTICS])
    return summarize(f"applied patch to {files or 'no file'}{f'; diagnostics: {messages}' if messages else ''}")


def _project_content(result: FileContent, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    preview, artifact = projector.preview("content_preview", result.content, policy.preview, role="content")
    extras = {
        "kind": None if result.kind == "text" else result.kind,
        "image": msgspec.to_builtins(result.image),
        "size": result.size,
        "content_artifact": artifact,
    }
    return {
        "path": result.path,
        "content_preview": preview if result.kind in ("text", "notebook") else None,
        **pick(result, "start_line", "line_count", "total_lines"),
        "truncated": artifact is not None,
        **without_nulls(extras),
    }


def _project_change(result: FileChange, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """Created files are shown as a diff too: their lines behind plus signs."""
    created = result.content.removesuffix("\n").split("\n") if result.content else []
    is_new = result.action == "add"
    diff = "".join(hunk.text for hunk in result.hunks or ())
    if is_new and not result.hunks:
        diff = "".join(f"+{line}\n" for line in created)
    marks = [line[:1] for hunk in result.hunks or () for line in hunk.lines]
    counts = (None, None) if result.hunks is None else (marks.count("+"), marks.count("-"))
    additions, deletions = (len(created), 0) if is_new else counts
    preview, artifact = projector.preview("diff_preview", diff, policy.preview // DIFF_SHARE, role="diff")
    return {
        "changed_files": [pick(result, "action", "path")],
        "changed_paths": [result.path],
        "changed_file_count": 1,
        "additions": additions,
        "deletions": deletions,
        "user_modified": result.user_modified,
        "diff_preview": preview or None,
        "truncated": artifact is not None,
        **without_nulls({"replaced_all": result.replaced_all or None, "diff_artifact": artifact}),
    }


def _project_patch(result: PatchResult, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    members = _list_items("changed_files", result.changed_files, PATHS_CHARACTERS, policy, projector)
    if "changed_files_omitted" in members:
        lines = "".join(f"{file.line}\n" for file in result.changed_files)
        members["changed_files_artifact"] = projector.store("changed-files", lines)
    members |= {
        "changed_paths": [file["path"] for file in members["changed_files"]],
        "changed_file_count": len(result.changed_files),
    }
    if result.ignored_metadata:
        members |= _list_items("ignored_metadata", result.ignored_metadata, NOTES_CHARACTERS, policy, projector)
    if result.diagnostics:
        # Paths and kinds alone decide which ones are listed; each message is shortened by itself.
        places = [msgspec.structs.replace(diagnostic, message="") for diagnostic in result.diagnostics]
        few = msgspec.structs.replace(policy, rows=min(policy.rows, DIAGNOSTIC_ROWS))
        members |= _list_items("diagnostics", places, NOTES_CHARACTERS, few, projector)
        for index, row in enumerate(members["diagnostics"]):
            message = result.diagnostics[index].message
            row["message"] = projector.one_line(f"diagnostics/{index}/message", message, MESSAGE_CHARACTERS)
    return members


def _list_items(
    field: str, items: Sequence[msgspec.Struct], characters: int, policy: ProjectionPolicy, projector: Projector
) -> dict[str, Any]:
    rows = [without_nulls(msgspec.to_builtins(item)) for item in items]
    return projector.items(field, rows, policy, characters=characters)


def _project_text(result: RecordedText, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return projector.text("text", result.text, policy.preview, role="text")


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {
    FileContent: _project_content,
    FileChange: _project_change,
    PatchResult: _project_patch,
    RecordedText: _project_text,
}

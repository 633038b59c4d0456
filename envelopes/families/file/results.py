"""What reading or changing a file produced, whole, and the bounded projection.

Canonical `result` of a read:

    path, content_preview (null: no text), start_line, line_count, total_lines, truncated
    kind      where it is no plain text: image, notebook, pdf, pages, unchanged
    image     {media_type, size, width, height} of an image; the pixels stay with the evidence

of a change (RFC-033: changed paths and receipt metadata, never the file):

    changed_files [{action: add | modify | delete, path}], changed_paths, changed_file_count,
    additions, deletions (null: no patch was recorded), user_modified, replaced_all, diff_preview

`content_artifact` and `diff_artifact` index into `artifacts` and are there only for a preview that
was cut. `total_lines` beyond `line_count` says that only a part of the file was asked for.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.alignment.lenient_structs import RecordedText
from envelopes.families.base import Projected, Projector
from envelopes.families.file.patch import PatchResult, project_patch
from envelopes.schema.budget import ProjectionPolicy
from envelopes.storage.file_store import ArtifactSink

Kind: TypeAlias = Literal["text", "image", "notebook", "pdf", "pages", "unchanged"]
Action: TypeAlias = Literal["add", "modify", "delete"]

DIFF_SHARE = 2  # a diff gets half of the preview budget: who asked for the change knows its text


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """`size` in bytes of the original file."""

    media_type: str | None = None
    size: int | None = None
    width: int | None = None
    height: int | None = None


class FileRead(msgspec.Struct, frozen=True, kw_only=True):
    """`start_line` counts from 1. None: the source did not say."""

    path: str
    kind: Kind = "text"
    content: str = ""
    start_line: int | None = None
    line_count: int | None = None
    total_lines: int | None = None
    image: Image | None = None
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
        place = f"@@ -{self.old_start},{self.old_lines} +{self.new_start},{self.new_lines} @@"
        return "\n".join((place, *self.lines)) + "\n"


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """`content` is the whole new text of a file that was written at once; `hunks` None: no patch was recorded."""

    path: str
    action: Action = "modify"
    hunks: tuple[Hunk, ...] | None = None
    content: str = ""
    user_modified: bool | None = None
    replaced_all: bool | None = None


def project_file(result: msgspec.Struct, policy: ProjectionPolicy, sink: ArtifactSink) -> Projected:
    projector = Projector(sink)
    match result:
        case FileRead():
            return projector.done(_read(result, policy, projector))
        case FileChange():
            return projector.done(_changed(result, policy, projector))
        case PatchResult():
            return projector.done(project_patch(result, policy, projector))
        case RecordedText(text=text):
            return projector.done(projector.text("text", text, policy.preview, role="text"))
    raise TypeError(f"{type(result).__name__} is no result of the file family")


def diff_text(change: FileChange) -> str:
    """The patch as text; of a file that was created, its lines behind plus signs."""
    if change.hunks:
        return "".join(hunk.text for hunk in change.hunks)
    if change.action == "add":
        return "".join(f"+{line}\n" for line in _lines(change.content))
    return ""


def counts(change: FileChange) -> tuple[int | None, int | None]:
    """Added and removed lines."""
    if change.action == "add":
        return len(_lines(change.content)), 0
    if change.hunks is None:
        return None, None
    marks = [line[:1] for hunk in change.hunks for line in hunk.lines]
    return marks.count("+"), marks.count("-")


def _read(read: FileRead, policy: ProjectionPolicy, projector: Projector) -> dict[str, Any]:
    shown, artifact = projector.preview("content_preview", read.content, policy.preview, role="content")
    has_text = read.kind in ("text", "notebook")
    return {
        "path": read.path,
        "content_preview": shown if has_text else None,
        "start_line": read.start_line,
        "line_count": read.line_count,
        "total_lines": read.total_lines,
        "truncated": artifact is not None,
    } | _present(
        kind=None if read.kind == "text" else read.kind,
        image=msgspec.to_builtins(read.image),
        size=read.size,
        content_artifact=artifact,
    )


def _changed(change: FileChange, policy: ProjectionPolicy, projector: Projector) -> dict[str, Any]:
    additions, deletions = counts(change)
    shown, artifact = projector.preview("diff_preview", diff_text(change), policy.preview // DIFF_SHARE, role="diff")
    return {
        "changed_files": [{"action": change.action, "path": change.path}],
        "changed_paths": [change.path],
        "changed_file_count": 1,
        "additions": additions,
        "deletions": deletions,
        "user_modified": change.user_modified,
        "diff_preview": shown or None,
        "truncated": artifact is not None,
    } | _present(replaced_all=change.replaced_all or None, diff_artifact=artifact)


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]

"""The results of reading, changing and patching files, and their bounded forms.

Canonical `result` of a read:

    path, content_preview (null: no text), start_line, line_count, total_lines, truncated
    kind      where it is no plain text: image, notebook, pdf, pages, unchanged
    image     {media_type, size, width, height} of an image; the pixels stay with the evidence

of a change (RFC-033: changed paths and receipt metadata, never the file):

    changed_files [{action: add | modify | delete, path}], changed_paths, changed_file_count,
    additions, deletions (null: no patch was recorded), user_modified, replaced_all, diff_preview

of a patch that ApplyPatch applied:

    changed_files [{action: add | modify | delete | move, path, from_path?}], changed_paths, changed_file_count
    ignored_metadata [{path, kind, value}]?   git's lines that were accepted and not applied
    diagnostics [{path, kind, message}]?      what was odd in a patch that could be applied

of a part of an artifact that ReadArtifact read:

    path, line (the first), column?, line_count, total_lines, laid_out?, text, next_line?, next_column?
    or, of a search in it: path, total_lines, match_count, matches [{line, column, text}], next_line?

`content_artifact` and `diff_artifact` index into `artifacts` and are there only for a preview that was cut.
`total_lines` beyond `line_count` means that only a part of the file was asked for. `changed_file_count` counts every
file; where the list was cut, `changed_files_artifact` has a line for each file, and `diagnostics_artifact` and
`ignored_metadata_artifact` one for each note where the receipt does not show all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.alignment.lenient_structs import RecordedObject, RecordedText
from envelopes.families.base import Projection, Projector, ResultMembers, count_noun, pick, without_nulls
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import JsonValue, ToolError, summarize

ReadKind: TypeAlias = Literal["text", "image", "notebook", "pdf", "pages", "unchanged"]
ChangeAction: TypeAlias = Literal["add", "modify", "delete"]
PatchAction: TypeAlias = Literal["add", "modify", "delete", "move"]

DIFF_SHARE = 2  # a diff gets half of the preview budget: the caller knows the text that it asked to change
PATHS_CHARACTERS = 4_000  # RFC-115: paths and actions; a receipt names the paths once more
NOTES_CHARACTERS = 2_000
MESSAGE_CHARACTERS = 300
DIAGNOSTIC_ROWS = 20
SHOWN_NOTES = 8  # of a receipt
MARKS: dict[str, str] = {"add": "A", "modify": "M", "delete": "D", "move": "R"}
SUMMARY_DIAGNOSTICS = 3
MOST_CHARACTERS = 20_000  # of one slice of an artifact
MOST_LINES = 2_000
SHOWN_LINES = 200
SHOWN_MATCHES = 20
MATCH_CHARACTERS = 200


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


class ArtifactSlice(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of an artifact. `line` and `column` count from 1 and are where `text` begins.

    `next_line` and `next_column` are where the next slice begins; None at the end. `laid_out`: the artifact is JSON on
    one line, and its lines are those of its layout.
    """

    path: str
    line: int = 1
    column: int = 1
    text: str
    total_lines: int
    next_line: int | None = None
    next_column: int | None = None
    laid_out: bool = False


class ArtifactMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A line with the text that was looked for, or of a long line what is around it, from `column` on."""

    line: int
    column: int = 1
    text: str


class ArtifactMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The first lines of an artifact that contain a text. `match_count` counts all of them from the line on."""

    path: str
    total_lines: int
    match_count: int
    matches: tuple[ArtifactMatch, ...] = ()
    next_line: int | None = None


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


def summarize_read(path: str, line_count: int | None) -> str:
    return f"read {path}" if line_count is None else f"read {count_noun(line_count, 'line')} of {path}"


def summarize_folder(path: str, entries: int) -> str:
    return f"listed {count_noun(entries, 'entry', 'entries')} of {path}"


def slice_outcome(result: ArtifactSlice) -> str:
    shown = result.text.count("\n") + (not result.text.endswith("\n")) if result.text else 0
    if not shown:
        return summarize(f"{result.path} is empty")
    lines = f"line {result.line}" if shown == 1 else f"lines {result.line} to {result.line + shown - 1}"
    return summarize(f"{result.path}: {lines} of {result.total_lines}")


def matches_outcome(result: ArtifactMatches) -> str:
    return summarize(f"{result.path}: {result.match_count} of {result.total_lines} lines matched")


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
    if notes := result.ignored_metadata:
        members |= _list_items("ignored_metadata", notes, NOTES_CHARACTERS, policy, projector)
        texts = [f"{note.path}: {note.kind} {note.value}\n" for note in notes]
        members |= _store_notes("ignored_metadata", texts, projector)
    if result.diagnostics:
        # Paths and kinds alone decide which ones are listed; each message is shortened by itself.
        places = [msgspec.structs.replace(diagnostic, message="") for diagnostic in result.diagnostics]
        few = msgspec.structs.replace(policy, rows=min(policy.rows, DIAGNOSTIC_ROWS))
        members |= _list_items("diagnostics", places, NOTES_CHARACTERS, few, projector)
        for index, row in enumerate(members["diagnostics"]):
            message = result.diagnostics[index].message
            row["message"] = projector.one_line(f"diagnostics/{index}/message", message, MESSAGE_CHARACTERS)
        texts = [f"{note.path}: {note.kind}: {note.message}\n" for note in result.diagnostics]
        members |= _store_notes("diagnostics", texts, projector)
    return members


def _store_notes(field: str, notes: Sequence[str], projector: Projector) -> dict[str, Any]:
    """`<field>_artifact` with all notes, where the receipt or the envelope lacks some or a part of one."""
    pointer = f"/result/{field}"
    is_cut = any(f"{cut.pointer}/".startswith(f"{pointer}/") for cut in projector.cuts)
    if not is_cut and len(notes) <= SHOWN_NOTES:
        return {}
    return {f"{field}_artifact": projector.store(field.replace("_", "-"), "".join(notes))}


def _project_slice(result: ArtifactSlice, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """The artifact itself holds the rest, so nothing is written."""
    budget = MOST_CHARACTERS if policy.keeps_promises else policy.preview
    text, _ = projector.excerpt("text", result.text, budget)
    if policy.keeps_promises:
        projector.promise("text")
    return {
        **pick(result, "path", "line"),
        "column": result.column if result.column > 1 else None,
        "line_count": result.text.count("\n") + (not result.text.endswith("\n")) if result.text else 0,
        "total_lines": result.total_lines,
        "laid_out": result.laid_out or None,
        "text": text,
        **pick(result, "next_line", "next_column"),
        "effective_max_chars": budget,
    }


def _project_matches(result: ArtifactMatches, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    build = partial(_project_match, projector)
    listed: dict[str, Any] = projector.build_items("matches", result.matches, policy, build)
    shown = len(listed["matches"])
    is_cut = shown < len(result.matches)
    return {
        **pick(result, "path", "total_lines", "match_count"),
        **listed,
        "next_line": result.matches[shown].line if is_cut else result.next_line,
    }


def _project_match(projector: Projector, match: ArtifactMatch, field: str) -> JsonValue:
    return {**pick(match, "line", "column"), "text": projector.one_line(f"{field}/text", match.text, MATCH_CHARACTERS)}


def granted_characters(result: JsonValue) -> int:
    """The characters of text that ReadArtifact promises; 0 for anything else."""
    return min(max(0, RecordedObject(result).integer("effective_max_chars") or 0), MOST_CHARACTERS)


def artifact_not_found(path: str) -> ToolError:
    return ToolError(
        kind="artifact_not_found",
        message=f"nothing is stored under {path}",
        recovery_hint="copy a path from a receipt of this run, as it is printed there",
        retryable=False,
    )


def line_out_of_range(path: str, line: int, total_lines: int) -> ToolError:
    return ToolError(
        kind="line_out_of_range",
        message=f"line {line} is behind the end: {path} has {total_lines} lines",
        recovery_hint=f"give a line from 1 to {total_lines}",
        retryable=False,
    )


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
    ArtifactSlice: _project_slice,
    ArtifactMatches: _project_matches,
    RecordedText: _project_text,
}

"""The definitions of ApplyPatch and ReadArtifact.

ApplyPatch accepts a subset of unified diffs and has an error for each way in which a patch can be wrong. ReadArtifact
opens what a receipt left out (E-27).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec

from envelopes.families.file.results import (
    MOST_CHARACTERS,
    MOST_LINES,
    SHOWN_LINES,
    SHOWN_MATCHES,
    ArtifactMatches,
    ArtifactSlice,
    PatchResult,
)
from envelopes.schema.budget import READ_ARTIFACT as READ_ARTIFACT_NAME
from envelopes.schema.tool import NonEmpty, ToolDefinition, ToolInput


class ApplyPatchInput(ToolInput, frozen=True, kw_only=True):
    """`patch` must not be blank and is never trimmed: a last line of one space is context."""

    patch: Annotated[str, msgspec.Meta(min_length=1, pattern=r"\S", description="A unified diff.")]


EXAMPLES: tuple[dict[str, Any], ...] = (
    {"patch": "--- a/src/app.py\n+++ b/src/app.py\n@@ -1,2 +1,2 @@\n import sys\n-print(1)\n+print(2)\n"},
    {"patch": "--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1 @@\n+first note\n"},
)
COUNTER_EXAMPLES: tuple[dict[str, Any], ...] = (
    {"patch": " \n"},
    {"input": "--- a/src/app.py\n+++ b/src/app.py\n"},
    {"patch": "--- a/src/app.py\n", "changed_files": []},
)
APPLY_PATCH = ToolDefinition(
    name="ApplyPatch",
    capability="local_environment",
    planes=("workspace",),
    risk="writes",
    cancellable=False,
    effects=("create-file", "modify-file", "delete-file", "rename-file"),
    is_mutation=True,
    description=(
        "Apply a unified diff to files of the workspace: modify, add (old file /dev/null), delete (new file "
        "/dev/null), or move (git rename from and rename to). Line numbers are hints; the context lines decide where "
        "a hunk goes, and a hunk that matches no place or several places fails. A file's hunks are applied all or "
        "none. Name each file once. Git's index, similarity and mode lines are accepted and not applied; the result "
        "lists them. Binary patches, copies, submodules and changes of file modes alone are refused. The result lists "
        "the changed files, never their text."
    ),
    input=ApplyPatchInput,
    result=(PatchResult,),
    error_kinds=(
        "invalid_patch_syntax",
        "missing_file_header",
        "invalid_git_header",
        "missing_git_header",
        "missing_rename_header",
        "invalid_hunk_header",
        "invalid_hunk_line",
        "invalid_hunk_empty_line",
        "missing_hunk",
        "path_header_mismatch",
        "rename_path_mismatch",
        "unsupported_git_patch_feature",
        "duplicate_file_patch",
        "path_escape",
        "missing_file",
        "existing_file",
        "context_not_found",
        "ambiguous_context",
        "patch_failed",
    ),
    result_only=("changed_files", "changed_paths", "changed_file_count", "ignored_metadata", "diagnostics"),
    misnamed={"input": "patch", "diff": "patch"},
    hint="provide the whole unified diff as the string `patch`",
    examples=EXAMPLES,
    counter_examples=COUNTER_EXAMPLES,
)


class ReadArtifactInput(ToolInput, frozen=True, kw_only=True):
    trimmed: ClassVar[tuple[str, ...]] = ("path",)
    clamped: ClassVar[dict[str, tuple[int, int]]] = {"limit": (0, MOST_LINES)}

    path: Annotated[NonEmpty, msgspec.Meta(description="The path, as a receipt prints it.")]
    line: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None, msgspec.Meta(description="The first line to read or to look in.")
    ] = 1
    column: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | None,
        msgspec.Meta(description="The first character of that line; only needed within a very long line."),
    ] = 1
    limit: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | None,
        msgspec.Meta(
            description=(
                f"Most lines to return, at most {MOST_LINES}; 0 means {SHOWN_LINES}, and {SHOWN_MATCHES} with find."
            )
        ),
    ] = 0
    find: Annotated[
        NonEmpty | None, msgspec.Meta(description="A text; only lines with it are returned, each with its number.")
    ] = None


READ_EXAMPLES: tuple[dict[str, Any], ...] = (
    {"path": "artifacts/70b332288119b834/stdout.txt", "line": 133},
    {"path": "artifacts/70b332288119b834/stdout.txt", "find": "FAILED", "limit": 5},
)
READ_COUNTER_EXAMPLES: tuple[dict[str, Any], ...] = (
    {},
    {"path": " "},
    {"path": "artifacts/70b332288119b834/stdout.txt", "line": 0},
    {"path": "artifacts/70b332288119b834/stdout.txt", "find": ""},
    {"path": "artifacts/70b332288119b834/stdout.txt", "total_lines": 3},
)
READ_ARTIFACT = ToolDefinition(
    name=READ_ARTIFACT_NAME,
    capability="local_environment",
    planes=("task_control", "workspace"),
    risk="read-only",
    description=(
        "Read what an earlier result left out. Give the `path` that a receipt prints, and the `line` to start at: up "
        f"to `limit` lines come back, as many as fit into {MOST_CHARACTERS} characters, with the line to go on from. "
        "With `find`, the lines that contain that text come back with their numbers instead. JSON on one line is laid "
        "out first, and its lines are counted then. To read a file of the workspace, use ExecCommand."
    ),
    input=ReadArtifactInput,
    result=(ArtifactSlice, ArtifactMatches),
    error_kinds=("artifact_not_found", "line_out_of_range"),
    result_only=("text", "total_lines", "matches", "match_count", "next_line", "next_column"),
    misnamed={"artifact": "path", "offset": "line", "pattern": "find", "query": "find"},
    hint="give `path` as a receipt prints it, and `line` or `find`",
    examples=READ_EXAMPLES,
    counter_examples=READ_COUNTER_EXAMPLES,
)
TOOLS = (APPLY_PATCH, READ_ARTIFACT)

"""The definition of ApplyPatch: the subset of unified diffs that it accepts, and the errors of a wrong patch."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from envelopes.families.file.results import PatchResult
from envelopes.schema.tool import ToolDefinition, ToolInput


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
TOOLS = (APPLY_PATCH,)

"""Outputs of ApplyPatch by sort, as the runtime itself would write them."""

from __future__ import annotations

from envelopes.families.file.patch import Diagnostic, IgnoredMetadata, PatchedFile, PatchResult, patch_outcome
from envelopes.schema.result import CompleteOutput, ToolError, summary


def _patch(result: PatchResult) -> CompleteOutput:
    return CompleteOutput(tool_name="ApplyPatch", status="success", summary_text=patch_outcome(result), result=result)


def _failure(error: ToolError) -> CompleteOutput:
    return CompleteOutput(tool_name="ApplyPatch", status="error", summary_text=summary(error.message), error=error)


_SORTS = {
    "success": _patch(
        PatchResult(
            changed_files=(
                PatchedFile(action="modify", path="src/app.py"),
                PatchedFile(action="add", path="src/ledger/rows.py"),
                PatchedFile(action="delete", path="src/old.py"),
                PatchedFile(action="move", path="docs/guide.md", from_path="docs/manual.md"),
            )
        )
    ),
    "error": _failure(
        ToolError(
            kind="context_not_found",
            message="hunk 2 matches no place in src/app.py",
            details={"path": "src/app.py", "hunk": 2, "expected": ["def total(rows):", "    return 0"]},
            recovery_hint="read the file again and send a patch with its present lines as context",
            retryable=False,
        )
    ),
    "large": _patch(
        PatchResult(
            changed_files=tuple(
                PatchedFile(action="modify", path=f"locale/{number:03}/LC_MESSAGES/django.po")
                for number in range(1, 401)
            ),
            diagnostics=tuple(
                Diagnostic(
                    path=f"locale/{number:03}/LC_MESSAGES/django.po",
                    kind="hunk_count_mismatch",
                    message="the hunk's header counts 4 old lines, its body has 3; the body was applied",
                )
                for number in range(1, 31)
            ),
        )
    ),
    "empty": _patch(PatchResult(changed_files=())),
    "odd": _patch(
        PatchResult(
            changed_files=(PatchedFile(action="modify", path="bin/Run Me.sh"),),
            ignored_metadata=(
                IgnoredMetadata(path="bin/Run Me.sh", kind="index", value="83db48f..bf269f4"),
                IgnoredMetadata(path="bin/Run Me.sh", kind="new_mode", value="100755"),
            ),
            diagnostics=(
                Diagnostic(
                    path="bin/Run Me.sh",
                    kind="hunk_count_mismatch",
                    message="the hunk's header counts 7 lines,\nits body has 6",
                ),
            ),
        )
    ),
    "odd_error": _failure(
        ToolError(
            kind="invalid_hunk_line",
            message="line 14 of the patch has no mark in front: " + "QUFB" * 60 + " and so on. " + "word " * 200,
            details={"line": 14},
            recovery_hint="begin each line of a hunk with a blank, + or -",
            retryable=False,
        )
    ),
}
GALLERY: dict[str, CompleteOutput] = {f"ApplyPatch/{sort}": one for sort, one in _SORTS.items()}

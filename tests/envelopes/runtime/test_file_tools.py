"""ApplyPatch and ReadArtifact, called as an executor calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envelopes import FileStore, Limits, RunPolicy, Sandbox, builtin, project, render
from envelopes.plan.effects import scan_folders
from envelopes.plan.executor import Executor
from envelopes.plan.recorders import MemoryRecorder
from envelopes.plan.schema import read_plan
from envelopes.plan.tool_answers import ToolFailed
from envelopes.runtime.file_tools import FileTools
from envelopes.runtime.workspaces import Workspaces
from envelopes.schema.settlement import Created, Deleted, Effects, Renamed
from tests.envelopes.runtime.calls import CONTEXT, run_tool
from tests.envelopes.runtime.test_workspaces import git

LINES = "".join(f"line {number}\n" for number in range(1, 1_001))


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "artifacts")


def call(folder: Path, store: FileStore, name: str, **arguments: Any) -> tuple[Any, str]:
    """The result, and the receipt that a model reads."""
    (tool,) = [tool for tool in FileTools(folder, store.open).tools() if tool.name == name]
    output = tool.run(tool.definition.parse(arguments), CONTEXT)
    output.check()
    family, definition = builtin(name)
    assert isinstance(output.result, definition.result)
    return output.result, render(
        project(output, family, family.projection, store).canonical, family, family.rendering
    ).text


def test_a_patch_changes_the_workspace_and_its_receipt_names_the_file(tmp_path: Path, store: FileStore) -> None:
    patch = "--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1 @@\n+first\n"
    _, receipt = call(tmp_path, store, "ApplyPatch", patch=patch)
    assert (tmp_path / "notes.txt").read_text() == "first\n"
    assert "A notes.txt" in receipt
    with pytest.raises(ToolFailed, match="notes.txt exists already") as failure:
        call(tmp_path, store, "ApplyPatch", patch=patch)
    assert failure.value.to_error().kind == "existing_file"
    assert failure.value.to_error().recovery_hint


def test_what_a_receipt_left_out_is_read_by_line_and_by_text(tmp_path: Path, store: FileStore) -> None:
    path = store.write("stdout", LINES).path
    part, receipt = call(tmp_path, store, "ReadArtifact", path=path, line=500, limit=2)
    assert part.text == "line 500\nline 501\n"
    assert "line 500" in receipt
    found, _ = call(tmp_path, store, "ReadArtifact", path=path, find="line 77")
    assert "line 77" in str(found)
    with pytest.raises(ToolFailed) as failure:
        call(tmp_path, store, "ReadArtifact", path="artifacts/0123456789abcdef/stdout.txt")
    assert failure.value.kind == "artifact_not_found"


MOVE = """diff --git a/old.txt b/new.txt
similarity index 100%
rename from old.txt
rename to new.txt
"""
CHANGES = """--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-x
--- /dev/null
+++ b/.git/hooks/pre-commit
@@ -0,0 +1 @@
+#!/bin/sh
--- a/kept.txt
+++ b/kept.txt
@@ -1 +1 @@
-x
+y
"""


def patch_in_run(workspaces: Workspaces, root: Path, store: FileStore, patch: str) -> Effects:
    """The recorded effects of a call of ApplyPatch."""
    policy = RunPolicy(confirmations_required=False, sandbox=Sandbox(enabled=False), limits=Limits())
    executor = Executor(
        FileTools(workspaces, store.open).tools(),
        policy,
        scan=lambda before: scan_folders(root, workspaces.worktrees(), before),
    )
    steps = [{"id": "patch", "tool": "ApplyPatch", "args": {"patch": patch}}]
    recorder = MemoryRecorder()
    plan = read_plan({"version": "1.0", "goal": "Patch", "riskLevel": "writes", "steps": steps})
    assert executor.run(plan, recorder).is_ok
    effects = recorder.results[0].effects
    assert effects is not None
    return effects


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "api").mkdir(parents=True)
    for name in ("old.txt", "gone.txt", "kept.txt", "api/old.txt"):
        (folder / name).write_text("x\n")
    return folder


def test_a_file_that_a_patch_moves_is_recorded_as_renamed(root: Path, store: FileStore) -> None:
    """CALL-050: the folder alone shows a deleted and a created file."""
    effects = patch_in_run(Workspaces({"work": root}), root, store, MOVE)
    assert effects == Effects(
        created=(), modified=(), deleted=(), renamed=(Renamed(from_path="old.txt", to_path="new.txt"),)
    )


def test_a_patch_below_a_folder_that_no_scan_reads_is_recorded(root: Path, store: FileStore) -> None:
    """CALL-056."""
    effects = patch_in_run(Workspaces({"work": root}), root, store, CHANGES)
    assert effects.created == (Created(path=".git/hooks/pre-commit", kind="file"),)
    assert effects.deleted == (Deleted(path="gone.txt", kind="file"),)
    assert effects.modified is not None
    (modified,) = effects.modified
    assert (modified.path, modified.before_etag is None, effects.renamed) == ("kept.txt", False, ())


def test_the_paths_of_effects_begin_with_the_folder_that_is_active(root: Path, store: FileStore) -> None:
    workspaces = Workspaces({"work": root})
    run_tool(workspaces.tools(), "UseWorkspace", {"workspace_id": "work", "cwd": "api"})
    effects = patch_in_run(workspaces, root, store, MOVE)
    assert effects.renamed == (Renamed(from_path="api/old.txt", to_path="api/new.txt"),)


@pytest.mark.parametrize(("cwd", "prefix"), [(None, ""), ("api", "api/")])
def test_a_file_that_is_moved_in_a_worktree_is_recorded_behind_its_branch(
    root: Path, tmp_path: Path, store: FileStore, cwd: str | None, prefix: str
) -> None:
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
    workspaces = Workspaces({"work": root}, folder=tmp_path / "worktrees")
    isolated = {"workspace_id": "work", "mode": "isolated", "isolation_label": "fix", "cwd": cwd}
    run_tool(workspaces.tools(), "UseWorkspace", isolated)
    effects = patch_in_run(workspaces, root, store, MOVE)
    places = [f"isolated/fix:{prefix}{name}.txt" for name in ("old", "new")]
    assert effects.renamed == (Renamed(from_path=places[0], to_path=places[1]),)

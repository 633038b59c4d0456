"""UseWorkspace on real folders and git repositories: where later commands and patches work, and what is left behind."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envelopes.plan.tool_answers import ToolFailed
from envelopes.runtime.commands import CommandTools
from envelopes.runtime.file_tools import FileTools
from envelopes.runtime.workspaces import Workspaces
from envelopes.storage.file_store import FileStore
from tests.envelopes.runtime.calls import run_tool

PATCH = "--- a/totals.txt\n+++ b/totals.txt\n@@ -1 +1 @@\n-one\n+two\n"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    command = ("git", *identity, *arguments)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A repository with one commit, and a file that is not committed."""
    folder = tmp_path / "ledger"
    (folder / "api").mkdir(parents=True)
    (folder / "api" / "totals.txt").write_text("one\n")
    (folder / "hook-ran").mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    hook = folder / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {folder}/hook-ran/yes\n")
    hook.chmod(0o755)
    git(folder, "add", "api")
    git(folder, "commit", "--quiet", "-m", "first")
    (folder / "draft.txt").write_text("not committed\n")
    return folder


@pytest.fixture
def workspaces(tmp_path: Path, ledger: Path) -> Iterator[Workspaces]:
    home = tmp_path / "home"
    home.mkdir()
    workspaces = Workspaces({"agent_home": home, "ws_ledger": ledger}, folder=tmp_path / "worktrees")
    yield workspaces
    workspaces.close()


def use(workspaces: Workspaces, **arguments: Any) -> Any:
    return run_tool(workspaces.tools(), "UseWorkspace", arguments)


def test_commands_and_patches_start_from_the_folder_that_is_used(
    workspaces: Workspaces, ledger: Path, tmp_path: Path
) -> None:
    store = FileStore(tmp_path / "artifacts")
    commands = CommandTools(workspaces, tmp_path / "running", store)
    files = FileTools(workspaces, store.open)
    used = use(workspaces, workspace_id="ws_ledger", cwd="api")
    assert (used.workspace_id, used.mode, used.projection_kind) == ("ws_ledger", "direct", "canonical_root")
    assert (used.execution_root, used.workspace_anchor, used.cwd) == (str(ledger), str(ledger), str(ledger / "api"))
    try:
        run_tool(
            files.tools(), "ApplyPatch", {"patch": "--- a/totals.txt\n+++ b/totals.txt\n@@ -1 +1 @@\n-one\n+two\n"}
        )
        done = run_tool(commands.tools(), "ExecCommand", {"cmd": "cat totals.txt", "login": False})
        above = run_tool(commands.tools(), "ExecCommand", {"cmd": "ls", "workdir": "..", "login": False})
        with pytest.raises(ToolFailed, match="outside the workspace"):
            run_tool(commands.tools(), "ExecCommand", {"cmd": "ls", "workdir": "../..", "login": False})
    finally:
        commands.close()
    assert (done.stdout, above.stdout) == ("two\n", "api\ndraft.txt\nhook-ran\n")


def test_isolated_work_happens_on_a_branch_of_its_own(workspaces: Workspaces, ledger: Path) -> None:
    used = use(workspaces, workspace_id="ws_ledger", mode="isolated", isolation_label="Fix totals!", cwd="api")
    root = Path(used.execution_root)
    assert (used.mode, used.projection_kind, used.workspace_anchor) == ("isolated", "git_worktree_root", str(ledger))
    assert root.name == "fix-totals"
    assert git(root, "branch", "--show-current") == "isolated/fix-totals"
    assert sorted(path.name for path in root.iterdir()) == [".git", "api"]  # the last commit, without the draft
    (root / "api" / "totals.txt").write_text("three\n")
    assert (ledger / "api" / "totals.txt").read_text() == "one\n"
    assert not list((ledger / "hook-ran").iterdir())
    use(workspaces, workspace_id="agent_home")
    again = use(workspaces, workspace_id="ws_ledger", mode="isolated", isolation_label="Fix totals!")
    assert again.execution_root == used.execution_root
    other = use(workspaces, workspace_id="ws_ledger", mode="isolated")
    assert other.execution_root != used.execution_root
    assert use(workspaces, workspace_id="ws_ledger", mode="isolated").execution_root != other.execution_root
    workspaces.close()
    assert root.is_dir(), "what was changed stays"
    assert not Path(other.execution_root).exists()
    assert git(ledger, "branch", "--format=%(refname:short)").splitlines() == ["isolated/fix-totals", "main"]


def test_a_commit_in_a_worktree_keeps_it(workspaces: Workspaces) -> None:
    root = Path(use(workspaces, workspace_id="ws_ledger", mode="isolated", isolation_label="a").execution_root)
    git(root, "commit", "--quiet", "--allow-empty", "-m", "second")
    workspaces.close()
    assert root.is_dir()


def test_a_folder_inside_a_known_workspace_gets_an_id_of_its_own(workspaces: Workspaces, ledger: Path) -> None:
    used = use(workspaces, path=str(ledger / "api"))
    assert (used.workspace_id, used.cwd) == ("api", str(ledger / "api"))
    assert use(workspaces, path="../api").workspace_id == "api"
    isolated = use(workspaces, workspace_id="api", mode="isolated", isolation_label="b")
    assert isolated.execution_root.endswith("/worktrees/b/api")
    assert use(workspaces, path=str(ledger)).workspace_id == "ws_ledger"


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"workspace_id": "ws_other"}, "invalid_tool_input", "no workspace has the id ws_other"),
        ({"path": "/etc"}, "execution_root_violation", "/etc is in none of the folders"),
        ({"path": "missing"}, "invalid_tool_input", "missing does not exist"),
        ({"path": "note.txt"}, "invalid_tool_input", "note.txt is a file"),
        ({"path": ".", "cwd": ".."}, "invalid_tool_input", ".. is outside the workspace"),
        ({"path": "loop"}, "invalid_tool_input", "loop does not exist"),
        ({"path": ".", "cwd": "loop"}, "invalid_tool_input", "loop is not a folder"),
        ({"path": ".", "cwd": "nowhere"}, "invalid_tool_input", "nowhere is not a folder"),
        ({"path": ".", "mode": "isolated"}, "unsupported_runtime_capability", "git refused: not a git repository"),
    ],
)
def test_a_refused_workspace_leaves_the_active_one(
    workspaces: Workspaces, tmp_path: Path, arguments: dict[str, Any], kind: str, message: str
) -> None:
    (tmp_path / "home" / "note.txt").write_text("")
    (tmp_path / "home" / "loop").symlink_to("loop")
    before = workspaces.active
    with pytest.raises(ToolFailed) as refused:
        use(workspaces, **arguments)
    assert (refused.value.kind, workspaces.active) == (kind, before)
    assert message in refused.value.message


def test_without_a_folder_for_worktrees_nothing_is_isolated(ledger: Path) -> None:
    with pytest.raises(ToolFailed, match="worktrees are not set up"):
        use(Workspaces({"ledger": ledger}), path=".", mode="isolated")


def test_without_git_nothing_is_isolated(
    workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolFailed, match="git is not installed"):
        use(workspaces, workspace_id="ws_ledger", mode="isolated")


def test_a_git_that_does_not_answer_isolates_nothing(workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envelopes.runtime.workspaces.GIT_S", 0.0)
    with pytest.raises(ToolFailed, match="git did not answer within 0 s"):
        use(workspaces, workspace_id="ws_ledger", mode="isolated")


def test_a_worktree_that_somebody_removed_is_no_concern(workspaces: Workspaces, ledger: Path) -> None:
    use(workspaces, workspace_id="ws_ledger")
    worktree, root = workspaces.add_worktree("child.1")
    assert (worktree.branch, str(root)) == ("isolated/child-1", worktree.path)
    git(ledger, "worktree", "remove", worktree.path)
    assert not workspaces.clear(worktree)
    workspaces.close()
    assert git(ledger, "branch", "--list", "isolated/child-1")

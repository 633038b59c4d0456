"""UseWorkspace: the folders in which an agent works, one of them active; isolated work happens in a git worktree.

Commands and patches start from the folder that is active. A worktree has the files of the last commit, on a branch of
its own; one in which nothing was changed is removed at the end, any other stays with its branch.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from envelopes.families.workspace.results import WorkspaceMode, WorkspaceResult, workspace_outcome
from envelopes.families.workspace.tools import UseWorkspaceInput
from envelopes.plan.sandbox import refuse_path
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.workers import CallContext
from envelopes.runtime.processes import clean_environment
from envelopes.schema.result import CompleteOutput, Worktree

GIT_S = 60.0
MOST_BRANCH = 40  # characters of a label in the name of a branch
PROJECTIONS: dict[WorkspaceMode, str] = {"direct": "canonical_root", "isolated": "git_worktree_root"}


@dataclass(frozen=True)
class ActiveWorkspace:
    """`anchor` is the folder that was asked for, `root` the one in which the work happens, `cwd` inside of it."""

    workspace_id: str
    anchor: Path
    root: Path
    cwd: Path
    mode: WorkspaceMode = "direct"


@dataclass(frozen=True)
class _Checkout:
    """A worktree of the repository `top`; `base` is the commit that it began with."""

    top: Path
    path: Path
    branch: str
    base: str


class Workspaces:
    """The known folders by id, the first of them active. A path that a model names lies in one of them, or `allowed`.

    `folder` is where worktrees are made; without it nothing can be isolated.

    >>> from tempfile import mkdtemp
    >>> root = Path(mkdtemp()).resolve()
    >>> Workspaces({"ledger": root}).active.cwd == root
    True
    """

    def __init__(self, known: Mapping[str, Path], *, folder: Path | None = None, allowed: Iterable[Path] = ()) -> None:
        self._known = {name: path.resolve() for name, path in known.items()}
        self._allowed = tuple(path.resolve() for path in allowed)
        self._folder = None if folder is None else folder.resolve()
        self._checkouts: dict[tuple[Path, str], _Checkout] = {}
        self._lock = threading.Lock()
        name, root = next(iter(self._known.items()))
        self.active = ActiveWorkspace(name, root, root, root)

    def tools(self) -> tuple[Tool, ...]:
        return (Tool.built_in("UseWorkspace", self.use),)

    def use(self, call: UseWorkspaceInput, context: CallContext) -> CompleteOutput:
        workspace_id, anchor = self._find(call)
        if call.path is not None:
            self.check(anchor, context, ActiveWorkspace(workspace_id, anchor, anchor, anchor))
        mode = call.mode or "direct"
        root = anchor
        if mode == "isolated":
            label = call.isolation_label or "work"
            root = self._isolate(anchor, label, is_shared=call.isolation_label is not None)[1]
        cwd = self._enter(root, call.cwd)
        workspace = ActiveWorkspace(workspace_id, anchor, root, cwd, mode)
        if call.cwd is not None:
            self.check(cwd, context, workspace)
        self.active = workspace
        result = WorkspaceResult(
            workspace_id=workspace_id,
            workspace_anchor=str(anchor),
            execution_root=str(root),
            cwd=str(cwd),
            mode=mode,
            projection_kind=PROJECTIONS[mode],
        )
        return CompleteOutput.success("UseWorkspace", workspace_outcome(result), result)

    def add_worktree(self, label: str) -> tuple[Worktree, Path]:
        """A new worktree of the active workspace, and the folder in it that corresponds to its root.

        Raises ToolFailed.
        """
        checkout, root = self._isolate(self.active.anchor, label, is_shared=False)
        return Worktree(path=str(checkout.path), branch=checkout.branch), root

    @property
    def folder(self) -> str:
        """The active folder as a sandbox sees it: relative to the first workspace, "." for its root."""
        return self._name(self.active.cwd, self.active)

    def check(self, place: Path, context: CallContext, workspace: ActiveWorkspace | None = None) -> None:
        """Raises ToolFailed for a place that the sandbox of the call does not allow (CALL-106).

        The gate before the call has compared the path as it was written; `place` is where it leads, without links. It
        lies in the active workspace, or in `workspace`.
        """
        path = self._name(place, workspace or self.active)
        if (error := refuse_path(path, context.call.policy.sandbox)) is not None:
            raise ToolFailed.from_error(error)

    def _name(self, place: Path, workspace: ActiveWorkspace) -> str:
        """The path of a place relative to the first workspace.

        A worktree counts as the folder that it copies; a folder of another workspace is relative to that one.
        """
        inside, first = place.relative_to(workspace.root), next(iter(self._known.values()))
        anchored = workspace.anchor / inside
        return (anchored.relative_to(first) if anchored.is_relative_to(first) else inside).as_posix()

    def worktrees(self) -> dict[str, Path]:
        """The folders of all worktrees by the name of their branch."""
        with self._lock:
            return {checkout.branch: checkout.path for checkout in self._checkouts.values()}

    def clear(self, worktree: Worktree) -> bool:
        """Removes the worktree and its branch when nothing was changed in it; False for one that stays."""
        with self._lock:
            keys = [key for key, checkout in self._checkouts.items() if str(checkout.path) == worktree.path]
            return bool(keys) and self._clear(keys[0])

    def close(self) -> None:
        """Clears every worktree in which nothing was changed."""
        with self._lock:
            for key in tuple(self._checkouts):
                self._clear(key)

    def _find(self, call: UseWorkspaceInput) -> tuple[str, Path]:
        """The id and the folder. Raises ToolFailed."""
        if call.path is None:
            folder = self._known.get(call.workspace_id or "")
            if folder is None:
                names = ", ".join(self._known)
                raise _invalid("workspace_id", f"no workspace has the id {call.workspace_id}", f"known: {names}")
            return call.workspace_id or "", folder
        place = Path(os.path.realpath(self.active.cwd / call.path))  # a link to itself is no folder
        if not any(place.is_relative_to(known) for known in (*self._known.values(), *self._allowed)):
            raise ToolFailed(
                "execution_root_violation",
                f"{call.path} is in none of the folders that can be opened",
                details={"path": call.path},
                recovery_hint="name a folder inside a known workspace, or give a workspace_id: "
                + ", ".join(self._known),
            )
        if not place.is_dir():
            reason = "is a file" if place.exists() else "does not exist"
            raise _invalid("path", f"{call.path} {reason}", "name a folder that exists")
        workspace_id = next((name for name, known in self._known.items() if known == place), "")
        if not workspace_id:
            workspace_id = _unused(re.sub(r"[^A-Za-z0-9._-]+", "-", place.name) or "workspace", self._known)
            self._known[workspace_id] = place
        return workspace_id, place

    def _enter(self, root: Path, cwd: str | None) -> Path:
        place = Path(os.path.realpath(root / (cwd or "")))
        if not place.is_relative_to(root) or not place.is_dir():
            reason = "is not a folder" if place.is_relative_to(root) else "is outside the workspace"
            raise _invalid("cwd", f"{cwd} {reason}", "name a folder below the root of the workspace, or omit cwd")
        return place

    def _isolate(self, anchor: Path, label: str, *, is_shared: bool) -> tuple[_Checkout, Path]:
        """A worktree, the one of the label when it is shared, and the folder in it that corresponds to `anchor`."""
        if self._folder is None:
            raise _unsupported("worktrees are not set up in this runtime")
        with self._lock:
            checkout = self._checkouts.get((anchor, label)) if is_shared else None
            if checkout is None:
                slug = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")[:MOST_BRANCH] or "work"
                checkout = self._check_out(anchor, self._folder, slug)
                key = label if is_shared else checkout.path.name
                self._checkouts[anchor, key] = checkout
        return checkout, checkout.path / anchor.relative_to(checkout.top)

    def _check_out(self, anchor: Path, folder: Path, slug: str) -> _Checkout:
        top = Path(_git(anchor, "rev-parse", "--show-toplevel")).resolve()
        base = _git(anchor, "rev-parse", "HEAD")
        folder.mkdir(parents=True, exist_ok=True)
        branches = _git(top, "for-each-ref", "--format=%(refname:short)", "refs/heads/isolated").splitlines()
        taken = {*(branch.removeprefix("isolated/") for branch in branches), *os.listdir(folder)}
        name = _unused(slug, taken)
        _git(top, "worktree", "add", "--quiet", "-b", f"isolated/{name}", str(folder / name), base)
        return _Checkout(top, folder / name, f"isolated/{name}", base)

    def _clear(self, key: tuple[Path, str]) -> bool:
        checkout = self._checkouts[key]
        try:
            if (
                _git(checkout.path, "status", "--porcelain", "--ignored")
                or _git(checkout.path, "rev-parse", "HEAD") != checkout.base
            ):
                return False
            _git(checkout.top, "worktree", "remove", str(checkout.path))
            _git(checkout.top, "branch", "--quiet", "-D", checkout.branch)
        except (ToolFailed, OSError):  # somebody removed it, or put something into it meanwhile: it is theirs
            return False
        del self._checkouts[key]
        return True


def open_workspaces(root: Path | Workspaces) -> Workspaces:
    """The workspaces themselves, or one folder as the only one."""
    return root if isinstance(root, Workspaces) else Workspaces({"workspace": root})


def _git(folder: Path, *arguments: str) -> str:
    """The text that git prints. The repository's hooks do not run. Raises ToolFailed."""
    command = ("git", "-c", "core.hooksPath=/dev/null", *arguments)
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments, no shell
            command, cwd=folder, env=clean_environment(os.environ), capture_output=True, timeout=GIT_S, check=True
        )
    except FileNotFoundError:
        raise _unsupported("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise _unsupported(f"git did not answer within {GIT_S:g} s") from None
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ")
        raise _unsupported(f"git refused: {reason}") from error
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def _unused(name: str, taken: Iterable[str]) -> str:
    names = (name, *(f"{name}-{number}" for number in range(2, 10_000)))
    used = set(taken)
    return next(candidate for candidate in names if candidate not in used)


def _unsupported(reason: str) -> ToolFailed:
    return ToolFailed(
        "unsupported_runtime_capability",
        f"no isolated workspace could be made: {reason}",
        recovery_hint="use mode direct",
    )


def _invalid(member: str, message: str, hint: str) -> ToolFailed:
    return ToolFailed("invalid_tool_input", message, details={"field": member}, recovery_hint=hint)

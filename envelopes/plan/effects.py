"""The changes that calls made to a folder, observed by comparing it before and after (CALL-056, OD-19, E-28).

    FolderSnapshot, compare   what a folder holds, and the difference of two moments as Effects
    EffectsObserver           whose changes they are: those of one attempt, or of nobody that can be named

Two writers that run side by side change one folder, and no comparison tells which of them did what. The same holds for
a call that passed its deadline and still runs, and for a task in the background. Such changes belong to the run, as do
changes between the calls.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import TypeAlias

import msgspec

from envelopes.schema.settlement import Created, Deleted, Effects, Modified

IGNORED = frozenset({".git"})  # changes with every command of git, and holds no work


class Entry(msgspec.Struct, frozen=True):
    """`mark` differs when the content may: size, time and inode of a file. `etag` is the hash of its content.

    `is_copy`: the folder begins as a copy, such as a worktree: it is created or deleted as a whole, and what is in it
    then is no change of its own.
    """

    is_folder: bool
    mark: tuple[int, ...] = ()
    etag: str | None = None
    is_copy: bool = False


FolderSnapshot: TypeAlias = Mapping[str, Entry]  # by path, relative and with forward slashes


def scan_folder(root: Path, before: FolderSnapshot | None = None, ignored: frozenset[str] = IGNORED) -> FolderSnapshot:
    """Reads a folder. A file that looks as it did `before` is not read again. Links are not followed."""
    return scan_folders(root, {}, before, ignored)


def scan_folders(
    root: Path,
    copies: Mapping[str, Path],
    before: FolderSnapshot | None = None,
    ignored: frozenset[str] = IGNORED,
) -> FolderSnapshot:
    """Reads a folder and its `copies`, whose paths begin with their names and a colon, as in git: `work:src/a.py`."""
    known = before or {}
    snapshot = dict(_entries(str(root), "", known, ignored))
    for name, folder in copies.items():
        snapshot[f"{name}:"] = Entry(is_folder=True, is_copy=True)
        snapshot |= _entries(str(folder), f"{name}:", known, ignored)
    return snapshot


def _entries(folder: str, prefix: str, known: FolderSnapshot, ignored: frozenset[str]) -> Iterator[tuple[str, Entry]]:
    try:
        children = sorted(os.scandir(folder), key=lambda child: child.name)
    except OSError:  # removed meanwhile
        return
    for child in children:
        if child.name in ignored:
            continue
        path = f"{prefix}{child.name}"
        if child.is_dir(follow_symlinks=False):
            yield path, Entry(is_folder=True)
            yield from _entries(child.path, f"{path}/", known, ignored)
            continue
        try:
            status = child.stat(follow_symlinks=False)
            mark = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            entry = known.get(path)
            is_same = entry is not None and entry.mark == mark
            yield path, entry if entry is not None and is_same else Entry(is_folder=False, mark=mark, etag=_hash(child))
        except OSError:
            continue


def _hash(child: os.DirEntry[str]) -> str:
    if child.is_symlink():
        return f"link:{os.readlink(child.path)}"
    if not child.is_file(follow_symlinks=False):
        return "special"  # a pipe or a socket; reading it could wait for ever
    with open(child.path, "rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def compare(before: FolderSnapshot, after: FolderSnapshot) -> Effects:
    """The difference, sorted by path. A renamed file is a deleted and a created one: nobody saw it move."""
    kept = before.keys() & after.keys()
    replaced = {path for path in kept if before[path].is_folder != after[path].is_folder}
    created = sorted(_without_contents_of_copies((after.keys() - before.keys()) | replaced, after))
    deleted = sorted(_without_contents_of_copies((before.keys() - after.keys()) | replaced, before))
    modified = sorted(path for path in kept - replaced if before[path].etag != after[path].etag)
    return Effects(
        created=tuple(Created(path=path, kind="folder" if after[path].is_folder else "file") for path in created),
        modified=tuple(
            Modified(path=path, kind="file", before_etag=before[path].etag, after_etag=after[path].etag)
            for path in modified
        ),
        deleted=tuple(Deleted(path=path, kind="folder" if before[path].is_folder else "file") for path in deleted),
    )


def _without_contents_of_copies(paths: Set[str], snapshot: FolderSnapshot) -> Iterator[str]:
    copies = tuple(path for path in paths if snapshot[path].is_copy)
    return (path for path in paths if path in copies or not path.startswith(copies))


def is_empty(effects: Effects) -> bool:
    return not any(msgspec.structs.astuple(effects))


class EffectsObserver:
    """Compares the world around each call that writes. `scan` gets the last snapshot and returns the present one.

    `has_background` tells whether something beside the calls may write now, such as a task that goes on. `shared` is a
    list of changes that belong to no single call, in the order in which they were noticed.
    """

    def __init__(
        self,
        scan: Callable[[FolderSnapshot | None], FolderSnapshot],
        has_background: Callable[[], bool] = lambda: False,
    ) -> None:
        self._scan, self._has_background = scan, has_background
        self._known = scan(None)
        self._writers: set[str] = set()  # calls that may change the world now, those past their deadline included
        self._is_shared = False
        self.shared: list[Effects] = []

    def begin(self, call_id: str) -> None:
        """Before a call that writes is dispatched."""
        if self._writers:
            self._is_shared = True
        else:
            self._note_shared()
            self._is_shared = self._has_background()
        self._writers.add(call_id)

    def end(self, call_id: str) -> Effects | None:
        """The effects of a call that returned; None where another one could have made them."""
        self._writers.discard(call_id)
        if not self._is_shared:
            before, self._known = self._known, self._scan(self._known)
            return compare(before, self._known)
        if not self._writers:
            self._note_shared()
            self._is_shared = False
        return None

    def leave(self) -> Effects | None:
        """The effects so far of a call that passed its deadline; from now on it may write beside the next ones."""
        effects = None
        if not self._is_shared:
            before, self._known = self._known, self._scan(self._known)
            effects = compare(before, self._known)
        self._is_shared = True
        return effects

    def close(self) -> tuple[Effects, ...]:
        """The changes that belong to the run, up to now."""
        self._note_shared()
        return tuple(self.shared)

    def _note_shared(self) -> None:
        before, self._known = self._known, self._scan(self._known)
        effects = compare(before, self._known)
        if not is_empty(effects):
            self.shared.append(effects)


def merge(observed: Effects | None, reported: Effects | None) -> Effects | None:
    """The observed effects, completed by what the tool itself reported.

    A report adds the kinds that were not observed, and changes below folders that no snapshot reads, such as `.git`. A
    file that it has as renamed is a renamed one where it was seen to disappear at one path and to appear at the other.
    Anything else that was not seen is left out: effects are observed changes (CALL-050, CALL-056).
    """
    if observed is None or reported is None:
        return observed or reported
    seen = {name: {entry.path for entry in getattr(observed, name) or ()} for name in ("created", "deleted")}
    renamed = [
        entry
        for entry in reported.renamed or ()
        if (entry.from_path in seen["deleted"] or _is_ignored(entry.from_path))
        and (entry.to_path in seen["created"] or _is_ignored(entry.to_path))
    ]
    moved = {
        "created": {entry.to_path for entry in renamed},
        "deleted": {entry.from_path for entry in renamed},
        "modified": set[str](),
    }
    members = {}
    for name, paths in moved.items():
        entries, more = getattr(observed, name), getattr(reported, name)
        if entries is not None:
            own = (entry for entry in more or () if _is_ignored(entry.path))
            more = (*(entry for entry in entries if entry.path not in paths), *own)
        members[name] = more
    return Effects(
        side_effects_observed=observed.side_effects_observed or reported.side_effects_observed,
        renamed=None if reported.renamed is None else tuple(renamed),
        **members,
    )


def _is_ignored(path: str) -> bool:
    return not IGNORED.isdisjoint(re.split("[:/]", path))

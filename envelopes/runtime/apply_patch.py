"""ApplyPatch: changes the files of a folder by a unified diff, all of them or none.

Line numbers are hints and decide nothing: a hunk goes where its context and removed lines stand, after the hunk before
it. A hunk that matches no place or several is refused. Every new text is computed and written beside its file before
the first file changes; when a change fails, those before it are undone.
"""

from __future__ import annotations

import os
import secrets
import stat
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from envelopes.families.file.results import PatchedFile, PatchResult
from envelopes.runtime.unified_diff import FilePatch, PatchHunk, PatchRefused, parse_patch
from envelopes.schema.result import JsonValue

SHOWN_LINES = 5  # of the hunk and of the file, in the error
COMPARED_LINES, COMPARED_CHARACTERS = 1_000, 200  # that are compared letter by letter, 40 ms at the most
FREQUENT = 200  # a line that stands in a file more often does not tell where a hunk belongs
READ_AGAIN = "read the file again and send a patch with its present lines as context"


@dataclass
class _Change:
    """The new state of one file: `text` None for a deleted one. `old` and `mode` are those of the file that it was.

    `staged` holds the new text beside the file's place.
    """

    file: FilePatch
    source: Path
    target: Path
    text: bytes | None
    old: bytes = b""
    mode: int | None = None
    staged: Path | None = None


def apply_patch(root: Path, patch: str, check: Callable[[Path], None] = lambda _place: None) -> PatchResult:
    """Applies the patch to the files below `root`. Raises PatchRefused; then no file has changed.

    `check` gets the place of each file, links resolved, before any file changes; what it raises ends the patch.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> (folder / "a.txt").write_text("one\\n") and None
    >>> result = apply_patch(folder, "--- a/a.txt\\n+++ b/a.txt\\n@@ -1 +1,2 @@\\n one\\n+two\\n")
    >>> [file.line for file in result.changed_files], (folder / "a.txt").read_text()
    (['M a.txt'], 'one\\ntwo\\n')
    """
    parsed = parse_patch(patch)
    root = root.resolve()
    try:
        changes = _plan_files(root, parsed.files, check)
        _write(changes)
    except OSError as error:
        raise _failed(error, []) from error
    except _WriteFailed as failure:
        raise _failed(failure.reason, failure.kept) from failure
    return PatchResult(
        changed_files=tuple(
            PatchedFile(
                action=change.file.action,
                path=change.file.path,
                from_path=change.file.source if change.file.action == "move" else None,
            )
            for change in changes
        ),
        ignored_metadata=tuple(parsed.ignored),
        diagnostics=tuple(parsed.diagnostics),
    )


def _failed(reason: OSError, kept: list[str]) -> PatchRefused:
    name = Path(str(reason.filename)).name if reason.filename else "a file"
    outcome = f"{', '.join(kept)} could not be put back" if kept else "no file was changed"
    message = f"{name} could not be changed: {reason.strerror or reason}; {outcome}"
    return PatchRefused("patch_failed", message, hint="see that the workspace can be written to, then read its files")


def _plan_files(root: Path, files: Iterable[FilePatch], check: Callable[[Path], None]) -> list[_Change]:
    """The change of each file. Raises PatchRefused, also for two parts that change the same file.

    Places are compared, not paths: where a folder is a link, a file has two of them.
    """
    changes: list[_Change] = []
    taken: set[Path] = set()
    for written in files:
        file = replace(written, source=_find_name(root, written.source), path=_find_name(root, written.path))
        source, target = _locate(root, file.source), _locate(root, file.path)
        if taken & {source, target}:
            message = f"{file.source if source in taken else file.path} is changed by two parts of the patch"
            hint = "put all hunks of a file behind one --- and +++ pair"
            raise PatchRefused("duplicate_file_patch", message, hint=hint, path=file.path)
        for place in (source, target):
            check(place)
        taken |= {source, target}
        changes.append(_plan(file, source, target))
    return changes


def _plan(file: FilePatch, source: Path, target: Path) -> _Change:
    """The file's new text, without changing anything. Raises PatchRefused."""
    if file.action in ("add", "move") and os.path.lexists(target):
        message = f"{file.path} exists already"
        raise PatchRefused(
            "existing_file", message, hint="patch the existing file, or choose another path", path=file.path
        )
    if file.action == "add":
        if removed := [hunk for hunk in file.hunks if hunk.old]:
            message = f"{file.path} is new, and hunk {removed[0].number} has lines that are not added"
            raise PatchRefused("invalid_hunk_line", message, line=removed[0].patch_line, path=file.path)
        added = "".join(line for hunk in file.hunks for line in hunk.new)
        return _Change(file, source, target, _encoded(added, file.path))
    if not os.path.lexists(source):
        message = f"{file.source} does not exist"
        raise PatchRefused(
            "missing_file", message, hint="check the path; new files are added from /dev/null", path=file.source
        )
    status = source.lstat()
    if not stat.S_ISREG(status.st_mode):
        message = f"{file.source} is no regular file"
        raise PatchRefused("patch_failed", message, hint="patches change regular files alone", path=file.source)
    old, mode = source.read_bytes(), stat.S_IMODE(status.st_mode)
    lines = _split(old)
    patched = _apply_hunks(lines, file)
    if file.action != "delete":
        return _Change(file, source, target, _encoded("".join(patched), file.path), old, mode)
    if patched:
        message = f"the patch deletes {file.path}, and {len(patched)} of its {len(lines)} lines are not in the patch"
        raise PatchRefused("context_not_found", message, hint=READ_AGAIN, path=file.path)
    return _Change(file, source, target, None, old, mode)


def _find_name(root: Path, path: str) -> str:
    """The path in the form that its names have on disk: as written, else composed, else decomposed.

    A name that is not there yet is composed (NFC).
    """
    place = root
    for name in path.split("/"):
        composed = unicodedata.normalize("NFC", name)
        forms = (name, composed, unicodedata.normalize("NFD", name))
        place /= next((form for form in forms if os.path.lexists(place / form)), composed)
    return place.relative_to(root).as_posix()


def _locate(root: Path, path: str) -> Path:
    """The file's place, without a link on the way to it. Raises PatchRefused where a link leads out of `root`."""
    # realpath, unlike Path.resolve, raises nothing for a link that leads to itself.
    place = Path(os.path.realpath((root / path).parent)) / Path(path).name
    if not all(Path(end).is_relative_to(root) for end in (place.parent, os.path.realpath(place))):
        message = f"{path} leads out of the workspace through a symbolic link"
        raise PatchRefused("path_escape", message, hint="name files that are in the workspace", path=path)
    return place


def _apply_hunks(lines: list[str], file: FilePatch) -> list[str]:
    patched: list[str] = []
    start = 0  # the first line that no hunk before has used
    for hunk in file.hunks:
        old = hunk.old
        at = _find_place(lines, old, start, hunk, file.source)
        patched += lines[start:at]
        patched += hunk.new
        start = at + len(old)
    return patched + lines[start:]


def _find_place(lines: list[str], old: list[str], start: int, hunk: PatchHunk, path: str) -> int:
    """The first line of the hunk's only place, at or after `start`. Raises PatchRefused for none and for several."""
    if not old:
        if not lines:
            return 0
        message = f"hunk {hunk.number} of {path} only adds lines, and nothing tells where"
        hint = "give each hunk a line of the file as context"
        raise PatchRefused("ambiguous_context", message, hint=hint, path=path, hunk=hunk.number, line=hunk.patch_line)
    places = [
        at for at in range(start, len(lines) - len(old) + 1) if lines[at] == old[0] and lines[at : at + len(old)] == old
    ]
    if len(places) == 1:
        return places[0]
    details: dict[str, JsonValue] = {
        "path": path,
        "hunk": hunk.number,
        "line": hunk.patch_line,
        "expected": _shown(old),
    }
    if places:
        found = ", ".join(str(at + 1) for at in places[:SHOWN_LINES]) + (", …" if len(places) > SHOWN_LINES else "")
        message = f"hunk {hunk.number} matches {len(places)} places in {path}, at the lines {found}"
        hint = "add lines of context around the change until one place alone matches"
        raise PatchRefused(
            "ambiguous_context", message, hint=hint, **details, places=[at + 1 for at in places[:SHOWN_LINES]]
        )
    nearest = _nearest(lines, old, start)
    message = f"hunk {hunk.number} matches no place in {path}"
    if start and _matches(lines[:start], old):
        message += f" after hunk {hunk.number - 1}; hunks stand in the order of the file"
    elif nearest is not None and [line.rstrip("\r\n") for line in lines[nearest : nearest + len(old)]] == [
        line.rstrip("\r\n") for line in old
    ]:
        message += ": the ends of lines differ (the file's last newline, or CR LF)"
    if nearest is not None:
        details |= {"nearest_line": nearest + 1, "nearest": _shown(lines[nearest : nearest + len(old)])}
    raise PatchRefused("context_not_found", message, hint=READ_AGAIN, **details)


def _matches(lines: list[str], old: list[str]) -> bool:
    return any(lines[at : at + len(old)] == old for at in range(len(lines) - len(old) + 1))


def _nearest(lines: list[str], old: list[str], start: int) -> int | None:
    """The place at which most lines of the hunk stand, white space at their ends apart; None where none does.

    Where no line of the hunk stands in the file, the place of the line that is most like its first one.
    """
    places: dict[str, list[int]] = defaultdict(list)
    for number in range(start, len(lines)):
        places[lines[number].strip()].append(number)
    votes = Counter(
        max(start, number - offset)
        for offset, line in enumerate(old)
        if line.strip() and len(places.get(line.strip(), ())) <= FREQUENT
        for number in places.get(line.strip(), ())
    )
    if votes:
        return min(votes, key=lambda at: (-votes[at], at))
    offset = next((offset for offset, line in enumerate(old) if line.strip()), None)
    if offset is None:
        return None
    candidates = [line for line in list(places)[:COMPARED_LINES] if len(line) <= COMPARED_CHARACTERS]
    alike = get_close_matches(old[offset].strip()[:COMPARED_CHARACTERS], candidates, n=1)
    return max(start, places[alike[0]][0] - offset) if alike else None


def _shown(lines: Sequence[str]) -> list[str]:
    return [line.rstrip("\r\n") for line in lines[:SHOWN_LINES]]


def _split(content: bytes) -> list[str]:
    """Lines with their newline; bytes that are no UTF-8 survive. Only LF ends a line."""
    text = content.decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _encoded(text: str, path: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        message = f"the new text of {path} contains a character that UTF-8 cannot write: {text[error.start]!r}"
        raise PatchRefused("invalid_patch_syntax", message, path=path) from error


class _WriteFailed(Exception):
    """`kept` are the paths that could not be put back; empty where all is as before."""

    def __init__(self, reason: OSError, kept: list[str]) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.kept = kept


def _write(changes: list[_Change]) -> None:
    """Writes all files or none, whatever goes wrong. Raises _WriteFailed where the file system refuses."""
    steps: list[tuple[str, Callable[[], object]]] = []  # that lead back, the last one first
    try:
        for change in changes:
            if change.text is not None:
                for folder in _missing_folders(change.target.parent):
                    folder.mkdir()
                    steps.append((str(folder), folder.rmdir))
                change.staged = _stage(change.target.parent, change.text, change.mode)
                steps.append((change.file.path, partial(change.staged.unlink, missing_ok=True)))
        for change in changes:
            _replace(change, steps)
    except BaseException as error:
        kept = [path for path, step in reversed(steps) if not _succeeds(step)]
        if not isinstance(error, OSError):
            raise
        raise _WriteFailed(error, kept) from error


def _replace(change: _Change, steps: list[tuple[str, Callable[[], object]]]) -> None:
    """Puts the staged text in its place and takes the old file away."""
    if change.staged is not None and change.file.action == "modify":
        change.staged.replace(change.target)
        steps.append((change.file.path, partial(_restore, change)))
    elif change.staged is not None:
        os.link(change.staged, change.target)  # unlike a renaming, fails where somebody has created the file meanwhile
        steps.append((change.file.path, change.target.unlink))
        change.staged.unlink()
    if change.file.action in ("delete", "move"):
        change.source.unlink()
        steps.append((change.file.source, partial(_restore, change)))


def _restore(change: _Change) -> None:
    _stage(change.source.parent, change.old, change.mode).replace(change.source)


def _succeeds(step: Callable[[], object]) -> bool:
    try:
        step()
    except OSError:
        return False
    return True


def _missing_folders(folder: Path) -> list[Path]:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    return missing[::-1]


def _stage(folder: Path, text: bytes, mode: int | None) -> Path:
    """A new file with the text, on disk. `mode` None: what a new file gets here."""
    staged = folder / f".patch-{secrets.token_hex(8)}"
    with staged.open("xb") as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            if mode is not None:
                os.fchmod(file.fileno(), mode)
        except BaseException:
            staged.unlink()
            raise
    return staged

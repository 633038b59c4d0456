"""Reads the subset of unified diffs that ApplyPatch accepts (D-11).

    parse_patch(text)   the files of the patch with their hunks, metadata that is not applied, and diagnostics
    PatchRefused        why a patch is refused: a kind, a sentence, where in the patch, and the way out

A hunk ends where its header's counts are reached and another header or nothing follows; where the counts are wrong,
the next header ends it, and a diagnostic says so.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from envelopes.families.file.results import Diagnostic, IgnoredMetadata
from envelopes.schema.result import JsonValue, ToolError

FileAction: TypeAlias = Literal["add", "modify", "delete", "move"]

HUNK = re.compile(r"@@ -(?P<old>\d{1,9})(?:,(?P<old_count>\d{1,9}))? \+(?P<new>\d{1,9})(?:,(?P<new_count>\d{1,9}))? @@")
GIT = re.compile(r'diff --git (?P<old>"(?:[^"\\]|\\.)*"|a/.*) (?P<new>"(?:[^"\\]|\\.)*"|b/.*)\Z', re.DOTALL)
ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
DRIVE = re.compile(r"[A-Za-z]:")
NOTHING = "/dev/null"
MARKS = (" ", "-", "+")
NO_NEWLINE = "\\"
# Git's lines that change nothing here, by how they begin.
IGNORED = {
    "index ": "index",
    "similarity index ": "similarity",
    "dissimilarity index ": "dissimilarity",
    "old mode ": "old_mode",
    "new mode ": "new_mode",
    "new file mode ": "new_file_mode",
    "deleted file mode ": "deleted_file_mode",
}
UNSUPPORTED = {
    "copy from ": "copies",
    "copy to ": "copies",
    "Binary files ": "binary files",
    "GIT binary patch": "binary files",
}
SPECIAL_MODES = {"120000": "symbolic links", "160000": "submodules"}
HINT = "send the whole change as a unified diff: ---, +++ and @@ lines, each line marked with blank, + or -"


class PatchRefused(Exception):
    """The patch was not applied, and no file was changed. `error` is the envelope's."""

    def __init__(self, kind: str, message: str, *, hint: str = HINT, **details: JsonValue) -> None:
        super().__init__(message)
        shown = {name: value for name, value in details.items() if value is not None}
        self.error = ToolError(kind=kind, message=message, details=shown or None, recovery_hint=hint, retryable=False)


@dataclass
class PatchHunk:
    """`lines` have their mark in front and their newline behind, but for one that has none in the file."""

    number: int  # in its file, from 1
    patch_line: int  # of its header in the patch, from 1
    lines: list[str] = field(default_factory=list)

    @property
    def old(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] in " -"]

    @property
    def new(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] in " +"]


@dataclass
class FilePatch:
    """A change of one file; `source` is where a moved file is now."""

    action: FileAction
    path: str
    source: str
    hunks: list[PatchHunk]


@dataclass
class ParsedPatch:
    files: list[FilePatch] = field(default_factory=list)
    ignored: list[IgnoredMetadata] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


@dataclass
class _Header:
    """The lines before a file's hunks. Paths as written; None where the line is missing."""

    line: int
    git: tuple[str, str] | None = None
    old: str | None = None
    new: str | None = None
    moved_from: str | None = None
    moved_to: str | None = None
    metadata: list[tuple[str, str]] = field(default_factory=list)


def parse_patch(text: str) -> ParsedPatch:
    """Raises PatchRefused."""
    parsed = _Reader(text.split("\n")).read()
    if not parsed.files:
        begins = text.lstrip()[:40].split("\n")[0]
        raise PatchRefused("invalid_patch_syntax", f"this is no unified diff; it begins with {begins!r}")
    return parsed


def normal_path(path: str) -> str:
    """The path without dot segments and doubled slashes. Raises PatchRefused for one that leads outside."""
    normal = posixpath.normpath(path)
    outside = normal == ".." or normal.startswith(("../", "/")) or DRIVE.match(normal) or "\0" in normal
    if outside or normal == ".":
        message = f"{path!r} does not lead to a file inside the workspace"
        raise PatchRefused("path_escape", message, hint="name files by paths relative to the workspace", path=path)
    try:
        os.fsencode(normal)
    except UnicodeEncodeError as error:
        message = f"{path!r} contains a character that the name of a file cannot have"
        raise PatchRefused("invalid_patch_syntax", message, hint="name the file by another path", path=path) from error
    return normal


def _compose(path: str | None) -> str | None:
    """The path in NFC, as paths of a patch are compared; which form a file's name has is known in its folder."""
    return None if path is None else unicodedata.normalize("NFC", path)


class _Reader:
    """Walks through the lines once; `at` is the next one, counted from 0."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.at = 0
        self._parsed = ParsedPatch()

    def read(self) -> ParsedPatch:
        while self.at < len(self._lines):
            line = self._lines[self.at]
            if line.startswith(("diff --git", "--- ", "+++ ")) or self._is_extended(line):
                self._read_file()
            elif line.startswith("@@"):
                message = f"line {self.at + 1} begins a hunk, and no --- and +++ lines name its file"
                raise PatchRefused("missing_file_header", message, line=self.at + 1)
            elif line.strip():
                message = f"line {self.at + 1} belongs to no file and no hunk: {_short(line)}"
                raise PatchRefused("invalid_patch_syntax", message, line=self.at + 1)
            else:
                self.at += 1
        return self._parsed

    def _is_extended(self, line: str) -> bool:
        return line.startswith(("rename from ", "rename to ", *IGNORED, *UNSUPPORTED))

    def _read_file(self) -> None:
        header = self._read_header()
        hunks = self._read_hunks(header)
        file = _file_patch(header, hunks)
        self._parsed.files.append(file)
        self._parsed.ignored += [
            IgnoredMetadata(path=file.path, kind=kind, value=value) for kind, value in header.metadata
        ]

    def _read_header(self) -> _Header:
        header = _Header(self.at + 1)
        if self._lines[self.at].startswith("diff --git"):
            header.git = _git_paths(self._lines[self.at], self.at + 1)
            self.at += 1
        while self.at < len(self._lines):
            line = self._lines[self.at]
            if line.startswith("--- "):
                header.old = _unquoted(line[4:])
                self.at += 1
                if self.at == len(self._lines) or not self._lines[self.at].startswith("+++ "):
                    message = f"line {self.at} (---) is not followed by a +++ line"
                    raise PatchRefused("missing_file_header", message, line=self.at)
                header.new = _unquoted(self._lines[self.at][4:])
                self.at += 1
                break
            if line.startswith("+++ "):
                message = f"line {self.at + 1} (+++) has no --- line before it"
                raise PatchRefused("missing_file_header", message, line=self.at + 1)
            if not self._is_extended(line):
                break
            self._read_extended(line, header)
            self.at += 1
        return header

    def _read_extended(self, line: str, header: _Header) -> None:
        if header.git is None:
            message = f"line {self.at + 1} is a header of git without a `diff --git` line before it: {_short(line)}"
            raise PatchRefused("missing_git_header", message, line=self.at + 1)
        for begin, feature in UNSUPPORTED.items():
            if line.startswith(begin):
                _refuse_feature(feature, self.at + 1)
        if line.startswith("rename from "):
            header.moved_from = _unquoted(line.removeprefix("rename from "))
        elif line.startswith("rename to "):
            header.moved_to = _unquoted(line.removeprefix("rename to "))
        else:
            begin = next(begin for begin in IGNORED if line.startswith(begin))
            value = line.removeprefix(begin).rstrip("\r")
            for mode, feature in SPECIAL_MODES.items():
                if value.split(" ")[-1] == mode:
                    _refuse_feature(feature, self.at + 1)
            header.metadata.append((IGNORED[begin], value))

    def _read_hunks(self, header: _Header) -> list[PatchHunk]:
        hunks: list[PatchHunk] = []
        while self.at < len(self._lines) and self._lines[self.at].startswith("@@"):
            if header.old is None:
                message = f"line {self.at + 1} begins a hunk, and no --- and +++ lines stand before it"
                raise PatchRefused("missing_file_header", message, line=self.at + 1)
            hunks.append(self._read_hunk(len(hunks) + 1, header))
        return hunks

    def _read_hunk(self, number: int, header: _Header) -> PatchHunk:
        match = HUNK.match(self._lines[self.at])
        if match is None:
            message = (
                f"line {self.at + 1} is no hunk header of the form @@ -1,2 +1,2 @@: {_short(self._lines[self.at])}"
            )
            raise PatchRefused("invalid_hunk_header", message, line=self.at + 1)
        counts = [int(count) if count is not None else 1 for count in match.group("old_count", "new_count")]
        hunk = PatchHunk(number, self.at + 1)
        self.at += 1
        rest = list(counts)  # lines that the header still promises, of the old and the new side
        while self.at < len(self._lines) and not self._ends_hunk(self._lines[self.at], rest):
            self._add_line(hunk, self._lines[self.at], rest)
            self.at += 1
        if not hunk.lines:
            message = f"the hunk at line {hunk.patch_line} has no lines"
            raise PatchRefused("missing_hunk", message, line=hunk.patch_line, hunk=number)
        if rest != [0, 0]:
            self._report_counts(header, hunk, counts)
        return hunk

    def _add_line(self, hunk: PatchHunk, line: str, rest: list[int]) -> None:
        if line in ("", "\r"):
            message = f"line {self.at + 1} is empty; an empty line of the file is written as one blank"
            raise PatchRefused("invalid_hunk_empty_line", message, line=self.at + 1, hunk=hunk.number)
        if line[0] == NO_NEWLINE and hunk.lines:
            hunk.lines[-1] = hunk.lines[-1].removesuffix("\n")
        elif line[0] in MARKS:
            hunk.lines.append(line + "\n")
            rest[0] -= line[0] in " -"
            rest[1] -= line[0] in " +"
        else:
            message = f"line {self.at + 1} begins with none of blank, + and -: {_short(line)}"
            raise PatchRefused("invalid_hunk_line", message, line=self.at + 1, hunk=hunk.number)

    def _ends_hunk(self, line: str, rest: list[int]) -> bool:
        """True at the next header, and where the counts are reached and no line of a hunk follows.

        A removed line `-- x` above an added `++ y` looks like a header; the counts tell which it is.
        """
        is_full = max(rest) <= 0
        if line.startswith(("@@ -", "diff --git ")) or (is_full and line.startswith("--- ")):
            return True
        if line in ("", "\r"):
            following = next((later for later in self._lines[self.at :] if later.strip("\r")), None)
            return following is None or (is_full and following.startswith(("@@ -", "diff --git ", "--- ")))
        if line.startswith("--- ") and rest != [1, 1]:
            below = self._lines[self.at + 1 : self.at + 3]
            return len(below) == 2 and below[0].startswith("+++ ") and below[1].startswith("@@ -")
        return is_full and line[0] not in (*MARKS, NO_NEWLINE)

    def _report_counts(self, header: _Header, hunk: PatchHunk, counts: list[int]) -> None:
        path = next((path for path in (header.new, header.old) if path not in (None, NOTHING)), "")
        message = (
            f"the header of hunk {hunk.number} counts {counts[0]} old and {counts[1]} new lines, its body has "
            f"{len(hunk.old)} and {len(hunk.new)}; the body was applied"
        )
        self._parsed.diagnostics.append(
            Diagnostic(path=_plain(path or "", header), kind="hunk_count_mismatch", message=message)
        )


def _file_patch(header: _Header, hunks: list[PatchHunk]) -> FilePatch:
    """Reads the header and the hunks as one change. Raises PatchRefused where they contradict each other."""
    if header.moved_from is not None or header.moved_to is not None:
        return _moved_file(header, hunks)
    if header.old is None and header.git is None:
        raise PatchRefused("missing_file_header", f"the part at line {header.line} names no file", line=header.line)
    old, new = _named_paths(header)
    if header.old is None:
        return _file_without_hunks(header, old, new)
    if not hunks:
        raise PatchRefused("missing_hunk", f"{new or old} has no hunk", line=header.line, path=new or old)
    if old is None and new is None:
        raise PatchRefused("path_header_mismatch", "both paths are /dev/null", line=header.line)
    if old is not None and new is not None and _compose(old) != _compose(new):
        kind = "missing_rename_header" if header.git else "path_header_mismatch"
        message = f"the old path is {old}, the new one {new}"
        hint = "to move a file, write `diff --git`, `rename from` and `rename to` lines"
        raise PatchRefused(kind, message, hint=hint, line=header.line, path=new)
    if old is None:
        return FilePatch("add", new or "", new or "", hunks)
    return FilePatch("delete" if new is None else "modify", old, old, hunks)


def _named_paths(header: _Header) -> tuple[str | None, str | None]:
    """Both paths without their prefixes, None for /dev/null. Raises PatchRefused where git's header has others."""
    git = tuple(normal_path(path) for path in header.git) if header.git else None
    if header.old is None or header.new is None:
        assert git is not None  # a header without either is refused before
        return git[0], git[1]
    old, new = _side(header.old, header), _side(header.new, header)
    for side, path in zip(git or (), (old, new), strict=False):
        if path is not None and _compose(path) != _compose(side):
            message = f"`diff --git` names {side}, the lines below it {path}"
            raise PatchRefused("path_header_mismatch", message, line=header.line, path=path)
    return old, new


def _file_without_hunks(header: _Header, old: str | None, new: str | None) -> FilePatch:
    """An empty file that is added or deleted; anything else needs hunks."""
    path = new or old or ""
    if _compose(old) != _compose(new):
        message = f"`diff --git` names {old} and {new}, and no `rename from` and `rename to` follow"
        raise PatchRefused("missing_rename_header", message, line=header.line, path=path)
    kinds = {kind for kind, _ in header.metadata}
    if "new_file_mode" in kinds:
        return FilePatch("add", path, path, [])
    if "deleted_file_mode" in kinds:
        return FilePatch("delete", path, path, [])
    if kinds & {"old_mode", "new_mode"}:
        _refuse_feature("changes of file modes alone", header.line)
    raise PatchRefused("missing_hunk", f"{path} has no hunk", line=header.line, path=path)


def _moved_file(header: _Header, hunks: list[PatchHunk]) -> FilePatch:
    if header.moved_from is None or header.moved_to is None:
        missing = "rename to" if header.moved_to is None else "rename from"
        message = f"the part at line {header.line} has no `{missing}` line"
        raise PatchRefused("missing_rename_header", message, line=header.line)
    source, path = normal_path(header.moved_from), normal_path(header.moved_to)
    named = [normal_path(path) for path in header.git or ()]
    below = [_side(path, header) for path in (header.old, header.new) if path is not None]
    for pair in (named, below):
        if pair and [*map(_compose, pair)] != [_compose(source), _compose(path)]:
            message = f"the file moves from {source} to {path}, and the other lines name {pair[0]} and {pair[1]}"
            raise PatchRefused("rename_path_mismatch", message, line=header.line, path=path)
    if header.old is not None and not hunks:
        raise PatchRefused("missing_hunk", f"{path} has no hunk", line=header.line, path=path)
    return FilePatch("move", path, source, hunks)


def _git_paths(line: str, number: int) -> tuple[str, str]:
    """Both paths without `a/` and `b/`. Where both are the same and not quoted, they may contain blanks."""
    text = line.rstrip("\r")
    same = text.removeprefix("diff --git ")
    half = len(same) // 2
    if same[:2] == "a/" and same[half : half + 3] == " b/" and same[2:half] == same[half + 3 :]:
        return same[2:half], same[2:half]
    match = GIT.match(text)
    paths = [_unquoted(path) for path in match.groups()] if match else []
    if len(paths) != 2 or not paths[0].startswith("a/") or not paths[1].startswith("b/"):
        message = f"line {number} is not of the form diff --git a/path b/path: {_short(line)}"
        raise PatchRefused("invalid_git_header", message, line=number)
    return paths[0][2:], paths[1][2:]


def _side(path: str, header: _Header) -> str | None:
    return None if path == NOTHING else normal_path(_plain(path, header))


def _plain(path: str, header: _Header) -> str:
    """Without `a/` or `b/`, where both sides have it."""
    old, new = header.old or NOTHING, header.new or NOTHING
    has_prefixes = (old == NOTHING or old.startswith("a/")) and (new == NOTHING or new.startswith("b/"))
    return path[2:] if has_prefixes and path != NOTHING else path


def _unquoted(path: str) -> str:
    """A path as it stands in a header: without its time stamp, and C's escapes resolved where it is quoted."""
    path = path.rstrip("\r")
    if not path.startswith('"'):
        return path.partition("\t")[0].rstrip(" ")
    quoted = path[1:].rpartition('"')[0].encode("utf-8", "surrogateescape")
    plain = ESCAPE.sub(lambda match: _unescaped(match[1]), quoted)
    return plain.decode("utf-8", "surrogateescape")


def _unescaped(escape: bytes) -> bytes:
    return bytes([int(escape, 8) % 256]) if len(escape) == 3 else ESCAPED.get(escape, escape)


def _refuse_feature(feature: str, line: int) -> None:
    message = f"line {line}: patches of {feature} are not supported"
    hint = "leave this part out; change it with ExecCommand if it is needed"
    raise PatchRefused("unsupported_git_patch_feature", message, hint=hint, line=line)


def _short(line: str) -> str:
    return repr(line if len(line) <= 60 else line[:59] + "…")

"""ApplyPatch and ReadArtifact as tools, and how the second reads (E-27).

ReadArtifact opens what a receipt left out, a few lines at a time or by a text in them.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from envelopes.families.file.results import (
    MATCH_CHARACTERS,
    MOST_CHARACTERS,
    SHOWN_LINES,
    SHOWN_MATCHES,
    ArtifactMatch,
    ArtifactMatches,
    ArtifactSlice,
    PatchedFile,
    PatchResult,
    artifact_not_found,
    line_out_of_range,
    matches_outcome,
    patch_outcome,
    slice_outcome,
)
from envelopes.families.file.tools import ApplyPatchInput, ReadArtifactInput
from envelopes.families.json_outputs import LAID_OUT_BYTES, begins_as_json, lay_out_output
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.workers import CallContext
from envelopes.runtime.apply_patch import apply_patch
from envelopes.runtime.unified_diff import PatchRefused, parse_patch
from envelopes.runtime.workspaces import Workspaces, open_workspaces
from envelopes.schema.result import CompleteOutput, ToolError
from envelopes.schema.settlement import Created, Deleted, Effects, Modified, Renamed
from envelopes.storage.line_index import LineIndex, build_index
from envelopes.text.preview import split_lines

BEGINNING = 1024  # bytes that show whether a file may be JSON
CHUNK = 1024 * 1024
MOST_BYTES = 4  # of a character in UTF-8


class ArtifactRefused(Exception):
    """ReadArtifact could not read. `error` is the canonical payload."""

    def __init__(self, error: ToolError) -> None:
        super().__init__(error.message)
        self.error = error


class FileTools:
    """Patches files below `root`, or below the folder of the active workspace.

    `open_artifact`, a store's `open`, finds what ReadArtifact reads under a path that was printed.
    """

    def __init__(self, root: Path | Workspaces, open_artifact: Callable[[str], BinaryIO]) -> None:
        self._workspaces, self._open_artifact = open_workspaces(root), open_artifact

    def tools(self) -> tuple[Tool, ...]:
        return (
            Tool.built_in("ApplyPatch", self.apply_patch, find_paths=self._find_paths),
            Tool.built_in("ReadArtifact", self.read_artifact),
        )

    def apply_patch(self, call: ApplyPatchInput, context: CallContext) -> CompleteOutput:
        check = partial(self._workspaces.check, context=context)
        try:
            result = apply_patch(self._workspaces.active.cwd, call.patch, check)
        except PatchRefused as refused:
            raise ToolFailed.from_error(refused.error) from refused
        context.effects = self._list_effects(result)
        return CompleteOutput.success("ApplyPatch", patch_outcome(result), result)

    def _list_effects(self, result: PatchResult) -> Effects:
        """Lists what the patch changed, by paths relative to the root of the workspace (CALL-050, CALL-056)."""
        at = self._observed_prefix()
        changed: defaultdict[str, list[PatchedFile]] = defaultdict(list)
        for file in result.changed_files:
            changed[file.action].append(file)
        return Effects(
            created=tuple(Created(path=at + file.path, kind="file") for file in changed["add"]),
            modified=tuple(Modified(path=at + file.path, kind="file") for file in changed["modify"]),
            deleted=tuple(Deleted(path=at + file.path, kind="file") for file in changed["delete"]),
            renamed=tuple(
                Renamed(from_path=at + (file.from_path or ""), to_path=at + file.path) for file in changed["move"]
            ),
        )

    def _find_paths(self, call: ApplyPatchInput) -> Iterator[str]:
        """The files of the patch, relative to the root of the workspace. A patch that cannot be read has none."""
        folder = self._workspaces.folder
        with suppress(PatchRefused):
            for file in parse_patch(call.patch).files:
                for path in dict.fromkeys((file.source, file.path)):
                    yield path if folder == "." or path.startswith("/") else f"{folder}/{path}"

    def _observed_prefix(self) -> str:
        """The text before a path of the patch in a scan, where files of a worktree follow the name of its branch."""
        cwd, folder = self._workspaces.active.cwd, self._workspaces.folder
        for branch, worktree in self._workspaces.worktrees().items():
            if cwd.is_relative_to(worktree):
                inside = cwd.relative_to(worktree).as_posix()
                return f"{branch}:" if inside == "." else f"{branch}:{inside}/"
        return "" if folder == "." else f"{folder}/"

    def read_artifact(self, call: ReadArtifactInput, _context: CallContext) -> CompleteOutput:
        try:
            result = read_artifact(self._open_artifact, call)
        except ArtifactRefused as refused:
            raise ToolFailed.from_error(refused.error) from refused
        return CompleteOutput.success("ReadArtifact", _read_outcome(result), result)


def _read_outcome(result: ArtifactSlice | ArtifactMatches) -> str:
    return slice_outcome(result) if isinstance(result, ArtifactSlice) else matches_outcome(result)


def read_artifact(
    open_artifact: Callable[[str], BinaryIO], request: ReadArtifactInput
) -> ArtifactSlice | ArtifactMatches:
    r"""The lines that are asked for. `open_artifact` is a store's `open`; it raises LookupError for an unknown path.

    Bytes that are no UTF-8 are replacement characters. Raises ArtifactRefused.

    >>> request = ReadArtifactInput(path="artifacts/0123456789abcdef/stdout.txt", line=2, limit=1)
    >>> read_artifact(lambda path: io.BytesIO(b"one\ntwo\nthree\n"), request)  # doctest: +NORMALIZE_WHITESPACE
    ArtifactSlice(path='artifacts/0123456789abcdef/stdout.txt', line=2, column=1, text='two\n', total_lines=3,
                  next_line=3, next_column=None, laid_out=False)
    """
    try:
        stored = open_artifact(request.path)
    except LookupError:
        raise ArtifactRefused(artifact_not_found(request.path)) from None
    with stored:
        layout = None if _is_in_document(request) else _lay_out(stored)
        stream = stored if layout is None else io.BytesIO(layout.encode("utf-8", "surrogatepass"))
        stream.seek(0)
        index = build_index(stream)
        line = request.line or 1
        if line > max(1, index.lines):
            raise ArtifactRefused(line_out_of_range(request.path, line, index.lines))
        if request.find is not None:
            return _find(stream, index, request, request.find)
        return _slice(stream, index, request, is_laid_out=layout is not None)


def _is_in_document(request: ReadArtifactInput) -> bool:
    """True for a place in a document on one line that no receipt has laid out: line 1 of a layout is a bracket.

    A text that is too large for its two ends to be all of it is shown as it stands, and so is the rest of it.
    """
    return request.find is None and (request.line or 1) == 1 and (request.column or 1) > 1


def _lay_out(stream: BinaryIO) -> str | None:
    """The layout of JSON on one line, whose lines the receipt has counted; None for anything else."""
    data = stream.read(BEGINNING)
    if not begins_as_json(data.decode("utf-8", "replace")):
        return None
    data += stream.read(LAID_OUT_BYTES + 1 - len(data))
    try:
        return lay_out_output(data.decode("utf-8", "surrogatepass"))
    except UnicodeDecodeError:  # no text, or cut in the middle of a character
        return None


def _slice(stream: BinaryIO, index: LineIndex, request: ReadArtifactInput, *, is_laid_out: bool) -> ArtifactSlice:
    line, column = request.line or 1, request.column or 1
    stream.seek(index.line_start(stream, line))
    text = stream.read((column + MOST_CHARACTERS) * MOST_BYTES).decode("utf-8", "replace")
    lines = split_lines(text)
    lines[:1] = [part[column - 1 :] for part in lines[:1]]
    shown: list[str] = []
    room = MOST_CHARACTERS
    for part in lines[: request.limit or SHOWN_LINES]:
        if len(part) > room:
            break
        shown.append(part)
        room -= len(part)
    next_line: int | None = line + len(shown)
    next_column = None
    if lines and not shown:  # the first line alone has more
        shown, next_line, next_column = [lines[0][:MOST_CHARACTERS]], line, column + MOST_CHARACTERS
    elif line + len(shown) > index.lines:
        next_line = None
    return ArtifactSlice(
        path=request.path,
        line=line,
        column=column,
        text="".join(shown),
        total_lines=index.lines,
        next_line=next_line,
        next_column=next_column,
        laid_out=is_laid_out,
    )


def _find(stream: BinaryIO, index: LineIndex, request: ReadArtifactInput, wanted: str) -> ArtifactMatches:
    limit, line = request.limit or SHOWN_MATCHES, request.line or 1
    stream.seek(index.line_start(stream, line))
    matches: list[ArtifactMatch] = []
    count = 0
    next_line = None
    for number, text in enumerate(_lines(stream), start=line):
        if (at := text.find(wanted)) < 0:
            continue
        count += 1
        if len(matches) < limit:
            start = max(0, at - MATCH_CHARACTERS // 4) if len(text) > MATCH_CHARACTERS else 0
            around = text[start : start + MATCH_CHARACTERS].rstrip("\n")
            matches.append(ArtifactMatch(line=number, column=start + 1, text=around))
        elif next_line is None:
            next_line = number
    return ArtifactMatches(
        path=request.path,
        total_lines=index.lines,
        match_count=count,
        matches=tuple(matches),
        next_line=next_line,
    )


def _lines(stream: BinaryIO) -> Iterator[str]:
    """The lines from where the stream stands, a chunk at a time."""
    rest = b""
    while chunk := stream.read(CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace") + "\n"
    if rest:
        yield rest.decode("utf-8", "replace")

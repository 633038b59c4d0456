"""Finds where the characters of Claude Code's file receipts come from.

    Read          `     1→line` (later `1<tab>line`), then perhaps a reminder of the runtime's own
    Edit, Write   a sentence with the path; older releases add `cat -n` of a snippet of the new file
    MultiEdit     a sentence with the path, one line for each edit
    NotebookEdit  a sentence with the cell and its new source

A line of a snippet is linked to `structuredPatch` where the patch has the line as it was printed; many patches
were recorded with spaces for tabs. Otherwise it is linked to `originalFile` and `newString`: the edit
is applied again, and only lines that come out as printed are linked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain

from envelopes.alignment.failures import align_failure
from envelopes.alignment.lenient_structs import RecordedObject, align_untyped, link_arguments
from envelopes.alignment.mapping import Evidence
from envelopes.alignment.spans import ComposedPiece, ComposedText, Span, iterate_lines, match_at, match_numbered

NUMBERED = re.compile(r" *([0-9]{1,12})(?:→|\t)(.*)")
OPENINGS = ("The file ", "File created successfully at: ", "Applied ", "PDF file read: ", "PDF pages extracted: ")
SNIPPET = re.compile(r"(?:Here's the result of running `cat -n` on a snippet of the edited file:)\n")
SHORTENED = re.compile(r"(?:\.\.\.|…)? ?\[(?:line )?truncated\]\Z")
MARKS = ("→", "\t")  # between number and line
# The arguments that a recorded result repeats under another name.
ARGUMENTS = {
    "filePath": "file_path",
    "oldString": "old_string",
    "newString": "new_string",
    "replaceAll": "replace_all",
}
EDIT_PREVIEW = 50  # MultiEdit prints so many characters of each string


def align_read(evidence: Evidence, text: str) -> Iterable[Span]:
    file = RecordedObject(evidence.result).member("file")
    if file.recorded is None:
        return align_failure(evidence, text) or align_untyped(evidence, text)
    content, first = file.text("content"), file.integer("startLine")
    if content:
        return _numbered(text, content, 1 if first is None else first)
    return [*_path(text, file.text("filePath"), "/file/filePath"), *_cells(text, file)]


def align_change(evidence: Evidence, text: str) -> Iterable[Span]:
    """Links receipts of Edit, MultiEdit and Write."""
    if not evidence.has_result:
        return align_failure(evidence, text) or _align_arguments(RecordedObject(evidence.args), text)
    recorded = RecordedObject(evidence.result)
    if recorded.text("filePath") is None:
        return align_failure(evidence, text) or align_untyped(evidence, text)
    return _change(recorded, text)


def _align_arguments(arguments: RecordedObject, text: str) -> list[Span]:
    """Links what a receipt without a recorded result repeats: the path, and the texts of the edit or of the file."""
    names = {"content": "content", "edits": "edits", **ARGUMENTS}
    as_result = RecordedObject({name: arguments.get(argument) for name, argument in names.items()})
    pointers = {f"/{name}": f"/{argument}" for name, argument in ARGUMENTS.items()}
    return link_arguments(_change(as_result, text), pointers)


def _change(recorded: RecordedObject, text: str) -> Iterable[Span]:
    path = recorded.text("filePath")
    spans = _path(text, path, "/filePath")
    if not spans:
        return []
    sentences = sorted(spans + _replaced(text, spans[0].end, recorded) + _edits(text, recorded))
    return merge(sentences, _snippet(text, recorded))


def align_notebook_edit(evidence: Evidence, text: str) -> Iterable[Span]:
    recorded = RecordedObject(evidence.result)
    if not recorded.has_any(("cell_id", "new_source")):
        return align_change(evidence, text)
    cell, source = recorded.text("cell_id") or "", recorded.text("new_source") or ""
    if text == f"Deleted cell {cell}":
        return _present(match_at(text, len("Deleted cell "), cell, "/cell_id"))
    for verb in ("Updated", "Inserted"):
        if text == f"{verb} cell {cell} with {source}":
            at = len(f"{verb} cell ")
            source_at = at + len(cell) + len(" with ")
            return _present(match_at(text, at, cell, "/cell_id"), match_at(text, source_at, source, "/new_source"))
    return []


def _numbered(text: str, content: str, first: int) -> Iterator[Span]:
    """Links each line by its number, whole or to the beginning of a line that was too long to print."""
    at = offset = 0
    for number, (line, printed) in enumerate(zip(iterate_lines(content), iterate_lines(text), strict=False), first):
        part = _find_line(line, printed, number)
        if part is None:
            break
        start, end = part
        if start < end:
            yield Span(at + start, at + end, "/file/content", offset, offset + end - start)
        offset += len(line) + 1
        at += len(printed) + 1


def _find_line(line: str, printed: str, number: int) -> tuple[int, int] | None:
    """The part of the printed line that is the line or the beginning of it; None: it is another line."""
    start = len(printed) - len(line)
    if (
        printed.endswith(line)
        and printed[start - 1 : start] in MARKS
        and printed[: start - 1].lstrip(" ") == str(number)
    ):
        return start, len(printed)
    numbered = NUMBERED.match(printed)
    if numbered is None or int(numbered[1]) != number:
        return None
    cut = SHORTENED.search(numbered[2])
    if cut is None or cut.start() == 0 or not line.startswith(numbered[2][: cut.start()]):
        return None
    return numbered.start(2), numbered.start(2) + cut.start()


def _present(*spans: Span | None) -> list[Span]:
    return [span for span in spans if span is not None]


def _path(text: str, path: str | None, pointer: str) -> list[Span]:
    """Links the path that the first sentence names."""
    for opening in OPENINGS:
        if path and text.startswith(opening):
            at = text.index(" to ") + 4 if opening == "Applied " and " to " in text else len(opening)
            return _present(match_at(text, at, path, pointer))
    return []


def _replaced(text: str, at: int, recorded: RecordedObject) -> list[Span]:
    """Links X and Y in `All occurrences of 'X' were successfully replaced with 'Y'.`"""
    old, new = recorded.text("oldString"), recorded.text("newString")
    if old is None or new is None:
        return []
    opening, middle = " has been updated. All occurrences of '", "' were successfully replaced with '"
    if not text.startswith(f"{opening}{old}{middle}{new}'", at):
        return []
    old_at = at + len(opening)
    new_at = old_at + len(old) + len(middle)
    return _present(match_at(text, old_at, old, "/oldString"), match_at(text, new_at, new, "/newString"))


def _edits(text: str, recorded: RecordedObject) -> list[Span]:
    r"""Links `1. Replaced "X" with "Y"`, where each string is printed by its first characters."""
    spans: list[Span] = []
    at = text.find("\n1. ") + 1
    for index, edit in enumerate(recorded.items("edits")):
        pieces = [ComposedPiece(None, f'{index + 1}. Replaced "'), *_shortened(edit, "old_string", index)]
        pieces += [ComposedPiece(None, '" with "'), *_shortened(edit, "new_string", index), ComposedPiece(None, '"')]
        line = ComposedText(pieces)
        if at == 0 or not text.startswith(line.text, at):
            break
        spans += line.spans(at, 0, len(line.text))
        at += len(line.text) + 1
    return spans


def _shortened(edit: RecordedObject, name: str, index: int) -> list[ComposedPiece]:
    value = edit.text(name) or ""
    rest = "..." if len(value) > EDIT_PREVIEW else ""
    return [ComposedPiece(f"/edits/{index}/{name}", value[:EDIT_PREVIEW]), ComposedPiece(None, rest)]


def _snippet(text: str, recorded: RecordedObject) -> Iterable[Span]:
    """Spans in the order of the text. Where the file may have become two things, all lines of both are compared."""
    opening = SNIPPET.search(text)
    number = NUMBERED.match(text, opening.end()) if opening else None
    if opening is None or number is None:
        return []
    candidates = [_lines_from(text, opening.end(), int(number[1]), new, recorded) for new in _new_files(recorded)]
    if len(candidates) == 1:
        lines = candidates[0]
    else:
        aligned = [list(candidate) for candidate in candidates]
        longest: list[Span] = max(aligned, key=len, default=[])
        lines = iter(longest)
    first = next(lines, None)
    return _from_patch(text, opening.end(), recorded) if first is None else chain((first,), lines)


def _new_files(recorded: RecordedObject) -> Iterator[ComposedText]:
    """The texts that the file may have after the change, composed from the recorded fields."""
    content = recorded.text("content")
    if content is not None:
        yield ComposedText([ComposedPiece("/content", content)])
        return
    old, new, original = recorded.text("oldString"), recorded.text("newString"), recorded.text("originalFile") or ""
    if old is None or new is None:
        return
    every = recorded.flag("replaceAll") or False
    yield ComposedText(_applied(original, old, new, every=every))
    if not new and not old.endswith("\n"):
        yield ComposedText(_applied(original, old + "\n", new, every=every))


def _applied(original: str, old: str, new: str, *, every: bool) -> Iterator[ComposedPiece]:
    at = 0
    while old and (start := original.find(old, at)) >= 0:
        yield ComposedPiece("/originalFile", original[at:start], at)
        yield ComposedPiece("/newString", new)
        at = start + len(old)
        if not every:
            break
    if not old:
        yield ComposedPiece("/newString", new)
    yield ComposedPiece("/originalFile", original[at:], at)


def _lines_from(text: str, at: int, first: int, new: ComposedText, recorded: RecordedObject) -> Iterator[Span]:
    """Links lines of the snippet to the lines of `new` from its line `first`, as long as they are equal."""
    before = new.text.split("\n", first - 1) if first > 0 else []
    if len(before) < first or first < 1:
        return
    rest, number, counted = before[-1], first, 0
    offset = len(new.text) - len(rest)
    patched = {} if recorded.has_any(("content",)) else dict(_patch_lines(recorded))
    for line in match_numbered(text, at, rest, "", first=first):
        start, end = line.value_start + offset, line.value_end + offset
        if patched:
            number, counted = number + rest.count("\n", counted, line.value_start), line.value_start
            pointer, patch_line = patched.get(number, ("", ""))
            if patch_line and patch_line == new.text[start:end]:
                yield Span(line.start, line.end, pointer, 1, 1 + len(patch_line))
                continue
        yield from new.spans(line.start, start, end)


def _from_patch(text: str, at: int, recorded: RecordedObject) -> list[Span]:
    """Links lines to those of the patch with the same number, where the file before the edit is not known."""
    patched = dict(_patch_lines(recorded))
    spans: list[Span] = []
    while printed := NUMBERED.match(text, at):
        pointer, patch_line = patched.get(int(printed[1]), ("", ""))
        if patch_line and patch_line == printed[2]:
            spans.append(Span(printed.start(2), printed.end(2), pointer, 1, 1 + len(patch_line)))
        at = printed.end() + 1
    return spans


def _patch_lines(recorded: RecordedObject) -> Iterator[tuple[int, tuple[str, str]]]:
    """Lines of the new file: number -> (pointer, line without its mark)."""
    for index, hunk in enumerate(recorded.items("structuredPatch")):
        number = hunk.integer("newStart") or 1
        for row, line in enumerate(hunk.strings("lines")):
            if line[:1] in (" ", "+"):
                yield number, (f"/structuredPatch/{index}/lines/{row}", line[1:])
                number += 1


def _cells(text: str, file: RecordedObject) -> list[Span]:
    """Links the sources in `<cell id="X">…source</cell id="X">`, in order."""
    spans: list[Span] = []
    at = 0
    for index, cell in enumerate(file.items("cells")):
        name, source = cell.text("cell_id") or "", cell.text("source") or ""
        opening, closing = f'<cell id="{name}">', f'{source}</cell id="{name}">'
        begin = text.find(opening, at)
        end = text.find(closing, begin + len(opening)) if begin >= 0 else -1
        if end < 0:
            continue
        spans += _present(match_at(text, end, source, f"/file/cells/{index}/source"))
        at = end + len(closing)
    return spans

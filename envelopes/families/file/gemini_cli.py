"""The tools for files of the Gemini CLI (read_file, write_file, replace) and of Qwen Code (edit in place of replace).

The recorded result of an edit is `{fileName, filePath?, fileDiff, originalContent, newContent, diffStat}`, where a
release keeps one; a read has none. Receipts:

    the content of the file, behind a notice where lines are missing
    Successfully created and wrote to new file: P. / Successfully overwrote file: P.
    Successfully modified file: P (1 replacements).
    Showing lines 1-1000 of 3001 total lines. / --- / the lines, of Qwen Code
    The file: P has been updated. Showing lines 1-3 of 3 from the edited file: / --- / the lines, of Qwen Code
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.source_cuts import SourceCut, find_source_cuts
from envelopes.alignment.spans import Span, match_once
from envelopes.families.file.codex import read_hunks
from envelopes.families.file.results import ChangeAction, FileChange, FileContent

AGENT = "gemini-cli"
PATHS = ("file_path", "absolute_path", "path")
WRITTEN = re.compile(
    r"Successfully (?P<verb>created and wrote to new file|overwrote file|modified file): (?P<path>.+?)"
    r"(?:\. |\.\Z| \(\d+ replacements?\)|\n|\Z)|Created new file: (?P<new>.+?) with provided content"
    r"|The file: (?P<edited>.+?) has been updated\.",
)
TRUNCATED = re.compile(
    r"\[File content truncated: showing lines (?P<from>\d{1,9})-(?P<to>\d{1,9}) of (?P<of>\d{1,9}) total lines[^\n]*\n"
    r"|\s*IMPORTANT: The file content has been truncated\.\n"
    r"Status: Showing lines (?P<first>\d{1,9})-(?P<last>\d{1,9}) of (?P<total>\d{1,9}) total lines\..*?"
    r"--- FILE CONTENT \(truncated\) ---\n"
    r"|Showing lines (?P<start>\d{1,9})-(?P<end>\d{1,9}) of (?P<lines>\d{1,9}) total lines\.\n\n---\n\n",
    re.DOTALL,
)
EDITED_LINES = re.compile(
    r"The file: [^\n]+ has been updated\. Showing lines (?P<first>\d{1,9})-\d{1,9} of \d{1,9} from the edited file:"
    r"\n\n---\n\n"
)
UNCHANGED = re.compile(r"\[File .+ unchanged since last read in this session ")  # in place of the content


def _path(evidence: Evidence) -> str:
    args = RecordedObject(evidence.args)
    return next((path for name in PATHS if (path := args.text(name))), "a file")


def _read_file(evidence: Evidence) -> Reading:
    """Reads the content from the receipt, which is all that is recorded of it."""
    if failure := read_failure(evidence):
        return failure
    receipt = evidence.receipt_text
    if receipt is None or evidence.result is not None or find_output_preview(receipt) or UNCHANGED.match(receipt):
        return read_untyped(evidence)
    notice = TRUNCATED.match(receipt)
    content = receipt[notice.end() :] if notice else receipt
    first, last, total = _shown_lines(notice)
    result = FileContent(
        path=_path(evidence),
        content=content,
        start_line=first,
        line_count=None if first is None or last is None else last - first + 1,
        total_lines=total,
    )
    cuts = find_source_cuts(content, "", "file")
    if (missing := _missing_lines(RecordedObject(evidence.args), first, last, total)) > 0:
        cuts = (*cuts, SourceCut(pointer="", unit="lines", count=missing, lines=missing, is_limit=True))
    summary = f"read {result.path}"
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)


def _missing_lines(args: RecordedObject, first: int | None, last: int | None, total: int | None) -> int:
    """The lines behind those shown, up to the end of the file or of the range that the call asked for."""
    if first is None or last is None or total is None:
        return 0
    limit, end = args.integer("limit"), args.integer("end_line")
    asked = first + limit - 1 if limit is not None else total if end is None else end
    return max(0, min(asked, total) - last)


def _shown_lines(notice: re.Match[str] | None) -> tuple[int | None, int | None, int | None]:
    if notice is None:
        return None, None, None
    first, last, total = (int(number) for number in notice.groups() if number)
    return first, last, total


def _read_change(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    recorded = RecordedObject(evidence.result)
    diff = recorded.text("fileDiff")
    written = WRITTEN.match(evidence.receipt_text or "")
    if diff is None and (written is None or evidence.result is not None):
        return read_untyped(evidence)
    is_new = bool(written and (written["new"] or written["verb"] == "created and wrote to new file"))
    action: ChangeAction = "add" if is_new else "modify"
    named = (written["path"] or written["new"] or written["edited"]) if written else None
    path = recorded.text("filePath") or named or _path(evidence)
    summary = f"{'created' if is_new else 'updated'} {path}"
    if diff is None:
        change = FileChange(path=path, action=action)
        return reading(evidence, change, summary, links={}, fidelity="parsed_from_receipt")
    change = FileChange(path=path, action=action, hunks=tuple(read_hunks(diff)))
    links = {"/fileDiff": "/result/diff_preview"}
    if recorded.text("filePath"):
        links["/filePath"] = "/result/changed_files/0/path"
    return reading(evidence, change, summary, links=links)


def _align_change(evidence: Evidence, text: str) -> list[Span]:
    """Links the path, that of the result or else the argument that the sentence repeats, and the lines of the file."""
    recorded = RecordedObject(evidence.result)
    if not WRITTEN.match(text):
        return align_failure(evidence, text)
    shown = EDITED_LINES.match(text)
    lines = _align_lines(recorded, text, shown) if shown else []
    head = text[: shown.end()] if shown else text
    if (path := recorded.text("filePath")) and (span := match_once(head, path, "/filePath")):
        return [span, *lines]
    args = RecordedObject(evidence.args)
    for name in PATHS:
        value = args.text(name)
        if value and (span := match_once(head, value, f"/{name}")):
            return [Span(span.start, span.end, f"/{name}", 0, len(value), "args"), *lines]
    return lines


def _align_lines(recorded: RecordedObject, text: str, shown: re.Match[str]) -> list[Span]:
    """Links the lines of the edited file to the recorded content of it, where they are the same."""
    content, shown_text = recorded.text("newContent") or "", text[shown.end() :]
    before = content.splitlines(keepends=True)[: int(shown["first"]) - 1]
    start = sum(map(len, before))
    if not shown_text or not content.startswith(shown_text, start):
        return []
    return [Span(shown.end(), len(text), "/newContent", start, start + len(shown_text))]


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("read_file",), version=4, read=_read_file, align=align_failure),
    ToolMapping(agent=AGENT, tools=("write_file", "replace"), version=2, read=_read_change, align=_align_change),
)

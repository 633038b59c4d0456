"""OpenCode's read, write and edit, as releases 1.0 to 1.18 record them.

    read   {preview, truncated, loaded, display: {type: file, path, text, lineStart, lineEnd, totalLines}}
                                        display: {type: directory, path, entries, offset, totalEntries}
           {preview}, the first lines, before 1.18: the rest is read from the receipt
    write  {filepath, exists, diagnostics}
    edit   {diff, filediff: {file, patch, additions, deletions}, diagnostics}

The receipt of a read has the numbered lines or the names between tags, behind a `<path>` and a `<type>`; in 1.0 the
lines alone (`00001| a line`). Those of a write and an edit are a sentence. Where the lines were capped at 50 KB, the
rest of the file was not counted: `totalLines` is then one more than the last line.
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut, find_source_cuts
from envelopes.alignment.spans import Span, match_at, match_items, match_numbered, whole_cut
from envelopes.families.file.codex import read_hunks
from envelopes.families.file.results import (
    ChangeAction,
    FileChange,
    FileContent,
    ReadKind,
    summarize_folder,
    summarize_read,
)

AGENT = "opencode"
PATH = "<path>"
OPENING = re.compile(r"<(?:content|entries)>\n")
SHOWN = re.compile(
    r"(?:<path>[^\n]+</path>\n<type>\w+</type>\n)?<(?P<tag>file|content|entries)>\n?(?P<lines>.*?)\n\n"
    r"\((?:End of file - total (?P<total>\d{1,9}) lines|(?P<all>\d{1,9} entries)|(?P<capped>Output )?[^\n]*?"
    r"(?: of (?P<of>\d{1,9})(?: entries)?\.| at |more lines)[^\n]*)\)\n</(?P=tag)>(?:\n.*)?",
    re.DOTALL,
)
NUMBERED = re.compile(r"(?P<number>\d{1,9})(?:: |\| )(?P<text>.*)")
LINE_END = re.compile(r".{2000}\.\.\.")  # of a line that was cut, in releases that do not say so
CAPPED = re.compile(r"\n\n\(Output capped at [^\n]+\)\n</content>\Z")
MEDIA: dict[str, ReadKind] = {"Image read successfully": "image", "PDF read successfully": "pdf"}


def _read_file(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    shown = RecordedObject(evidence.result).member("display")
    if shown.text("type") == "file":
        return _read_lines(evidence, shown)
    if shown.text("type") == "directory":
        return _read_entries(evidence, shown)
    receipt, path = evidence.receipt_text or "", RecordedObject(evidence.args).text("filePath")
    kind, shown_lines = MEDIA.get(receipt), SHOWN.fullmatch(receipt)
    if path and kind:
        return reading(evidence, FileContent(path=path, kind=kind), f"read {path} ({kind})", links={})
    return _read_receipt(evidence, path, shown_lines) if path and shown_lines else read_untyped(evidence)


def _read_receipt(evidence: Evidence, path: str, shown: re.Match[str]) -> Reading:
    """Reads the lines of a file, or the names in a folder, where the client kept the first of them alone."""
    if shown["tag"] == "entries":
        names, limit = shown["lines"].splitlines(), SourceCut(pointer="", unit="files", is_limit=True)
        result = FileContent(path=path, content="\n".join(names), line_count=len(names))
        return reading(
            evidence,
            result,
            summarize_folder(path, len(names)),
            links={},
            fidelity="parsed_from_receipt",
            source_cuts=() if shown["all"] else (limit,),
        )
    numbered = [NUMBERED.fullmatch(line) for line in shown["lines"].split("\n")]
    lines = [line for line in numbered if line]
    content = "\n".join(line["text"] for line in lines)
    first = int(lines[0]["number"]) if lines else None
    total = shown["total"] or shown["of"]
    result = FileContent(
        path=path,
        content=content,
        start_line=first,
        line_count=len(lines),
        total_lines=int(total) if total else None,
    )
    ends = sum(LINE_END.fullmatch(line["text"]) is not None for line in lines)
    cuts = find_source_cuts(content, "", "file")
    if ends:
        cuts = (*cuts, SourceCut(pointer="", unit="line ends", count=ends))
    if shown["capped"] or not (shown["total"] or RecordedObject(evidence.args).integer("limit")):
        missing = int(total) - (first or 1) + 1 - len(lines) if total else None
        cuts = (*cuts, SourceCut(pointer="", unit="lines", count=missing, lines=missing or 1, is_limit=True))
    summary = summarize_read(path, len(lines))
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)


def _read_lines(evidence: Evidence, shown: RecordedObject) -> Reading:
    first, last, total = (shown.integer(name) for name in ("lineStart", "lineEnd", "totalLines"))
    text = shown.text("text") or ""
    count = None if first is None or last is None else max(0, last - first + 1)
    is_counted = CAPPED.search(evidence.receipt_text or "") is None
    result = FileContent(
        path=shown.text("path") or "a file",
        content=text,
        start_line=first,
        line_count=count,
        total_lines=total if is_counted else None,
    )
    links = {
        "/display/path": "/result/path",
        "/display/text": "/result/content_preview",
        "/display/lineStart": "/result/start_line",
    }
    if is_counted:
        links["/display/totalLines"] = "/result/total_lines"
    args = RecordedObject(evidence.args)
    is_asked = args.integer("offset") is not None or args.integer("limit") is not None
    output = OutputField("/display/text", first or 1, result.total_lines, is_asked=is_asked)
    cuts = find_source_cuts(text, "/display/text", "file")
    is_limit = args.integer("limit") is None or not is_counted
    if total is not None and last is not None and last < total and is_limit:
        end, missing = whole_cut(text).total, total - last
        rest = SourceCut(
            pointer="/display/text",
            unit="lines",
            count=missing if is_counted else None,
            start=end,
            end=end,
            lines=missing,
            is_limit=True,
        )
        cuts = (*cuts, rest)
    summary = summarize_read(result.path, count)
    return reading(evidence, result, summary, links=links, outputs=(output,) if text else (), source_cuts=cuts)


def _read_entries(evidence: Evidence, shown: RecordedObject) -> Reading:
    names, total = shown.strings("entries"), shown.integer("totalEntries")
    result = FileContent(path=shown.text("path") or "a folder", content="\n".join(names), line_count=len(names))
    links = {"/display/path": "/result/path", "/display/entries": "/result/content_preview"}
    missing = (total or 0) - (shown.integer("offset") or 1) + 1 - len(names)
    is_limit = missing > 0 and RecordedObject(evidence.args).integer("limit") is None
    cuts = (SourceCut(pointer="/display/entries", unit="files", count=missing, is_limit=True),) if is_limit else ()
    summary = summarize_folder(result.path, len(names))
    return reading(evidence, result, summary, links=links, source_cuts=cuts)


def _align_file(evidence: Evidence, text: str) -> list[Span]:
    """Links the path, and the numbered lines of a file or the names in a folder."""
    shown = RecordedObject(evidence.result).member("display")
    opening = OPENING.search(text)
    if opening is None or not text.startswith(PATH):
        return align_failure(evidence, text)
    path = match_at(text, len(PATH), shown.text("path") or "", "/display/path")
    spans = [path] if path else []
    if shown.text("type") == "directory":
        return [*spans, *match_items(text, opening.end(), shown.strings("entries"), "/display/entries")]
    content, first = shown.text("text") or "", shown.integer("lineStart") or 1
    return [*spans, *match_numbered(text, opening.end(), content, "/display/text", first=first, separators=(": ",))]


def _read_change(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    recorded = RecordedObject(evidence.result)
    path, diff = recorded.text("filepath"), recorded.text("diff")
    if path is not None:
        action: ChangeAction = "modify" if recorded.flag("exists") else "add"
        links = {"/filepath": "/result/changed_files/0/path", "/exists": "/result/changed_files/0/action"}
        summary = f"{'created' if action == 'add' else 'updated'} {path}"
        return reading(evidence, FileChange(path=path, action=action), summary, links=links)
    if diff is None:
        return read_untyped(evidence)
    path = recorded.member("filediff").text("file")
    links = {"/diff": "/result/diff_preview"}
    if path is not None:
        links["/filediff/file"] = "/result/changed_files/0/path"
    changed = path or RecordedObject(evidence.args).text("filePath") or "a file"
    change = FileChange(path=changed, hunks=tuple(read_hunks(diff)))
    return reading(evidence, change, f"updated {changed}", links=links)


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("read",), version=2, read=_read_file, align=_align_file),
    ToolMapping(agent=AGENT, tools=("write", "edit"), version=1, read=_read_change, align=align_failure),
)

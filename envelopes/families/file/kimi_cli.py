"""Kimi CLI's ReadFile, WriteFile and StrReplaceFile.

A read returns the lines behind their numbers, and how many in a sentence: `3 lines read from file starting from line 1.
Total lines in file: 3. End of file reached. Lines [1, 3] were truncated.` A write and an edit return a sentence, and as
`display` what they changed: `{type: diff, path, old_text, new_text, old_start, new_start}`.
"""

from __future__ import annotations

import re
from os.path import commonprefix

from envelopes.alignment.kimi_receipts import (
    AGENT,
    OUTPUT,
    ToolReturn,
    align_return,
    read_failed,
    read_output,
    read_return,
)
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.families.file.results import FileChange, FileContent, Hunk, summarize_read

READ = re.compile(r"(?P<count>\d{1,9}) lines? read from file(?: starting from line (?P<first>\d{1,9}))?\.")
TOTAL = re.compile(r" Total lines in file: (?P<total>\d{1,9})\.")
LIMIT = re.compile(r" Max \d+ (?:lines|bytes) reached\.")
END = " End of file reached."
SHORTENED = re.compile(r" Lines \[(?P<numbers>[\d, ]+)\] were truncated\.")
NUMBER = re.compile(r"^ *\d+\t", re.MULTILINE)


def _read_file(evidence: Evidence) -> Reading:
    returned, arguments = read_return(evidence), RecordedObject(evidence.args)
    if failure := read_failed(evidence, returned):
        return failure
    path = arguments.text("path") or "a file"
    counted, total = READ.match(returned.message), TOTAL.search(returned.message)
    count = int(counted["count"]) if counted else 0
    first = int(counted["first"] or 1) if counted else 1
    lines = int(total["total"]) if total else None
    content = NUMBER.sub("", returned.output)
    behind = None if lines is None else lines - first - count + 1
    is_asked = arguments.integer("n_lines") is not None and not LIMIT.search(returned.message)
    has_more = counted is not None and END not in returned.message and behind != 0
    return read_output(
        evidence,
        returned,
        FileContent(path=path, content=content, start_line=first, line_count=count, total_lines=lines),
        summarize_read(path, count),
        links={OUTPUT: "/result/content_preview", "/message": "/result/line_count"},
        source_cuts=find_read_cuts(returned, count, behind, has_more=has_more and not is_asked),
        first_line=first,
        total_lines=lines,
    )


def find_read_cuts(returned: ToolReturn, count: int, behind: int | None, *, has_more: bool) -> tuple[SourceCut, ...]:
    """Lines of which the end was cut, and those behind the tool's own limit, `behind` in number where it states that.

    Of a read that asked for no number of lines it does not mention its limit.
    """
    cuts, pointer = list[SourceCut](), OUTPUT if returned.is_recorded else ""
    if shortened := SHORTENED.search(returned.message):
        cuts.append(SourceCut(pointer=pointer, unit="line ends", count=shortened["numbers"].count(",") + 1))
    if has_more:
        cuts.append(
            SourceCut(
                pointer=pointer, unit="lines", count=behind, start=count, end=count, lines=behind or 1, is_limit=True
            )
        )
    return tuple(cuts)


def _read_change(evidence: Evidence) -> Reading:
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    arguments, recorded = RecordedObject(evidence.args), RecordedObject(evidence.result)
    path = arguments.text("path") or "a file"
    blocks = [block for block in recorded.items("display") if block.text("type") == "diff"]
    is_whole = all(block.flag("is_summary") is not True for block in blocks)
    change = FileChange(
        path=path,
        hunks=tuple(_read_block(block) for block in blocks) if blocks and is_whole else None,
        content=arguments.text("content") or "",
    )
    verb = "updated" if arguments.text("content") is None else "wrote"
    links = {"/display": "/result/diff_preview"} if change.hunks else {}
    return read_output(evidence, returned, change, f"{verb} {path}", links=links)


def _read_block(block: RecordedObject) -> Hunk:
    """The lines that changed, between those that both texts begin and end with."""
    old, new = ((block.text(name) or "").split("\n") if block.text(name) else [] for name in ("old_text", "new_text"))
    before = len(commonprefix([old, new]))
    behind = len(commonprefix([old[before:][::-1], new[before:][::-1]]))
    return Hunk(
        old_start=block.integer("old_start") or 1,
        old_lines=len(old),
        new_start=block.integer("new_start") or 1,
        new_lines=len(new),
        lines=(
            *(f" {line}" for line in old[:before]),
            *(f"-{line}" for line in old[before : len(old) - behind]),
            *(f"+{line}" for line in new[before : len(new) - behind]),
            *(f" {line}" for line in old[len(old) - behind :]),
        ),
    )


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("ReadFile",), version=1, read=_read_file, align=align_return),
    ToolMapping(
        agent=AGENT,
        tools=("WriteFile", "StrReplaceFile", "PatchFile"),
        version=1,
        read=_read_change,
        align=align_return,
    ),
)

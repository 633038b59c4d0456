"""Kimi Code's Read, Write and Edit.

A read returns the lines behind their numbers and a tab, and a note as Kimi CLI's, in releases from 0.43 on with the
limit that held: `3 lines read from file starting from line 1. Total lines in file: 9. Requested range complete.`
A write and an edit return a sentence.
"""

from __future__ import annotations

from envelopes.alignment.kimi_code_receipts import OUTPUT, read_success, tool_mapping
from envelopes.alignment.kimi_receipts import ToolReturn
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.families.file.kimi_cli import NUMBER, READ, TOTAL, find_read_cuts
from envelopes.families.file.results import FileChange, FileContent, summarize_read

COMPLETE = " Requested range complete."
NOTHING = "Tool output is empty."


def _read_file(evidence: Evidence, answer: ToolReturn) -> Reading:
    arguments = RecordedObject(evidence.args)
    path = arguments.text("path") or "a file"
    counted, total = READ.match(answer.message), TOTAL.search(answer.message)
    count = int(counted["count"]) if counted else 0
    first = int(counted["first"] or 1) if counted else 1
    lines = int(total["total"]) if total else None
    behind = None if lines is None else lines - first - count + 1
    content = "" if answer.output == NOTHING else NUMBER.sub("", answer.output)
    is_whole = COMPLETE in answer.message or behind == 0 or counted is None
    return read_success(
        evidence,
        answer,
        FileContent(path=path, content=content, start_line=first, line_count=count, total_lines=lines),
        summarize_read(path, count),
        links={OUTPUT: "/result/content_preview", "/note": "/result/line_count"},
        source_cuts=find_read_cuts(answer, count, behind, has_more=not is_whole),
        first_line=first,
        total_lines=lines,
    )


def _read_change(evidence: Evidence, answer: ToolReturn) -> Reading:
    arguments = RecordedObject(evidence.args)
    path, content = arguments.text("path") or "a file", arguments.text("content")
    verb = "updated" if content is None else "appended to" if arguments.text("mode") == "append" else "wrote"
    change = FileChange(path=path, content=content or "")
    return read_success(evidence, answer, change, f"{verb} {path}", links={}, source_cuts=())


MAPPINGS = (tool_mapping(("Read",), _read_file), tool_mapping(("Write", "Edit"), _read_change))

"""Mistral Vibe's read_file, write_file, edit, and before 2.20 search_replace, whose receipts are their fields.

A read has the lines behind their numbers and an arrow, in releases before 2.20 without numbers.
"""

from __future__ import annotations

import re

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.vibe_receipts import Fields, read_fields, read_parsed, take_apart, vibe_mapping
from envelopes.families.file.results import FileChange, FileContent, summarize_read

NUMBER = re.compile(r"^ *\d+→", re.MULTILINE)
EMPTY = "<vibe_warning>"  # in place of the lines of an empty file


def _read_file(evidence: Evidence, receipt: str) -> Reading | None:
    if recorded := read_fields(receipt):
        path = recorded.text("path")
        first, count = (recorded.integer("offset") or 0) + 1, recorded.integer("lines_read")
        if path is None or count is None:
            return None
        content, total = recorded.text("content") or "", recorded.integer("total_lines")
        return _read_lines(evidence, path, content, count, first, total, is_part=bool(recorded.flag("was_truncated")))
    fields = take_apart(
        receipt,
        *("file_path", "content", "num_lines", "start_line", "requested_offset", "requested_limit"),
        *("total_lines", "was_truncated"),
    )
    if fields is not None:
        content = "" if fields["content"].startswith(EMPTY) else NUMBER.sub("", fields["content"])
        total = _number(fields, "total_lines")
        return _read_lines(
            evidence, fields["file_path"], content, _number(fields, "num_lines"), _number(fields, "start_line"), total,
            is_part=fields["was_truncated"] == "True",
        )  # fmt: skip
    fields = take_apart(receipt, "path", "content", "offset?", "lines_read", "was_truncated")
    if fields is None:
        return None
    first = (_number(fields, "offset") or 0) + 1
    return _read_lines(
        evidence, fields["path"], fields["content"], _number(fields, "lines_read"), first, None,
        is_part=fields["was_truncated"] == "True",
    )  # fmt: skip


def _number(fields: Fields, name: str) -> int | None:
    value = fields.get(name, "")
    return int(value) if value.isdecimal() else None


def _read_lines(
    evidence: Evidence,
    path: str,
    content: str,
    count: int | None,
    first: int | None,
    total: int | None,
    *,
    is_part: bool,
) -> Reading:
    number, start = count or 0, first or 1
    result = FileContent(path=path, content=content, start_line=start, line_count=number, total_lines=total)
    is_limit = is_part and RecordedObject(evidence.args).integer("limit") is None
    limit = SourceCut(pointer="", unit="lines", start=number, end=number, lines=1, is_limit=True)
    return read_parsed(evidence, result, summarize_read(path, number), (limit,) if is_limit else ())


def _read_change(evidence: Evidence, receipt: str) -> Reading | None:
    arguments = RecordedObject(evidence.args)
    path = arguments.text("file_path") or arguments.text("path")
    is_write = receipt.startswith(("file_path: ", "path: ")) and "\nbytes_written: " in receipt
    if read_fields(receipt) and path is not None:
        written = arguments.text("content")
        verb = "updated" if written is None else "wrote"
        return read_parsed(evidence, FileChange(path=path, content=written or ""), f"{verb} {path}")
    if path is None or not (is_write or receipt.startswith("file: ")):
        return None
    change = FileChange(path=path, content=(arguments.text("content") or "") if is_write else "")
    return read_parsed(evidence, change, f"{'wrote' if is_write else 'updated'} {path}")


MAPPINGS = (
    vibe_mapping(("read_file",), _read_file),
    vibe_mapping(("write_file", "edit", "search_replace"), _read_change),
)

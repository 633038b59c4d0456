"""The Continue CLI's Read, Write and Edit, whose receipts have the text of a file, or the difference of a change."""

from __future__ import annotations

from envelopes.alignment.continue_receipts import continue_mapping, read_parsed
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.families.file.codex import read_hunks
from envelopes.families.file.results import FileChange, FileContent, summarize_read

DIFFERENCE = "\nDiff:\n"


def _read_file(evidence: Evidence, receipt: str) -> Reading | None:
    path = RecordedObject(evidence.args).text("filepath")
    shown = path.removeprefix("./") if path else ""
    header = f"Content of {shown}:\n"
    if path is None or not receipt.startswith(header):
        return None
    content = receipt.removeprefix(header)
    count = content.count("\n") + (not content.endswith("\n") and bool(content))
    result = FileContent(path=path, content=content, start_line=1, line_count=count, total_lines=count)
    return read_parsed(evidence, result, summarize_read(path, count))


def _read_change(evidence: Evidence, receipt: str) -> Reading | None:
    arguments = RecordedObject(evidence.args)
    path = arguments.text("filepath") or arguments.text("file_path")
    if path is None or not receipt.startswith("Successfully "):
        return None
    is_new = receipt.startswith("Successfully created file: ")
    difference = receipt.partition(DIFFERENCE)[2]
    hunks = tuple(read_hunks(difference[difference.find("@@") :])) if "\n@@" in difference else None
    content = arguments.text("content") or ""
    change = FileChange(path=path, action="add" if is_new else "modify", hunks=hunks, content=content)
    return read_parsed(evidence, change, f"{'wrote' if content else 'updated'} {path}")


MAPPINGS = (
    continue_mapping("Read", _read_file),
    continue_mapping("Write", _read_change),
    continue_mapping("Edit", _read_change),
)

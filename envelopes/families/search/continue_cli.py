"""The Continue CLI's List: `a.txt (file, 13 bytes)` or `src (directory)`, a line each behind one with the folder."""

from __future__ import annotations

import re

from envelopes.alignment.continue_receipts import continue_mapping, read_parsed
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.families.search.results import FileMatches, summarize_files

ENTRY = re.compile(r"(?P<name>.+) \((?:file|directory)(?:, \d{1,15} bytes)?\)")


def _read_folder(evidence: Evidence, receipt: str) -> Reading | None:
    head, *lines = receipt.split("\n")
    entries = [ENTRY.fullmatch(line) for line in lines if line]
    names = [entry["name"] for entry in entries if entry]
    if not head.startswith("Files in ") or len(names) < len(entries):
        return None
    return read_parsed(evidence, FileMatches(filenames=names, file_count=len(names)), summarize_files(len(names)))


MAPPINGS = (continue_mapping("List", _read_folder),)

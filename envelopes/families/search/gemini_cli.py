"""Gemini CLI's glob, search_file_content, grep_search and list_directory, of which only the receipt is recorded.

Found 3 file(s) matching "*.py" within D, sorted by modification time (newest first): / a path a line
Found 47 matches for pattern "x" in path ".": / --- / File: a.py / L3: … / ---
Directory listing for D: / a name a line, [DIR] before those of folders
"""

from __future__ import annotations

import re
from collections.abc import Callable

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.spans import Span, match_once
from envelopes.families.search.results import FileMatches, TextMatches

AGENT = "gemini-cli"
FILES = re.compile(r"Found (?P<count>\d{1,9}) file\(s\) matching [^\n]*:\n")
LISTING = re.compile(r"Directory listing for [^\n]*:\n")
NO_FILES = re.compile(r"No files found|Directory \S+ is empty")
MATCHES = re.compile(r"Found (?P<count>\d{1,9}) match(?:es)? for pattern [^\n]*:\n(?:---\n)?")
NO_MATCHES = re.compile(r"No matches found")
LEAST_PATTERN = 3  # characters of a pattern; a shorter one occurs in the sentence by chance

_FromReceipt = Callable[[Evidence, str], Reading | None]


def _read_with(from_receipt: _FromReceipt) -> Callable[[Evidence], Reading]:
    def read(evidence: Evidence) -> Reading:
        if failure := read_failure(evidence):
            return failure
        found = from_receipt(evidence, evidence.receipt_text or "") if evidence.result is None else None
        return found or read_untyped(evidence)

    return read


def _files(evidence: Evidence, receipt: str) -> Reading | None:
    """A listing may end in a notice of what was ignored, behind an empty line."""
    head = FILES.match(receipt) or LISTING.match(receipt)
    if head is None and not NO_FILES.match(receipt):
        return None
    names = receipt[head.end() :].partition("\n\n")[0].splitlines() if head else []
    count = int(head["count"]) if head and "count" in head.groupdict() else len(names)
    result = FileMatches(filenames=names, file_count=count)
    summary = f"{count or 'No'} file{'' if count == 1 else 's'} found"
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt")


def _matches(evidence: Evidence, receipt: str) -> Reading | None:
    head = MATCHES.match(receipt)
    if head is None and not NO_MATCHES.match(receipt):
        return None
    count = int(head["count"]) if head else 0
    content = receipt[head.end() :].removesuffix("\n---") if head else ""
    result = TextMatches(mode="content", content=content, match_count=count)
    pattern = RecordedObject(evidence.args).text("pattern")
    sought = f" for {pattern!r}" if pattern else ""
    summary = f"{count or 'No'} match{'' if count == 1 else 'es'} found{sought}"
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt")


def _align_pattern(evidence: Evidence, text: str) -> list[Span]:
    """Links the pattern that the first line repeats."""
    pattern = RecordedObject(evidence.args).text("pattern") or ""
    first = text.partition("\n")[0]
    span = match_once(first, f'"{pattern}"', "") if len(pattern) >= LEAST_PATTERN else None
    if span is None or not (FILES.match(text) or MATCHES.match(text)):
        return align_failure(evidence, text)
    return [Span(span.start + 1, span.end - 1, "/pattern", 0, len(pattern), "args")]


MAPPINGS = (
    ToolMapping(
        agent=AGENT, tools=("glob", "list_directory"), version=1, read=_read_with(_files), align=_align_pattern
    ),
    ToolMapping(
        agent=AGENT,
        tools=("search_file_content", "grep_search"),
        version=1,
        read=_read_with(_matches),
        align=_align_pattern,
    ),
)

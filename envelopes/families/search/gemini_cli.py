"""The Gemini CLI's and Qwen Code's glob, search_file_content, grep_search and list_directory.

Most releases record only the receipt. Some have what they showed to the person beside it, `{summary, matches[]}` or
`{summary, files[]}`, with the same lines.

Found 3 file(s) matching "*.py" within D, sorted by modification time (newest first): / a path a line
Found 47 matches for pattern "x" in path ".": / --- / File: a.py / L3: … / ---
Found 2 files with matches for pattern "x" in path ".": / a path a line
Directory listing for D: / a name a line, [DIR] before those of folders
Listed 3 item(s) in D: / --- / a name a line, of Qwen Code, which has such a line behind the head of files too

Where some are left out, Qwen Code has `--- / [736 lines truncated] ...` behind them, and the Gemini CLI
`(results limited to 100 matches for performance)` in the head of a search.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.spans import Span, match_once
from envelopes.families.search.results import FileMatches, TextMatches, summarize_files, summarize_matches

AGENT = "gemini-cli"
FILES = re.compile(r"Found (?P<count>\d{1,9}) file\(s\) matching [^\n]*:\n(?:---\n)?")
LISTING = re.compile(r"(?:Directory listing for|Listed (?P<count>\d{1,9}) item\(s\) in) [^\n]*:\n(?:---\n)?")
NO_FILES = re.compile(r"No files found|Directory \S+ is empty")
MATCHES = re.compile(r"Found (?P<count>\d{1,9}) match(?:es)? for pattern [^\n]*:\n(?:---\n)?")
NAMES = re.compile(r"Found (?P<count>\d{1,9}) files? with matches for pattern [^\n]*:\n")
NO_MATCHES = re.compile(r"No matches found")
LIMITED = re.compile(r"[^\n]*\(results limited to (?P<shown>\d{1,9}) matches for performance\)[^\n]*:\n")
LEFT_OUT = re.compile(r"\n---\n ?\[(?P<count>\d{1,9}) (?:line|file|item)s? truncated\] \.\.\.\s*\Z")
LONGEST_MARK = 100  # characters
SHOWN = ("matches", "files")
LEAST_PATTERN = 3  # characters of a pattern; a shorter one occurs in the sentence by chance

_FromReceipt = Callable[[Evidence, str], Reading | None]


def _read_with(from_receipt: _FromReceipt) -> Callable[[Evidence], Reading]:
    def read(evidence: Evidence) -> Reading:
        if failure := read_failure(evidence):
            return failure
        receipt = evidence.receipt_text or ""
        is_read = evidence.result is None or RecordedObject(evidence.result).has_any(SHOWN)
        found = from_receipt(evidence, receipt) if is_read and not find_output_preview(receipt) else None
        return found or read_untyped(evidence)

    return read


def _files(evidence: Evidence, receipt: str) -> Reading | None:
    """A listing may end in a notice of what was ignored, behind an empty line."""
    head = FILES.match(receipt) or LISTING.match(receipt)
    if head is None and not NO_FILES.match(receipt):
        return None
    left_out = _left_out(receipt)
    listed = receipt[head.end() : left_out.start() if left_out else len(receipt)] if head else ""
    names = listed.partition("\n\n")[0].splitlines()
    count = int(head["count"]) if head and head["count"] else len(names)
    result = FileMatches(filenames=names, file_count=count)
    summary = summarize_files(count)
    cuts = (SourceCut(pointer="", unit="files", count=int(left_out["count"]), is_limit=True),) if left_out else ()
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)


def _left_out(receipt: str) -> re.Match[str] | None:
    """The mark at the end of a list that the agent shortened."""
    return LEFT_OUT.search(receipt, max(0, len(receipt) - LONGEST_MARK))


def _limit_cuts(evidence: Evidence, receipt: str, found: int) -> tuple[SourceCut, ...]:
    """The cut of a search that found more than it shows, and more than the call asked for."""
    args = RecordedObject(evidence.args)
    if (left_out := _left_out(receipt)) is not None:
        count, asked = int(left_out["count"]), args.integer("limit")
        is_asked = asked is not None and found - count >= asked
        return () if is_asked else (SourceCut(pointer="", unit="matches", count=count, is_limit=True),)
    limited = LIMITED.match(receipt)
    if limited is None or int(limited["shown"]) == args.integer("total_max_matches"):
        return ()
    return (SourceCut(pointer="", unit="matches", is_limit=True),)


def _matches(evidence: Evidence, receipt: str) -> Reading | None:
    if names := NAMES.match(receipt):
        filenames, count = receipt[names.end() :].splitlines(), int(names["count"])
        result = TextMatches(mode="files_with_matches", filenames=filenames, file_count=count)
        summary = f"{count} file{'' if count == 1 else 's'} with matches"
        cuts = _limit_cuts(evidence, receipt, count)
        return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)
    head = MATCHES.match(receipt)
    if head is None and not NO_MATCHES.match(receipt):
        return None
    count = int(head["count"]) if head else 0
    left_out = _left_out(receipt)
    shown = receipt[: left_out.start() if left_out else len(receipt)]
    content = shown[head.end() :].removesuffix("\n---") if head else ""
    result = TextMatches(mode="content", content=content, match_count=count)
    summary = summarize_matches(count, evidence)
    cuts = _limit_cuts(evidence, receipt, count)
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)


def _align_search(evidence: Evidence, text: str) -> list[Span]:
    """Links the pattern that the first line repeats, and the lines behind it to those that the person was shown."""
    pattern = RecordedObject(evidence.args).text("pattern") or ""
    first = text.partition("\n")[0]
    is_result = bool(FILES.match(text) or MATCHES.match(text) or NAMES.match(text))
    span = match_once(first, f'"{pattern}"', "") if is_result and len(pattern) >= LEAST_PATTERN else None
    spans = [Span(span.start + 1, span.end - 1, "/pattern", 0, len(pattern), "args")] if span else []
    if is_result or LISTING.match(text):
        spans += _link_shown(RecordedObject(evidence.result), text, len(first))
    return spans or align_failure(evidence, text)


def _link_shown(shown: RecordedObject, text: str, at: int) -> Iterator[Span]:
    """Yields the lines of the receipt that are in `matches` or in `files`, in their order."""
    for index, match in enumerate(shown.items("matches")):
        line = (match.text("line") or "").rstrip()
        for mark in (f"\nL{match.integer('lineNumber')}: ", f"\nL{match.integer('lineNumber')}- "):
            found = text.find(f"{mark}{line}\n", at) if line else -1
            if found >= 0:
                start, at = found + len(mark), found + len(mark) + len(line)
                yield Span(start, at, f"/matches/{index}/line", 0, len(line))
                break
    lines = f"{text}\n"
    for index, name in enumerate(shown.elements("files")):
        found = lines.find(f"\n{name}\n", at) if isinstance(name, str) and name else -1
        if found >= 0:
            at = found + 1 + len(str(name))
            yield Span(found + 1, at, f"/files/{index}", 0, len(str(name)))


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("glob", "list_directory"), version=3, read=_read_with(_files), align=_align_search),
    ToolMapping(
        agent=AGENT,
        tools=("search_file_content", "grep_search"),
        version=3,
        read=_read_with(_matches),
        align=_align_search,
    ),
)

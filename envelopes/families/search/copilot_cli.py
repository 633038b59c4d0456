"""The grep (`rg` beside some models) and glob of the GitHub Copilot CLI, of which the receipt alone is recorded.

the lines that ripgrep prints, by `output_mode`, or `No matches found.`
[grep content: 3006 matches across 4 file(s) under P] / f.txt (2 match(es)): / lines, indented
    / ... 2976 more match(es) omitted in this file
a path a line, or `No files matched the pattern.`
[glob: 300 path(s) under ./s; grouped by directory] / ./s/ (300 path(s)) / names, indented / [extensions: .log=300]
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.source_cuts import SourceCut
from envelopes.families.base import count_noun
from envelopes.families.search.results import FileMatches, TextMatches, summarize_files, summarize_matches

AGENT = "copilot-cli"
NO_MATCHES, NO_FILES = "No matches found.", "No files matched the pattern."
GROUPED_MATCHES = re.compile(r"\[grep content: (?P<count>\d{1,9}) match(?:es)? across (?P<files>\d{1,9}) file")
GROUPED_FILES = re.compile(r"\[glob: (?P<count>\d{1,9}) path\(s\) under [^\n]*\]\n")
OMITTED = re.compile(r"^ *\.\.\. (?P<count>\d{1,9}) more match\(es\) omitted", re.MULTILINE)
FOLDER = re.compile(r"(?P<name>.*/) \(\d{1,9} path\(s\)\)")
COUNTED = re.compile(r":(\d{1,9})$", re.MULTILINE)
CONTEXT = ("-A", "-B", "-C")


def _read_found(read: Callable[[Evidence, str], Reading], evidence: Evidence) -> Reading:
    """Reads what was found from the receipt, unless that is a failure or the beginning of a saved output."""
    if failure := read_failure(evidence):
        return failure
    receipt = evidence.receipt_text
    return read_untyped(evidence) if receipt is None or find_output_preview(receipt) else read(evidence, receipt)


def _read_matches(evidence: Evidence, receipt: str) -> Reading:
    args = RecordedObject(evidence.args)
    mode = args.text("output_mode") or "files_with_matches"
    lines = [] if receipt == NO_MATCHES else receipt.splitlines()
    cuts: tuple[SourceCut, ...] = ()
    if mode == "files_with_matches":
        result = TextMatches(mode=mode, filenames=lines, file_count=len(lines))
        summary = f"{len(lines) or 'No'} file{'' if len(lines) == 1 else 's'} with matches"
    elif head := GROUPED_MATCHES.match(receipt):
        count, omitted = int(head["count"]), sum(int(mark["count"]) for mark in OMITTED.finditer(receipt))
        result = TextMatches(mode=mode, content=receipt, match_count=count, file_count=int(head["files"]))
        summary = summarize_matches(count, evidence)
        if omitted:
            cuts = (SourceCut(pointer="", unit="matches", count=omitted, is_limit=True),)
    else:
        counts = [int(number) for number in COUNTED.findall(receipt)] if mode == "count" else [1 for _ in lines]
        has_others = any(args.integer(name) for name in CONTEXT)
        result = TextMatches(
            mode=mode, content=receipt if lines else "", match_count=None if has_others else sum(counts)
        )
        summary = summarize_matches(sum(counts), evidence)
        if has_others and lines:
            summary = f"{count_noun(len(lines), 'line')} found, with those around the matches"
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)


def _read_files(evidence: Evidence, receipt: str) -> Reading:
    head = GROUPED_FILES.match(receipt)
    names = _grouped_names(receipt[head.end() :]) if head else [] if receipt == NO_FILES else receipt.splitlines()
    count = int(head["count"]) if head else len(names)
    missing = count - len(names)
    cuts = (SourceCut(pointer="", unit="files", count=missing, is_limit=True),) if missing > 0 else ()
    result = FileMatches(filenames=names, file_count=count)
    return reading(evidence, result, summarize_files(count), links={}, fidelity="parsed_from_receipt", source_cuts=cuts)


def _grouped_names(text: str) -> list[str]:
    folder, names = "", []
    for line in text.splitlines():
        if heading := FOLDER.fullmatch(line):
            folder = heading["name"]
        elif line.startswith("  ") and not line.lstrip().startswith("... "):
            names.append(folder + line[2:])
    return names


MAPPINGS = (
    ToolMapping(
        agent=AGENT, tools=("grep", "rg"), version=2, read=partial(_read_found, _read_matches), align=align_failure
    ),
    ToolMapping(agent=AGENT, tools=("glob",), version=1, read=partial(_read_found, _read_files), align=align_failure),
)

"""Cline's searches and listings.

search_codebase   [{query, result, error?, success}]: `Found 2 results for pattern: P`, and the lines of each match
search_files      the same for one pattern, in the receipt alone: `Found 1 result.` or `Showing first 300 of 300+ …`
list_files        a path a line, or `No files found.`
list_code_definition_names   the first lines of definitions by file
"""

from __future__ import annotations

import re

from envelopes.alignment.cline_receipts import (
    AGENT,
    align_sent,
    pointer_of,
    read_answer,
    read_entries,
    read_failed_entries,
)
from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.families.search.results import FileMatches, SymbolAnswer, TextMatches, summarize_files

FOUND = re.compile(r"(?:Found (?P<count>[\d,]{1,12}) results?|(?P<none>No results found))\b")
LIMITED = re.compile(r"Showing first (?P<count>[\d,]{1,12}) of [\d,]+\+? results\.")
NO_FILES = "No files found."
SHORTENED = re.compile(r"\n\n\(File list truncated\. [^\n]*\)\Z")


def _count(found: re.Match[str] | None) -> int | None:
    return None if found is None or not found["count"] else int(found["count"].replace(",", ""))


def _summarize(count: int | None, pattern: str) -> str:
    return f"{'Some' if count is None else count or 'No'} match{'' if count == 1 else 'es'} found for '{pattern}'"


def _read_searches(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence) or read_failed_entries(evidence):
        return failure
    entries = read_entries(evidence)
    if not entries:
        return read_untyped(evidence)
    texts = [entry.text("result") or "" for entry in entries]
    heads = [FOUND.match(text) for text in texts]
    counts = [0 if head and head["none"] else _count(head) for head in heads]
    known = [count for count in counts if count is not None]
    result = TextMatches(
        mode="content", content="\n\n".join(texts), match_count=sum(known) if len(known) == len(counts) else None
    )
    patterns = ", ".join(entry.text("query") or "" for entry in entries)
    pointers = [pointer_of(evidence, index, "result") for index in range(len(entries))]
    return reading(
        evidence,
        result,
        _summarize(result.match_count, patterns),
        links=dict.fromkeys(pointers, "/result/content"),
        outputs=tuple(OutputField(pointer) for pointer in pointers),
    )


def _read_search(evidence: Evidence) -> Reading:
    answer = read_answer(evidence)
    if failure := read_failure(answer):
        return failure
    text = answer.receipt_text or ""
    limited, found = LIMITED.match(text), FOUND.match(text)
    if limited is None and found is None:
        return read_untyped(answer)
    count = _count(limited or found)
    result = TextMatches(mode="content", content=text, match_count=count)
    cuts = (SourceCut(pointer="", unit="matches", is_limit=True),) if limited else ()
    summary = _summarize(count, RecordedObject(evidence.args).text("regex") or "")
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)


def _read_list(evidence: Evidence) -> Reading:
    answer = read_answer(evidence)
    if failure := read_failure(answer):
        return failure
    text = answer.receipt_text
    if text is None:
        return read_untyped(answer)
    shortened = SHORTENED.search(text, max(0, len(text) - 1_000))
    names = [] if text == NO_FILES else (text[: shortened.start()] if shortened else text).splitlines()
    result = FileMatches(filenames=names, file_count=len(names), truncated=shortened is not None)
    cuts = (SourceCut(pointer="", unit="files", is_limit=True),) if shortened else ()
    summary = summarize_files(len(names))
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=cuts)


def _read_definitions(evidence: Evidence) -> Reading:
    answer = read_answer(evidence)
    if failure := read_failure(answer):
        return failure
    path, text = RecordedObject(evidence.args).text("path"), answer.receipt_text
    if text is None:
        return read_untyped(answer)
    result = SymbolAnswer(operation="definitions", content=text, path=path)
    return reading(evidence, result, f"definitions in {path or 'a folder'}", links={}, fidelity="parsed_from_receipt")


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("search_codebase",), version=1, read=_read_searches, align=align_sent),
    ToolMapping(agent=AGENT, tools=("search_files",), version=1, read=_read_search, align=align_sent),
    ToolMapping(agent=AGENT, tools=("list_files",), version=1, read=_read_list, align=align_sent),
    ToolMapping(
        agent=AGENT, tools=("list_code_definition_names",), version=1, read=_read_definitions, align=align_sent
    ),
)

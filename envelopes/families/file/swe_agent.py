"""SWE-agent's str_replace_editor, an editor of one tool with five commands, and where its receipts come from.

The result is one text, recorded as it is or in the receipt alone:

    view         Here's the result of running `cat -n` on P: / numbered lines; of a folder a list of paths
    create       File created successfully at: P
    str_replace  The file P has been edited. Here's the result of running `cat -n` on a snippet of P: / numbered lines
    insert       the same
    undo_edit    Last edit to P undone successfully. …

Long files are clipped: `<response clipped>`. Inspect's text_editor is the same tool.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, align_untyped, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ResultFidelity, ToolMapping
from envelopes.alignment.source_cuts import find_source_cuts
from envelopes.alignment.spans import Span
from envelopes.families.file.results import ChangeAction, FileChange, FileContent, Hunk

ROWS = re.compile(r" {0,6}(\d{1,9})\t(.*)")
VIEWED = re.compile(r"(?:Here's|Here is) the result of running `cat -n` on (?P<path>[^\n]+?):\n")
EDITED = re.compile(
    r"(?:The file (?P<path>[^\n]+?) has been (?:edited|overwritten)|Last edit to (?P<undone>[^\n]+?) undone)"
)
CREATED = re.compile(r"File created successfully at: (?P<path>[^\n]+)")


def editor_mapping(agent: str, tool: str, version: int, *, align: Callable[[Evidence, str], list[Span]]) -> ToolMapping:
    """The mapping of such an editor; `align` links a receipt to the one text that is its result."""

    def align_edit(evidence: Evidence, text: str) -> list[Span]:
        if evidence.has_result and isinstance(evidence.result, str):
            return align(evidence, text)
        return align_failure(evidence, text)

    return ToolMapping(agent=agent, tools=(tool,), version=version, read=read_editor, align=align_edit)


def read_editor(evidence: Evidence) -> Reading:
    """Reads the one text: the recorded result, or the receipt where none was recorded."""
    if failure := read_failure(evidence):
        return failure
    has_text = isinstance(evidence.result, str)
    text = evidence.result if isinstance(evidence.result, str) else evidence.receipt_text or ""
    fidelity: ResultFidelity = "stringified" if has_text else "parsed_from_receipt"
    args = RecordedObject(evidence.args)
    if evidence.result is not None and not has_text:
        return read_untyped(evidence)
    if viewed := VIEWED.match(text):
        outputs = (OutputField("", start=viewed.end()),) if has_text else ()
        content, first = _numbered_lines(text[viewed.end() :])
        file = FileContent(
            path=viewed["path"], content=content, start_line=first, line_count=content.count("\n") + 1 if content else 0
        )
        links = {"": "/result/content_preview"} if has_text else {}
        cuts, summary = find_source_cuts(text, "", "stream"), f"read {file.path}"
        return reading(evidence, file, summary, links=links, outputs=outputs, fidelity=fidelity, source_cuts=cuts)
    created, edited = CREATED.match(text), EDITED.match(text)
    if created is None and edited is None:
        return read_untyped(evidence)
    path = created["path"] if created else (edited["path"] or edited["undone"]) if edited else ""
    action: ChangeAction = "add" if created else "modify"
    change = FileChange(
        path=path,
        action=action,
        hunks=requested_hunk(args.text("old_str"), args.text("new_str")) if edited else None,
        content=args.text("file_text") or "" if created else "",
    )
    links = {"": "/result/changed_files/0/path"} if has_text else {}
    summary = f"{'created' if created else 'updated'} {path}"
    return reading(evidence, change, summary, links=links, fidelity=fidelity)


def _numbered_lines(text: str) -> tuple[str, int | None]:
    """The lines without their numbers, as far as they are numbered, and the first number."""
    lines: list[str] = []
    first = None
    for line in text.split("\n"):
        row = ROWS.fullmatch(line)
        if row is None:
            break
        first = int(row[1]) if first is None else first
        lines.append(row[2])
    return "\n".join(lines), first


def requested_hunk(old: str | None, new: str | None) -> tuple[Hunk, ...] | None:
    """The change that a replacement asked for; where it stands in the file was not recorded as a patch."""
    if old is None:
        return None
    removed, added = old.split("\n"), (new or "").split("\n")
    return (Hunk(lines=(*(f"-{line}" for line in removed), *(f"+{line}" for line in added))),)


MAPPINGS = (editor_mapping("swe-agent", "str_replace_editor", 2, align=align_untyped),)

"""The file family's receipt: what was read or changed, then the text or the diff verbatim.

A patch is told in patch_receipts: a line a file, no text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from envelopes.families.file.patch_receipts import file_failure, patched
from envelopes.families.segments import artifact_lines, headline, label, line_break, preview, value
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult
from envelopes.text.fit_receipt import fit

ACTIONS = {"add": "File created", "modify": "File updated", "delete": "File deleted"}
MARKS = {"add": "A ", "modify": "M ", "delete": "D "}
KINDS = {
    "image": "Read an image",
    "notebook": "Read a notebook",
    "pdf": "Read a PDF",
    "pages": "Read pages of a PDF",
    "unchanged": "File unchanged since it was last read",
}


def file_receipt(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
    if canonical.error:
        return fit(file_failure(canonical), policy, tail=artifact_lines(canonical))
    return fit(_outcome(canonical), policy, tail=artifact_lines(canonical))


def _outcome(canonical: CanonicalResult) -> Iterator[Segment]:
    result: dict[str, Any] = canonical.result if isinstance(canonical.result, dict) else {}
    match result:
        case {"changed_files": [{"action": str(action)}, *_], "diff_preview": _}:
            yield from _changed(canonical, result, action)
        case {"changed_files": list()}:
            yield from patched(canonical, result)
        case {"path": str()}:
            yield from _read(canonical, result)
        case _:
            yield headline(canonical.summary_text)
            yield line_break(2)
            yield preview(canonical, "/result/text")


def _changed(canonical: CanonicalResult, result: dict[str, Any], action: str) -> Iterator[Segment]:
    yield headline(ACTIONS[action], "/result/changed_files/0/action")
    yield line_break()
    yield label(MARKS[action])
    yield value(canonical, "/result/changed_files/0/path")
    if result["additions"] is not None:
        yield label(" (+")
        yield value(canonical, "/result/additions")
        yield label(" -")
        yield value(canonical, "/result/deletions")
        yield label(" lines)")
    if result["user_modified"]:
        yield line_break()
        yield headline("The user changed the edit before it was applied.", "/result/user_modified")
    if result["diff_preview"]:
        yield line_break(2)
        yield label("Diff:")
        yield line_break()
        yield preview(canonical, "/result/diff_preview")


def _read(canonical: CanonicalResult, result: dict[str, Any]) -> Iterator[Segment]:
    kind = result.get("kind")
    yield headline(KINDS[kind], "/result/kind") if kind else headline("Read", "/result/path")
    yield label(" " if kind is None else ": ")
    yield value(canonical, "/result/path")
    yield from _place(canonical, result)
    yield from _image(canonical, result.get("image") or {})
    if result["content_preview"]:
        yield line_break(2)
        yield preview(canonical, "/result/content_preview")
    elif kind is None:
        yield line_break()
        yield label("No text.")


def _place(canonical: CanonicalResult, result: dict[str, Any]) -> Iterator[Segment]:
    first, count, total = result["start_line"], result["line_count"], result["total_lines"]
    if first is None or not count:
        return
    yield line_break()
    yield label("Lines ")
    yield value(canonical, "/result/start_line")
    yield label(" to ")
    yield value(canonical, "/result/line_count", str(first + count - 1))
    if total is not None:
        yield label(" of ")
        yield value(canonical, "/result/total_lines")


def _image(canonical: CanonicalResult, image: dict[str, Any]) -> Iterator[Segment]:
    facts = (("media_type", "Type: "), ("size", "Bytes: "), ("width", "Width: "), ("height", "Height: "))
    for field, words in facts:
        if image.get(field) is not None:
            yield line_break()
            yield label(words)
            yield value(canonical, f"/result/image/{field}")

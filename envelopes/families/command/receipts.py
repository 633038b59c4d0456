"""The command family's receipts: the outcome, as far as one is known, then the streams (RFC-127 to RFC-129).

Process exited with code 2          Batch completed 1/2 commands, 1 failed

stdout:                             [1] make
…                                   exit=0  duration=812 ms

Artifacts:                          [2] make test
artifacts/… (whole stdout)          exit=2
                                    stderr:
                                    …

Three renderers show a stream in three ways:

receipt     one JSON document on one line is laid out for reading (RFC-102), anything else is shown as a terminal
            shows it: without codes for colours, and of a line that was overwritten the last state
json_aware  the same for JSON of any layout, and for each line that is JSON by itself
tail_first  of a stream that was cut, the end comes before the beginning: failures are reported there

Text that was laid out anew points at its field without a range, and its title says so. A document on one line that
passes its budget was laid out by the projection, so that it is cut by lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import dropwhile
from typing import Any, TypeAlias

import msgspec

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.command.projection import granted_tokens
from envelopes.families.command.results import SKIPPED, STATUSES
from envelopes.families.command.tools import TOOLS
from envelopes.families.fitting import fit
from envelopes.families.indented_values import with_indented_values
from envelopes.families.json_outputs import JSON_LAID_OUT, LAID_OUT, read_document
from envelopes.families.segments import (
    artifact_lines,
    artifacts_title,
    error_receipt,
    headline,
    label,
    line_break,
    marker,
    member_lines,
    output_segment,
    phrase,
    shortened_line,
    text_value,
    value,
    with_ways_to_read,
)
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Renderer, Segment, SegmentSource
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.json_layout import lay_out_json
from envelopes.text.preview import find_cut, split_lines
from envelopes.text.terminal import fold_terminal
from envelopes.text.token_preview import fits_tokens

TITLES = {
    "initial_output": "Initial output",
    "stdout": "stdout",
    "stderr": "stderr",
    "combined_output": "Output (stdout and stderr were recorded as one)",
}
NOTE_LINES = (
    ("Task", "task_handle/task_id"),
    ("Meaning", "interpretation"),
    ("Whole output kept by the agent", "saved_output/path"),
)
RUNNING_LINES = (
    ("Status", "task_handle/status"),
    ("Command", "command"),
    ("Summary", "summary"),
    ("Workdir", "workdir"),
    ("Shell", "shell"),
    ("Instructions", "instructions"),
)
ERROR_DETAILS = (("Workdir", "workdir"), ("Execution root", "root"), ("Current directory", "cwd"), ("Shell", "shell"))
NO_OUTPUT = {
    "completed": "Output: (none)",
    "promoted_to_task": "Initial output:\n(none captured)",
    "already_running": "No output yet.",
}
CUT_BY_SOURCE = "[output truncated by its source]"


class OutputStream(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is the canonical preview at `pointer`; `is_cut` when the projection shortened it.

    `bytes` is the size of output that is no text.
    """

    title: str
    text: str
    pointer: str
    is_cut: bool
    is_laid_out: bool
    bytes: int | None = None

    @property
    def form(self) -> str:
        """A note of what the text is not."""
        return "" if self.bytes is None else f" ({self.bytes:,} bytes, not text; � stands for what is none)"

    def slice(self, start: int, end: int) -> Segment:
        return text_value(self.text[start:end], self.pointer, start, role="preview")


Show: TypeAlias = Callable[[OutputStream], Iterable[Segment]]


def _receipt_renderer(show: Show, *, when_too_long: Show) -> Renderer:
    """A renderer that shows the streams by `show`, or by `when_too_long` where that would pass the policy."""

    def render(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
        if canonical.error:
            return fit(
                error_receipt(canonical, ERROR_DETAILS, tools=TOOLS), policy, tail=artifact_lines(canonical, policy)
            )
        body, tail = _without_leading_breaks(_outcome(canonical, show)), _artifacts(canonical, policy)
        is_long = sum(len(segment.text) for segment in [*body, *tail]) > policy.characters
        if is_long or not _keeps_budget(canonical.result, body):
            body = _without_leading_breaks(_outcome(canonical, when_too_long))
        whole = _close_up([*body, *tail])
        return with_ways_to_read(fit(whole[: len(body)], policy, tail=whole[len(body) :]), canonical, policy)

    return render


def _keeps_budget(result: JsonValue, body: list[Segment]) -> bool:
    """Checks that output which was laid out here has no more tokens than the caller asked for."""
    budget = granted_tokens(result)
    return budget is None or fits_tokens("".join(segment.text for segment in body if segment.role == "preview"), budget)


@with_indented_values
def _outcome(canonical: CanonicalResult, show: Show) -> Iterator[Segment]:
    result: dict[str, Any] = canonical.result if isinstance(canonical.result, dict) else {}
    return _batch(canonical, result, show) if "items" in result else _command(canonical, result, show)


def _command(canonical: CanonicalResult, result: dict[str, Any], show: Show) -> Iterator[Segment]:
    yield from _headline(result)
    yield from member_lines(canonical, NOTE_LINES[1:] if "waited_ms" in result else NOTE_LINES)
    yield from _next_calls(canonical, result)
    if result.get("disposition") == "already_running" and "initial_output_preview" not in result:
        yield from member_lines(canonical, RUNNING_LINES)
    match result:
        case {"command_diagnostics": {"exceeds_soft_threshold": True, "cmd_char_count": count}}:
            yield line_break()
            yield label(f"Note: the command text has {count} characters; keep a script this long in a file and run it.")
    streams = list(_streams(result, "/result"))
    for stream in streams:
        yield line_break(2)
        yield from show(stream)
    if streams and result.get("cut_by_source") is True:
        yield line_break()
        yield marker(CUT_BY_SOURCE)
    if not streams and "command" not in result and not result.get("instructions"):
        yield line_break(2)
        yield label(NO_OUTPUT.get(result.get("disposition", ""), NO_OUTPUT["completed"]))


def _next_calls(canonical: CanonicalResult, result: dict[str, Any]) -> Iterator[Segment]:
    """How to wait for a command that became a task, and how to end it."""
    task = RecordedObject(result).member("task_handle").text("task_id")
    if result.get("disposition") == "promoted_to_task" and task:
        yield from phrase(canonical, "\nWait: TaskOutput {task_id}; end: TaskStop {task_id}", "/result/task_handle")


def _headline(result: dict[str, Any]) -> Iterator[Segment]:
    """Nothing where the recording has no exit code: the output speaks for itself, and the line would cost tokens."""
    match result:
        case {"disposition": "promoted_to_task", "waited_ms": int(waited), "task_handle": {"task_id": str(task_id)}}:
            yield headline(f"Still running after {waited / 1_000:g} s, now task ", "/result/waited_ms")
            yield text_value(task_id, "/result/task_handle/task_id", role="headline")
        case {"disposition": "promoted_to_task"}:
            yield headline("Command promoted to background task", "/result/disposition")
        case {"disposition": "already_running", "initial_output_preview": _}:
            yield headline("Command is still running in the background", "/result/disposition")
        case {"disposition": "already_running"}:
            yield headline("Command is already running; no second one was started", "/result/disposition")
        case {"interrupted": True}:
            yield headline("Command was interrupted before it finished", "/result/interrupted")
            if isinstance(code := result.get("exit_status"), int):
                yield headline(f", exit code {code}", "/result/exit_status")
        case {"exit_status": int(code)}:
            yield headline(f"Process exited with code {code}", "/result/exit_status")


def _without_leading_breaks(segments: Iterable[Segment]) -> list[Segment]:
    return list(dropwhile(lambda segment: segment.role == "break", segments))


def _streams(result: dict[str, Any], pointer: str) -> Iterator[OutputStream]:
    for name, title in TITLES.items():
        if text := result.get(f"{name}_preview"):
            yield OutputStream(
                title=title,
                text=text,
                pointer=f"{pointer}/{name}_preview",
                is_cut=result.get(f"{name}_truncated") is True,
                is_laid_out=result.get(f"{name}_layout") == LAID_OUT,
                bytes=result.get(f"{name}_bytes"),
            )


def _batch(canonical: CanonicalResult, result: dict[str, Any], show: Show) -> Iterator[Segment]:
    counts = f"{result['completed_count']}/{result['item_count']}"
    yield headline(f"Batch completed {counts} commands", "/result/completed_count")
    for status in STATUSES[1:]:
        if result[f"{status}_count"]:
            yield from phrase(canonical, f", {{{status}_count}} {status}")
    # Failed commands first: what is behind them may be cut.
    order = sorted(range(len(result["items"])), key=lambda index: result["items"][index].get("status") != "failed")
    for index in order:
        yield from _item(canonical, result["items"][index], f"/result/items/{index}", show)
    if omitted := result.get("items_omitted"):
        yield line_break(2)
        yield marker(f"[showing first {len(result['items'])} of {len(result['items']) + omitted} commands]")


def _item(canonical: CanonicalResult, item: dict[str, Any], pointer: str, show: Show) -> Iterator[Segment]:
    yield from phrase(canonical, "\n\n[{index}] {cmd}\n", pointer)
    has_exited = isinstance((item.get("result") or {}).get("exit_status"), int)
    if has_exited:
        yield from phrase(canonical, "exit={result/exit_status}", pointer)
    if item.get("error_kind") == SKIPPED:
        yield label("skipped=")
        yield value(canonical, f"{pointer}/error_kind", "stop_on_error")
    elif "error_kind" in item:
        yield label(f"{'  ' if has_exited else ''}{item['status']}=")
        words = "{error_kind}: {error_message}" if "error_message" in item else "{error_kind}"
        yield from phrase(canonical, words, pointer)
    elif not has_exited:
        yield value(canonical, f"{pointer}/status")
    if (item.get("result") or {}).get("interrupted") is True and "error_kind" not in item:
        yield label("  interrupted")
    if "duration_ms" in item:
        yield from phrase(canonical, "  duration={duration_ms} ms", pointer)
    result = item.get("result") or {}
    for stream in _streams(result, f"{pointer}/result"):
        yield line_break()
        yield from show(stream)
    if result.get("cut_by_source") is True:
        yield line_break()
        yield marker(CUT_BY_SOURCE)


def _artifacts(canonical: CanonicalResult, policy: RenderPolicy) -> list[Segment]:
    """Each path with what it holds, since the order of the list does not give that (RFC-089)."""
    roles = _artifact_roles(canonical.result if isinstance(canonical.result, dict) else {})
    lines = [*shortened_line(canonical, policy)]
    if not canonical.artifacts or policy.read_tool is None:
        return lines
    lines += [line_break(2), artifacts_title(policy)]
    for index in range(len(canonical.artifacts)):
        lines += [line_break(), value(canonical, f"/artifacts/{index}/path")]
        lines += [label(f" ({roles[index]})")] if index in roles else []
    return lines


def _artifact_roles(result: dict[str, Any], of: str = "") -> dict[int, str]:
    """The content of each artifact, by index. Output that its source had cut before is not called whole."""
    words = "{}, as its source cut it" if result.get("cut_by_source") is True else "whole {}"
    names = {index: name.removesuffix("_artifact") for name, index in result.items() if name.endswith("_artifact")}
    roles = {index: words.format(name.replace("_", " ") + of) for index, name in names.items()}
    for item in result.get("items", ()):
        of_item = f" of [{item['index']}]"
        roles |= _artifact_roles(item.get("result") or {}, of_item) | _artifact_roles(item, of_item)
    return roles


def _close_up(segments: Iterable[Segment]) -> list[Segment]:
    """Takes one line break away after a stream that ends with a newline: it has begun the next line already."""
    closed: list[Segment] = []
    for segment in segments:
        if segment.role == "break" and closed and closed[-1].role == "preview" and closed[-1].text.endswith("\n"):
            segment = line_break(len(segment.text) - 1)
        closed.append(segment)
    return closed


def _verbatim(stream: OutputStream) -> Iterator[Segment]:
    if stream.is_laid_out:
        return _titled(f"{stream.title}{JSON_LAID_OUT}:", [stream.slice(0, len(stream.text))])
    segment, note = output_segment(stream.text, stream.pointer)
    return _titled(f"{stream.title}{stream.form}{note}:", [segment])


def _readable(stream: OutputStream) -> Iterable[Segment]:
    is_one_line = "\n" not in stream.text.strip()
    return (_json_document(stream) if is_one_line else []) or _verbatim(stream)


def _json_aware(stream: OutputStream) -> Iterable[Segment]:
    return _json_document(stream) or _json_lines(stream) or _verbatim(stream)


def _tail_first(stream: OutputStream) -> Iterable[Segment]:
    cut = find_cut(stream.text) if stream.is_cut else None
    if cut is None:
        return _verbatim(stream)
    folded = [
        output_segment(part, stream.pointer, start)
        for part, start in ((stream.text[cut.tail_start :], cut.tail_start), (stream.text[: cut.head_end], 0))
    ]
    note = fold_terminal(stream.text).note if any(note for _, note in folded) else ""
    order = f"last {cut.last} of {cut.total} {cut.unit}, then the first {cut.first}"
    break_before = "" if stream.text.endswith("\n") else "\n"
    between = f"{break_before}...\n[{stream.title}: its end is above, its first {cut.first} {cut.unit} follow]\n...\n"
    parts = [folded[0][0], marker(between), folded[1][0]]
    return _titled(f"{stream.title}{note}, its end first ({order}):", parts)


def _json_document(stream: OutputStream) -> list[Segment]:
    text, words = read_document(stream.text) or ("", "")
    if not words or text == stream.text.strip():
        return []
    document = Segment(text, "preview", SegmentSource("canonical", stream.pointer))
    return list(_titled(f"{stream.title}{words}:", [document]))


def _json_lines(stream: OutputStream) -> list[Segment]:
    parts: list[Segment] = []
    start = verbatim_from = 0
    for line in split_lines(stream.text):
        end = start + len(line)
        if (text := lay_out_json(line)) and text != line.strip():
            parts += [stream.slice(verbatim_from, start)] if verbatim_from < start else []
            text += "\n" * line.endswith("\n")
            parts.append(Segment(text, "preview", SegmentSource("canonical", stream.pointer)))
            verbatim_from = end
        start = end
    if not parts:
        return []
    parts += [stream.slice(verbatim_from, start)] if verbatim_from < start else []
    return list(_titled(f"{stream.title} (lines of JSON, laid out for reading):", parts))


def _titled(title: str, parts: Iterable[Segment]) -> Iterator[Segment]:
    yield label(title)
    yield line_break()
    yield from parts


# JSON that was laid out is longer: where it does not fit, the compact text shows more.
RENDERERS: dict[str, Renderer] = {
    "receipt": _receipt_renderer(_readable, when_too_long=_verbatim),
    "tail_first": _receipt_renderer(_tail_first, when_too_long=_tail_first),
    "json_aware": _receipt_renderer(_json_aware, when_too_long=_verbatim),
}

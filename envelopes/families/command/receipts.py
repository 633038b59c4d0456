"""The command family's receipts: the outcome first, then the streams (RFC-127 to RFC-129).

Process exited with code 2          Batch completed 1/2 commands, 1 failed

stdout:                             [1] make
…                                   exit=0  duration=812 ms

Artifacts:                          [2] make test
artifacts/… (whole stdout)          exit=2
                                    stderr:
                                    …
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from envelopes.families.command.batch import COUNTED, SKIPPED
from envelopes.families.command.streams import Show, Stream, json_aware, readable, tail_first, verbatim
from envelopes.families.segments import (
    artifact_lines,
    error_receipt,
    headline,
    label,
    line_break,
    member_line,
    shortened_line,
    value,
)
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult
from envelopes.schema.variant import Renderer
from envelopes.text.fit_receipt import fit

STREAMS = {
    "initial_output": "Initial output",
    "stdout": "stdout",
    "stderr": "stderr",
    "combined_output": "Output (stdout and stderr were recorded as one)",
}
NOTES = (
    ("Task", "task_handle/task_id"),
    ("Meaning", "interpretation"),
    ("Whole output kept by the agent", "saved_output/path"),
)
RUNNING = (
    ("Status", "task_handle/status"),
    ("Summary", "summary"),
    ("Command", "command"),
    ("Workdir", "workdir"),
    ("Shell", "shell"),
    ("Instructions", "instructions"),
)
DETAILS = (("Workdir", "workdir"), ("Execution root", "root"), ("Current directory", "cwd"), ("Shell", "shell"))
NO_OUTPUT = {
    "completed": "No output was captured.",
    "promoted_to_task": "Initial output:\n(none captured)",
    "already_running": "No output yet.",
}


def receipt_with(show: Show, *, when_too_long: Show) -> Renderer:
    """`when_too_long` shows the streams instead where `show` would pass the policy."""

    def render(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
        if canonical.error:
            error = error_receipt(canonical, DETAILS)
            return fit(error, policy, tail=artifact_lines(canonical))
        body, tail = list(_outcome(canonical, show)), _artifacts(canonical)
        if sum(len(segment.text) for segment in [*body, *tail]) > policy.characters:
            body = list(_outcome(canonical, when_too_long))
        whole = _closed_up([*body, *tail])
        return fit(whole[: len(body)], policy, tail=whole[len(body) :])

    return render


# Laid out JSON is longer: where it does not fit, the compact text shows more.
RENDERERS: dict[str, Renderer] = {
    "receipt": receipt_with(readable, when_too_long=verbatim),
    "tail_first": receipt_with(tail_first, when_too_long=tail_first),
    "json_aware": receipt_with(json_aware, when_too_long=verbatim),
}


def _outcome(canonical: CanonicalResult, show: Show) -> Iterator[Segment]:
    result: dict[str, Any] = canonical.result if isinstance(canonical.result, dict) else {}
    yield from _batch(canonical, result, show) if "items" in result else _command(canonical, result, show)


def _command(canonical: CanonicalResult, result: dict[str, Any], show: Show) -> Iterator[Segment]:
    yield _headline(result)
    for title, member in (*NOTES, *RUNNING) if result.get("disposition") == "already_running" else NOTES:
        if member.partition("/")[0] in result:
            yield from member_line(canonical, title, f"/result/{member}")
    yield from _length_note(result)
    streams = list(_streams(result, "/result"))
    for stream in streams:
        yield line_break(2)
        yield from show(stream)
    if not streams and "command" not in result and not result.get("instructions"):
        yield line_break(2)
        yield label(NO_OUTPUT.get(result.get("disposition", ""), NO_OUTPUT["completed"]))


def _headline(result: dict[str, Any]) -> Segment:
    match result:
        case {"disposition": "promoted_to_task"}:
            return headline("Command promoted to background task", "/result/disposition")
        case {"disposition": "already_running", "initial_output_preview": _}:
            return headline("Command is still running in the background", "/result/disposition")
        case {"disposition": "already_running"}:
            return headline("Command is already running; no second one was started", "/result/disposition")
        case {"interrupted": True}:
            return headline("Command was interrupted before it finished", "/result/interrupted")
        case {"exit_status": int(code)}:
            return headline(f"Process exited with code {code}", "/result/exit_status")
    return headline("Command finished; no exit code was recorded", "/result/exit_status")


def _length_note(result: dict[str, Any]) -> Iterator[Segment]:
    match result:
        case {"command_diagnostics": {"exceeds_soft_threshold": True, "cmd_char_count": count}}:
            yield line_break()
            yield label(f"Note: the command text has {count} characters; keep a script this long in a file and run it.")


def _streams(result: dict[str, Any], pointer: str) -> Iterator[Stream]:
    for name, title in STREAMS.items():
        if text := result.get(f"{name}_preview"):
            is_cut = f"{name}_artifact" in result
            yield Stream(title=title, text=text, pointer=f"{pointer}/{name}_preview", is_cut=is_cut)


def _batch(canonical: CanonicalResult, result: dict[str, Any], show: Show) -> Iterator[Segment]:
    yield headline(
        f"Batch completed {result['completed_count']}/{result['item_count']} commands", "/result/completed_count"
    )
    for status in COUNTED[1:]:
        if result[f"{status}_count"]:
            yield label(", ")
            yield value(canonical, f"/result/{status}_count")
            yield label(f" {status}")
    for index, item in enumerate(result["items"]):
        yield from _item(canonical, item, f"/result/items/{index}", show)
    if omitted := result.get("items_omitted"):
        yield line_break(2)
        yield Segment(f"[showing first {len(result['items'])} of {len(result['items']) + omitted} commands]", "marker")


def _item(canonical: CanonicalResult, item: dict[str, Any], pointer: str, show: Show) -> Iterator[Segment]:
    yield line_break(2)
    yield label("[")
    yield value(canonical, f"{pointer}/index")
    yield label("] ")
    yield value(canonical, f"{pointer}/cmd")
    yield line_break()
    yield from _verdict(canonical, item, pointer)
    if "duration_ms" in item:
        yield label("  duration=")
        yield value(canonical, f"{pointer}/duration_ms")
        yield label(" ms")
    for stream in _streams(item.get("result") or {}, f"{pointer}/result"):
        yield line_break()
        yield from show(stream)


def _verdict(canonical: CanonicalResult, item: dict[str, Any], pointer: str) -> Iterator[Segment]:
    exited = isinstance((item.get("result") or {}).get("exit_status"), int)
    if exited:
        yield label("exit=")
        yield value(canonical, f"{pointer}/result/exit_status")
    if item.get("error_kind") == SKIPPED:
        yield label("skipped=")
        yield value(canonical, f"{pointer}/error_kind", "stop_on_error")
    elif "error_kind" in item:
        yield label(f"{'  ' if exited else ''}{item['status']}=")
        yield value(canonical, f"{pointer}/error_kind")
        if "error_message" in item:
            yield label(": ")
            yield value(canonical, f"{pointer}/error_message")
    elif not exited:
        yield value(canonical, f"{pointer}/status")


def _artifacts(canonical: CanonicalResult) -> list[Segment]:
    """Each path with what it holds: no place in the list tells that (RFC-089)."""
    roles = _roles(canonical.result if isinstance(canonical.result, dict) else {})
    shown = [*shortened_line(canonical)]
    shown += [line_break(2), label("Artifacts:")] if canonical.artifacts else []
    for index in range(len(canonical.artifacts)):
        shown += [line_break(), value(canonical, f"/artifacts/{index}/path")]
        shown += [label(f" (whole {roles[index]})")] if index in roles else []
    return shown


def _roles(result: dict[str, Any]) -> dict[int, str]:
    roles = {index: name.removesuffix("_artifact") for name, index in result.items() if name.endswith("_artifact")}
    for item in result.get("items", ()):
        nested = _roles(item.get("result") or {})
        roles |= {index: f"{role} of [{item['index']}]" for index, role in nested.items()}
    return {index: role.replace("_", " ") for index, role in roles.items()}


def _closed_up(segments: Iterable[Segment]) -> list[Segment]:
    """A stream that ends with a newline has begun the next line already: one break less after it."""
    kept: list[Segment] = []
    for segment in segments:
        if segment.role == "break" and kept and kept[-1].role == "preview" and kept[-1].text.endswith("\n"):
            segment = line_break(len(segment.text) - 1)
        kept.append(segment)
    return kept

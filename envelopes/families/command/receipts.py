"""The command family's receipt: the outcome first, then the streams verbatim (RFC-128)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from envelopes.budget import RenderPolicy
from envelopes.families.base import artifact_lines, error_receipt, headline, label, line_break, preview, value
from envelopes.fitting import fit
from envelopes.receipt import Segment
from envelopes.result import CanonicalResult

STREAMS = {
    "initial_output_preview": "Initial output:",
    "stdout_preview": "stdout:",
    "stderr_preview": "stderr:",
    "combined_output_preview": "Output (stdout and stderr were recorded as one):",
}


def command_receipt(canonical: CanonicalResult, policy: RenderPolicy) -> Iterable[Segment]:
    if canonical.error:
        return fit(error_receipt(canonical, policy), policy.characters)
    return fit(_outcome(canonical), policy.characters, tail=_artifacts(canonical))


def _outcome(canonical: CanonicalResult) -> Iterator[Segment]:
    result: dict[str, Any] = canonical.result if isinstance(canonical.result, dict) else {}
    yield _headline(result)
    yield from _notes(canonical, result)
    yield from _streams(canonical, result)


def _artifacts(canonical: CanonicalResult) -> Iterator[Segment]:
    if canonical.artifacts:
        yield line_break()
        yield from artifact_lines(canonical)


def _headline(result: dict[str, Any]) -> Segment:
    match result:
        case {"disposition": "promoted_to_task"}:
            return headline("Command promoted to background task", "/result/disposition")
        case {"disposition": "already_running"}:
            return headline("Command is still running in the background", "/result/disposition")
        case {"interrupted": True}:
            return headline("Command was interrupted before it finished", "/result/interrupted")
        case {"exit_status": int(code)}:
            return headline(f"Process exited with code {code}", "/result/exit_status")
    return headline("Command finished; no exit code was recorded", "/result/exit_status")


def _notes(canonical: CanonicalResult, result: dict[str, Any]) -> Iterator[Segment]:
    lines = (
        ("task_handle", "Task: ", "/result/task_handle/task_id"),
        ("interpretation", "Meaning: ", "/result/interpretation"),
        ("saved_output", "Whole output kept by the agent: ", "/result/saved_output/path"),
    )
    for field, words, pointer in lines:
        if result.get(field):
            yield line_break()
            yield label(words)
            yield value(canonical, pointer)


def _streams(canonical: CanonicalResult, result: dict[str, Any]) -> Iterator[Segment]:
    shown = [field for field in STREAMS if result.get(field)]
    for field in shown:
        yield line_break(2)
        yield label(STREAMS[field])
        yield line_break()
        yield preview(canonical, f"/result/{field}")
    if not shown:
        yield line_break(2)
        yield label("No output was captured." if result.get("disposition") == "completed" else "No output yet.")

"""Recorded command calls for the tests of comparisons: imported, so that both halves are those of an import."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

from dashboard.experiments.recall_report import (
    QuotedItem,
    RecallCell,
    RecalledCall,
    RecallResults,
    RecallSummary,
    ToolRecall,
    pack,
)
from dashboard.experiments.recall_run import RecallScore, ReceiptShape, StepPlace
from dashboard.experiments.stored_comparison import Selection, start_comparison
from dashboard.experiments.summary import Summary, unpack_summary
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Comparison, Project, RecallReport
from dashboard.worker import work_until_idle
from tests.dashboard.sessions import SESSION, answers, asks, user, write


def import_commands(project: Project, folder: Path, outputs: list[str], *, session: str = SESSION) -> list[Call]:
    """A session with one Bash call for each output, all of which succeeded."""
    lines: list[dict[str, Any] | bytes] = [user("go", uuid="u1", session=session)]
    for number, output in enumerate(outputs):
        key = f"toolu_{number:03d}{session[-2:]}"
        result = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        lines += [
            asks(key, args={"command": f"step {number}"}, step=f"msg_{number}", session=session),
            answers(key, output, result, session=session),
        ]
    import_paths(project, [write(folder / f"{session}.jsonl", lines)])
    return list(Call.objects.filter(project=project).order_by("line"))


def recalled(project: Project, call: Call) -> RecallReport:
    """A finished report with one item of the call, its first line, which the call's own arguments use."""
    place = StepPlace("call", call.pk, call.line)
    score = {256: {"first": RecallScore(1_000, 1)}}
    run = call.run_id.bytes
    row = RecalledCall(call.pk.bytes, run, run, call.tool, 5_000, (QuotedItem((0,), place),), score)
    lengths = array("I", [40] * 125).tobytes()
    shape = ReceiptShape(call.pk.bytes, run, call.tool, 1_250, lengths, 3, is_scored=True)
    cells = {256: {"first": RecallCell(calls=1, mean=1.0, characters=1_000.0)}}
    tool = ToolRecall(tool=call.tool, scored=1, quoted=1, items=1, sessions=1, cells=cells)
    summary = RecallSummary(1, 1, 0, 0, {}, 0, ("first",), {}, (tool,))
    packed = {"results": pack(RecallResults((row,), (shape,))), "summary": pack(summary)}
    return RecallReport.objects.create(project=project, variants=["receipt"], state="finished", **packed)


def compared(project: Project, variants: list[str], **selection: Any) -> tuple[Comparison, Summary]:
    """A finished comparison and its summary."""
    comparison = start_comparison(project, Selection(**selection), variants)
    work_until_idle(comparison)
    comparison.refresh_from_db()
    assert comparison.state == Comparison.State.FINISHED, comparison.problem
    return comparison, unpack_summary(bytes(comparison.summary or b""))

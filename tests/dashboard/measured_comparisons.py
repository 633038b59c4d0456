"""Recorded command calls for the tests of comparisons: imported, so that both halves are those of an import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dashboard.comparisons.stored_comparison import Selection, start_comparison
from dashboard.comparisons.summary import Summary, unpack_summary
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Comparison, Project
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


def compared(project: Project, variants: list[str], **selection: Any) -> tuple[Comparison, Summary]:
    """A finished comparison and its summary."""
    comparison = start_comparison(project, Selection(**selection), variants)
    work_until_idle("tests", comparison)
    comparison.refresh_from_db()
    assert comparison.state == Comparison.State.FINISHED, comparison.problem
    return comparison, unpack_summary(bytes(comparison.summary or b""))

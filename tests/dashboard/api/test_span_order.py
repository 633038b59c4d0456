"""The spans of one trace request in any order: tracing backends list them newest first, exporters as they ended."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, Run
from tests.cases import extended_except

pytestmark = pytest.mark.django_db
FOLDER = Path(__file__).resolve().parents[2] / "envelopes" / "recordings" / "otlp"
SAMPLES = [path.stem for path in sorted(FOLDER.glob("*.jsonl"))]
COLUMNS = (
    *("external_id", "tool", "outcome", "result_fidelity", "result_bytes", "receipt_fidelity", "receipt_characters"),
    *("started_at", "ended_at", "duration_ms", "tool_ms"),
)


def read_spans(sample: str) -> list[dict[str, Any]]:
    """Each span of the sample alone, with its resource and its scope, in the order of their beginnings."""
    requests = map(json.loads, (FOLDER / f"{sample}.jsonl").read_text("utf-8").splitlines())
    spans = [
        {"resource": part.get("resource", {}), "scopeSpans": [{"scope": scope.get("scope", {}), "spans": [span]}]}
        for request in requests
        for part in request["resourceSpans"]
        for scope in part["scopeSpans"]
        for span in scope["spans"]
    ]
    return sorted(spans, key=lambda span: int(span["scopeSpans"][0]["spans"][0]["startTimeUnixNano"]))


def import_spans(project: Project, path: Path, spans: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The calls of one request with these spans, which are deleted again."""
    path.write_text(json.dumps({"resourceSpans": spans}), "utf-8")
    import_paths(project, [path])
    calls = list(Call.objects.order_by("external_id", "started_at", "id").values_list(*COLUMNS))
    for run in list(Run.objects.all()):
        delete_run(run)
    return calls


@pytest.mark.parametrize(
    "sample", extended_except(SAMPLES, "agno_3.1.10_openinference_1.0.15", "langchain_1.5.2_langsmith_0.15.1")
)
def test_the_order_of_the_spans_of_a_request_makes_no_difference(project: Project, tmp_path: Path, sample: str) -> None:
    spans = read_spans(sample)
    oldest_first = import_spans(project, tmp_path / "oldest.json", spans)
    assert import_spans(project, tmp_path / "newest.json", spans[::-1]) == oldest_first
    assert import_spans(project, tmp_path / "mixed.json", Random(3).sample(spans, len(spans))) == oldest_first
    assert oldest_first or "semantic_kernel" in sample

"""A store of any size, made of the real sessions: their calls, multiplied with fresh ids.

    python -m tests.bench.store RECORDINGS [RUNS]     fills the store of COUNTERFOIL_DATA

20,000 runs of five calls each; beside them a run of 50 calls, one of 2,000, three calls whose results are
20 KB, 200 KB and 1 MB, and long calls of every kind of tool. Two runs use a tool that no other run has: a
filter that matches 0.01 %.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

import django

RUNS = 20_000
CALLS_A_RUN = 5
RARE_TOOL = "mcp__rare__tool"
LARGEST_COPIED = 8_192  # bytes of a call's payloads: lists never read them, and the disk is not the subject
START = datetime(2026, 1, 1, tzinfo=UTC)
RUN_OF_50, RUN_OF_2000 = "run-of-50", "run-of-2000"
SIZES = {"20 KB": 20_000, "200 KB": 200_000, "1 MB": 1_000_000}


def fill(recordings: Path, runs: int = RUNS) -> None:
    from dashboard.accounts import get_or_create_project
    from dashboard.ingest.importer import import_paths

    project = get_or_create_project()
    import_paths(project, [recordings / "claude-code"])
    import_paths(project, [_large_calls(recordings)])
    import_paths(project, [_long_calls()])
    pool = _Pool(project.pk)
    for start in range(0, runs, 500):
        pool.write([(f"copy-{number}", CALLS_A_RUN, number) for number in range(start, min(start + 500, runs))])
    pool.write([(RUN_OF_50, 50, runs + 1)])
    pool.write([(RUN_OF_2000, 2_000, runs + 2)])


def large_call(name: str) -> str:
    """The external id of the call whose result has that size."""
    return "toolu_large_" + name.replace(" ", "")


def _large_calls(_recordings: Path) -> Path:
    """A session of three commands with long outputs; the receipt of each is its whole output."""
    import tempfile

    from tests.dashboard.sessions import SESSION, answers, asks, write

    lines: list[Any] = []
    for name, size in SIZES.items():
        line = 'INFO 2026-03-01 09:00:00 worker=%d path="/srv/app/module.py" done\n'
        text = "".join(line % number for number in range(size // 60 + 1))[:size]
        lines += [
            asks(large_call(name)),
            answers(large_call(name), text, {"stdout": text, "stderr": "", "interrupted": False}),
        ]
    return write(Path(tempfile.mkdtemp()) / f"{SESSION}.jsonl", lines)


def _long_calls() -> Path:
    import tempfile

    from tests.bench.long_calls import SESSION, long_session
    from tests.dashboard.sessions import write

    return write(Path(tempfile.mkdtemp()) / f"{SESSION}.jsonl", long_session())


class _Pool:
    """The small calls of the store, with their rows, to be written again under other ids."""

    def __init__(self, project: int) -> None:
        from dashboard.models import Call, CanonicalProjection, Observation, RecordedReceipt

        self.project = project
        small = Call.objects.filter(
            result_bytes__lt=LARGEST_COPIED, receipt_characters__lt=LARGEST_COPIED, args_bytes__lt=LARGEST_COPIED
        )
        self.calls = list(small.exclude(tool="").order_by("pk"))
        ids = [call.pk for call in self.calls]
        self.rows: dict[type[Any], dict[UUID, list[dict[str, Any]]]] = {}
        for model in (Observation, RecordedReceipt, CanonicalProjection):
            held: dict[UUID, list[dict[str, Any]]] = {}
            for row in model.objects.filter(call__in=ids).values():  # type: ignore[attr-defined]
                held.setdefault(row["call_id"], []).append(row)
            self.rows[model] = held

    def write(self, wanted: Sequence[tuple[str, int, int]]) -> None:
        """One transaction of runs, each (name, number of calls, seed)."""
        from django.db import transaction

        from dashboard.ingest.bulk import bulk_insert, bulk_insert_values
        from dashboard.models import Call, Run, RunCall, RunFacet

        runs, calls, members, facets = [], [], [], []
        copies: dict[type[Any], list[dict[str, Any]]] = {model: [] for model in self.rows}
        for name, count, seed in wanted:
            run = self._run(name, seed)
            own = list(self._copied(run, count, seed, copies))
            facets += _counted(run, own)
            runs.append(run)
            calls += own
            members += [RunCall(run_id=run.pk, call_id=call.pk, ordinal=call.line) for call in own]
        with transaction.atomic():
            bulk_insert(Run, runs)
            bulk_insert(Call, calls)
            bulk_insert(RunCall, members)
            bulk_insert(RunFacet, facets)
            for model, rows in copies.items():
                bulk_insert_values(model, rows)

    def _run(self, name: str, seed: int) -> Any:
        from dashboard.models import Run
        from dashboard.models.identity import run_id

        began = START + timedelta(seconds=97 * seed)
        return Run(
            id=run_id(self.project, "claude-code", name),
            project_id=self.project,
            namespace="claude-code",
            external_id=name,
            title=f"Look into report {seed} and mend what it says",
            agent="claude-code",
            model=f"claude-{seed % 3}",
            source_format="claude-code",
            started_at=began,
            last_at=began + timedelta(minutes=5),
            sort_at=began,
            duration_ms=300_000 + seed,
        )

    def _copied(self, run: Any, count: int, seed: int, copies: dict[type[Any], list[dict[str, Any]]]) -> Iterator[Any]:
        from copy import copy

        from dashboard.models.identity import derive_id

        for ordinal, template in enumerate(islice(_around(self.calls, seed * 7), count), 1):
            call = copy(template)
            call.pk = derive_id("copy", run.pk.bytes, ordinal)
            call.run_id, call.line, call.source_id = run.pk, ordinal, None
            call.external_id = f"toolu_{seed}_{ordinal}"
            call.started_at = run.started_at + timedelta(seconds=ordinal)
            call.ended_at = call.started_at + timedelta(milliseconds=400)
            if seed < 2 and ordinal == 1:
                call.tool = RARE_TOOL
            fresh: dict[UUID, UUID] = {}
            for model, held in self.rows.items():
                for row in held.get(template.pk, ()):
                    links: dict[str, Any] = {"call_id": call.pk}
                    if "id" in row:
                        links["id"] = fresh[row["id"]] = derive_id("copy", row["id"].bytes, call.pk.bytes)
                    if "observation_id" in row:
                        links["observation_id"] = fresh.get(row["observation_id"])
                    if "run_id" in row:
                        links["run_id"] = run.pk
                    copies[model].append({**row, **links})
            yield call


def _counted(run: Any, calls: Sequence[Any]) -> list[Any]:
    from dashboard.ingest.run_stats import compute_stats, stat_columns
    from dashboard.models import RunFacet

    counted = compute_stats(run, [(False, *stat_columns(call)) for call in calls])
    for column, content in counted.columns.items():
        setattr(run, column, content)
    return [
        RunFacet(run_id=run.pk, project_id=run.project_id, kind=kind, value=value, sort_at=run.sort_at, count=count)
        for (kind, value), count in counted.facets.items()
    ]


def _around(items: Sequence[Any], start: int) -> Iterator[Any]:
    while True:
        yield items[start % len(items)]
        start += 1


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    fill(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else RUNS)
    from dashboard.models import Call, Run

    print(json.dumps({"runs": Run.objects.count(), "calls": Call.objects.count()}))


if __name__ == "__main__":
    main()

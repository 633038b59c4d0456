"""How fast recorded calls are written under several variants and measured, against `render` in a bare loop.

python -m tests.bench.comparisons [CALLS]      (COUNTERFOIL_DATA or DATABASE_URL: a store with calls in it)
python -m tests.bench.comparisons CALLS cluster    the same by a Dask cluster of two workers, one of which is killed

Asked: 5,000 renderings a second with two processes, no process above 400 MB, and by the cluster the same bytes.
Processor seconds are printed beside the wall's, because a busy machine lengthens only the second.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import django

VARIANTS = ("receipt", "markdown", "tagged")
PROCESSES = 2
SAMPLED = 2_000


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    facts = {"bare": _bare(), "comparison": measure_comparison(wanted)}
    if sys.argv[2:] == ["cluster"]:
        with open_cluster() as (address, worker):
            os.environ["COUNTERFOIL_DASK"] = address
            facts["by_cluster"] = measure_comparison(wanted, worker)
        facts["are_equal"] = facts["comparison"]["sha256"] == facts["by_cluster"]["sha256"]
    print(json.dumps(facts, indent=1))


@contextmanager
def open_cluster() -> Iterator[tuple[str, int]]:
    """The address of a cluster, and the process of one of its two workers."""
    command = [sys.executable, "-m", "tests.faults.cluster"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdout is not None
        address, worker, _ = cluster.stdout.readline().split()
        yield address, int(worker)


def _bare() -> dict[str, float]:
    """Renderings a processor second of `render` alone, with envelopes already read."""
    from dashboard.evidence.call_inputs import load_call_inputs
    from dashboard.models import Call, Project
    from dashboard.variants.variant_list import bind_columns
    from envelopes.pipeline.render import render

    ids = list(Call.objects.order_by("id").values_list("id", flat=True)[:SAMPLED])
    families = Call.objects.order_by().values_list("family", flat=True).distinct()
    columns = bind_columns(Project.objects.get(slug="default"), list(VARIANTS), families)
    subjects = list(load_call_inputs(ids, with_recorded=False))
    start = time.process_time()
    for subject in subjects:
        for column in columns:
            variant = column.variants[subject.family.name]
            render(subject.canonical, subject.family, variant.policy, variant=variant)
    return {"renderings_a_second": len(subjects) * len(columns) / (time.process_time() - start)}


def measure_comparison(wanted: int, worker: int = 0) -> dict[str, Any]:
    """Measures a comparison of `wanted` calls, 0 for all; kills the process `worker` when half of it is done."""
    from dashboard.experiments.stored_comparison import Selection, count_done, start_comparison
    from dashboard.models import Project

    project = Project.objects.get(slug="default")
    comparison = start_comparison(project, Selection(sample=wanted or None), list(VARIANTS), name="benchmark")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-m", "dashboard", "work", "--until-idle", "--processes", str(PROCESSES)]
    with subprocess.Popen(command) as work:
        while worker and work.poll() is None:
            time.sleep(0.2)
            if 2 * count_done(comparison) > comparison.call_count:
                os.kill(worker, signal.SIGKILL)
                worker = 0
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    comparison.refresh_from_db()
    stored = [
        bytes(results or b"") for results in comparison.batches.order_by("number").values_list("results", flat=True)
    ]
    processor = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    renderings = comparison.call_count * len(VARIANTS)
    facts = {
        "state": comparison.state,
        "calls": comparison.call_count,
        "renderings": renderings,
        "wall_seconds": round(seconds, 1),
        "renderings_a_second": round(renderings / seconds),
        "processor_seconds": round(processor, 1),
        "renderings_a_second_of_two_free_cores": round(PROCESSES * renderings / processor),
        "peak_megabytes_of_a_process": round(used.ru_maxrss / 1024),
        "stored_bytes": sum(map(len, stored)),
        "sha256": hashlib.sha256(b"".join(stored)).hexdigest(),
    }
    comparison.delete()
    return facts


if __name__ == "__main__":
    main()

"""How fast recorded calls are written under several variants and measured, against `render` in a bare loop.

python -m tests.bench.comparisons [CALLS]      (COUNTERFOIL_DATA: a store with calls in it)

Asked: 5,000 renderings a second with two processes, and no process above 400 MB. Processor seconds are
printed beside the wall's, because a busy machine lengthens only the second.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

import django

VARIANTS = ("receipt", "markdown", "tagged")
PROCESSES = 2
SAMPLED = 2_000


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print(json.dumps({"bare": _bare(), "comparison": _comparison(wanted)}, indent=1))


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


def _comparison(wanted: int) -> dict[str, Any]:
    from dashboard.experiments.stored_comparison import Selection, start_comparison
    from dashboard.models import Project

    project = Project.objects.get(slug="default")
    comparison = start_comparison(project, Selection(sample=wanted), list(VARIANTS), name="benchmark")
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "dashboard", "work", "--until-idle", "--processes", str(PROCESSES)], check=True
    )
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    comparison.refresh_from_db()
    renderings = comparison.call_count * len(VARIANTS)
    facts = {
        "state": comparison.state,
        "calls": comparison.call_count,
        "renderings": renderings,
        "wall_seconds": round(seconds, 1),
        "renderings_a_second": round(renderings / seconds),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "renderings_a_second_of_two_free_cores": round(PROCESSES * renderings / (used.ru_utime + used.ru_stime)),
        "peak_megabytes_of_a_process": round(used.ru_maxrss / 1024),
        "stored_bytes": sum(len(bytes(one or b"")) for one in comparison.batches.values_list("results", flat=True)),
    }
    comparison.delete()
    return facts


if __name__ == "__main__":
    main()

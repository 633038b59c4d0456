"""What running a call costs beside the tool: in memory, and with durable records.

    python -m tests.bench.plan [FOLDER]

FOLDER is on the disk to be measured; without one it is the system's folder for temporary files. Printed are the
processor's time of a no-op call (at most 1 ms), and calls a second with records in files: tools that only read, whose
records are synced together, and tools that write, each synced before it begins (at least 500).
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from envelopes.plan.executor import Executor
from envelopes.plan.recorders import FileRecorder, MemoryRecorder, Recorder
from envelopes.plan.schema import ActionPlan, read_plan
from tests.envelopes.plan.simulation import make_policy, make_tool

CALLS, DURABLE_CALLS, ROUNDS = 10_000, 2_000, 3
MOST_MS, LEAST_RATE = 1.0, 500


def loop_plan(tool: str, concurrency: int) -> ActionPlan:
    """One step that calls the tool once for each of `$vars.items`."""
    foreach = {"from": "$vars.items", "itemName": "n", "concurrency": concurrency}
    step = {"id": "all", "tool": tool, "args": {"number": "{n}"}, "foreach": foreach}
    return read_plan({"version": "1.0", "goal": "Measure", "riskLevel": "writes", "steps": [step]})


def run(tool: str, count: int, recorder: Recorder, concurrency: int = 1) -> tuple[float, float]:
    """Seconds of the processor and of the clock."""
    tools = [make_tool("Read"), make_tool("Write", risk="writes"), make_tool("Both", risk="writes", parallel_safe=True)]
    executor = Executor(tools, make_policy(max_iterations=count))
    variables: dict[str, Any] = {"items": list(range(count))}
    cpu, clock = time.process_time(), time.perf_counter()
    result = executor.run(loop_plan(tool, concurrency), recorder, variables=variables)
    spent = time.process_time() - cpu, time.perf_counter() - clock
    assert result.is_ok
    return spent


def main(folder: str | None = None) -> int:
    in_memory = min(run("Read", CALLS, MemoryRecorder())[0] for _ in range(ROUNDS)) / CALLS * 1_000
    print(f"{in_memory:8.3f} ms of the processor a call, {CALLS:,} no-op calls in memory (at most {MOST_MS})")
    rates = []
    for name, tool, concurrency in (("read", "Read", 1), ("write", "Write", 1), ("write, 4 at a time", "Both", 4)):
        seconds = []
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory(dir=folder) as place:
                seconds.append(run(tool, DURABLE_CALLS, FileRecorder(Path(place) / "run"), concurrency)[1])
        rates.append(DURABLE_CALLS / min(seconds))
        print(f"{rates[-1]:8,.0f} calls a second with durable records, tools that {name} (at least {LEAST_RATE})")
    return int(in_memory > MOST_MS or min(rates) < LEAST_RATE)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

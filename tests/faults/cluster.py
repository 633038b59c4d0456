"""A Dask cluster of two workers as a process of its own, without a database of the tests.

python -m tests.faults.cluster      prints the address and the processes of the workers; ends with its standard input
"""

from __future__ import annotations

import os
import sys

WORKERS = 2


def main() -> None:
    from distributed import LocalCluster

    # A worker that asks a database finds none.
    os.environ["DATABASE_URL"] = "postgres://nobody@127.0.0.1:9/nothing"
    with LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        workers = [nanny.process.pid for nanny in cluster.workers.values()]
        print(cluster.scheduler_address, *workers, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

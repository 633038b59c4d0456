"""A Dask cluster of two workers as a process of its own, without a database of the tests.

python -m tests.faults.cluster [FOLDER]      prints the address and the processes of the workers, and ends with its
                                             standard input; with a folder it is encrypted and writes certificates there
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

WORKERS = 2
CERTIFICATES = {"CA_FILE": "tls_ca_file", "CLIENT__CERT": "tls_client_cert", "CLIENT__KEY": "tls_client_key"}


def certificates(folder: Path) -> dict[str, str]:
    """The variables by which Dask finds the certificates in the folder."""
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(folder / name) for name in CERTIFICATES}


def main() -> None:
    from distributed import LocalCluster
    from distributed.security import Security

    # A worker that asks a database finds none.
    os.environ["DATABASE_URL"] = "postgres://nobody@127.0.0.1:9/nothing"
    options: dict[str, Any] = {"host": "127.0.0.1"}
    for folder in map(Path, sys.argv[1:]):
        options = {"host": "tls://127.0.0.1", "security": Security.temporary()}
        for name, attribute in CERTIFICATES.items():
            (folder / name).write_text(getattr(options["security"], attribute))
    with LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None, **options
    ) as cluster:
        workers = [nanny.process.pid for nanny in cluster.workers.values()]
        print(cluster.scheduler_address, *workers, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()

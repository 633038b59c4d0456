"""Computes the background work on a Dask cluster (extra `cluster`), which COUNTERFOIL_DASK names.

Workers are sent recorded calls as bytes and return bytes: they need the same version of this program, and neither the
database nor the artifacts. What travels is recorded text, so addresses beyond this machine are encrypted ones. The
certificates are those of Dask's own configuration (`distributed.comm.tls`).
"""

from __future__ import annotations

import ipaddress
import logging
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

PRELOAD = "dashboard.preload"
CONNECT_SECONDS = 10


class ClusterRefused(RuntimeError):
    """The cluster cannot be used; the sentence is for the operator."""


class OtherProgram(RuntimeError):
    """A worker of the cluster has another version of this program; the sentence is for the operator."""


def run_on_worker(program: str, module: str, function: str, *arguments: Any) -> Any:
    """Calls a function by its names, in a process that may not have loaded anything yet. Raises OtherProgram."""
    own = name_program()
    if own != program:
        raise OtherProgram(f"A worker of the cluster has {own}, and not {program}: install the same on every worker.")
    return getattr(import_module(module), function)(*arguments)


def name_program() -> str:
    """Names the program that computes here, after loading it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    name: str = import_module(PRELOAD).name_program()
    return name


class ClusterExecutor(Executor):
    """The workers of a cluster behind the interface of a pool. Raises ClusterRefused."""

    def __init__(self, address: str) -> None:
        check_address(address)
        try:
            from distributed import Client
            from distributed.security import Security
        except ImportError:
            raise ClusterRefused("COUNTERFOIL_DASK needs the extra: pip install 'counterfoil[cluster]'") from None
        # Dask computes again what a lost worker had, and notes the keys of its jobs, which say nothing to an operator.
        logging.getLogger("distributed.client").setLevel(logging.ERROR)
        self._program = name_program()
        security = Security(require_encryption=True) if address.startswith("tls:") else None
        try:
            self._client = Client(address, security=security, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:  # no scheduler there, or no usable certificate
            raise ClusterRefused(f"The cluster {address} cannot be used: {error}") from None
        try:
            self.processes = self._check_workers()
        except BaseException:
            self._client.close()
            raise
        self._executor = self._client.get_executor(pure=False)  # equal calls of two batches are two jobs

    def _check_workers(self) -> int:
        """The threads of all workers."""
        try:
            programs: dict[str, str] = self._client.run(name_program)
        except Exception as error:  # of a worker, which may have no such program at all
            raise ClusterRefused(f"A worker of the cluster cannot load this program: {error!r}") from None
        if not programs:
            raise ClusterRefused("The cluster has no worker.")
        for worker, program in sorted(programs.items()):
            if program != self._program:
                raise ClusterRefused(
                    f"The worker {worker} has {program}, and not {self._program}: install the same on every worker."
                )
        return sum(self._client.nthreads().values())

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_kwargs: Any) -> Future[Any]:
        job: Future[Any] = self._executor.submit(run_on_worker, self._program, fn.__module__, fn.__qualname__, *args)
        return job

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - of Executor
        self._executor.shutdown(wait=wait and not cancel_futures)
        self._client.close()


def check_address(address: str) -> None:
    """Raises ClusterRefused for an address beyond this machine that is not encrypted."""
    parts = urlsplit(address)
    if parts.scheme == "tls" or (parts.scheme == "tcp" and _is_this_machine(parts.hostname or "")):
        return
    raise ClusterRefused(
        f"COUNTERFOIL_DASK={address} is not used: recorded calls are sent there, so an address beyond this machine "
        "begins with tls://."
    )


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""Which executor computes the background work, and which clusters it does not use."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

import pytest
from pytest_django import Settings

from dashboard.dask_cluster import ClusterRefused, OtherProgram, check_address, name_program, run_on_worker
from dashboard.pool import WORTH_A_POOL, Computing, HereExecutor, ProcessPool, is_lost, open_pool
from tests.cases import each


@each(
    "address", ["tcp://10.0.0.1:8786", "tcp://cluster.example:8786", "ws://127.0.0.1:8786", "127.0.0.1:8786", "tcp://"]
)
def test_recorded_calls_leave_this_machine_encrypted_or_not_at_all(address: str) -> None:
    with pytest.raises(ClusterRefused, match="beyond this machine begins with tls://"):
        check_address(address)


@each("address", ["tls://10.0.0.1:8786", "tcp://127.0.0.1:8786", "tcp://localhost:8786", "tcp://[::1]:8786"])
def test_an_encrypted_address_and_this_machine_are_used(address: str) -> None:
    check_address(address)


def test_a_worker_computes_for_its_own_program_alone() -> None:
    program = name_program()
    assert program.startswith("counterfoil ")
    assert run_on_worker(program, "operator", "add", 1, 2) == 3
    with pytest.raises(
        OtherProgram, match=r"A worker of the cluster has counterfoil .*, and not counterfoil 0\.0\.1"
    ) as other:
        run_on_worker("counterfoil 0.0.1", "operator", "add", 1, 2)
    assert is_lost(other.value), "what it should have computed is computed elsewhere"


def test_little_work_starts_no_process_and_a_refused_cluster_is_replaced(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DASK = "tcp://10.0.0.1:8786"
    computing = Computing(processes=3)
    assert isinstance(computing.choose(calls=WORTH_A_POOL - 1), HereExecutor)
    assert computing.most_pending == 1
    assert isinstance(computing.choose(calls=WORTH_A_POOL), ProcessPool)
    assert computing.most_pending == 6
    assert "COUNTERFOIL_DASK=tcp://10.0.0.1:8786 is not used" in caplog.text
    assert "Processes of this machine compute instead." in caplog.text
    computing.close_idle()
    assert isinstance(computing.choose(calls=1), ProcessPool), "it may be needed again at once"
    computing.close()
    assert isinstance(computing.choose(calls=1), HereExecutor)


def test_an_exception_of_a_job_is_that_of_its_future() -> None:
    future = HereExecutor().submit(divmod, 1, 0)
    assert isinstance(future.exception(), ZeroDivisionError)
    assert not is_lost(future.exception() or KeyError())


class KillingContext(SpawnContext):
    """Before it starts a process it kills those that it has started, and waits until their executor has noticed."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[SpawnProcess] = []
        self.job: Future[Any] | None = None

    def Process(self, *args: Any, **kwargs: Any) -> SpawnProcess:  # type: ignore[override]
        for process in self.started:
            process.kill()
        if self.job is not None:
            wait([self.job])
        self.started.append(SpawnProcess(*args, **kwargs))
        return self.started[-1]


@pytest.mark.extended
def test_a_process_that_dies_while_another_is_started_is_a_lost_job_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A ProcessPoolExecutor of two processes raises OSError here in Python 3.11, which ended the leader."""
    context = KillingContext()
    monkeypatch.setattr("dashboard.pool.get_context", lambda _: context)
    with open_pool("no database is opened", processes=2, is_lasting=True) as pool:
        context.job = pool.submit(time.sleep, 60)
        assert pool.submit(os.getpid).result() == context.started[1].pid
        assert is_lost(context.job.exception() or KeyError())
        with pytest.raises(BrokenProcessPool):
            pool.submit(os.getpid)

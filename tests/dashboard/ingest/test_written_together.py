"""Batches that come while one waits for the lock of the database are written with it, in one durable transaction."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.db import DataError, connection, transaction

from dashboard.faults import BUSY, find_outage
from dashboard.ingest.live import WRITER, BatchAnswer, LiveBatch, receive, split_lines
from dashboard.models import Call, Project, Source
from tests.dashboard.api.native_records import lines, one_call
from tests.dashboard.factories import create_project
from tests.faults.imports import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def send(project: Project, run: str, inserts: list[str], *, is_keyed: bool = True) -> BatchAnswer:
    """Sends a call of a run, with its name as the key; notes the run where this thread inserts a source.

    The database refuses the source of a run that is called bad.
    """

    def watch(execute: Callable[..., Any], sql: str, parameters: Any, *arguments: Any) -> Any:
        if sql.startswith('INSERT INTO "dashboard_source" '):
            inserts.append(run)
            if "live/native/key bad" in parameters:
                raise DataError("refused by the database of a test")
        return execute(sql, parameters, *arguments)

    body = lines(one_call(1, run))
    key = run if is_keyed else ""
    batch = LiveBatch(
        format="native", sha256=hashlib.sha256(body).hexdigest(), lines=split_lines(project, "native", body), key=key
    )
    try:
        with connection.execute_wrapper(watch):
            return receive(project, batch)
    finally:
        connection.close()


def test_batches_that_come_during_the_wait_for_the_lock_are_written_with_the_one_that_waits() -> None:
    project, inserts = create_project(), list[str]()
    other = create_project("other")
    with ThreadPoolExecutor(4) as pool:
        with transaction.atomic():
            Project.objects.select_for_update(no_key=True).get(pk=project.pk)
            jobs: list[Future[BatchAnswer]] = [pool.submit(send, project, "first", inserts)]
            assert wait_until(lambda: bool(WRITER._taken) and not WRITER._waiting)
            jobs += [pool.submit(send, project, run, inserts) for run in ("second", "third")]
            jobs += [pool.submit(send, other, "of another project", inserts)]
            assert wait_until(lambda: len(WRITER._waiting) == 3)
        answers = [job.result() for job in jobs]
    assert [answer.accepted for answer in answers] == [3, 3, 3, 3]
    assert sorted(inserts) == ["first", "of another project"]
    assert Source.objects.count() == 4
    assert Call.objects.filter(project=project).count() == 3


def test_a_batch_that_cannot_be_written_makes_no_other_batch_fail() -> None:
    project = create_project()
    runs = ("first", "second", "bad", "third")
    with ThreadPoolExecutor(len(runs)) as pool:
        with transaction.atomic():
            Project.objects.select_for_update(no_key=True).get(pk=project.pk)
            jobs = {run: pool.submit(send, project, run, []) for run in runs}
            assert wait_until(lambda: len(WRITER._taken + WRITER._waiting) == len(runs))
        errors = {run: job.exception() for run, job in jobs.items()}
    assert [run for run, error in errors.items() if error is not None] == ["bad"]
    assert isinstance(errors["bad"], DataError)
    assert [jobs[run].result().accepted for run in ("first", "second", "third")] == [3, 3, 3]
    assert list(Source.objects.order_by("path").values_list("accepted", flat=True)) == [3, 3, 3]
    assert Call.objects.count() == 3


@pytest.mark.postgresql
def test_no_batch_waits_for_the_lock_behind_another_that_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    options = connection.settings_dict["OPTIONS"]
    name, value = ("timeout", 1.0) if connection.vendor == "sqlite" else ("options", "-c lock_timeout=1000")
    monkeypatch.setitem(options, name, value)
    projects = [create_project(), create_project("other")]
    with ThreadPoolExecutor(6) as pool, transaction.atomic():
        for project in projects:
            Project.objects.select_for_update(no_key=True).get(pk=project.pk)
        began = time.monotonic()
        jobs = [pool.submit(send, projects[number % 2], f"r{number}", []) for number in range(6)]
        errors = [job.exception() for job in jobs]
        assert [find_outage(error) for error in errors] == [BUSY] * 6
        assert time.monotonic() - began < 3.5
    assert send(projects[0], "r0", []).accepted == 3


@pytest.mark.parametrize("kind", ["with a key", "without a key"])
def test_of_equal_bodies_at_once_one_is_accepted_and_the_others_are_known(kind: str) -> None:
    is_keyed = kind == "with a key"
    project = create_project()
    with ThreadPoolExecutor(3) as pool:
        with transaction.atomic():
            Project.objects.select_for_update(no_key=True).get(pk=project.pk)
            jobs = [pool.submit(send, project, "r1", [], is_keyed=is_keyed)]
            assert wait_until(lambda: bool(WRITER._taken) and not WRITER._waiting)
            jobs += [pool.submit(send, project, "r1", [], is_keyed=is_keyed) for _ in range(2)]
            assert wait_until(lambda: len(WRITER._waiting) == 2)
        answers = [job.result() for job in jobs]
    counts = sorted((answer.accepted, answer.already_known) for answer in answers)
    assert counts == ([(3, 0)] * 3 if is_keyed else [(0, 3), (0, 3), (3, 0)])
    assert (Source.objects.count(), Call.objects.count()) == (1, 1)

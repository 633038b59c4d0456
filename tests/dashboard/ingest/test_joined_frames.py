"""Small frames of records that were sent live are joined in blocks; no address changes, and no byte."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.live import LiveBatch, receive, split_lines
from dashboard.ingest.source_frames import FRAMES_OF_BLOCK, join_next_frames
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import Observation, Project, Run, Source, SourceFrame, load_slices
from dashboard.models.sources import FRAME_BYTES, DamagedEvidence, FrameBlock
from dashboard.worker import work_until_idle
from tests.conftest import CHECKOUT
from tests.dashboard.ingest.test_deletion import evidence, exports, stored_values
from tests.faults.imports import environment, migrated_store

pytestmark = pytest.mark.django_db
POSTS = 20
RUNS = 3
MARKS = ("alpaca", "badger", "cormorant")  # in each record of the run
KILLED_AT_EACH_STATEMENT = """
import os, shutil, signal, sys
import django
django.setup()
from django.core.management import call_command
from django.db import connection
from dashboard.ingest.source_frames import join_next_frames
from dashboard.models import SourceFrame
from tests.dashboard.ingest.test_joined_frames import send_from_a_process

def join(before):
    def kill(execute, *arguments):
        nonlocal before
        before -= 1
        if before < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return execute(*arguments)
    with connection.execute_wrapper(kill):
        join_next_frames()

def check():
    print(SourceFrame.objects.filter(block__isnull=False).count(), flush=True)
    call_command("check_store", stdout=sys.stderr)

def in_child(work, *arguments):
    child = os.fork()
    if child == 0:
        work(*arguments)
        os._exit(0)
    return os.waitpid(child, 0)[1]

store = connection.settings_dict["NAME"]
assert in_child(send_from_a_process) == 0
shutil.copy(store, f"{store}.sent")
number = 0
while (status := in_child(join, number)) != 0:
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert in_child(check) == 0
    for end in ("", "-wal", "-shm"):
        if os.path.exists(f"{store}{end}"):
            os.remove(f"{store}{end}")
    shutil.copy(f"{store}.sent", store)
    number += 1
assert in_child(check) == 0
"""


def post(project: Project, run: str, call: str, text: str) -> None:
    base = {"v": 1, "run": run, "call": call}
    records = [
        base | {"type": "call", "tool": "Search", "args": {"q": call}, "at": "2026-03-01T00:00:00.000Z"},
        base | {"type": "result", "status": "ok", "complete": {"text": text}, "ended_at": "2026-03-01T00:00:01.000Z"},
        base | {"type": "receipt", "seq": 1, "text": text, "fidelity": "exact", "at": "2026-03-01T00:00:02.000Z"},
    ]
    body = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    lines = split_lines(project, "native", body)
    receive(project, LiveBatch(format="native", sha256=hashlib.sha256(body).hexdigest(), lines=lines))


def send(project: Project, posts: int = POSTS) -> None:
    """Calls of RUNS runs in turn, together a little more than a block."""
    for number in range(posts):
        text = f"{MARKS[number % RUNS]} {hashlib.sha256(b'%d' % number).hexdigest()} " * 60
        post(project, f"run-{number % RUNS}", f"call-{number}", text)


def send_from_a_process() -> None:
    send(Project.objects.create(slug="default", name="Default"), 2 * POSTS)
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def addresses() -> list[tuple[object, ...]]:
    return list(Observation.objects.order_by("pk").values_list("pk", "source", "start", "size"))


@pytest.mark.postgresql
def test_joined_frames_give_the_same_bytes_at_the_same_addresses(project: Project) -> None:
    send(project, POSTS // 2)
    assert not join_next_frames()  # not enough for a block
    send(project)
    bytes_before, addresses_before = evidence(), addresses()
    waiting = SourceFrame.objects.filter(is_joinable=True)
    assert join_next_frames()
    assert not join_next_frames()
    assert sum(waiting.values_list("size", flat=True)) < FRAME_BYTES
    block = FrameBlock.objects.get()
    joined = SourceFrame.objects.filter(block=block)
    assert joined.count() > POSTS // 2
    assert set(joined.values_list("own_data", flat=True)) == {None}
    assert evidence() == bytes_before
    assert addresses() == addresses_before
    few = list(Observation.objects.filter(source__in=joined.values("source"))[:2])
    load_slices(few)
    assert {row.pk: row.data for row in few}.items() <= bytes_before.items()


def test_the_background_work_joins_what_was_derived_and_sending_it_again_adds_nothing(project: Project) -> None:
    send(project)
    work_until_idle()
    assert FrameBlock.objects.exists()
    counts = (Source.objects.count(), Observation.objects.count())
    send(project)
    assert (Source.objects.count(), Observation.objects.count()) == counts


def test_frames_that_are_too_small_to_fill_a_block_are_joined_by_their_number(project: Project) -> None:
    size = FRAME_BYTES // FRAMES_OF_BLOCK
    for number in range(FRAMES_OF_BLOCK + 20):
        source = Source.objects.create(project=project, path=f"live/native/{number}", format="native", namespace="n")
        line = b"x" * size
        source.frames.create(offset=0, size=size, first_line=1, own_data=line, is_joinable=True)
    assert join_next_frames()
    assert FrameBlock.objects.get().frames.count() == FRAMES_OF_BLOCK
    assert not join_next_frames()


@pytest.mark.postgresql
def test_deleting_a_run_leaves_nothing_of_it_in_a_block_and_the_other_runs_as_they_were(
    project: Project, tmp_path: Path
) -> None:
    send(project)
    derive_waiting(project)
    assert join_next_frames()
    block = FrameBlock.objects.get()
    before = exports(tmp_path / "before", but="run-0")
    delete_run(Run.objects.get(external_id="run-0"))
    assert exports(tmp_path / "after", but="run-0") == before
    assert MARKS[0].encode() not in stored_values()
    assert MARKS[1].encode() in stored_values()
    assert FrameBlock.objects.get().pk != block.pk  # a reader that knows the old one gets an error, no other bytes
    call_command("check_store", stdout=StringIO())
    for run in Run.objects.all():
        delete_run(run)
    assert not FrameBlock.objects.exists()


@pytest.mark.postgresql
def test_a_source_of_two_runs_keeps_the_bytes_of_the_other_run(project: Project) -> None:
    base = {"v": 1, "type": "call", "tool": "Search", "at": "2026-03-01T00:00:00.000Z"}
    lines = [base | {"run": f"shared-{mark}", "call": mark, "args": {"q": mark}} for mark in MARKS[:2]]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    batch = LiveBatch(format="native", sha256="0" * 64, lines=split_lines(project, "native", body))
    receive(project, batch)
    send(project)
    assert join_next_frames()
    delete_run(Run.objects.get(external_id=f"shared-{MARKS[0]}"))
    other = Observation.objects.get(call__run__external_id=f"shared-{MARKS[1]}")
    assert json.loads(other.data) == {"q": MARKS[1]}
    frame = other.source.frames.get() if other.source else None
    assert frame is not None
    assert MARKS[0].encode() not in frame.data


@pytest.mark.postgresql("no block")
@pytest.mark.parametrize("damage", ["shorter", "no zstd", "no block"])
def test_a_damaged_block_is_an_error_and_listed_by_check_store(damage: str, project: Project) -> None:
    send(project)
    join_next_frames()
    block = FrameBlock.objects.get()
    frame = block.frames.order_by("-block_start")[0]
    if damage == "shorter":
        block.data = block.data[:-100]
        block.save()
    elif damage == "no zstd":
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {FrameBlock._meta.db_table} SET data = %s", [b"not zstd"])
    else:
        SourceFrame.objects.filter(pk=frame.pk).update(block_start=None)
    with pytest.raises(DamagedEvidence):
        load_slices(Observation.objects.filter(source=frame.source_id, surface="receipt"))
    stdout = StringIO()
    with pytest.raises((CommandError, SystemExit)):
        call_command("check_store", stdout=stdout)
    assert "its bytes are not those that were recorded" in stdout.getvalue()


@pytest.mark.extended
def test_joining_that_is_killed_at_any_statement_leaves_each_frame_joined_or_as_it_was(tmp_path: Path) -> None:
    """The process kills itself before its first, second, … statement, until one ends undisturbed; two blocks."""
    store = migrated_store(tmp_path / "store")
    command = [sys.executable, "-c", KILLED_AT_EACH_STATEMENT]
    process = subprocess.run(command, cwd=CHECKOUT, env=environment(store), capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    *killed, whole = map(int, process.stdout.split())
    assert killed[0] == 0
    assert len(set(killed)) == 2  # none joined, the first block joined
    assert max(killed) < whole

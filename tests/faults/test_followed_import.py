from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.dashboard.sessions import SESSION, answers, asks, encoded, short_session, write
from tests.faults.imports import manage, migrated_store, rows, started, wait_until


@pytest.mark.extended
def test_a_watched_session_is_followed_from_where_it_stood(tmp_path: Path) -> None:
    store, folder = migrated_store(tmp_path / "store"), tmp_path / "sessions"
    session = write(folder / f"{SESSION}.jsonl", short_session())
    watching = started(store, "import_runs", str(folder), "--watch")
    try:
        assert wait_until(lambda: rows(store, "SELECT count(*) FROM dashboard_call") == [(3,)])
        with session.open("ab") as file:
            file.write(encoded(answers("toolu_03", "done")) + b"\n")
        assert wait_until(lambda: rows(store, "SELECT accepted FROM dashboard_source") == [(7,)])
        other = write(
            folder / "0f5f6d8e-0000-4000-8000-000000000009.jsonl", short_session("0f5f6d8e-0000-4000-8000-000000000009")
        )
        assert wait_until(lambda: rows(store, "SELECT count(*) FROM dashboard_source") == [(2,)])
        assert other.exists()
    finally:
        watching.send_signal(signal.SIGINT)
        assert watching.wait(120) == 0
    frames = rows(store, 'SELECT "offset", size FROM dashboard_sourceframe WHERE source_id = 1')
    assert frames == [(0, session.stat().st_size)]  # the second batch was joined with the first
    assert rows(store, "SELECT status FROM dashboard_call WHERE external_id = 'toolu_03'") == [("success",)]


@pytest.mark.extended
def test_a_watched_file_may_be_truncated_replaced_and_refused_in_part(tmp_path: Path) -> None:
    """A relative path, as people type it: the watcher's own names for the files are absolute."""
    store, folder = migrated_store(tmp_path / "store"), tmp_path / "sessions"
    session = write(folder / f"{SESSION}.jsonl", short_session())
    (folder / "stump.jsonl").write_bytes(b'{"type":"us')
    given = os.path.relpath(folder, CHECKOUT)
    watching = started(store, "import_runs", given, "--watch")
    calls = "SELECT count(*) FROM dashboard_call"
    try:
        assert wait_until(lambda: rows(store, calls) == [(3,)])
        write(session, [asks("toolu_21"), b"refused", answers("toolu_21")])
        assert wait_until(lambda: rows(store, calls) == [(4,)])
        other = write(tmp_path / "beside.jsonl", [asks("toolu_31"), answers("toolu_31")])
        other.replace(session)
        assert wait_until(lambda: rows(store, calls) == [(5,)])
        with session.open("ab") as file:
            file.write(encoded(asks("toolu_32")) + b"\n")
        assert wait_until(lambda: rows(store, calls) == [(6,)])
        session.unlink()
        write(folder / "stump.jsonl", [asks("toolu_41")])
        assert wait_until(lambda: rows(store, calls) == [(7,)])
    finally:
        watching.send_signal(signal.SIGINT)
        assert watching.wait(120) == 0
    assert rows(store, "SELECT line FROM dashboard_problem") == [(2,)]
    files = {str(file) for (file,) in rows(store, "SELECT path FROM dashboard_source")}
    assert files == {f"{given}/{SESSION}.jsonl", f"{given}/stump.jsonl"}


@pytest.mark.extended
def test_the_background_work_follows_a_stored_path_also_after_it_was_killed(tmp_path: Path) -> None:
    store, folder = migrated_store(tmp_path / "store"), tmp_path / "sessions"
    session = write(folder / f"{SESSION}.jsonl", short_session())
    manage(store, "import_runs", "--follow", str(folder))
    accepted = "SELECT accepted FROM dashboard_source"
    assert rows(store, accepted) == [(6,)]
    for number in (1, 2):
        work = started(store, "work")
        try:
            with session.open("ab") as file:
                file.write(encoded(answers(f"toolu_0{number + 2}", "done")) + b"\n")
            assert wait_until(lambda number=number: rows(store, accepted) == [(6 + number,)])
        finally:
            work.kill()
            work.wait()
    folder.rename(tmp_path / "elsewhere")
    work = started(store, "work")
    try:
        problem = "SELECT problem FROM dashboard_followedpath"
        assert wait_until(lambda: rows(store, problem) == [("there is no such file or folder",)])
    finally:
        work.terminate()
        assert work.wait(60) == 0
    (tmp_path / "elsewhere").rename(folder)
    manage(store, "import_runs", "--unfollow", str(folder))
    assert rows(store, problem) == []

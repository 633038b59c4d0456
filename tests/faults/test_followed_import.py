from __future__ import annotations

import signal
from pathlib import Path

from tests.dashboard.sessions import SESSION, answers, encoded, short_session, write
from tests.faults.imports import manage, rows, started, wait_until


def test_a_watched_session_is_followed_from_where_it_stood(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "sessions"
    session = write(folder / f"{SESSION}.jsonl", short_session())
    manage(store, "migrate")
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
        assert watching.wait(20) == 0
    chunks = rows(store, 'SELECT "offset", size FROM dashboard_sourcechunk WHERE source_id = 1 ORDER BY "offset"')
    assert len(chunks) == 2
    assert chunks[0][1] == chunks[1][0]
    assert rows(store, "SELECT status FROM dashboard_call WHERE external_id = 'toolu_03'") == [("success",)]

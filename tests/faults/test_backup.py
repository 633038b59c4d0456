"""Makes the copy that dashboard/docs/storage.md describes during an import; it contains everything that its rows name.

python -m pytest -m long tests/faults/test_backup.py
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import CHECKOUT
from tests.faults.artifact_load import write_recordings
from tests.faults.disk_image import IMPORT
from tests.faults.imports import environment, manage, migrated_store, rows

NAMED = "SELECT count(*) FROM dashboard_artifact WHERE observation_id IS NULL AND state = 'present'"


@pytest.mark.long
def test_a_copy_made_as_documented_while_an_import_goes_on_is_whole(tmp_path: Path) -> None:
    page = (CHECKOUT / "dashboard/docs/storage.md").read_text()
    match = re.search(r"## Backups\n.*?```\n(.*?)```", page, re.DOTALL)
    assert match is not None
    commands = match[1].replace("python -c", f"{sys.executable} -c").strip().splitlines()
    write_recordings(tmp_path / "recordings", 400)
    store = migrated_store(tmp_path / "data")
    (store / "secret_key").write_text("the tests have theirs in the environment")
    (tmp_path / "copy").mkdir()
    command = [sys.executable, "-c", IMPORT, str(tmp_path / "recordings")]
    importing = subprocess.Popen(command, cwd=CHECKOUT, env=environment(store), stdout=subprocess.PIPE)
    assert importing.stdout is not None
    for _ in range(5):
        importing.stdout.readline()
    for line in commands[:3]:
        subprocess.run(line, shell=True, cwd=tmp_path, check=True)
    was_importing = importing.poll() is None
    importing.kill()
    importing.communicate()
    assert was_importing
    ((copied,),) = rows(tmp_path / "copy", NAMED)
    assert isinstance(copied, int)
    assert 50 <= copied < 400
    assert "Everything that is stored is intact." in manage(tmp_path / "copy", "check_store").stdout

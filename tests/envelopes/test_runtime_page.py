"""The page about using the library in a runtime: its lines run, and give what the page describes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from envelopes import FileStore
from tests.conftest import CHECKOUT

PAGE = (CHECKOUT / "dashboard" / "docs" / "runtime.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that are defined after both pieces of the page ran, one after the other."""
    monkeypatch.chdir(tmp_path)
    defined: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, "runtime.md", "exec"), defined)
    return defined


def test_the_way_to_all_three_is_thirty_lines() -> None:
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 30


def test_a_process_becomes_an_envelope_a_receipt_and_a_tool_result(names: dict[str, Any], tmp_path: Path) -> None:
    from anthropic.types import ToolResultBlockParam  # takes seconds, and each worker collects every file

    envelope, receipt, body = names["envelope"], names["receipt"], names["body"]
    assert list(envelope) == ["tool_name", "status", "summary_text", "result", "error", "artifacts"]
    assert envelope["summary_text"] == "command exited with status 0"
    assert envelope["result"]["stdout_truncated"]
    assert receipt.startswith("Process exited with code 0\n\nstdout:\n1\n2\n")
    assert "of 5000 lines]" in receipt
    assert len(receipt) <= 12_000
    assert body == {"type": "tool_result", "tool_use_id": "toolu_01", "content": receipt, "is_error": False}
    TypeAdapter(ToolResultBlockParam).validate_python(body)
    (artifact,) = envelope["artifacts"]
    with FileStore(tmp_path / "artifacts").open(artifact["path"]) as stream:
        assert stream.read().split()[-1] == b"5000"
    assert artifact["path"] in receipt


def test_a_command_that_fails_is_a_success_with_an_exit_status(names: dict[str, Any]) -> None:
    envelope, receipt, body = names["run"]({"cmd": "echo no >&2; exit 3"}, "toolu_02")
    assert (envelope["status"], envelope["result"]["exit_status"]) == ("success", 3)
    assert receipt == "Process exited with code 3\n\nstderr:\nno\n"
    assert body["is_error"] is False


def test_a_call_that_could_not_be_carried_out_is_an_error(names: dict[str, Any]) -> None:
    assert names["canonical"].to_json()["result"] is None
    assert names["canonical"].error.kind == "execution_root_violation"


def test_the_page_imports_nothing_but_the_public_api() -> None:
    imported = re.findall(r"^(?:from|import) (envelopes\S*)", "\n".join(BLOCKS), re.MULTILINE)
    assert imported
    assert set(imported) == {"envelopes"}


def test_the_page_names_no_module_and_no_name_that_is_not_there() -> None:
    """What stands in backticks and begins with `envelopes.` can be imported."""
    for dotted in sorted(set(re.findall(r"`(envelopes\.[a-z_.]+)`", PAGE))):
        parts = dotted.split(".")
        thing: Any = __import__(".".join(parts[:2]))
        for part in parts[1:]:
            thing = getattr(thing, part, None) or __import__(dotted, fromlist=["x"])
        assert thing


ALONE = """
import sys
NEEDED = {*sys.stdlib_module_names, "envelopes", *sys.argv[1:]}

class Others:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in NEEDED:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Others())
exec(compile(sys.stdin.read(), "runtime.md", "exec"))
"""


@pytest.mark.parametrize("is_compressed", [True, False])
def test_a_stranger_needs_no_more_than_the_page_says(tmp_path: Path, *, is_compressed: bool) -> None:
    (installed,) = re.findall(r"`pip install ([a-z0-9 ]+)`", PAGE)
    packages = [package for package in installed.split() if is_compressed or package != "pyzstd"]
    packages += ["backports", "typing_extensions"]  # what pyzstd brings along
    lines = "\n".join(BLOCKS)
    if not is_compressed:
        lines = lines.replace('FileStore(Path("artifacts"))', 'FileStore(Path("artifacts"), compress_from=None)')
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *packages],
        input=lines,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.endswith("Retryable: no\n")


def test_the_library_needs_what_the_page_says() -> None:
    declared = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    for package in ("msgspec", "rfc8785", "pyzstd"):
        assert any(requirement.startswith(package) for requirement in declared)
        assert package in PAGE

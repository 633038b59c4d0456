"""ApplyPatch and ReadArtifact, called as an executor calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envelopes import FileStore, builtin, project, render
from envelopes.plan.tool_answers import ToolFailed
from envelopes.runtime.file_tools import FileTools
from tests.envelopes.runtime.calls import CONTEXT

LINES = "".join(f"line {number}\n" for number in range(1, 1_001))


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "artifacts")


def call(folder: Path, store: FileStore, name: str, **arguments: Any) -> tuple[Any, str]:
    """The result, and the receipt that a model reads."""
    (tool,) = [tool for tool in FileTools(folder, store.open).tools() if tool.name == name]
    output = tool.run(tool.definition.parse(arguments), CONTEXT)
    output.check()
    family, definition = builtin(name)
    assert isinstance(output.result, definition.result)
    return output.result, render(
        project(output, family, family.projection, store).canonical, family, family.rendering
    ).text


def test_a_patch_changes_the_workspace_and_its_receipt_names_the_file(tmp_path: Path, store: FileStore) -> None:
    patch = "--- /dev/null\n+++ b/notes.txt\n@@ -0,0 +1 @@\n+first\n"
    _, receipt = call(tmp_path, store, "ApplyPatch", patch=patch)
    assert (tmp_path / "notes.txt").read_text() == "first\n"
    assert "A notes.txt" in receipt
    with pytest.raises(ToolFailed, match="notes.txt exists already") as failure:
        call(tmp_path, store, "ApplyPatch", patch=patch)
    assert failure.value.to_error().kind == "existing_file"
    assert failure.value.to_error().recovery_hint


def test_what_a_receipt_left_out_is_read_by_line_and_by_text(tmp_path: Path, store: FileStore) -> None:
    path = store.write("stdout", LINES).path
    part, receipt = call(tmp_path, store, "ReadArtifact", path=path, line=500, limit=2)
    assert part.text == "line 500\nline 501\n"
    assert "line 500" in receipt
    found, _ = call(tmp_path, store, "ReadArtifact", path=path, find="line 77")
    assert "line 77" in str(found)
    with pytest.raises(ToolFailed) as failure:
        call(tmp_path, store, "ReadArtifact", path="artifacts/0123456789abcdef/stdout.txt")
    assert failure.value.kind == "artifact_not_found"

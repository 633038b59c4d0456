"""A record repeats of a stored output what previews need of both ends, and the rest is read from the file again."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envelopes.families.registry import builtin
from envelopes.halves import read_halves
from envelopes.plan.recorders import FileRecorder, load_run
from envelopes.plan.tool_answers import Tool
from envelopes.plan.tool_loop import ToolLoop, ToolRequest
from envelopes.storage.sinks import RECORDED_CHARACTERS, MemorySink, capture, restore_captured, shorten_captured
from envelopes.text.canonical_json import named_hash
from envelopes.text.preview import FileText
from envelopes.text.token_preview import preview_tokens

LOG = "".join(f"line {number} ä😀\n" for number in range(30_000))
OUTPUTS = {
    "log": LOG.encode(),
    "long log": LOG.encode() * 4,
    "short": LOG[:80_000].encode(),
    "one line": "😀é".encode() * 100_000,
    "no text": b"\xff\xfe\x00\xc3" * 100_000,
    "JSON": json.dumps([{"id": number} for number in range(9_000)]).encode() + b"\n",
    "JSON of lines": b'{"id": 1}\n' * 20_000,
}


def run_command(folder: Path, content: bytes, **args: Any) -> None:
    """Records a call whose output is captured in the folder of the run."""
    family, definition = builtin("ExecCommand")
    recorder = FileRecorder(folder)

    def run(given: Any, _context: Any) -> Any:
        data = {"exit_status": 0, "cmd": given.cmd, "max_output_tokens": given.max_output_tokens}
        return msgspec.structs.replace(
            definition.read_data(data), stdout=capture("stdout", content, recorder.artifacts)
        )

    loop = ToolLoop([Tool(definition, run, family)], recorder.artifacts, recorder)
    loop.answer(ToolRequest("toolu_1", "ExecCommand", {"cmd": "make", **args}), loop.begin_turn())
    loop.close()


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("args", [{}, {"max_output_tokens": 400}, {"max_output_tokens": 20_000}])
def test_a_recorded_output_has_the_previews_of_the_whole_one(tmp_path: Path, name: str, args: dict[str, Any]) -> None:
    folder = tmp_path / "run"
    run_command(folder, OUTPUTS[name], **args)
    (result,) = load_run(folder).results
    taken = capture("stdout", OUTPUTS[name], MemorySink())
    assert result.data is not None
    assert result.data["stdout"] == msgspec.to_builtins(taken)
    assert result.data_hash == named_hash(result.data)
    recorded = json.loads((folder / "results.jsonl").read_bytes())
    halves = read_halves(
        agent="audit", tool="ExecCommand", args=b"{}", result=json.dumps(recorded["data"]).encode(), content=None,
        is_error=False,
    )  # fmt: skip
    assert halves.projection.canonical.result == recorded["canonical"]["result"]
    kept = max(RECORDED_CHARACTERS, 4 * args.get("max_output_tokens", 0))
    ends = [len(recorded["data"]["stdout"][end]) for end in ("start", "end")]
    assert ends == [kept, kept] or name in ("JSON", "short") or sum(ends) <= 2 * kept


def test_an_output_of_400_kb_takes_64_kb_of_the_record(tmp_path: Path) -> None:
    """RFC-106: the file has all of it."""
    content = "".join(f"{number}\n" for number in range(70_000)).encode()
    run_command(tmp_path / "run", content)
    (line,) = (tmp_path / "run" / "results.jsonl").read_bytes().splitlines()
    assert len(content) > 400_000
    assert len(line) < 100_000


def test_data_stays_as_recorded_where_the_file_is_gone(tmp_path: Path) -> None:
    run_command(tmp_path / "run", OUTPUTS["log"])
    for file in (tmp_path / "run" / "artifacts").iterdir():
        file.unlink()
    (result,) = load_run(tmp_path / "run").results
    assert result.data is not None
    assert len(result.data["stdout"]["start"]) == RECORDED_CHARACTERS
    assert [entry["pointer"] for entry in result.extra["shortened"]] == ["/stdout"]
    assert result.data_hash != named_hash(result.data)


def test_outputs_anywhere_in_the_data_are_shortened_and_restored() -> None:
    sink = MemorySink()
    taken = msgspec.to_builtins(capture("stdout", OUTPUTS["log"], sink))
    data = {"items": [{"result": {"stdout": taken}, "a/b": taken}], "path": taken["path"], "start": 1, "end": None}
    shorter, shortened = shorten_captured(data, {taken["path"]})
    assert [entry["pointer"] for entry in shortened] == ["/items/0/result/stdout", "/items/0/a~1b"]
    assert len(json.dumps(shorter)) < len(json.dumps(data)) / 4
    files = {taken["path"]: OUTPUTS["log"]}

    assert restore_captured(shorter, shortened, lambda path: io.BytesIO(files[path])) == data
    assert shorten_captured(data, set()) == (data, [])


def test_no_half_line_at_the_end_of_a_beginning_counts_as_a_line() -> None:
    """A budget may have room for more than what was kept of the beginning."""
    line = " " * 128 + "\n"
    file = FileText(path="p", start=line * 9 + "   ", end=line * 9, characters=len(line) * 40, lines=40)
    preview = preview_tokens(file, 400)
    assert preview.cut is not None
    assert preview.head == line * preview.cut.shown[0][1]

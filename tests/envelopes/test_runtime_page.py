"""The page about using the library in a runtime: its lines run, and give what the page describes."""

from __future__ import annotations

import json
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
from envelopes.plan.recorders import load_run
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
    assert "of 20000 lines]" in receipt
    diagnostics = envelope["result"]["command_diagnostics"]
    assert diagnostics["effective_max_output_tokens"] == 8_000
    assert len(receipt) <= 12_000 + diagnostics["output_char_budget"]
    assert body == {"type": "tool_result", "tool_use_id": "toolu_01", "content": receipt, "is_error": False}
    TypeAdapter(ToolResultBlockParam).validate_python(body)
    (artifact,) = envelope["artifacts"]
    with FileStore(tmp_path / "artifacts").open(artifact["path"]) as stream:
        assert stream.read().split()[-1] == b"20000"
    assert artifact["path"] in receipt


def test_the_page_prints_the_path_of_a_file_with_the_whole_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    defined: dict[str, Any] = {}
    exec(compile(BLOCKS[0], "runtime.md", "exec"), defined)
    printed = capsys.readouterr().out.splitlines()
    (path,) = [line for line in printed if line.startswith("artifacts/") and ".txt" not in line]
    assert Path(path).read_text().splitlines()[-1] == "20000"
    assert defined["envelope"]["artifacts"][0]["path"].split("/")[1] in path


def test_a_command_that_fails_is_a_success_with_an_exit_status(names: dict[str, Any]) -> None:
    envelope, receipt, body = names["run"]({"cmd": "echo no >&2; exit 3"}, "toolu_02")
    assert (envelope["status"], envelope["result"]["exit_status"]) == ("success", 3)
    assert receipt == "Process exited with code 3\n\nstderr:\nno\n"
    assert body["is_error"] is False


def test_a_call_that_could_not_be_carried_out_is_an_error(names: dict[str, Any]) -> None:
    assert names["canonical"].to_json()["result"] is None
    assert names["canonical"].error.kind == "execution_root_violation"


class ScriptedClient:
    """A model on one provider's wire: two calls, then one that fails, then its answer. It checks what it is sent."""

    COMMANDS = (("toolu_1", "seq 1 3"), ("toolu_2", "exit 4")), (("toolu_3", None),), ()

    def __init__(self, provider: str) -> None:
        self.provider, self.rounds = provider, iter(self.COMMANDS)
        self.texts: list[str] = []

    def ask(self, messages: list[Any], tools: list[Any]) -> list[tuple[str, str, dict[str, Any]]]:
        calls = [(call, "ExecCommand", {} if cmd is None else {"cmd": cmd}) for call, cmd in next(self.rounds)]
        match self.provider:
            case "anthropic":
                from anthropic.types import MessageParam, ToolParam

                uses = [{"type": "tool_use", "id": call, "name": name, "input": args} for call, name, args in calls]
                asked: list[Any] = [{"role": "assistant", "content": uses}]
                kinds: tuple[Any, Any] = MessageParam, ToolParam
            case _:
                from openai.types.responses import FunctionToolParam
                from openai.types.responses.response_input_item_param import ResponseInputItemParam

                asked = [
                    {"type": "function_call", "call_id": call, "name": name, "arguments": json.dumps(args)}
                    for call, name, args in calls
                ]
                kinds = ResponseInputItemParam, FunctionToolParam
        for values, kind in zip((messages, tools), kinds, strict=True):
            for value in values:
                TypeAdapter(kind).validate_python(value)
        messages += asked if calls else []
        return calls


@pytest.mark.parametrize("provider", ["anthropic", "openai_responses"])
def test_a_loop_of_25_lines_runs_a_model_on_a_providers_wire(
    names: dict[str, Any], provider: str, tmp_path: Path
) -> None:
    loop = next(block for block in BLOCKS if "def run_turn" in block)
    assert len([line for line in loop.splitlines() if line.strip()]) <= 25
    client, messages = ScriptedClient(provider), list[Any]()
    result = names["run_turn"](client.ask, provider, messages, tmp_path / "audit")
    assert (result.end, result.rounds) == ("answered", 3)
    assert [type(answer.outcome).__name__ for answer in result.answers] == [
        *("ToolExecutionResult", "ToolExecutionResult", "ToolDenied"),
    ]
    sent = json.dumps(messages)
    assert all(call in sent for call in ("toolu_1", "toolu_2", "toolu_3"))
    assert all(json.dumps(answer.receipt.text)[1:-1] in sent for answer in result.answers)
    run = load_run(tmp_path / "audit")
    assert [result.status for result in run.results] == ["ok", "ok", "error"]
    assert (run.is_interrupted, [call.provider_call_id for call in run.calls]) == (
        *(False,),
        ["toolu_1", "toolu_2", "toolu_3"],
    )


def test_the_page_imports_nothing_but_the_public_api() -> None:
    imported = re.findall(r"^(?:from|import) (envelopes\S*)", "\n".join(BLOCKS), re.MULTILINE)
    assert imported
    tools_that_run = {name for name in imported if name.startswith("envelopes.runtime.")}
    assert set(imported) - tools_that_run == {"envelopes"}


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
    assert "Same call again: will fail\n" in done.stdout
    assert done.stdout.endswith("Process exited with code 0\n\nstdout:\nhello\n\n")


def test_the_library_needs_what_the_page_says() -> None:
    declared = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    for package in ("msgspec", "rfc8785", "pyzstd"):
        assert any(requirement.startswith(package) for requirement in declared)
        assert package in PAGE

"""A turn loop records what its model is sent: the receipt byte for byte, and the envelope of the result (RFC-147)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envelopes.families.registry import builtin
from envelopes.plan.executor import Executor
from envelopes.plan.recorders import FileRecorder, MemoryRecorder, load_run
from envelopes.plan.redaction import REDACTED
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.tool_loop import AnsweredRequest, ToolLoop, ToolRequest
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.result import ArtifactRef
from envelopes.storage.sinks import ArtifactSink, Content, MemorySink
from envelopes.text.untrusted_json import Untrusted
from tests.envelopes.plan.simulation import Simulation, make_plan, make_policy, make_tool, step

PART = "s3cr3t"
SECRET = f"{PART}-" * 20
LOG = "".join(f"line {number}\n" for number in range(9_000))


def command(stdout: str = "3 passed\n", **fields: Any) -> Tool:
    family, definition = builtin("ExecCommand")

    def run(given: Any, _context: Any) -> dict[str, Any]:
        return {"exit_status": 0, "stdout": stdout, "cmd": given.cmd, "max_output_tokens": given.max_output_tokens}

    return Tool(msgspec.structs.replace(definition, **fields), run, family)


def answer(loop: ToolLoop, tool: str = "ExecCommand", **args: Any) -> AnsweredRequest:
    return loop.answer(ToolRequest("toolu_1", tool, args), loop.begin_turn())


def make_loop(tool: Tool, sink: ArtifactSink | None = None, **settings: Any) -> tuple[ToolLoop, MemoryRecorder]:
    recorder = MemoryRecorder()
    environment = Simulation().environment()
    return ToolLoop([tool], sink or MemorySink(), recorder, environment=environment, **settings), recorder


def test_a_file_has_the_text_that_the_loop_returned_and_the_result_has_the_envelope(tmp_path: Path) -> None:
    recorder = FileRecorder(tmp_path / "run")
    loop = ToolLoop([command(LOG + "\ud800\u2028\x1b[1m")], recorder.artifacts, recorder)
    answers = [answer(loop, cmd="make"), answer(loop)]
    loop.close()
    run = load_run(tmp_path / "run")
    assert [receipt["text"] for receipt in run.receipts] == [given.receipt.text for given in answers]
    assert [result.extra["canonical"] for result in run.results] == [given.canonical.to_json() for given in answers]
    assert [receipt["call_id"] for receipt in run.receipts] == [call.call_id for call in run.calls]
    forms = [[receipt[name] for name in ("v", "type", "call", "position", "fidelity")] for receipt in run.receipts]
    assert forms == [[1, "receipt", "toolu_1", 1, "exact"], [1, "receipt", "toolu_1", 2, "exact"]]
    assert {receipt["renderer"]["id"] for receipt in run.receipts} == {"command/receipt"}
    (artifact,) = answers[0].canonical.artifacts
    assert [file["path"] for file in run.results[0].extra["files"]] == [artifact.path]


def test_a_receipt_states_the_policy_under_which_it_was_written() -> None:
    """Without the tool that reads artifacts no path is written, and that is another policy."""
    loop, recorder = make_loop(command(LOG))
    answer(loop, cmd="make")
    answer(loop)
    without_reader = RenderPolicy(read_tool=None).fingerprint
    assert [receipt.render_policy for receipt in recorder.receipts] == [without_reader, RenderPolicy().fingerprint]


@pytest.mark.parametrize(
    ("stdout", "fields"),
    [
        (f"token {SECRET}\n", {"sensitive": ("/cmd",)}),
        (SECRET, {"sensitive_result": ("/stdout",)}),
        (f"{SECRET}{LOG}", {"sensitive": ("/cmd",)}),
    ],
)
def test_secrets_are_masked_before_anything_is_cut(stdout: str, fields: dict[str, Any]) -> None:
    """OD-30: half of a secret is no text that a mask would find."""
    loop, recorder = make_loop(command(stdout, **fields))
    given = answer(loop, cmd=SECRET, max_output_tokens=12)
    (receipt,), (result,) = recorder.receipts, recorder.results
    assert PART in given.receipt.text
    for text in (receipt.text, json.dumps(result.extra["canonical"])):
        assert PART not in text
        assert REDACTED[:5] in text
    assert receipt.fidelity == "masked"


def test_a_receipt_that_repeats_no_secret_is_exact() -> None:
    loop, recorder = make_loop(command(sensitive=("/cmd",)))
    given = answer(loop, cmd=5, password=SECRET)
    assert given.settlement.denied_reason == "validation"
    assert [(receipt.text, receipt.fidelity) for receipt in recorder.receipts] == [(given.receipt.text, "exact")]


def test_a_masked_output_that_fits_no_struct_is_left_out() -> None:
    loop, recorder = make_loop(command(sensitive_result=("/exit_status",)))
    assert answer(loop, cmd="make").receipt.text.startswith("Process exited with code 0")
    assert recorder.receipts == []
    assert "canonical" not in recorder.results[0].extra


def test_the_record_has_the_form_that_the_client_sends() -> None:
    loop, recorder = make_loop(command(), sent_form="outcome")
    given = answer(loop, cmd="make")
    (receipt,) = recorder.receipts
    assert (receipt.text, receipt.renderer, receipt.render_policy) == (given.message["content"], None, None)
    loop, recorder = make_loop(command(), sent_form="other")
    answer(loop, cmd="make")
    assert recorder.receipts == []
    assert recorder.results[0].extra["canonical"]["status"] == "success"


def test_a_tool_without_a_family_has_no_receipt_and_its_failures_have_one() -> None:
    loop, recorder = make_loop(make_tool("T"))
    answer(loop, "T", value=1)
    assert (recorder.receipts, recorder.results[0].extra) == ([], {})
    given = answer(loop, "Unknown")
    assert [receipt.text for receipt in recorder.receipts] == [given.receipt.text]


class FullSink(MemorySink):
    def write(self, role: str, content: Content) -> ArtifactRef:
        raise OSError("the disk is full")


def test_a_call_keeps_its_outcome_where_its_envelope_cannot_be_stored() -> None:
    def fails(*_: Any) -> None:
        raise ToolFailed("odd", "no luck", details={"log": LOG})

    family, definition = builtin("ExecCommand")
    loop, recorder = make_loop(Tool(definition, fails, family), FullSink())
    assert answer(loop, cmd="make").settlement.end == "error"
    assert (recorder.receipts, recorder.results[0].extra) == ([], {})
    loop, recorder = make_loop(command(LOG), FullSink())
    given = answer(loop, cmd="make")
    assert [receipt.text for receipt in recorder.receipts] == [given.receipt.text]
    assert "could not be stored" in given.receipt.text


def test_a_plan_answers_no_model_and_records_no_receipt(tmp_path: Path) -> None:
    Executor((make_tool("Echo"),), make_policy()).run(make_plan(step("a")), FileRecorder(tmp_path / "run"))
    assert not (tmp_path / "run" / "receipts.jsonl").exists()
    assert load_run(tmp_path / "run").receipts == ()


@pytest.mark.parametrize("line", ['{"call": "c1"', "[]"])
def test_a_line_that_is_no_receipt_is_refused(tmp_path: Path, line: str) -> None:
    Executor((make_tool("Echo"),), make_policy()).run(make_plan(step("a")), FileRecorder(tmp_path / "run"))
    (tmp_path / "run" / "receipts.jsonl").write_text(f"{line}\n")
    with pytest.raises(Untrusted):
        load_run(tmp_path / "run")

"""Tests the budgets of commands, and what holds for any output of theirs."""

from __future__ import annotations

import hashlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.families.command.results import (
    COMMAND_TASK,
    SKIPPED,
    BatchItem,
    BatchResult,
    CommandResult,
    RunningCommand,
)
from envelopes.schema.budget import PREVIEW_CHARACTERS, ProjectionPolicy
from envelopes.schema.result import TaskHandle
from envelopes.storage.file_store import FileStore
from envelopes.storage.sinks import MemorySink, capture
from envelopes.text.preview import FileText
from envelopes.text.token_preview import preview_tokens
from envelopes.text.tokens import count_tokens
from tests.cases import each
from tests.envelopes.built_in import hold_to_its_limits, output, projected, receipt_text, result_of

VARIANTS = ("receipt", "tail_first", "json_aware")
LOG = "".join(f"line {number}\n" for number in range(1, 4_001))


def ran(**fields: Any) -> CommandResult:
    return CommandResult(**{"exit_status": 0, **fields})


@pytest.mark.parametrize(("requested", "effective"), [(50, 50), (None, 8_000), (0, 8_000), (90_000, 64_000)])
def test_a_command_shows_as_many_tokens_as_its_caller_was_promised(requested: int | None, effective: int) -> None:
    """E-29: the budget is counted in tokens, and no ceiling in characters comes before it."""
    log = LOG * 20
    complete = output("ExecCommand", ran(stdout=log, cmd="make", max_output_tokens=requested))
    result = result_of(complete)
    diagnostics, preview = result["command_diagnostics"], result["stdout_preview"]
    own = "".join(line for line in preview.splitlines(keepends=True) if line.startswith("line "))
    assert diagnostics["effective_max_output_tokens"] == effective
    assert diagnostics["output_char_budget"] == len(preview)
    assert effective - 12 <= count_tokens(own).count <= effective
    assert own == "".join(line for line in receipt_text(complete).splitlines(keepends=True) if line.startswith("line "))


@each("size", [66_000, 100_000, 255_000, 256_500, 280_000, 600_000])
def test_an_output_in_a_file_shows_its_last_lines_whatever_its_size(size: int) -> None:
    """A file whose text is read whole has no end of its own, so the tail is taken from its beginning."""
    log = "".join(f"row {number:05d}\n" for number in range(size // 10))
    shown = capture("stdout", log.encode(), MemorySink())
    assert isinstance(shown, FileText)
    preview = preview_tokens(shown, 8_000)
    assert preview.cut is not None
    head, tail = preview.cut.ends
    assert preview.cut.unit == "lines"
    assert head >= 700
    assert tail >= 700
    assert preview == preview_tokens(log, 8_000)


def test_output_within_the_promised_tokens_is_whole_however_many_characters_it_has() -> None:
    whole = ran(stdout="".join(f"a quite ordinary English sentence, number {n}\n" for n in range(600)), cmd="make")
    assert len(str(whole.stdout)) > 25_000
    assert result_of(output("ExecCommand", whole))["truncated"] is False


def test_a_policy_of_ones_own_holds_for_a_command_too() -> None:
    complete = output("ExecCommand", ran(stdout=LOG, cmd="make", max_output_tokens=64_000))
    assert len(result_of(complete, ProjectionPolicy(preview=900))["stdout_preview"]) < 1_000
    assert len(receipt_text(complete, characters=400)) <= 400


def test_the_commands_of_a_batch_share_one_budget_and_one_that_names_its_tokens_has_these() -> None:
    items = [BatchItem(cmd="make", status="completed", result=ran(stdout=LOG, stderr=LOG)) for _ in range(11)]
    named = BatchItem(cmd="make", status="completed", result=ran(stdout=LOG, max_output_tokens=3_000))
    result = result_of(output("ExecCommandBatch", BatchResult(items=(*items, named))))
    tokens = [
        count_tokens("".join(line for line in text.splitlines(keepends=True) if line.startswith("line "))).count
        for item in result["items"]
        for name, text in item["result"].items()
        if name in ("stdout_preview", "stderr_preview") and text
    ]
    assert 2_980 <= tokens[-1] <= 3_000
    assert 7_600 <= sum(tokens[:-1]) <= 8_000
    assert result["effective_max_output_tokens"] == 11_000


ROWS = [{"id": number, "state": "open"} for number in range(2_000)]


def test_json_on_one_line_that_passes_its_budget_is_laid_out_and_then_cut_by_lines() -> None:
    """RFC-102."""
    text = json.dumps(ROWS) + "\n"
    complete, sink = output("ExecCommand", ran(stdout=text, cmd="curl", max_output_tokens=200)), MemorySink()
    canonical = projected(complete, sink).canonical
    receipt = receipt_text(complete)
    assert 'stdout (JSON, laid out for reading):\n[\n  {\n    "id": 0,\n' in receipt
    assert re.search(r"\[output truncated: showing first \d+ and last \d+ of 8002 lines\]", receipt)
    assert list(sink.texts.values()) == [text]
    assert canonical.result["stdout_layout"] == "json"  # type: ignore[index,call-overload]


def test_json_whose_layout_alone_passes_the_promise_stays_on_its_line() -> None:
    complete = output("ExecCommand", ran(stdout=json.dumps(ROWS[:20]), cmd="curl", max_output_tokens=260))
    assert "laid out" not in receipt_text(complete)
    assert json.dumps(ROWS[:20]) in receipt_text(complete)
    roomy = output("ExecCommand", ran(stdout=json.dumps(ROWS[:20]), cmd="curl", max_output_tokens=900))
    assert "laid out" in receipt_text(roomy)


def test_output_that_is_no_text_goes_through_with_its_size_and_every_byte_kept() -> None:
    image, sink = b"\x89PNG\r\n\x1a\n" + bytes(range(256)), MemorySink()
    taken = capture("stdout", image, sink)
    complete = output("ExecCommand", ran(stdout=taken, cmd="cat a.png"))
    result = projected(complete, sink).canonical.to_json()["result"]
    assert isinstance(result, dict)
    assert (result["stdout_bytes"], result["stdout_artifact"], result["truncated"]) == (264, 0, False)
    assert len(sink.texts) == 1


def test_output_larger_than_its_preview_is_read_in_pieces_and_referred_to(tmp_path: Path) -> None:
    """The store has the bytes before the projection, which writes nothing again."""
    store = FileStore(tmp_path / "store")
    (tmp_path / "log").write_bytes(LOG.encode() * 500)
    with (tmp_path / "log").open("rb") as log:
        taken = capture("stdout", log, store)
    assert isinstance(taken, FileText)
    projection = projected(output("ExecCommand", ran(stdout=taken, cmd="make")), MemorySink())
    (artifact,) = projection.canonical.artifacts
    with store.open(artifact.path) as stored:
        assert hashlib.sha256(stored.read()).digest() == hashlib.sha256(LOG.encode() * 500).digest()
    in_memory = projected(output("ExecCommand", ran(stdout=LOG * 500, cmd="make")))
    assert projection.canonical == in_memory.canonical


@pytest.mark.parametrize("pieces", [1, 7, 100_000])
def test_a_pipe_is_captured_whatever_it_gives_at_a_time(pieces: int) -> None:
    class Pipe(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(size if size is None or size < 0 else min(size, pieces))

    data = ("é" * 40_000 if pieces > 1 else "é").encode()
    sink = MemorySink()
    taken = capture("stdout", Pipe(data), sink)
    if pieces == 1:
        assert taken == "é"
    else:
        assert isinstance(taken, FileText)
        assert (taken.characters, taken.size, taken.is_text) == (40_000, 80_000, True)


TEXT = st.text(st.characters(exclude_categories=()), max_size=40) | st.builds(
    lambda part, times: part * times,
    st.sampled_from(["line of text\n", '{"a":[1,2]}', "x", "\n", "...\n[output truncated: "]),
    st.integers(0, 2_000),
)
HANDLE = st.builds(TaskHandle, task_id=st.text(max_size=9), kind=st.just(COMMAND_TASK), status=st.none() | st.just("x"))
COMMANDS = st.builds(
    CommandResult,
    disposition=st.sampled_from(["completed", "promoted_to_task", "already_running"]),
    exit_status=st.none() | st.integers(-255, 255),
    stdout=TEXT,
    stderr=TEXT,
    combined=TEXT,
    interrupted=st.booleans(),
    interpretation=st.none() | TEXT,
    task=st.none() | HANDLE,
    cmd=st.none() | TEXT,
    max_output_tokens=st.none() | st.integers(-5, 100_000),
)
ITEMS = st.builds(
    BatchItem,
    cmd=TEXT,
    status=st.sampled_from(["completed", "failed", "rejected", "skipped"]),
    result=st.none() | COMMANDS,
    error_kind=st.none() | st.sampled_from(["command_timed_out", SKIPPED]),
    error_message=st.none() | TEXT,
    duration_ms=st.none() | st.integers(0, 10**9),
)
RESULTS = (
    COMMANDS.map(lambda result: output("ExecCommand", result))
    | st.builds(RunningCommand, task=HANDLE, cmd=st.none() | TEXT, workdir=st.none() | TEXT, instructions=TEXT).map(
        lambda result: output("ExecCommand", result)
    )
    | st.builds(BatchResult, items=st.lists(ITEMS, max_size=14).map(tuple), stop_on_error=st.booleans()).map(
        lambda result: output("ExecCommandBatch", result)
    )
)


@pytest.mark.parametrize("variant", VARIANTS)
@given(complete=RESULTS)
def test_any_output_has_a_receipt_within_every_limit(variant: str, complete: Any) -> None:
    hold_to_its_limits(complete, variant)


# At the family's own default a command has the tokens that its caller was promised, whatever its characters.
@given(result=COMMANDS, preview=st.integers(0, 9_000).filter(lambda preview: preview != PREVIEW_CHARACTERS))
def test_previews_stay_within_the_budget_whatever_it_is(result: CommandResult, preview: int) -> None:
    members = result_of(output("ExecCommand", result), ProjectionPolicy(preview=preview))
    texts = [text for name, text in members.items() if name.endswith("_preview") and text]
    markers = 110 * sum(name.endswith("_artifact") for name in members)
    assert sum(map(len, texts)) <= preview + markers

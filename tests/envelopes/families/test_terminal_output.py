"""Output that was written for a terminal is read as a terminal shows it; the canonical half keeps every character."""

from __future__ import annotations

from typing import Any

from envelopes import MemorySink, capture
from envelopes.families.command.results import BatchItem, BatchResult, CommandResult
from envelopes.families.task.results import TaskRead
from envelopes.schema.receipt import SegmentSource
from tests.cases import each
from tests.envelopes.built_in import output, projected, receipt_of, receipt_text, result_of

PROGRESS = "".join(f"\r{percent} %" for percent in range(0, 101, 10)) + "\ndone\n"
COLOURED = "\x1b[32mok\x1b[0m\n"


@each(
    ("text", "shown"),
    [
        (PROGRESS, "stdout (without 10 overwritten frames):\n100 %\ndone\n"),
        (COLOURED, "stdout (without terminal codes):\nok\n"),
        ("one\rtwo\x1b[K\r\n", "stdout (without terminal codes and 1 overwritten frame):\ntwo\r\n"),
        ("a\r\nb\r\n", "stdout:\na\r\nb\r\n"),
        ("\r\r\n", "stdout:\n\r\r\n"),
        ("plain\n", "stdout:\nplain\n"),
    ],
)
def test_codes_and_overwritten_frames_are_left_out_and_that_is_stated(text: str, shown: str) -> None:
    for variant in ("receipt", "tail_first", "json_aware"):
        complete = output("ExecCommand", CommandResult(exit_status=0, stdout=text))
        assert receipt_of(projected(complete).canonical, variant).text == f"Process exited with code 0\n\n{shown}"
        assert result_of(complete)["stdout_preview"] == text


def test_a_task_and_a_batch_are_folded_alike() -> None:
    read = TaskRead(task_id="task_1", status="completed", retrieval_status="success", output=PROGRESS)
    assert "Output (without 10 overwritten frames):\n100 %\ndone\n" in receipt_text(output("TaskOutput", read))
    item = BatchItem(cmd="make", status="completed", result=CommandResult(exit_status=0, stderr=COLOURED))
    assert "stderr (without terminal codes):\nok\n" in receipt_text(
        output("ExecCommandBatch", BatchResult(items=(item,)))
    )


def test_folded_text_points_at_its_field_without_a_range() -> None:
    def sources(text: str) -> list[SegmentSource | None]:
        canonical = projected(output("ExecCommand", CommandResult(exit_status=0, stdout=text))).canonical
        return [segment.source for segment in receipt_of(canonical).segments if segment.role == "preview"]

    assert sources(COLOURED) == [SegmentSource("canonical", "/result/stdout_preview")]
    assert sources("ok\n") == [SegmentSource("canonical", "/result/stdout_preview", 0, 3)]


def test_a_cut_stream_is_folded_around_the_way_to_the_rest() -> None:
    lines = "".join(f"\x1b[1mline {number}\x1b[0m\n" for number in range(9_000))
    complete = output("ExecCommand", CommandResult(exit_status=0, stdout=lines))
    for variant in ("receipt", "tail_first"):
        canonical = projected(complete).canonical
        text = receipt_of(canonical, variant, 60_000).text
        assert "\x1b" not in text
        assert "stdout (without terminal codes)" in text
        assert "of 9000 lines" in text
    assert "ReadArtifact path=" in receipt_of(canonical, "receipt", 60_000).text


def test_a_long_line_that_is_cut_between_characters_stays_as_it_is() -> None:
    """The way to the rest counts the characters of the stored output."""
    complete = output("ExecCommand", CommandResult(exit_status=0, stdout=COLOURED.strip() * 9_000))
    assert "\x1b[32mok" in receipt_text(complete, characters=60_000)


def test_output_that_is_no_text_says_so() -> None:
    picture: Any = capture("stdout", b"\x89PNG\r\n\x00\xff", MemorySink())
    text = receipt_text(output("ExecCommand", CommandResult(exit_status=0, stdout=picture)))
    assert "stdout (8 bytes, not text; \ufffd stands for what is none):\n" in text
    assert "(whole stdout)" in text

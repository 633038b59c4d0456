"""Output that was written for a terminal is read as a terminal shows it; the canonical half keeps every character."""

from __future__ import annotations

import re
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


def sources(text: str, variant: str = "receipt") -> list[tuple[str, SegmentSource | None]]:
    canonical = projected(output("ExecCommand", CommandResult(exit_status=0, stdout=text))).canonical
    receipt = receipt_of(canonical, variant, 60_000)
    return [(segment.text, segment.source) for segment in receipt.segments if segment.role == "preview"]


def test_each_piece_of_folded_text_has_its_range() -> None:
    def place(*ends: int) -> SegmentSource:
        return SegmentSource("canonical", "/result/stdout_preview", *ends)

    assert sources(COLOURED) == [("ok", place(5, 7)), ("\n", place(11, 12))]
    assert sources("ok\n") == [("ok\n", place(0, 3))]
    assert sources("10 %\r100 %\ndone\n") == [("100 %\ndone\n", place(5, 16))]
    assert sources("\x1b[1ma" * 500)[0][1] == place(), "too many pieces"


@each("variant", ["receipt", "tail_first"])
def test_the_ranges_of_a_cut_stream_are_those_of_its_characters(variant: str) -> None:
    text = "".join(f"\x1b[1mline {number}\x1b[0m\n" if number % 60 == 0 else f"{number}\n" for number in range(9_000))
    canonical = projected(output("ExecCommand", CommandResult(exit_status=0, stdout=text))).canonical
    field = canonical.result["stdout_preview"]  # type: ignore[index,call-overload]
    pieces = [(shown, source) for shown, source in sources(text, variant) if source and source.start is not None]
    assert len(pieces) > 10
    assert not [shown for shown, source in pieces if field[source.start : source.end] != shown]


def test_the_same_line_again_and_again_has_its_ranges_on_both_sides_of_the_cut() -> None:
    text = "\x1b[1m" + "the same line\n" * 9_000
    canonical = projected(output("ExecCommand", CommandResult(exit_status=0, stdout=text))).canonical
    field = canonical.result["stdout_preview"]  # type: ignore[index,call-overload]
    pieces = sources(text)
    places = [(source.start, source.end) for _, source in pieces if source and source.end is not None]
    assert len(places) == len(pieces) == 2  # before and behind the call that reads the rest
    assert [field[start:end] for start, end in places] == [shown for shown, _ in pieces]
    assert (places[0][0], places[1][1]) == (4, len(field))


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


def test_the_way_to_the_rest_of_a_long_line_counts_the_characters_of_the_stored_output() -> None:
    complete = output("ExecCommand", CommandResult(exit_status=0, stdout=COLOURED.strip() * 9_000))
    text = receipt_text(complete, characters=60_000)
    assert "\x1b" not in text
    first = re.search(r"showing first (\d+) and last \d+ of 99000 characters", text)
    assert first is not None
    assert f"line=1 column={int(first[1]) + 1}]" in text


def test_output_that_is_no_text_says_so() -> None:
    picture: Any = capture("stdout", b"\x89PNG\r\n\x00\xff", MemorySink())
    text = receipt_text(output("ExecCommand", CommandResult(exit_status=0, stdout=picture)))
    assert "stdout (8 bytes, not text; \ufffd stands for what is none):\n" in text
    assert "(whole stdout)" in text

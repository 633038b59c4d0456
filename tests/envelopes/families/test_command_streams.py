"""Tests how a command's receipt shows JSON, and the end of an output that was cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.families.command.results import BatchItem, BatchResult, CommandResult, command_outcome
from envelopes.text.preview import find_cut
from tests.envelopes.built_in import output, receipt_text

LOG = "".join(f"line {number}\n" for number in range(1, 4_001))


def ran(**fields: Any) -> CommandResult:
    return CommandResult(**{"exit_status": 0, **fields})


@pytest.mark.parametrize(
    ("stdout", "laid"),
    [
        ('{"a":1,"b":[]}\n', '{\n  "a": 1,\n  "b": []\n}'),
        (
            '[1.0,1e5,"\\u00e9",{"a":{},"a":null}]',
            '[\n  1.0,\n  1e5,\n  "\\u00e9",\n  {\n    "a": {},\n    "a": null\n  }\n]',
        ),
        ('\ufeff{"a":[1,{"b":2}]}', '{\n  "a": [\n    1,\n    {\n      "b": 2\n    }\n  ]\n}'),
    ],
)
def test_json_output_is_laid_out_without_changing_a_token(stdout: str, laid: str) -> None:
    text = receipt_text(output("ExecCommand", ran(stdout=stdout)))
    assert text == f"Process exited with code 0\n\nstdout (JSON, laid out for reading):\n{laid}"


def test_a_string_in_json_that_has_line_breaks_is_shown_as_its_text() -> None:
    text = receipt_text(output("ExecCommand", ran(stdout='"just \\"a\\" string\\nline"\n')))
    assert text.endswith('stdout (a JSON string, shown as its text):\njust "a" string\nline')


NO_DOCUMENTS = ['{"a":1', "[INFO] starting]", '"text"', '"a\\n\\u001b[31m"', "12", '{"a":1}\n{"b":2}\n', '{\n"a": 1}']


@pytest.mark.parametrize("stdout", NO_DOCUMENTS)
def test_output_that_is_no_single_line_of_json_stays_as_it_is(stdout: str) -> None:
    assert receipt_text(output("ExecCommand", ran(stdout=stdout))).endswith(f"stdout:\n{stdout}")


def test_json_that_would_not_fit_when_laid_out_stays_compact_and_whole() -> None:
    stdout = json.dumps([[n] for n in range(1_000)], separators=(",", ":"))
    assert receipt_text(output("ExecCommand", ran(stdout=stdout))).endswith(f"stdout:\n{stdout}")


def test_the_json_aware_variant_lays_out_each_line_that_is_json() -> None:
    text = receipt_text(output("ExecCommand", ran(stdout='start\n{"a":1}\n[]\nend\n')), "json_aware")
    assert text.endswith('stdout (lines of JSON, laid out for reading):\nstart\n{\n  "a": 1\n}\n[]\nend\n')
    pretty = receipt_text(output("ExecCommand", ran(stdout='{\n"a":\n1}')), "json_aware")
    assert pretty.endswith('stdout (JSON, laid out for reading):\n{\n  "a": 1\n}')


def test_the_end_comes_first_where_output_was_cut() -> None:
    text = receipt_text(output("ExecCommand", ran(exit_status=1, stdout=LOG)), "tail_first")
    lines = text.splitlines()
    assert lines[2].startswith("stdout, its end first (last ")
    assert lines.index("line 4000") < lines.index("line 1")
    assert "[stdout: its end is above, its first" in text


def test_the_end_comes_first_of_one_long_line_too() -> None:
    text = receipt_text(output("ExecCommand", ran(stdout="a" * 6_000 + "b" * 6_000)), "tail_first")
    assert (
        "b" * 4_000 + "\n...\n[stdout: its end is above, its first 4000 characters follow]\n...\n" + "a" * 4_000 in text
    )


@pytest.mark.parametrize("variant", ["receipt", "tail_first"])
def test_whole_output_keeps_its_order_whatever_it_says(variant: str) -> None:
    stdout = "one\n...\n[output truncated: showing first 1 and last 1 of 9 lines]\n...\ntwo\n"
    assert receipt_text(output("ExecCommand", ran(stdout=stdout)), variant).endswith(f"stdout:\n{stdout}")


def test_a_preview_without_a_marker_that_counts_right_is_not_taken_apart() -> None:
    assert find_cut("one\ntwo\n") is None
    assert find_cut("one\n...\n[output truncated: showing first 2 and last 1 of 9 lines]\n...\ntwo\n") is None
    assert find_cut("one...\n[output truncated: showing first 2 and last 3 of 9 characters]\n...\ntwo") is None


def test_a_marker_that_the_command_wrote_does_not_part_its_output() -> None:
    false = "...\n[output truncated: showing first 7 and last 9 of 99 lines]\n...\n"
    text = receipt_text(output("ExecCommand", ran(stdout=f"begin\n{false}{LOG}end\n")), "tail_first")
    assert text.index("end\n") < text.index("begin\n")
    assert "of 4005 lines, then the first" in text


@pytest.mark.parametrize(
    ("fields", "summary"),
    [
        ({"stdout": " \n---\n"}, "---"),
        ({"stdout": "data:image/png;base64,AA", "is_image": True}, "an image"),
        ({"interpretation": "no match"}, "no match"),
    ],
)
def test_a_summary_without_an_exit_code_is_what_came_back(fields: dict[str, Any], summary: str) -> None:
    assert command_outcome(ran(exit_status=None, **fields)) == summary


def test_an_item_of_a_batch_says_no_more_than_is_known_of_it() -> None:
    items = (
        BatchItem(cmd="a", status="failed", error_kind="command_timed_out"),
        BatchItem(cmd="b", status="completed"),
    )
    text = receipt_text(output("ExecCommandBatch", BatchResult(items=items)))
    assert "[1] a\nfailed=command_timed_out\n" in text
    assert text.endswith("[2] b\ncompleted")

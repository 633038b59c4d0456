"""Sessions of newer releases of agents: what the agent sent to its model is the receipt, and both halves are right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.halves import Halves
from envelopes.recordings.base import MessageRecord
from tests.envelopes.recordings.samples import FOLDER, Sample, read_sample

CODEX, GEMINI = "codex_0.171.0", "gemini_cli_0.61.0"
SAMPLES = {name: read_sample(f"releases/{name}.jsonl") for name in (CODEX, GEMINI)}
COUNT_TO_14000 = "".join(f"{number}\n" for number in range(1, 14_001))
COUNT_TO_2000 = "\n".join(map(str, range(1, 2_001)))


def load_sent(name: str) -> dict[str, Any]:
    """The result of each call as the agent sent it, by the id of the call."""
    sent: dict[str, Any] = json.loads((FOLDER / f"releases/{name}.sent.json").read_bytes())
    return sent


def find_halves(sample: Sample, *words: str) -> Halves:
    """The halves of the one call whose tool or arguments contain all of these words."""
    found = [
        halves
        for call, halves in zip(sample.calls, sample.halves(), strict=True)
        if all(word in f"{call.tool} {(call.args or b'').decode()}" for word in words)
    ]
    assert len(found) == 1, words
    return found[0]


def end_of(halves: Halves) -> Any:
    """The kind of the call's error, or the exit status; None where it has neither."""
    canonical = halves.projection.canonical
    if canonical.error is not None:
        return canonical.error.kind
    return canonical.result.get("exit_status") if isinstance(canonical.result, dict) else None


def test_receipts_of_codex_are_what_it_sent() -> None:
    sample, sent = SAMPLES[CODEX], load_sent(CODEX)
    assert not sample.problems
    receipts = {
        call.call: [json.loads(entry.content) for entry in sample.receipts_of(call.call)] for call in sample.calls
    }
    [poll] = sent.keys() - receipts.keys()
    [command] = [call for call, texts in receipts.items() if len(texts) > 1]
    assert receipts[command] == [sent[command], sent[poll]]
    assert {call: texts[0] for call, texts in receipts.items()} == {key: sent[key] for key in sent if key != poll}


def test_receipts_of_the_gemini_cli_are_what_it_sent() -> None:
    sample, sent = SAMPLES[GEMINI], load_sent(GEMINI)
    assert not sample.problems
    texts = {call.rpartition("__")[2]: json.loads(receipt.content) for call, receipt in sample.receipts.items()}
    assert texts == {call: next(iter(response.values())) for call, response in sent.items()}
    assert len(texts) == len(sample.calls) == 15


@pytest.mark.parametrize(
    ("words", "end"),
    [
        (["echo end"], None),
        (["exit 3"], 3),
        (["exit 1"], 1),
        (["is_background"], None),
        (["glob"], None),
        (["missing.txt"], "missing_file"),
        (["mcp_demo_fail"], "tool_execution_failed"),
        (['{"cmd":"ls"}'], "invalid_tool_input"),
    ],
)
def test_the_gemini_cli_ended_as_the_text_between_its_tags_says(words: list[str], end: Any) -> None:
    assert end_of(find_halves(SAMPLES[GEMINI], *words)) == end


def test_the_output_that_a_person_saw_is_the_whole_of_what_the_gemini_cli_sent_in_part() -> None:
    halves = find_halves(SAMPLES[GEMINI], "seq 1 2000")
    assert halves.evidence.result == COUNT_TO_2000
    assert halves.is_cut
    assert halves.receipt is not None
    [output] = halves.outputs
    assert output.complete.total == 2_000
    linked = [segment for segment in halves.receipt.segments if segment.source]
    assert [(COUNT_TO_2000.find(segment.text), segment.source.start) for segment in linked if segment.source] == [
        (0, 0),
        (len(COUNT_TO_2000) - len(linked[1].text), len(COUNT_TO_2000) - len(linked[1].text)),
    ]


def test_a_sentence_for_a_person_is_no_output_of_the_gemini_cli() -> None:
    """The command without an output has the sentence, the one that prints it has it as its output."""
    assert not find_halves(SAMPLES[GEMINI], '"exit 3"').evidence.has_result
    assert find_halves(SAMPLES[GEMINI], "Command exited").evidence.result == "Command exited with code: 3"
    assert not find_halves(SAMPLES[GEMINI], "is_background").evidence.has_result
    assert not find_halves(SAMPLES[GEMINI], "glob").evidence.has_result


@pytest.mark.parametrize(("tool", "text"), [("mcp_demo_greet", "Hello Ada"), ("mcp_demo_table", '{\n  "k0": 0,')])
def test_what_a_server_returned_to_the_gemini_cli_is_linked_between_the_tags(tool: str, text: str) -> None:
    halves = find_halves(SAMPLES[GEMINI], tool)
    assert isinstance(halves.evidence.result, str)
    assert halves.evidence.result.startswith(text)
    assert halves.projection.canonical.summary_text == text.partition("\n")[0]
    assert halves.receipt is not None
    assert [segment.text for segment in halves.receipt.segments if segment.source] == [halves.evidence.result]
    assert not halves.is_cut


@pytest.mark.parametrize(
    ("command", "total", "fidelity"), [("seq 1 14000", 14_000, "bounded"), ("seq 1 400", 400, "structured")]
)
def test_an_output_that_codex_cut_twice_has_the_lines_of_the_whole(command: str, total: int, fidelity: str) -> None:
    """The record lacks the middle beyond 64 KiB, and the receipt the middle beyond its tokens."""
    halves = find_halves(SAMPLES[CODEX], f'"{command}"')
    [output] = halves.outputs
    assert halves.reading.fidelity == fidelity
    assert halves.is_cut
    assert output.complete.total == total
    whole = COUNT_TO_14000[: COUNT_TO_14000.index(f"\n{total}\n") + len(f"\n{total}\n")]
    assert halves.receipt is not None
    head, tail = [segment.text for segment in halves.receipt.segments if segment.source][-2:]
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert output.complete.shown == ((0, head.count("\n")), (total - tail.count("\n") + (total > 400), total))


@pytest.mark.parametrize(
    ("tool", "linked"),
    [
        ("mcp__demo__greet", ["Hello Ada"]),
        ("mcp__demo__table", ["0", "1", "2"]),
        ("mcp__demo__fail", ["Error executing tool fail"]),
    ],
)
def test_the_answer_of_a_server_is_the_result_of_its_call_in_codex(tool: str, linked: list[str]) -> None:
    halves = find_halves(SAMPLES[CODEX], tool)
    assert isinstance(halves.evidence.result, dict)
    assert "content" in halves.evidence.result
    assert halves.receipt is not None
    assert [segment.text for segment in halves.receipt.segments if segment.source] == linked
    assert not halves.is_cut
    assert end_of(halves) == ("tool_execution_failed" if tool.endswith("fail") else None)
    assert not halves.projection.canonical.summary_text.startswith("Wall time")


def test_what_codex_sent_without_a_call_is_a_message() -> None:
    messages = [record for record in SAMPLES[CODEX].records if isinstance(record, MessageRecord)]
    [goal] = [message for message in messages if message.role == "tool"]
    assert (goal.kind, json.loads(goal.content)) == ("agent.goal_objective", "finish it")

"""Sessions of newer releases of agents: what the agent sent to its model is the receipt, and both halves are right."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from envelopes.halves import Halves
from envelopes.recordings.base import (
    REPLACEMENT,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    SupersedeRecord,
)
from tests.envelopes.recordings.samples import FOLDER, Sample, read_bytes, read_in_parts, read_sample

CLAUDE, CODEX, GEMINI = "claude_code_2.1.332", "codex_0.171.0", "gemini_cli_0.61.0"
CLAUDE_FILES = sorted((FOLDER / "releases" / CLAUDE).rglob("*.jsonl"))
CLAUDE_SAMPLES = {path.stem: read_sample(str(path.relative_to(FOLDER))) for path in CLAUDE_FILES}
CLAUDE_RUN = next(sample for name, sample in CLAUDE_SAMPLES.items() if not name.startswith("agent-"))
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


def exact_receipts(records: Iterable[Record | LineProblem]) -> dict[str, ReceiptRecord]:
    receipts = [record for record in records if isinstance(record, ReceiptRecord) and record.fidelity == "exact"]
    exact = {receipt.call: receipt for receipt in receipts}
    assert len(exact) == len(receipts)
    return exact


def test_the_requests_that_claude_code_recorded_prove_each_receipt() -> None:
    proven = {}
    for sample in CLAUDE_SAMPLES.values():
        exact = exact_receipts(sample.records)
        assert exact.keys() == sample.receipts.keys()
        for call, receipt in sample.receipts.items():
            assert (exact[call].line, exact[call].at, exact[call].content) == (
                receipt.line,
                receipt.at,
                receipt.content,
            )
        proven |= {call: json.loads(receipt.content) for call, receipt in exact.items()}
    assert proven == load_sent(CLAUDE)


def altered(old: str, new: str) -> list[Record | LineProblem]:
    raw = CLAUDE_RUN.raw.decode()
    assert old in raw
    return list(read_bytes(raw.replace(old, new).encode(), CLAUDE_RUN.path).records)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"content":"hi there\\nend"', '"content":"hi there\\nEND"', "echo end"),
        ('"content":"Exit code 3"', '"content":"Exit code 4"', "exit 3"),
    ],
)
def test_a_text_that_no_request_has_is_no_exact_receipt(old: str, new: str, words: str) -> None:
    records = altered(old, new)
    [call] = [entry.call for entry in CLAUDE_RUN.calls if words in (entry.args or b"").decode()]
    assert exact_receipts(CLAUDE_RUN.records).keys() - exact_receipts(records).keys() == {call}
    [receipt] = [record for record in records if isinstance(record, ReceiptRecord) and record.call == call]
    assert receipt.fidelity == "recorded"


def test_answers_of_one_step_are_proven_together_or_not_at_all() -> None:
    """Two lines are one message of the request, so that a change in one leaves both unproven."""
    records = altered('"content":"1\\thi there\\n2\\t"', '"content":"1\\thi there\\n2\\tx"')
    lost = exact_receipts(CLAUDE_RUN.records).keys() - exact_receipts(records).keys()
    assert sorted(call.tool for call in CLAUDE_RUN.calls if call.call in lost) == ["Read", "Read"]


def test_another_text_in_a_recorded_message_replaces_the_receipt() -> None:
    old = '[{"type":"tool_reference","tool_name":"CronCreate"}]},{"type":"text","text":"Tool loaded."}'
    records = altered(old, old.replace('[{"type":"tool_reference","tool_name":"CronCreate"}]', '"left out"'))
    [replaced] = [record for record in records if isinstance(record, SupersedeRecord)]
    [call] = [entry.call for entry in CLAUDE_RUN.calls if entry.tool == "ToolSearch"]
    assert (replaced.call, replaced.content, replaced.reason) == (call, b'"left out"', REPLACEMENT)
    assert call not in exact_receipts(records)


def test_one_request_proves_the_history_that_a_fork_begins_with() -> None:
    """The lines that a fork copies have no requests between them; its first request has all of their messages."""
    lines = [json.loads(line) for line in CLAUDE_RUN.raw.splitlines() if line.strip()]
    requests = [line for line in lines if line["type"] == "api-request"]
    copied = [line for line in lines if not line["type"].startswith("api-request")]
    request = requests[0] | {"tail": [name for line in requests for name in line["tail"]]}
    raw = b"".join(json.dumps(line).encode() + b"\n" for line in [*copied, request])
    exact = exact_receipts(read_bytes(raw, CLAUDE_RUN.path).records)
    assert {call.tool for call in CLAUDE_RUN.calls if call.call not in exact} == {"ToolSearch"}  # in a blob, left out
    assert len(exact) == len(CLAUDE_RUN.calls) - 1


def test_a_session_read_line_by_line_has_the_same_exact_receipts() -> None:
    records = read_in_parts(CLAUDE_RUN.raw, CLAUDE_RUN.path, 1)
    assert exact_receipts(records) == exact_receipts(CLAUDE_RUN.records)


def test_what_claude_code_sent_as_the_system_has_no_tags() -> None:
    messages = [record for record in CLAUDE_RUN.records if isinstance(record, MessageRecord)]
    added = [message for message in messages if message.role == "system" and message.kind == "date"]
    assert [json.loads(message.content) for message in added] == ["Today's date is 2026-11-27."]


def test_each_line_of_a_subagents_report_is_linked_within_its_frame() -> None:
    halves = find_halves(CLAUDE_RUN, "Agent", "Count files")
    assert halves.receipt is not None
    assert isinstance(halves.evidence.result, dict)
    blocks = halves.evidence.result["content"]
    assert isinstance(blocks, list)
    shown: dict[str, str] = defaultdict(str)
    for segment in halves.receipt.segments:
        if segment.source:
            shown[segment.source.pointer] += segment.text
    reports = {f"/content/{index}/text": block["text"] for index, block in enumerate(blocks) if isinstance(block, dict)}
    assert {pointer: text.removesuffix("\n") for pointer, text in shown.items() if pointer in reports} == {
        pointer: str(text).removesuffix("\n") for pointer, text in reports.items()
    }
    assert shown["/agentId"] == halves.evidence.result["agentId"]
    assert shown["/totalTokens"] == str(halves.evidence.result["totalTokens"])
    assert not halves.is_cut


def test_a_subagent_in_the_background_is_linked_by_its_id() -> None:
    halves = find_halves(CLAUDE_RUN, "Agent", "Explore")
    assert halves.receipt is not None
    linked = {segment.source.pointer for segment in halves.receipt.segments if segment.source}
    assert linked == {"/agentId", "/outputFile"}


@pytest.mark.parametrize(("name", "tool"), [(CLAUDE, "NoSuchTool"), (CODEX, "no_such_tool")])
def test_a_call_of_a_tool_that_is_not_there_says_so(name: str, tool: str) -> None:
    sample = CLAUDE_RUN if name == CLAUDE else SAMPLES[name]
    assert end_of(find_halves(sample, tool)) == "unknown_tool"

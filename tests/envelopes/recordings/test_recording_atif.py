"""ATIF trajectories that Harbor wrote: receipts are what the agents sent, and no half stands for the other."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from envelopes.recordings import UnknownFormat
from envelopes.recordings.base import (
    COMPACTION,
    PARTIAL_COMPACTION,
    SYSTEM_PROMPT,
    TOOL_DEFINITIONS,
    ArtifactRecord,
    EventRecord,
    MessageRecord,
    ReceiptRecord,
    RemarkRecord,
    ResultRecord,
    RunRecord,
    UsageRecord,
)
from tests.envelopes.recordings.samples import FOLDER, Sample, read_bytes, read_sample
from tests.envelopes.session_lines import only
from tests.source import CHECKOUT

NAMES = (
    *("claude_code_2.1.332", "codex_0.171.0", "gemini_cli_0.61.0", "kimi_code_2.1.0", "mini_swe_agent_2.4.6"),
    *("mistral_vibe_2.20.0", "pi_1.6.0", "qwen_code_0.15.10"),
)
SAMPLES = {name: read_sample(f"atif/{name}.json") for name in NAMES}
CLAUDE = SAMPLES["claude_code_2.1.332"]
PLAIN = read_sample("atif/terminus_2.0.0_plain/trajectory.json")
LINEAR = {
    part: read_sample(f"atif/terminus_2.0.0_linear/trajectory.{part}json")
    for part in ("", "cont-1.", "summarization-1-summary.", "summarization-1-answers.", "summarization-1-questions.")
}
SESSION = "11111111-2222-4333-8444-555555555555"
AGENT = {"name": "demo", "version": "1", "model_name": "demo-model"}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sent(name: str) -> Any:
    return json.loads((FOLDER / name).read_bytes())


def receipt_texts(sample: Sample) -> dict[str, str]:
    """The receipts that are texts, or have a single one."""
    texts = {}
    for record in only(ReceiptRecord, sample.records):
        content = json.loads(record.content)
        parts = content if isinstance(content, list) else [{"text": content}]
        if len(parts) == 1 and "text" in parts[0]:
            texts[record.call] = parts[0]["text"]
    return texts


def step(source: str = "agent", message: Any = "", **fields: Any) -> dict[str, Any]:
    return {"source": source, "message": message, **fields}


def called(name: str, content: Any, *, call: str = "c1", tool: str = "look", **result: Any) -> dict[str, Any]:
    return step(
        message=name,
        tool_calls=[{"tool_call_id": call, "function_name": tool, "arguments": {"of": name}}],
        observation={"results": [{"source_call_id": call, "content": content, **result}]},
    )


def read(*steps: dict[str, Any], version: str = "1.8", agent: Any = None, **fields: Any) -> Sample:
    numbered = [{"step_id": number, **fields_} for number, fields_ in enumerate(steps, start=1)]
    document = {"schema_version": f"ATIF-v{version}", "session_id": SESSION, "agent": AGENT | (agent or {})}
    return read_bytes(json.dumps({**document, "steps": numbered, **fields}).encode(), "trajectory.json")


def test_receipts_of_claude_code_are_what_it_sent_not_what_harbor_composed_of_both_halves() -> None:
    expected = sent("releases/claude_code_2.1.332.sent.json")
    contents = {record.call: json.loads(record.content) for record in only(ReceiptRecord, CLAUDE.records)}
    compared = {call: content for call, content in contents.items() if call in expected}
    assert len(compared) > 12
    assert compared == {call: expected[call] for call in compared}


def test_both_halves_of_claude_code_equal_those_of_its_session() -> None:
    original = read_sample("releases/claude_code_2.1.332/e59c1ad7-c037-40a2-92cb-0e663c778300.jsonl")
    compared = 0
    for call, record in CLAUDE.results.items():
        if call in original.results:
            compared += 1
            assert json.loads(record.result or b"") == json.loads(original.results[call].result or b"")
            assert json.loads(CLAUDE.receipts[call].content) == json.loads(original.receipts[call].content)
    assert compared > 10


@pytest.mark.parametrize("name", ["gemini_cli_0.61.0", "qwen_code_0.15.10"])
def test_receipts_are_what_the_client_sent_and_failures_without_a_text_have_none(name: str) -> None:
    expected = sent(f"releases/{name}.sent.json")
    texts = {call.rpartition("__")[2]: text for call, text in receipt_texts(SAMPLES[name]).items()}
    originals = {
        call: value.get("output") if isinstance(value, dict) else value for call, value in expected.items() if value
    }
    assert len(texts) > 10
    assert texts == {call: originals[call] for call in texts}
    missing = {call.call for call in SAMPLES[name].calls} - receipt_texts(SAMPLES[name]).keys()
    assert missing
    assert not missing & {record.call for record in only(ResultRecord, SAMPLES[name].records)}


@pytest.mark.parametrize(
    ("name", "path"),
    [("mistral_vibe_2.20.0", "mistral_vibe/2.20.0"), ("mini_swe_agent_2.4.6", "atif/mini_swe_agent_2.4.6")],
)
def test_receipts_have_the_hashes_of_what_was_sent(name: str, path: str) -> None:
    expected, texts = sent(f"{path}.sent.json"), receipt_texts(SAMPLES[name])
    compared = {call: digest(text) for call, text in texts.items() if call in expected}
    assert len(compared) >= len(texts) - 2
    assert compared == {call: expected[call] for call in compared}
    assert {record.fidelity for record in only(ReceiptRecord, SAMPLES[name].records)} == {"recorded"}


@pytest.mark.parametrize("name", ["pi_1.6.0", "codex_0.171.0"])
def test_receipts_whose_form_the_exporter_may_have_changed_are_reconstructed(name: str) -> None:
    original = read_sample(f"releases/{name}.jsonl").receipts
    receipts = only(ReceiptRecord, SAMPLES[name].records)
    assert {record.fidelity for record in receipts} == {"reconstructed"}
    texts = {call: text for call, text in receipt_texts(SAMPLES[name]).items() if call in original}
    equal = 0
    for call, text in texts.items():
        before = json.loads(original[call].content)
        parts = before if isinstance(before, list) else [{"text": before}]
        equal += text.strip() == "\n".join(part.get("text", "") for part in parts).strip()
    assert equal >= len(texts) - 2  # Harbor writes JSON that Codex sent with other blanks
    assert len(texts) > 8


def test_what_an_agent_adds_to_when_it_sends_it_is_the_result_and_no_receipt() -> None:
    sample = SAMPLES["kimi_code_2.1.0"]
    assert not only(ReceiptRecord, sample.records)
    results = only(ResultRecord, sample.records)
    assert len(results) == len(sample.calls)
    assert {record.fidelity for record in results} == {"stringified"}
    assert {record.is_error for record in results} == {True}


def test_what_terminus_got_is_what_it_was_sent() -> None:
    hashes = sent("atif/terminus_2.0.0_plain.sent.json")
    receipts = [json.loads(record.content) for record in only(ReceiptRecord, PLAIN.records)]
    results = [
        json.loads(record.content) for record in only(MessageRecord, PLAIN.records) if record.key.count("-") == 2
    ]
    assert len(receipts) == 3
    assert len(results) == 4  # of two commands at once, of an answer that was no JSON, and of the end
    assert all(digest(text) in hashes for text in [*receipts, *results[:-1]])


def test_a_terminal_output_before_a_summary_was_not_sent() -> None:
    first = LINEAR[""]
    hashes = sent("atif/terminus_2.0.0_linear.sent.json")
    [receipt], [result] = only(ReceiptRecord, first.records), only(ResultRecord, first.records)
    assert digest(json.loads(receipt.content)) in hashes
    assert digest(json.loads(result.result or b"")) not in hashes
    assert [event.kind for event in only(EventRecord, first.records)] == [*[COMPACTION], *["subagent"] * 3, "continued"]


def test_the_subagents_of_a_summary_belong_to_the_run_that_they_summarize() -> None:
    [run] = {record.run for record in only(RunRecord, LINEAR[""].records)}
    for part in ("summary", "questions", "answers"):
        records = only(RunRecord, LINEAR[f"summarization-1-{part}."].records)
        assert {record.parent_run for record in records if record.parent_run} == {run}
        assert {record.run for record in records} == {f"{run}-summarization-1-{part}"}
    assert {record.run for record in only(RunRecord, LINEAR["cont-1."].records)} == {f"{run}-cont-1"}


def test_calls_of_copied_steps_are_inherited_and_have_no_usage() -> None:
    summary = LINEAR["summarization-1-summary."]
    assert [call.inherited for call in summary.calls] == [True]
    assert len(only(UsageRecord, summary.records)) == 1


def test_subagents_of_claude_code_are_runs_of_their_own_below_the_call() -> None:
    main = "e59c1ad7-c037-40a2-92cb-0e663c778300"
    runs = {record.run: record.parent_run for record in only(RunRecord, CLAUDE.records) if record.parent_run}
    assert set(runs.values()) == {main}
    assert set(runs) == {f"{main}/a98b2d9226fc0ce86", f"{main}/a015f8f6620377c36"}
    children = {record.child_run for record in only(ResultRecord, CLAUDE.records) if record.child_run}
    assert children <= set(runs)
    assert children


def test_each_sample_is_read_whole() -> None:
    for sample in [*SAMPLES.values(), PLAIN, *LINEAR.values()]:
        assert not sample.problems
        assert not only(RemarkRecord, sample.records)
        for run in {call.run for call in sample.calls}:
            places = [call.position for call in sample.calls if call.run == run]
            assert places == sorted(set(places))


@pytest.mark.parametrize("version", [f"1.{minor}" for minor in range(9)])
def test_an_agent_that_is_not_known_has_results_and_no_receipts(version: str) -> None:
    sample = read(step("user", "Look."), called("it", "found"), version=version)
    assert sample.format.name == "atif"
    [result] = only(ResultRecord, sample.records)
    assert (result.call, result.result, result.fidelity) == ("c1", b'"found"', "stringified")
    assert not only(ReceiptRecord, sample.records)
    assert [record.agent for record in only(RunRecord, sample.records)][0] == "demo"


@pytest.mark.parametrize("version", ["ATIF-v2.0", "ATIF", 1])
def test_a_document_of_another_version_is_not_read(version: Any) -> None:
    raw = json.dumps({"schema_version": version, "agent": AGENT, "steps": []}).encode()
    with pytest.raises(UnknownFormat):
        read_bytes(raw, "trajectory.json")


def test_another_program_that_names_claude_code_has_its_results_alone() -> None:
    sample = read(called("it", "found", tool="Read"), agent={"name": "claude-code"})
    assert sample.format.agent == "claude-code"
    assert [record.result for record in only(ResultRecord, sample.records)] == [b'"found"']
    assert not only(ReceiptRecord, sample.records)


@pytest.mark.parametrize(
    ("content", "receipt"),
    [
        ("found", "found"),
        ('{"type": "text", "text": "found"}', [{"type": "text", "text": "found"}]),
        ('{"type": "text", "text": "a"}\n\n{"type": "text", "text": "b"}', None),
    ],
)
def test_what_harbor_wrote_of_an_answer_without_a_result_is_a_receipt_if_it_is_one_block(
    content: str, receipt: Any
) -> None:
    harbors = called("it", content)
    harbors["tool_calls"][0]["extra"] = {"raw_arguments": {}, "tool_use_name": "look"}
    sample = read(harbors, agent={"name": "claude-code"})
    assert [json.loads(record.content) for record in only(ReceiptRecord, sample.records)] == [receipt][
        : receipt is not None
    ]
    assert [record.fidelity for record in only(ReceiptRecord, sample.records)] == ["reconstructed"][
        : receipt is not None
    ]
    assert bool(only(ResultRecord, sample.records)) == (receipt is None)


def test_both_halves_of_an_older_export_of_claude_code_are_beside_the_step() -> None:
    kept = {"tool_use_result": {"stdout": "x"}, "raw_tool_result": {"content": "x", "tool_use_id": "c1"}}
    older = {**called("it", "x\n\n[stdout]\nx", tool="Bash"), "extra": {"tool_result_metadata": kept}}
    sample = read(older, agent={"name": "claude-code"})
    assert [record.content for record in only(ReceiptRecord, sample.records)] == [b'"x"']
    assert [record.result for record in only(ResultRecord, sample.records)] == [b'{"stdout": "x"}']


def test_an_export_of_the_first_releases_of_harbor_has_the_receipts_and_failures_of_the_session() -> None:
    older = read_sample("atif/claude_code_harbor_0.1.28.json")
    original = read_bytes((CHECKOUT / "dashboard/samples/spotter/short.jsonl").read_bytes(), "short.jsonl")
    assert [call.call for call in older.calls] == [call.call for call in original.calls]
    receipts = only(ReceiptRecord, older.records)
    assert {record.fidelity for record in receipts} == {"recorded"}
    for record in receipts:
        assert json.loads(record.content) == json.loads(original.receipts[record.call].content)
    assert {record.is_error for record in only(ResultRecord, older.records)} == {True}


def test_the_output_that_harbor_took_out_of_an_object_of_codex_is_no_receipt() -> None:
    call = {**called("it", "Success."), "extra": {"tool_metadata": {"exit_code": 0}, "raw_arguments": '{"a": 1}'}}
    sample = read(call, agent={"name": "codex"})
    assert not only(ReceiptRecord, sample.records)
    assert [record.args for record in sample.calls] == [b'{"a": 1}']


@pytest.mark.parametrize(
    "extra", [{"is_error": True}, {"tool_result_is_error": True}, {"success": False}, {"error": "no"}]
)
def test_a_failure_is_what_the_exporter_copied_of_the_agent(extra: dict[str, Any]) -> None:
    sample = read(called("it", "no", extra=extra))
    assert [record.is_error for record in only(ResultRecord, sample.records)] == [True]


def test_a_subagent_in_the_document_is_a_run_below_its_call() -> None:
    ref = [{"trajectory_id": "child"}]
    child = {"schema_version": "ATIF-v1.8", "trajectory_id": "child", "agent": AGENT, "steps": [called("b", "two")]}
    sample = read(called("a", "one", subagent_trajectory_ref=ref), subagent_trajectories=[child])
    [run] = [record for record in only(RunRecord, sample.records) if record.parent_run]
    assert (run.run, run.parent_run, run.parent_call) == (f"{SESSION}/child", SESSION, "c1")
    assert [(call.run, call.call) for call in sample.calls] == [(SESSION, "c1"), (f"{SESSION}/child", "c1")]
    assert [event.call for event in only(EventRecord, sample.records)] == ["c1"]


def test_a_subagent_that_cannot_be_read_is_a_problem_of_its_own() -> None:
    sample = read(called("a", "one"), subagent_trajectories=[{"agent": AGENT, "steps": [{"source": "nobody"}]}])
    assert [problem.path for problem in sample.problems] == ["$.subagent_trajectories[0].steps[0]"]
    assert len(sample.calls) == 1


def test_subagents_within_each_other_end_somewhere() -> None:
    document: dict[str, Any] = {"agent": AGENT, "steps": [called("x", "y")]}
    for number in range(30):
        document = {"agent": AGENT, "trajectory_id": str(number), "steps": [], "subagent_trajectories": [document]}
    sample = read(subagent_trajectories=[document])
    assert [problem.reason for problem in sample.problems] == ["too many subagents within each other"]


def test_results_are_joined_with_calls_by_their_ids_even_where_these_come_again() -> None:
    sample = read(called("a", "one"), called("b", "two"), agent={"name": "vibe"})
    texts = {record.call: record.content for record in only(ReceiptRecord, sample.records)}
    assert texts == {"c1": b'"one"', "c1-2": b'"two"'}


def test_several_results_with_an_id_that_several_calls_have_belong_to_none_of_them() -> None:
    first, second = called("a", "one"), called("b", "two")
    second["observation"]["results"] += first.pop("observation")["results"]
    sample = read(first, second, agent={"name": "pi"})
    assert not only(ReceiptRecord, sample.records)
    messages = [record for record in only(MessageRecord, sample.records) if record.role == "user"]
    assert [(record.content, record.delivery) for record in messages] == [(b'"two"', "unclear"), (b'"one"', "unclear")]


def test_results_without_ids_are_those_of_the_calls_in_their_order_where_the_exporter_drops_ids() -> None:
    calls = [{"tool_call_id": name, "function_name": "bash", "arguments": {}} for name in "ab"]
    results = [{"content": text} for text in ("one", "two", "Format error.")]
    both = step(tool_calls=calls, observation={"results": results})
    named = read(both, agent={"name": "mini-swe-agent"})
    assert {record.call: record.content for record in only(ReceiptRecord, named.records)} == {
        "a": b'"one"',
        "b": b'"two"',
    }
    assert [record.content for record in only(MessageRecord, named.records)] == [b'"Format error."']
    unknown = read(both)
    assert not only(ResultRecord, unknown.records)
    assert {record.delivery for record in only(MessageRecord, unknown.records)} == {"unclear"}


def test_the_one_result_of_an_earlier_release_of_terminus_is_that_of_its_one_command() -> None:
    command = {"tool_call_id": "a", "function_name": "bash_command", "arguments": {"keystrokes": "ls\n"}}
    done = {"tool_call_id": "b", "function_name": "mark_task_complete", "arguments": {}}

    def receipts(*calls: dict[str, Any]) -> list[str]:
        given = step(tool_calls=list(calls), observation={"results": [{"content": "New Terminal Output:"}]})
        sample = read(given, step("user", "go on"), version="1.5", agent={"name": "terminus-2"})
        return [record.call for record in only(ReceiptRecord, sample.records)]

    assert receipts(command) == ["a"]
    assert receipts(done) == receipts(command, done) == receipts(command, command | {"tool_call_id": "c"}) == []


def test_a_run_is_named_by_what_makes_it_unique() -> None:
    def name(*steps: dict[str, Any], **fields: Any) -> str:
        [run] = {record.run for record in only(RunRecord, read(*steps, **fields).records)}
        return run

    first, second = step(message="a"), step(message="b")
    assert name(first) == name(second) == SESSION
    assert name(first, trajectory_id="t") == f"{SESSION}/t"
    assert name(first, session_id="agent-session") != name(second, session_id="agent-session")
    assert name(first, session_id="agent-session").startswith("agent-session-")
    assert name(first, session_id=None).startswith("trajectory-")
    assert name({**first, "is_copied_context": True}, second).startswith(f"{SESSION}-")


def test_a_compaction_is_whole_where_the_steps_before_it_were_replaced() -> None:
    def compaction(**managed: str) -> dict[str, Any]:
        return step("system", "Compacted.", extra={"context_management": {"type": "compaction", **managed}})

    sample = read(compaction(boundary="replace"), compaction(), step("system", "A note."))
    assert [event.kind for event in only(EventRecord, sample.records)] == [COMPACTION, PARTIAL_COMPACTION]
    assert [(record.kind, record.delivery) for record in only(MessageRecord, sample.records)] == [(None, "unclear")]


def test_a_first_step_of_the_system_is_the_prompt_and_what_a_client_adds_is_no_title() -> None:
    added = step("user", "<environment_context>\n<cwd>/srv</cwd>\n</environment_context>")  # by Codex
    steps = step("system", "Be brief."), added, step("user", "Look.")
    sample = read(*steps, agent={"tool_definitions": [{"type": "function"}]})
    kinds = [record.kind for record in only(MessageRecord, sample.records)]
    assert kinds == [TOOL_DEFINITIONS, SYSTEM_PROMPT, None, None]
    assert [record.title for record in only(RunRecord, sample.records) if record.title] == ["Look."]


def test_the_usage_of_a_step_is_that_of_its_one_request() -> None:
    metrics = {"prompt_tokens": 100, "cached_tokens": 60, "completion_tokens": 7}
    written = {**metrics, "extra": {"cache_creation_input_tokens": 30}}
    several = step(message="b", metrics=metrics, llm_call_count=2)
    sample = read(step(message="a", metrics=metrics), several, step(message="c", metrics=written))
    usages = only(UsageRecord, sample.records)
    counts = [(one.input_tokens, one.cache_read_tokens, one.cache_creation_tokens, one.output_tokens) for one in usages]
    assert counts == [(40, 60, 0, 7), (10, 60, 30, 7)]
    assert [usage.context_tokens for usage in usages] == [100, 100]


def test_an_image_is_a_file_of_its_call_and_its_receipt_was_sent_otherwise() -> None:
    parts = [
        {"type": "text", "text": "A picture."},
        {"type": "image", "source": {"media_type": "image/png", "path": "images/a.png"}},
        {"type": "audio", "source": {"media_type": "audio/wav", "path": "images/a.wav"}},
    ]
    sample = read(step("user", parts), called("it", parts), agent={"name": "gemini-cli"})
    assert [record.fidelity for record in only(ReceiptRecord, sample.records)] == ["reconstructed"]
    files = [(record.role, record.path) for record in only(ArtifactRecord, sample.records)]
    assert files == [("image", "images/a.png"), ("audio", "images/a.wav")]
    assert [record.title for record in only(RunRecord, sample.records) if record.title] == ["A picture."]


def test_a_step_that_is_none_is_a_problem_and_the_others_are_read() -> None:
    sample = read(step("nobody", "x"), called("it", "found"))
    assert [(problem.path, problem.part) for problem in sample.problems] == [("$.steps[0]", True)]
    assert len(sample.calls) == 1


def test_a_value_of_another_type_is_named() -> None:
    sample = read(step(message="a", metrics={"prompt_tokens": "many"}, timestamp="soon"))
    assert {record.path for record in only(RemarkRecord, sample.records)} == {
        "$.steps[0].metrics.prompt_tokens",
        "$.steps[0].timestamp",
    }


def test_the_middle_that_terminus_leaves_out_of_a_screen_is_a_cut() -> None:
    mark = "[... output limited to 10000 bytes; 4321 interior bytes omitted ...]"
    screen = f"{'a' * 5_000}\n{mark}\n{'b' * 5_000}"
    sample = read(called("x", screen, tool="bash_command"), agent={"name": "terminus-2"})
    [halves] = sample.halves()
    assert [cut.unit for cut in halves.reading.source_cuts] == ["output"]
    assert halves.family == "command"

"""Trajectories of SWE-agent and mini-swe-agent: actions, observations, templates, and what has no id."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.halves import Halves, read_halves
from envelopes.recordings.base import MessageRecord, RunRecord
from tests.envelopes.recordings.samples import FOLDER, Sample, read_bytes, read_sample
from tests.envelopes.session_lines import only

TRAJECTORIES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("swe_agent/*.traj"))
BARE = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("mini_swe_agent/*.json"))
ASKED = {"role": "user", "content": "Please solve this issue: it fails"}


def mini(*messages: dict[str, Any]) -> Sample:
    document = {
        "info": {"mini_version": "2.0.1", "config": {"model": {"model_name": "gpt-5"}}},
        "messages": [ASKED, *messages],
        "trajectory_format": "mini-swe-agent-1.1",
    }
    return read_bytes(json.dumps(document, indent=2).encode(), "a.traj.json")


def mini_halves(output: str, receipt: str, code: int = 0) -> Halves:
    return read_halves(
        agent="mini-swe-agent",
        tool="bash",
        args=b'{"command":"make"}',
        result=json.dumps({"raw_output": output, "returncode": code}).encode(),
        content=json.dumps(receipt).encode(),
        is_error=None,
    )


def linked(halves: Halves) -> list[str]:
    assert halves.receipt is not None
    return [segment.text for segment in halves.receipt.segments if segment.source]


@pytest.mark.parametrize("path", TRAJECTORIES)
def test_calls_results_and_receipts_are_those_of_the_trajectory(path: str) -> None:
    sample = read_sample(path)
    document = json.loads(sample.raw)
    history = document["history"]
    actions = [number for number, message in enumerate(history) if "action" in message]
    answers = [history[number + 1]["content"] for number in actions if number + 1 < len(history)]
    assert len(sample.calls) == len(actions)
    assert [json.loads(receipt.content) for receipt in sample.receipts.values()] == answers
    observations = [step["observation"] for step in document.get("trajectory", ())]
    assert [json.loads(result.result or b"") for result in sample.results.values()] == observations
    assert not sample.problems


@pytest.mark.parametrize("path", BARE)
def test_bare_lists_have_receipts_alone(path: str) -> None:
    sample = read_sample(path)
    messages = json.loads(sample.raw)
    asked = [number for number, message in enumerate(messages) if "```mswea_bash_command" in message["content"]][1:]
    asked = [number for number in asked if messages[number]["role"] == "assistant"]
    assert [json.loads(receipt.content) for receipt in sample.receipts.values()] == [
        messages[number + 1]["content"] for number in asked
    ]
    assert len(sample.calls) == len(asked)
    assert not sample.results


@pytest.mark.parametrize("path", [*TRAJECTORIES, *BARE])
def test_receipts_and_observations_are_slices_of_their_lines(path: str) -> None:
    sample = read_sample(path)
    lines = sample.raw.splitlines(keepends=True)
    for record in (*sample.receipts.values(), *sample.results.values()):
        raw = record.content if hasattr(record, "content") else record.result
        assert raw is not None
        assert raw in lines[record.line - 1]


def test_repeated_ids_are_calls_of_their_own() -> None:
    sample = read_sample("swe_agent/marshmallow-code__marshmallow-1867.traj")
    ids = [call.call for call in sample.calls]
    assert len(set(ids)) == len(ids) == 11
    assert ids.count("call_5iDdbOYybq7L19vqXmR0DPaU") == 1


def test_the_run_is_named_by_its_file_and_how_it_began() -> None:
    sample = read_sample("swe_agent/marshmallow-code__marshmallow-1867.traj")
    runs = only(RunRecord, sample.records)
    assert {run.run.rsplit("-", 1)[0] for run in runs} == {"marshmallow-code__marshmallow-1867"}
    assert [run.title for run in runs if run.title] == ["TimeDelta serialization precision"]
    other = json.loads(sample.raw)
    other["history"][2]["content"] = "Another thought."
    assert read_bytes(json.dumps(other).encode(), sample.path).calls[0].run != sample.calls[0].run


def test_an_action_without_tool_calls_is_a_command_of_the_shell() -> None:
    sample = read_sample("swe_agent/humanevalfix-python-0.traj")
    assert {call.tool for call in sample.calls} == {"bash"}
    assert json.loads(sample.calls[0].args) == {"command": "ls -a\n"}
    last = list(sample.halves())[-1]
    assert last.receipt is None  # nothing was sent to the model behind the last step
    assert last.evidence.has_result


def test_demonstrations_are_messages_and_no_calls() -> None:
    history = [
        {"role": "system", "content": "s", "message_type": "system_prompt"},
        {"role": "assistant", "content": "demo", "action": "ls", "is_demo": True, "message_type": "action"},
        {"role": "user", "content": "a demonstration", "is_demo": True, "message_type": "observation"},
        {"role": "assistant", "content": "mine", "action": "pwd", "message_type": "action"},
        {"role": "user", "content": "/w\nbash-$", "message_type": "observation"},
    ]
    document = {"environment": "e", "trajectory": [{"action": "pwd", "observation": "/w"}], "history": history}
    sample = read_bytes(json.dumps(document).encode(), "d.traj")
    assert [json.loads(call.args) for call in sample.calls] == [{"command": "pwd"}]
    assert [message.content for message in only(MessageRecord, sample.records)] == [
        b'"s"',
        b'"demo"',
        b'"a demonstration"',
        b'"mine"',
    ]
    assert [json.loads(result.result or b"") for result in sample.results.values()] == ["/w"]


def test_a_clipped_observation_is_linked_as_far_as_it_was_shown() -> None:
    observation = "".join(f"{number}\n" for number in range(1_000))
    receipt = f"{observation[:500]}<response clipped><NOTE>Observations should not exceed 500 characters.</NOTE>"
    halves = read_halves(
        agent="swe-agent",
        tool="bash",
        args=b"{}",
        result=json.dumps(observation).encode(),
        content=json.dumps(receipt).encode(),
        is_error=None,
    )
    assert linked(halves) == [observation[:500]]
    assert halves.is_cut


@pytest.mark.parametrize("stamp", ["2026-01-01T10:00:00+00:00", 1767261600.0])
def test_release_2_of_mini_has_both_halves(stamp: object) -> None:
    action = {"command": "ls", "tool_call_id": "call_7"}
    answer = {"raw_output": "a\nb\n", "returncode": 2, "timestamp": stamp, "exception_info": ""}
    sample = mini(
        {"role": "assistant", "content": "", "extra": {"actions": [action]}},
        {
            "role": "tool",
            "tool_call_id": "call_7",
            "content": "<returncode>2</returncode>\n<output>\na\nb\n</output>",
            "extra": answer,
        },
    )
    assert sample.format.name == "mini-swe-agent"
    assert [(call.call, json.loads(call.args)) for call in sample.calls] == [("call_7", action)]
    assert json.loads(sample.results["call_7"].result or b"") == answer
    assert sample.results["call_7"].at == "2026-01-01T10:00:00+00:00"
    (halves,) = sample.halves()
    result = halves.projection.canonical.result
    assert isinstance(result, dict)
    assert (result["exit_status"], result["combined_output_preview"]) == (2, "a\nb\n")
    assert linked(halves) == ["2", "a\nb"]
    facts = only(RunRecord, sample.records)
    assert any((run.version, run.model) == ("2.0.1", "gpt-5") for run in facts)


def test_answers_go_to_the_calls_that_they_name() -> None:
    sample = mini(
        {
            "role": "assistant",
            "content": "",
            "extra": {
                "actions": [{"command": "a", "tool_call_id": "call_a"}, {"command": "b", "tool_call_id": "call_b"}]
            },
        },
        {"role": "tool", "tool_call_id": "call_b", "content": "B", "extra": {"raw_output": "B", "returncode": 0}},
        {"role": "tool", "tool_call_id": "call_a", "content": "A", "extra": {"raw_output": "A", "returncode": 0}},
    )
    assert {call: json.loads(receipt.content) for call, receipt in sample.receipts.items()} == {
        "call_a": "A",
        "call_b": "B",
    }


def test_head_and_tail_of_a_long_output_are_linked() -> None:
    output = "".join(f"line {number}\n" for number in range(500))
    receipt = (
        f"<returncode>0</returncode>\n<output_head>\n{output[:200]}\n</output_head>\n"
        f"<elided_chars>\n{len(output) - 400} characters elided\n</elided_chars>\n"
        f"<output_tail>\n{output[-201:-1]}\n</output_tail>"
    )
    halves = mini_halves(output, receipt)
    assert linked(halves) == ["0", output[:200], output[-201:-1]]
    assert halves.is_cut


def test_an_output_that_occurs_twice_is_not_linked() -> None:
    assert linked(mini_halves("twice", "twice and twice")) == []


@pytest.mark.parametrize(
    ("text", "path", "start"),
    [
        ("Here's the result of running `cat -n` on /w/a.py:\n     3\tone\n     4\ttwo\n", "/w/a.py", 3),
        ("File created successfully at: /w/b.py", "/w/b.py", None),
        ("The file /w/c.py has been edited. Here's the result of running `cat -n` on a snippet", "/w/c.py", None),
    ],
)
def test_the_editor_is_read_from_its_text(text: str, path: str, start: int | None) -> None:
    halves = read_halves(
        agent="swe-agent",
        tool="str_replace_editor",
        args=b'{"command":"str_replace","path":"x","old_str":"a","new_str":"b"}',
        result=json.dumps(text).encode(),
        content=json.dumps(text).encode(),
        is_error=None,
    )
    result = halves.projection.canonical.result
    assert isinstance(result, dict)
    if start is None:
        assert result["changed_paths"] == [path]
    else:
        assert (result["path"], result["start_line"], result["content_preview"]) == (path, start, "one\ntwo")
    assert linked(halves) == [text.rstrip()]


def test_a_damaged_message_is_named_and_the_others_are_read() -> None:
    sample = mini({"content": "x"}, {"role": "assistant", "content": "```bash\nls\n```"})
    assert [(problem.path, problem.part) for problem in sample.problems] == [("$.messages[1]", True)]
    assert [json.loads(call.args) for call in sample.calls] == [{"command": "ls"}]


def test_the_seconds_of_a_step_are_the_duration_of_its_call() -> None:
    sample = read_sample("swe_agent/marshmallow-code__marshmallow-1867.traj")
    steps = json.loads(sample.raw)["trajectory"]
    assert [result.duration_ms for result in sample.results.values()] == [
        int(step["execution_time"] * 1000) for step in steps
    ]


@pytest.mark.parametrize("write", [lambda config: config, json.dumps])
def test_the_model_is_that_of_the_configuration(write: Any) -> None:
    document = {"trajectory": [], "history": [], "info": {}}
    config = {"agent": {"model": {"name": "gpt-4o"}}}
    sample = read_bytes(json.dumps(document | {"replay_config": write(config)}).encode(), "a.traj")
    assert [run.model for run in only(RunRecord, sample.records) if run.model] == ["gpt-4o"]

"""Trajectories of SWE-agent and mini-swe-agent: actions, observations, templates, and what has no id."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.halves import Halves, read_halves
from envelopes.recordings.base import MessageRecord, ResultRecord, RunRecord
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


def test_calls_of_one_message_with_one_id_are_calls_of_their_own() -> None:
    actions = [{"command": command, "tool_call_id": "call_a"} for command in "abc"]
    answers = [{"role": "tool", "tool_call_id": "call_a", "content": content} for content in "ABC"]
    sample = mini({"role": "assistant", "content": "", "extra": {"actions": actions}}, *answers)
    assert [(call.call, json.loads(sample.receipts[call.call].content)) for call in sample.calls] == [
        ("call_a", "A"),
        ("call_a-1", "B"),
        ("call_a-1-2", "C"),
    ]


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


LONG = "".join(f"{number}\n" for number in range(1_000))
CLIP = "<response clipped><NOTE>Observations should not exceed 500 characters.</NOTE>"
FOLDERS = "(Open file: n/a)\n(Current directory: /testbed)\nbash-$"


@pytest.mark.parametrize(
    ("observation", "receipt", "shown", "is_cut"),
    [
        (LONG, LONG[:500] + CLIP, [LONG[:500]], True),
        (LONG, f"Observation: {LONG[:500]}{CLIP}", [LONG[:500]], True),
        (f"\n{LONG}", f"OBSERVATION:\n\n{LONG[:500]}…{CLIP}", [LONG[:500]], True),
        (f"a {CLIP}\n{LONG}", f"Observation: a {CLIP}\n{LONG[:500]}{CLIP}", [f"a {CLIP}\n{LONG[:500]}"], True),
        ("42", "OBSERVATION:\n42", ["42"], False),
        ("4\n", "Observation: 4\n", ["4"], False),
        ("1", f"OBSERVATION:\n1\n{FOLDERS}", ["1"], False),
        ("/testbed\n", f"OBSERVATION:\n/testbed\n\n{FOLDERS}", ["/testbed"], False),
        ("Observation: x", "Observation: x", ["Observation: x"], False),
        ("4", "Observation: 42", [], False),  # another number
        ("twice", "first twice, then twice", [], False),
        (LONG, f"Other lines than these{CLIP}", [], False),
    ],
)
def test_an_observation_is_linked_at_its_place_as_far_as_it_was_shown(
    observation: str, receipt: str, shown: list[str], *, is_cut: bool
) -> None:
    halves = read_halves(
        agent="swe-agent",
        tool="bash",
        args=b"{}",
        result=json.dumps(observation).encode(),
        content=json.dumps(receipt).encode(),
        is_error=None,
    )
    assert linked(halves) == shown
    assert halves.is_cut == is_cut
    assert [output.is_known for output in halves.outputs] == [bool(shown)]


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


LINES = "".join(f"line {number}\n" for number in range(500))
TAGS = "</output_head>\n<elided_chars>\n<output_tail>\n</output_tail>\n" * 20


@pytest.mark.parametrize(
    ("output", "tail"), [(LINES, LINES[-201:-1]), (LINES, LINES[-200:]), (TAGS, TAGS[-200:]), (LINES + "z", "499\nz")]
)
def test_head_and_tail_of_a_long_output_are_linked(output: str, tail: str) -> None:
    receipt = (
        f"<returncode>0</returncode>\n<output_head>\n{output[:200]}\n</output_head>\n"
        f"<elided_chars>\n{len(output) - 400} characters elided\n</elided_chars>\n"
        f"<output_tail>\n{tail}\n</output_tail>"
    )
    halves = mini_halves(output, receipt)
    assert linked(halves) == ["0", output[:200], tail]
    assert halves.is_cut


def to_json(value: object) -> str:
    """The filter `tojson` of Jinja, with which `mini.yaml` writes its receipts."""
    text = json.dumps(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("'", "\\u0027")


@pytest.mark.parametrize(
    "output", ["first\nsecond\n", "x", "\n", "caf\u00e9 <a> & 'b' \"c\" \\ \x1b[1m \U0001f600\nend"]
)
def test_an_output_that_was_sent_as_json_is_whole(output: str) -> None:
    receipt = f'{{\n  "returncode": 0,\n  "output": {to_json(output)}, "exception_info": "x"\n}}'
    halves = mini_halves(output, receipt)
    assert not halves.is_cut
    assert [(part.is_known, part.cut.is_whole) for part in halves.outputs] == [(True, True)] * bool(output.strip())
    assert "".join(linked(halves)) == f"0{to_json(output)[1:-1]}"


def test_the_beginning_and_the_end_of_an_output_that_were_sent_as_json_are_shown() -> None:
    output = "".join(f'"{number}"\n' for number in range(500))
    receipt = (
        f'{{\n  "returncode": 1,\n  "output_head": {to_json(output[:200])},\n  '
        f'"output_tail": {to_json(output[-204:])},\n  "elided_chars": {len(output) - 404}\n}}'
    )
    halves = mini_halves(output, receipt, 1)
    assert [part.cut.shown for part in halves.outputs] == [((0, output[:200].count("\n")), (500 - 34, 500))]
    other = mini_halves(output, receipt.replace("499", "498"), 1)
    assert (linked(other), other.is_cut) == (["1"], False)


def test_an_output_that_occurs_twice_is_not_linked() -> None:
    assert linked(mini_halves("twice", "twice and twice")) == []


REJECTED = "not executed. The user rejected your command with the following message: no"
STOPPED = {"raw_output": "", "returncode": -1, "exception_info": "action was not executed"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"Command {REJECTED}", "write_denied"),
        (f"Commands {REJECTED}", "write_denied"),
        ("Interrupted by user: wait", "cancelled"),
        ("The last command <command>a\nb</command> timed out and has been killed.\nThe output", "command_timed_out"),
        ("The last command of the file", None),
    ],
)
def test_a_command_that_a_person_or_the_clock_stopped_is_no_success(text: str, kind: str | None) -> None:
    extra = {"interrupt_type": "UserRejection"}
    actions = [{"command": "a"}, {"command": "b"}]
    sample = mini(
        {"role": "assistant", "content": "", "extra": {"actions": actions}},
        {"role": "user", "content": text, "extra": extra},
    )
    ends = [halves.projection.canonical.error for halves in sample.halves()]
    assert [end.kind if end else None for end in ends] == [kind, kind]
    assert {json.loads(receipt.content) for receipt in sample.receipts.values()} == {text}


@pytest.mark.parametrize(
    ("answer", "stop", "status"),
    [
        (STOPPED, "UserRejection", "refused"),
        (STOPPED, "UserInterruption", "interrupted"),
        (STOPPED, "UserNewTask", None),
        (STOPPED | {"exception_info": "", "returncode": 0}, "UserRejection", None),
        (STOPPED | {"exception_info": "late", "exception_type": "TimeoutExpired"}, "UserRejection", "timeout"),
    ],
)
def test_the_message_behind_the_answers_states_why_no_command_was_executed(
    answer: dict[str, Any], stop: str, status: str | None
) -> None:
    actions = [{"command": name, "tool_call_id": f"call_{name}"} for name in "ab"]
    sample = mini(
        {"role": "assistant", "content": "", "extra": {"actions": actions}},
        *({"role": "tool", "tool_call_id": f"call_{name}", "content": "c", "extra": answer} for name in "ab"),
        {"role": "user", "content": f"Commands {REJECTED}", "extra": {"interrupt_type": stop}},
    )
    assert [result.status for result in only(ResultRecord, sample.records)] == [status, status]
    (summary,) = {halves.projection.canonical.summary_text for halves in sample.halves()}
    assert (summary == "action was not executed") == (answer is STOPPED)


@pytest.mark.parametrize(
    ("command", "kind"),
    [("echo never", "skipped"), ("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", None)],
)
def test_a_command_behind_the_end_of_the_run_was_skipped(command: str, kind: str | None) -> None:
    """The record of the command that ended the run says the same, which is not so."""
    answer = {"role": "tool", "tool_call_id": "a", "content": "c", "extra": STOPPED}
    actions = [{"command": command, "tool_call_id": "a"}]
    sample = mini({"role": "assistant", "content": "", "extra": {"actions": actions}}, answer)
    [halves] = sample.halves()
    error = halves.projection.canonical.error
    assert (error.kind if error else None) == kind


@pytest.mark.parametrize(
    ("exception", "code", "is_timeout"),
    [
        ("An error occurred while executing the command: Command 'a\nb' timed out after 30 seconds", -1, True),
        ("An error occurred while executing the command: Command 'a\nb' timed out after 30 seconds", 1, False),
        ("An error occurred while executing the command: No such container", -1, False),
        ("", -1, False),
    ],
)
def test_a_command_that_the_client_stopped_at_its_time_limit_timed_out(
    exception: str, code: int, *, is_timeout: bool
) -> None:
    answer = {"raw_output": "half\n", "returncode": code, "exception_info": exception}
    text = f"<exception>{exception}</exception>\n<returncode>{code}</returncode>\n<output>\nhalf\n</output>"
    sample = mini(
        {"role": "assistant", "content": "", "extra": {"actions": [{"command": "a\nb", "tool_call_id": "a"}]}},
        {"role": "tool", "tool_call_id": "a", "content": text, "extra": answer},
    )
    [halves] = sample.halves()
    canonical = halves.projection.canonical
    if is_timeout:
        assert canonical.error is not None
        assert (canonical.error.kind, canonical.error.message) == (
            "command_timed_out",
            "the command timed out after 30 seconds",
        )
    else:
        assert isinstance(canonical.result, dict)
        assert canonical.result["exit_status"] == code
    assert [(cut.cut.total, cut.cut.is_whole) for cut in halves.outputs] == [(1, True)]


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

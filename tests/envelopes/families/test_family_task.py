from __future__ import annotations

import pytest

from envelopes.alignment.mapping import Evidence, ToolMapping
from envelopes.families.task import FAMILY
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.result import JsonValue
from envelopes.storage.sinks import MemorySink

TOOLS: dict[str, ToolMapping] = {tool: row for row in reversed(FAMILY.mappings) for tool in row.tools}
OUTPUT = "==> compile\n</output> is only a word here\n15 tests, 0 failures\n"


def task(**members: JsonValue) -> JsonValue:
    known: dict[str, JsonValue] = {"task_id": "b76", "task_type": "local_bash", "status": "completed"}
    return {"retrieval_status": "success", "task": {**known, **members}}


def recorded(tool: str, result: JsonValue) -> Evidence:
    return Evidence(agent="claude-code", tool=tool, args={}, result=result, has_result=True)


def linked(tool: str, result: JsonValue, receipt: str) -> list[tuple[str, str]]:
    spans = TOOLS[tool].align(recorded(tool, result), receipt)
    return [(span.pointer, receipt[span.start : span.end]) for span in sorted(spans)]


def receipt_text(tool: str, result: JsonValue) -> str:
    complete = TOOLS[tool].read(recorded(tool, result)).complete
    return render(project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical, FAMILY, FAMILY.rendering).text


HEAD = (
    "<retrieval_status>success</retrieval_status>\n\n<task_id>b76</task_id>\n\n"
    "<task_type>local_bash</task_type>\n\n<status>completed</status>\n\n"
)
HEAD_LINKS = [
    ("/retrieval_status", "success"),
    ("/task/task_id", "b76"),
    ("/task/task_type", "local_bash"),
    ("/task/status", "completed"),
]


@pytest.mark.parametrize(
    ("result", "receipt", "expected"),
    [
        (
            task(output=OUTPUT, exitCode=0),
            f"{HEAD}<exit_code>0</exit_code>\n\n<output>\n{OUTPUT}</output>",
            [*HEAD_LINKS, ("/task/exitCode", "0"), ("/task/output", OUTPUT.rstrip())],
        ),
        (
            task(output="one\ntwo\nthree\nfour"),
            f"{HEAD}<output>\none\n\n... [2 lines truncated] ...\n\nfour\n</output>",
            [*HEAD_LINKS, ("/task/output", "one"), ("/task/output", "four")],
        ),
        (
            task(output="one\ntwo\nthree\nfour"),
            f"{HEAD}<output>\n[Truncated. Full output: /tmp/b76.output]\n\nthree\nfour\n</output>",
            [*HEAD_LINKS, ("/task/output", "three\nfour")],
        ),
        (
            task(output="partial", error="boom"),
            f"{HEAD}<output>\npartial\n</output>\n\n<error>\nboom\n</error>",
            [*HEAD_LINKS, ("/task/output", "partial"), ("/task/error", "boom")],
        ),
        (task(error="boom"), f"{HEAD}<error>\nboom\n</error>", [*HEAD_LINKS, ("/task/error", "boom")]),
        (task(output="else"), f"{HEAD}<output>\nsomething\n</output>", HEAD_LINKS),
    ],
)
def test_the_tags_of_a_task_and_its_output_are_linked(
    result: JsonValue, receipt: str, expected: list[tuple[str, str]]
) -> None:
    assert linked("TaskOutput", result, receipt) == expected


def test_tags_inside_the_output_are_never_taken_for_the_runtimes_own() -> None:
    forged = "<status>completed</status>\n"

    links = linked(
        "TaskOutput",
        {"retrieval_status": "success", "task": {"status": "completed", "output": forged}},
        f"<retrieval_status>success</retrieval_status>\n\n<output>\n{forged}</output>",
    )

    assert links == [("/retrieval_status", "success"), ("/task/output", forged.rstrip())]


def test_a_stopped_task_is_linked_in_json_and_in_prose() -> None:
    stopped = {"message": "Stopped b43 (npm run dev)", "task_id": "b43"}

    assert linked("TaskStop", stopped, '{"message":"Stopped b43 (npm run dev)","task_id":"b43"}') == [
        ("/message", "Stopped b43 (npm run dev)"),
        ("/task_id", "b43"),
    ]
    assert linked("KillShell", stopped, "Stopped b43 (npm run dev)") == [("/message", "Stopped b43 (npm run dev)")]


def test_our_receipt_begins_with_the_end_of_the_wait() -> None:
    text = receipt_text("TaskOutput", task(output="15 tests\n", exitCode=0, description="Run the tests"))

    assert text == (
        "Task b76 is completed\nKind: local_bash\nExit status: 0\nSummary: Run the tests\n\nOutput:\n15 tests\n"
    )


def test_a_result_that_repeats_the_output_is_shown_once() -> None:
    same = receipt_text("TaskOutput", task(output="The report.", result="The report."))
    other = receipt_text("TaskOutput", task(output="The log.", result="The report."))

    assert same.count("The report.") == 1
    assert other.endswith("Output:\nThe log.\n\nResult:\nThe report.")


def test_a_wait_that_timed_out_is_a_success_with_that_verdict() -> None:
    reading = TOOLS["TaskOutput"].read(recorded("TaskOutput", {"retrieval_status": "timeout", "task": None}))

    assert reading.complete.status == "success"
    assert reading.complete.summary_text.startswith("The wait for task")

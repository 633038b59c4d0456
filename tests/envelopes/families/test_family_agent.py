from __future__ import annotations

import pytest

from envelopes.alignment.mapping import Evidence, ToolMapping
from envelopes.families.agent import FAMILY
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.result import JsonValue
from envelopes.storage.sinks import MemorySink

TOOLS: dict[str, ToolMapping] = {tool: row for row in reversed(FAMILY.mappings) for tool in row.tools}
RUN = {
    "status": "completed",
    "agentId": "a2898e3",
    "content": [{"type": "text", "text": "The registry is in registry.py.\n"}],
    "totalTokens": 76365,
    "totalToolUseCount": 33,
    "totalDurationMs": 141871,
}
LAUNCHED = {"isAsync": True, "status": "async_launched", "agentId": "a9614d3", "outputFile": "/tmp/a9614d3.output"}
ANSWERS = {
    "questions": [{"question": "Which one?", "header": "One"}, {"question": "And why?", "header": "Why"}],
    "answers": {"Which one?": "The first", "And why?": "Because"},
}


def recorded(tool: str, result: JsonValue) -> Evidence:
    return Evidence(agent="claude-code", tool=tool, args={}, result=result, has_result=True)


def linked(tool: str, result: JsonValue, receipt: str) -> list[tuple[str, str]]:
    spans = TOOLS[tool].align(recorded(tool, result), receipt)
    return [(span.pointer, receipt[span.start : span.end]) for span in sorted(spans)]


def receipt_text(tool: str, result: JsonValue) -> str:
    complete = TOOLS[tool].read(recorded(tool, result)).complete
    return render(project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical, FAMILY, FAMILY.rendering).text


@pytest.mark.parametrize(
    ("tool", "result", "receipt", "expected"),
    [
        (
            "Task",
            RUN,
            "The registry is in registry.py.\n",
            [("/content/0/text", "The registry is in registry.py.")],
        ),
        (
            "Task",
            RUN,
            "agentId: a2898e3 (for resuming to continue this agent's work if needed)\n"
            "<usage>total_tokens: 76365\ntool_uses: 33\nduration_ms: 141871</usage>",
            [
                ("/agentId", "a2898e3"),
                ("/totalTokens", "76365"),
                ("/totalToolUseCount", "33"),
                ("/totalDurationMs", "141871"),
            ],
        ),
        (
            "Task",
            LAUNCHED,
            "Async agent launched successfully.\nagentId: a9614d3 (internal ID)\nWorking.\n"
            "output_file: /tmp/a9614d3.output\n",
            [("/agentId", "a9614d3"), ("/outputFile", "/tmp/a9614d3.output")],
        ),
        ("Skill", {"success": True, "commandName": "review"}, "Launching skill: review", [("/commandName", "review")]),
        (
            "Skill",
            {"success": True, "commandName": "review", "status": "forked", "result": "All good."},
            'Skill "review" completed (forked execution).\n\nResult:\nAll good.',
            [("/commandName", "review"), ("/result", "All good.")],
        ),
        (
            "AskUserQuestion",
            ANSWERS,
            'User has answered your questions: "Which one?"="The first", "And why?"="Because". You can now continue.',
            [
                ("/questions/0/question", "Which one?"),
                ("/answers/Which one?", "The first"),
                ("/questions/1/question", "And why?"),
                ("/answers/And why?", "Because"),
            ],
        ),
        (
            "ExitPlanMode",
            {"plan": "# Plan\n\n1. Do it", "filePath": "/tmp/plan.md", "isAgent": False},
            "User has approved your plan.\n\nYour plan has been saved to: /tmp/plan.md\nYou can refer back to it.\n\n"
            "## Approved Plan:\n# Plan\n\n1. Do it",
            [("/filePath", "/tmp/plan.md"), ("/plan", "# Plan\n\n1. Do it")],
        ),
        ("EnterPlanMode", {"message": "Entered."}, "Entered.\n\nDo not write files.", [("/message", "Entered.")]),
        ("EnterPlanMode", {"message": "Entered."}, "Entered.", [("/message", "Entered.")]),
        ("EnterPlanMode", {"message": ""}, "Entered.", []),
        ("Skill", {"success": True, "commandName": "review"}, "Skill review was launched", []),
        (
            "Skill",
            {"success": True, "commandName": "review", "result": "All good."},
            'Skill "audit" completed (forked execution).\n\nResult:\nAll good.',
            [("/result", "All good.")],
        ),
        (
            "AskUserQuestion",
            {
                "questions": [{"question": "Listed?"}, {"question": "Numbered?"}],
                "answers": {"Numbered?": 5, "Not said?": "x", "Unlisted?": "Yes", "Listed?": ""},
            },
            '"Numbered?"="5", "Unlisted?"="Yes", "Listed?"=""',
            [("/answers/Unlisted?", "Yes"), ("/questions/0/question", "Listed?")],
        ),
        (
            "ExitPlanMode",
            {"plan": "# Plan", "filePath": "/tmp/plan.md"},
            "User has approved your plan.",
            [],
        ),
    ],
)
def test_a_receipt_is_linked_to_the_recorded_field(
    tool: str, result: JsonValue, receipt: str, expected: list[tuple[str, str]]
) -> None:
    assert linked(tool, result, receipt) == expected


def test_two_equal_reports_are_ambiguous_and_stay_unlinked() -> None:
    twice = {"agentId": "a1", "content": [{"type": "text", "text": "Done."}, {"type": "text", "text": "Done."}]}

    assert linked("Task", twice, "Done.") == []


def test_a_trailer_with_another_agent_stays_unlinked() -> None:
    assert linked("Task", RUN, "agentId: a0000 (for resuming to continue this agent's work if needed)") == []


def test_a_launched_agent_has_a_task_handle() -> None:
    complete = TOOLS["Task"].read(recorded("Task", LAUNCHED)).complete
    result = project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical.result

    assert isinstance(result, dict)
    assert result["task_handle"] == {"task_id": "a9614d3", "kind": "agent", "status": "running"}
    assert "Task: a9614d3" in receipt_text("Task", LAUNCHED)


def test_an_open_question_says_that_it_has_no_answer() -> None:
    text = receipt_text("AskUserQuestion", {"questions": [{"question": "Which one?"}], "answers": {}})

    assert text == "The user answered 0 of 1 question\nQuestion: Which one?\nAnswer: (none)"


def test_a_long_report_keeps_its_head_and_tail() -> None:
    report = "\n".join(f"Finding {number}" for number in range(1_000))

    text = receipt_text("Task", {"agentId": "a1", "status": "completed", "content": [{"type": "text", "text": report}]})

    assert "Finding 0\n" in text
    assert "\nFinding 999" in text
    assert "of 1000 lines]" in text


def test_a_plan_that_the_user_declined_is_write_denied_with_the_reason_as_hint() -> None:
    sentence = (
        "Error: The user doesn't want to proceed with this tool use. The tool use was rejected. "
        "To tell you how to proceed, the user said:\nUse the other name"
    )

    error = TOOLS["ExitPlanMode"].read(recorded("ExitPlanMode", sentence)).complete.error

    assert error is not None
    assert (error.kind, error.recovery_hint) == ("write_denied", "Use the other name")


@pytest.mark.parametrize(
    ("tool", "result", "summary"),
    [
        ("Task", {"content": []}, "Agent returned"),
        ("Task", {"agentId": "a1", "content": []}, "Agent a1 returned"),
        ("Task", {"agentId": "a1", "isAsync": True}, "Agent a1 was started in the background"),
        ("Skill", {"success": True, "commandName": "review"}, "Skill review was launched"),
        ("Skill", {"success": False}, "Skill (no name) did not start"),
        ("AskUserQuestion", ANSWERS, "The user answered 2 of 2 questions"),
        ("ExitPlanMode", {"plan": "# Plan"}, "The user approved the plan"),
        ("EnterPlanMode", {"message": "Entered.\nDo not write."}, "Entered."),
        ("EnterPlanMode", {"message": None}, "Entered plan mode"),
    ],
)
def test_the_outcome_is_one_sentence(tool: str, result: JsonValue, summary: str) -> None:
    assert TOOLS[tool].read(recorded(tool, result)).complete.summary_text == summary


def test_a_forked_skill_keeps_its_text_and_a_launched_one_has_none() -> None:
    forked = TOOLS["Skill"].read(recorded("Skill", {"success": True, "commandName": "review", "result": "All good."}))
    launched = TOOLS["Skill"].read(recorded("Skill", {"success": True, "commandName": "review"}))

    assert ([output.pointer for output in forked.outputs], launched.outputs) == (["/result"], ())
    assert receipt_text("Skill", {"success": True, "commandName": "review", "result": "All good."}).endswith(
        "All good."
    )


def test_an_answer_to_a_question_that_was_not_listed_is_kept_and_one_that_is_no_text_is_outlined() -> None:
    given = {"questions": [{"question": "Which?"}], "answers": {"Which?": ["a", "b"], "Else?": "Yes"}}

    reading = TOOLS["AskUserQuestion"].read(recorded("AskUserQuestion", given))
    canonical = project(reading.complete, FAMILY, FAMILY.projection, MemorySink()).canonical

    assert canonical.result == {
        "answers": [
            {"question": "Which?", "header": None, "answer": "- a\n- b"},
            {"question": "Else?", "header": None, "answer": "Yes"},
        ]
    }
    assert reading.links["/answers/Else?"] == "/result/answers/1/answer"


def test_a_plan_and_the_mode_that_makes_it_are_shown_whole() -> None:
    plan = receipt_text("ExitPlanMode", {"plan": "# Plan\n\n1. Do it", "filePath": "/tmp/plan.md"})

    assert plan.startswith("The user approved the plan\n")
    assert plan.endswith("# Plan\n\n1. Do it")
    assert receipt_text("EnterPlanMode", {"message": "Entered.\nDo not write."}).endswith("Entered.\nDo not write.")

"""The queue of messages that come in while a step of Claude Code runs: which of them went to the model, and where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings.base import LineProblem, MessageRecord
from tests.envelopes.session_lines import line, message, only, read, tool_result, tool_use


def queue(operation: str, content: Any = None) -> bytes:
    fields = {} if content is None else {"content": content}
    return line("queue-operation", uuid=None, operation=operation, **fields)


STEP = message("assistant", [tool_use()], uuid="a1")
ANSWERED = message("user", [tool_result()], uuid="r1", toolUseResult={"stdout": "done"})
NEXT_STEP = line("assistant", uuid="a2", message={"id": "msg_2", "content": [{"type": "text", "text": "So."}]})
REPORT = "<task-notification>\n<status>completed</status>"
ATTACHED = line("attachment", uuid="q1", attachment={"type": "queued_command", "prompt": "wait"})


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        ([STEP, queue("enqueue", "wait"), ANSWERED, queue("remove")], ["wait"]),
        ([STEP, queue("enqueue", "wait"), queue("remove"), ANSWERED], ["wait"]),
        ([STEP, queue("enqueue", "one"), queue("enqueue", "two"), queue("remove"), queue("remove")], ["one", "two"]),
        ([STEP, queue("enqueue", REPORT), queue("enqueue", "wait"), ANSWERED, queue("remove")], ["wait"]),
        ([queue("enqueue", "wait")], []),
        ([queue("enqueue", "wait"), queue("dequeue"), queue("remove")], []),
        ([queue("enqueue", "wait"), queue("popAll", "wait"), queue("enqueue", "stop"), queue("remove")], ["stop"]),
        ([queue("enqueue", "wait"), queue("popAll"), queue("remove")], []),
        ([queue("enqueue", "a"), queue("enqueue", "b"), queue("remove", "b")], ["b"]),
        ([queue("remove"), queue("enqueue"), queue("remove")], []),
        # What no line removed was not sent with the answers of a later step.
        (
            [STEP, queue("enqueue", REPORT), ANSWERED, NEXT_STEP, queue("enqueue", "wait"), ANSWERED, queue("remove")],
            ["wait"],
        ),
        ([STEP, queue("enqueue", REPORT), ANSWERED, NEXT_STEP, ANSWERED, queue("remove")], []),
        # Later releases also write an attachment, before or after the queue's own line.
        ([STEP, queue("enqueue", "wait"), ANSWERED, queue("remove"), ATTACHED], ["wait"]),
        ([STEP, queue("enqueue", "wait"), queue("enqueue", REPORT), ANSWERED, ATTACHED, queue("remove")], ["wait"]),
        ([ATTACHED], ["wait"]),
    ],
)
def test_what_left_the_queue_while_a_step_ran_is_a_message_once(lines: list[bytes], texts: list[str]) -> None:
    queued = [record for record in only(MessageRecord, read(b"".join(lines))) if record.delivery == "queued"]
    assert [json.loads(record.content) for record in queued] == texts
    assert {record.role for record in queued} <= {"user"}
    state: dict[str, object] = {}
    parts = [record for part in lines for record in only(MessageRecord, read(part, state=state))]
    assert [json.loads(record.content) for record in parts if record.delivery == "queued"] == texts


def test_a_queued_message_that_is_too_long_to_remember_is_a_problem() -> None:
    raw = queue("enqueue", "x" * 70_000) + queue("remove")
    [problem] = only(LineProblem, read(raw))
    assert (problem.path, problem.part) == ("$.content", True)
    assert problem.reason.startswith("a queued message of 70,002 bytes")
    assert not only(MessageRecord, read(raw))

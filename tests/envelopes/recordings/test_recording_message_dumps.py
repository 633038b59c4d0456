"""Messages as programs keep them; where no recording exists, the provider's own client makes the bodies.

The clients are imported where they are used: each worker of a run imports this file, and one runs it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.alignment.receipt_parts import parse_parts
from envelopes.recordings import UnknownFormat, detect_format
from envelopes.recordings.base import MessageRecord, RunRecord, SourcePath, SupersedeRecord, UsageRecord
from envelopes.schema.receipt import ImagePart
from tests.envelopes.recordings.samples import Sample, read_bytes, read_in_parts, read_sample
from tests.envelopes.session_lines import only

ARGS = {"city": "Oslo"}
ANSWER = {"temp_c": 21.5, "sky": "clear"}


def read(document: Any, path: str = "dump.json", *, indent: int | None = None) -> Sample:
    return read_bytes(json.dumps(document, indent=indent).encode(), path)


def facts(sample: Sample) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    """The calls with their tools and arguments, the receipts, and the results."""
    return (
        [(call.call, call.tool, json.loads(call.args)) for call in sample.calls],
        {call: json.loads(receipt.content) for call, receipt in sample.receipts.items()},
        {call: json.loads(result.result or b"") for call, result in sample.results.items()},
    )


def chat_messages() -> list[dict[str, Any]]:
    """The messages of a request after one tool call, the answer of the model as OpenAI's client gives it."""
    from openai.types.chat import ChatCompletion

    completion = ChatCompletion.model_validate(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-5",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "message": {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [
                            {
                                "id": "call_1",
                                "type": "function",
                                "function": {"name": "weather", "arguments": json.dumps(ARGS)},
                            }
                        ],
                    },
                }
            ],
        }
    )
    asked = completion.choices[0].message.model_dump(exclude_none=True)
    return [
        {"role": "user", "content": "How is the weather?"},
        asked,
        {"role": "tool", "tool_call_id": "call_1", "content": json.dumps(ANSWER)},
    ]


def test_a_chat_has_calls_and_receipts_and_no_results() -> None:
    sample = read(chat_messages())
    assert sample.format.name == "openai-chat"
    assert facts(sample) == ([("call_1", "weather", ARGS)], {"call_1": json.dumps(ANSWER)}, {})
    assert [run.title for run in only(RunRecord, sample.records) if run.title] == ["How is the weather?"]
    (halves,) = sample.halves()
    assert halves.reading.fidelity == "parsed_from_receipt"


def test_requests_with_their_history_are_one_run_whose_calls_come_once() -> None:
    messages = chat_messages()
    bodies = [{"model": "gpt-5", "messages": messages[:count]} for count in (1, 3)]
    sample = read_bytes(b"".join(json.dumps(body).encode() + b"\n" for body in bodies), "requests.jsonl")
    assert len({run.run for run in only(RunRecord, sample.records)}) == 1
    assert {record.place for record in only(MessageRecord, sample.records)} == {3}
    assert facts(sample)[0] == [("call_1", "weather", ARGS)]
    assert not sample.problems


BEGINNING = [{"role": "system", "content": "s"}, {"role": "user", "content": "Begin"}]
CLEARED = "[Old tool result content cleared]"


def turn(call: str, answer: Any, tool: str = "run", args: str = "{}") -> list[dict[str, Any]]:
    """A call and its answer."""
    function = {"name": tool, "arguments": args}
    asked = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call, "type": "function", "function": function}],
    }
    return [asked] if answer is None else [asked, {"role": "tool", "tool_call_id": call, "content": answer}]


def requests(*turns: list[list[dict[str, Any]]], **fields: Any) -> bytes:
    """A file of requests, each of which has these turns behind the same beginning."""
    bodies = [{**fields, "messages": sum(line, BEGINNING)} for line in turns]
    return b"".join(json.dumps(body).encode() + b"\n" for body in bodies)


def answered(sample: Sample) -> dict[str, str | None]:
    """The text of each call's receipt."""
    texts = {call: json.loads(receipt.content) for call, receipt in sample.receipts.items()}
    return {call.call: texts.get(call.call) for call in sample.calls}


def test_calls_with_the_same_id_are_calls_of_their_own() -> None:
    messages = [*BEGINNING, *turn("call_0", "one"), *turn("call_0", None), *turn("call_0", "three")]
    expected = {"call_0": "one", "call_0-5": None, "call_0-6": "three"}
    assert answered(read(messages)) == expected
    assert answered(read({"request": {"messages": messages[:-1]}, "response": {"choices": [messages[-2]]}})) == {
        **expected,
        "call_0-6": None,
    }
    both = messages[-2] | {"tool_calls": messages[-2]["tool_calls"] * 2}
    assert answered(read([*BEGINNING, both, *[messages[-1], messages[-1] | {"content": "four"}]])) == {
        "call_0": "three",
        "call_0-3": "four",
    }


FIRST, SECOND, THIRD = turn("call_0", "1"), turn("call_0", "2"), turn("call_0", "3")
A, B, C, D = (turn(f"call_{name}", f"{name}!") for name in "abcd")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([[FIRST], [FIRST, SECOND], [FIRST, SECOND, THIRD]], {"call_0": "1", "call_0-5": "2", "call_0-7": "3"}),
        ([[FIRST, SECOND], [SECOND, THIRD]], {"call_0": "1", "call_0-5": "2", "call_0-5-2": "3"}),
        ([[FIRST], [turn("call_0", "2", "read")]], {"call_0": "1", "call_0-3": "2"}),
        ([[FIRST, turn("call_0", None)], [FIRST, SECOND]], {"call_0": "1", "call_0-5": "2"}),
        (
            [[FIRST, SECOND], [turn("call_0", CLEARED), SECOND, THIRD]],
            {"call_0": "1", "call_0-5": "2", "call_0-7": "3"},
        ),
        ([[A], [A, B], [B, C]], {"call_a": "a!", "call_b": "b!", "call_c": "c!"}),
    ],
)
def test_requests_of_one_run_have_each_call_once(lines: Any, expected: dict[str, str]) -> None:
    raw = requests(*lines)
    assert answered(read_bytes(raw, "requests.jsonl")) == expected
    parts = Sample("", raw, read_bytes(raw, "requests.jsonl").format, tuple(read_in_parts(raw, "requests.jsonl", 1)))
    assert answered(parts) == expected


@pytest.mark.parametrize(
    ("lines", "fields", "ends"),
    [
        ([[A], [A, B]], {}, []),
        ([[A, B], [A, B]], {}, []),
        ([[A], [turn("call_a", CLEARED), B], [turn("call_a", CLEARED), B, C]], {}, [("call_a", CLEARED)]),
        ([[A, B], [B, C]], {}, [("call_a", None)]),
        ([[FIRST, A], [[FIRST[1]], A, B]], {}, []),  # the answer without its call
        ([[FIRST, A], [[SECOND[1]], A, B]], {}, [("call_0", None)]),  # the answer to another call with this id
        ([[A, B], [[A[0]], B, C]], {}, [("call_a", None)]),  # the call without its answer
        ([[A, B, C], [A], [A, B, C, D]], {}, []),  # a part of the history
        ([[A, B], [A, C], [A, B, D]], {}, [("call_c", None)]),  # two branches, of which one goes on
        ([[A, B], [C, D]], {}, []),  # nothing in common: another conversation with the same beginning
        ([[A, B], [B, C]], {"previous_response_id": "resp_1"}, []),
        ([[FIRST, SECOND], [SECOND, THIRD]], {}, [("call_0", None)]),
        ([[turn("call_a", [{"type": "text", "text": "a!"}])], [A, B]], {}, []),
    ],
)
def test_a_later_request_ends_a_receipt_that_it_lacks_or_has_another_text_of(
    lines: Any, fields: dict[str, Any], ends: list[tuple[str, str | None]]
) -> None:
    sample = read_bytes(requests(*lines, **fields), "requests.jsonl")
    found = only(SupersedeRecord, sample.records)
    assert [(end.call, json.loads(end.content) if end.content else None) for end in found] == ends
    for end in found:
        assert end.place > sample.receipts[end.call].place


def test_a_request_without_its_beginning_stands_behind_the_calls_that_are_known_of_it() -> None:
    sample = read_bytes(requests([A, B], [B, C]), "requests.jsonl")
    places = [(record.call, record.place) for record in sample.receipts.values()]
    assert sorted(places, key=lambda place: place[1]) == [("call_a", 6), ("call_b", 8), ("call_c", 10)]
    (end,) = only(SupersedeRecord, sample.records)
    assert end.place == 10


def test_a_file_that_grows_from_one_request_compares_it_with_the_next() -> None:
    raw = requests([A, B], [B, C])
    ends = [record for record in read_in_parts(raw, "requests.jsonl", 1) if isinstance(record, SupersedeRecord)]
    assert [end.call for end in ends] == ["call_a"]


def test_a_request_and_its_response_are_read_together() -> None:
    messages = chat_messages()
    response = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": messages[1]}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}},
    }
    sample = read({"request": {"model": "gpt-5", "messages": messages[:1]}, "response": response})
    assert facts(sample)[0] == [("call_1", "weather", ARGS)]
    (usage,) = only(UsageRecord, sample.records)
    assert (usage.request, usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (
        "chatcmpl-1",
        36,
        64,
        7,
    )


def test_items_of_responses_have_calls_and_receipts() -> None:
    from openai.types.responses import ResponseFunctionToolCall, ResponseFunctionToolCallOutputItem

    call = ResponseFunctionToolCall(
        type="function_call", call_id="call_1", name="weather", arguments=json.dumps(ARGS), id="fc_1"
    )
    output = ResponseFunctionToolCallOutputItem(
        type="function_call_output", call_id="call_1", output="clear", id="fco_1", status="completed"
    )
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "How is the weather?"}]},
        call.model_dump(exclude_none=True),
        output.model_dump(exclude_none=True),
    ]
    for document in (items, {"model": "gpt-5", "instructions": "be brief", "input": items}):
        sample = read(document, indent=2)
        assert sample.format.name == "openai-responses"
        assert facts(sample) == ([("call_1", "weather", ARGS)], {"call_1": "clear"}, {})
        assert [run.title for run in only(RunRecord, sample.records) if run.title] == ["How is the weather?"]


def test_blocks_of_anthropic_have_calls_receipts_and_the_flag_of_a_failure() -> None:
    from anthropic.types import Message, TextBlock, ToolUseBlock, Usage

    asked = Message(
        id="msg_1",
        type="message",
        role="assistant",
        model="claude-sonnet-4-5",
        stop_reason="tool_use",
        usage=Usage(input_tokens=10, output_tokens=5, cache_read_input_tokens=90),
        content=[
            TextBlock(type="text", text="I look."),
            ToolUseBlock(type="tool_use", id="toolu_1", name="weather", input=ARGS),
        ],
    ).model_dump(mode="json", exclude_none=True)
    failed = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such city", "is_error": True}
    request = {
        "model": "claude-sonnet-4-5",
        "system": "be brief",
        "tools": [{"name": "weather", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "How is the weather?"},
            {"role": "assistant", "content": asked["content"]},
            {"role": "user", "content": [failed]},
        ],
    }
    sample = read(request)
    assert sample.format.name == "anthropic"
    assert facts(sample) == ([("toolu_1", "weather", ARGS)], {"toolu_1": "no such city"}, {})
    assert [(message.role, message.kind) for message in only(MessageRecord, sample.records)] == [
        ("system", "system prompt"),
        ("system", "tool definitions"),
        ("user", None),
        ("assistant", None),
    ]
    (halves,) = sample.halves()
    assert halves.projection.canonical.error is not None
    echoed = {**asked, "instructions": None, "tools": []}
    pair = read({"request": {"model": "m", "messages": request["messages"][:1]}, "response": echoed})
    assert facts(pair)[0] == facts(sample)[0]
    keys = [{message.key for message in only(MessageRecord, one.records)} for one in (sample, pair)]
    assert keys[1] <= keys[0]  # the response has the place that it has in the next request
    (usage,) = only(UsageRecord, pair.records)
    assert (usage.input_tokens, usage.context_tokens) == (10, 100)


@pytest.mark.parametrize("serialise", ["messages_to_dict", "dumpd"])
def test_the_artifact_of_langchain_is_the_result(serialise: str) -> None:
    from langchain_core.load import dumpd
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, messages_to_dict

    messages = [
        HumanMessage("How is the weather?"),
        AIMessage("", tool_calls=[{"name": "weather", "args": ARGS, "id": "call_1"}]),
        ToolMessage("clear", tool_call_id="call_1", artifact=ANSWER, status="success"),
        ToolMessage("Error: no such city", tool_call_id="call_2", status="error"),
    ]
    is_dumped = serialise == "dumpd"
    sample = read([dumpd(message) for message in messages] if is_dumped else messages_to_dict(messages))
    assert sample.format.name == "langchain"
    assert facts(sample) == (
        [("call_1", "weather", ARGS)],
        {"call_1": "clear", "call_2": "Error: no such city"},
        {"call_1": ANSWER},
    )
    (halves,) = sample.halves()
    assert halves.reading.fidelity == "structured"


def test_the_model_and_the_usage_of_langchain_are_those_of_its_responses() -> None:
    from langchain_core.messages import AIMessage, HumanMessage, messages_to_dict

    details = {"cache_read": 60, "cache_creation": 10}
    usage = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107, "input_token_details": details}
    call = {"name": "weather", "args": ARGS, "id": "call_1"}
    answer = AIMessage("", id="m1", tool_calls=[call], usage_metadata=usage, response_metadata={"model_name": "gpt-5"})
    sample = read(messages_to_dict([HumanMessage("How is the weather?"), answer]))
    assert [run.model for run in only(RunRecord, sample.records) if run.model] == ["gpt-5"]
    (counted,) = only(UsageRecord, sample.records)
    assert (counted.request, counted.input_tokens, counted.context_tokens) == ("m1", 30, 100)


def test_a_recorded_run_of_langchain_is_read_from_each_of_its_forms() -> None:
    sample = read_sample("message_dumps/toolmessage_artifact_langchain_core_1.7.2.json")
    document = json.loads(sample.raw)
    answers = {entry["data"]["tool_call_id"]: entry["data"] for entry in document["messages_to_dict"][1:]}
    calls, receipts, results = facts(sample)
    assert {call for call, _, _ in calls} == set(answers)
    assert receipts == {call: answer["content"] for call, answer in answers.items()}
    assert results == {call: answer["artifact"] for call, answer in answers.items() if answer["artifact"]}
    failed = [half.evidence.tool for half in sample.halves() if half.projection.canonical.error]
    assert set(failed) == {"fail"}


def test_a_recorded_run_of_pydantic_ai_has_metadata_as_results() -> None:
    sample = read_sample("message_dumps/messages_pydantic_ai_2.68.0.json")
    parts = [part for message in json.loads(sample.raw) for part in message["parts"]]
    calls, receipts, results = facts(sample)
    assert calls == [
        (part["tool_call_id"], part["tool_name"], part["args"]) for part in parts if part["part_kind"] == "tool-call"
    ]
    answers = {part["tool_call_id"]: part for part in parts if part["part_kind"] in ("tool-return", "retry-prompt")}
    texts = {call: answer["content"] for call, answer in answers.items()}
    assert receipts == texts | {"call_3": '{"x":2,"ok":true}'}
    assert results == {
        call: answer.get("metadata") or answer["content"]
        for call, answer in answers.items()
        if answer.get("metadata") or not isinstance(answer["content"], str)
    }
    # A content that is no text goes to the model as JSON, whose spelling was not recorded. The provider decides how a
    # call that is to be made again is answered.
    assert {call: receipt.fidelity for call, receipt in sample.receipts.items()} == {
        "call_1": "recorded",
        "call_2": "reconstructed",
        "call_3": "reconstructed",
    }
    assert len(only(UsageRecord, sample.records)) == 3
    failed = [half.evidence.tool for half in sample.halves() if half.projection.canonical.error]
    assert failed == ["flaky"]  # a call that the model was asked to repeat


def test_damaged_messages_are_named_and_the_others_are_read() -> None:
    sample = read([*chat_messages(), 7, {"role": "tool", "content": "x"}, {"role": "assistant", "tool_calls": [{}]}])
    assert [problem.path for problem in sample.problems] == ["$[4]", "$[5]", "$[6]"]
    assert all(problem.part for problem in sample.problems)
    assert facts(sample)[0] == [("call_1", "weather", ARGS)]


@pytest.mark.parametrize(
    "document",
    [
        {"name": "shop", "dependencies": {}},
        [{"role": "user"}],
        [1, 2],
        {"messages": "none"},
        {"parts": [], "kind": "x"},
    ],
)
def test_other_documents_are_not_taken_for_messages(document: Any) -> None:
    with pytest.raises(UnknownFormat):
        detect_format(json.dumps(document).encode(), SourcePath("package.json"))


@pytest.mark.parametrize("type_", [[], {}, None, 1.5])
def test_a_block_of_any_type_is_a_part_of_a_receipt(type_: Any) -> None:
    assert len(parse_parts([{"type": type_, "text": "x", "image_url": {"url": 7}}])) == 1


@pytest.mark.parametrize(
    "block",
    [
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image", "image": "data:image/png;base64,AAAA"},
    ],
)
def test_images_of_each_api_are_images_of_the_receipt(block: dict[str, Any]) -> None:
    assert parse_parts([block]) == (ImagePart("image/png", "AAAA", 3),)

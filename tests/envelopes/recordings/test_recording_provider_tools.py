"""Calls that a provider ran itself, compactions, and other items of the APIs, in messages that programs kept.

Their shapes are checked by the provider's own client, or by Pydantic AI.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from envelopes.recordings.base import EventRecord, MessageRecord, ResultRecord, UsageRecord
from tests.envelopes.recordings.samples import Sample, read_bytes
from tests.envelopes.session_lines import only


def read(document: Any) -> Sample:
    sample = read_bytes(json.dumps(document).encode(), "dump.json")
    assert not sample.problems
    return sample


def calls(sample: Sample) -> list[tuple[str, str, Any]]:
    return [(call.call, call.tool, json.loads(call.args)) for call in sample.calls]


def receipts(sample: Sample) -> dict[str, Any]:
    return {call: json.loads(receipt.content) for call, receipt in sample.receipts.items()}


def failed(sample: Sample) -> list[str]:
    return [record.call for record in only(ResultRecord, sample.records) if record.is_error]


def messages(sample: Sample) -> list[tuple[str, str | None, Any]]:
    """The role, the kind and the content of each; of a block its type."""
    records = only(MessageRecord, sample.records)
    contents = [json.loads(record.content) for record in records]
    shown = [content["type"] if isinstance(content, dict) else content for content in contents]
    return [(record.role, record.kind, content) for record, content in zip(records, shown, strict=True)]


def events(sample: Sample) -> list[tuple[str, str]]:
    return [(event.kind, event.message) for event in only(EventRecord, sample.records)]


def anthropic_response(*content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    from anthropic.types.beta import BetaMessage

    about = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 90}
    message = BetaMessage.model_validate({**about, "usage": usage, "content": content, **fields})
    document: dict[str, Any] = json.loads(message.model_dump_json(exclude_unset=True))
    return document


USER = {"role": "user", "content": "What is new?"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "zstd"}}
FOUND = {"type": "web_search_result", "title": "RFC", "url": "https://example.org", "encrypted_content": "x"}
NOT_FOUND = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
ANSWER = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1"}
TEXT = {"type": "text", "text": "It is a format."}
THINKING = {"type": "thinking", "thinking": "I look it up.", "signature": "s"}


def test_calls_that_anthropic_ran_have_their_answer_in_the_same_message() -> None:
    response = anthropic_response(THINKING, SEARCH, ANSWER | {"content": [FOUND]}, TEXT)
    for document in ({"request": {"messages": [USER]}, "response": response}, {"messages": [USER, response]}):
        sample = read(document)
        assert sample.format.name == "anthropic"
        assert calls(sample) == [("srvtoolu_1", "web_search", {"query": "zstd"})]
        assert receipts(sample)["srvtoolu_1"][0]["title"] == "RFC"
        assert messages(sample)[1:] == [("assistant", None, "thinking"), ("assistant", None, "It is a format.")]
        assert not failed(sample)
    sample = read([USER, anthropic_response(SEARCH, ANSWER | {"content": NOT_FOUND})])
    assert failed(sample) == ["srvtoolu_1"]


def test_calls_of_mcp_servers_that_anthropic_ran_have_the_flag_of_a_failure() -> None:
    use = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "list", "server_name": "files", "input": {}}
    answer = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": True, "content": [TEXT]}
    sample = read([USER, anthropic_response(use, answer)])
    assert (calls(sample), failed(sample)) == ([("mcptoolu_1", "list", {})], ["mcptoolu_1"])


def test_a_result_of_anthropic_without_a_content_is_empty() -> None:
    use = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]}
    assert receipts(read([USER, anthropic_response(use), answer])) == {"toolu_1": ""}


def test_a_compaction_of_anthropic_takes_out_what_stands_before_it() -> None:
    compaction = {"type": "compaction", "content": "We looked at zstd."}
    sample = read([USER, anthropic_response(SEARCH), anthropic_response(compaction, TEXT)])
    assert events(sample) == [("compact_boundary", "the provider compacted the conversation")]
    assert messages(sample)[1:] == [
        ("assistant", "compaction summary", "We looked at zstd."),
        ("assistant", None, "It is a format."),
    ]
    places = [record.place for record in sample.records if isinstance(record, EventRecord | MessageRecord)]
    assert places == sorted(set(places))


def test_edits_and_passes_of_a_kept_response_are_read_as_those_of_a_session() -> None:
    edit = {"type": "clear_tool_uses_20250919", "cleared_input_tokens": 400, "cleared_tool_uses": 2}
    passes = [{"type": "message", "input_tokens": 60}, {"type": "message", "input_tokens": 40}]
    response = anthropic_response(SEARCH, context_management={"applied_edits": [edit]})
    response["usage"]["iterations"] = passes
    (usage,) = only(UsageRecord, read({"request": {"messages": [USER]}, "response": response}).records)
    assert (usage.context_tokens, usage.repeated_tokens, usage.cleared_tokens) == (40, 60, 400)
    response["usage"]["input_tokens"] = "ten"
    read({"request": {"messages": [USER]}, "response": response})


def responses(*items: dict[str, Any]) -> dict[str, Any]:
    from openai.types.responses import Response

    about = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "tools": [], "tool_choice": "auto"}
    body = Response.model_validate({**about, "parallel_tool_calls": True, "output": list(items)})
    document: dict[str, Any] = json.loads(body.model_dump_json(exclude_unset=True))
    return document


NO_SERVER = {"type": "mcp_protocol_error", "code": -32000, "message": "no such server"}


@pytest.mark.parametrize(
    ("item", "args", "receipt", "fails"),
    [
        (
            {"type": "mcp_call", "name": "list", "server_label": "f", "arguments": '{"path": "."}', "output": "a.py"},
            {"path": "."},
            "a.py",
            False,
        ),
        (
            {"type": "mcp_call", "name": "list", "server_label": "f", "arguments": "{}", "error": NO_SERVER},
            {},
            NO_SERVER,
            True,
        ),
        (
            {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "zstd"}},
            {"type": "search", "query": "zstd"},
            None,
            False,
        ),
        (
            {
                "type": "file_search_call",
                "status": "completed",
                "queries": ["zstd"],
                "results": [{"file_id": "f", "text": "A frame has a header."}],
            },
            ["zstd"],
            [{"file_id": "f", "text": "A frame has a header."}],
            False,
        ),
        (
            {
                "type": "code_interpreter_call",
                "status": "failed",
                "container_id": "c",
                "code": "1/0",
                "outputs": [{"type": "logs", "logs": "ZeroDivisionError"}],
            },
            "1/0",
            [{"type": "logs", "logs": "ZeroDivisionError"}],
            True,
        ),
    ],
)
def test_calls_that_openai_ran_have_their_output_in_the_item(
    item: dict[str, Any], args: Any, receipt: Any, *, fails: bool
) -> None:
    sample = read(responses({"id": "i_1", **item}))
    assert sample.format.name == "openai-responses"
    assert calls(sample) == [("i_1", item.get("name", item["type"].removesuffix("_call")), args)]
    assert receipts(sample) == ({} if receipt is None else {"i_1": receipt})
    assert failed(sample) == (["i_1"] if fails else [])


LIST = {"commands": ["ls"], "max_output_length": None, "timeout_ms": None}
LISTED = {"stdout": "a.py\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
MISSING = {"stdout": "", "stderr": "no such folder", "outcome": {"type": "exit", "exit_code": 2}}
LATE = {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}
SHELL = {"type": "shell_call", "status": "completed", "action": LIST, "environment": None}
RAN = {"type": "shell_call_output", "status": "completed", "max_output_length": None}


@pytest.mark.parametrize(
    ("call", "output", "receipt", "fails"),
    [
        (SHELL, RAN | {"output": [LISTED]}, [LISTED], False),
        (SHELL, RAN | {"output": [LISTED, MISSING]}, [LISTED, MISSING], True),
        (SHELL, RAN | {"output": [LATE]}, [LATE], True),
        (
            {"type": "apply_patch_call", "status": "completed", "operation": {"type": "delete_file", "path": "a.py"}},
            {"type": "apply_patch_call_output", "status": "failed", "output": "no such file"},
            "no such file",
            True,
        ),
        (
            {"type": "tool_search_call", "status": "completed", "execution": "client", "arguments": {"query": "mail"}},
            {"type": "tool_search_output", "status": "completed", "execution": "client", "tools": []},
            [],
            False,
        ),
        (
            {"type": "program", "code": "print(1)", "fingerprint": "f"},
            {"type": "program_output", "status": "completed", "result": "1"},
            "1",
            False,
        ),
    ],
)
def test_outputs_of_each_kind_of_call_are_its_receipt(
    call: dict[str, Any], output: dict[str, Any], receipt: Any, *, fails: bool
) -> None:
    items = ({"id": "i_1", "call_id": "c_1", **call}, {"id": "o_1", "call_id": "c_1", **output})
    sample = read(responses(*items))
    assert [name for name, _, _ in calls(sample)] == ["c_1"]
    assert receipts(sample) == {"c_1": receipt}
    assert failed(sample) == (["c_1"] if fails else [])
    statuses = {record.status for record in only(ResultRecord, sample.records)}
    assert ("timeout" in statuses) == (receipt == [LATE])


def test_other_items_of_openai_are_events() -> None:
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "I look it up."}]}
    listed = {"id": "l_1", "type": "mcp_list_tools", "server_label": "files", "tools": []}
    search = {"id": "i_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}
    sample = read(responses(reasoning, listed, search))
    assert events(sample) == [("reasoning", "I look it up."), ("mcp_list_tools", "mcp_list_tools")]
    assert not messages(sample)


def test_blocks_of_the_provider_in_an_answer_of_langchain_are_no_message() -> None:
    pytest.importorskip("langchain_core")
    from langchain_core.messages import AIMessage, HumanMessage, messages_to_dict

    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}
    answer = AIMessage(
        content=[TEXT, SEARCH, {**ANSWER, "content": [FOUND]}, use],
        tool_calls=[{"id": "toolu_1", "name": "weather", "args": {"city": "Oslo"}}],
    )
    sample = read(messages_to_dict([HumanMessage("What is new?"), answer]))
    assert sample.format.name == "langchain"
    assert [call for call, _, _ in calls(sample)] == ["srvtoolu_1", "toolu_1"]
    assert [content for _, _, content in messages(sample)] == ["What is new?", "It is a format."]


RETRY = {"part_kind": "retry-prompt", "tool_name": "weather", "tool_call_id": "c_1", "content": "no such city"}


def pydantic_messages() -> list[dict[str, Any]]:
    from pydantic_ai import messages as api

    told = api.RetryInfo(cause="model_retry", attempt=1, max_retries=2)
    dumped = api.ModelMessagesTypeAdapter.dump_json(
        [
            api.ModelRequest(parts=[api.UserPromptPart("What is new?")], instructions="Be brief."),
            api.ModelResponse(
                parts=[
                    api.CompactionPart(content="We looked at zstd."),
                    api.NativeToolCallPart("web_search", {"query": "zstd"}, "n_1"),
                    api.NativeToolReturnPart("web_search", [{"title": "RFC"}], "n_1"),
                    api.ToolCallPart("weather", {"city": "Oslo"}, "c_1"),
                ]
            ),
            api.ModelRequest(parts=[api.ToolAvailabilityDeltaPart(tools_added=["mail"])], instructions="Be brief."),
            api.ModelResponse(parts=[api.ToolCallPart("weather", {"city": "Oslo"}, "c_2")]),
            api.ModelRequest(
                parts=[
                    api.ToolReturnPart("weather", "no wind", "c_2", outcome="failed"),
                    api.RetryFeedbackPart(content="Answer in one sentence.", retry=told),
                ],
                instructions="Be very brief.",
            ),
        ]
    )
    messages: list[dict[str, Any]] = json.loads(dumped)
    messages[2]["parts"].insert(0, RETRY)
    return messages


def test_parts_of_pydantic_ai_are_read_by_their_kind() -> None:
    sample = read(pydantic_messages())
    assert [call for call, _, _ in calls(sample)] == ["n_1", "c_1", "c_2"]
    assert receipts(sample) == {
        "n_1": '[{"title":"RFC"}]',
        "c_1": "no such city\n\nFix the errors and try again.",
        "c_2": "no wind",
    }
    assert {receipt.fidelity for receipt in sample.receipts.values()} == {"reconstructed"}
    assert failed(sample) == ["c_1", "c_2"]
    assert [kind for kind, _ in events(sample)] == ["compact_boundary", "tool-availability-delta"]
    assert messages(sample) == [
        ("system", "system prompt", "Be brief."),
        ("user", None, "What is new?"),
        ("assistant", "compaction summary", "We looked at zstd."),
        ("system", "system prompt", "Be very brief."),
        ("user", "meta", "Answer in one sentence."),
    ]
    assert only(MessageRecord, sample.records)[-1].delivery == "reworded"


@pytest.mark.parametrize(
    ("content", "outcome", "receipt", "result", "status"),
    [
        (None, "success", "null", b"null", None),
        ("no", "denied", "no", None, "denied"),
        ("stopped", "interrupted", "stopped", None, "interrupted"),
        ("no wind", "failed", "no wind", None, None),
    ],
)
def test_a_return_of_pydantic_ai_has_the_end_that_it_states(
    content: str | None, outcome: str, receipt: str, result: bytes | None, status: str | None
) -> None:
    messages = pydantic_messages()
    messages[4]["parts"][0] |= {"content": content, "outcome": outcome}
    sample = read(messages)
    assert receipts(sample)["c_2"] == receipt
    (record,) = (record for record in only(ResultRecord, sample.records) if record.call == "c_2")
    assert (record.result, record.status) == (result, status)
    assert sample.receipts["c_2"].fidelity == ("reconstructed" if outcome in ("success", "failed") else "recorded")


def test_the_sentence_behind_a_retry_is_that_of_the_library() -> None:
    from pydantic_ai import PydanticAIDeprecationWarning
    from pydantic_ai.messages import RetryPromptPart

    with pytest.warns(PydanticAIDeprecationWarning, match="RetryPromptPart"):
        part = RetryPromptPart("no such city", tool_name="weather", tool_call_id="c_1")
    assert receipts(read(pydantic_messages()))["c_1"] == part.model_response()

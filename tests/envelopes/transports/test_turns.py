"""Answers of whole turns, names of tools on the wire, and what stands in the place of parts that a provider refuses."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envelopes.families.registry import builtin, tools
from envelopes.schema.receipt import ImagePart, OtherPart, Part, Receipt, Segment, TextPart, text_receipt
from envelopes.schema.result import ArtifactRef, CanonicalResult, ToolError
from envelopes.transports import TRANSPORTS, AnsweredCall, Body, CallIds, IncompleteTurn, Transport, transport
from envelopes.transports.mcp import artifact_path
from tests.envelopes.transports.test_transports import DONE, PIXEL, each, failed, published, samples, typed_dict

FIRST, SECOND = CallIds(provider="toolu_1"), CallIds(provider="toolu_2")
IMAGE = ImagePart("image/png", PIXEL, 8)


def answer(call_ids: CallIds, *parts: Part) -> AnsweredCall:
    return AnsweredCall(Receipt(parts), DONE, call_ids)


def text(words: str) -> TextPart:
    return TextPart((Segment(words, "value"),))


ANSWERS = (answer(SECOND, text("second")), answer(FIRST, text("first")))


@cache
def messages_of(name: str) -> Callable[[Body], Any]:
    """The provider's own type of a message in a conversation."""
    match name:
        case "anthropic":
            from anthropic.types import MessageParam

            return typed_dict(MessageParam)
        case "openai_chat":
            from openai.types.chat import ChatCompletionMessageParam

            return typed_dict(ChatCompletionMessageParam)
        case "gemini":
            from google.genai.types import Content

            return lambda body: Content.model_validate(body).model_dump(mode="json", by_alias=True, exclude_none=True)
    return published(name)


@each
def test_a_turn_is_answered_in_the_order_of_its_calls(wire: Transport) -> None:
    written = str(wire.answers(ANSWERS, calls=[FIRST, SECOND]))
    assert written.index("'first'") < written.index("'second'")


@pytest.mark.extended
@each
def test_the_answers_of_a_turn_are_messages_that_the_provider_publishes(wire: Transport) -> None:
    parts = (text("first"),) if wire.name == "openai_responses_custom" else (text("first"), IMAGE)
    bodies = wire.answers([answer(FIRST, *parts), answer(SECOND, text("second"))], calls=[FIRST, SECOND])
    assert [messages_of(wire.name)(body) for body in bodies] == bodies


@pytest.mark.parametrize(
    ("name", "bodies", "answered"),
    [("anthropic", 1, "content"), ("gemini", 1, "parts"), ("openai_chat", 2, ""), ("mcp", 2, ""), ("langchain", 2, "")],
)
def test_answers_stand_in_one_message_where_the_provider_wants_that(name: str, bodies: int, answered: str) -> None:
    written = transport(name).answers(ANSWERS, calls=[FIRST, SECOND])
    assert len(written) == bodies
    if answered:
        assert written[0]["role"] == "user"
        assert len(written[0][answered]) == 2


@each
@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (ANSWERS[:1], "no answer for toolu_1; every call of a turn needs one"),
        ((), "no answer for toolu_1, toolu_2"),
        ((*ANSWERS, ANSWERS[0]), "answered twice"),
        ((*ANSWERS, answer(CallIds(provider="toolu_3"), text("third"))), "no call of this turn: toolu_3"),
    ],
)
def test_a_turn_with_a_missing_or_an_unasked_answer_is_refused(
    wire: Transport, answers: tuple[AnsweredCall, ...], reason: str
) -> None:
    with pytest.raises(IncompleteTurn, match=reason):
        wire.answers(answers, calls=[FIRST, SECOND])


@each
def test_a_turn_without_calls_has_no_answer(wire: Transport) -> None:
    assert wire.answers([], calls=[]) == []


def test_calls_without_a_provider_s_id_are_kept_apart_by_our_own() -> None:
    calls = [CallIds(provider="", call=call) for call in ("c-1", "c-2")]
    (content,) = transport("gemini").answers([answer(call, text(call.call)) for call in calls[::-1]], calls=calls)
    outputs = [part["functionResponse"]["response"]["output"] for part in content["parts"]]
    assert outputs == ["c-1", "c-2"]


def test_images_for_chat_follow_all_answers_and_are_named_in_them() -> None:
    bodies = transport("openai_chat").answers(
        [answer(FIRST, text("a plot"), IMAGE), answer(SECOND, text("second"))], calls=[FIRST, SECOND]
    )
    assert [body["role"] for body in bodies] == ["tool", "tool", "user"]
    assert [block["text"] for block in bodies[0]["content"]] == [
        "a plot",
        "[In the next user message: image/png, 8 bytes]",
    ]
    assert bodies[2]["content"] == [
        {"type": "text", "text": "Image of the tool call toolu_1:"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]


@pytest.mark.parametrize(
    ("part", "named"),
    [
        (IMAGE, "image/png, 8 bytes"),
        (ImagePart("image/png", "https://pictures.example/1.png", 0), "image at https://pictures.example/1.png"),
        (OtherPart("document", '{"type":"document"}'), "document"),
    ],
)
def test_anthropic_gets_a_sentence_for_what_a_failed_result_cannot_contain(
    part: ImagePart | OtherPart, named: str
) -> None:
    receipt = Receipt((text("it failed"), part))
    content = transport("anthropic").encode(receipt, failed("tool_execution_failed"), FIRST)["content"]
    assert [block["type"] for block in content] == ["text", "text"]
    assert content[1]["text"] == f"[Not sent: {named}. A failed result can contain only text.]"
    content = transport("anthropic").encode(Receipt((text("ok"), IMAGE)), DONE, FIRST)["content"]
    assert [block["type"] for block in content] == ["text", "image"]


def test_anthropic_gets_no_text_of_white_space_alone() -> None:
    encode = transport("anthropic").encode
    assert encode(text_receipt([Segment(" \n", "value")]), DONE, FIRST)["content"] == ""
    blocks = encode(Receipt((text("\n"), IMAGE, text(" a "))), DONE, FIRST)["content"]
    assert [block.get("text") for block in blocks] == [None, " a "]


RULES = {
    "anthropic": r"[a-zA-Z0-9_-]{1,128}",
    "openai_responses": r"[a-zA-Z0-9_-]{1,64}",
    "openai_responses_custom": r"[a-zA-Z0-9_-]{1,64}",
    "openai_chat": r"[a-zA-Z0-9_-]{1,64}",
    "gemini": r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}",
    "mcp": r"[a-zA-Z0-9_.-]{1,128}",
    "mcp_structured": r"[a-zA-Z0-9_.-]{1,128}",
    "langchain": r"[a-zA-Z0-9_-]{1,64}",
}
ODD = ("vault.createFile", "vault_createFile", "vault createFile", "1st", "-x", "données/lire", "x" * 200, "\ud800")


@pytest.mark.parametrize("name", RULES)
def test_every_name_is_accepted_on_the_wire_and_leads_back(name: str) -> None:
    wire = transport(name)

    @settings(max_examples=25)
    @given(st.lists(st.text(min_size=1), unique=True))
    def check(drawn: list[str]) -> None:
        names = {*tools(), *ODD, *drawn}
        own = wire.own_names(names)
        assert set(own.values()) == names
        jsonschema.validate(sorted(own), {"items": {"pattern": f"^{RULES[name]}$"}})

    check()


@each
def test_a_name_that_the_provider_accepts_stays(wire: Transport) -> None:
    assert [wire.wire_name(name) for name in tools()] == list(tools())
    assert wire.wire_name("mcp__github__create-issue") == "mcp__github__create-issue"


def test_two_tools_with_one_name_on_the_wire_are_refused() -> None:
    taken = transport("anthropic").wire_name("vault.createFile")
    with pytest.raises(ValueError, match=f"vault.createFile and {taken} have the same name"):
        transport("anthropic").own_names(["vault.createFile", taken])


def test_gemini_answers_under_the_name_on_the_wire() -> None:
    result = CanonicalResult(tool_name="vault/read file", status="success", summary_text="read", result={})
    body = transport("gemini").encode(text_receipt([Segment("ok", "value")]), result, FIRST)
    assert transport("gemini").own_names(["vault/read file"])[body["functionResponse"]["name"]] == "vault/read file"


def test_the_structured_form_gives_the_envelope_back() -> None:
    wire = transport("mcp_structured")
    schema = wire.declare(builtin("ExecCommand")[1])["outputSchema"]
    for receipt, canonical in samples():
        body = wire.encode(receipt, canonical, FIRST)
        jsonschema.validate(body["structuredContent"], schema)
        assert CanonicalResult.from_json(wire.decode(body).structured) == canonical
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"tool_name": "Look"}, schema)


def test_the_structured_form_links_each_artifact() -> None:
    paths = ("output/make test.txt", "c-1/stdout.log")
    result = CanonicalResult(
        tool_name="Look",
        status="error",
        summary_text="no",
        error=ToolError(kind="tool_execution_failed", message="no", retryable=False),
        artifacts=tuple(ArtifactRef(path) for path in paths),
    )
    content = transport("mcp_structured").encode(text_receipt([Segment("no", "value")]), result, FIRST)["content"]
    assert [artifact_path(block["uri"]) for block in content[1:]] == list(paths)
    assert [block["name"] for block in content[1:]] == ["make test.txt", "stdout.log"]
    assert artifact_path("https://a.example/b") is None


def test_langchain_keeps_the_envelope_beside_the_receipt() -> None:
    wire = transport("langchain")
    for receipt, canonical in samples():
        decoded = wire.decode(wire.encode(receipt, canonical, FIRST))
        assert CanonicalResult.from_json(decoded.structured) == canonical
    mixed = {"type": "tool", "tool_call_id": "a", "content": ["plain", {"type": "text", "text": " block"}]}
    assert wire.decode(mixed).receipt.text == "plain block"


def test_every_transport_has_a_rule_here() -> None:
    assert set(RULES) == {wire.name for wire in TRANSPORTS}

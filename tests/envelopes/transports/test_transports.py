"""Each transport sends the receipt unchanged, in a body that the provider's own published types accept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter, ValidationError

from envelopes import transports
from envelopes.families import FAMILIES
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.receipt import ImagePart, OtherPart, Receipt, Segment, TextPart, text_receipt
from envelopes.schema.result import CanonicalResult, ToolError
from envelopes.storage.sinks import MemorySink
from envelopes.transports import TRANSPORTS, Body, CallIds, Transport, UnsupportedPart, transport
from envelopes.variants import variants_for
from tests.source import imports, modules

IDS = CallIds(provider="toolu_7", call="c-1")
KINDS = (
    *("tool_execution_failed", "tool_timed_out", "cancelled", "duplicate_tool_call", "non_retryable_tool_failure"),
    *("invalid_tool_input", "denied_by_hook", "write_denied", "policy_denied", "deadline_expired", "of_somebody_else"),
)
PIXEL = "iVBORw0KGgo="
DONE = CanonicalResult(tool_name="Look", status="success", summary_text="done", result={})
MIXED = Receipt(
    (
        TextPart((Segment("before ", "label"), Segment("it", "value"))),
        ImagePart("image/png", PIXEL, 8),
        TextPart((Segment("behind", "label"),)),
    )
)
each = pytest.mark.parametrize("wire", TRANSPORTS, ids=[wire.name for wire in TRANSPORTS])
BESIDE = {"mcp_structured": "structuredContent", "langchain": "artifact"}  # the field that holds the envelope
with_images = pytest.mark.parametrize("name", [wire.name for wire in TRANSPORTS if wire.name != "openai_chat"])


@cache
def samples() -> tuple[tuple[Receipt, CanonicalResult], ...]:
    """The receipt of each sample of each family, and what it was rendered from."""
    canonicals = [
        (family, project(sample, family, family.projection, MemorySink()).canonical)
        for family in FAMILIES
        for sample in family.samples
    ]
    return tuple((render(canonical, family, family.rendering), canonical) for family, canonical in canonicals)


def failed(kind: str) -> CanonicalResult:
    error = ToolError(kind=kind, message="no", retryable=False)
    return CanonicalResult(tool_name="Look", status="error", summary_text="no", error=error)


def typed_dict(kind: Any) -> Callable[[Body], Any]:
    adapter = TypeAdapter(kind)
    return lambda body: eager(adapter.validate_python(body))


@cache
def published(name: str) -> Callable[[Body], Any]:
    """The provider's own type for that body, as its client publishes it; returns what it parsed."""

    match name:
        case "anthropic":
            from anthropic.types import ToolResultBlockParam

            return typed_dict(ToolResultBlockParam)
        case "openai_responses":
            from openai.types.responses.response_input_item_param import FunctionCallOutput

            return typed_dict(FunctionCallOutput)
        case "openai_responses_custom":
            from openai.types.responses import ResponseCustomToolCallOutputParam

            return typed_dict(ResponseCustomToolCallOutputParam)
        case "openai_chat":
            from openai.types.chat import ChatCompletionToolMessageParam

            return typed_dict(ChatCompletionToolMessageParam)
        case "gemini":
            from google.genai.types import Part

            return lambda body: Part.model_validate(body).model_dump(mode="json", by_alias=True, exclude_none=True)
        case "langchain":
            from langchain_core.messages import ToolMessage

            return lambda body: ToolMessage.model_validate(body).model_dump(exclude_unset=True)
    from mcp.types import CallToolResult

    return lambda body: CallToolResult.model_validate(body).model_dump(mode="json", by_alias=True, exclude_none=True)


def eager(value: Any) -> Any:
    """Pydantic checks an Iterable only when it is walked, and drops what a TypedDict does not know."""
    if isinstance(value, Mapping):
        return {key: eager(child) for key, child in value.items()}
    return [eager(child) for child in value] if isinstance(value, list | Iterator) else value


def sent_text(name: str, body: Body) -> str:
    """The text of a body, read without the library."""
    match name:
        case "gemini":
            (text,) = body["functionResponse"]["response"].values()
            return str(text)
        case "openai_responses" | "openai_responses_custom":
            content = body["output"]
        case _:
            content = body["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


@pytest.mark.extended
@each
def test_every_body_is_one_that_the_provider_publishes(wire: Transport) -> None:
    for receipt, canonical in samples():
        body = wire.encode(receipt, canonical, IDS)
        assert published(wire.name)(body) == body


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("anthropic", {"content": [{"type": "text", "words": "x"}]}),
        ("anthropic", {"status": "error"}),
        ("openai_responses", {"output": [{"type": "text", "text": "x"}]}),
        ("openai_responses_custom", {"is_error": True}),
        ("openai_chat", {"content": [{"type": "image_url", "image_url": {"url": "https://a.example/"}}]}),
        ("gemini", {"text_of_somebody": "x"}),
        ("mcp", {"content": [{"type": "image", "data": PIXEL}]}),
        ("mcp", {"is_error": "perhaps"}),
        ("mcp_structured", {"content": [{"type": "resource_link", "name": "x"}]}),
        ("langchain", {"status": "perhaps"}),
    ],
)
def test_the_published_types_reject_a_wrong_body(name: str, wrong: Body) -> None:
    """Without this, the test above might accept anything."""
    body = transport(name).encode(text_receipt([Segment("ok", "value")]), DONE, IDS) | wrong
    try:
        understood = published(name)(body)
    except ValidationError:
        return
    assert understood != body


@each
def test_the_text_on_the_wire_is_the_receipt_and_nothing_else(wire: Transport) -> None:
    for receipt, canonical in samples():
        assert sent_text(wire.name, wire.encode(receipt, canonical, IDS)) == receipt.text


@each
def test_a_transport_says_what_the_receipt_says_whatever_the_result_holds(wire: Transport) -> None:
    """Two results with the same tool and status give the same body, but for the field that no model reads."""
    other = CanonicalResult(tool_name="Look", status="success", summary_text="another", result={"secret": "x"})
    receipt = text_receipt([Segment("what the model is to see", "value")])
    bodies = [wire.encode(receipt, result, IDS) for result in (DONE, other)]
    for body, result in zip(bodies, (DONE, other), strict=True):
        field = BESIDE.get(wire.name)
        assert field is None or body.pop(field) == result.to_json()
    assert bodies[0] == bodies[1]


@each
def test_any_variant_of_a_result_is_sent_as_it_is(wire: Transport) -> None:
    """JSON or text, every variant is rendered from the canonical result."""
    for variant in variants_for(FAMILIES[0]):
        receipt = render(samples()[0][1], FAMILIES[0], FAMILIES[0].rendering, variant=variant)
        assert sent_text(wire.name, wire.encode(receipt, samples()[0][1], IDS)) == receipt.text


def test_nothing_but_the_transports_knows_a_provider() -> None:
    """The public interface and the turn loop name the function `transport` and the types that all providers share.

    The client of MCP servers speaks one protocol, so it names the module that reads that protocol's declarations.
    """
    clients = ("envelopes", "runtime", "mcp_tools.py")
    names = ("transport", "CallIds", "AnsweredCall", "IncompleteTurn")
    public = {"envelopes.transports", *(f"envelopes.transports.{name}" for name in names)}
    importers = [
        f"{path} imports {name}"
        for path in modules("envelopes")
        if path.parts[:2] != ("envelopes", "transports") and path.parts != clients
        for name in imports(path)
        if name.startswith("envelopes.transports") and name not in public
    ]
    assert not importers


@each
def test_a_body_reads_back_as_what_was_sent(wire: Transport) -> None:
    for receipt, canonical in samples():
        decoded = wire.decode(wire.encode(receipt, canonical, IDS))
        assert decoded.receipt.text == receipt.text
        assert decoded.provider_call_id in (IDS.provider, None)
        assert decoded.tool_name in (wire.wire_name(canonical.tool_name), None)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("anthropic", {"type": "tool_result", "tool_use_id": "toolu_7", "content": "ok", "is_error": False}),
        ("openai_responses", {"type": "function_call_output", "call_id": "toolu_7", "output": "ok"}),
        ("openai_responses_custom", {"type": "custom_tool_call_output", "call_id": "toolu_7", "output": "ok"}),
        ("openai_chat", {"role": "tool", "tool_call_id": "toolu_7", "content": "ok"}),
        ("gemini", {"functionResponse": {"id": "toolu_7", "name": "Look", "response": {"output": "ok"}}}),
        ("mcp", {"content": [{"type": "text", "text": "ok"}], "isError": False, "resultType": "complete"}),
        (
            "mcp_structured",
            {
                "content": [{"type": "text", "text": "ok"}],
                "isError": False,
                "resultType": "complete",
                "structuredContent": DONE.to_json(),
            },
        ),
        (
            "langchain",
            {
                "type": "tool",
                "tool_call_id": "toolu_7",
                "name": "Look",
                "content": "ok",
                "artifact": DONE.to_json(),
                "status": "success",
            },
        ),
    ],
)
def test_a_short_receipt_gives_this_body(name: str, body: Body) -> None:
    assert transport(name).encode(text_receipt([Segment("ok", "value")]), DONE, IDS) == body


@pytest.mark.parametrize("kind", KINDS)
def test_the_native_flag_follows_the_kind_of_the_error(kind: str) -> None:
    """Nothing is wrong with a call that was skipped, so the model has nothing to repair."""
    flag = kind not in ("duplicate_tool_call", "non_retryable_tool_failure")
    receipt = text_receipt([Segment("no", "value")])
    bodies = {wire.name: wire.encode(receipt, failed(kind), IDS) for wire in TRANSPORTS}
    assert bodies["anthropic"]["is_error"] is flag
    assert bodies["mcp"]["isError"] is flag
    assert bodies["langchain"]["status"] == ("error" if flag else "success")
    assert bodies["gemini"]["functionResponse"]["response"] == {"error" if flag else "output": "no"}
    for name, body in bodies.items():
        assert transport(name).decode(body).is_error is (None if name.startswith("openai") else flag)


def test_a_success_sets_no_flag() -> None:
    receipt = text_receipt([Segment("ok", "value")])
    assert transport("anthropic").encode(receipt, DONE, IDS)["is_error"] is False
    assert transport("mcp").encode(receipt, DONE, IDS)["isError"] is False


def test_providers_without_a_flag_get_none() -> None:
    receipt = text_receipt([Segment("no", "value")])
    for name in ("openai_responses", "openai_responses_custom", "openai_chat"):
        assert transport(name).encode(receipt, failed("cancelled"), IDS) == transport(name).encode(receipt, DONE, IDS)


@pytest.mark.extended
@with_images
def test_images_go_as_the_provider_s_own_parts(name: str) -> None:
    body = transport(name).encode(MIXED, DONE, IDS)
    assert published(name)(body) == body
    assert sent_text(name, body) == MIXED.text
    decoded = transport(name).decode(body).receipt
    assert [part for part in decoded.parts if isinstance(part, ImagePart)] == [ImagePart("image/png", PIXEL, 8)]


def test_parts_keep_their_order_where_the_provider_has_one_list() -> None:
    for name in ("anthropic", "openai_responses", "openai_responses_custom", "mcp", "langchain"):
        decoded = transport(name).decode(transport(name).encode(MIXED, DONE, IDS)).receipt
        assert [type(part) for part in decoded.parts] == [TextPart, ImagePart, TextPart], name


@pytest.mark.extended
@each
def test_several_texts_are_blocks_of_their_own_and_an_empty_one_is_none(wire: Transport) -> None:
    parts = [TextPart((Segment(text, "value"),)) for text in ("first ", "", "second")]
    body = wire.encode(Receipt(tuple(parts)), DONE, IDS)
    assert published(wire.name)(body) == body
    assert sent_text(wire.name, body) == "first second"
    assert len(wire.decode(body).receipt.parts) == (1 if wire.name == "gemini" else 2)


@pytest.mark.extended
@pytest.mark.parametrize("name", ["anthropic", "openai_responses", "openai_responses_custom", "gemini", "langchain"])
def test_an_image_by_address_stays_an_address(name: str) -> None:
    receipt = Receipt((ImagePart("image/png", "https://pictures.example/1.png", 0),))
    body = transport(name).encode(receipt, DONE, IDS)
    assert published(name)(body) == body
    (image,) = [part for part in transport(name).decode(body).receipt.parts if isinstance(part, ImagePart)]
    assert image.data == "https://pictures.example/1.png"


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("openai_chat", ImagePart("image/png", PIXEL, 8)),
        *[
            (name, ImagePart("image/svg+xml", PIXEL, 8))
            for name in ("anthropic", "openai_responses", "openai_responses_custom", "gemini")
        ],
        *[(name, ImagePart("text/plain", PIXEL, 8)) for name in ("mcp", "mcp_structured", "langchain")],
        ("mcp", ImagePart("image/png", "https://pictures.example/1.png", 0)),
        *[(wire.name, OtherPart("hologram", '{"type":"hologram"}')) for wire in TRANSPORTS],
    ],
)
def test_what_a_provider_cannot_hold_is_refused_and_never_dropped(name: str, part: ImagePart | OtherPart) -> None:
    with pytest.raises(UnsupportedPart, match=re.sub("_(custom|structured)", "", name)):
        transport(name).encode(Receipt((part,)), DONE, IDS)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("name", "kind", "raw"),
    [
        ("anthropic", "document", '{"type":"document","source":{"type":"url","url":"https://a.example/b.pdf"}}'),
        ("openai_responses", "input_file", '{"type":"input_file","file_id":"file_1"}'),
        ("gemini", "inlineData", '{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0="}}'),
        ("mcp", "audio", '{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}'),
    ],
)
def test_a_part_in_the_provider_s_own_form_goes_out_as_it_came(name: str, kind: str, raw: str) -> None:
    receipt = Receipt((OtherPart(kind, raw),))
    body = transport(name).encode(receipt, DONE, IDS)
    assert published(name)(body) == body
    assert OtherPart(kind, raw) in transport(name).decode(body).receipt.parts


@pytest.mark.parametrize(
    ("name", "body", "text"),
    [
        ("anthropic", {"type": "tool_result", "tool_use_id": "a"}, ""),
        ("openai_chat", {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "b"}]}, "b"),
        ("gemini", {"functionResponse": {"name": "Look", "response": {"result": 4}}}, '{"result":4}'),
        ("gemini", {"functionResponse": {"name": "Look", "response": {"error": {"code": 5}}}}, '{"code":5}'),
        ("mcp", {"content": [{"type": "text", "text": "b"}], "structuredContent": {"c": 1}}, "b"),
    ],
)
def test_bodies_of_other_clients_are_read(name: str, body: Body, text: str) -> None:
    assert transport(name).decode(body).receipt.text == text


@pytest.mark.parametrize(
    ("name", "block", "kind"),
    [
        ("anthropic", {"type": "image", "source": {"type": "file", "file_id": "file_1"}}, "image"),
        ("anthropic", {"type": "text"}, "text"),
        ("openai_responses", {"type": "input_image", "file_id": "file_1"}, "input_image"),
        ("mcp", {"type": "image"}, "image"),
        ("mcp", {}, "object"),
    ],
)
def test_a_block_that_is_no_text_and_no_image_is_kept_whole(name: str, block: dict[str, Any], kind: str) -> None:
    member = "output" if name == "openai_responses" else "content"
    body = transport(name).encode(text_receipt([Segment("x", "value")]), DONE, IDS) | {member: [block]}
    (part,) = transport(name).decode(body).receipt.parts
    assert isinstance(part, OtherPart)
    assert (part.kind, msgspec.json.decode(part.raw)) == (kind, block)


@each
def test_a_body_of_another_provider_is_refused_with_its_place(wire: Transport) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$|missing required field"):
        wire.decode({"type": "something_else"})


@pytest.mark.extended
@each
def test_a_receipt_without_parts_is_an_empty_answer(wire: Transport) -> None:
    body = wire.encode(Receipt(()), DONE, IDS)
    assert published(wire.name)(body) == body
    assert wire.decode(body).receipt.text == ""


def test_gemini_gets_no_id_when_the_model_gave_none() -> None:
    body = transport("gemini").encode(text_receipt([Segment("ok", "value")]), DONE, CallIds(provider=""))
    assert "id" not in body["functionResponse"]
    assert transport("gemini").decode(body).provider_call_id is None


def test_every_module_that_has_a_transport_is_listed() -> None:
    modules = [import_module(f"{transports.__name__}.{module.name}") for module in iter_modules(transports.__path__)]
    assert {module.TRANSPORT.name for module in modules if hasattr(module, "TRANSPORT")} <= {
        wire.name for wire in TRANSPORTS
    }


def test_every_provider_is_found_by_its_name() -> None:
    assert [transport(wire.name) for wire in TRANSPORTS] == list(TRANSPORTS)
    with pytest.raises(KeyError):
        transport("telegraph")

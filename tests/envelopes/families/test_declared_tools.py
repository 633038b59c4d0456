"""Tests declarations of tools against the provider's published types and the rules of its API."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from envelopes.families.registry import builtin, tools
from envelopes.transports import Body, Transport, UnsupportedPart, transport
from tests.envelopes.transports.test_transports import each, eager

DEFINITIONS = tuple(tools().values())


@cache
def published_declaration(name: str) -> Callable[[Body], Any]:
    """The provider's own type for a tool that the model may call."""
    match name:
        case "anthropic":
            from anthropic.types import ToolParam

            return lambda body: eager(TypeAdapter(ToolParam).validate_python(body))
        case "openai_responses":
            from openai.types.responses import FunctionToolParam

            return lambda body: eager(TypeAdapter(FunctionToolParam).validate_python(body))
        case "openai_responses_custom":
            from openai.types.responses import CustomToolParam

            return lambda body: eager(TypeAdapter(CustomToolParam).validate_python(body))
        case "openai_chat":
            from openai.types.chat import ChatCompletionFunctionToolParam

            return lambda body: eager(TypeAdapter(ChatCompletionFunctionToolParam).validate_python(body))
        case "langchain":
            from langchain_core.utils.function_calling import convert_to_openai_tool

            return convert_to_openai_tool
        case "gemini":
            from google.genai.types import FunctionDeclaration

            return lambda body: FunctionDeclaration.model_validate(body).model_dump(by_alias=True, exclude_none=True)
    from mcp.types import Tool

    return lambda body: Tool.model_validate(body).model_dump(by_alias=True, exclude_none=True)


@pytest.mark.extended
@each
def test_every_tool_is_declared_in_a_form_that_the_provider_publishes(wire: Transport) -> None:
    for definition in DEFINITIONS:
        if wire.name == "openai_responses_custom" and len(definition.input.__struct_fields__) != 1:
            with pytest.raises(UnsupportedPart, match=definition.name):
                wire.declare(definition)
            continue
        body = wire.declare(definition)
        assert published_declaration(wire.name)(body) == body
        assert definition.description in [body.get("description"), body.get("function", {}).get("description")]


@each
def test_no_declared_schema_has_at_its_top_what_providers_refuse(wire: Transport) -> None:
    conditional = [definition for definition in DEFINITIONS if definition.conditions]
    assert "oneOf" in builtin("UseWorkspace")[1].input_schema()
    for definition in conditional if wire.name != "openai_responses_custom" else ():
        body = wire.declare(definition)
        body.pop("outputSchema", None)
        (schema,) = (value for value in [*body.values(), *body.get("function", {}).values()] if is_schema(value))
        assert set(schema) <= {
            "title",
            "type",
            "description",
            "properties",
            "required",
            "additionalProperties",
            "$defs",
        }
        assert schema["properties"] == definition.input_schema()["properties"]


def is_schema(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "object"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("anthropic", {"parameters": {}}),
        ("openai_responses", {"strict": "perhaps"}),
        ("openai_responses_custom", {"format": {"type": "words"}}),
        ("openai_chat", {"function": {"parameters": {}}}),
        ("gemini", {"input_schema": {}}),
        ("mcp", {"inputSchema": "none"}),
        ("mcp_structured", {"outputSchema": "none"}),
    ],
)
def test_the_published_types_reject_a_wrong_declaration(name: str, wrong: Body) -> None:
    body = transport(name).declare(builtin("ApplyPatch")[1]) | wrong
    try:
        understood = published_declaration(name)(body)
    except ValidationError:
        return
    assert understood != body

"""The four annotations of the Model Context Protocol are written for every tool, and read back without loss."""

from __future__ import annotations

import itertools
from typing import Any

from envelopes import tools
from envelopes.schema.tool import ToolAnnotations
from envelopes.transports import transport
from envelopes.transports.mcp import declare_structured, read_declaration

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def through_a_peer(declared: dict[str, Any]) -> dict[str, Any]:
    """The declaration as a peer that uses the protocol's own types sends it on."""
    from mcp.types import Tool  # takes half a second, and each worker of a run imports this file

    return Tool.model_validate(declared).model_dump(mode="json", by_alias=True, exclude_none=True)


def test_every_tool_is_read_back_as_it_was_declared() -> None:
    for definition in tools().values():
        for declared in (transport("mcp").declare(definition), declare_structured(definition)):
            assert set(declared["annotations"]) == set(HINTS)
            read = read_declaration(through_a_peer(declared))
            assert read.annotations == definition.annotations
            assert (read.name, read.description) == (definition.name, definition.description)
            assert read.input_schema == declared["inputSchema"]
            assert read.output_schema == declared.get("outputSchema")


def test_any_annotations_survive_also_those_that_are_absent() -> None:
    for values in itertools.product((None, False, True), repeat=4):
        given = {name: value for name, value in zip(HINTS, values, strict=True) if value is not None}
        body = {"name": "t", "inputSchema": {"type": "object"}, "annotations": {"title": "T", **given}}
        read = read_declaration(through_a_peer(body)).annotations
        hints = (read.read_only_hint, read.destructive_hint, read.idempotent_hint, read.open_world_hint)
        assert (read.title, hints) == ("T", values)


def test_the_hints_say_what_the_tools_do() -> None:
    hints = {name: definition.annotations for name, definition in tools().items()}

    def names(hint: str) -> set[str]:
        return {name for name, annotations in hints.items() if getattr(annotations, hint)}

    assert names("read_only_hint") == {name for name, tool in tools().items() if tool.risk == "read-only"}
    assert names("open_world_hint") == {
        *("ExecCommand", "ExecCommandBatch", "SpawnAgent", "TaskInput", "WebFetch", "WebSearch"),
    }
    writes = set(tools()) - names("read_only_hint")
    assert writes - names("destructive_hint") == {"CreateWorkItem", "Enqueue", "UseWorkspace"}
    assert names("idempotent_hint") - names("read_only_hint") == {
        name for name, tool in tools().items() if tool.idempotent and tool.risk != "read-only"
    }
    assert hints["ApplyPatch"] == ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
    )

"""The definitions of MemorySearch and MemoryGet."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from envelopes.families.memory.results import MAX_CHARS, MOST_CHARS, FoundMemories, ReadMemory
from envelopes.schema.tool import NonEmpty, ToolDefinition, ToolInput

LIMIT = 10
LIMITS = (1, 50)
PREFIXES = ("agent_memory:", "workspace_profile:", "brief:", "episode:", "work_item:", "tool_execution:", "task:")
# A handle, never a path, an address or a query. A tool execution has two forms of its own.
SOURCE_REF = (
    r"^(?:(?:agent_memory|workspace_profile|brief|episode|work_item|task):[A-Za-z0-9_.\-]+"
    r"|tool_execution:[A-Za-z0-9_.\-]+(?::batch_item:[0-9]+)?:cmd)$"
)


class MemorySearchInput(ToolInput, frozen=True, kw_only=True):
    trimmed: ClassVar[tuple[str, ...]] = ("query",)
    clamped: ClassVar[dict[str, tuple[int, int]]] = {"limit": LIMITS}

    query: Annotated[NonEmpty, msgspec.Meta(description="Words to look for.")]
    limit: Annotated[
        Annotated[int, msgspec.Meta(ge=0)] | None,
        msgspec.Meta(description="Most results to return; clamped to 1..50, 10 when omitted."),
    ] = LIMIT
    include_all_workspaces: Annotated[
        bool, msgspec.Meta(description="Search every workspace of this agent instead of the active one.")
    ] = False


class MemoryGetInput(ToolInput, frozen=True, kw_only=True):
    trimmed: ClassVar[tuple[str, ...]] = ("source_ref",)

    source_ref: Annotated[
        str, msgspec.Meta(pattern=SOURCE_REF, description="A handle copied from MemorySearch, without white space.")
    ]
    max_chars: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=MOST_CHARS)] | None,
        msgspec.Meta(description="Most characters of content, 1 to 50000; 12000 when omitted."),
    ] = MAX_CHARS


MEMORY_SEARCH = ToolDefinition(
    name="MemorySearch",
    capability="core_agent",
    planes=("memory",),
    risk="read-only",
    idempotent=True,
    description=(
        "Search the agent's memory for `query` as full text and return the best matches first, each with a title, a "
        "snippet and a source_ref for MemoryGet. `limit` is accepted whatever its size and clamped to 1..50. "
        "`include_all_workspaces` widens the search beyond the active workspace."
    ),
    input=MemorySearchInput,
    result=(FoundMemories,),
    result_only=("results", "snippet", "score", "source_ref"),
    misnamed={"q": "query", "max_results": "limit"},
    hint="give `query` as a non-empty string; see the MemorySearch schema for the other fields",
    examples=(
        {"query": "why receipts are text"},
        {"query": " release ", "limit": 500, "include_all_workspaces": True},
        {"query": "release", "limit": None},
    ),
    counter_examples=(
        {},
        {"query": " "},
        {"query": "x", "limit": -1},
        {"query": "x", "limit": "10"},
        {"query": "x", "source_ref": "brief:b1"},
        {"query": "x", "include_all_workspaces": "yes"},
    ),
)

MEMORY_GET = ToolDefinition(
    name="MemoryGet",
    capability="core_agent",
    planes=("memory",),
    risk="read-only",
    idempotent=True,
    description=(
        "Read one memory. Copy `source_ref` verbatim from a result of MemorySearch: it is an opaque handle, not a "
        "path, an address or a guess. `max_chars` bounds the content and the result says when it was cut."
    ),
    input=MemoryGetInput,
    result=(ReadMemory,),
    error_kinds=("memory_source_not_found",),
    result_only=("memory", "content", "truncated", "metadata"),
    misnamed={"ref": "source_ref", "id": "source_ref", "max_characters": "max_chars"},
    hint=f"copy a source_ref from MemorySearch; it begins with one of {', '.join(PREFIXES)}",
    examples=(
        {"source_ref": "episode:ep_12"},
        {"source_ref": "tool_execution:t1:cmd", "max_chars": 50_000},
        {"source_ref": "tool_execution:t1:batch_item:2:cmd", "max_chars": None},
    ),
    counter_examples=(
        {},
        {"source_ref": ""},
        {"source_ref": "brief:"},
        {"source_ref": "brief:two words"},
        {"source_ref": "brief:../secret"},
        {"source_ref": "skill:SKILL.md"},
        {"source_ref": "tool_execution:t1"},
        {"source_ref": "tool_execution:t1:batch_item:x:cmd"},
        {"source_ref": "https://example.org/"},
        {"source_ref": "brief:b1", "max_chars": 0},
        {"source_ref": "brief:b1", "max_chars": 50_001},
        {"source_ref": "brief:b1", "content": "x"},
    ),
)

TOOLS = (MEMORY_SEARCH, MEMORY_GET)

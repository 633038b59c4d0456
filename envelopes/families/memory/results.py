"""The results of MemorySearch and MemoryGet and their bounded forms."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import msgspec

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.base import FieldCut, Projection, Projector, ResultMembers, pick, without_nulls
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import JsonValue
from envelopes.text.outline import outline_text
from envelopes.text.preview import Cut

MEMORY_CHARACTERS = 10_000  # E-8: of the memories that a search lists
MAX_CHARS = 12_000
MOST_CHARS = 50_000
TITLE_CHARACTERS = 200
SNIPPET_CHARACTERS = 400


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a memory that a search gives too. `source_ref` is opaque; `updated_at` is ISO 8601."""

    kind: str
    source_ref: str
    scope_kind: str
    workspace_id: str | None = None
    agent_id: str
    source_path: str | None = None
    title: str
    updated_at: str
    metadata: dict[str, Any] = {}


class FoundMemory(Remembered, frozen=True, kw_only=True):
    snippet: str
    score: float


class Memory(Remembered, frozen=True, kw_only=True):
    """`truncated` says that `max_chars` ended the content."""

    content: str
    truncated: bool = False


class FoundMemories(msgspec.Struct, frozen=True, kw_only=True):
    """Best rank first."""

    query: str
    results: tuple[FoundMemory, ...] = ()


class ReadMemory(msgspec.Struct, frozen=True, kw_only=True):
    """`max_chars` is what the caller asked for; None means the default, 12,000."""

    memory: Memory
    max_chars: int | None = None

    @property
    def granted_characters(self) -> int:
        return min(max(1, self.max_chars or MAX_CHARS), MOST_CHARS)


def _project_found(result: FoundMemories, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    listed = projector.build_items("results", result.results, policy, partial(_project_row, projector, policy))
    return {
        "query": projector.line("query", result.query, policy.details),
        **listed,
        **projector.store_items("results", result.results, listed),
    }


def _project_row(projector: Projector, policy: ProjectionPolicy, memory: FoundMemory, field: str) -> JsonValue:
    """MemoryGet gives what a row leaves out, so nothing is written for it."""
    return {
        **_project_head(projector, memory, field),
        "snippet": projector.line(f"{field}/snippet", memory.snippet, SNIPPET_CHARACTERS),
        "score": memory.score,
        **_project_metadata(projector, policy, memory, field),
    }


def _project_read(result: ReadMemory, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    memory = result.memory
    budget = result.granted_characters if policy.keeps_promises else policy.preview
    content, artifact = projector.preview("memory/content", memory.content, budget, role="memory")
    if policy.keeps_promises:
        projector.promise("memory/content")
    cut: ResultMembers = {"content_truncated": True, "content_artifact": artifact}
    head = _project_head(projector, memory, "memory")
    metadata = _project_metadata(projector, policy, memory, "memory")
    if "metadata" not in metadata:
        metadata["metadata_artifact"] = projector.store("metadata", outline_text(memory.metadata))
    return {
        "memory": {
            **head,
            "content": content,
            "truncated": memory.truncated,
            "effective_max_chars": budget,
            **({} if artifact is None else cut),
            **metadata,
        }
    }


def granted_characters(result: JsonValue) -> int:
    """The characters of content that MemoryGet's caller was granted; 0 for a search."""
    granted = RecordedObject(result).member("memory").integer("effective_max_chars") or 0
    return min(max(0, granted), MOST_CHARS)


def _project_head(projector: Projector, memory: Remembered, field: str) -> ResultMembers:
    return without_nulls(
        {
            **pick(memory, "kind", "source_ref", "scope_kind", "workspace_id", "agent_id", "source_path"),
            "title": projector.line(f"{field}/title", memory.title, TITLE_CHARACTERS),
            "updated_at": memory.updated_at,
        }
    )


def _project_metadata(
    projector: Projector, policy: ProjectionPolicy, memory: Remembered, field: str
) -> dict[str, JsonValue]:
    """The metadata, or how many members it has when it is larger than the details of an error may be."""
    if len(json.dumps(memory.metadata)) <= policy.details:
        return {"metadata": memory.metadata}
    projector.cuts.append(FieldCut(f"/result/{field}/metadata", Cut("lines", len(memory.metadata), ())))
    return {"metadata_omitted": len(memory.metadata)}


def found_outcome(found: FoundMemories) -> str:
    return f"{len(found.results)} memories for {found.query}"


def memory_outcome(read: ReadMemory) -> str:
    return f"read {read.memory.source_ref}: {read.memory.title}"


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {FoundMemories: _project_found, ReadMemory: _project_read}

"""Typed results of the memory family, and their bounded projection."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import msgspec

from envelopes.families.base import FieldCut, Projector, ResultMembers, project_by_type
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import JsonValue
from envelopes.text.outline import outline_text
from envelopes.text.preview import Cut

MEMORY_CHARACTERS = 10_000  # spec/model.md E-8
TITLE_CHARACTERS = 200
SNIPPET_CHARACTERS = 400


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """Where a memory is kept. `source_ref` is opaque; `updated_at` is ISO 8601."""

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
    memory: Memory


def _found(found: FoundMemories, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        "query": projector.line("query", found.query, policy.details),
        **projector.build_items("results", found.results, policy, partial(_row, projector, policy)),
    }


def _row(projector: Projector, policy: ProjectionPolicy, found: FoundMemory, field: str) -> JsonValue:
    """What a row leaves out is behind MemoryGet, so that nothing is written for it."""
    return {
        **_place(projector, found, field),
        "snippet": projector.line(f"{field}/snippet", found.snippet, SNIPPET_CHARACTERS),
        "score": found.score,
        **_metadata(projector, policy, found, field),
    }


def _read(found: ReadMemory, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    memory = found.memory
    content, artifact = projector.preview("memory/content", memory.content, policy.preview, role="memory")
    cut: dict[str, JsonValue] = {"content_truncated": True, "content_artifact": artifact}
    return {
        "memory": {
            **_place(projector, memory, "memory"),
            "content": content,
            "truncated": memory.truncated,
            **({} if artifact is None else cut),
            **_kept_metadata(projector, policy, memory),
        }
    }


def _place(projector: Projector, one: Remembered, field: str) -> dict[str, JsonValue]:
    row: dict[str, JsonValue] = {
        "kind": one.kind,
        "source_ref": one.source_ref,
        "scope_kind": one.scope_kind,
        "workspace_id": one.workspace_id,
        "agent_id": one.agent_id,
        "source_path": one.source_path,
        "title": projector.line(f"{field}/title", one.title, TITLE_CHARACTERS),
        "updated_at": one.updated_at,
    }
    return {name: member for name, member in row.items() if member is not None}


def _metadata(projector: Projector, policy: ProjectionPolicy, one: Remembered, field: str) -> dict[str, JsonValue]:
    """The metadata, or how many members it has when it is larger than the details of an error may be."""
    if len(json.dumps(one.metadata)) <= policy.details:
        return {"metadata": one.metadata}
    projector.cuts.append(FieldCut(f"/result/{field}/metadata", Cut("lines", len(one.metadata), ())))
    return {"metadata_omitted": len(one.metadata)}


def _kept_metadata(projector: Projector, policy: ProjectionPolicy, memory: Memory) -> dict[str, JsonValue]:
    members = _metadata(projector, policy, memory, "memory")
    if "metadata" not in members:
        members["metadata_artifact"] = projector.store("metadata", outline_text(memory.metadata))
    return members


project = project_by_type({FoundMemories: _found, ReadMemory: _read})

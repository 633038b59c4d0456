"""Tests MemorySearch and MemoryGet: their input, their canonical results and their receipts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from envelopes.families.memory import FAMILY
from envelopes.families.memory.results import FoundMemories, FoundMemory, Memory, ReadMemory
from envelopes.families.memory.tools import PREFIXES
from envelopes.families.registry import builtin, samples
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.result import CompleteOutput
from envelopes.schema.tool import InvalidToolInput
from envelopes.storage.sinks import MemorySink

GALLERY = [
    (tool, sort) for tool in ("MemoryGet", "MemorySearch") for sort in ("success", "error", "large", "empty", "odd")
]
MEMORY = Memory(
    kind="brief",
    source_ref="brief:b1",
    scope_kind="agent",
    agent_id="ada",
    title="A title",
    content="short",
    updated_at="2026-05-26T18:04:11Z",
)
FOUND = FoundMemory(
    kind="brief",
    source_ref="brief:b1",
    scope_kind="agent",
    agent_id="ada",
    title="A title",
    snippet="A snippet",
    score=1.0,
    updated_at="2026-05-26T18:04:11Z",
)


def output(tool: str, result: msgspec.Struct) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="success", summary_text="done", result=result)


def canonical(complete: CompleteOutput) -> Any:
    return project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical.to_json()


def receipt_text(complete: CompleteOutput) -> str:
    projection = project(complete, FAMILY, FAMILY.projection, MemorySink())
    return render(projection.canonical, FAMILY, FAMILY.rendering).text


def read(**members: Any) -> CompleteOutput:
    return output("MemoryGet", ReadMemory(memory=msgspec.structs.replace(MEMORY, **members)))


@pytest.mark.parametrize(("tool", "sort"), GALLERY, ids=[f"{tool}-{sort}" for tool, sort in GALLERY])
def test_a_receipt_reads_as_its_golden(tool: str, sort: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{tool}/{sort}", receipt_text(samples(tool)[sort]))


@pytest.mark.parametrize(
    ("tool", "sort", "first", "facts"),
    [
        ("MemorySearch", "success", "2 memories found", ["1. Why receipts are text\n   brief:b_0193\n"]),
        ("MemorySearch", "large", "50 memories found", ["[showing first 36 of 50]"]),
        ("MemorySearch", "empty", "No memories found", []),
        ("MemorySearch", "error", "MemorySearch not run: ", ["`query` must not be blank"]),
        ("MemoryGet", "success", "Memory: Why receipts are text", ["Source: brief:b_0193", "\n\nModels read prose"]),
        (
            "MemoryGet",
            "large",
            "Memory: Command of t_88",
            ["Truncated: yes", "ReadArtifact path=artifacts/"],
        ),
        ("MemoryGet", "empty", "Memory: wi_7", ["The memory is empty."]),
        ("MemoryGet", "error", "MemoryGet failed: memory source", ["Kind: memory_source_not_found", "brief:b_9"]),
    ],
)
def test_a_receipt_states_the_outcome_first_and_the_handles(tool: str, sort: str, first: str, facts: list[str]) -> None:
    text = receipt_text(samples(tool)[sort])
    assert text.startswith(first)
    assert [fact for fact in facts if fact not in text] == []


@pytest.mark.parametrize(
    "source_ref",
    [
        *(f"{prefix}Ab_1.x-2" for prefix in PREFIXES if prefix != "tool_execution:"),
        "tool_execution:t-1:cmd",
        "tool_execution:t-1:batch_item:12:cmd",
    ],
)
def test_a_handle_of_every_prefix_is_taken_verbatim(source_ref: str) -> None:
    arguments: Any = builtin("MemoryGet")[1].parse({"source_ref": source_ref})
    assert (arguments.source_ref, arguments.max_chars) == (source_ref, 12_000)


@pytest.mark.parametrize(
    "source_ref",
    [
        *("brief", "brief:", ":b1", "memory:b1", "brief:a b", "brief: a", "brief:a/b", "brief:a:b", "brief:ä"),
        *("tool_execution:t1", "tool_execution:t1:out", "tool_execution:t1:batch_item::cmd", "xbrief:b1", "a brief:b1"),
    ],
)
def test_a_handle_of_another_form_is_refused_with_the_prefixes(source_ref: str) -> None:
    with pytest.raises(InvalidToolInput) as raised:
        builtin("MemoryGet")[1].parse({"source_ref": source_ref})
    error = raised.value.error
    assert error.details is not None
    assert error.details["field"] == "source_ref"
    assert error.recovery_hint is not None
    assert [prefix for prefix in PREFIXES if prefix not in error.recovery_hint] == []


@pytest.mark.parametrize("max_chars", [1, 50_000])
def test_the_bounds_of_max_chars_are_taken(max_chars: int) -> None:
    arguments: Any = builtin("MemoryGet")[1].parse({"source_ref": "brief:b1", "max_chars": max_chars})
    assert arguments.max_chars == max_chars


@pytest.mark.parametrize("max_chars", [0, -1, 50_001, "9", 1.5])
def test_max_chars_beyond_its_bounds_is_refused_and_not_clamped(max_chars: Any) -> None:
    with pytest.raises(InvalidToolInput, match="max_chars"):
        builtin("MemoryGet")[1].parse({"source_ref": "brief:b1", "max_chars": max_chars})


@pytest.mark.parametrize(("given", "used"), [({}, 10), ({"limit": None}, 10), ({"limit": 0}, 1), ({"limit": 99}, 50)])
def test_the_limit_of_a_search_is_accepted_and_clamped(given: dict[str, Any], used: int) -> None:
    arguments: Any = builtin("MemorySearch")[1].parse({"query": " q ", **given})
    assert (arguments.query, arguments.limit, arguments.include_all_workspaces) == ("q", used, False)
    assert "clamped to 1..50" in builtin("MemorySearch")[1].description


def test_content_within_10000_characters_is_kept_whole() -> None:
    memory = canonical(read(content="x" * 10_000))["result"]["memory"]
    assert (len(memory["content"]), memory["truncated"]) == (10_000, False)
    assert "content_artifact" not in memory


def test_longer_content_is_previewed_and_kept_in_an_artifact_that_the_receipt_names() -> None:
    complete, sink = read(content="x" * 12_001, truncated=False), MemorySink()
    document: Any = project(complete, FAMILY, FAMILY.projection, sink).canonical.to_json()
    memory = document["result"]["memory"]
    assert (memory["content_truncated"], memory["content_artifact"], memory["truncated"]) == (True, 0, False)
    assert sink.texts[document["artifacts"][0]["path"]] == "x" * 12_001
    assert document["artifacts"][0]["path"] in receipt_text(complete)
    assert "first 6000 and last 6000 of 12001 characters" in receipt_text(complete)


@pytest.mark.parametrize(("max_chars", "most"), [(None, 12_000), (400, 400), (50_000, 50_000)])
def test_content_of_as_many_characters_as_promised_is_shown_whole(max_chars: int | None, most: int) -> None:
    whole = read(content="x" * most, truncated=False)
    complete = msgspec.structs.replace(whole, result=msgspec.structs.replace(whole.result, max_chars=max_chars))
    document: Any = project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical.to_json()
    assert document["result"]["memory"]["effective_max_chars"] == most
    assert "x" * most in receipt_text(complete)


def test_a_cut_that_the_tool_made_is_reported_after_the_content() -> None:
    assert receipt_text(read(truncated=True)).endswith(
        "\n\nshort\n\nTruncated: yes, the memory goes on; more: max_chars up to 50000"
    )
    assert "Truncated" not in receipt_text(read(truncated=False))


def test_content_that_equals_the_summary_is_still_shown() -> None:
    assert receipt_text(read(content="done")).endswith("\n\ndone")


def test_large_metadata_goes_to_an_artifact_or_stays_behind_the_handle() -> None:
    large = {f"key_{number}": "value" for number in range(100)}
    document = canonical(read(metadata=large))
    assert document["result"]["memory"]["metadata_omitted"] == 100
    assert document["artifacts"][document["result"]["memory"]["metadata_artifact"]]["path"].endswith("/metadata.txt")
    row = msgspec.structs.replace(FOUND, metadata=large)
    listed = canonical(output("MemorySearch", FoundMemories(query="q", results=(row,))))
    assert listed["result"]["results"][0]["metadata_omitted"] == 100
    assert "artifacts" not in listed


def test_a_snippet_cannot_pass_for_another_result() -> None:
    forged = msgspec.structs.replace(FOUND, snippet="text\n2. Another\n   brief:b2", title="One\n3. Two")
    text = receipt_text(output("MemorySearch", FoundMemories(query="q", results=(forged,))))
    assert [line for line in text.splitlines() if line[:1].isdigit()] == ["1 memory found", "1. One"]


def test_the_best_result_comes_first_and_a_long_snippet_is_cut_with_a_record() -> None:
    first = msgspec.structs.replace(FOUND, snippet="s" * 401)
    complete = output("MemorySearch", FoundMemories(query="q", results=(first, FOUND)))
    projection = project(complete, FAMILY, FAMILY.projection, MemorySink())
    rows: Any = projection.canonical.result
    assert [len(row["snippet"]) for row in rows["results"]] == [400, 9]
    assert [cut.pointer for cut in projection.cuts] == ["/result/results/0/snippet"]

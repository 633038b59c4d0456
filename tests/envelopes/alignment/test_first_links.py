"""Aligning only the beginning of a receipt gives the same links as aligning all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envelopes.halves import Halves, read_halves
from envelopes.schema.receipt import SegmentSource
from tests.bench.long_calls import LONG
from tests.cases import extended_except

SAMPLES = Path(__file__).parents[3] / "dashboard" / "samples"
FIRST = (1, 40, 997, 8_192)


def recorded_calls() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every answered call of the bundled sessions, as arguments of `read_halves`."""
    for path in sorted(SAMPLES.rglob("*.jsonl")):
        uses: dict[str, dict[str, Any]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            content = (record.get("message") or {}).get("content") if isinstance(record, dict) else None
            for block in content if isinstance(content, list) else []:
                if block.get("type") == "tool_use":
                    uses[block["id"]] = block
                elif block.get("type") == "tool_result" and block["tool_use_id"] in uses:
                    use = uses[block["tool_use_id"]]
                    has = "toolUseResult" in record
                    yield use["name"], evidence(use["name"], use["input"], block, record.get("toolUseResult"), has=has)


def evidence(tool: str, args: Any, answer: dict[str, Any], result: Any, *, has: bool = True) -> dict[str, Any]:
    return {
        "agent": "claude-code",
        "tool": tool,
        "args": json.dumps(args).encode(),
        "result": json.dumps(result).encode() if has else None,
        "content": json.dumps(answer.get("content")).encode(),
        "is_error": answer.get("is_error"),
    }


def made_calls() -> Iterator[tuple[str, dict[str, Any]]]:
    for make in LONG.values():
        tool, args, receipt, result = make(3_000)
        yield tool, evidence(tool, args, {"content": receipt}, result)


BY_TOOL: dict[str, list[dict[str, Any]]] = {}
for _tool, _call in (*recorded_calls(), *made_calls()):
    BY_TOOL.setdefault(_tool, []).append(_call)


def origins(halves: Halves, first: int) -> list[tuple[str, str, int | None] | None]:
    """The document, field and offset of each of the first characters."""
    origin_of_each: list[tuple[str, str, int | None] | None] = []
    for segment in halves.receipt.segments if halves.receipt else ():
        origin_of_each += [
            _origin(segment.source, at) for at in range(min(len(segment.text), first - len(origin_of_each)))
        ]
    return origin_of_each


def _origin(source: SegmentSource | None, at: int) -> tuple[str, str, int | None] | None:
    if source is None:
        return None
    place = None if source.start is None or not source.end else source.start + at
    return source.document, source.pointer, place


@pytest.mark.parametrize("tool", extended_except(sorted(BY_TOOL), "Bash", "Edit", "Grep", "Read"))
def test_the_links_of_the_beginning_are_those_of_the_whole(tool: str) -> None:
    for call in BY_TOOL[tool]:
        whole = read_halves(**call)
        for first in FIRST:
            begun = read_halves(**call, stored=lambda _mapping, kept=whole.projection.canonical: kept, first=first)
            assert begun.aligned == first
            assert begun.is_beginning or begun.evidence.result == whole.evidence.result
            assert origins(begun, first) == origins(whole, first)
            assert begun.receipt is None or whole.receipt is None or begun.receipt.text == whole.receipt.text
            if all(one.cut.is_whole for one in whole.outputs):
                assert begun.outputs == whole.outputs


def test_the_bundled_sessions_and_the_long_calls_hold_the_line_aware_tools() -> None:
    assert set(BY_TOOL) >= {"Read", "Grep", "Glob", "Write", "Edit", "Bash", "WebFetch", "TaskList", "TodoWrite"}


def test_without_a_stored_envelope_the_whole_receipt_is_aligned() -> None:
    (call,) = (one for tool, one in made_calls() if tool == "Read")
    assert read_halves(**call, first=40).aligned is None


@pytest.mark.parametrize("tool", ["Grep", "Glob", "TaskList"])
def test_of_a_long_list_only_the_beginning_is_read_where_it_says_all(tool: str) -> None:
    for call in (one for name, one in long_lists() if name == tool):
        whole = read_halves(**call)
        begun = read_halves(**call, stored=lambda _mapping, kept=whole.projection.canonical: kept, first=FIRST[-1])
        assert begun.is_beginning
        assert longest(begun.evidence.result) < longest(whole.evidence.result) / 2
        assert origins(begun, FIRST[-1]) == origins(whole, FIRST[-1])


def test_a_list_is_read_to_its_end_where_its_beginning_does_not_fill_the_window() -> None:
    """The elements are long and the receipt shows little of each."""
    tasks = [{"id": str(n), "subject": "s", "status": "open", "description": "d" * 400} for n in range(900)]
    said = "\n".join(f"#{one['id']} [open] s" for one in tasks)
    call = evidence("TaskList", {}, {"content": said}, {"tasks": tasks})
    whole = read_halves(**call)
    begun = read_halves(**call, stored=lambda _mapping: whole.projection.canonical, first=FIRST[-1])
    assert longest(begun.evidence.result) == 900
    assert origins(begun, FIRST[-1]) == origins(whole, FIRST[-1])


def long_lists() -> Iterator[tuple[str, dict[str, Any]]]:
    for make in LONG.values():
        tool, args, receipt, result = make(200_000)
        if isinstance(result, dict) and longest(result) > 1_000:
            yield tool, evidence(tool, args, {"content": receipt}, result)


def longest(recorded: Any) -> int:
    return max((len(value) for value in recorded.values() if isinstance(value, list)), default=0)

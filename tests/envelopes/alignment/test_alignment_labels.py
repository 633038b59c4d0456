"""Compares what the families align with labels made by hand (tests/envelopes/alignment/spans/README.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from envelopes.alignment.mapping import Evidence
from envelopes.alignment.spans import to_segments
from envelopes.families import registry
from envelopes.text import pointer

pytestmark = pytest.mark.recordings

LABELS = Path(__file__).with_name("labels.jsonl")
LEAST_RECALL = 0.95

# The origin of a character: (document, pointer, offset); the offset is None in a number or a flag.
Origin = tuple[str, str, int | None]


class Call(NamedTuple):
    """One recorded call, read without the importer."""

    tool: str
    args: Any
    result: Any
    has_result: bool
    is_error: bool | None
    parts: tuple[str, ...]


@pytest.fixture(scope="module")
def labels() -> list[dict[str, Any]]:
    return [json.loads(line) for line in LABELS.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def calls(recordings_root: Path) -> dict[tuple[str, str], Call]:
    """Every answered call of the samples by (file, id)."""
    folder = recordings_root / "claude-code"
    return {
        (path.relative_to(folder).as_posix(), call_id): call
        for path in sorted(folder.rglob("*.jsonl"))
        for call_id, call in answered(path)
    }


def answered(path: Path) -> Iterator[tuple[str, Call]]:
    uses: dict[str, tuple[str, Any]] = {}
    for line in path.read_text("utf-8").split("\n"):
        record = json.loads(line) if line else {}
        for block in blocks(record):
            if block.get("type") == "tool_use":
                uses[block["id"]] = (block["name"], block["input"])
            elif block.get("type") == "tool_result":
                tool, args = uses[block["tool_use_id"]]
                result, has_result = record.get("toolUseResult"), "toolUseResult" in record
                call = Call(tool, args, result, has_result, block.get("is_error"), text_parts(block["content"]))
                yield block["tool_use_id"], call


def blocks(record: dict[str, Any]) -> list[dict[str, Any]]:
    content = (record.get("message") or {}).get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def text_parts(content: Any) -> tuple[str, ...]:
    return (content,) if isinstance(content, str) else tuple(b["text"] for b in content if b["type"] == "text")


def labelled(label: dict[str, Any]) -> dict[int, Origin]:
    """The labelled origin of each character that has one."""
    origins = {at: origin for span in label["spans"] for at, origin in spelled("complete", span)}
    return origins | {at: origin for span in label.get("args_spans", ()) for at, origin in spelled("args", span)}


def accepted(label: dict[str, Any]) -> dict[int, set[Origin]]:
    """The labelled origin and the other right ones, listed under `also`."""
    right = {at: {origin} for at, origin in labelled(label).items()}
    for span in label.get("also", ()):
        for at, origin in spelled("complete", span):
            right.setdefault(at, set()).add(origin)
    return right


def spelled(document: str, span: list[Any]) -> Iterator[tuple[int, Origin]]:
    start, end, where, value_start, value_end = span
    for at in range(start, end):
        offset = None if value_start == value_end else value_start + at - start
        yield at, (document, where, offset)


def predicted(call: Call, text: str) -> dict[int, Origin]:
    """The origins that a page shows: those of the segments that the aligned spans become."""
    evidence = Evidence(
        agent="claude-code",
        tool=call.tool,
        args=call.args,
        result=call.result,
        has_result=call.has_result,
        receipt_text="".join(call.parts),
        is_error=call.is_error,
    )
    _, foreign_tool = registry.find_mapping("claude-code", call.tool)
    origins: dict[int, Origin] = {}
    at = 0
    for segment in to_segments(text, foreign_tool.align(evidence, text)):
        end = at + len(segment.text)
        if source := segment.source:
            assert (source.end or 0) - (source.start or 0) in {0, len(segment.text)}, segment
            origins |= spelled(source.document, [at, end, source.pointer, source.start, source.end])
        at = end
    assert at == len(text)
    return origins


def printed(document: Any, span: list[Any]) -> str:
    """The characters of the field at the span's pointer."""
    _, _, where, value_start, value_end = span
    value = pointer.resolve(document, where)
    return value[value_start:value_end] if isinstance(value, str) else str(value)


def test_the_labels_cover_two_hundred_calls_and_every_tool(
    labels: list[dict[str, Any]], calls: dict[tuple[str, str], Call]
) -> None:
    chosen = {(label["file"], label["call"]) for label in labels}
    assert len(chosen) == 200
    assert {calls[key].tool for key in chosen} == {call.tool for call in calls.values()}
    assert len({label["version"] for label in labels}) == 12


def test_each_label_is_true_of_its_receipt(labels: list[dict[str, Any]], calls: dict[tuple[str, str], Call]) -> None:
    for label in labels:
        call = calls[label["file"], label["call"]]
        text = call.parts[label["part"]]
        assert call.tool == label["tool"]
        assert hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() == label["sha256"]
        for span in [*label["spans"], *label.get("also", ())]:
            assert text[span[0] : span[1]] == printed(call.result, span), (label["call"], span)
        for span in label.get("args_spans", ()):
            assert text[span[0] : span[1]] == printed(call.args, span), (label["call"], span)


def test_the_families_agree_with_the_labels(labels: list[dict[str, Any]], calls: dict[tuple[str, str], Call]) -> None:
    counts: dict[str, list[int]] = {}
    false: list[str] = []
    for label in labels:
        call = calls[label["file"], label["call"]]
        text = call.parts[label["part"]]
        origins, right = predicted(call, text), accepted(label)
        wrong = sorted(at for at, origin in origins.items() if origin not in right.get(at, ()))
        if wrong:
            false.append(excerpt(label, text, origins, right, wrong))
        count = counts.setdefault(call.tool, [0, 0])
        count[0] += sum(origins.get(at) in right[at] for at in labelled(label))
        count[1] += len(labelled(label))
    recall = sum(count[0] for count in counts.values()) / sum(count[1] for count in counts.values())
    report = "\n".join([f"recall {recall:.4f}", *recall_lines(counts), "false links:", *false])
    assert recall >= LEAST_RECALL, report
    assert not false, report


def recall_lines(counts: dict[str, list[int]]) -> list[str]:
    return [f"  {tool}: {hit} of {total}" for tool, (hit, total) in sorted(counts.items()) if total]


def excerpt(
    label: dict[str, Any], text: str, origins: dict[int, Origin], right: dict[int, set[Origin]], wrong: list[int]
) -> str:
    at = wrong[0]
    around = f"{text[max(0, at - 30) : at]}[[{text[at : at + 50]}]]"
    where = f"  {label['tool']} {label['call']} in {label['file']}: {len(wrong)} characters, first {at} of {around!r}"
    return f"{where}: {origins[at]}, label {sorted(right.get(at, ()), key=str)}"

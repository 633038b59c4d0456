"""Whatever no other family takes: tools of MCP servers, and tools of any agent that nobody knows.

    Blocks   content blocks, as the Model Context Protocol returns them, and the structured content
    Value    any other JSON

Namespaced tools of MCP servers (`mcp__server__tool`) return content blocks, so their mapping is
typed although their names are open.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from envelopes.alignment.excerpt import match_excerpt
from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.json_spans import match_json
from envelopes.alignment.lenient_structs import RecordedObject, RecordedText, align_untyped, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.spans import Span
from envelopes.families.base import Family, Projector, ResultMembers, project_by_type
from envelopes.families.segments import headline, label, line_break, receipt_renderer, text_block, text_value
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.follow_up_handles import to_members
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.text.fit_receipt import count_fitting
from envelopes.text.outline import outline, outline_text

ROWS_SHARE = 2  # blocks and all that is said of them, beside the budget of their texts
ROW_CHARACTERS = 160


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is None for a block without one; `data_characters` is the length of base64 data, not kept here."""

    kind: str
    text: str | None = None
    uri: str | None = None
    media_type: str | None = None
    data_characters: int | None = None


class Blocks(msgspec.Struct, frozen=True, kw_only=True):
    content: tuple[Block, ...] = ()
    structured_content: JsonValue = None


class Value(msgspec.Struct, frozen=True):
    value: JsonValue


def _blocks(found: Blocks, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """The texts share one budget, in order; what is left of it goes to the next."""
    limit = count_fitting(_sizes(found.content, policy), rows=policy.rows, characters=ROWS_SHARE * policy.preview)
    room = policy.preview
    rows: list[JsonValue] = []
    for index, block in enumerate(found.content[:limit]):
        row, used = _block(block, index, room, projector)
        rows.append(row)
        room -= used
    omitted = len(found.content) - len(rows)
    return {
        "content": rows if not omitted else projector.rows("content", [*rows, *[None] * omitted], len(rows)),
        "content_omitted": omitted or None,
        "content_artifact": projector.store("content", _lines_of_json(found)) if omitted else None,
        **_structured(found.structured_content, projector, policy),
    }


def _sizes(content: Iterable[Block], policy: ProjectionPolicy) -> Iterable[int]:
    """At most what each row will have: names, a marker and the path of an artifact, besides its text."""
    room = policy.preview
    for block in content:
        shown = min(len(block.text or ""), room)
        room -= shown
        yield shown + ROW_CHARACTERS + len(block.kind) + len(block.uri or "") + len(block.media_type or "")


def _lines_of_json(found: Blocks) -> str:
    """One block a line, so that a slice of the artifact is readable."""
    return "\n".join(json.dumps(to_members(block), ensure_ascii=False) for block in found.content)


def _block(block: Block, index: int, room: int, projector: Projector) -> tuple[JsonValue, int]:
    row: dict[str, JsonValue] = {"type": block.kind}
    used = 0
    if block.text is not None:
        shown, artifact = projector.preview(f"content/{index}/text", block.text, max(room, 0), role="text")
        used = min(len(block.text), max(room, 0))
        row |= {"text": shown} if artifact is None else {"text": shown, "text_artifact": artifact}
    row |= {"uri": block.uri, "media_type": block.media_type, "data_characters": block.data_characters}
    return {name: member for name, member in row.items() if member is not None}, used


def _structured(value: JsonValue, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    if value is None:
        return {}
    text = outline_text(value)
    if len(text) <= policy.preview:
        return {"structured_content": value}
    return projector.text("structured_content_text", text, policy.preview, role="structured_content")


def _value(found: Value, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    text = outline_text(found.value)
    if len(text) <= policy.preview:
        return {"value": found.value}
    return projector.text("text", text, policy.preview, role="recorded")


def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline(canonical.summary_text)
    result = RecordedObject(canonical.result)
    for index, block in enumerate(result.items("content")):
        yield from _block_lines(canonical, block, f"/result/content/{index}")
    if (omitted := result.integer("content_omitted")) is not None:
        yield line_break()
        yield Segment(f"[{omitted} more content blocks]", "marker")
    for name in ("structured_content", "value"):
        if result.has_any((name,)):
            yield line_break(2)
            yield from outline(result.get(name), f"/result/{name}")
    yield from text_block(canonical, "/result/structured_content_text")
    yield from text_block(canonical, "/result/text")


def _block_lines(canonical: CanonicalResult, block: RecordedObject, pointer: str) -> Iterable[Segment]:
    named = [(name, text) for name in ("type", "media_type", "uri") if (text := block.text(name))]
    if block.text("type") != "text":
        yield line_break(2)
        yield label("[")
        for index, (name, text) in enumerate(named):
            yield label(" " if index else "")
            yield text_value(text, f"{pointer}/{name}")
        yield label("]")
    yield from text_block(canonical, f"{pointer}/text")


def is_known(agent: str, tool: str) -> bool:
    """`mcp__server__tool` of Claude Code: the namespace says that content blocks come back."""
    server, separator, name = tool.removeprefix("mcp__").partition("__")
    return agent == "claude-code" and tool.startswith("mcp__") and bool(server and separator and name)


def _read(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    base = _content_pointer(evidence.result)
    if base is not None:
        return _read_blocks(evidence, base)
    if evidence.result is None or isinstance(evidence.result, str):
        return read_untyped(evidence)
    links = {"": "/result/value"}
    return reading(evidence, Value(evidence.result), f"{evidence.tool} returned a result", links=links)


def _content_pointer(result: JsonValue) -> str | None:
    """Where the content blocks are: the result itself, or its `content`; None when it has none."""
    if _is_blocks(result):
        return ""
    return "/content" if isinstance(result, dict) and _is_blocks(result.get("content")) else None


def _is_blocks(value: JsonValue) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and isinstance(one.get("type"), str) for one in value)
    )


def _recorded_blocks(result: JsonValue) -> list[RecordedObject]:
    return (
        [RecordedObject(one) for one in result] if isinstance(result, list) else RecordedObject(result).items("content")
    )


def _read_blocks(evidence: Evidence, base: str) -> Reading:
    recorded = RecordedObject(evidence.result)
    blocks = [_as_block(one) for one in _recorded_blocks(evidence.result)]
    structured = _structured_content(recorded)
    links = {base: "/result/content"}
    links |= {f"{base}/{index}/text": f"/result/content/{index}/text" for index in range(len(blocks))}
    if structured:
        links[structured] = "/result/structured_content"
    outputs = tuple(
        OutputField(f"{base}/{index}/text")
        for index, one in enumerate(_recorded_blocks(evidence.result))
        if one.text("text")
    )
    value = None if structured is None else _structured_value(recorded)
    return reading(
        evidence,
        Blocks(content=tuple(blocks), structured_content=value),
        _blocks_summary(evidence, blocks),
        links=links,
        outputs=outputs,
    )


def _structured_content(recorded: RecordedObject) -> str | None:
    if recorded.get("structuredContent") is not None:
        return "/structuredContent"
    return "/mcpMeta/structuredContent" if recorded.member("mcpMeta").get("structuredContent") is not None else None


def _structured_value(recorded: RecordedObject) -> JsonValue:
    direct = recorded.get("structuredContent")
    return recorded.member("mcpMeta").get("structuredContent") if direct is None else direct


def _as_block(one: RecordedObject) -> Block:
    """MCP's image, audio and resource blocks, and the image blocks of the Messages API."""
    source, resource = one.member("source"), one.member("resource")
    data = one.text("data") or source.text("data") or resource.text("blob")
    return Block(
        kind=one.text("type") or "unknown",
        text=one.text("text") if one.text("text") is not None else resource.text("text"),
        uri=one.text("uri") or resource.text("uri"),
        media_type=one.text("mimeType") or source.text("media_type") or resource.text("mimeType"),
        data_characters=None if data is None else len(data),
    )


def _blocks_summary(evidence: Evidence, blocks: list[Block]) -> str:
    count = f"{len(blocks)} content {'block' if len(blocks) == 1 else 'blocks'}"
    characters = sum(len(block.text or "") for block in blocks)
    return f"{evidence.tool} returned {count}, {characters} characters of text"


def _align(evidence: Evidence, text: str) -> list[Span]:
    """A text part is one block's text; where several blocks fit, none is certain."""
    if read_failure(evidence):
        return align_failure(evidence, text)
    base = _content_pointer(evidence.result)
    if base is None:
        return align_untyped(evidence, text)
    matched = [
        spans
        for index, block in enumerate(_recorded_blocks(evidence.result))
        if (spans := match_excerpt(text, block.text("text") or "", f"{base}/{index}/text"))
    ]
    if matched:
        return matched[0] if len(matched) == 1 else []
    pointer = _structured_content(RecordedObject(evidence.result))
    return [] if pointer is None else match_json(text, _structured_value(RecordedObject(evidence.result)), pointer)


FALLBACK = ToolMapping(agent="*", tools=(), version=1, read=_read, align=_align)

FAMILY = Family(
    name="external",
    title="External",
    results=(Blocks, Value, RecordedText),
    project=project_by_type({Blocks: _blocks, Value: _value}),
    renderers={"receipt": receipt_renderer(_body)},
    examples=Path(__file__).with_name("examples.json"),
)

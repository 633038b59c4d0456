"""The mapping that reads any tool of any agent, and finds in its receipts what it recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import msgspec

from envelopes.alignment.cline_receipts import AGENT as CLINE
from envelopes.alignment.cline_receipts import align_sent
from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.foreign_receipts import find_outputs, match_result
from envelopes.alignment.gemini_receipts import match_output
from envelopes.alignment.json_spans import match_json, place_in_json
from envelopes.alignment.kimi_code_receipts import AGENT as KIMI_CODE
from envelopes.alignment.kimi_code_receipts import align_answer, read_success, shown_output, typed
from envelopes.alignment.kimi_receipts import AGENT as KIMI_CLI
from envelopes.alignment.kimi_receipts import (
    OUTPUT,
    SERVER_CUT,
    ToolReturn,
    align_return,
    read_failed,
    read_output,
    read_return,
)
from envelopes.alignment.lenient_structs import RecordedObject, RecordedText, align_untyped, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.openhands_receipts import AGENT as OPENHANDS
from envelopes.alignment.openhands_receipts import align_observation
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.source_cuts import SourceCut, find_source_cuts, find_token_cuts
from envelopes.alignment.spans import Span, match_excerpt
from envelopes.alignment.vibe_receipts import AGENT as VIBE
from envelopes.alignment.vibe_receipts import read_other, vibe_mapping
from envelopes.families.base import count_noun
from envelopes.families.external.results import ContentBlock, ContentBlocks, JsonResult
from envelopes.schema.result import JsonValue

MCP_AGENTS = ("claude-code", "codex", "pi", KIMI_CODE)
GEMINI_AGENTS = ("gemini-cli", "qwen-code")
# Of agents that write the receipts of all their tools alike.
_ALIGN_OWN: dict[str, Callable[[Evidence, str], list[Span]]] = {
    OPENHANDS: align_observation,
    CLINE: align_sent,
    KIMI_CLI: align_return,
    KIMI_CODE: align_answer,
}
_HEADER = re.compile(r"Wall time: [\d.]+ seconds\nOutput:\n?")  # before what Codex sends of an MCP server's answer


def is_mcp_tool(agent: str, tool: str) -> bool:
    """Checks whether a name is `mcp__server__tool`, as four agents call tools that return content blocks."""
    server, separator, name = tool.removeprefix("mcp__").partition("__")
    is_named = agent == CLINE or (agent in MCP_AGENTS and tool.startswith("mcp__"))
    return is_named and bool(server and separator and name)


def _read(evidence: Evidence) -> Reading:
    if reader := _READ_OWN.get(evidence.agent):
        return reader(evidence)
    if failure := read_failure(evidence):
        return failure
    pointer = _find_blocks(evidence.result)
    if pointer is not None:
        return _read_blocks(evidence, pointer)
    if not evidence.has_result or isinstance(evidence.result, str):
        return read_untyped(evidence)
    returned = "null" if evidence.result is None else "a result"
    result, summary = JsonResult(evidence.result), f"{evidence.tool} returned {returned}"
    outputs, cuts = find_outputs(evidence.result), _sent_cuts(evidence)
    return reading(evidence, result, summary, links={"": "/result/value"}, outputs=outputs, source_cuts=cuts)


def _read_returned(evidence: Evidence) -> Reading:
    """A tool of Kimi CLI that no mapping names, as those of MCP servers, returns blocks or a text."""
    returned = read_return(evidence)
    if failure := read_failed(evidence, returned):
        return failure
    output = RecordedObject(evidence.result).get("output")
    if not _is_blocks(output):
        text = returned.output or returned.message
        links = {OUTPUT if returned.output else "/message": "/result/text"}
        return read_output(evidence, returned, RecordedText(text), text[:1_000].partition("\n")[0], links=links)
    content, words = read_content(output)
    texts = {f"{OUTPUT}/{index}/text": block.text for index, block in enumerate(content.content) if block.text}
    links = {OUTPUT: "/result/content"} | {at: at.replace(OUTPUT, "/result/content") for at in texts}
    cuts: tuple[SourceCut, ...] = ()
    if len(texts) > 1 and texts[last := list(texts)[-1]].startswith(SERVER_CUT):
        del texts[last]
        pointer, text = list(texts.items())[-1]
        at = text.count("\n") + 1
        cuts = (SourceCut(pointer=pointer, unit="output", start=at, end=at, lines=1),)
    return reading(
        evidence,
        content,
        f"{evidence.tool} returned {words}",
        links=links,
        outputs=tuple(OutputField(at) for at in texts),
        source_cuts=cuts,
    )


def _read_answer_parts(evidence: Evidence, answer: ToolReturn) -> Reading:
    """A tool of Kimi Code that no mapping names returns parts or a text."""
    parts = RecordedObject(evidence.result).get("output")
    if not _is_blocks(parts):
        summary = shown_output(answer)[:1_000].strip().partition("\n")[0] or f"{evidence.tool} returned no text"
        return read_success(evidence, answer, RecordedText(answer.output), summary, links={OUTPUT: "/result/text"})
    content, words = read_content(parts)
    texts = {f"{OUTPUT}/{index}/text": block.text for index, block in enumerate(content.content) if block.text}
    links = {OUTPUT: "/result/content"} | {at: at.replace(OUTPUT, "/result/content") for at in texts}
    outputs = tuple(OutputField(at) for at in texts)
    return reading(evidence, content, f"{evidence.tool} returned {words}", links=links, outputs=outputs)


# Of agents whose results, or receipts, have one form for all tools.
_READ_OWN: dict[str, Callable[[Evidence], Reading]] = {
    KIMI_CLI: _read_returned,
    KIMI_CODE: typed(_read_answer_parts),
    VIBE: vibe_mapping((), read_other).read,
}


def _find_blocks(result: JsonValue) -> str | None:
    """The pointer of the content blocks: the result itself or its `content`; None when there are none."""
    if _is_blocks(result):
        return ""
    return "/content" if isinstance(result, dict) and _is_blocks(result.get("content")) else None


def _is_blocks(value: JsonValue) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in value)
    )


def _is_printed(evidence: Evidence) -> bool:
    """True for tools of agents that send the model each text of an MCP server as it is."""
    return evidence.agent != CLINE and is_mcp_tool(evidence.agent, evidence.tool)


def _recorded_blocks(result: JsonValue) -> list[RecordedObject]:
    if isinstance(result, list):
        return [RecordedObject(block) for block in result]
    return RecordedObject(result).items("content")


def read_content(recorded: JsonValue) -> tuple[ContentBlocks, str]:
    """The content of a tool's result, decoded JSON, and its summary without the tool's name."""
    blocks = tuple(_read_block(block) for block in _recorded_blocks(recorded))
    count = count_noun(len(blocks), "content block")
    characters = sum(len(block.text or "") for block in blocks)
    content = ContentBlocks(content=blocks, structured_content=_find_structured_content(recorded)[1])
    return content, f"{count}, {count_noun(characters, 'character')} of text"


def _read_blocks(evidence: Evidence, pointer: str) -> Reading:
    recorded = _recorded_blocks(evidence.result)
    content, words = read_content(evidence.result)
    blocks = content.content
    links = {pointer: "/result/content"}
    links |= {f"{pointer}/{index}/text": f"/result/content/{index}/text" for index in range(len(blocks))}
    structured_pointer, structured = _find_structured_content(evidence.result)
    if structured_pointer:
        links[structured_pointer] = "/result/structured_content"
    if structured_pointer and match_json(_without_header(evidence), structured, structured_pointer):
        # The model got the same data in its other form, so that none of the texts is missing.
        return reading(evidence, content, f"{evidence.tool} returned {words}", links=links)
    texts = {f"{pointer}/{index}/text": text for index, block in enumerate(recorded) if (text := block.text("text"))}
    return reading(
        evidence,
        content,
        f"{evidence.tool} returned {words}",
        links=links,
        outputs=tuple(OutputField(at, claim="certain" if _is_printed(evidence) else "proven") for at in texts),
        source_cuts=_sent_cuts(evidence)
        + tuple(cut for at, text in texts.items() for cut in find_source_cuts(text, at, "server")),
    )


def _sent_cuts(evidence: Evidence) -> tuple[SourceCut, ...]:
    """The cut that Codex made in what it sent of an answer, or that the Copilot CLI made in what it recorded."""
    if evidence.agent == "copilot-cli":
        detail = RecordedObject(evidence.result).text("detailedContent") or ""
        return find_source_cuts(detail, "/detailedContent", "dropped")
    return find_token_cuts(evidence.receipt_text or "") if evidence.agent == "codex" else ()


def _without_header(evidence: Evidence) -> str:
    receipt = evidence.receipt_text or ""
    header = _HEADER.match(receipt) if evidence.agent == "codex" else None
    return receipt[header.end() :] if header else receipt


def _read_block(block: RecordedObject) -> ContentBlock:
    """Reads MCP's text, image, audio and resource blocks, and the image blocks of the Messages API."""
    source, resource = block.member("source"), block.member("resource")
    data = block.text("data") or source.text("data") or resource.text("blob")
    return ContentBlock(
        kind=block.text("type") or "unknown",
        text=block.text("text") if block.text("text") is not None else resource.text("text"),
        uri=block.text("uri") or resource.text("uri"),
        media_type=block.text("mimeType") or source.text("media_type") or resource.text("mimeType"),
        data_characters=None if data is None else len(data),
    )


def _find_structured_content(result: JsonValue) -> tuple[str, JsonValue]:
    """The pointer and the value of structured content; an empty pointer when there is none."""
    recorded = RecordedObject(result)
    for pointer, holder in (("", recorded), ("/mcpMeta", recorded.member("mcpMeta"))):
        for name in ("structuredContent", "structured_content"):  # the second by `codex exec --json`
            if (value := holder.get(name)) is not None:
                return f"{pointer}/{name}", value
    return "", None


def _align(evidence: Evidence, text: str) -> list[Span]:
    """Links a text part to the one block with that text; where several blocks fit, to none."""
    if align_own := _ALIGN_OWN.get(evidence.agent):
        return align_own(evidence, text)
    if read_failure(evidence):
        return align_failure(evidence, text)
    if evidence.agent == "codex" and (header := _HEADER.match(text)):
        spans, start = _align(evidence, text[header.end() :]), header.end()
        return [msgspec.structs.replace(span, start=span.start + start, end=span.end + start) for span in spans]
    pointer = _find_blocks(evidence.result)
    structured_pointer, structured = _find_structured_content(evidence.result)
    if pointer is None:
        spans = align_untyped(evidence, text) or _align_shown(evidence, text)
        spans = spans or (match_json(text, structured, structured_pointer) if structured_pointer else [])
        return spans or match_result(evidence.result, text)
    matches = [
        spans
        for index, block in enumerate(_recorded_blocks(evidence.result))
        if (spans := match_excerpt(text, block.text("text") or "", f"{pointer}/{index}/text"))
    ]
    if matches:
        return matches[0] if len(matches) == 1 else []
    spans = match_json(text, structured, structured_pointer) if structured_pointer else []
    spans = spans or list(_align_saved(evidence.result, pointer, text))
    return spans or ([] if _is_printed(evidence) else match_result(evidence.result, text))


def _align_saved(result: JsonValue, pointer: str, text: str) -> Iterator[Span]:
    """Links the texts in a preview of the blocks' JSON, as which Claude Code saves an answer that is too long."""
    preview = find_output_preview(text)
    if preview is None:
        return
    blocks, shown = _recorded_blocks(result), text[: preview.end]
    whole = json.dumps([block.recorded for block in blocks], ensure_ascii=False, indent=2)
    if preview.start == preview.end or not whole.startswith(shown[preview.start :]):
        return
    at = 0
    for index, block in enumerate(blocks):
        if (value := block.text("text")) is not None:
            opening = '\n    "text": '
            at = whole.index(opening + json.dumps(value, ensure_ascii=False), at) + len(f'{opening}"')
            spans = [Span(0, len(value), f"{pointer}/{index}/text", 0, len(value))]
            yield from place_in_json(shown, preview.start + at, spans)


def _align_shown(evidence: Evidence, text: str) -> list[Span]:
    """Links what the Gemini CLI and Qwen Code show of an output between tags, or as a preview."""
    output = evidence.result
    if evidence.agent not in GEMINI_AGENTS or not isinstance(output, str):
        return []
    return match_output(text, output, evidence.tool)


FALLBACK_MAPPING = ToolMapping(agent="*", tools=(), version=9, read=_read, align=_align)

"""Content blocks, as the Model Context Protocol returns them, or any other JSON; and the bounded forms of both."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from envelopes.families.base import Projection, Projector, ResultMembers, count_fitting, without_nulls
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import ArtifactRef, JsonValue, to_members
from envelopes.text.outline import outline_text

ROWS_SHARE = 2  # of the preview budget: the rows with all their fields, beside the budget of their texts
ROW_CHARACTERS = 160


class ContentBlock(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is None for a block without one; `data_characters` is the length of base64 data, which is left out.

    `data_path` is the virtual path of the artifact that holds the data, where it was kept.
    """

    kind: str
    text: str | None = None
    uri: str | None = None
    media_type: str | None = None
    data_characters: int | None = None
    data_path: str | None = None


class ContentBlocks(msgspec.Struct, frozen=True, kw_only=True):
    content: tuple[ContentBlock, ...] = ()
    structured_content: JsonValue = None


class JsonResult(msgspec.Struct, frozen=True):
    value: JsonValue


def _project_blocks(result: ContentBlocks, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """The texts share one budget, in order; what one leaves goes to the next."""
    limit = count_fitting(_row_sizes(result.content, policy), rows=policy.rows, characters=ROWS_SHARE * policy.preview)
    room = policy.preview
    rows: list[JsonValue] = []
    for index, block in enumerate(result.content[:limit]):
        text: ResultMembers = {}
        if block.text is not None:
            preview, artifact = projector.preview(f"content/{index}/text", block.text, room, role="text")
            text = {"text": preview, "text_artifact": artifact}
            room = max(room - len(block.text), 0)
        facts = {"uri": block.uri, "media_type": block.media_type, "data_characters": block.data_characters}
        kept = None if block.data_path is None else projector.refer(ArtifactRef(block.data_path))
        rows.append(without_nulls({"type": block.kind, **text, **facts, "data_artifact": kept}))
    members: ResultMembers = {"content": rows}
    if omitted := len(result.content) - len(rows):
        # One block a line, so that a slice of the artifact is readable.
        lines = "\n".join(json.dumps(to_members(block), ensure_ascii=False) for block in result.content)
        projector.rows("content", [None] * len(result.content), len(rows))
        members |= {"content_omitted": omitted, "content_artifact": projector.store("content", lines)}
    if result.structured_content is not None:
        text_name, role = "structured_content_text", "structured_content"
        members |= _project_json("structured_content", result.structured_content, projector, policy, text_name, role)
    return members


def _row_sizes(content: Iterable[ContentBlock], policy: ProjectionPolicy) -> Iterable[int]:
    """At most what each row will have: names, a marker and the path of an artifact, besides its text."""
    room = policy.preview
    for block in content:
        used = min(len(block.text or ""), room)
        room -= used
        yield used + ROW_CHARACTERS + len(block.kind) + len(block.uri or "") + len(block.media_type or "")


def _project_json(
    name: str, value: JsonValue, projector: Projector, policy: ProjectionPolicy, text_name: str, role: str
) -> ResultMembers:
    """The value under `name`; as an outline under `text_name` when that is longer than the preview may be."""
    text = outline_text(value)
    if len(text) <= policy.preview:
        return {name: value}
    return projector.text(text_name, text, policy.preview, role=role)


def _project_result(result: JsonResult, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return _project_json("value", result.value, projector, policy, "text", "recorded")


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {ContentBlocks: _project_blocks, JsonResult: _project_result}

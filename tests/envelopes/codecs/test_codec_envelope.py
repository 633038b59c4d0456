"""Envelopes in Holon's form, and receipts as content blocks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.codecs import content_blocks, holon
from envelopes.codecs.content_blocks import ReceiptBlocks
from envelopes.schema.receipt import ImagePart, OtherPart, Receipt, Segment, TextPart, image_part
from envelopes.schema.result import ArtifactRef, CanonicalResult, ToolError, summarize
from envelopes.text.untrusted_json import Untrusted, dump_json
from tests.envelopes.settled import (
    JSON,
    MAYBE_TEXT,
    NAME,
    OBJECT,
    ODD_TEXT,
    TEXT,
)


def envelope(result: Any, *paths: str) -> CanonicalResult:
    artifacts = tuple(ArtifactRef(path) for path in paths)
    return CanonicalResult(tool_name="T", status="success", summary_text="s", result=result, artifacts=artifacts)


PATHS = st.lists(NAME.map(ArtifactRef), max_size=3).map(tuple)
# Results that resemble results with artifacts, and results that have artifacts already.
POINTING = st.recursive(
    JSON,
    lambda inner: (
        st.dictionaries(
            st.sampled_from(["task", "artifacts", "stdout_artifact", "path", "items"]),
            inner | st.integers(0, 3) | st.just([{"path": "p"}]),
            max_size=3,
        )
        | st.lists(inner, max_size=2)
    ),
    max_leaves=6,
)
SUMMARY = NAME.map(summarize).filter(bool)
CANONICALS = st.builds(
    CanonicalResult,
    tool_name=NAME,
    status=st.just("success"),
    summary_text=SUMMARY,
    result=POINTING.filter(lambda value: value is not None),
    artifacts=PATHS,
) | st.builds(
    CanonicalResult,
    tool_name=NAME,
    status=st.just("error"),
    summary_text=SUMMARY,
    error=st.builds(
        ToolError,
        kind=NAME,
        message=TEXT,
        details=st.none() | OBJECT,
        recovery_hint=MAYBE_TEXT,
        retryable=st.booleans(),
    ),
    artifacts=PATHS,
)


@given(CANONICALS)
def test_any_envelope_comes_back_from_holons(canonical: CanonicalResult) -> None:
    written = holon.encode(canonical)
    assert holon.decode(written) == canonical
    assert None not in written.values()


@pytest.mark.parametrize(
    ("result", "written"),
    [
        (
            {"stdout_preview": "a", "stdout_artifact": 0},
            {"stdout_preview": "a", "stdout_artifact": 0, "artifacts": [{"path": "p"}]},
        ),
        (
            {"retrieval_status": "success", "task": {"task_id": "t1", "output_artifact": 0}},
            {
                "retrieval_status": "success",
                "task": {"task_id": "t1", "output_artifact": 0, "artifacts": [{"path": "p"}]},
            },
        ),
        ({"a": None, "b": {"c": 1}}, {"a": None, "b": {"c": 1}, "artifacts": [{"path": "p"}]}),
        ({"a": {"x_artifact": True}}, {"a": {"x_artifact": True}, "artifacts": [{"path": "p"}]}),
    ],
)
def test_artifacts_are_written_beside_the_fields_that_point_at_them(result: Any, written: Any) -> None:
    assert holon.encode(envelope(result, "p")) == {
        "tool_name": "T",
        "status": "success",
        "summary_text": "s",
        "result": written,
    }
    assert holon.decode({"tool_name": "T", "status": "success", "summary_text": "s", "result": written}) == envelope(
        result, "p"
    )


def test_an_object_that_occurs_in_two_positions_gets_its_artifacts_once() -> None:
    shared = {"stdout_artifact": 0}
    canonical = envelope({"first": shared, "second": shared}, "p")
    assert holon.decode(holon.encode(canonical)) == canonical


@pytest.mark.parametrize("result", [[1], "text", {"artifacts": 3}, {"artifacts": [{"path": "own"}]}])
def test_artifacts_without_a_place_in_the_result_stay_at_the_top(result: Any) -> None:
    written = holon.encode(envelope(result, "p"))
    assert written["artifacts"] == [{"path": "p"}]
    assert written["result"] == result


def test_an_errors_artifacts_stay_at_the_top_and_its_nulls_are_left_out() -> None:
    error = ToolError(kind="k", message="m", retryable=False)
    canonical = CanonicalResult(
        tool_name="T", status="error", summary_text="s", error=error, artifacts=(ArtifactRef("p"),)
    )
    assert holon.encode(canonical) == {
        "tool_name": "T",
        "status": "error",
        "summary_text": "s",
        "error": {"kind": "k", "message": "m", "retryable": False},
        "artifacts": [{"path": "p"}],
    }


def test_artifacts_of_several_items_become_one_list_and_their_indexes_move() -> None:
    items = [
        {"index": 1, "result": {"stdout_artifact": 0, "artifacts": [{"path": "a"}]}},
        {
            "index": 2,
            "result": {"stdout_artifact": 0, "stderr_artifact": 1, "artifacts": [{"path": "b"}, {"path": "c"}]},
        },
        {"index": 3, "result": {"stdout_artifact": None}},
    ]
    canonical = holon.decode({"tool_name": "T", "status": "success", "summary_text": "s", "result": {"items": items}})
    assert canonical.artifacts == (ArtifactRef("a"), ArtifactRef("b"), ArtifactRef("c"))
    assert canonical.result == {
        "items": [
            {"index": 1, "result": {"stdout_artifact": 0}},
            {"index": 2, "result": {"stdout_artifact": 1, "stderr_artifact": 2}},
            {"index": 3, "result": {"stdout_artifact": None}},
        ]
    }


def test_artifacts_with_more_than_a_path_belong_to_the_tool() -> None:
    result = {"artifacts": [{"path": "a", "size": 1}], "more": {"artifacts": [{"path": 1}]}}
    assert holon.decode({"tool_name": "T", "status": "success", "summary_text": "s", "result": result}) == envelope(
        result
    )


@pytest.mark.parametrize(
    ("document", "summary_text"),
    [
        ({"status": "success", "result": {}}, "T gave no summary"),
        ({"status": "error", "error": {"kind": "k", "message": "no\ndisk"}}, "no disk"),
        ({"status": "error", "error": {"kind": "k", "message": ""}}, "T gave no summary"),
    ],
)
def test_a_summary_that_holon_leaves_out_is_filled_in(document: dict[str, Any], summary_text: str) -> None:
    canonical = holon.decode({"tool_name": "T"} | document)
    assert canonical.summary_text == summary_text
    assert canonical.error is None or canonical.error.retryable is False


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        ({"result": {"task": 1}}, {"task": 1, "disposition": "deferred"}),
        ({"result": "soon"}, {"value": "soon", "disposition": "deferred"}),
        ({}, {"disposition": "deferred"}),
    ],
)
def test_a_deferred_call_succeeded_with_that_disposition(fields: dict[str, Any], result: Any) -> None:
    canonical = holon.decode({"tool_name": "T", "status": "deferred", "summary_text": "s"} | fields)
    assert canonical == envelope(result)


@pytest.mark.parametrize(
    ("document", "path", "reason"),
    [
        ([], "$", "an envelope is an object"),
        ({"tool_name": 1, "status": "success", "result": 1}, "$.tool_name", "Expected `str`"),
        ({"tool_name": "T", "status": "odd", "result": 1}, "$.status", "Invalid enum value"),
        ({"tool_name": "T", "status": "success"}, "$", "neither a result nor an error"),
        ({"tool_name": "T", "result": 1}, "$", "missing required field"),
        ({"tool_name": "T", "status": "success", "result": 1, "artifacts": [{}]}, "$.artifacts[0]", "missing required"),
    ],
)
def test_a_value_other_than_an_envelope_is_refused(document: Any, path: str, reason: str) -> None:
    with pytest.raises(Untrusted) as refused:
        holon.decode(document)
    assert refused.value.path == path
    assert reason in refused.value.reason


def test_a_receipt_is_one_text_block_and_its_artifacts() -> None:
    receipt = Receipt((TextPart((Segment("Exit ", "label"), Segment("0", "value"))),))
    assert content_blocks.encode(ReceiptBlocks(receipt)) == {"content": [{"type": "text", "text": "Exit 0"}]}
    assert content_blocks.encode(ReceiptBlocks(receipt, (ArtifactRef("a"),))) == {
        "content": [{"type": "text", "text": "Exit 0"}],
        "artifacts": [{"path": "a"}],
    }


def test_a_tool_use_block_is_kept_untouched() -> None:
    tool_use = {"type": "tool_use", "id": "toolu_1", "name": "T", "input": {"n": 2**70, "text": "\ud800"}}
    blocks = content_blocks.decode({"content": [tool_use]})
    [part] = blocks.receipt.parts
    assert isinstance(part, OtherPart)
    assert part.kind == "tool_use"
    assert content_blocks.encode(blocks) == {"content": [tool_use]}


def test_an_image_is_read_as_one() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8h"}
    blocks = content_blocks.decode({"content": [{"type": "image", "source": source}]})
    assert blocks.receipt.parts == (ImagePart("image/png", "aGVsbG8h", 6),)
    assert content_blocks.encode(blocks) == {"content": [{"type": "image", "source": source}]}


def test_a_text_in_place_of_blocks_is_one_block() -> None:
    assert content_blocks.decode({"content": "done", "artifacts": None}).receipt.text == "done"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": 1},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa", "more": 1}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}, "more": 1},
        {"type": "thinking", "thinking": "…"},
    ],
)
def test_a_block_that_no_part_holds_whole_is_kept_as_its_json(block: dict[str, Any]) -> None:
    blocks = content_blocks.decode({"content": [block]})
    assert isinstance(blocks.receipt.parts[0], OtherPart)
    assert content_blocks.encode(blocks) == {"content": [block]}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (None, "$"),
        ({"text": "a"}, "$"),
        ({"content": 3}, "$.content"),
        ({"content": [{"type": "text", "text": "a"}, "b"]}, "$.content[1]"),
        ({"content": [{"text": "a"}]}, "$.content[0]"),
        ({"content": [], "artifacts": [{"name": "a"}]}, "$.artifacts"),
    ],
)
def test_a_value_other_than_a_list_of_blocks_is_refused(document: Any, path: str) -> None:
    with pytest.raises(Untrusted) as refused:
        content_blocks.decode(document)
    assert refused.value.path == path


BLOCKS = st.builds(
    ReceiptBlocks,
    st.lists(
        st.builds(lambda text: TextPart((Segment(text, "label"),)), ODD_TEXT)
        | st.builds(lambda data: image_part("image/png", data), TEXT)
        | st.builds(
            lambda used: OtherPart("tool_use", dump_json({"type": "tool_use", "input": used}).decode()), OBJECT
        ),
        max_size=4,
    ).map(lambda parts: Receipt(tuple(parts))),
    PATHS,
)


@given(BLOCKS)
def test_any_receipt_comes_back_from_its_blocks(blocks: ReceiptBlocks) -> None:
    assert content_blocks.decode(content_blocks.encode(blocks)) == blocks


@given(st.lists(st.lists(st.builds(Segment, TEXT, st.just("value")), max_size=3), max_size=3))
def test_a_receipt_of_texts_never_becomes_a_tool_use(texts: list[list[Segment]]) -> None:
    receipt = Receipt(tuple(TextPart(tuple(segments)) for segments in texts))
    written = content_blocks.encode(ReceiptBlocks(receipt))
    assert {block["type"] for block in written["content"]} <= {"text"}  # type: ignore[union-attr,index,call-overload]
    assert content_blocks.decode(written).receipt.text == receipt.text

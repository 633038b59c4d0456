"""From recorded bytes to both halves."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from envelopes.alignment.mapping import Evidence, Reading
from envelopes.families import external, registry
from envelopes.families.external import any_agent
from envelopes.halves import Halves, lint_recorded, read_halves
from envelopes.schema.receipt import ImagePart, OtherPart, Part, Segment, SegmentSource, TextPart
from envelopes.schema.result import CanonicalResult
from envelopes.storage.file_store import MemorySink

OUTPUT = "one\ntwo\n"


def halves(**more: Any) -> Halves:
    result = json.dumps({"stdout": OUTPUT, "stderr": "", "interrupted": False}).encode()
    content = json.dumps("one\ntwo").encode()
    return read_halves(
        agent="claude-code", tool="Bash", args=b"{}", result=result, content=content, is_error=False, **more
    )


@pytest.mark.parametrize(
    ("kept_under", "summary"), [("command:claude-code:2", "as it was stored"), ("command:other:1", "")]
)
def test_an_envelope_that_is_stored_under_the_mapping_is_not_made_again(kept_under: str, summary: str) -> None:
    fresh = halves()
    kept = msgspec.structs.replace(fresh.projection.canonical, summary_text="as it was stored")

    def stored(mapping: str) -> CanonicalResult | None:
        return kept if mapping == kept_under else None

    found = halves(stored=stored)
    assert found.projection.canonical.summary_text == (summary or fresh.projection.canonical.summary_text)
    assert (found.receipt, found.outputs, found.mapping) == (fresh.receipt, fresh.outputs, "command:claude-code:2")


@pytest.mark.parametrize("space", ["\n\n", " \t\r\n", "\u2003\u00a0\u3000\ufeff\n"])
def test_white_space_that_the_agent_trims_is_not_linked(space: str) -> None:
    result = json.dumps({"stdout": OUTPUT.rstrip() + space, "stderr": "", "interrupted": False}).encode()
    found = read_halves(
        agent="claude-code", tool="Bash", args=b"{}", result=result, content=b'"one\\ntwo"', is_error=False
    )
    assert found.receipt is not None
    (segment,) = found.receipt.segments
    assert segment.text == "one\ntwo"
    assert segment.source is not None
    assert (segment.source.pointer, segment.source.start, segment.source.end) == ("/stdout", 0, 7)


def recorded(content: object, *, args: bytes = b"{}", result: bytes | None = b'"a"') -> Halves:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return read_halves(agent="claude-code", tool="Bash", args=args, result=result, content=raw, is_error=False)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ({"type": "text", "text": "a"}, TextPart((Segment("a", "value", SegmentSource("complete", "", 0, 1)),))),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
            ImagePart("image/png", "QUJD", 3),
        ),
        ("a", TextPart((Segment("a", "value", SegmentSource("complete", "", 0, 1)),))),
        ({"type": "image", "source": {"url": "x"}}, OtherPart("image", '{"type":"image","source":{"url":"x"}}')),
        ({"type": "text", "text": 5}, OtherPart("text", '{"type":"text","text":5}')),
        ({"id": 1}, OtherPart("object", '{"id":1}')),
        (7, OtherPart("int", "7")),
    ],
)
def test_each_block_of_a_recorded_receipt_is_a_part(content: object, part: Part) -> None:
    found = recorded([content])
    assert found.receipt is not None
    assert found.receipt.parts == (part,)


def test_a_receipt_that_is_neither_text_nor_a_list_is_one_part_of_its_own_kind() -> None:
    found = recorded({"type": "document", "title": "x"})
    assert found.receipt is not None
    assert found.receipt.parts == (OtherPart("document", '{"type":"document","title":"x"}'),)


def test_surfaces_that_cannot_be_decoded_are_noted_and_taken_as_absent() -> None:
    found = recorded(b"\xff", args=b'{"command":', result=b"[1 2]")
    receipt, args, result = found.note.split("; ")
    assert receipt == "receipt: not UTF-8 at byte 0: ff"
    assert args.startswith("args: ")
    assert result.startswith("result: ")
    assert (found.evidence.args, found.evidence.result, found.evidence.has_result) == (None, None, True)


def test_a_call_without_a_recorded_receipt_has_none_and_nothing_to_find_fault_with() -> None:
    found = read_halves(
        agent="claude-code", tool="Bash", args=b"{}", result=b'"a"', content=None, is_error=False, sink=MemorySink()
    )
    assert (found.receipt, found.evidence.receipt_text, lint_recorded(found)) == (None, None, ())


def test_a_recorded_marker_that_does_not_say_how_much_is_missing_is_found_fault_with() -> None:
    result = json.dumps({"stdout": "one\ntwo\nthree", "stderr": "", "interrupted": False}).encode()
    said = recorded("one\n\n... [1 lines truncated] ...\n\nthree", result=result)
    unsaid = recorded("one\n... [output truncated]", result=result)
    assert [(one.field.pointer, one.cut.shown) for one in said.outputs] == [("/stdout", ((0, 1), (2, 3)))]
    assert lint_recorded(said) == ()
    assert [finding.rule for finding in lint_recorded(unsaid)] == ["marker_without_size"]


def test_an_output_that_is_empty_has_no_lines_to_show() -> None:
    found = read_halves(
        agent="claude-code",
        tool="WebFetch",
        args=b"{}",
        result=b'{"url":"https://a.example/","result":""}',
        content=b'""',
        is_error=False,
    )
    assert [one.pointer for one in found.reading.outputs] == ["/result"]
    assert found.outputs == ()


def test_a_call_that_no_mapping_can_read_is_kept_as_nothing_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(evidence: Evidence) -> Reading:
        raise LookupError("odd")

    of_nothing = any_agent.FALLBACK_MAPPING.read
    broken = msgspec.structs.replace(registry.find_mapping("claude-code", "Bash")[1], read=raises)
    wary = msgspec.structs.replace(
        any_agent.FALLBACK_MAPPING,
        read=lambda evidence: of_nothing(evidence) if evidence.result is None else raises(evidence),
    )
    monkeypatch.setitem(registry._mappings(), ("claude-code", "Bash"), (registry.family("command"), broken))
    monkeypatch.setattr("envelopes.halves.FALLBACK", (external.FAMILY, wary))
    found = recorded("a")
    assert (found.family, found.projection.canonical.status) == ("external", "success")
    assert found.note == (
        "command could not read this call (LookupError: odd); external could not read this call (LookupError: odd)"
    )
    assert found.receipt is not None
    assert [(segment.text, segment.source) for segment in found.receipt.segments] == [("a", None)]


def test_of_a_long_list_that_is_no_json_the_rest_is_still_shown() -> None:
    good = json.dumps({"mode": "files_with_matches", "filenames": ["a.py"] * 400, "numFiles": 400}).encode()
    kept = read_halves(agent="claude-code", tool="Grep", args=b"{}", result=good, content=b'"a.py"', is_error=False)
    broken = read_halves(
        agent="claude-code",
        tool="Grep",
        args=b"{}",
        result=b"{" + good,
        content=b'"a.py"',
        is_error=False,
        stored=lambda _mapping: kept.projection.canonical,
        first=8,
    )
    assert broken.receipt is not None
    assert broken.receipt.text == "a.py"
    assert broken.note.startswith("result: ")

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
from envelopes.storage.sinks import MemorySink

OUTPUT = "one\ntwo\n"


def halves(**more: Any) -> Halves:
    result = json.dumps({"stdout": OUTPUT, "stderr": "", "interrupted": False}).encode()
    content = json.dumps("one\ntwo").encode()
    return read_halves(
        agent="claude-code", tool="Bash", args=b"{}", result=result, content=content, is_error=False, **more
    )


@pytest.mark.parametrize(
    ("mapping_key", "summary"), [("command:claude-code:7", "as it was stored"), ("command:other:1", "")]
)
def test_an_envelope_that_is_stored_under_the_mapping_is_not_made_again(mapping_key: str, summary: str) -> None:
    fresh = halves()
    stored_envelope = msgspec.structs.replace(fresh.projection.canonical, summary_text="as it was stored")

    def stored(mapping: str) -> CanonicalResult | None:
        return stored_envelope if mapping == mapping_key else None

    reread = halves(stored=stored)
    assert reread.projection.canonical.summary_text == (summary or fresh.projection.canonical.summary_text)
    assert (reread.receipt, reread.outputs, reread.mapping) == (fresh.receipt, fresh.outputs, "command:claude-code:7")


@pytest.mark.parametrize("space", ["\n\n", " \t\r\n", "\u2003\u00a0\u3000\ufeff\n"])
def test_white_space_that_the_agent_trims_is_not_linked(space: str) -> None:
    result = json.dumps({"stdout": OUTPUT.rstrip() + space, "stderr": "", "interrupted": False}).encode()
    read_again = read_halves(
        agent="claude-code", tool="Bash", args=b"{}", result=result, content=b'"one\\ntwo"', is_error=False
    )
    assert read_again.receipt is not None
    (segment,) = read_again.receipt.segments
    assert segment.text == "one\ntwo"
    assert segment.source is not None
    assert (segment.source.pointer, segment.source.start, segment.source.end) == ("/stdout", 0, 7)


def recorded(content: object, *, args: bytes = b"{}", result: bytes | None = b'"a"', **more: Any) -> Halves:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    return read_halves(agent="claude-code", tool="Bash", args=args, result=result, content=raw, is_error=False, **more)


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
    read_back = recorded([content])
    assert read_back.receipt is not None
    assert read_back.receipt.parts == (part,)


def test_a_receipt_that_is_neither_text_nor_a_list_is_one_part_of_its_own_kind() -> None:
    read_back = recorded({"type": "document", "title": "x"})
    assert read_back.receipt is not None
    assert read_back.receipt.parts == (OtherPart("document", '{"type":"document","title":"x"}'),)


def test_surfaces_that_cannot_be_decoded_are_noted_and_taken_as_absent() -> None:
    read_back = recorded(b"\xff", args=b'{"command":', result=b"[1 2]")
    receipt, args, result = read_back.note.split("; ")
    assert receipt == "receipt: not UTF-8 at byte 0: ff"
    assert args.startswith("args: ")
    assert result.startswith("result: ")
    assert (read_back.evidence.args, read_back.evidence.result, read_back.evidence.has_result) == (None, None, False)


def test_a_call_without_a_recorded_receipt_has_none_and_nothing_to_find_fault_with() -> None:
    read_back = read_halves(
        agent="claude-code", tool="Bash", args=b"{}", result=b'"a"', content=None, is_error=False, sink=MemorySink()
    )
    assert (read_back.receipt, read_back.evidence.receipt_text, lint_recorded(read_back)) == (None, None, ())


def test_a_recorded_marker_that_does_not_say_how_much_is_missing_is_found_fault_with() -> None:
    result = json.dumps({"stdout": "one\ntwo\nthree", "stderr": "", "interrupted": False}).encode()
    stated = recorded("one\n\n... [1 lines truncated] ...\n\nthree", result=result)
    unstated = recorded("one\n... [output truncated]", result=result)
    assert [(output.field.pointer, output.cut.shown) for output in stated.outputs] == [("/stdout", ((0, 1), (2, 3)))]
    assert lint_recorded(stated) == ()
    assert [finding.rule for finding in lint_recorded(unstated)] == ["marker_without_size"]


def test_an_output_that_is_empty_has_no_lines_to_show() -> None:
    empty = read_halves(
        agent="claude-code",
        tool="WebFetch",
        args=b"{}",
        result=b'{"url":"https://a.example/","result":""}',
        content=b'""',
        is_error=False,
    )
    assert [field.pointer for field in empty.reading.outputs] == ["/result"]
    assert empty.outputs == ()


@pytest.mark.parametrize("answer", [None, b'"b"'])
def test_a_call_that_no_mapping_can_read_has_no_result_and_a_reason(
    answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(evidence: Evidence) -> Reading:
        raise LookupError("odd")

    of_nothing = any_agent.FALLBACK_MAPPING.read
    broken = msgspec.structs.replace(registry.find_mapping("claude-code", "Bash")[1], read=raises)
    wary = msgspec.structs.replace(
        any_agent.FALLBACK_MAPPING,
        read=lambda evidence: of_nothing(evidence) if evidence.receipt_text is None else raises(evidence),
    )
    monkeypatch.setitem(registry._mappings(), ("claude-code", "Bash"), (registry.family("command"), broken))
    monkeypatch.setattr("envelopes.halves.FALLBACK", (external.FAMILY, wary))
    read_back = recorded("a", answer=answer, is_answer_sent=answer is not None)
    assert (read_back.family, read_back.projection.canonical.status) == ("external", "success")
    assert read_back.note == (
        "command could not read this call (LookupError: odd); external could not read this call (LookupError: odd)"
    )
    assert read_back.receipt is not None
    assert [(segment.text, segment.source) for segment in read_back.receipt.segments] == [("a", None)]


def test_of_a_long_list_that_is_no_json_the_rest_is_still_shown() -> None:
    good = json.dumps({"mode": "files_with_matches", "filenames": ["a.py"] * 400, "numFiles": 400}).encode()
    whole = read_halves(agent="claude-code", tool="Grep", args=b"{}", result=good, content=b'"a.py"', is_error=False)
    broken = read_halves(
        agent="claude-code",
        tool="Grep",
        args=b"{}",
        result=b"{" + good,
        content=b'"a.py"',
        is_error=False,
        stored=lambda _mapping: whole.projection.canonical,
        first=8,
    )
    assert broken.receipt is not None
    assert broken.receipt.text == "a.py"
    assert broken.note.startswith("result: ")


def test_the_first_receipt_tells_what_came_back_where_another_one_took_its_place() -> None:
    cut = "\n[... omitted 880 of 900 lines ...]\n\n"
    failed = json.dumps(f"Exit code: 2\nTotal output lines: 900\nOutput:\nmake: no target\n{cut}end").encode()
    call: dict[str, Any] = {"agent": "codex", "tool": "shell", "args": b'{"command":["make"]}', "is_error": None}
    first = read_halves(**call, result=None, content=failed)
    later = read_halves(**call, result=None, content=b'"[cleared]"', answer=failed)
    assert first.projection.canonical == later.projection.canonical
    assert first.projection.canonical.result["exit_status"] == 2
    assert later.receipt is not None
    assert (later.receipt.text, first.is_cut, later.is_cut) == ("[cleared]", True, False)
    recorded = read_halves(**call, result=b'{"exit_code": 0, "stdout": "ok"}', content=b'"[cleared]"', answer=failed)
    assert recorded.projection.canonical.result["exit_status"] == 0


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Exit code 1", []),
        ("Exit code 3\nboom", [(1, 1)]),
        ("Exit code 4\n\n\nx", [(3, 3)]),
        ("Exit code 143\nCommand timed out after 1s", []),
        ("Exit code 143\nCommand timed out after 2m 0.0s\nhalf\nof it", [(2, 2)]),
        ("Exit code 143\nCommand timed out after 2m 0.0s half", [(1, 1)]),
    ],
)
def test_what_the_agent_writes_before_an_output_is_no_line_of_it(text: str, lines: list[tuple[int, int]]) -> None:
    result, content = json.dumps(f"Error: {text}").encode(), json.dumps(text).encode()
    failed = read_halves(agent="claude-code", tool="Bash", args=b"{}", result=result, content=content, is_error=True)
    assert [(output.complete.shown_count, output.complete.total) for output in failed.outputs] == lines

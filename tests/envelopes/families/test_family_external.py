from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.alignment.gemini_receipts import match_output
from envelopes.alignment.mapping import Evidence
from envelopes.families.external import FAMILY
from envelopes.families.external.any_agent import FALLBACK_MAPPING, is_mcp_tool
from envelopes.halves import read_halves
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.result import JsonValue
from envelopes.storage.sinks import MemorySink


def recorded(result: JsonValue, receipt: str = "", *, is_error: bool | None = None) -> Evidence:
    return Evidence(
        agent="claude-code",
        tool="mcp__tracker__get",
        args={},
        result=result,
        has_result=True,
        receipt_text=receipt,
        is_error=is_error,
    )


def linked(result: JsonValue, receipt: str) -> list[tuple[str, str]]:
    spans = FALLBACK_MAPPING.align(recorded(result, receipt), receipt)
    return [(span.pointer, receipt[span.start : span.end]) for span in sorted(spans)]


def receipt_text(result: JsonValue) -> str:
    complete = FALLBACK_MAPPING.read(recorded(result)).complete
    return render(project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical, FAMILY, FAMILY.rendering).text


ROWS = "\n".join(f"the row {number}" for number in range(1, 101))
FIRST, LAST = "the row 1\nthe row 2\nthe row 3", "the row 98\nthe row 99\nthe row 100"
LIMIT = "[OUTPUT TRUNCATED - exceeded 25000 token limit]\n\nThe tool output was truncated. Use pagination."
SAVED = "Error: result (71,204 characters) exceeds maximum allowed tokens. Output has been saved to /t/m.txt."


@pytest.mark.parametrize(
    ("texts", "cut"),
    [
        (["one", f"two\n\n{LIMIT}"], ["/1/text"]),
        (["one", LIMIT], ["/1/text"]),
        ([SAVED], ["/0/text"]),
        ([f"The server explains: {SAVED}", "... [truncated]"], []),
    ],
)
def test_what_the_client_cut_out_of_the_answer_of_a_server_is_cut(texts: list[str], cut: list[str]) -> None:
    reading = FALLBACK_MAPPING.read(recorded([{"type": "text", "text": text} for text in texts]))
    assert [source_cut.pointer for source_cut in reading.source_cuts] == cut
    assert reading.fidelity == ("bounded" if cut else "structured")


SAVED_HEAD = "<persisted-output>\nOutput too large (75.1KB). Full output saved to: /t/1.json\n\nPreview (first 2KB):\n"
LINES = "\n".join(f'the "row" {number}\tof C:\\temp' for number in range(3_000))


@pytest.mark.parametrize("seen", [0, 1, 40])
@pytest.mark.parametrize("before", [[], [{"type": "text", "text": "the head"}, {"type": "image", "data": "aaaa"}]])
def test_a_preview_of_the_json_of_an_answer_shows_lines_of_it(before: list[JsonValue], seen: int) -> None:
    blocks = [*before, {"type": "text", "text": LINES}]
    whole = json.dumps(blocks, ensure_ascii=False, indent=2)
    preview = whole[: whole.index(json.dumps(f'the "row" {seen}')[1:-1]) + len("the")]
    halves = read_halves(
        agent="claude-code",
        tool="mcp__demo__huge",
        args=b"{}",
        result=json.dumps(blocks).encode(),
        content=json.dumps(f"{SAVED_HEAD}{preview}\n...\n</persisted-output>").encode(),
        is_error=None,
    )
    counts = [(output.cut.shown_count, output.cut.total) for output in halves.known_outputs]
    assert counts == [*([(1, 1)] if before else []), (seen, 3_000)]
    assert halves.is_cut


def test_a_preview_in_an_unknown_form_says_nothing_of_lines() -> None:
    preview = "<answer>\n" + "".join(f"<line>the row {number}</line>\n" for number in range(60))
    halves = read_halves(
        agent="claude-code",
        tool="mcp__demo__huge",
        args=b"{}",
        result=json.dumps([{"type": "text", "text": LINES}]).encode(),
        content=json.dumps(f"{SAVED_HEAD}{preview}...\n</persisted-output>").encode(),
        is_error=None,
    )
    assert (halves.known_outputs, halves.is_cut) == ((), True)


@pytest.mark.parametrize(
    ("agent", "tool", "known"),
    [
        ("claude-code", "mcp__linear-server__get_issue", True),
        ("claude-code", "mcp__ide__getDiagnostics", True),
        ("claude-code", "mcp__lonely", False),
        ("claude-code", "mcp____x", False),
        ("claude-code", "Frobnicate", False),
        ("codex", "mcp__linear-server__get_issue", True),
        ("gemini-cli", "mcp__linear-server__get_issue", False),
    ],
)
def test_only_namespaced_tools_of_two_agents_have_a_typed_mapping(agent: str, tool: str, known: bool) -> None:  # noqa: FBT001
    assert is_mcp_tool(agent, tool) is known


@pytest.mark.parametrize(
    ("result", "receipt", "expected"),
    [
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "two", [("/1/text", "two")]),
        ([{"type": "text", "text": "same"}, {"type": "text", "text": "same"}], "same", []),
        ({"content": [{"type": "text", "text": "one"}]}, "one", [("/content/0/text", "one")]),
        (
            {"content": [{"type": "text", "text": "short"}], "structuredContent": {"id": 7, "name": "x"}},
            '{"id":7,"name":"x"}',
            [("/structuredContent/id", "7"), ("/structuredContent/name", "x")],
        ),
        ({"b": [1, True, None]}, '{\n  "b": [1, true, null]\n}', [("/b/0", "1"), ("/b/1", "true"), ("/b/2", "null")]),
        ({"b": 1}, '{"b": 2}', []),
        ("plain text", "plain text", [("", "plain text")]),
        (ROWS, f"{FIRST}\n[97 more rows]", [("", FIRST)]),
        (ROWS, f"97 rows before:\n{LAST}", [("", LAST)]),
        (ROWS, f"{FIRST}\n…\n{LAST}", [("", FIRST), ("", LAST)]),
        ({"log": ROWS, "lines": 100}, "the row 50", [("/log", "the row 50")]),
        ({"log": ROWS, "copy": ROWS}, "the row 50", []),
        ({"log": f"{ROWS}\n{ROWS}"}, "the row 50", []),
        ({"log": ROWS}, "row 50", []),  # a part of a line
        (
            {"stdout": "1\n2\n3\n4\n5\n", "code": 3},
            "exit 3\n\nstdout:\n1\n2\n3\n4\n5\n",
            [("/stdout", "1\n2\n3\n4\n5")],
        ),
        ({"a": "ok"}, "ok\nand more", []),  # by chance
    ],
)
def test_a_text_part_is_linked_to_the_one_value_it_was_written_from(
    result: JsonValue, receipt: str, expected: list[tuple[str, str]]
) -> None:
    assert linked(result, receipt) == expected


def test_content_blocks_are_shown_in_order_and_an_image_by_its_size_only() -> None:
    blocks = [
        {"type": "text", "text": "An image:"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ]

    assert receipt_text(blocks) == (
        "mcp__tracker__get returned 2 content blocks, 9 characters of text\n\nAn image:\n\n[image image/png]"
    )


def test_an_unknown_value_is_shown_as_an_outline_without_escapes() -> None:
    text = receipt_text({"city": "Bern", "note": 'a "b"\nc', "hours": [{"at": 9}, 12], "none": None, "empty": []})

    assert text == (
        "mcp__tracker__get returned a result\n\n"
        'city: Bern\nnote:\n  a "b"\n  c\nhours:\n  -\n    at: 9\n  - 12\nnone: null\nempty: []'
    )


def test_texts_share_one_budget_and_each_cut_is_recorded() -> None:
    blocks = [{"type": "text", "text": "line of text\n" * 500}, {"type": "text", "text": "more of it\n" * 500}]
    sink = MemorySink()

    projection = project(FALLBACK_MAPPING.read(recorded(blocks)).complete, FAMILY, FAMILY.projection, sink)
    text = render(projection.canonical, FAMILY, FAMILY.rendering).text

    assert [cut.pointer for cut in projection.cuts] == ["/result/content/1/text"]
    assert list(sink.texts.values()) == ["more of it\n" * 500]
    assert len(text) <= FAMILY.rendering.characters


def test_a_flagged_failure_is_an_error_with_the_servers_own_words() -> None:
    reading = FALLBACK_MAPPING.read(recorded([{"type": "text", "text": "no such issue"}], is_error=True))

    assert reading.complete.error is not None
    assert reading.complete.error.message == "no such issue"


TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | TEXT
JSON = st.recursive(SCALAR, lambda child: st.lists(child, max_size=4) | st.dictionaries(TEXT, child, max_size=4))


@given(result=JSON, receipt=TEXT, agent=TEXT, tool=TEXT)
def test_any_json_of_any_tool_reads_renders_and_aligns(result: JsonValue, receipt: str, agent: str, tool: str) -> None:
    evidence = Evidence(agent=agent, tool=tool, args=result, result=result, has_result=True, receipt_text=receipt)

    complete = FALLBACK_MAPPING.read(evidence).complete
    canonical = project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical

    assert len(render(canonical, FAMILY, FAMILY.rendering).text) <= FAMILY.rendering.characters
    assert all(0 <= span.start < span.end <= len(receipt) for span in FALLBACK_MAPPING.align(evidence, receipt))


@pytest.mark.parametrize(("agent", "kind"), [("native", "timeout"), ("claude-code", "tool_execution_failed")])
def test_the_kind_of_an_error_of_native_records_is_the_runtimes_own(agent: str, kind: str) -> None:
    failed = recorded({"kind": "timeout", "message": "it took too long"}, is_error=True)
    error = FALLBACK_MAPPING.read(msgspec.structs.replace(failed, agent=agent)).complete.error
    assert error is not None
    assert (error.kind, error.message) == (kind, "it took too long")


def test_a_failure_that_utf8_cannot_hold_is_still_an_error() -> None:
    complete = FALLBACK_MAPPING.read(recorded("Error: " + "x\ud800" * 3_000)).complete

    canonical = project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical

    assert canonical.status == "error"
    assert "\nSame call again: will fail\n" in render(canonical, FAMILY, FAMILY.rendering).text


@pytest.mark.parametrize(
    ("result", "name"),
    [
        ({"content": [{"type": "text", "text": "x"}], "structuredContent": list(range(9_000))}, "structured_content"),
        ({"rows": list(range(9_000))}, "recorded"),
    ],
)
def test_a_value_that_is_too_large_becomes_a_shortened_outline_and_an_artifact(result: JsonValue, name: str) -> None:
    sink = MemorySink()

    projection = project(FALLBACK_MAPPING.read(recorded(result)).complete, FAMILY, FAMILY.projection, sink)

    ((path, whole),) = sink.texts.items()
    assert path.endswith(f"/{name}.txt")
    assert whole.endswith("- 8999")
    assert [cut.cut.is_whole for cut in projection.cuts] == [False]


def test_structured_content_is_traced_wherever_a_server_put_it() -> None:
    beside = {"content": [{"type": "text", "text": "x"}], "mcpMeta": {"structuredContent": {"id": 7}}}

    reading = FALLBACK_MAPPING.read(recorded(beside))

    assert reading.links["/mcpMeta/structuredContent"] == "/result/structured_content"
    assert linked(beside, '{"id": 7}') == [("/mcpMeta/structuredContent/id", "7")]


def test_a_failure_is_linked_to_the_recorded_sentence() -> None:
    assert linked("Error: no such issue", "no such issue") == [("", "no such issue")]


def test_structured_content_beside_no_block_is_linked() -> None:
    value: JsonValue = {"issues": [{"id": 7, "title": "Broken login"}]}
    result: JsonValue = {"content": [], "structuredContent": value}
    receipt = json.dumps(value, indent=2)
    assert linked(result, receipt) == [
        ("/structuredContent/issues/0/id", "7"),
        ("/structuredContent/issues/0/title", "Broken login"),
    ]


@pytest.mark.parametrize(
    ("tool", "args", "end", "kind"),
    [
        ("exec", "text(1)", "completed", None),
        ("exec", "text(1)", "running with cell ID 3", None),
        ("exec", "text(1)", "failed", "tool_execution_failed"),
        ("exec", "text(1)", "terminated", "cancelled"),
        ("wait", {"cell_id": "3"}, "failed", "tool_execution_failed"),
        ("wait", {"cell_id": "3"}, "terminated", "cancelled"),
        ("wait", {"cell_id": "3", "terminate": True}, "terminated", None),
    ],
)
def test_a_program_of_code_mode_ended_as_its_receipt_states(
    tool: str, args: JsonValue, end: str, kind: str | None
) -> None:
    """A `wait` that was to terminate the program did so."""
    content = json.dumps(f"Script {end}\nWall time 0.1 seconds\nOutput:\nhello").encode()
    halves = read_halves(
        agent="codex", tool=tool, args=json.dumps(args).encode(), result=None, content=content, is_error=None
    )
    error = halves.projection.canonical.error
    assert (halves.family, error and error.kind, halves.reading.fidelity) == ("external", kind, "parsed_from_receipt")


TWO_TEXTS = "<untrusted_context>\nfirst\nline\n</untrusted_context>\n<untrusted_context>\nsecond\n</untrusted_context>"


@pytest.mark.parametrize("result", ["first\nline\nsecond", None])
def test_the_tags_between_two_texts_are_no_text(result: str | None) -> None:
    """The Gemini CLI puts tags around each text of a server, and shows a person the texts."""
    if result is not None:
        assert match_output(TWO_TEXTS, result, "mcp_probe_two")
        assert not match_output(TWO_TEXTS, "first\nline second", "mcp_probe_two")
    halves = read_halves(
        agent="gemini-cli",
        tool="mcp_probe_two",
        args=b"{}",
        result=None if result is None else json.dumps(result).encode(),
        content=json.dumps(TWO_TEXTS).encode(),
        is_error=False,
    )
    assert halves.projection.canonical.result == {"text": "first\nline\nsecond"}
    assert halves.receipt is not None
    linked = [segment.text for segment in halves.receipt.segments if segment.source]
    assert (linked, halves.is_cut) == (["first\nline", "second"] if result else [], False)


@pytest.mark.parametrize(
    ("content", "summary"),
    [
        (b'[{"functionResponse":{"response":{}}}]', "nothing returned no text"),
        (None, "nothing: no result was recorded"),
    ],
)
def test_an_answer_without_content_is_an_answer(content: bytes | None, summary: str) -> None:
    halves = read_halves(agent="gemini-cli", tool="nothing", args=b"{}", result=None, content=content, is_error=False)
    assert halves.projection.canonical.summary_text == summary

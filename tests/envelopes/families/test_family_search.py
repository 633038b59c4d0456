from __future__ import annotations

import pytest

from envelopes.alignment.mapping import Evidence, ToolMapping
from envelopes.alignment.spans import Span
from envelopes.families.search import FAMILY
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.result import JsonValue
from envelopes.storage.sinks import MemorySink

TOOLS: dict[str, ToolMapping] = {tool: row for row in reversed(FAMILY.mappings) for tool in row.tools}


def recorded(tool: str, result: JsonValue, receipt: str = "") -> Evidence:
    return Evidence(
        agent="claude-code", tool=tool, args={"pattern": "x"}, result=result, has_result=True, receipt_text=receipt
    )


def linked(tool: str, result: JsonValue, receipt: str) -> list[tuple[str, str]]:
    spans = TOOLS[tool].align(recorded(tool, result, receipt), receipt)
    return [(span.pointer, receipt[span.start : span.end]) for span in sorted(spans)]


def receipt_text(tool: str, result: JsonValue) -> str:
    reading = TOOLS[tool].read(recorded(tool, result))
    canonical = project(reading.complete, FAMILY, FAMILY.projection, MemorySink()).canonical
    return render(canonical, FAMILY, FAMILY.rendering).text


@pytest.mark.parametrize(
    ("tool", "args", "result", "cuts"),
    [
        ("Glob", {}, {"filenames": ["a"], "numFiles": 1, "truncated": True}, [("files", "/filenames")]),
        ("Glob", {}, {"filenames": ["a"], "numFiles": 1, "truncated": False}, []),
        ("Grep", {}, {"mode": "content", "content": "a:1:x", "appliedLimit": 250}, [("matches", "/content")]),
        ("Grep", {}, {"mode": "count", "content": "a:1", "appliedLimit": 250}, [("files", "/content")]),
        ("Grep", {}, {"mode": "files_with_matches", "filenames": ["a"], "appliedLimit": 9}, [("files", "/filenames")]),
        ("Grep", {"head_limit": 5}, {"mode": "content", "content": "a:1:x", "appliedLimit": 5}, []),
        ("Grep", None, {"mode": "content", "content": "a:1:x", "appliedLimit": 5}, []),
        ("Grep", {}, {"mode": "content", "content": "a:1:x", "truncated": True}, [("matches", "/content")]),
        (
            "Grep",
            {},
            {"mode": "content", "content": "a:1:x\na:2:[Omitted long matching line]"},
            [("long lines", "/content")],
        ),
        ("Grep", {}, {"mode": "content", "content": "a:1:(Results are truncated.)\na:2:x... [truncated]"}, []),
    ],
)
def test_a_search_that_stopped_at_a_limit_of_its_own_is_cut(
    tool: str, args: JsonValue, result: JsonValue, cuts: list[tuple[str, str]]
) -> None:
    reading = TOOLS[tool].read(Evidence(agent="claude-code", tool=tool, args=args, result=result, has_result=True))
    assert [(cut.unit, cut.pointer) for cut in reading.source_cuts] == cuts
    assert reading.fidelity == ("bounded" if cuts else "structured")


def test_a_listing_without_a_result_shows_by_itself_that_it_was_cut() -> None:
    text = "a.go\n(Results are truncated. Consider using a more specific path or pattern.)"
    reading = TOOLS["Glob"].read(Evidence(agent="claude-code", tool="Glob", args={}, receipt_text=text))
    assert [cut.unit for cut in reading.source_cuts] == ["files"]
    assert reading.fidelity == "parsed_from_receipt"


LINES = "a.go:1:func x()\nb.go:7:\tx()"


@pytest.mark.parametrize(
    ("tool", "result", "receipt", "expected"),
    [
        ("Grep", {"mode": "content", "content": LINES, "numFiles": 0}, LINES, [("/content", LINES)]),
        (
            "Grep",
            {"mode": "content", "content": LINES, "appliedLimit": 2},
            LINES + "\n\n[Showing results with pagination = limit: 2, offset: 0]",
            [("/content", LINES), ("/appliedLimit", "2")],
        ),
        (
            "Grep",
            {"mode": "files_with_matches", "filenames": ["a.go", "b.go"], "numFiles": 2},
            "Found 2 files\na.go\nb.go",
            [("/numFiles", "2"), ("/filenames/0", "a.go"), ("/filenames/1", "b.go")],
        ),
        (
            "Grep",
            {"mode": "files_with_matches", "filenames": ["a.go"], "numFiles": 1, "appliedLimit": 1},
            "Found 1 file limit: 1\na.go",
            [("/numFiles", "1"), ("/appliedLimit", "1"), ("/filenames/0", "a.go")],
        ),
        (
            "Grep",
            {"mode": "count", "content": "a.go:3", "numMatches": 3, "numFiles": 1},
            "a.go:3\n\nFound 3 total occurrences across 1 file.",
            [("/content", "a.go:3"), ("/numMatches", "3"), ("/numFiles", "1")],
        ),
        ("Grep", {"mode": "content", "content": "", "numLines": 0}, "No matches found", []),
        ("Glob", {"filenames": [], "numFiles": 0}, "No files found", []),
        (
            "Glob",
            {"filenames": ["a.go"], "numFiles": 1, "truncated": True},
            "a.go\n(Results are truncated. Consider using a more specific path or pattern.)",
            [("/filenames/0", "a.go")],
        ),
        ("Glob", {"filenames": ["a.go", 7, "b.go"]}, "a.go\n7\nb.go", [("/filenames/0", "a.go")]),
        ("LSP", {"operation": "hover", "result": "func x()"}, "func x()", [("/result", "func x()")]),
        ("LS", "- src/\n  - a.go\n", "- src/\n  - a.go\n", [("", "- src/\n  - a.go")]),
    ],
)
def test_a_search_receipt_is_linked_to_the_recorded_field(
    tool: str, result: JsonValue, receipt: str, expected: list[tuple[str, str]]
) -> None:
    assert linked(tool, result, receipt) == expected


def test_a_persisted_preview_is_linked_as_the_head_of_the_content() -> None:
    content = "\n".join(f"a.go:{number}:x" for number in range(100))
    receipt = (
        "<persisted-output>\nOutput too large (25.4KB). Full output saved to: /tmp/1.txt\n\n"
        f"Preview (first 2KB):\n{content[:40]}\n...\n</persisted-output>"
    )
    start = receipt.index("a.go:0")

    spans = list(TOOLS["Grep"].align(recorded("Grep", {"mode": "content", "content": content}), receipt))

    assert spans == [Span(start, start + 40, "/content", 0, 40)]


def test_another_text_than_the_recorded_one_gets_no_link() -> None:
    assert linked("Grep", {"mode": "content", "content": LINES}, "a.go:1:func x()\nb.go:7:\ty()") == []
    assert linked("Glob", {"filenames": ["a.go"]}, "a.go.bak") == []
    assert linked("Grep", {"filenames": ["a.go"], "numFiles": 2}, "Found 3 files\nb.go") == []


def test_a_failed_search_is_linked_to_the_recorded_sentence() -> None:
    assert linked("Glob", "Error: no such folder", "no such folder") == [("", "no such folder")]


def test_a_receipt_of_ours_says_the_outcome_then_the_names() -> None:
    text = receipt_text("Grep", {"mode": "files_with_matches", "filenames": ["a.go", "b.go"], "numFiles": 2})

    assert text == "Found 2 files for 'x'\na.go\nb.go"


def test_a_long_list_says_how_many_names_it_leaves_out() -> None:
    names = [f"src/{number}.py" for number in range(500)]

    text = receipt_text("Glob", {"filenames": names, "numFiles": 500})

    assert text.splitlines()[0] == "500 files found for 'x'"
    assert text.splitlines()[-1] == "[showing first 200 of 500]"


def test_a_large_content_is_cut_in_the_middle_and_kept_whole_as_an_artifact() -> None:
    content = "\n".join(f"a.go:{number}:match" for number in range(3_000))
    reading = TOOLS["Grep"].read(recorded("Grep", {"mode": "content", "content": content, "numLines": 3_000}))
    sink = MemorySink()

    projection = project(reading.complete, FAMILY, FAMILY.projection, sink)
    text = render(projection.canonical, FAMILY, FAMILY.rendering).text

    assert list(sink.texts.values()) == [content]
    assert [cut.pointer for cut in projection.cuts] == ["/result/content"]
    assert "of 3000 lines]" in text
    assert text.endswith(f"Artifacts, for ReadArtifact path=…:\n{projection.canonical.artifacts[0].path}")


def test_a_rejection_is_write_denied_and_a_result_of_another_shape_still_reads() -> None:
    denied = TOOLS["Glob"].read(recorded("Glob", "User rejected tool use"))
    odd = TOOLS["Glob"].read(recorded("Glob", {"unheard": "of"}))

    assert denied.complete.error is not None
    assert denied.complete.error.kind == "write_denied"
    assert odd.complete.status == "success"
    assert "unheard: of" in receipt_text("Glob", {"unheard": "of"})


def test_facts_from_the_receipt_alone_are_marked_as_parsed_from_it() -> None:
    evidence = Evidence(agent="claude-code", tool="Glob", args={}, receipt_text="/srv/a.go\n/srv/b.go")

    reading = TOOLS["Glob"].read(evidence)

    assert (reading.fidelity, reading.links, reading.outputs) == ("parsed_from_receipt", {}, ())
    assert list(TOOLS["Glob"].align(evidence, "/srv/a.go\n/srv/b.go")) == []


@pytest.mark.parametrize(
    ("tool", "result", "summary"),
    [
        ("Grep", {"filenames": ["a.go"]}, "Found 1 file for 'x'"),
        ("Grep", {"mode": "files_with_matches", "filenames": [], "numFiles": 0}, "No files found for 'x'"),
        ("Grep", {"content": ""}, "No matches found for 'x'"),
        ("Grep", {"content": "a\nb\n"}, "Found 2 lines for 'x'"),
        ("Grep", {"mode": "content", "content": "a", "numLines": 1}, "Found 1 line for 'x'"),
        ("Grep", {"mode": "count", "content": "a:3", "numMatches": 3}, "Found 3 matches for 'x'"),
        ("Grep", {"mode": "count", "content": "a:1", "numMatches": 1}, "Found 1 match for 'x'"),
        ("Glob", {"filenames": []}, "No file found for 'x'"),
        ("LSP", {"operation": "hover", "result": "x"}, "hover"),
        ("LSP", {"result": "x", "resultCount": 1}, "LSP: 1 result"),
        ("LSP", {"operation": "findReferences", "result": "x", "resultCount": 2}, "findReferences: 2 results"),
    ],
)
def test_the_outcome_is_one_sentence_that_counts(tool: str, result: JsonValue, summary: str) -> None:
    assert TOOLS[tool].read(recorded(tool, result)).complete.summary_text == summary


def test_the_request_to_a_language_server_is_shown_with_its_answer() -> None:
    answer = {"operation": "hover", "result": "func x()", "filePath": "a.go", "resultCount": 1, "fileCount": 1}

    reading = TOOLS["LSP"].read(recorded("LSP", answer))
    canonical = project(reading.complete, FAMILY, FAMILY.projection, MemorySink()).canonical

    assert canonical.result == {
        "operation": "hover",
        "path": "a.go",
        "result_count": 1,
        "file_count": 1,
        "content": "func x()",
    }
    assert receipt_text("LSP", answer) == "hover: 1 result\n\nfunc x()"


def test_a_search_that_stopped_early_says_so_and_names_its_page() -> None:
    text = receipt_text("Glob", {"filenames": ["a.go"], "numFiles": 1, "truncated": True})
    page = receipt_text(
        "Grep", {"mode": "content", "content": "a", "numLines": 1, "appliedLimit": 1, "appliedOffset": 3}
    )

    assert text.splitlines()[1] == "The search stopped early: there are more. Use a narrower path or pattern."
    assert page == "Found 1 line for 'x'\nLimit: 1\nOffset: 3\n\na"

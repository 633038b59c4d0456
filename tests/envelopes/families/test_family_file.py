"""Tests files: reading a recording, projecting and rendering it, and aligning its receipt."""

from __future__ import annotations

from typing import Any

import pytest

from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.spans import to_segments
from envelopes.families.file import FAMILY
from envelopes.families.file.results import FileChange, FileContent, Hunk
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.result import CanonicalResult, CompleteOutput, JsonValue, ToolError
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import resolve

BY_TOOL: dict[str, ToolMapping] = {tool: row for row in reversed(FAMILY.mappings) for tool in row.tools}
SNIPPET = "The file /a.py has been updated. Here's the result of running `cat -n` on a snippet of the edited file:\n"
REMINDER = "\n\n<system-reminder>\nBe careful.\n</system-reminder>"


def recorded(tool: str, result: JsonValue, receipt: str | None = None, **more: Any) -> Evidence:
    known: dict[str, Any] = {"args": {"file_path": "/a.py"}, "has_result": result is not None, **more}
    return Evidence(agent="claude-code", tool=tool, result=result, receipt_text=receipt, **known)


def file_of(content: str, start: int = 1, total: int | None = None) -> dict[str, JsonValue]:
    count = len(content.split("\n"))
    file = {
        "filePath": "/a.py",
        "content": content,
        "numLines": count,
        "startLine": start,
        "totalLines": total or count,
    }
    return {"type": "text", "file": file}


def edit(original: str, old: str, new: str, lines: list[str] | None = None, **more: JsonValue) -> dict[str, JsonValue]:
    patch: JsonValue = [] if lines is None else [{"oldStart": 1, "newStart": 1, "lines": lines}]
    return {
        "filePath": "/a.py",
        "oldString": old,
        "newString": new,
        "originalFile": original,
        "structuredPatch": patch,
        "userModified": False,
        "replaceAll": False,
        **more,
    }


def read(evidence: Evidence) -> Reading:
    return BY_TOOL[evidence.tool].read(evidence)


def envelope(complete: CompleteOutput) -> CanonicalResult:
    return project(complete, FAMILY, FAMILY.projection, MemorySink()).canonical


def outcome(evidence: Evidence) -> dict[str, Any]:
    result = envelope(read(evidence).complete).result
    assert isinstance(result, dict)
    return result


def receipt(complete: CompleteOutput, characters: int = 12_000) -> str:
    return render(envelope(complete), FAMILY, RenderPolicy(characters=characters)).text


def linked(evidence: Evidence) -> list[tuple[str, str]]:
    """The parts of the receipt that come from the result, each with its field; all are checked."""
    text = evidence.receipt_text or ""
    spans = list(BY_TOOL[evidence.tool].align(evidence, text))
    for span in spans:
        value = resolve(evidence.result, span.pointer)
        assert isinstance(value, str)
        assert value[span.value_start : span.value_end] == text[span.start : span.end]
    return [(segment.text, segment.source.pointer) for segment in to_segments(text, spans) if segment.source]


def test_a_read_reports_its_position_in_the_file() -> None:
    evidence = recorded("Read", file_of("b\nc", start=2, total=9))
    reading = read(evidence)
    assert reading.outputs == (OutputField("/file/content", 2, 9),)
    assert envelope(reading.complete).result == {
        "path": "/a.py",
        "content_preview": "b\nc",
        "start_line": 2,
        "line_count": 2,
        "total_lines": 9,
        "truncated": False,
    }
    assert receipt(reading.complete) == "Read /a.py\nLines 2 to 3 of 9\n\nb\nc"


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("     2→b\n     3→\n     4→c", ["b", "c"]),
        ("     2→b\n     3→\n     4→c" + REMINDER, ["b", "c"]),
        ("2\tb\n3\t\n4\tc", ["b", "c"]),
        ("     2→b\n     3→\n     5→c", ["b"]),
        ("     7→b\n     8→\n     9→c", []),
        ("File unchanged since last read.", []),
    ],
)
def test_numbered_lines_are_linked_by_number_and_content(text: str, links: list[str]) -> None:
    evidence = recorded("Read", file_of("b\n\nc", start=2), text)
    assert linked(evidence) == [(line, "/file/content") for line in links]


def test_a_line_that_was_too_long_to_print_is_linked_as_far_as_it_goes() -> None:
    evidence = recorded("Read", file_of("x" * 3_000 + "\nb"), "     1→" + "x" * 2_000 + "... [truncated]\n     2→b")
    assert [len(text) for text, _ in linked(evidence)] == [2_000, 1]


def test_a_read_from_offset_zero_is_numbered_from_zero_and_begins_at_the_first_line() -> None:
    evidence = recorded("Read", file_of("a\nb", start=0, total=9), "     0→a\n     1→b", args={"offset": 0, "limit": 2})
    assert linked(evidence) == [("a", "/file/content"), ("b", "/file/content")]
    assert read(evidence).outputs == (OutputField("/file/content", 1, 9, is_asked=True),)
    assert "Lines 1 to 2 of 9" in receipt(read(evidence).complete)
    from_receipt = recorded("Read", None, "     0→a\n     1→b")
    assert read(from_receipt).complete.result == FileContent(path="/a.py", content="a\nb", start_line=1, line_count=2)


LIMIT: dict[str, Any] = {"pointer": "/file/content", "unit": "lines", "start": 3, "end": 3, "is_limit": True}


@pytest.mark.parametrize(
    ("args", "start", "is_asked", "missing"),
    [
        ({}, 1, False, 7),
        ({"limit": 3}, 1, True, 0),
        ({"limit": "3"}, 1, True, 0),
        ({"offset": 5, "limit": 3}, 5, True, 0),
        ({"offset": 0, "limit": 5}, 0, True, 2),
        ({"offset": 5}, 5, True, 3),
        ({"offset": 5, "limit": 5}, 5, True, 2),
        ({"limit": 50}, 1, True, 7),
        ({"limit": None}, 1, False, 7),
        ({"limit": "many"}, 1, False, 0),
        (None, 1, False, 0),
    ],
)
def test_what_a_read_left_out_by_its_own_limit_is_a_cut_and_what_nobody_asked_for_is_none(
    args: JsonValue, start: int, *, is_asked: bool, missing: int
) -> None:
    reading = read(recorded("Read", file_of("a\nb\nc", start=start, total=10), args=args))
    assert [field.is_asked for field in reading.outputs] == [is_asked]
    cuts = (SourceCut(**LIMIT, count=missing, lines=missing),) if missing else ()
    assert (reading.source_cuts, reading.fidelity) == (cuts, "bounded" if missing else "structured")


def test_lines_that_the_tool_cut_off_are_no_whole_lines_of_the_file() -> None:
    content = f"a\n{'x' * 2_000}... [truncated]\nb"
    printed = "".join(f"{number:6}→{line}\n" for number, line in enumerate(content.split("\n"), 1))
    for evidence in (recorded("Read", file_of(content), printed), recorded("Read", None, printed)):
        assert [(cut.unit, cut.start) for cut in read(evidence).source_cuts] == [("line ends", 1)]
    assert read(recorded("Read", file_of(content), printed)).fidelity == "bounded"


def test_the_outputs_of_a_notebook_that_were_too_large_are_cut() -> None:
    large = {"output_type": "stream", "text": "Outputs are too large to include. Use Bash with: cat a.ipynb"}
    cells: JsonValue = [{"cell_id": "1", "source": "x"}, {"cell_id": "2", "source": "y", "outputs": [large]}]
    reading = read(recorded("Read", {"type": "notebook", "file": {"filePath": "/a.ipynb", "cells": cells}}))
    assert [cut.pointer for cut in reading.source_cuts] == ["/file/cells/1/outputs"]
    assert reading.fidelity == "bounded"


def test_a_read_without_a_result_is_read_from_its_numbered_lines() -> None:
    evidence = recorded("Read", None, "     5→x\n     6→" + REMINDER)
    assert read(evidence).fidelity == "parsed_from_receipt"
    assert read(evidence).complete.result == FileContent(path="/a.py", content="x\n", start_line=5, line_count=2)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (
            {
                "type": "image",
                "file": {
                    "filePath": "/p.png",
                    "base64": "AA==",
                    "type": "image/png",
                    "originalSize": 4,
                    "dimensions": {"originalWidth": 8, "originalHeight": 6},
                },
            },
            "Read an image: /p.png\nType: image/png\nBytes: 4\nWidth: 8\nHeight: 6",
        ),
        ({"type": "pdf", "file": {"filePath": "/p.pdf", "originalSize": 4}}, "Read a PDF: /p.pdf"),
        (
            {"type": "file_unchanged", "file": {"filePath": "/a.py"}},
            "File unchanged since it was last read: /a.py",
        ),
        (file_of(""), "Read /a.py\nLines 1 to 1 of 1\nNo text."),
    ],
)
def test_each_kind_of_read_is_named(result: JsonValue, expected: str) -> None:
    assert receipt(read(recorded("Read", result)).complete) == expected


def test_the_cells_of_a_notebook_are_linked() -> None:
    cells: JsonValue = [{"cellType": "code", "source": "a = 1", "cell_id": "c0"}, {"source": "b", "cell_id": "c1"}]
    text = '<cell id="c0">a = 1</cell id="c0">\n<cell id="c1"><cell_type>markdown</cell_type>b</cell id="c1">'
    evidence = recorded("Read", {"type": "notebook", "file": {"filePath": "/n.ipynb", "cells": cells}}, text)
    assert linked(evidence) == [("a = 1", "/file/cells/0/source"), ("b", "/file/cells/1/source")]
    assert "a = 1" in outcome(evidence)["content_preview"]


def test_an_edit_becomes_a_changed_path_with_its_diff() -> None:
    evidence = recorded("Edit", edit("a\nb\n", "b", "c", [" a", "-b", "+c"]))
    assert outcome(evidence) == {
        "changed_files": [{"action": "modify", "path": "/a.py"}],
        "changed_paths": ["/a.py"],
        "changed_file_count": 1,
        "additions": 1,
        "deletions": 1,
        "user_modified": False,
        "diff_preview": "@@ -1,0 +1,0 @@\n a\n-b\n+c\n",
        "truncated": False,
    }
    assert receipt(read(evidence).complete).startswith("File updated\nM /a.py (+1 -1 lines)\n\nDiff:\n")
    assert read(evidence).outputs == ()


def test_a_line_of_a_snippet_is_the_patch_line_where_the_patch_holds_it() -> None:
    evidence = recorded(
        "Edit", edit("a\nb\n\nd\n", "b", "c", [" a", "-b", "+c"]), SNIPPET + "     1→a\n     2→c\n     4→d"
    )
    assert linked(evidence) == [
        ("/a.py", "/filePath"),
        ("a", "/structuredPatch/0/lines/0"),
        ("c", "/structuredPatch/0/lines/2"),
    ]


def test_a_line_that_the_patch_holds_otherwise_is_put_together_from_both_strings() -> None:
    result = edit("\tone\n\treturn x + 1\n\tlast\n", "x + 1", "y", [" " * 3 + "one", "-  return x + 1", "+  return y"])
    evidence = recorded("Edit", result, SNIPPET + "     1→\tone\n     2→\treturn y\n     3→\tlast")
    assert linked(evidence)[1:] == [
        ("\tone", "/originalFile"),
        ("\treturn ", "/originalFile"),
        ("y", "/newString"),
        ("\tlast", "/originalFile"),
    ]


@pytest.mark.parametrize(
    ("result", "lines", "links"),
    [
        (edit("a\nb\nc\n", "b", ""), "     1→a\n     2→c", ["/originalFile", "/originalFile"]),
        (edit("x\nx\n", "x", "y", replaceAll=True), "     1→y\n     2→y", ["/newString", "/newString"]),
        (edit("", "", "new"), "     1→new", ["/newString"]),
        (edit("a\nb\n", "b", "c"), "     1→a\n     2→other", ["/originalFile"]),
        (edit("a\n", "a", "b"), "     9→b", []),
        (edit("a\n", "a", "b", [" q", "+b"], originalFile=None), "     2→b", ["/structuredPatch/0/lines/1"]),
    ],
)
def test_a_snippet_is_linked_only_where_the_edit_gives_that_line(
    result: JsonValue, lines: str, links: list[str]
) -> None:
    assert [pointer for _, pointer in linked(recorded("Edit", result, SNIPPET + lines))] == ["/filePath", *links]


def test_replaced_strings_are_linked_in_their_sentence() -> None:
    text = "The file /a.py has been updated. All occurrences of 'x' were successfully replaced with 'x2'."
    evidence = recorded("Edit", edit("x x", "x", "x2", replaceAll=True), text)
    assert linked(evidence) == [("/a.py", "/filePath"), ("x", "/oldString"), ("x2", "/newString")]
    assert outcome(evidence)["replaced_all"] is True


def test_each_edit_of_several_is_linked_by_its_first_characters() -> None:
    long = "z" * 60
    edits: JsonValue = [{"old_string": "a", "new_string": "b"}, {"old_string": long, "new_string": ""}]
    text = f'Applied 2 edits to /a.py:\n1. Replaced "a" with "b"\n2. Replaced "{long[:50]}..." with ""'
    evidence = recorded("MultiEdit", {"filePath": "/a.py", "edits": edits, "structuredPatch": []}, text)
    assert linked(evidence) == [
        ("/a.py", "/filePath"),
        ("a", "/edits/0/old_string"),
        ("b", "/edits/0/new_string"),
        (long[:50], "/edits/1/old_string"),
    ]


def test_a_created_file_counts_its_lines_as_added() -> None:
    result: JsonValue = {"type": "create", "filePath": "/a.py", "content": "a\nb\n", "structuredPatch": []}
    evidence = recorded("Write", result, "File created successfully at: /a.py")
    assert linked(evidence) == [("/a.py", "/filePath")]
    assert outcome(evidence)["changed_files"] == [{"action": "add", "path": "/a.py"}]
    assert (outcome(evidence)["additions"], outcome(evidence)["diff_preview"]) == (2, "+a\n+b\n")


def test_a_written_file_is_linked_by_its_content() -> None:
    result: JsonValue = {"type": "update", "filePath": "/a.py", "content": "a\nb\n", "structuredPatch": []}
    evidence = recorded("Write", result, SNIPPET + "     1→a\n     2→b\n     3→")
    assert linked(evidence) == [("/a.py", "/filePath"), ("a", "/content"), ("b", "/content")]


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("The file /a.py has been updated successfully.", "modify"),
        ("File created successfully at: /a.py", "add"),
        ("File created successfully at: /a.py (file state is current in your context)", "add"),
    ],
)
def test_a_change_without_a_result_is_read_from_its_sentence(text: str, action: str) -> None:
    reading = read(recorded("Edit", None, text))
    assert reading.fidelity == "parsed_from_receipt"
    assert isinstance(reading.complete.result, FileChange)
    assert (reading.complete.result.path, reading.complete.result.action) == ("/a.py", action)


def test_a_notebook_cell_is_linked_with_its_new_source() -> None:
    result: JsonValue = {"notebook_path": "/n.ipynb", "cell_id": "c1", "new_source": "b = 2", "edit_mode": "replace"}
    evidence = recorded("NotebookEdit", result, "Updated cell c1 with b = 2")
    assert linked(evidence) == [("c1", "/cell_id"), ("b = 2", "/new_source")]
    assert outcome(evidence)["changed_paths"] == ["/n.ipynb"]


@pytest.mark.parametrize(
    ("message", "kind", "hint"),
    [
        ("File does not exist.", "missing_file", None),
        ("File does not exist. Did you mean b.py?", "missing_file", "Did you mean b.py?"),
        (
            "File has not been read yet. Read it first before writing to it.",
            "tool_execution_failed",
            "Read it first before writing to it.",
        ),
        ("EISDIR: illegal operation on a directory, read", "tool_execution_failed", None),
    ],
)
def test_a_failure_is_read_and_linked_without_its_wrapper(message: str, kind: str, hint: str | None) -> None:
    evidence = recorded("Edit", f"Error: {message}", f"<tool_use_error>{message}</tool_use_error>", is_error=True)
    error = read(evidence).complete.error
    assert error is not None
    assert (error.kind, error.message, error.recovery_hint) == (kind, message, hint)
    assert linked(evidence) == [(message, "")]


@pytest.mark.parametrize("tool", ["Read", "Edit", "Write", "NotebookEdit"])
@pytest.mark.parametrize("result", [None, [], 7, {}, "plain", {"file": 3}, {"filePath": None, "structuredPatch": 1}])
def test_any_recorded_value_is_read_and_rendered(tool: str, result: JsonValue) -> None:
    evidence = recorded(tool, result, "text")
    assert receipt(read(evidence).complete)
    assert isinstance(linked(evidence), list)


@pytest.mark.parametrize("characters", [12_000, 1_000, 300, 40])
def test_a_receipt_never_passes_its_policy(characters: int) -> None:
    change = FileChange(path="p" * 300, hunks=(Hunk(lines=tuple(f"+{number}" for number in range(9_000))),))
    complete = CompleteOutput(tool_name="Edit", status="success", summary_text="updated", result=change)
    assert len(receipt(complete, characters)) <= characters


@pytest.mark.parametrize(
    ("tool", "result", "text", "links"),
    [
        ("Read", file_of("b\nd", start=3), "     3→b\n     4→c", [("b", "/file/content")]),
        ("Read", file_of("b\nd", start=3), "     3→b\n     4→[truncated]", [("b", "/file/content")]),
        ("Edit", edit("a", "a", "b"), "The file /other.py has been updated.", []),
        (
            "MultiEdit",
            {"filePath": "/a.py", "edits": [{"old_string": "a", "new_string": "b"}]},
            'Applied 1 edit to /a.py:\n1. Replaced "a" with "c"',
            [("/a.py", "/filePath")],
        ),
        ("Edit", {"filePath": "/a.py"}, SNIPPET + "     1→a", [("/a.py", "/filePath")]),
        ("NotebookEdit", {"cell_id": "c1", "new_source": ""}, "Deleted cell c1", [("c1", "/cell_id")]),
        (
            "NotebookEdit",
            {"cell_id": "c1", "new_source": "x = 1"},
            "Inserted cell c1 with x = 1",
            [("c1", "/cell_id"), ("x = 1", "/new_source")],
        ),
        ("NotebookEdit", {"cell_id": "c1", "new_source": "x = 1"}, "Updated cell c1 with x = 2", []),
        (
            "Read",
            {"type": "notebook", "file": {"cells": [{"cell_id": "a", "source": "x"}, {"cell_id": "b", "source": "y"}]}},
            '<cell id="a">other</cell id="a">\n<cell id="b">y</cell id="b">',
            [("y", "/file/cells/1/source")],
        ),
    ],
)
def test_what_is_printed_otherwise_than_recorded_is_not_linked(
    tool: str, result: JsonValue, text: str, links: list[tuple[str, str]]
) -> None:
    assert linked(recorded(tool, result, text)) == links


def test_a_read_whose_receipt_is_nothing_but_numbered_lines_keeps_them_all() -> None:
    reading = read(recorded("Read", None, "     2→b\n     3→c"))
    assert reading.fidelity == "parsed_from_receipt"
    assert reading.complete.result == FileContent(path="/a.py", content="b\nc", start_line=2, line_count=2)


def test_a_deleted_cell_has_no_new_source_to_show() -> None:
    deleted: JsonValue = {"notebook_path": "/n.ipynb", "cell_id": "c1", "new_source": "x = 1", "edit_mode": "delete"}
    reading = read(recorded("NotebookEdit", deleted))
    assert reading.complete.summary_text == "deleted a cell of /n.ipynb"
    assert reading.links == {"/notebook_path": "/result/changed_files/0/path"}
    assert outcome(recorded("NotebookEdit", deleted))["diff_preview"] is None


def test_a_change_by_the_user_is_reported_before_the_diff() -> None:
    text = receipt(read(recorded("Edit", edit("a", "a", "b", ["-a", "+b"], userModified=True))).complete)
    assert text.splitlines()[:4] == [
        "File updated",
        "M /a.py (+1 -1 lines)",
        "The user changed the edit before it was applied.",
        "",
    ]


def test_a_place_in_a_file_of_unknown_length_has_no_total() -> None:
    file: JsonValue = {"filePath": "/a.py", "content": "b", "numLines": 1, "startLine": 2}
    assert receipt(read(recorded("Read", {"type": "text", "file": file})).complete) == "Read /a.py\nLines 2 to 2\n\nb"


def test_a_result_of_another_family_is_refused_by_its_type() -> None:
    with pytest.raises(TypeError, match="ToolError is no result of this family"):
        FAMILY.project(ToolError(kind="x", message="x", retryable=False), FAMILY.projection, MemorySink())

"""ReadArtifact opens what receipts leave out, by the arguments that they print."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envelopes.families.file.results import ArtifactMatches, ArtifactSlice
from envelopes.families.registry import builtin, samples, tools
from envelopes.families.task.results import TaskRead
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.plan.tool_answers import Tool
from envelopes.plan.tool_loop import UNSANDBOXED, ToolLoop, ToolRequest
from envelopes.runtime.file_tools import ArtifactRefused, read_artifact
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.call import ToolRules
from envelopes.schema.result import CompleteOutput, ToolError
from envelopes.storage.file_store import FileStore
from envelopes.storage.sinks import MemorySink, capture
from envelopes.text.json_layout import lay_out_json
from envelopes.text.preview import FileText, find_cut
from tests.cases import each
from tests.envelopes.built_in import output, projected, receipt_of

MEMORY = {
    "kind": "brief",
    "source_ref": "brief:b1",
    "scope_kind": "agent",
    "agent_id": "ada",
    "title": "A title",
    "updated_at": "2026-05-26T18:04:11Z",
}
FAMILY, DEFINITION = builtin("ReadArtifact")
WAY = re.compile(r"\[[^\n]*: ReadArtifact path=(?P<path>\S+) line=(?P<line>\d+)(?: column=(?P<column>\d+))?\]")
LOG = "".join(f"test case_{number:05} ... ok\n" for number in range(1, 9_001))


def read(store: FileStore, **arguments: Any) -> Any:
    return read_artifact(store.open, DEFINITION.parse(arguments))  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "store")


def command(stdout: str, **fields: Any) -> CompleteOutput:
    data = {"exit_status": 0, "stdout": stdout, "stderr": "", "cmd": "make", **fields}
    return output("ExecCommand", builtin("ExecCommand")[1].read_data(data))


@each(
    "stdout",
    [
        LOG,
        "x" * 90_000,
        "one\n" + "y" * 70_000 + "\nlast",
        json.dumps([{"id": number, "tags": ["a", "b"]} for number in range(1_000)]),
    ],
)
def test_the_rest_of_a_cut_output_is_read_by_the_arguments_that_its_receipt_prints(
    tmp_path_factory: pytest.TempPathFactory, stdout: str
) -> None:
    """E-27: what the marker names begins where the head of the preview ends."""
    store = FileStore(tmp_path_factory.mktemp("store"))
    family, _ = builtin("ExecCommand")
    canonical = project(command(stdout, max_output_tokens=400), family, family.projection, store).canonical
    preview = canonical.result["stdout_preview"]  # type: ignore[index,call-overload]
    text = render(canonical, family, family.rendering).text
    way = WAY.search(text)
    assert way is not None
    first = read(store, path=way["path"], line=int(way["line"]), column=int(way["column"] or 1))
    whole = preview.partition("...\n[output truncated")[0]
    whole = whole.removesuffix("\n") if way["column"] else whole
    slices = [first]
    while slices[-1].next_line is not None:
        last = slices[-1]
        slices.append(read(store, path=way["path"], line=last.next_line, column=last.next_column or 1))
    rest = "".join(part.text for part in slices)
    shown = json.dumps(json.loads(stdout), indent=2) if first.laid_out else stdout
    assert (whole + rest).split() == shown.split()
    assert first.laid_out is (stdout[:1] == "[")


def test_a_cut_that_is_not_of_a_command_prints_the_arguments_that_read_on(store: FileStore) -> None:
    """Commands, tasks and files add the way themselves; `receipt_renderer` adds it for every other family."""
    result = builtin("MemoryGet")[1].read_data({"memory": {**MEMORY, "content": LOG}, "max_chars": 20_000})
    family, _ = builtin("MemoryGet")
    canonical = project(output("MemoryGet", result), family, family.projection, store).canonical
    way = WAY.search(render(canonical, family, family.rendering).text)
    assert way is not None
    assert way["path"] == canonical.artifacts[0].path
    lines = LOG.splitlines(keepends=True)
    assert read(store, path=way["path"], line=int(way["line"]), limit=1).text == lines[int(way["line"]) - 1]
    assert lines[int(way["line"]) - 1] not in canonical.result["memory"]["content"]  # type: ignore[index,call-overload]


def test_a_profile_without_the_tool_is_told_how_much_is_left_out_and_no_path() -> None:
    canonical = projected(command(LOG, max_output_tokens=400)).canonical
    family, _ = builtin("ExecCommand")
    text = render(canonical, family, RenderPolicy(read_tool=None)).text
    assert re.search(r"showing first \d+ and last \d+ of 9000 lines", text)
    assert "ReadArtifact" not in text
    assert "artifacts/" not in text


def test_no_receipt_of_any_tool_prints_a_path_that_its_model_cannot_read() -> None:
    stored = 0
    for name in tools():
        family, _ = builtin(name)
        for sort, complete in samples(name).items():
            canonical = project(complete, family, family.projection, MemorySink()).canonical
            text = render(canonical, family, RenderPolicy(read_tool=None)).text
            stored += len(canonical.artifacts)
            assert not [artifact.path for artifact in canonical.artifacts if artifact.path in text], (name, sort)
            assert "Artifacts, for" not in text, (name, sort)
    assert stored >= 10


DENIED = ToolError(kind="policy_denied", message="not for this agent", retryable=False)
READER = Tool.built_in("ReadArtifact", lambda _given, _context: None)


@each(
    ("is_readable", "tools_beside", "settings"),
    [
        (True, [READER], {}),
        (False, [], {}),
        (False, [replace(READER, unavailable="no store is set up")], {}),
        (False, [READER], {"policy": msgspec.structs.replace(UNSANDBOXED, tool_rules=ToolRules(deny=(READER.name,)))}),
        (False, [READER], {"allow_tool": lambda call, _tool: DENIED if call.tool == READER.name else None}),
    ],
)
def test_a_loop_names_no_reader_of_artifacts_that_its_model_lacks(
    is_readable: bool,  # noqa: FBT001
    tools_beside: list[Tool],
    settings: dict[str, Any],
) -> None:
    run = Tool.built_in("ExecCommand", lambda _given, _context: command(LOG * 2))
    loop = ToolLoop([run, *tools_beside], MemorySink(), **settings)
    answer = loop.answer(ToolRequest("toolu_1", "ExecCommand", {"cmd": "make"}), loop.begin_turn())
    loop.close()
    (artifact,) = answer.canonical.artifacts
    assert re.search(r"showing first \d+ and last \d+ of 18000 lines", answer.receipt.text)
    assert (READER.name in answer.receipt.text) is is_readable
    assert (artifact.path in answer.receipt.text) is is_readable


def test_a_promised_budget_holds_whatever_tool_reads_artifacts() -> None:
    """Only another number of characters is a policy of one's own: E-29."""
    memory = {**MEMORY, "content": "Q\n" * 20_000}
    result = builtin("MemoryGet")[1].read_data({"memory": memory, "max_chars": 50_000})
    complete = output("MemoryGet", result)
    family, _ = builtin("MemoryGet")
    canonical = projected(complete).canonical
    for read_tool in ("ReadArtifact", "open_artifact", None):
        assert render(canonical, family, RenderPolicy(read_tool=read_tool)).text.count("Q\n") == 20_000
    assert len(render(canonical, family, RenderPolicy(characters=9_000, read_tool=None)).text) <= 9_000


@each(
    ("arguments", "text", "next_place"),
    [
        ({"line": 2, "limit": 2}, "two\nthree\n", (4, None)),
        ({"line": 4}, "four", (None, None)),
        ({"line": 3, "column": 3, "limit": 1}, "ree\n", (4, None)),
        ({}, "one\ntwo\nthree\nfour", (None, None)),
    ],
)
def test_a_slice_begins_where_it_is_asked_to_and_names_the_next(
    arguments: dict[str, Any], text: str, next_place: tuple[int | None, int | None]
) -> None:
    request: Any = DEFINITION.parse({"path": "p", **arguments})
    part = read_artifact(lambda _: io.BytesIO(b"one\ntwo\nthree\nfour"), request)
    assert isinstance(part, ArtifactSlice)
    assert (part.text, (part.next_line, part.next_column), part.total_lines) == (text, next_place, 4)


def test_lines_that_contain_a_text_come_with_their_numbers_and_where_to_go_on(store: FileStore) -> None:
    log = LOG.replace("00412 ... ok", "00412 ... FAILED").replace("08999 ... ok", "08999 ... FAILED")
    path = store.write("stdout", log).path
    found = read(store, path=path, find="FAILED", limit=1)
    assert isinstance(found, ArtifactMatches)
    assert [(match.line, match.text) for match in found.matches] == [(412, "test case_00412 ... FAILED")]
    assert (found.match_count, found.total_lines, found.next_line) == (2, 9_000, 8_999)
    assert read(store, path=path, find="FAILED", line=8_999).matches[0].line == 8_999
    assert read(store, path=path, find="nothing").match_count == 0


def test_a_match_in_a_line_of_any_length_is_shown_with_what_is_around_it(store: FileStore) -> None:
    path = store.write("stdout", "x" * 2_000_000 + "needle" + "y" * 2_000_000).path
    (match,) = read(store, path=path, find="needle").matches
    assert "needle" in match.text
    assert len(match.text) <= 200
    assert read(store, path=path, column=2_000_001, limit=1).text.startswith("needleyyy")


@each(
    ("arguments", "kind"),
    [({"path": "artifacts/0000000000000000/stdout.txt"}, "artifact_not_found"), ({"line": 9}, "line_out_of_range")],
)
def test_what_cannot_be_read_is_an_error_with_a_way_out(arguments: dict[str, Any], kind: str) -> None:
    def open_artifact(path: str) -> io.BytesIO:
        if path != "p":
            raise LookupError(path)
        return io.BytesIO(b"one\n")

    request: Any = DEFINITION.parse({"path": "p", **arguments})
    with pytest.raises(ArtifactRefused) as refused:
        read_artifact(open_artifact, request)
    assert refused.value.error.kind == kind
    assert refused.value.error.recovery_hint


def test_a_slice_has_no_more_than_its_tool_promises_and_all_of_that() -> None:
    request: Any = DEFINITION.parse({"path": "p", "limit": 2_000})
    part = read_artifact(lambda _: io.BytesIO(LOG.encode()), request)
    assert isinstance(part, ArtifactSlice)
    assert 19_900 < len(part.text) <= 20_000
    canonical = project(output("ReadArtifact", part), FAMILY, FAMILY.projection, MemorySink()).canonical
    assert part.text in receipt_of(canonical).text
    assert receipt_of(canonical).text.endswith(f"[next: line={part.next_line}]")


def test_a_compressed_output_has_a_path_that_a_shell_can_open(tmp_path: Path) -> None:
    store = FileStore(tmp_path, compress_from=1_000)
    path = store.write("stdout", LOG).path
    assert store.shell_path(path).read_text() == LOG
    assert store.shell_path(path) == store.shell_path(path)
    assert store.check() == ()
    with store.open(path) as stream:
        assert stream.read() == LOG.encode()


def as_rows(number: int, *, before: str = "") -> str:
    return before + json.dumps([{"id": row, "tags": ["a", "b"]} for row in range(number)])


def read_on(store: FileStore, receipt: str) -> tuple[str, bool]:
    """What the call in the marker gives, followed to its end, and whether it was laid out."""
    way = WAY.search(receipt)
    assert way is not None
    part = read(store, path=way["path"], line=int(way["line"]), column=int(way["column"] or 1))
    texts, is_laid_out = [part.text], part.laid_out
    while part.next_line is not None:
        part = read(store, path=way["path"], line=part.next_line, column=part.next_column or 1)
        texts.append(part.text)
    return "".join(texts), is_laid_out


@each(
    ("text", "is_laid_out"),
    [
        (as_rows(2_200), True),
        (as_rows(2_200, before="\ufeff"), True),
        (as_rows(2_200, before="  "), True),
        (as_rows(2_200, before="\n"), False),
        (as_rows(16_000), False),
        (json.dumps({"text": "x" * 90_000, "rows": list(range(9))}), True),
        (json.dumps(as_rows(2_200)), False),
        ("[1" + as_rows(2_200), False),
    ],
)
@each("tool", ["ExecCommand", "TaskOutput"])
def test_the_rest_of_captured_json_begins_where_its_receipt_ends(
    tmp_path_factory: pytest.TempPathFactory, tool: str, text: str, *, is_laid_out: bool
) -> None:
    """RFC-102, RFC-153: of JSON that is captured as a file, however it is shown, exactly the next characters follow."""
    store = FileStore(tmp_path_factory.mktemp("store"))
    taken = capture("stdout", text.encode(), store)
    assert isinstance(taken, FileText)
    result: Any = TaskRead(task_id="t1", status="completed", output=taken)
    if tool == "ExecCommand":
        result = builtin(tool)[1].read_data({"exit_status": 0, "cmd": "curl", "max_output_tokens": 400})
        result = msgspec.structs.replace(result, stdout=taken)
    family, _ = builtin(tool)
    canonical = project(output(tool, result), family, family.projection, store).canonical
    document: Any = canonical.result
    preview = document["stdout_preview"] if tool == "ExecCommand" else document["task"]["output_preview"]
    receipt = render(canonical, family, family.rendering).text
    cut = find_cut(preview)
    assert cut is not None
    rest, was_laid_out = read_on(store, receipt)
    whole = lay_out_json(text.strip().removeprefix("\ufeff")) if is_laid_out else text
    assert was_laid_out is is_laid_out
    assert ("laid out for reading" in receipt) is is_laid_out
    assert preview[: cut.head_end] + rest == whole


@each("tool", ["ExecCommand", "TaskOutput"])
def test_an_output_of_a_task_is_read_on_at_any_size(tmp_path_factory: pytest.TempPathFactory, tool: str) -> None:
    store = FileStore(tmp_path_factory.mktemp("store"))
    text = as_rows(1_000)
    result: Any = TaskRead(task_id="t1", status="completed", output=text)
    if tool == "ExecCommand":
        result = builtin(tool)[1].read_data({"exit_status": 0, "stdout": text, "cmd": "x", "max_output_tokens": 400})
    family, _ = builtin(tool)
    receipt = render(
        project(output(tool, result), family, family.projection, store).canonical, family, family.rendering
    ).text
    rest, is_laid_out = read_on(store, receipt)
    assert is_laid_out
    assert lay_out_json(text).endswith(rest)  # type: ignore[union-attr]


def test_a_place_in_a_line_of_json_is_read_as_the_line_stands() -> None:
    text = as_rows(10)
    request: Any = DEFINITION.parse({"path": "p", "column": 5})
    part = read_artifact(lambda _: io.BytesIO(text.encode()), request)
    assert isinstance(part, ArtifactSlice)
    assert (part.text, part.laid_out) == (text[4:], False)


def test_bytes_that_are_no_text_are_not_laid_out() -> None:
    request: Any = DEFINITION.parse({"path": "p"})
    part = read_artifact(lambda _: io.BytesIO(b'["\xff"]'), request)
    assert isinstance(part, ArtifactSlice)
    assert (part.text, part.laid_out) == ('["\ufffd"]', False)

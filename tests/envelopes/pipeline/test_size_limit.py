"""The upper limit of a canonical result: every cut is recorded and stated, and the whole is stored."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from envelopes.families.base import Projected
from envelopes.families.command.results import BatchItem, BatchResult, CommandResult, SavedOutput
from envelopes.families.external import FAMILY
from envelopes.families.external.results import ContentBlock, ContentBlocks, JsonResult
from envelopes.families.registry import builtin, samples, tools
from envelopes.families.task.results import ActiveTasks, TaskCommand, TaskDigest
from envelopes.families.web.results import FetchedPage
from envelopes.families.work_item.results import UnfinishedTodos
from envelopes.pipeline.project import Projection, fits, project
from envelopes.pipeline.render import render
from envelopes.schema.budget import CANONICAL_CHARACTERS, ProjectionPolicy, RenderPolicy
from envelopes.schema.result import CanonicalResult, CompleteOutput, ToolError, summarize
from envelopes.storage.sinks import MemorySink
from envelopes.text.preview import Cut, head_tail, shorten
from envelopes.variants import variants_for
from tests.cases import each
from tests.envelopes.built_in import failure, output, receipt_of, receipt_text, without_promised_texts
from tests.envelopes.families.test_tools_contract import check_bounds

GALLERY = [(tool, sort) for tool in sorted(tools()) for sort in samples(tool)]
LINES = "".join(f"line {number} of the log\n" for number in range(1_000))


def lowered(complete: CompleteOutput, characters: int = CANONICAL_CHARACTERS) -> tuple[Projection, MemorySink]:
    family, sink = builtin(complete.tool_name)[0], MemorySink()
    return project(complete, family, msgspec.structs.replace(family.projection, canonical=characters), sink), sink


def length(canonical: CanonicalResult) -> int:
    return len(json.dumps(canonical.to_json(), ensure_ascii=False))


def result_of(projection: Projection) -> dict[str, Any]:
    result = projection.canonical.result
    assert isinstance(result, dict)
    return result


def long_wait() -> CompleteOutput:
    waiting = samples("WaitFor")["success"]
    assert waiting.result is not None
    return msgspec.structs.replace(waiting, result=msgspec.structs.replace(waiting.result, resource="r" * 40_000))


def test_a_name_as_long_as_a_book_is_shortened_and_the_whole_result_kept() -> None:
    projection, sink = lowered(long_wait())
    result = result_of(projection)
    assert result["resource"] == "r" * 7_999 + "…"
    assert [(field.pointer, field.cut.total) for field in projection.cuts] == [("/result/resource", 40_000)]
    whole = json.loads(sink.texts[projection.canonical.artifacts[result["result_artifact"]].path])
    assert whole["result"]["resource"] == "r" * 40_000
    assert result["result_characters"] == len(json.dumps(whole, ensure_ascii=False))
    assert projection.canonical.artifacts[result["result_artifact"]].path.endswith("/result.txt")
    check_bounds(projection, sink)


def test_a_receipt_says_that_its_result_was_shortened_and_where_it_is_whole() -> None:
    canonical = lowered(long_wait())[0].canonical
    path, size = canonical.artifacts[0].path, result_of(Projection(canonical))["result_characters"]
    assert (
        f"[result shortened: it has {size} characters; all of it: ReadArtifact path={path}]"
        in receipt_of(canonical).text
    )
    for limit in (0, 90, 400, 12_000):
        assert len(receipt_of(canonical, characters=limit).text) <= limit


def batch_of_ten(characters: int) -> CompleteOutput:
    """Ten commands with promised outputs, whose saved outputs have so many characters of paths together."""
    command = CommandResult(exit_status=0, stdout="out", stderr="err", max_output_tokens=100)
    paths = ["p" * (characters // 10 + (characters % 10 if number == 0 else 0)) for number in range(10)]
    items = (
        BatchItem(
            cmd="c", status="completed", result=msgspec.structs.replace(command, saved_output=SavedOutput(path=path))
        )
        for path in paths
    )
    return output("ExecCommandBatch", BatchResult(items=tuple(items)))


def test_the_quotation_marks_of_promised_texts_are_within_the_ceiling() -> None:
    """An envelope that is a few characters too long is shortened as well."""
    whole = lowered(batch_of_ten(0))[0]
    room = CANONICAL_CHARACTERS - len(json.dumps(without_promised_texts(whole.canonical.to_json()), ensure_ascii=False))
    for beyond in range(-2, 45):
        projection, _ = lowered(batch_of_ten(room + beyond))
        bounded = without_promised_texts(projection.canonical.to_json())
        assert len(json.dumps(bounded, ensure_ascii=False)) <= CANONICAL_CHARACTERS, beyond
        assert ("result_artifact" in result_of(projection)) == (beyond > 0)


@each("characters", [24_000, 6_000, 2_000])
@each(("tool", "sort"), GALLERY)
def test_the_ceiling_is_a_policy_that_every_tool_keeps(tool: str, sort: str, characters: int) -> None:
    projection, sink = lowered(samples(tool)[sort], characters)
    assert len(json.dumps(without_promised_texts(projection.canonical.to_json()), ensure_ascii=False)) <= characters
    assert characters == CANONICAL_CHARACTERS or length(projection.canonical) <= characters
    again, second_sink = lowered(samples(tool)[sort], characters)
    assert (again, second_sink.texts) == (projection, sink.texts)
    check_bounds(projection, sink)
    text = receipt_of(projection.canonical).text
    assert all(artifact.path in text for artifact in projection.canonical.artifacts)


@each(("tool", "sort"), GALLERY)
def test_the_first_line_stays_under_any_policy_that_has_room_for_it(tool: str, sort: str) -> None:
    canonical = lowered(samples(tool)[sort])[0].canonical
    for name in builtin(tool)[0].renderers:
        outcome = receipt_of(canonical, name).text.split("\n")[0]
        for limit in range(len(outcome) + 1, 420, 7):
            assert receipt_of(canonical, name, limit).text.startswith(outcome), (name, limit)


@each("characters", [24_000, 6_000, 2_000, 400])
@each(("tool", "sort"), GALLERY)
def test_whatever_is_cut_the_outer_fields_stay_as_they_are(tool: str, sort: str, characters: int) -> None:
    complete = samples(tool)[sort]
    document = lowered(complete, characters)[0].canonical.to_json()
    assert list(document)[:5] == ["tool_name", "status", "summary_text", "result", "error"]
    assert (document["tool_name"], document["status"]) == (tool, complete.status)
    assert document["summary_text"] == summarize(complete.summary_text)
    assert (document["result"] is None, document["error"] is None) == (complete.result is None, complete.error is None)


def test_of_a_result_of_many_short_fields_only_the_way_to_it_is_left() -> None:
    projection, sink = lowered(samples("ListWorkItems")["large"], 1_000)
    (artifact,) = projection.canonical.artifacts
    assert result_of(projection).keys() == {"result_characters", "result_artifact"}
    assert projection.cuts == ()
    whole = json.loads(sink.texts[artifact.path])
    assert whole == lowered(samples("ListWorkItems")["large"])[0].canonical.to_json()
    assert receipt_of(projection.canonical).text == (
        f"{projection.canonical.summary_text}\n"
        f"[result shortened: it has {result_of(projection)['result_characters']} characters; "
        f"all of it: ReadArtifact path={artifact.path}]\n"
        f"Artifacts, for ReadArtifact path=…:\n{artifact.path}"
    )


def test_a_command_whose_result_is_elsewhere_is_not_reported_without_output() -> None:
    canonical = lowered(samples("ExecCommand")["large"], 400)[0].canonical
    family = builtin("ExecCommand")[0]
    for name in family.renderers:
        text = receipt_of(canonical, name).text
        assert text.startswith(canonical.summary_text)
        assert "No output was captured" not in text
    for variant in variants_for(family):
        rendered = render(canonical, family, RenderPolicy(), variant=variant)
        assert canonical.artifacts[0].path in rendered.text or variant.id.endswith("outcome_json")


def test_a_preview_that_is_cut_again_goes_on_counting_in_the_whole_text() -> None:
    complete = samples("ExecCommand")["large"]
    whole, less = (result_of(lowered(complete, size)[0])["stdout_preview"] for size in (24_000, 4_000))
    first, again = (next(line for line in text.splitlines() if "truncated" in line) for text in (whole, less))
    assert len(less) < len(whole)
    assert first.rpartition(" of ")[2] == again.rpartition(" of ")[2]
    cut = next(field.cut for field in lowered(complete, 4_000)[0].cuts if field.pointer == "/result/stdout_preview")
    assert cut.marker() == again
    assert less.startswith(whole[:100])
    assert less.endswith(whole[-100:])


@each("text", [LINES, "x" * 5_000, "one line\n" + "y" * 5_000, LINES + "z" * 4_000])
@each("budget", [0, 1, 7, 60, 500])
def test_cutting_twice_shows_the_ends_of_the_first_text(text: str, budget: int) -> None:
    once = head_tail(text, 1_200)
    assert once.cut is not None
    twice, cut = shorten(once.text, once.cut, budget)
    marker = f"...\n{cut.marker()}\n...\n"
    head, _, tail = twice.partition(marker)
    assert (cut.unit, cut.total) == (once.cut.unit, once.cut.total)
    assert text.startswith(head.removesuffix("\n"))
    assert text.endswith(tail)
    assert len(head) + len(tail) <= budget + 1
    first, last = cut.ends
    sizes = (len(head.removesuffix("\n")), len(tail)) if cut.unit == "characters" else (head.count("\n"), last)
    assert sizes[0] <= first
    assert sizes[1] == last


def test_an_output_that_resembles_a_marker_is_not_read_as_one() -> None:
    cut = Cut("lines", 1_000, ((0, 21), (979, 1_000)))
    text = f"a\n...\n{cut.marker()}\n...\n" + LINES
    once = head_tail(text, 1_000)
    assert once.cut is not None
    twice, again = shorten(once.text, once.cut, 200)
    head, _, tail = twice.rpartition(f"...\n{again.marker()}\n...\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert tail.count("\n") == again.ends[1]


def test_one_line_that_was_shortened_keeps_its_ellipsis_and_its_first_length() -> None:
    assert shorten("abcdefg…", Cut("characters", 90, ((0, 7),)), 4) == ("abc…", Cut("characters", 90, ((0, 3),)))
    assert shorten("abcdefgh", None, 4) == ("abc…", Cut("characters", 8, ((0, 3),)))
    assert shorten("ab\ncd\nef\n", None, 6)[1] == Cut("lines", 3, ((0, 1), (2, 3)))


def test_a_page_of_the_web_is_never_cut_through_what_guards_it() -> None:
    page = samples("WebFetch")["large"].result
    assert isinstance(page, FetchedPage)
    noisy = output("WebFetch", msgspec.structs.replace(page, text="\x1b[31m" * 4_000, content_type="t" * 12_000))
    text = result_of(lowered(noisy)[0])["text"]
    assert text.splitlines()[-1].startswith("</untrusted-web-content id=")
    assert "\x1b[31m" in text
    gone = lowered(noisy, 4_000)[0]
    assert result_of(gone).keys() == {"result_characters", "result_artifact"}


def test_a_message_of_any_length_is_bounded_and_kept_with_its_details() -> None:
    error = ToolError(
        kind="patch_failed",
        message=LINES * 2,
        details={"path": "a.py", "hunks": ["-" * 3_000]},
        recovery_hint="h" * 9_000,
        retryable=True,
    )
    projection, sink = lowered(failure("ApplyPatch", error))
    bounded = projection.canonical.error
    assert bounded is not None
    assert (bounded.kind, bounded.retryable) == ("patch_failed", True)
    assert bounded.message.startswith("line 0 of the log\n")
    assert bounded.message.endswith("line 999 of the log\n")
    assert "of 2000 lines]" in bounded.message
    assert {field.pointer for field in projection.cuts} == {
        *("/error/message", "/error/recovery_hint", "/error/details/hunks/0")
    }
    assert bounded.details is not None
    assert bounded.details["path"] == "a.py"
    whole = sink.texts[projection.canonical.artifacts[bounded.details["error_artifact"]].path]
    assert json.loads(whole) == msgspec.to_builtins(error)
    assert bounded.details["error_characters"] == len(whole)
    check_bounds(projection, sink)
    for tool in tools():
        text = receipt_text(failure(tool, error))
        way = f"all of it: ReadArtifact path={projection.canonical.artifacts[0].path}"
        assert f"[error shortened: it has {len(whole)} characters; {way}]" in text


def test_a_kind_is_never_cut_even_where_nothing_else_is_left_to_cut() -> None:
    error = ToolError(kind="k" * 900, message="m" * 700, recovery_hint="h\n" * 700, retryable=False)
    bounded = lowered(failure("WebFetch", error), 1_000)[0].canonical.error
    assert bounded is not None
    assert (bounded.kind, bounded.message, bounded.retryable) == ("k" * 900, "m" * 29 + "…", False)
    less = lowered(failure("WebFetch", error), 2_000)[0].canonical
    assert less.error is not None
    assert (less.error.kind, len(less.error.message)) == ("k" * 900, 250)
    assert length(less) <= 2_000


def test_a_list_from_a_package_of_its_own_is_kept_as_a_whole() -> None:
    family = msgspec.structs.replace(FAMILY, project=lambda *_: Projected(result=["x" * 50] * 1_000))
    complete = CompleteOutput(tool_name="x.y", status="success", summary_text="a list", result=JsonResult(1))
    sink = MemorySink()
    projection = project(complete, family, family.projection, sink)
    (artifact,) = projection.canonical.artifacts
    assert json.loads(sink.texts[artifact.path])["result"] == ["x" * 50] * 1_000
    assert render(projection.canonical, family, RenderPolicy()).text.startswith("a list\n[result shortened: it has ")


def test_an_error_that_fits_is_as_its_tool_made_it() -> None:
    error = ToolError(kind="network_failed", message="m" * 6_000, recovery_hint="h" * 2_000, retryable=True)
    projection, sink = lowered(failure("WebFetch", error))
    assert (projection.canonical.error, projection.cuts, sink.texts) == (error, (), {})
    text = receipt_of(projection.canonical).text
    assert "m" * 6_000 in text
    assert "h" * 2_000 in text


@each("message", ["boom " + "x" * 13_000, "line\n" * 4_000, "\n" * 23_000, "boom\n" + "y" * 100_000])
@each("hint", ["use the mirror", "h" * 9_000])
def test_a_receipt_of_a_long_message_keeps_kind_hint_and_repetition_and_the_path_of_the_whole(
    message: str, hint: str
) -> None:
    error = ToolError(kind="network_failed", message=message, recovery_hint=hint, retryable=True)
    for tool in tools():
        sink = MemorySink()
        family, _ = builtin(tool)
        canonical = project(failure(tool, error), family, family.projection, sink).canonical
        (path,) = sink.texts
        assert json.loads(sink.texts[path]) == msgspec.to_builtins(error)
        for limit in (400, 1_000, 3_000, 12_000):
            text = receipt_of(canonical, characters=limit).text
            assert len(text) <= limit
            assert (
                len(hint) > 100
                and limit < 12_000
                or set(text.splitlines())
                >= {
                    "Kind: network_failed",
                    "Same call again: may work",
                    path,
                }
            )
        assert text.splitlines()[0].startswith(f"{tool} failed: ")
        assert re.search(r"\[(receipt shortened here|message cut): first \d+ .*of \d+ (lines|characters)\]", text)
        assert f"\nHint: {hint[:900]}" in text


@each("text", ["\ud800" * 30_000, "\x00" * 5_000, "é" * 24_000])
def test_what_only_json_can_measure_is_measured(text: str) -> None:
    complete = CompleteOutput(tool_name="x.y", status="success", summary_text="done", result=JsonResult({"a": text}))
    sink = MemorySink()
    projection = project(complete, FAMILY, ProjectionPolicy(preview=50_000), sink)
    check_bounds(projection, sink)
    assert fits(projection.canonical, CANONICAL_CHARACTERS)
    assert not fits(projection.canonical, length(projection.canonical) - 1)
    huge = msgspec.structs.replace(projection.canonical, result={"value": 10**30}, artifacts=())
    assert fits(huge, length(huge))
    assert not fits(huge, length(huge) - 1)


def test_many_blocks_are_counted_and_kept_together() -> None:
    blocks = ContentBlocks(
        content=tuple(ContentBlock(kind="text", text=f"block {number}\n" * 30) for number in range(300))
    )
    complete = CompleteOutput(tool_name="mcp__a__b", status="success", summary_text="300 blocks", result=blocks)
    sink = MemorySink()
    projection = project(complete, FAMILY, FAMILY.projection, sink)
    result = result_of(projection)
    assert len(result["content"]) + result["content_omitted"] == 300
    lines = sink.texts[projection.canonical.artifacts[result["content_artifact"]].path].splitlines()
    assert json.loads(lines[299]) == {"kind": "text", "text": "block 299\n" * 30}
    assert "result_artifact" not in result
    check_bounds(projection, sink)


def test_tasks_with_long_commands_are_as_many_as_fit_without_losing_their_fields() -> None:
    command = TaskCommand(cmd="make " + "target " * 40)
    digest = TaskDigest(
        id="task_1", kind="command_task", status="running", summary="s" * 100, updated_at="2026-05-27", command=command
    )
    projection, sink = lowered(output("TaskList", ActiveTasks((digest,) * 50)))
    result = result_of(projection)
    assert len(result["tasks"]) + result["tasks_omitted"] == 50
    assert len(sink.texts[projection.canonical.artifacts[result["tasks_artifact"]].path].splitlines()) == 50
    assert "result_artifact" not in result
    assert f"[showing first {len(result['tasks'])} of 50]" in receipt_of(projection.canonical).text


def test_lists_of_a_work_item_and_of_a_wait_say_how_much_they_left_out() -> None:
    change = samples("UpdateWorkItem")["success"].result
    assert change is not None
    warning = UnfinishedTodos(pending_count=2, in_progress_count=1, sample=("write", "test"))
    change = msgspec.structs.replace(change, changed_fields=("todo_list",) * 500, warnings=(warning,) * 90)
    projection, _ = lowered(output("UpdateWorkItem", change))
    result, text = result_of(projection), receipt_of(projection.canonical).text
    for name, total in (("changed_fields", 500), ("warnings", 90)):
        assert len(result[name]) + result[f"{name}_omitted"] == total
        assert f"[showing first {len(result[name])} of {total}]" in text
    waiting: Any = samples("WaitFor")["success"].result
    condition = msgspec.structs.replace(waiting.wait_condition, wake_sources=("task_7",) * 400)
    result = result_of(lowered(output("WaitFor", msgspec.structs.replace(waiting, wait_condition=condition)))[0])
    assert len(result["wait_condition"]["wake_sources"]) + result["wait_condition"]["wake_sources_omitted"] == 400


def test_what_is_kept_of_a_result_can_be_read_line_by_line() -> None:
    waiting = long_wait()
    waiting = msgspec.structs.replace(waiting, result=msgspec.structs.replace(waiting.result, resource="é" * 40_000))
    (text,) = lowered(waiting)[1].texts.values()
    assert ' "tool_name": "WaitFor",\n "status": "success",\n' in text
    assert f'  "resource": "{"é" * 40_000}"' in text


def test_a_result_that_is_no_object_is_kept_elsewhere_as_a_whole() -> None:
    family = msgspec.structs.replace(FAMILY, project=lambda *_: Projected(result=["row"] * 9_000))
    complete = CompleteOutput(tool_name="Ask", status="success", summary_text="done", result=JsonResult(1))
    sink = MemorySink()
    projection = project(complete, family, ProjectionPolicy(), sink)
    assert result_of(projection).keys() == {"result_characters", "result_artifact"}
    assert json.loads(sink.texts[projection.canonical.artifacts[0].path])["result"] == ["row"] * 9_000


def test_an_error_is_shortened_only_as_far_as_it_has_to_be_and_its_kind_not_at_all() -> None:
    error = ToolError(kind="k" * 3_000, message="m" * 9_000, recovery_hint="h" * 9_000, retryable=True)
    projection, sink = lowered(failure("ApplyPatch", error), 9_000)
    assert projection.canonical.error is not None
    assert projection.canonical.error.kind == error.kind
    assert len(projection.canonical.error.message) == 2_000
    assert projection.canonical.artifacts[0].path.endswith("/error.txt")
    assert projection.canonical.error.details == {"error_characters": len(*sink.texts.values()), "error_artifact": 0}
    least = lowered(failure("ApplyPatch", error), 2_000)[0].canonical.error
    assert least is not None
    assert (least.kind, len(least.message), len(least.recovery_hint or "")) == (error.kind, 30, 30)

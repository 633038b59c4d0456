"""Content that an envelope or a receipt shortens is stored, and the receipt names its path (RFC-079, RFC-153)."""

from __future__ import annotations

from typing import Any

import msgspec

from envelopes.families.command.results import BatchItem, BatchResult
from envelopes.families.file.results import Diagnostic, IgnoredMetadata, PatchedFile, PatchResult
from envelopes.families.task.results import (
    FailureArtifact,
    InputOffered,
    StopRequested,
    TaskRead,
    TaskSnapshot,
    TaskState,
)
from envelopes.families.web.results import Attempt, FoundPages, Hit, Link
from envelopes.storage.sinks import MemorySink
from tests.cases import each
from tests.envelopes.built_in import output, projected, receipt_of

LONG = "a part of the text " * 100 + "and its end"
TASK = TaskSnapshot(
    task_id="t1", kind="command_task", status="running", summary=LONG, created_at="2026", updated_at="2026"
)
SHORT_TASK = msgspec.structs.replace(TASK, summary=None)
FILE = (PatchedFile(action="modify", path="a.py"),)
ATTEMPT = Attempt(provider="one", status="error", error_kind="limit", error_message=LONG, command="key=s3")
HIT = Hit(title="a page", url="https://a.example", snippet=LONG, source="one")


def find_pages(**fields: Any) -> FoundPages:
    return FoundPages(query="q", provider="one", fetched_at="2026", **fields)


@each(
    ("tool", "result", "member"),
    [
        (
            "ExecCommandBatch",
            BatchResult(items=(BatchItem(cmd="make", status="failed", error_kind="odd", error_message=LONG),)),
            "items/0/error_message_artifact",
        ),
        ("TaskStatus", TaskState(task=TASK), "task/summary_artifact"),
        ("TaskStop", StopRequested(task=TASK), "task/summary_artifact"),
        ("TaskInput", InputOffered(task=SHORT_TASK, accepted_input=False, refusal=LONG), "refusal_artifact"),
        (
            "TaskOutput",
            TaskRead(task_id="t1", failure_artifact=FailureArtifact(category="c", kind="k", summary=LONG)),
            "task/failure_artifact/record_artifact",
        ),
        ("WebSearch", find_pages(provider_attempts=(ATTEMPT,)), "provider_attempts_artifact"),
        ("WebSearch", find_pages(results=(HIT,)), "results_artifact"),
        (
            "WebSearch",
            find_pages(citations=tuple(Link(f"{number} {LONG}", "https://a.example") for number in range(9))),
            "citations_artifact",
        ),
        (
            "ApplyPatch",
            PatchResult(changed_files=FILE, diagnostics=(Diagnostic(path="a.py", kind="fuzz", message=LONG),)),
            "diagnostics_artifact",
        ),
    ],
)
def test_a_text_that_was_cut_is_stored_whole_under_a_path_that_the_receipt_names(
    tool: str, result: msgspec.Struct, member: str
) -> None:
    sink = MemorySink()
    canonical = projected(output(tool, result), sink).canonical
    text = receipt_of(canonical).text
    index: Any = canonical.to_json()["result"]
    for name in member.split("/"):
        index = index[int(name) if isinstance(index, list) else name]
    path = canonical.artifacts[index].path
    assert LONG in sink.texts[path]
    assert "key=s3" not in sink.texts[path]
    assert f"\n{path}" in text
    assert sink.texts[path] not in text


@each(("count", "is_stored"), [(8, False), (9, True), (30, True)])
def test_notes_of_a_patch_that_the_receipt_leaves_out_are_stored(count: int, *, is_stored: bool) -> None:
    odd = tuple(Diagnostic(path="a.py", kind="fuzz", message=f"note {number}") for number in range(count))
    ignored = tuple(IgnoredMetadata(path="a.py", kind="index", value=f"{number}") for number in range(count))
    sink = MemorySink()
    complete = output("ApplyPatch", PatchResult(changed_files=FILE, diagnostics=odd, ignored_metadata=ignored))
    canonical = projected(complete, sink).canonical
    text = receipt_of(canonical).text
    assert [artifact.path in text for artifact in canonical.artifacts] == [True, True] * is_stored
    stored = "".join(sink.texts.values())
    assert all(f"a.py: fuzz: note {number}\n" in stored for number in range(count)) is is_stored
    assert all(f"a.py: index {number}\n" in stored for number in range(count)) is is_stored


def test_the_message_of_a_command_in_a_batch_is_named_beside_its_path() -> None:
    item = BatchItem(cmd="make", status="failed", error_kind="odd", error_message=LONG)
    text = receipt_of(projected(output("ExecCommandBatch", BatchResult(items=(item,)))).canonical).text
    assert text.endswith("/command-1-error.txt (whole error message of [1])")

"""Tests ApplyPatch: its input, its canonical result and its receipt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.families.file.results import Diagnostic, IgnoredMetadata, PatchedFile, PatchResult, patch_outcome
from envelopes.families.file.tools import ApplyPatchInput
from envelopes.families.registry import builtin, samples
from envelopes.schema.result import ToolError
from envelopes.storage.sinks import MemorySink
from tests.cases import each
from tests.envelopes.built_in import (
    described_names,
    failure,
    hold_to_its_limits,
    output,
    projected,
    receipt_of,
    receipt_text,
    refusal,
    result_of,
)

GIT = PatchedFile(action="modify", path="a.py")


def modified(count: int) -> tuple[PatchedFile, ...]:
    return tuple(PatchedFile(action="modify", path=f"src/module_{number}.py") for number in range(count))


@pytest.mark.parametrize("sort", list(samples("ApplyPatch")))
def test_a_receipt_reads_as_its_golden(sort: str, golden: Callable[[str, str], None]) -> None:
    golden(f"ApplyPatch/{sort}", receipt_text(samples("ApplyPatch")[sort]))


@each("sort", ["success", "find", "error", "large", "empty", "odd"])
def test_a_slice_reads_as_its_golden(sort: str, golden: Callable[[str, str], None]) -> None:
    golden(f"ReadArtifact/{sort}", receipt_text(samples("ReadArtifact")[sort]))


@pytest.mark.parametrize(
    ("sort", "facts"),
    [
        (
            "success",
            ["Patch applied: 4 files changed\nM src/app.py\nA src/ledger/rows.py\nD src/old.py\nR docs/manual.md -> "],
        ),
        (
            "error",
            [
                "ApplyPatch failed: hunk 2",
                "Kind: context_not_found",
                "The hunk expects:\ndef total(rows):",
                "Hint: read",
            ],
        ),
        (
            "large",
            [
                "Patch applied with 30 diagnostics: 400 files changed",
                "of 400 files]",
                "[omitted 22]",
                "Artifacts, for ReadArtifact path=…:",
            ],
        ),
        ("empty", ["Patch applied: 0 files changed"]),
        ("odd", ["with 1 diagnostic: 1 file changed", "header counts 7 lines, its body has 6", "new_mode 100755"]),
        (
            "odd_error",
            ["Same call again: will fail", "Kind: invalid_hunk_line", "[message cut: first 700 of"],
        ),
    ],
)
def test_a_receipt_states_its_facts(sort: str, facts: list[str]) -> None:
    text = receipt_text(samples("ApplyPatch")[sort])
    assert not [fact for fact in facts if fact not in text]


def test_a_patch_keeps_paths_and_actions_and_no_text() -> None:
    patch = PatchResult(
        changed_files=(
            PatchedFile(action="add", path="a.py"),
            PatchedFile(action="move", path="new.md", from_path="old.md"),
        ),
        ignored_metadata=(IgnoredMetadata(path="a.py", kind="index", value="1..2"),),
        diagnostics=(Diagnostic(path="new.md", kind="hunk_count_mismatch", message="counts 4, has 3"),),
    )
    assert result_of(output("ApplyPatch", patch)) == {
        "changed_files": [
            {"action": "add", "path": "a.py"},
            {"action": "move", "path": "new.md", "from_path": "old.md"},
        ],
        "changed_paths": ["a.py", "new.md"],
        "changed_file_count": 2,
        "ignored_metadata": [{"path": "a.py", "kind": "index", "value": "1..2"}],
        "diagnostics": [{"path": "new.md", "kind": "hunk_count_mismatch", "message": "counts 4, has 3"}],
    }


def test_a_patch_without_anything_odd_carries_no_empty_lists() -> None:
    assert set(result_of(output("ApplyPatch", PatchResult(changed_files=(GIT,))))) == {
        "changed_files",
        "changed_paths",
        "changed_file_count",
    }


def test_files_beyond_the_budget_are_counted_and_kept_in_an_artifact() -> None:
    sink = MemorySink()
    canonical = projected(output("ApplyPatch", PatchResult(changed_files=modified(900))), sink).canonical
    result = canonical.result
    assert isinstance(result, dict)
    listed = len(result["changed_files"])
    assert (result["changed_file_count"], listed + result["changed_files_omitted"]) == (900, 900)
    assert len(result["changed_paths"]) == listed
    listing = sink.texts[canonical.artifacts[result["changed_files_artifact"]].path]
    assert listing.splitlines()[899] == "M src/module_899.py"
    assert (
        f"[showing first {listed} of 900 files]\nArtifacts, for ReadArtifact path=…:\n{canonical.artifacts[0].path}"
        in receipt_of(canonical).text
    )


def test_long_paths_are_listed_within_4000_characters() -> None:
    deep = tuple(PatchedFile(action="add", path=f"{number}/{'d' * 300}") for number in range(60))
    result = result_of(output("ApplyPatch", PatchResult(changed_files=deep)))
    assert 3_600 < sum(len("add") + len(path) for path in result["changed_paths"]) <= 4_000
    assert result["changed_files_omitted"] == 60 - len(result["changed_paths"])


@pytest.mark.parametrize(("count", "lines", "omitted"), [(8, 8, ""), (9, 8, "[omitted 1]"), (60, 8, "[omitted 52]")])
def test_a_receipt_names_eight_diagnostics_and_counts_the_others(count: int, lines: int, omitted: str) -> None:
    odd = tuple(Diagnostic(path="a.py", kind="fuzz", message=f"note {number}") for number in range(count))
    text = receipt_text(output("ApplyPatch", PatchResult(changed_files=(GIT,), diagnostics=odd)))
    assert text.count("a.py: fuzz: note") == lines
    assert text.partition("\nArtifacts, for ")[0].endswith(omitted or "note 7")


def test_twenty_diagnostics_are_kept_and_the_others_counted() -> None:
    odd = tuple(Diagnostic(path="a.py", kind="fuzz", message=f"note {number}") for number in range(60))
    result = result_of(output("ApplyPatch", PatchResult(changed_files=(GIT,), diagnostics=odd)))
    assert (len(result["diagnostics"]), result["diagnostics_omitted"]) == (20, 40)


def test_a_long_diagnostic_is_shortened_and_recorded_as_such() -> None:
    odd = (Diagnostic(path="a.py", kind="fuzz", message="x " * 400),)
    projection = projected(output("ApplyPatch", PatchResult(changed_files=(GIT,), diagnostics=odd)))
    assert isinstance(projection.canonical.result, dict)
    assert len(projection.canonical.result["diagnostics"][0]["message"]) == 300
    assert [cut.pointer for cut in projection.cuts] == ["/result/diagnostics/0/message"]


def test_the_summary_marks_each_path_and_lists_three_diagnostics() -> None:
    odd = tuple(Diagnostic(path="a.py", kind="fuzz", message=f"note {number}") for number in range(4))
    patch = PatchResult(changed_files=(GIT, PatchedFile(action="delete", path="b.py")), diagnostics=odd)
    assert patch_outcome(patch) == "applied patch to M:a.py, D:b.py; diagnostics: note 0; note 1; note 2"
    assert len(patch_outcome(PatchResult(changed_files=modified(50)))) == 200


def test_an_error_message_is_bounded_in_the_receipt_and_whole_in_the_envelope() -> None:
    message = f"cannot read {'Q' * 300} here " + "and more " * 100
    canonical = projected(
        failure("ApplyPatch", ToolError(kind="patch_failed", message=message, retryable=False))
    ).canonical
    assert canonical.error is not None
    assert canonical.error.message == message
    first, cut, *_ = receipt_of(canonical).text.splitlines()
    assert first.startswith(f"ApplyPatch failed: cannot read {'Q' * 96}… here and more")
    assert cut == f"[message cut: first 700 of {len(message)} characters]"
    assert "audit record" not in receipt_of(canonical).text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"input": "--- a\n"}, "`input` is called `patch` here"),
        ({"patch": "--- a\n", "changed_files": []}, "`changed_files` is result metadata"),
        ({"patch": "--- a\n", "dry_run": True}, "`dry_run` is unknown"),
        ({"patch": 3}, "`patch` must be a text, not a whole number"),
        ({}, "`patch` is missing"),
    ],
)
def test_input_that_does_not_fit_is_refused_with_its_reason(arguments: Any, reason: str) -> None:
    error = refusal("ApplyPatch", arguments)
    assert (error.kind, error.retryable) == ("invalid_tool_input", False)
    assert reason in receipt_text(failure("ApplyPatch", error))


def test_a_blank_patch_is_refused_and_no_patch_is_trimmed() -> None:
    assert (refusal("ApplyPatch", {"patch": "  \n"}).details or {})["field"] == "patch"
    parsed = builtin("ApplyPatch")[1].parse({"patch": "--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n+a\n \n"})
    assert isinstance(parsed, ApplyPatchInput)
    assert parsed.patch.endswith("+a\n \n")


def test_the_examples_and_the_description_hold_for_the_schema() -> None:
    definition = builtin("ApplyPatch")[1]
    for example in definition.examples:
        assert definition.parse(example)
    for example in definition.counter_examples:
        assert refusal("ApplyPatch", example)
    assert described_names("ApplyPatch") == set()
    assert list(definition.input_schema()["properties"]) == ["patch"]


TEXT = st.text(st.characters(exclude_categories=()), max_size=40) | st.builds(
    lambda part, times: part * times, st.sampled_from(["path/", "word ", "x", "\n"]), st.integers(0, 1_000)
)
PATCHES = st.builds(
    PatchResult,
    changed_files=st.lists(
        st.builds(
            PatchedFile,
            action=st.sampled_from(["add", "modify", "delete", "move"]),
            path=TEXT,
            from_path=st.none() | TEXT,
        ),
        max_size=6,
    ).map(tuple)
    | st.integers(0, 500).map(modified),
    ignored_metadata=st.lists(st.builds(IgnoredMetadata, path=TEXT, kind=TEXT, value=TEXT), max_size=12).map(tuple),
    diagnostics=st.lists(st.builds(Diagnostic, path=TEXT, kind=TEXT, message=TEXT), max_size=25).map(tuple),
)
ERRORS = st.builds(
    ToolError,
    kind=st.sampled_from(["patch_failed", "context_not_found"]),
    message=TEXT,
    details=st.none() | st.dictionaries(st.sampled_from(["path", "hunk", "line"]), TEXT | st.integers()),
    recovery_hint=st.none() | TEXT,
    retryable=st.booleans(),
)


@given(
    complete=PATCHES.map(lambda patch: output("ApplyPatch", patch))
    | ERRORS.map(lambda error: failure("ApplyPatch", error))
)
def test_any_output_has_a_receipt_within_every_limit(complete: Any) -> None:
    hold_to_its_limits(complete)

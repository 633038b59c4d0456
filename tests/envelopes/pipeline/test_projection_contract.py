"""The contract of envelope, projections and cuts for every family."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import msgspec
import pytest

from envelopes.families import FAMILIES
from envelopes.families.base import Family
from envelopes.families.command.results import CommandResult
from envelopes.families.registry import projection_fingerprint
from envelopes.families.segments import error_receipt
from envelopes.pipeline.project import Projection, project
from envelopes.pipeline.render import ReceiptTooLong, render
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import (
    ArtifactRef,
    CanonicalResult,
    CompleteOutput,
    InvalidOutput,
    Status,
    ToolError,
    summarize,
)
from envelopes.storage.sinks import MemorySink
from envelopes.text import tokens
from envelopes.text.preview import head_tail
from envelopes.variants import family_variant
from tests.cases import each

SAMPLES = [(family, sample) for family in FAMILIES for sample in family.samples]
FIVE = ["tool_name", "status", "summary_text", "result", "error"]
TIMED_OUT = ToolError(
    kind="timeout", message="No answer in 30 s", details={"seconds": 30}, recovery_hint="Ask for less.", retryable=True
)


class Answer(msgspec.Struct, frozen=True):
    text: str


def output(
    status: Status = "success",
    result: Answer | None = None,
    error: ToolError | None = None,
    *,
    summary_text: str = "done",
) -> CompleteOutput:
    return CompleteOutput(tool_name="Ask", status=status, summary_text=summary_text, result=result, error=error)


def projected(family: Family, sample: CompleteOutput) -> tuple[Projection, MemorySink]:
    sink = MemorySink()
    return project(sample, family, family.projection, sink), sink


def shown(family: Family, sample: CompleteOutput) -> tuple[Segment, ...]:
    projection, _ = projected(family, sample)
    return render(projection.canonical, family, family.rendering).segments


@each("family", FAMILIES)
def test_what_counts_the_tokens_of_previews_is_in_the_fingerprints(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFC-055: where the vocabulary is not installed, another encoding counts, and previews with a budget differ."""
    counted = [projected(family, sample)[0].canonical for sample in family.samples]
    before = projection_fingerprint(family), family_variant(family, "receipt").hash
    monkeypatch.setattr(tokens, "_load_vocabulary", lambda: None)
    estimated = [projected(family, sample)[0].canonical for sample in family.samples]
    after = projection_fingerprint(family), family_variant(family, "receipt").hash
    assert (counted != estimated) is family.counts_tokens
    assert {was == now for was, now in zip(before, after, strict=True)} == {not family.counts_tokens}
    assert [len(name) for name in after] == [16, 16]


@each(("family", "sample"), SAMPLES)
def test_success_and_error_share_the_five_keys_in_one_order(family: Family, sample: CompleteOutput) -> None:
    document = projected(family, sample)[0].canonical.to_json()
    assert list(document)[:5] == FIVE
    assert set(document) - set(FIVE) <= {"artifacts"}
    assert (document["result"] is None, document["error"] is None) == (sample.status == "error", sample.error is None)
    assert CanonicalResult.from_json(document).to_json() == document


@pytest.mark.parametrize(
    ("status", "result", "error"),
    [
        ("success", None, None),
        ("success", Answer("4"), TIMED_OUT),
        ("success", None, TIMED_OUT),
        ("error", Answer("4"), None),
        ("error", None, None),
        ("error", Answer("4"), TIMED_OUT),
    ],
)
def test_an_output_without_exactly_the_half_of_its_status_is_refused(
    status: Status, result: Answer | None, error: ToolError | None
) -> None:
    with pytest.raises(InvalidOutput):
        project(output(status, result, error), FAMILIES[0], ProjectionPolicy(), MemorySink())
    stored = {"tool_name": "Ask", "status": status, "summary_text": "done"}
    halves = {"result": msgspec.to_builtins(result), "error": msgspec.to_builtins(error)}
    with pytest.raises(InvalidOutput):
        CanonicalResult.from_json({**stored, **halves})


def test_an_error_says_kind_message_and_whether_to_try_again_and_may_say_more() -> None:
    least = {"kind": "timeout", "message": "No answer in 30 s", "retryable": True}
    bare = msgspec.convert(least, ToolError)
    assert (bare.details, bare.recovery_hint) == (None, None)
    assert msgspec.convert(msgspec.to_builtins(TIMED_OUT), ToolError) == TIMED_OUT
    for name in least:
        with pytest.raises(msgspec.ValidationError, match=f"missing required field `{name}`"):
            msgspec.convert({key: value for key, value in least.items() if key != name}, ToolError)


def test_a_result_of_another_family_is_refused_with_both_names() -> None:
    with pytest.raises(InvalidOutput, match="^Ask: Answer is no result of command$"):
        project(output("success", Answer("4")), FAMILIES[0], ProjectionPolicy(), MemorySink())


@each("status", ["success", "error"])
@each("summary", ["", " ", "\n\t "])
def test_an_output_without_a_summary_is_refused(status: Status, summary: str) -> None:
    halves = {"result": Answer("4")} if status == "success" else {"error": TIMED_OUT}
    with pytest.raises(InvalidOutput, match="summary_text is empty"):
        project(output(status, **halves, summary_text=summary), FAMILIES[0], ProjectionPolicy(), MemorySink())


@each("summary", ["", " ", "two\nlines", "x" * 201, "a line\n" * 3_000])
def test_an_envelope_without_a_summary_of_one_short_line_is_not_read(summary: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"the summary .*\$\.summary_text"):
        CanonicalResult.from_json({"tool_name": "Ask", "status": "success", "summary_text": summary, "result": {}})


@each("status", ["cancelled", "timeout", ""])
def test_an_output_of_any_other_status_is_refused(status: str) -> None:
    """Python code is not decoded, so nothing but the check sees the status that it gives."""
    complete = CompleteOutput(tool_name="Ask", status=status, summary_text="done", result=Answer("4"))  # type: ignore[arg-type]
    with pytest.raises(InvalidOutput, match="neither success nor error"):
        project(complete, FAMILIES[0], ProjectionPolicy(), MemorySink())


def test_no_status_but_success_and_error_is_read() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.status"):
        CanonicalResult.from_json({"tool_name": "Ask", "status": "cancelled", "summary_text": "", "result": {}})


def test_a_summary_is_one_line_of_at_most_200_characters() -> None:
    assert summarize("two\n lines") == "two lines"
    assert summarize("x" * 200) == "x" * 200
    assert summarize("x" * 201) == "x" * 199 + "…"


@each(("family", "sample"), SAMPLES)
def test_a_summary_never_holds_a_large_output(family: Family, sample: CompleteOutput) -> None:
    text = projected(family, sample)[0].canonical.summary_text
    assert 0 < len(text) <= 200
    assert "\n" not in text


def test_an_artifact_reference_is_a_path_and_nothing_else() -> None:
    canonical = CanonicalResult(
        tool_name="Ask", status="success", summary_text="done", result={}, artifacts=(ArtifactRef("artifacts/1.txt"),)
    )
    assert canonical.to_json()["artifacts"] == [{"path": "artifacts/1.txt"}]
    assert ArtifactRef.__struct_fields__ == ("path",)


def test_of_an_error_only_the_details_shrink() -> None:
    large = msgspec.structs.replace(TIMED_OUT, details={"log": "line\n" * 1_000})
    canonical = project(
        output("error", error=large), FAMILIES[0], ProjectionPolicy(details=100), MemorySink()
    ).canonical
    error = canonical.error
    assert error is not None
    assert (error.kind, error.message, error.recovery_hint, error.retryable) == (
        "timeout",
        "No answer in 30 s",
        "Ask for less.",
        True,
    )
    assert error.details is not None
    assert error.details["members_omitted"] == 1
    assert list(canonical.to_json()) == [*FIVE, "artifacts"]


@pytest.mark.parametrize("error", [TIMED_OUT, ToolError(kind="odd", message="no", retryable=False)])
def test_an_error_whose_details_fit_is_left_alone(error: ToolError) -> None:
    assert project(output("error", error=error), FAMILIES[0], ProjectionPolicy(), MemorySink()).canonical.error == error


@pytest.mark.parametrize("family", FAMILIES, ids=[family.name for family in FAMILIES])
def test_every_family_says_of_an_error_what_the_model_may_act_on(family: Family) -> None:
    canonical = project(output("error", error=TIMED_OUT), family, family.projection, MemorySink()).canonical
    text = render(canonical, family, family.rendering).text
    for fact in ("failed", "timeout", "No answer in 30 s", "Ask for less."):
        assert fact in text
    assert "Same call again: may work" in text


HALVES = """
from envelopes.storage.sinks import MemorySink
from envelopes.families import FAMILIES
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.variants import variants_for

for family in FAMILIES:
    for sample in family.samples:
        sink = MemorySink()
        canonical = project(sample, family, family.projection, sink).canonical
        shown = [render(canonical, family, one.policy, variant=one) for one in variants_for(family)]
        print(canonical, sink.texts, shown)
"""


@pytest.mark.extended
def test_the_same_output_gives_the_same_halves_in_another_process() -> None:
    """Sets are iterated in another order in each process."""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", HALVES], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) == len(SAMPLES)


@each(("family", "sample"), SAMPLES)
def test_the_same_output_gives_the_same_halves(family: Family, sample: CompleteOutput) -> None:
    (first, first_sink), (second, second_sink) = projected(family, sample), projected(family, sample)
    assert (first, first_sink.texts) == (second, second_sink.texts)
    assert shown(family, sample) == shown(family, sample)


@each(("family", "sample"), SAMPLES)
def test_a_receipt_is_not_the_envelope_in_json(family: Family, sample: CompleteOutput) -> None:
    text = "".join(segment.text for segment in shown(family, sample))
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    assert '"summary_text"' not in text


@each(("family", "sample"), SAMPLES)
def test_a_receipt_has_the_outcome_on_its_first_line(family: Family, sample: CompleteOutput) -> None:
    match sample.result:
        case CommandResult(disposition="completed", interrupted=False, exit_status=None):
            return  # recorded without an exit code: the output is all that is known of how the command ended
    before: list[str] = []
    for segment in shown(family, sample):
        if segment.role == "headline":
            break
        before.append(segment.text)
    else:
        pytest.fail("the receipt has no headline")
    assert "\n" not in "".join(before)


@each(("family", "sample"), SAMPLES)
def test_content_stored_as_an_artifact_is_named_and_not_repeated(family: Family, sample: CompleteOutput) -> None:
    projection, sink = projected(family, sample)
    document = json.dumps(projection.canonical.to_json())
    assert set(sink.texts) <= {artifact.path for artifact in projection.canonical.artifacts}
    assert not [path for path, text in sink.texts.items() if json.dumps(text)[1:-1] in document]
    receipt = "".join(segment.text for segment in shown(family, sample))
    assert all(path in receipt for path in sink.texts)


@each(("family", "sample"), SAMPLES)
def test_a_result_that_fits_carries_no_sign_of_a_cut(family: Family, sample: CompleteOutput) -> None:
    projection, sink = projected(family, sample)
    result = projection.canonical.result
    if projection.cuts or not isinstance(result, dict):
        return
    assert not [name for name in result if name.endswith(("_artifact", "_omitted"))]
    assert not sink.texts


def test_a_preview_keeps_whole_lines_of_both_ends_and_states_the_cut() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 101))
    preview = head_tail(text, 40)
    assert (preview.head, preview.tail) == ("line 1\nline 2\n", "line 99\nline 100\n")
    assert "[output truncated: showing first 2 and last 2 of 100 lines]" in preview.text
    assert preview.cut is not None
    assert preview.cut.gaps == ((2, 98),)


def test_one_long_line_is_cut_by_characters() -> None:
    preview = head_tail("abcdefghij" * 10, 10)
    assert (preview.head, preview.tail) == ("abcde", "fghij")
    assert "first 5 and last 5 of 100 characters" in preview.text


def test_a_text_that_fits_has_no_cut() -> None:
    assert head_tail("whole\n", 6).cut is None


def test_a_renderer_that_passes_its_policy_is_a_fault_and_is_not_cut() -> None:
    family = msgspec.structs.replace(
        FAMILIES[0],
        renderers={"receipt": lambda _canonical, policy: [Segment("x" * (policy.characters + 1), "label")]},
    )
    canonical = CanonicalResult(tool_name="Ask", status="success", summary_text="done", result={})
    with pytest.raises(ReceiptTooLong):
        render(canonical, family, family.rendering)


def test_a_receipt_of_a_failure_needs_one() -> None:
    succeeded = CanonicalResult(tool_name="Bash", status="success", summary_text="done", result={})
    with pytest.raises(ValueError, match="needs an envelope with an error"):
        list(error_receipt(succeeded))

"""Rules report what misleads a model, and not what is merely shorter, different or unknown."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes.families import FAMILIES
from envelopes.families.base import Family
from envelopes.families.registry import family
from envelopes.halves import lint_recorded, read_halves
from envelopes.lint.model import Finding, LintInput, Rule, Shortened, Sighting
from envelopes.lint.rules import SHARED, lint, must_mention
from envelopes.pipeline.project import project
from envelopes.pipeline.render import lint_input, render
from envelopes.schema.receipt import ImagePart, Receipt, Role, Segment, SegmentSource, Variant, text_receipt
from envelopes.schema.result import ArtifactRef, CanonicalResult, CompleteOutput, ToolError
from envelopes.storage.sinks import MemorySink
from envelopes.text.credentials import find_secrets
from envelopes.text.preview import Cut
from envelopes.text.untrusted_json import dump_json
from envelopes.variants import VARIANTS
from tests.cases import each
from tests.envelopes.alignment.test_alignment_labels import answered

SAMPLES = [(family, sample) for family in FAMILIES for sample in family.samples]
REFUSED = ToolError(kind="write_denied", message="The user declined", recovery_hint="Ask first.", retryable=False)
FIVE_OF_NINE = Cut("lines", 9, ((0, 3), (7, 9)))


def own(text: str, role: Role = "label") -> Segment:
    return Segment(text, role)


def field(text: str, pointer: str, role: Role = "value", document: Any = "canonical") -> Segment:
    return Segment(text, role, SegmentSource(document, pointer, 0, len(text)))


def pair(
    *segments: Segment | str,
    result: Any = None,
    error: ToolError | None = None,
    artifacts: tuple[str, ...] = (),
    **known: Any,
) -> LintInput:
    canonical = CanonicalResult(
        tool_name="ExecCommand",
        status="error" if error else "success",
        summary_text="command finished",
        result=None if error else result or {"disposition": "completed"},
        error=error,
        artifacts=tuple(map(ArtifactRef, artifacts)),
    )
    own_segments = [own(segment) if isinstance(segment, str) else segment for segment in segments]
    return LintInput(canonical=canonical, receipt=text_receipt(own_segments), **known)


def names(call: LintInput, rules: tuple[Rule, ...] = ()) -> list[str]:
    return [finding.rule for finding in lint(call, rules)]


OUTPUT = 'first line of it\nsecond "line" of it\n'
CUT = {"cuts": (Shortened("/result/stdout_preview", FIVE_OF_NINE),), "result": {"stdout_preview": OUTPUT}}
SHOWN = field("first line of it\n", "/result/stdout_preview", "preview")
TASK = {"task_handle": {"task_id": "task_123"}}

PREVIEW = (
    "<persisted-output>\nOutput too large (25.8KB). Full output saved to: /t/1.txt\n\n"
    "Preview (first 2KB):\n{}\n...\n</persisted-output>"
)


def previewed(stdout: str, total: int = 0) -> dict[str, Any]:
    """A recorded output of which the receipt links nothing; `total` are its lines, where it is not here whole."""
    cut = Cut("lines", total or stdout.count("\n"), ())
    return {"complete": {"stdout": stdout}, "cuts": (Shortened("/stdout", cut, "complete"),)}


BROKEN: dict[str, LintInput] = {
    "escaped_json": pair('{"stdout": "first line of it\\nsecond \\"line\\" of it"}', result={"stdout_preview": OUTPUT}),
    "exit_status_missing": pair("Process exited with code 10", result={"exit_status": 1}),
    "cut_without_marker": pair(own("Output:\n"), SHOWN, **CUT),
    "marker_without_size": pair("a.py\nb.py\n(Results are truncated. Consider a more specific path.)"),
    "artifact_missing": pair(
        "Artifacts:\nartifacts/1/stdout.txt", artifacts=("artifacts/1/stdout.txt",), has_artifact=lambda _: False
    ),
    "secret_present": pair("token: ghp_" + "a1B2" * 9),
    "success_said": pair("File has been updated successfully.", error=REFUSED, is_recorded=True),
    "empty_receipt": pair("", result={"exit_status": 0}),
    "repeated_text": pair("r" * 250 + "\nResult:\n" + "r" * 250, result={"text": "r" * 250}),
    "preview_differs": pair(
        field("another line", "/result/stdout_preview", "preview"), result={"stdout_preview": OUTPUT}
    ),
    "headline_late": pair(
        field("README.md", "/result/stdout_preview"), "\n", own("Process exited with code 0", "headline")
    ),
    "artifact_unnamed": pair("The output was saved.", artifacts=("artifacts/1/stdout.txt",)),
    "error_incomplete": pair("write_denied: The user declined", error=REFUSED),
}

IN_ORDER: dict[str, LintInput] = {
    "text as it is": pair(f"stdout:\n{OUTPUT}", result={"stdout_preview": OUTPUT}),
    "escapes that the command itself printed": pair(
        '{"a": "\\n\\"x\\""}', result={"stdout_preview": '{"a": "\\n\\"x\\""}'}
    ),
    "a text without anything to escape": pair("C:\\temp is full", result={"text": "C:\\temp is full of files again"}),
    "exit status in words": pair("Process exited with code 1.", result={"exit_status": 1}),
    "no word about a zero": pair("README.md", result={"exit_status": 0}),
    "a cut that is stated": pair(SHOWN, own("[3 lines omitted]", "marker"), **CUT),
    "a cut list of which only the number is said": pair(
        Segment("9 items", "value", SegmentSource("canonical", "/result/items")),
        cuts=(Shortened("/result/items", FIVE_OF_NINE),),
    ),
    "a field that is not shown at all": pair("Done.", **CUT),
    "a marker with its size": pair("... [40 lines truncated] ..."),
    "code that speaks of truncation": pair("def truncated(text):\n    return text[:9]"),
    "an artifact that is there": pair(
        "artifacts/1/a.txt", artifacts=("artifacts/1/a.txt",), has_artifact=lambda _: True
    ),
    "a failure that says so": pair("Error: completed nothing", error=REFUSED, is_recorded=True),
    "a failure in other words": pair("The user doesn't want to proceed.", error=REFUSED, is_recorded=True),
    "nothing to say about nothing": pair("", is_recorded=True, complete={"stdout": ""}),
    "one text in two fields": pair("r" * 250 + "\n" + "r" * 250, result={"a": "r" * 250, "b": "r" * 250}),
    "a preview of the recorded output": pair(PREVIEW.format("one"), is_recorded=True, **previewed("zero\none\ntwo\n")),
    "a preview of an output that is not here whole": pair(
        PREVIEW.format("two"), is_recorded=True, **previewed("zero\none\n", total=3)
    ),
    "a preview without an output": pair(PREVIEW.format("one"), is_recorded=True, complete={"filenames": ["a"]}),
    "a preview with escapes": pair(
        Segment("first &lt; it", "preview", SegmentSource("canonical", "/result/text", 0, 10)),
        result={"text": "first < it"},
    ),
    "a tag before the headline": pair("<result>\n", own("command finished", "headline")),
}


@pytest.mark.parametrize("rule", [rule.name for rule in SHARED])
def test_each_rule_finds_what_it_is_for_and_nothing_else_speaks(rule: str) -> None:
    assert names(BROKEN[rule]) == [rule]


@pytest.mark.parametrize("case", list(IN_ORDER))
def test_what_is_in_order_is_left_alone(case: str) -> None:
    assert names(IN_ORDER[case]) == []


def test_a_recorded_preview_of_another_output_is_found() -> None:
    call = pair(PREVIEW.format("three"), is_recorded=True, **previewed("zero\none\ntwo\n"))
    (finding,) = lint(call)
    assert (finding.rule, finding.severity, finding.pointer) == ("preview_differs", "error", "/stdout")
    assert finding.span is not None
    assert call.receipt.text[slice(*finding.span)] == "three"


def test_a_finding_says_where_and_how_bad_it_is_in_a_sentence() -> None:
    (finding,) = lint(BROKEN["exit_status_missing"])
    assert finding == Finding(
        rule="exit_status_missing",
        severity="error",
        sentence="The command ended with 1; the receipt does not mention it.",
        pointer="/result/exit_status",
        document="canonical",
        span=None,
    )
    (finding,) = lint(BROKEN["marker_without_size"])
    start, end = finding.span or (0, 0)
    assert finding.severity == "warning"
    assert (
        BROKEN["marker_without_size"].receipt.text[start:end]
        == "(Results are truncated. Consider a more specific path.)"
    )


def test_a_secret_is_pointed_at_and_never_repeated() -> None:
    (finding,) = lint(BROKEN["secret_present"])
    assert finding.sentence == "The receipt contains a GitHub token."
    assert finding.span == (7, 47)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234\n", "a private key"),
        ("aws_access_key_id = AKIA2E3RWZTQ4HNBVJKL", "an AWS access key"),
        ("postgres://app:hunter22@db.internal/app", "a password in an address"),
        ("aws_access_key_id = AKIAIOSFODNN7EXAMPLE", None),
        ("postgres://user:password@localhost/app", None),
        ("https://example.org:8080/@scope/name", None),
        ("://app:hunter22@db.internal/app", None),
        ("grep -----BEGIN PRIVATE KEY----- *.pem", None),
        ("password = os.environ['PASSWORD']", None),
    ],
)
def test_a_secret_is_known_by_a_shape_that_nothing_else_has(text: str, kind: str | None) -> None:
    assert [secret.kind for secret in find_secrets(text)] == ([kind] if kind else [])


def test_the_gap_of_a_recorded_receipt_counts_only_when_its_lines_are_nowhere() -> None:
    """A part that was shown in another order was not aligned, and not cut either."""
    lines = [f"this is line {number} of nine" for number in range(9)]
    shown = field("\n".join(lines[:3]), "/stdout", document="complete")
    known = {
        "is_recorded": True,
        "complete": {"stdout": "\n".join(lines)},
        "cuts": (Shortened("/stdout", FIVE_OF_NINE, "complete"),),
    }
    assert names(pair(shown, **known)) == ["cut_without_marker"]
    assert names(pair(shown, own("\n" + "\n".join(reversed(lines[3:]))), **known)) == []


def test_an_empty_receipt_about_recorded_output_is_found_and_a_picture_is_a_receipt() -> None:
    known = {
        "is_recorded": True,
        "complete": {"stdout": "x\n"},
        "cuts": (Shortened("/stdout", Cut("lines", 1, ()), "complete"),),
    }
    assert names(pair(" \n", **known)) == ["empty_receipt"]
    picture = Receipt((ImagePart("image/png", "aGk=", 2),))
    assert names(msgspec.structs.replace(pair("", **known), receipt=picture)) == []


def test_a_failed_call_with_an_empty_receipt_is_found() -> None:
    findings = lint(pair("", error=REFUSED, is_recorded=True))
    assert [(finding.rule, finding.pointer) for finding in findings] == [("empty_receipt", "/error/message")]


def test_the_first_break_with_enough_around_it_tells_and_an_escaped_backslash_is_none() -> None:
    value = 'a"b\nshort\nsome longer line here\nand what follows it'
    escaped = "some longer line here\\nand what follows it"
    assert names(pair(f'{{"text": "… {escaped}"}}', result={"text": value})) == ["escaped_json"]
    assert names(pair("C:\\\\some longer line here\\nothing of it", result={"text": value})) == []


def test_a_text_without_enough_around_its_breaks_is_not_looked_for() -> None:
    for escaped in ("some longer line\\\\nhere", "some longer line\\nhere and there"):
        assert names(pair(f'{{"text": "{escaped}"}}', result={"text": "a\nb\nc\n" * 9})) == []


@pytest.mark.parametrize("escaped", ["un élément\\nsuivant", "un \\u00e9l\\u00e9ment\\nsuivant"])
def test_escapes_are_known_in_both_ways_of_writing_json(escaped: str) -> None:
    call = pair(f'{{"text": "voici {escaped} et fin"}}', result={"text": "voici un élément\nsuivant et fin"})
    assert names(call) == ["escaped_json"]


@pytest.mark.parametrize("rule", ["headline_late", "artifact_unnamed", "error_incomplete"])
def test_a_recorded_receipt_is_not_measured_by_our_own_conventions(rule: str) -> None:
    assert names(msgspec.structs.replace(BROKEN[rule], is_recorded=True)) == []


def test_a_familys_own_rules_come_first_and_replace_a_shared_one_of_their_name() -> None:
    def always(_: LintInput) -> list[Sighting]:
        return [Sighting(sentence="Mine.")]

    call = pair("a\n(Results are truncated.)", result={"exit_status": 1})
    mine = (
        Rule(name="exit_status_missing", severity="note", find=always),
        Rule(name="mine", severity="note", find=always),
    )
    assert [(finding.rule, finding.severity) for finding in lint(call, mine)] == [
        ("exit_status_missing", "note"),
        ("mine", "note"),
        ("marker_without_size", "warning"),
    ]


def test_a_family_asks_for_the_handles_that_its_tools_take() -> None:
    rules = family("command").lint
    assert names(pair("Command promoted to background task", result=TASK), rules) == ["task_unsaid"]
    assert names(pair("Task: task_123", result=TASK), rules) == []
    assert names(pair("Task: task_1234", result=TASK), rules) == ["task_unsaid"]


def test_missing_rows_are_one_finding_and_none_where_a_marker_says_so() -> None:
    rules = (must_mention("row_unsaid", "which rows there are", "/result/rows/*/id"),)
    rows = {"rows": [{"id": f"wi_{number}"} for number in range(5)]}
    (finding,) = lint(pair("wi_0", result=rows), rules)
    assert finding.sentence == "The receipt does not mention which rows there are: wi_1 and 3 more."
    assert finding.pointer == "/result/rows/1/id"
    assert lint(pair("wi_0 ", own("+4 more", "marker"), result=rows), rules) == ()


@pytest.mark.parametrize("receipt", ["wi_1", "(wi_1)", "a wi_10 and wi_1", "ä wi_1\n"])
def test_a_handle_is_named_where_it_is_a_word(receipt: str) -> None:
    rules = (must_mention("row_unsaid", "which rows there are", "/result/rows/*/id"),)
    assert names(pair(receipt, result={"rows": [{"id": "wi_1"}]}), rules) == []
    unsaid = receipt.replace("wi_1", "wi_1_") + " äwi_1 xwi_1 wi_12"
    assert names(pair(unsaid, result={"rows": [{"id": "wi_1"}]}), rules) == ["row_unsaid"]


@pytest.mark.parametrize(
    ("rule", "is_found"),
    [
        ("exit_status_missing", False),
        ("cut_without_marker", False),
        ("empty_receipt", False),
        ("artifact_unnamed", False),
        ("error_incomplete", False),
        ("secret_present", True),
        ("escaped_json", True),
        ("marker_without_size", True),
        ("repeated_text", True),
    ],
)
def test_the_beginning_of_a_receipt_says_nothing_of_what_is_missing(rule: str, *, is_found: bool) -> None:
    assert (rule in names(msgspec.structs.replace(BROKEN[rule], is_whole=False))) is is_found


@each(("family", "sample"), SAMPLES)
def test_no_receipt_of_ours_has_a_finding(family: Family, sample: CompleteOutput) -> None:
    projection = project(sample, family, family.projection, MemorySink())
    receipt = render(projection.canonical, family, family.rendering)
    assert lint(lint_input(projection, receipt), family.lint) == ()


@pytest.mark.parametrize(
    "variant",
    [candidate for candidate in VARIANTS if candidate.id in ("tagged", "markdown")],
    ids=lambda candidate: candidate.id,
)
def test_the_readable_variants_have_no_finding_either(variant: Variant) -> None:
    for family_of, sample in SAMPLES:
        projection = project(sample, family_of, family_of.projection, MemorySink())
        receipt = render(projection.canonical, family_of, family_of.rendering, variant=variant)
        assert lint(lint_input(projection, receipt), family_of.lint) == ()


def test_the_variants_that_send_json_differ_by_what_they_escape() -> None:
    (variant,) = (candidate for candidate in VARIANTS if candidate.id == "canonical_json")
    command = family("command")
    sample = next(candidate for candidate in command.samples if "FAIL: TestResume" in str(candidate.result))
    projection = project(sample, command, command.projection, MemorySink())
    receipt = render(projection.canonical, command, command.rendering, variant=variant)
    assert names(lint_input(projection, receipt), command.lint) == ["escaped_json"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=20,
)


@given(complete=ANYTHING, text=st.text(max_size=300), is_recorded=st.booleans())
def test_lint_never_raises_and_says_the_same_each_time(*, complete: Any, text: str, is_recorded: bool) -> None:
    cuts = (Shortened("/value", FIVE_OF_NINE),)
    call = pair(text, result={"value": complete}, complete=complete, is_recorded=is_recorded, cuts=cuts)
    findings = lint(call)
    assert findings == lint(call)
    assert all(0 <= finding.span[0] < finding.span[1] <= len(text) for finding in findings if finding.span)


def test_a_call_without_a_receipt_has_no_findings() -> None:
    halves = read_halves(
        agent="claude-code", tool="Bash", args=b"{}", result=b'{"stdout": ""}', content=None, is_error=None
    )
    assert lint_recorded(halves) == ()


@pytest.mark.recordings
def test_over_all_recorded_calls_the_rules_find_what_is_there_and_cry_no_wolf(recordings_root: Path) -> None:
    """Each was checked by hand: search results quoted as JSON, and a marker without the number of files."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in sorted((recordings_root / "claude-code").rglob("*.jsonl")):
        for _, call in answered(path):
            halves = read_halves(
                agent="claude-code",
                tool=call.tool,
                args=dump_json(call.args),
                result=dump_json(call.result) if call.has_result else None,
                content=dump_json(list(call.parts)),
                is_error=call.is_error,
            )
            counts.update({(call.tool, finding.rule) for finding in lint_recorded(halves)})
    assert counts == {("WebSearch", "escaped_json"): 2, ("Glob", "marker_without_size"): 1}


@pytest.mark.parametrize("name", BROKEN)
def test_beside_another_receipt_a_result_is_found_as_it_would_be_alone(name: str) -> None:
    call, other = BROKEN[name], pair("Process exited with code 10", **CUT)
    alone = msgspec.structs.replace(call, receipt=other.receipt)
    assert lint(call.with_receipt(other.receipt)) == lint(alone)
    assert names(call.with_receipt(call.receipt)) == names(call)

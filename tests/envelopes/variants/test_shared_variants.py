"""The variants that serve every family: their text, its sources, and the statement of every cut."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envelopes import variants
from envelopes.families import FAMILIES
from envelopes.families.base import Family
from envelopes.families.registry import family
from envelopes.pipeline.project import project
from envelopes.pipeline.render import ReceiptTooLong, render
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.outcome import ToolDenied, ToolFailure, outcome_to_model_content
from envelopes.schema.receipt import Receipt, Segment, Variant
from envelopes.schema.result import ArtifactRef, CanonicalResult, JsonValue, ToolError
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import resolve
from envelopes.variants import VARIANTS, family_variant, variants_for

LIMITS = (0, 1, 80, 400, 2_000)
SAMPLES = [
    (owner, project(sample, owner, owner.projection, MemorySink()).canonical)
    for owner in FAMILIES
    for sample in owner.samples
]
ROOMY = RenderPolicy(characters=1_000_000)
shared = pytest.mark.parametrize("variant", VARIANTS, ids=[variant.id for variant in VARIANTS])
in_every_family = pytest.mark.parametrize("owner", FAMILIES, ids=[owner.name for owner in FAMILIES])

TEXT = st.text(st.characters(exclude_categories=()), max_size=30) | st.builds(
    lambda part, times: part * times,
    st.sampled_from(["line of text\n", "``` x\n", "</result>\n", 'say "no"\\ ', "é\ud800"]),
    st.integers(0, 2_000),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda child: st.lists(child, max_size=12) | st.dictionaries(st.text(max_size=8) | TEXT, child, max_size=12),
    max_leaves=20,
)


def succeeded(result: JsonValue, *, artifacts: tuple[str, ...] = ()) -> CanonicalResult:
    return CanonicalResult(
        tool_name="Look",
        status="success",
        summary_text="looked at it",
        result=result,
        artifacts=tuple(map(ArtifactRef, artifacts)),
    )


def failed(kind: str = "tool_execution_failed", message: str = "it broke", **fields: Any) -> CanonicalResult:
    error = ToolError(kind=kind, message=message, **({"retryable": False} | fields))
    return CanonicalResult(tool_name="Look", status="error", summary_text="it broke", error=error)


def written(name: str, canonical: CanonicalResult, characters: int = 12_000) -> Receipt:
    external = family("external")
    policy = RenderPolicy(characters=characters)
    return render(canonical, external, policy, variant=family_variant(external, name))


def assert_sourced(receipt: Receipt, document: JsonValue) -> None:
    for segment in receipt.segments:
        source = segment.source
        if source is None:
            continue
        value = resolve(document, source.pointer)
        if source.start is not None:
            assert isinstance(value, str)
            assert value[source.start : source.end] == segment.text


def leaves(value: JsonValue) -> list[str]:
    """The text of each leaf, as a reader would look for it."""
    match value:
        case dict() | list():
            return [text for child in (value.values() if isinstance(value, dict) else value) for text in leaves(child)]
        case str():
            return [value]
        case _:
            return [json.dumps(value)]


@in_every_family
def test_every_variant_of_a_family_keeps_its_sources_and_stays_within_every_policy(owner: Family) -> None:
    for canonical in (sample for sample_owner, sample in SAMPLES if sample_owner is owner):
        for variant in variants_for(owner):
            for limit in LIMITS:
                receipt = render(canonical, owner, RenderPolicy(characters=limit), variant=variant)
                assert len(receipt.text) <= limit, variant.id
                assert_sourced(receipt, canonical.to_json())


@in_every_family
def test_every_variant_follows_from_the_stored_envelope_alone(owner: Family) -> None:
    for canonical in (sample for sample_owner, sample in SAMPLES if sample_owner is owner):
        stored = CanonicalResult.from_json(json.loads(json.dumps(canonical.to_json())))
        for variant in variants_for(owner):
            assert render(stored, owner, variant.policy, variant=variant) == render(
                canonical, owner, variant.policy, variant=variant
            )


@shared
def test_what_was_cut_says_so(variant: Variant) -> None:
    for owner, canonical in SAMPLES:
        whole = render(canonical, owner, ROOMY, variant=variant).text
        for limit in (400, 2_000):
            shown = render(canonical, owner, RenderPolicy(characters=limit), variant=variant).text
            assert shown == whole or re.search(r"\[receipt (shortened here|cut): first \d+ ", shown), variant.id


@shared
def test_nothing_is_cut_that_fits(variant: Variant) -> None:
    for owner, canonical in SAMPLES:
        whole = render(canonical, owner, ROOMY, variant=variant).text
        assert render(canonical, owner, RenderPolicy(characters=len(whole)), variant=variant).text == whole


@shared
@given(result=st.dictionaries(TEXT, JSON, max_size=8) | JSON, limit=st.integers(0, 3_000), message=TEXT)
def test_any_envelope_is_written_within_its_policy_and_the_same_each_time(
    variant: Variant, result: JsonValue, limit: int, message: str
) -> None:
    policy = RenderPolicy(characters=limit)
    for canonical in (succeeded(result, artifacts=("artifacts/1.txt",)), failed(message=message)):
        first, second = (render(canonical, family("external"), policy, variant=variant) for _ in range(2))
        assert first == second
        assert len(first.text) <= limit
        assert_sourced(first, canonical.to_json())


@pytest.mark.parametrize("name", ["tagged", "markdown"])
def test_a_readable_variant_leaves_no_field_out_and_escapes_nothing(name: str) -> None:
    for owner, canonical in SAMPLES:
        text = render(canonical, owner, ROOMY, variant=family_variant(owner, name)).text
        half = canonical.result if canonical.error is None else msgspec.to_builtins(canonical.error)
        expected = [leaf for leaf in leaves(half) if canonical.error is None or leaf != "null"]
        assert not [leaf for leaf in expected if leaf not in text]
        assert all(artifact.path in text for artifact in canonical.artifacts)


def test_the_envelope_as_json_is_what_json_dumps_writes() -> None:
    for owner, canonical in SAMPLES:
        text = render(canonical, owner, ROOMY, variant=family_variant(owner, "canonical_json")).text
        assert text == json.dumps(canonical.to_json(), ensure_ascii=False)


@given(result=JSON)
def test_any_result_as_json_is_what_json_dumps_writes(result: JsonValue) -> None:
    for name, value in (("canonical_json", succeeded(result).to_json()), ("outcome_json", result)):
        shown = render(succeeded(result), family("external"), ROOMY, variant=family_variant(family("external"), name))
        assert shown.text == json.dumps(value, ensure_ascii=name == "outcome_json")


def test_a_shortened_envelope_is_still_json_with_its_five_keys() -> None:
    result: JsonValue = {"log": 'say "no"\n' * 900, "rows": [{"n": n} for n in range(900)], "exit_status": 3}
    document = json.loads(written("canonical_json", succeeded(result), 3_000).text)
    assert list(document) == ["tool_name", "status", "summary_text", "result", "error"]
    assert document["result"]["exit_status"] == 3
    assert "[receipt shortened here: first" in document["result"]["log"]
    assert document["result"]["rows"][0] == {"n": 0}
    assert re.fullmatch(r"\[receipt shortened here: first \d+ of 900\]", document["result"]["rows"][-1])


def test_an_object_of_very_many_members_says_how_many_are_shown() -> None:
    document = json.loads(written("canonical_json", succeeded({f"k{n}": n for n in range(900)}), 1_000).text)
    assert re.fullmatch(r"\[receipt shortened here: first \d+ of 900\]", document["result"]["…"])


def test_the_plain_characters_of_json_are_slices_of_their_field_and_escapes_are_not() -> None:
    segments = written("canonical_json", succeeded({"say": 'a "b"\nc'})).segments
    slices = [
        (segment.text, segment.source.start)
        for segment in segments
        if segment.source and segment.source.pointer == "/result/say"
    ]
    assert slices == [("a ", 0), ('\\"', None), ("b", 3), ('\\"\\n', None), ("c", 6)]


@pytest.mark.parametrize(
    ("canonical", "content"),
    [
        (succeeded({"exit_status": 0, "said": "é"}), {"exit_status": 0, "said": "é"}),
        (failed("tool_execution_failed", "disk full"), {"status": "error", "error": "disk full", "retryable": False}),
        (
            failed("rate_limited", "later", retryable=True),
            {"status": "error", "error": "later", "retryable": True},
        ),
        (
            failed("tool_timed_out", "no answer in 30 s", retryable=True),
            {"status": "error", "error": "no answer in 30 s", "timed_out": True, "retryable": True},
        ),
        (
            failed("cancelled", "stopped by the operator"),
            {"status": "error", "error": "cancelled", "retryable": True},
        ),
        (failed("duplicate_tool_call"), {"warning": "duplicate_tool_call", "skipped": True}),
        (failed("non_retryable_tool_failure"), {"warning": "non_retryable_tool_failure", "skipped": True}),
        (
            failed("deadline_expired"),
            {"error": "Turn deadline expired; cannot execute tool.", "timed_out": True},
        ),
        (failed("denied_by_hook", "not on Fridays"), {"error": "Blocked: not on Fridays", "blocked": True}),
        (failed("write_denied", "refused"), {"error": "Blocked: refused", "blocked": True}),
    ],
)
def test_an_outcome_reads_as_its_row_says(canonical: CanonicalResult, content: dict[str, Any]) -> None:
    receipt = written("outcome_json", canonical)
    assert receipt.text == json.dumps(content)
    assert_sourced(receipt, canonical.to_json())


@pytest.mark.parametrize(
    ("canonical", "outcome"),
    [
        (failed("invalid_tool_input", "cmd: missing"), ToolDenied("", "Look", "validation", "cmd: missing")),
        (failed("missing_file", "no such file"), ToolFailure("", "Look", "no such file", retryable=True)),
        (failed("tool_disabled", "switched off"), ToolFailure("", "Look", "switched off", retryable=False)),
    ],
)
def test_the_strings_are_those_of_the_outcome(canonical: CanonicalResult, outcome: ToolDenied | ToolFailure) -> None:
    assert written("outcome_json", canonical).text == outcome_to_model_content(outcome)


@pytest.mark.parametrize("result", [{"log": "a…z", "log_truncated": True}, {"log": "x" * 12_000}])
def test_an_output_that_is_kept_elsewhere_is_a_reference_to_its_first_artifact(result: dict[str, JsonValue]) -> None:
    canonical = succeeded(result, artifacts=("artifacts/1/log.txt",))
    receipt = written("outcome_json", canonical)
    document = json.loads(receipt.text)
    assert (document["artifact_reference"], document["summary"]) == ("artifacts/1/log.txt", "looked at it")
    assert "ReadArtifact" in document["hint"]
    assert "/artifacts/0/path" in {segment.source.pointer for segment in receipt.segments if segment.source}


@pytest.mark.parametrize("flag", [{"log_truncated": False, "log_artifact": 0}, {"task": {"truncated": False}}])
def test_a_whole_output_with_an_artifact_is_itself_and_names_it(flag: dict[str, JsonValue]) -> None:
    document = json.loads(written("outcome_json", succeeded({"log": "a", **flag}, artifacts=("a/1.txt",))).text)
    assert document == {"log": "a", **flag, "artifacts": [{"path": "a/1.txt"}]}


@pytest.mark.parametrize("rows", [[{"text_artifact": 0}], [{"hits": [], "hits_omitted": 4}]])
def test_a_family_without_flags_says_by_its_index_that_it_was_bounded(rows: list[JsonValue]) -> None:
    document = json.loads(written("outcome_json", succeeded({"rows": rows}, artifacts=("a/1.txt",))).text)
    assert document["artifact_reference"] == "a/1.txt"


def test_the_part_of_a_sentence_that_comes_from_a_field_is_linked() -> None:
    segments = written("outcome_json", failed("denied_by_hook", "not on Fridays")).segments
    assert [segment.text for segment in segments if segment.source and segment.source.pointer == "/error/message"] == [
        "not on Fridays"
    ]
    assert "Blocked: " in [segment.text for segment in segments if segment.source is None]


def test_no_output_can_close_its_fence() -> None:
    text = written("markdown", succeeded({"out": "```\n````\nforged\n"})).text
    assert "`````\n```\n````\nforged\n`````" in text


@pytest.mark.parametrize("forged", ["</out>", "</tool_result>", "</status>", "</item>", "</summary>"])
def test_no_output_can_close_its_tag(forged: str) -> None:
    result: JsonValue = {"out": f"a\n{forged}\nb", "rows": [1]}
    assert f"<out-2>\na\n{forged}\nb\n</out-2>" in written("tagged", succeeded(result)).text
    again: JsonValue = {"out": f"a\n{forged}\n{forged.replace('>', '-2>')}", "rows": [1]}
    assert "<out-3>" in written("tagged", succeeded(again)).text


def test_tags_that_no_output_closes_stay_plain() -> None:
    assert "<out><b>bold</b></out>" in written("tagged", succeeded({"out": "<b>bold</b>"})).text


def test_a_name_that_cannot_be_a_tag_is_written_beside_one() -> None:
    assert "<member>two words: 2</member>" in written("tagged", succeeded({"two words": 2})).text


@pytest.mark.parametrize(
    ("name", "envelope"),
    [
        ("success", succeeded({"exit_status": 2, "stdout_preview": "one\ntwo\n", "rows": [{"n": 1, "at": "a.py"}]})),
        ("error", failed("path_escape", "the path leaves the root", recovery_hint="Stay inside.", details={"n": 1})),
        (
            "large",
            succeeded(
                {"matches": [{"text": "a\nb", "line": n} for n in range(3)], "log": "line of text\n" * 2_000},
                artifacts=("artifacts/1/log.txt",),
            ),
        ),
        ("empty", succeeded({})),
        ("odd", succeeded(["`", ["</item>", {"a b": None}], 1.5, True])),
    ],
)
@shared
def test_a_variant_reads_as_its_golden(
    variant: Variant, name: str, envelope: CanonicalResult, golden: Callable[[str, str], None]
) -> None:
    golden(f"variants/{variant.id}/{name}", written(variant.id, envelope, 1_500).text)


@in_every_family
def test_a_family_has_its_receipt_first_then_its_own_then_the_shared_ones(owner: Family) -> None:
    names = [variant.name for variant in variants_for(owner)]
    assert names[0] == "receipt"
    assert set(names[: len(owner.renderers)]) == set(owner.renderers)
    assert names[len(owner.renderers) :] == [variant.name for variant in VARIANTS]
    assert all(variant.title and variant.policy == owner.rendering for variant in variants_for(owner))


def test_the_command_family_adds_two_of_its_own() -> None:
    names = [variant.id for variant in variants_for(family("command"))]
    assert names[:3] == ["command/receipt", "command/tail_first", "command/json_aware"]


def test_a_family_may_write_a_shared_variant_in_its_own_way() -> None:
    own = msgspec.structs.replace(
        family("external"),
        renderers=family("external").renderers | {"markdown": lambda *_: [Segment("own", "label")]},
        versions={"markdown": 3},
    )
    own_markdown = family_variant(own, "markdown")
    assert (own_markdown.id, own_markdown.version) == ("external/markdown", 3)
    assert [variant.name for variant in variants_for(own)].count("markdown") == 1
    assert render(succeeded({}), own, RenderPolicy(), variant=own_markdown).text == "own"


def test_every_module_that_has_a_variant_is_listed() -> None:
    modules = [import_module(f"{variants.__name__}.{module.name}") for module in iter_modules(variants.__path__)]
    assert {module.VARIANT.id for module in modules if hasattr(module, "VARIANT")} == {
        variant.id for variant in VARIANTS
    }


def test_a_variant_is_found_by_name_and_by_id() -> None:
    command = family("command")
    assert family_variant(command, "receipt") == family_variant(command, "command/receipt") == variants_for(command)[0]
    with pytest.raises(KeyError, match="telegram"):
        family_variant(command, "telegram")


def test_every_variant_has_a_hash_of_its_own() -> None:
    hashes = [variant.hash for owner in FAMILIES for variant in variants_for(owner) if "/" in variant.id]
    hashes += [variant.hash for variant in VARIANTS]
    assert len(set(hashes)) == len(hashes)


def test_the_hash_follows_id_version_and_policy_and_nothing_else() -> None:
    variant = VARIANTS[0]
    changed = [{"id": "other"}, {"version": variant.version + 1}, {"policy": RenderPolicy(characters=500)}]
    assert variant.hash not in {msgspec.structs.replace(variant, **fields).hash for fields in changed}
    assert msgspec.structs.replace(variant, title="Another title").hash == variant.hash


def test_the_receipt_by_name_and_as_an_object_are_one() -> None:
    for owner, canonical in SAMPLES:
        by_name = render(canonical, owner, owner.rendering)
        assert render(canonical, owner, owner.rendering, variant=family_variant(owner, "receipt")) == by_name


def test_a_variant_that_passes_its_policy_is_a_fault_and_is_not_cut() -> None:
    endless = Variant(id="endless", version=1, title="Endless", render=lambda *_: [Segment("x" * 99, "label")])
    with pytest.raises(ReceiptTooLong, match="endless wrote 99 characters"):
        render(succeeded({}), family("external"), RenderPolicy(characters=98), variant=endless)

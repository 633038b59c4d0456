"""Tests the contract of every built-in tool over its gallery and over drawn outputs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from envelopes.families import FAMILIES
from envelopes.families.base import Family
from envelopes.families.registry import builtin, samples, tools
from envelopes.pipeline.project import Projection, project
from envelopes.pipeline.render import render
from envelopes.schema.budget import CANONICAL_CHARACTERS, RECEIPT_CHARACTERS, RenderPolicy
from envelopes.schema.receipt import Receipt
from envelopes.schema.result import CanonicalResult, CompleteOutput
from envelopes.schema.tool import DISPATCH_KINDS
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import resolve
from tests.cases import each
from tests.envelopes.built_in import ceiling, without_promised_texts
from tests.envelopes.complete_outputs import foreign_outputs, outputs

FIVE = ["tool_name", "status", "summary_text", "result", "error"]
SORTS = {"success", "error", "large", "empty", "odd"}
TOOLS = sorted(tools())
GALLERY = [(tool, sort) for tool in TOOLS for sort in samples(tool)]
LIMITS = (0, 1, 90, 400, 2_000, RECEIPT_CHARACTERS)
# Not shrunk: an output has dozens of fields, and the first one that fails says enough.
DRAWN = settings(
    deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.reuse, Phase.generate)
)


def projected(complete: CompleteOutput, family: Family | None = None) -> tuple[Projection, MemorySink]:
    owner, sink = family or builtin(complete.tool_name)[0], MemorySink()
    return project(complete, owner, owner.projection, sink), sink


def rendered(canonical: CanonicalResult, limit: int, family: Family | None = None) -> Receipt:
    return render(canonical, family or builtin(canonical.tool_name)[0], RenderPolicy(characters=limit))


def check_halves(complete: CompleteOutput, limit: int, family: Family | None = None) -> None:
    """Asserts five keys, one half, the same twice, both within their limits, and that every source gives its text."""
    (projection, sink), again = projected(complete, family), projected(complete, family)
    assert (projection, sink.texts) == (again[0], again[1].texts)
    document = projection.canonical.to_json()
    assert list(document)[:5] == FIVE
    assert (document["result"] is None, document["error"] is None) == (complete.error is not None, not complete.error)
    assert CanonicalResult.from_json(json.loads(json.dumps(document))).to_json() == document
    check_bounds(projection, sink)
    receipt = rendered(projection.canonical, limit, family)
    assert receipt == rendered(projection.canonical, limit, family)
    assert len(receipt.text) <= (ceiling(projection.canonical, limit) if family is None else limit)
    for segment in receipt.segments:
        if segment.source is not None:
            text = resolve(document, segment.source.pointer)
            if segment.source.start is not None:
                assert isinstance(text, str)
                assert text[segment.source.start : segment.source.end] == segment.text


def check_bounds(projection: Projection, sink: MemorySink) -> None:
    """Asserts the limit of JSON characters, and that each cut is stated and each artifact has a role."""
    document = projection.canonical.to_json()
    bounded = without_promised_texts(document) if projection.canonical.tool_name in TOOLS else document
    assert len(json.dumps(bounded, ensure_ascii=False)) <= CANONICAL_CHARACTERS
    assert {cut.pointer for cut in projection.cuts if not _is_stated(document, cut.pointer)} == set()
    assert indexed(document["result"] or document["error"]) == set(range(len(projection.canonical.artifacts)))


def _is_stated(document: Any, pointer: str) -> bool:
    """Checks that the envelope has the cut field, or the number of its omitted items."""
    for candidate in (pointer, f"{pointer}_omitted"):
        try:
            resolve(document, candidate)
        except KeyError:
            continue
        return True
    return False


def indexed(value: Any) -> set[int]:
    """The indexes of artifacts in members `…_artifact`, the only place that gives the role of an artifact (RFC-089)."""
    match value:
        case dict():
            own = {index for name, index in value.items() if name.endswith("_artifact") and isinstance(index, int)}
            return own.union(*map(indexed, value.values()))
        case list():
            return set[int]().union(*map(indexed, value))
        case _:
            return set()


@each("tool", TOOLS)
def test_a_gallery_shows_each_sort_of_outcome(tool: str) -> None:
    assert set(samples(tool)) >= SORTS
    failed = {sort for sort, example in samples(tool).items() if example.status == "error"}
    assert failed >= {"error"}
    assert not failed & {"success", "large", "empty"}


@each(("tool", "sort"), GALLERY)
def test_a_gallery_holds_what_the_definition_says(tool: str, sort: str) -> None:
    complete, definition = samples(tool)[sort], builtin(tool)[1]
    assert complete.tool_name == tool
    assert projected(complete)[0].canonical.tool_name == tool
    if complete.error is None:
        assert type(complete.result) in definition.result
    else:
        assert complete.error.kind in (*definition.error_kinds, *DISPATCH_KINDS)


@each(("tool", "sort"), GALLERY)
@each("limit", LIMITS)
def test_a_gallery_keeps_the_contract_within_every_budget(tool: str, sort: str, limit: int) -> None:
    check_halves(samples(tool)[sort], limit)


@each(("tool", "sort"), GALLERY)
def test_a_canonical_result_is_bounded(tool: str, sort: str) -> None:
    check_bounds(*projected(samples(tool)[sort]))


@each(("tool", "sort"), GALLERY)
def test_a_receipt_holds_no_escaped_json(tool: str, sort: str) -> None:
    text = rendered(projected(samples(tool)[sort])[0].canonical, RECEIPT_CHARACTERS).text
    assert '\\"' not in text
    assert "\\n" not in text
    assert not text.startswith("{")


@each("tool", TOOLS)
def test_an_error_receipt_says_kind_message_hint_and_whether_to_try_again(tool: str) -> None:
    complete = samples(tool)["error"]
    text = rendered(projected(complete)[0].canonical, RECEIPT_CHARACTERS).text
    error = complete.error
    assert error is not None
    assert error.message.rpartition("does not match the tool schema: ")[2] in text.splitlines()[0]
    assert f"Kind: {error.kind}\n" in text
    assert f"Hint: {error.recovery_hint}" in text
    assert f"Same call again: {'may work' if error.retryable else 'will fail'}" in text


@pytest.mark.parametrize("tool", TOOLS)
@settings(DRAWN, max_examples=6)
@given(data=st.data())
def test_any_output_of_a_tool_keeps_the_contract(tool: str, data: st.DataObject) -> None:
    check_halves(data.draw(outputs(tool)), data.draw(st.integers(0, 600) | st.sampled_from(LIMITS)))


@pytest.mark.long
@pytest.mark.parametrize("tool", TOOLS)
@settings(DRAWN, max_examples=10_000)
@given(data=st.data())
def test_ten_thousand_outputs_of_a_tool_keep_the_contract(tool: str, data: st.DataObject) -> None:
    check_halves(data.draw(outputs(tool)), data.draw(st.integers(0, 600) | st.sampled_from(LIMITS)))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@settings(DRAWN, max_examples=30)
@given(data=st.data())
def test_any_output_of_a_foreign_tool_keeps_the_contract(family: Family, data: st.DataObject) -> None:
    check_halves(data.draw(foreign_outputs(family)), data.draw(st.integers(0, 600) | st.sampled_from(LIMITS)), family)


def test_a_family_names_each_of_its_tools_once() -> None:
    families: list[Family] = [builtin(tool)[0] for tool in TOOLS]
    named = [
        definition.name
        for family in {family.name: family for family in families}.values()
        for definition in family.tools
    ]
    assert sorted(named) == TOOLS

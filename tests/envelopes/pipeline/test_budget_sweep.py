"""The budgets at which fields are dropped from a receipt, and budgets in tokens."""

from __future__ import annotations

import msgspec
import pytest

from envelopes.families import FAMILIES
from envelopes.families.base import Family
from envelopes.families.registry import family
from envelopes.pipeline.budget_sweep import (
    Write,
    apportion_tokens,
    count_field_characters,
    dropped_at,
    find_limit,
    sweep,
)
from envelopes.pipeline.project import project
from envelopes.pipeline.render import ReceiptTooLong, render
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Receipt, Segment, SegmentSource, text_receipt
from envelopes.schema.result import CanonicalResult
from envelopes.storage.sinks import MemorySink
from envelopes.text.tokens import TokenCount, count_tokens
from envelopes.variants import family_variant, variants_for
from tests.cases import extended_except

ROWS = [Segment(f"row {number}\n", "value", SegmentSource("canonical", f"/result/{number}")) for number in range(50)]
CEILING = 12_000


def first_rows(characters: int) -> Receipt:
    """A receipt of as many whole rows as fit."""
    shown: list[Segment] = []
    for row in ROWS:
        if sum(len(segment.text) for segment in shown) + len(row.text) > characters:
            break
        shown.append(row)
    return text_receipt(shown)


def writer(canonical: CanonicalResult, owner: Family, name: str) -> Write:
    chosen = family_variant(owner, name)

    def write(characters: int) -> Receipt:
        return render(canonical, owner, RenderPolicy(characters=characters), variant=chosen)

    return write


def largest_sample(owner: Family) -> CanonicalResult:
    envelopes = [project(sample, owner, owner.projection, MemorySink()).canonical for sample in owner.samples]
    return max(envelopes, key=lambda sample: len(msgspec.json.encode(sample.to_json())))


def test_each_field_has_the_budget_below_which_it_is_gone() -> None:
    measured = sweep(first_rows, CEILING)
    tokens = [count_tokens(first_rows(characters).text).count for characters in (7, 14, 390)]
    budgets = {field.pointer: field.whole_from for field in measured.thresholds}
    assert [field.pointer for field in measured.thresholds] == [f"/result/{number}" for number in range(50)]
    assert budgets["/result/49"] == measured.whole.tokens == tokens[2]
    assert budgets["/result/0"] <= budgets["/result/10"] <= budgets["/result/30"] < budgets["/result/49"]


@pytest.mark.parametrize("tokens", [20, 60, 133])
def test_a_field_is_shown_whole_at_every_tried_budget_from_the_one_that_it_names(tokens: int) -> None:
    measured = sweep(first_rows, CEILING)
    receipt = first_rows(find_limit(first_rows, tokens, measured))
    gone, shortened = dropped_at(measured.thresholds, count_field_characters(receipt))
    assert not shortened
    assert gone
    assert all(field.whole_from > count_tokens(receipt.text).count for field in gone)


@pytest.mark.parametrize("owner", extended_except(FAMILIES, *FAMILIES[:4]), ids=lambda variant: variant.name)
def test_a_budget_in_tokens_is_kept_by_receipts_and_by_json(owner: Family) -> None:
    canonical = largest_sample(owner)
    for variant in (variants_for(owner)[0], family_variant(owner, "canonical_json")):
        write = writer(canonical, owner, variant.name)
        measured = sweep(write, CEILING)
        for part in (0.8, 0.3):
            budget = max(20, int(measured.whole.tokens * part))
            text = write(find_limit(write, budget, measured)).text
            assert count_tokens(text).count <= budget, (variant.id, budget)


def test_a_budget_is_nearly_used_where_a_text_can_be_cut_anywhere() -> None:
    owner = family("command")
    write = writer(largest_sample(owner), owner, "receipt")
    measured = sweep(write, CEILING)
    used = count_tokens(write(find_limit(write, 400, measured)).text).count
    assert 360 <= used <= 400


def test_a_whole_budget_asks_for_the_whole_receipt() -> None:
    measured = sweep(first_rows, CEILING)
    assert first_rows(find_limit(first_rows, measured.whole.tokens, measured)) == first_rows(CEILING)


def test_a_renderer_that_breaks_small_budgets_is_tried_with_larger_ones() -> None:
    def stubborn(characters: int) -> Receipt:
        if characters < 200:
            raise ReceiptTooLong("always 200 characters")
        return first_rows(characters)

    measured = sweep(stubborn, CEILING)
    assert min(trial.characters for trial in measured.trials) >= 200
    assert find_limit(stubborn, 3, measured) == 0


def test_shares_of_tokens_sum_up_to_the_texts_own() -> None:
    assert apportion_tokens(["hello ", "world", ""], TokenCount(7, "any", "exact")) == [5, 2, 0]
    assert apportion_tokens([], TokenCount(0, "any", "exact")) == []

"""Comparisons: frozen calls and variants, numbers that can be recounted, work that loses and repeats nothing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from uuid import UUID

import msgspec
import pytest
from django.db import connection

from dashboard import worker
from dashboard.evidence.call_evidence import load_evidence
from dashboard.experiments import stored_comparison
from dashboard.experiments.aggregate import bucket, format_bucket
from dashboard.experiments.measure_batches import Measuring
from dashboard.experiments.measure_calls import Cell, MeasuredCall, measure_packed
from dashboard.experiments.params import ColumnOrder, ComparisonParams
from dashboard.experiments.stored_comparison import (
    CannotCompare,
    Selection,
    count_done,
    find_row,
    load_results,
    load_summary,
    start_comparison,
)
from dashboard.experiments.summary import summarise
from dashboard.experiments.tables import build_grid, build_notes
from dashboard.leadership import has_leader, leadership
from dashboard.models import Call, CanonicalProjection, Comparison, Project
from dashboard.models.comparisons import ComparisonColumn
from dashboard.pool import Computing
from dashboard.variants.render_call import render_call
from dashboard.variants.variant_list import UnusableColumns
from dashboard.worker import Leader
from envelopes import variants
from envelopes.families.registry import family
from envelopes.schema.receipt import Segment, Variant
from envelopes.text.tokens import count_tokens
from tests.dashboard.factories import create_project
from tests.dashboard.measured_comparisons import compared, import_commands

pytestmark = pytest.mark.django_db

LONG = "\n".join(f"line {number} of a long listing" for number in range(600))
OUTPUTS = ["one", "two\nlines", LONG, 'quoted "text"\nand more', ""]


def rows_of(comparison: Comparison) -> list[MeasuredCall]:
    return [row for rows in load_results(comparison) for row in rows]


def test_the_numbers_are_those_of_each_call_rendered_by_itself(project: Project, calls: list[Call]) -> None:
    comparison, summary = compared(project, ["receipt", "canonical_json", "tail_first"])
    for ordinal, name in enumerate(["receipt", "canonical_json", "tail_first"]):
        texts = [render_call(load_evidence(call, {}), name).receipt.text for call in calls]
        assert summary.columns[ordinal].totals["characters"].value == sum(map(len, texts))
        assert summary.columns[ordinal].totals["tokens"].value == sum(count_tokens(text).count for text in texts)
    assert summary.columns[1].deltas["characters"].baseline == summary.columns[0].totals["characters"].value
    assert {row.key for row in rows_of(comparison)} == {call.pk for call in calls}


def test_what_was_recorded_is_a_column_like_any_other(project: Project, calls: list[Call]) -> None:
    _, summary = compared(project, ["recorded", "receipt"])
    recorded = summary.columns[0]
    assert recorded.totals["characters"].value == sum(map(len, OUTPUTS))
    assert recorded.calls == len(OUTPUTS)
    assert summary.columns[1].deltas["tokens"].calls == len(OUTPUTS)


def test_a_cut_and_what_a_variant_breaks_are_counted(project: Project, calls: list[Call]) -> None:
    _, summary = compared(project, ["receipt", "canonical_json"])
    assert summary.columns[0].totals["cut"].value == 1
    assert summary.columns[0].rules == {}
    assert set(summary.columns[1].rules) == {"escaped_json"}
    assert summary.columns[1].changed["lint"][0].names == ("escaped_json",)


def test_a_field_that_left_no_trace_counts_as_dropped(project: Project, calls: list[Call]) -> None:
    comparison, summary = compared(project, ["canonical_json", "receipt"])
    assert summary.columns[0].totals["dropped"].value == 0
    lost = summary.columns[1]
    assert lost.totals["dropped"].value == sum(row.cells[1].dropped for row in rows_of(comparison) if row.cells[1])
    assert all(name.startswith("/result/") for name in lost.fields)


def test_the_same_calls_and_variants_give_the_same_numbers(project: Project, calls: list[Call]) -> None:
    first, once = compared(project, ["recorded", "receipt", "tagged"], seed=7)
    second, again = compared(project, ["recorded", "receipt", "tagged"], seed=7)
    assert once == again
    assert [bytes(batch.results) for batch in first.batches.all()] == [
        bytes(batch.results) for batch in second.batches.all()
    ]


@pytest.mark.parametrize(
    ("selection", "variants", "sentence"),
    [
        ({"query": "nonsense:1"}, ["receipt", "markdown"], "“nonsense:” at character 1 is not a filter"),
        ({"query": "tool:Nobody"}, ["receipt", "markdown"], "No call matches"),
        ({"family": "cooking"}, ["receipt", "markdown"], "no family “cooking”"),
        ({"sample": 0}, ["receipt", "markdown"], "at least one call"),
        ({}, ["receipt"], "2 to 8 variants"),
        ({}, ["receipt", "receipt"], "named twice"),
        ({}, ["receipt", "telegram"], "There is: recorded, receipt, tail_first"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_words(
    project: Project, calls: list[Call], selection: dict[str, object], variants: list[str], sentence: str
) -> None:
    with pytest.raises((CannotCompare, UnusableColumns), match=sentence):
        start_comparison(project, Selection(**selection), variants)
    assert not Comparison.objects.exists()


def test_calls_of_another_project_are_never_chosen(project: Project, calls: list[Call]) -> None:
    with pytest.raises(CannotCompare, match="No call matches"):
        start_comparison(create_project("other"), Selection(), ["receipt", "markdown"])


@pytest.mark.postgresql
def test_a_sample_is_the_same_for_the_same_seed_and_nobody_elses(project: Project, calls: list[Call]) -> None:
    ids_by_seed = {seed: list(Selection(sample=2, seed=seed).stream_ids(project)) for seed in range(20)}
    assert ids_by_seed[3] == list(Selection(sample=2, seed=3).stream_ids(project))
    assert all(len(ids) == 2 and set(ids) <= {call.pk for call in calls} for ids in ids_by_seed.values())
    assert len({tuple(ids) for ids in ids_by_seed.values()}) > 1


class ComputesElsewhere(Computing):
    """Runs each job when `compute` is called, as a process that takes its time, or dies."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[tuple[Future[bytes], bytes, bytes]] = []

    def choose(self, *, calls: int, is_apart: bool = False) -> Executor:
        self.has_apart = is_apart
        return self

    @property
    def most_pending(self) -> int:
        return 2

    def submit(self, _measure: object, packed: bytes, specification: bytes) -> Future[bytes]:
        future: Future[bytes] = Future()
        self.jobs.append((future, packed, specification))
        return future

    def compute(self) -> None:
        for future, packed, specification in self.jobs:
            future.set_result(measure_packed(packed, specification))
        self.jobs.clear()

    def die(self) -> None:
        for future, *_ in self.jobs:
            future.set_exception(BrokenProcessPool("a process ended"))
        self.jobs.clear()


@pytest.fixture
def elsewhere() -> ComputesElsewhere:
    return ComputesElsewhere()


def take_steps(work: Measuring, count: int) -> None:
    for _ in range(count):
        assert work.step()


@pytest.mark.postgresql
def test_a_process_that_died_loses_nothing_and_each_batch_is_done_once(
    project: Project, calls: list[Call], elsewhere: ComputesElsewhere
) -> None:
    comparison = start_comparison(project, Selection(), ["receipt", "markdown"], batch_size=2)
    work = Measuring(elsewhere, lambda: None, wait_seconds=0)
    take_steps(work, 3)
    assert len(elsewhere.jobs) == 2, "a few batches are computed at once"
    elsewhere.die()
    take_steps(work, 2)
    assert (count_done(comparison), len(elsewhere.jobs)) == (0, 1)
    take_steps(work, 1)
    assert (len(elsewhere.jobs), elsewhere.has_apart) == (1, True), "what may have ended the process is alone"
    while Comparison.objects.open().exists():
        elsewhere.compute()
        work.step()
    assert [row.key for row in rows_of(comparison)] == sorted(call.pk for call in calls)
    assert list(comparison.batches.order_by("number").values_list("attempts", flat=True)) == [2, 2, 1]


@pytest.mark.postgresql
def test_a_leader_that_ends_gives_back_what_is_computed(
    project: Project, calls: list[Call], elsewhere: ComputesElsewhere
) -> None:
    comparison = start_comparison(project, Selection(), ["receipt", "markdown"], batch_size=2)
    work = Measuring(elsewhere, lambda: None, wait_seconds=0)
    take_steps(work, 2)
    work.give_back()
    assert set(comparison.batches.values_list("attempts", flat=True)) == {0}
    worker.work_until_idle(comparison)
    assert [row.key for row in rows_of(comparison)] == sorted(call.pk for call in calls)


def test_a_batch_of_a_cancelled_comparison_is_stored_once(
    project: Project, calls: list[Call], elsewhere: ComputesElsewhere
) -> None:
    comparison = start_comparison(project, Selection(), ["receipt", "markdown"], batch_size=2)
    work = Measuring(elsewhere, lambda: None, wait_seconds=0)
    take_steps(work, 1)
    assert stored_comparison.cancel(comparison)
    elsewhere.compute()
    take_steps(work, 1)
    assert not work.step()
    assert count_done(comparison) == 2


@pytest.mark.parametrize("at_once", [2, 3, 64])
def test_a_call_is_found_in_its_batch_without_loading_all(project: Project, calls: list[Call], at_once: int) -> None:
    comparison = start_comparison(project, Selection(), ["receipt", "markdown"], batch_size=1)
    worker.work_until_idle(comparison)
    found = [find_row(comparison, call.pk, at_once=at_once) for call in calls]
    assert [row.key for row in found if row] == [call.pk for call in calls]
    assert [find_row(comparison, UUID(int=number), at_once=at_once) for number in (0, 2**128 - 1)] == [None, None]


def test_a_large_batch_is_computed_in_portions_with_the_same_result(project: Project, calls: list[Call]) -> None:
    whole, _ = compared(project, ["recorded", "receipt"])
    apart = start_comparison(project, Selection(), ["recorded", "receipt"])
    work = Measuring(Computing(), lambda: None, evidence_bytes=1)
    while work.step():
        pass
    results = [bytes(comparison.batches.get().results or b"") for comparison in (whole, apart)]
    assert results[0] == results[1]


@pytest.mark.postgresql
def test_who_does_not_lead_waits_and_a_lead_ends_with_its_holder(project: Project, calls: list[Call]) -> None:
    with leadership() as is_leader:
        assert is_leader
        assert has_leader()
        with ThreadPoolExecutor(1) as others:
            assert others.submit(try_to_lead).result() is False
    assert not has_leader()
    with ThreadPoolExecutor(1) as others:
        assert others.submit(try_to_lead).result() is True


def try_to_lead() -> bool:
    """In a thread, which has a connection of its own."""
    try:
        with leadership() as is_leader:
            return is_leader
    finally:
        connection.close()


def test_a_cancelled_comparison_is_resumed_where_it_was(project: Project, calls: list[Call]) -> None:
    comparison = start_comparison(project, Selection(), ["receipt", "markdown"], batch_size=2)
    with Leader() as leader:
        while not count_done(comparison):
            assert leader.step()
        assert stored_comparison.cancel(comparison)
        while leader.step():
            pass
    assert count_done(comparison) in (2, 4)
    assert stored_comparison.resume(comparison)
    worker.work_until_idle()
    comparison.refresh_from_db()
    assert comparison.is_finished
    assert not stored_comparison.cancel(comparison)
    assert not stored_comparison.resume(comparison)


@pytest.mark.postgresql
def test_calls_that_end_their_process_again_and_again_are_given_up(project: Project, calls: list[Call]) -> None:
    comparison = start_comparison(project, Selection(), ["receipt", "markdown"], batch_size=2)
    comparison.batches.filter(number=0).update(attempts=3)
    worker.work_until_idle(comparison)
    comparison.refresh_from_db()
    assert comparison.state == Comparison.State.FAILED
    assert "ended their process 3 times" in comparison.problem


@pytest.mark.postgresql
def test_a_damaged_envelope_stops_a_comparison_that_names_its_call(project: Project, calls: list[Call]) -> None:
    CanonicalProjection.objects.filter(call=calls[1]).update(packed=b"damaged")
    comparison = start_comparison(project, Selection(), ["receipt", "markdown"])
    worker.work_until_idle(comparison)
    comparison.refresh_from_db()
    assert comparison.state == Comparison.State.FAILED
    assert f"the stored envelope of call {calls[1].pk} cannot be read" in comparison.problem


def test_a_variant_that_cannot_write_a_call_is_a_cell_that_says_so(
    project: Project, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Iterator[Segment]:
        raise RuntimeError("no words")

    broken = Variant(id="broken", version=1, title="Broken", render=fails)
    monkeypatch.setattr(variants, "VARIANTS", (*variants.VARIANTS, broken))
    _, summary = compared(project, ["receipt", "broken"])
    assert summary.columns[1].problems == len(calls)
    assert summary.columns[1].problem == "RuntimeError: no words"
    assert summary.columns[1].deltas == {}


def test_a_variant_that_changed_before_its_batch_stops_the_comparison(
    project: Project, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = start_comparison(project, Selection(), ["receipt", "markdown"])
    newer = tuple(
        msgspec.structs.replace(variant, version=9) if variant.name == "markdown" else variant
        for variant in variants.VARIANTS
    )
    monkeypatch.setattr(variants, "VARIANTS", newer)
    assert not work_until_nothing(comparison)
    comparison.refresh_from_db()
    assert comparison.state == Comparison.State.FAILED
    assert comparison.problem.startswith("markdown was version 1 (a2a3ba9889c8d026) and is version 9")


def work_until_nothing(comparison: Comparison) -> int:
    worker.work_until_idle(comparison)
    return count_done(comparison)


def test_a_call_that_was_deleted_meanwhile_is_reported_as_deleted(project: Project, calls: list[Call]) -> None:
    comparison = start_comparison(project, Selection(), ["receipt", "markdown"])
    calls[0].delete()
    worker.work_until_idle(comparison)
    comparison.refresh_from_db()
    summary = load_summary(comparison)
    assert (summary.calls, summary.gone) == (len(calls) - 1, 1)


@pytest.mark.postgresql
def test_calls_that_nothing_answered_are_left_out_and_counted(project: Project, calls: list[Call]) -> None:
    unanswered = [call.pk for call in calls[:2]]
    Call.objects.filter(pk__in=unanswered).update(status=Call.Status.UNKNOWN)
    comparison = start_comparison(project, Selection(), ["recorded", "receipt"])
    calls[2].delete()
    worker.work_until_idle(comparison)
    comparison.refresh_from_db()
    summary = load_summary(comparison)
    assert (summary.calls, summary.unanswered, summary.gone) == (len(calls) - 3, 2, 1)
    assert {row.key for row in rows_of(comparison)} == {call.pk for call in calls[3:]}
    assert build_notes(summary, ["recorded", "receipt"])[:2] == [
        "1 call was deleted in the meantime and left out.",
        f"2 of {len(calls)} calls have no recorded result and were left out.",
    ]
    assert not set(Selection(sample=len(calls)).stream_ids(project)) & set(unanswered)


def test_nothing_is_compared_where_nothing_was_answered(project: Project, calls: list[Call]) -> None:
    Call.objects.update(status=Call.Status.UNKNOWN)
    with pytest.raises(CannotCompare, match="Nothing answered the calls that match"):
        start_comparison(project, Selection(), ["recorded", "receipt"])


def test_a_variant_that_only_one_family_has_leaves_the_others_empty(
    project: Project, calls: list[Call], tmp_path: Path
) -> None:
    import_commands(project, tmp_path, ["x"], session="0f5f6d8e-0000-4000-8000-000000000002")
    Call.objects.filter(pk=calls[0].pk).update(family="file")
    comparison, summary = compared(project, ["receipt", "tail_first"])
    families = set(comparison.columns.filter(name="tail_first").values_list("family", flat=True))
    assert families == {"command"}
    assert family("command").name in summary.columns[1].families


def test_the_grid_holds_like_to_like_and_knows_where_rare_calls_lie() -> None:
    """Of Read, the baseline has a text for a large call that the column has none for."""

    def row(number: int, tool: str, *tokens: int | None) -> MeasuredCall:
        cells = tuple(
            None if count is None else Cell(count, count, lines=1, is_cut=False, dropped=0, digest=b"")
            for count in tokens
        )
        return MeasuredCall(number.to_bytes(16, "big"), tool, "file", b"", cells)

    batches = [[row(1, "Read", 10, 20), row(2, "Read", 1_000, None)], [row(3, "Edit", 5, 5), row(4, "Write", None, 9)]]
    summary = summarise(batches, columns=2, calls=4, seed=0)
    columns = ColumnOrder(
        Comparison(), (0, 1), tuple(ComparisonColumn(ordinal=n, name=name) for n, name in enumerate("ab"))
    )
    grid = build_grid(Comparison(), summary, ["a", "b"], ComparisonParams({"by": "tool"}, columns))
    cells = {row.name: dict(row.cells)["b"] for row in grid.rows}
    assert [(name, cell.value, cell.change, cell.part) for name, cell in cells.items() if cell] == [
        ("Edit", "5.0", "", ""),
        ("Read", "20.0", "+100%", "of 1"),
        ("Write", "9.0", "", ""),
    ]
    assert {"tool Edit": b"\x02", "tool Read": b"\x01", "sizes 5": b"\x01"}.items() <= summary.columns[
        1
    ].batch_bits.items()


@pytest.mark.parametrize("value", [0, 1, 2, 3, 4, 1023, 1024, -1, -2, -700])
def test_each_number_lies_in_its_bucket(value: int) -> None:
    low, _, high = format_bucket(bucket(value)).replace(",", "").partition(" to ")
    assert int(low) <= value <= int(high or low)


def test_a_comparison_without_a_name_is_named_after_what_was_selected(project: Project, calls: list[Call]) -> None:
    for selection, name in (
        (Selection(), "all calls"),
        (Selection(query="tool:Bash"), "tool:Bash"),
        (Selection(query="tool:Bash", family="command"), "command tool:Bash"),
        (Selection(chosen=(calls[0].pk,)), "chosen calls"),
    ):
        assert start_comparison(project, selection, ["recorded", "receipt"]).name == f"{name}: recorded · receipt"

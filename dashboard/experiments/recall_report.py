"""Reports of used-line recall: started by a person, measured by a background process, stored whole.

Every run of the selected calls is read twice: for the features that later steps quote, then for those that models
write unprompted in any of the runs, which count nowhere. Then the receipts of the calls with items are scored. A run
is in memory alone; what stays of it are the texts of its quoted outputs. A report whose process dies is begun anew.
Features are hashes of one process, so nothing of them is stored.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
import pyzstd
from django.contrib.auth.models import User
from django.db.models import F
from django.utils import timezone

from dashboard.experiments.recall_run import (
    RecallScore,
    ReceiptShape,
    RunSteps,
    RunTooLong,
    ScoreInput,
    StepPlace,
    load_steps,
    score_baselines,
    score_variants,
)
from dashboard.experiments.significance import GroupedValues, Interval, bootstrap_means
from dashboard.experiments.stored_comparison import CannotCompare, ComparisonForm, Selection
from dashboard.models import Call, Comparison, Project, RecallReport, Run
from dashboard.models.sources import DamagedEvidence
from dashboard.variants.variant_list import RECORDED, UnusableColumns, VariantColumn, bind_columns
from envelopes.recall import BASELINES, BaselineQuery, ItemUse, OutputPiece, build_items, find_unprompted

MOST_CALLS = 20_000  # the newest ones
PAUSE_AFTER = 1.0  # seconds
MOST_ATTEMPTS = 3
REFERENCE = "first"  # differences are to this cut
SEED = 0
SCORED_AT_ONCE = 100  # calls

State = Comparison.State


class QuotedItem(msgspec.Struct, frozen=True, array_like=True):
    """Lines of the receipt, from 0, of which one must be kept, and the first step that quoted them."""

    lines: tuple[int, ...]
    used_by: StepPlace


class RecalledCall(msgspec.Struct, frozen=True, array_like=True):
    """A call with items. `scores` are by budget and column."""

    call: bytes
    run: bytes
    session: bytes  # the run that everything began with
    tool: str
    size: int
    items: tuple[QuotedItem, ...]
    scores: dict[int, dict[str, RecallScore]]

    def recall(self, budget: int, column: str) -> float | None:
        """The share of items that the column's receipt keeps; None where the output fits, or without a receipt."""
        score = self.scores.get(budget, {}).get(column)
        return None if score is None else score.kept.bit_count() / len(self.items)


class RecallResults(msgspec.Struct, frozen=True):
    calls: tuple[RecalledCall, ...]
    shapes: tuple[ReceiptShape, ...]


class RecallCell(msgspec.Struct, frozen=True):
    """The mean over `calls`; `difference` is the mean of each call's difference to the reference."""

    calls: int
    mean: float
    characters: float
    difference: float | None = None
    interval: Interval | None = None


class ToolRecall(msgspec.Struct, frozen=True):
    """`scored` calls of a tool, of which `quoted` have `items`. `cells` are by budget and column."""

    tool: str
    scored: int
    quoted: int
    items: int
    sessions: int
    cells: dict[int, dict[str, RecallCell]]


class RecallSummary(msgspec.Struct, frozen=True):
    """`unread` and `too_long` runs were left out; `not_scored` calls are by reason, `versions` by variant."""

    calls: int
    runs: int
    unread: int
    too_long: int
    not_scored: dict[str, int]
    stopped: int
    columns: tuple[str, ...]
    versions: dict[str, tuple[str, ...]]
    tools: tuple[ToolRecall, ...]


def start_recall(project: Project, form: ComparisonForm, user: User | None) -> RecallReport:
    """Queues a report. Raises CannotCompare."""
    if form.problems:
        raise CannotCompare(" ".join(form.problems))
    if not form.answered:
        raise CannotCompare("No call with a result matches.")
    names = [variant.name for variant in form.variants if variant.is_chosen and variant.name != RECORDED]
    if not names:
        raise CannotCompare("Choose a variant.")
    report = RecallReport(
        project=project, query=form.selection.query, family=form.selection.family, variants=names, created_by=user
    )
    report.save(force_insert=True)
    return report


def cancel_recall(report: RecallReport) -> None:
    RecallReport.objects.open().filter(pk=report.pk).update(state=State.CANCELLED)


def load_recall_summary(report: RecallReport) -> RecallSummary:
    return msgspec.msgpack.decode(pyzstd.decompress(bytes(report.summary or b"")), type=RecallSummary)


def load_recall_results(report: RecallReport) -> RecallResults:
    return msgspec.msgpack.decode(pyzstd.decompress(bytes(report.results or b"")), type=RecallResults)


def find_stored(calls: Collection[UUID]) -> set[UUID]:
    """Those of the calls that were not deleted after the measurement."""
    return set(Call.objects.filter(pk__in=calls).values_list("pk", flat=True))


def measure_next_recall(
    *, is_over: Callable[[], bool] = lambda: False, on_pause: Callable[[], object] = lambda: None
) -> bool:
    """Measures the oldest open report to its end, or until `is_over`; False without one.

    `on_pause` is called about once a second, for work that cannot wait for the end.
    """
    report = RecallReport.objects.open().defer("summary", "results").first()
    if report is None:
        return False
    still_open = RecallReport.objects.open().order_by().filter(pk=report.pk)
    if report.attempts >= MOST_ATTEMPTS:
        still_open.update(state=State.FAILED, problem=f"It ended its process {report.attempts} times.")
        return True
    still_open.update(attempts=F("attempts") + 1, state=State.RUNNING, done=0)
    try:
        results, summary = _RecallMeasurement(report, is_over, on_pause).measure()
    except _Interrupted:
        return True
    except (UnusableColumns, DamagedEvidence) as problem:
        still_open.update(state=State.FAILED, problem=str(problem)[:500])
        return True
    packed = {"results": pack(results), "summary": pack(summary)}
    still_open.update(state=State.FINISHED, finished_at=timezone.now(), done=F("total"), **packed)
    return True


def pack(value: Any) -> bytes:
    return bytes(pyzstd.compress(msgspec.msgpack.encode(value)))


class _Interrupted(Exception):
    """The report was cancelled or deleted, or this process shall end."""


@dataclass(frozen=True, kw_only=True)
class _QuotedOutput:
    """An output of which something was used, with what its scores need."""

    call: UUID
    run: UUID
    session: UUID
    tool: str
    cwd: str
    pieces: Sequence[OutputPiece]
    query: str
    uses: Sequence[ItemUse]
    places: Mapping[int, StepPlace]


class _RecallMeasurement:
    """One measurement, with the counts of what it left out."""

    def __init__(self, report: RecallReport, is_over: Callable[[], bool], on_pause: Callable[[], object]) -> None:
        self.report, self.is_over, self.on_pause = report, is_over, on_pause
        self.paused = time.monotonic()
        self.done = self.unread = self.too_long = 0
        self.scored: Counter[str] = Counter()
        self.not_scored: Counter[str] = Counter()
        self.shapes: list[ReceiptShape] = []

    def measure(self) -> tuple[RecallResults, RecallSummary]:
        calls, columns = self._select()
        runs = list(Run.objects.filter(pk__in=calls).order_by("pk"))
        self._pause(total=2 * len(runs))
        outputs = [output for run in runs for output in self._read(run, calls[run.pk])]
        features = {use.feature for output in outputs for use in output.uses}
        stopped: set[int] = set()
        for run in runs if features else ():
            for loaded in self._load(run, ()):
                stopped |= find_unprompted(loaded.steps, features, cwd=run.cwd)
        recalled = [
            row
            for start in range(0, len(outputs), SCORED_AT_ONCE)
            for row in self._score(outputs[start : start + SCORED_AT_ONCE], stopped, columns)
        ]
        names = (*(column.name for column in columns), *BASELINES)
        summary = RecallSummary(
            calls=sum(map(len, calls.values())),
            runs=len(runs),
            unread=self.unread // 2 if features else self.unread,
            too_long=self.too_long // 2 if features else self.too_long,
            not_scored=dict(sorted(self.not_scored.items())),
            stopped=len(stopped),
            columns=names,
            versions={column.name: _name_versions(column) for column in columns},
            tools=tuple(_summarise_tools(recalled, self.scored, names)),
        )
        return RecallResults(tuple(recalled), tuple(self.shapes)), summary

    def _select(self) -> tuple[dict[UUID, list[UUID]], list[VariantColumn]]:
        """The calls by run, and the variants in the families of those calls."""
        report = self.report
        selection = Selection(query=report.query, family=report.family)
        matching = selection.calls(report.project).exclude(status=Call.Status.UNKNOWN)
        newest = matching.order_by(F("started_at").desc(nulls_last=True), "pk").values_list("pk", "run_id", "family")
        calls: dict[UUID, list[UUID]] = defaultdict(list)
        families = set()
        for key, run, family in newest[:MOST_CALLS]:
            calls[run].append(key)
            families.add(family)
        return calls, bind_columns(report.project, [RECORDED, *report.variants], families)[1:]

    def _load(self, run: Run, selected: Iterable[UUID]) -> Iterator[RunSteps]:
        """The steps of the run, nothing where they cannot be read."""
        self._pause()
        self.done += 1
        try:
            yield load_steps(run, frozenset(selected))
        except RunTooLong:
            self.too_long += 1
        except DamagedEvidence:
            self.unread += 1

    def _read(self, run: Run, selected: Iterable[UUID]) -> Iterator[_QuotedOutput]:
        for loaded in self._load(run, selected):
            self.shapes += loaded.shapes
            self.not_scored.update(loaded.not_scored)
            for step, place in zip(loaded.steps, loaded.places, strict=True):
                if step.kind == "output" and step.is_scored:
                    self.scored[loaded.tools[place.key]] += 1
            by_output: dict[int, list[ItemUse]] = defaultdict(list)
            for use in loaded.uses:
                by_output[use.output].append(use)
            session = _find_session(run)
            for output, uses in sorted(by_output.items()):
                call = loaded.places[output].key
                yield _QuotedOutput(
                    call=call,
                    run=run.pk,
                    session=session,
                    tool=loaded.tools[call],
                    cwd=run.cwd,
                    pieces=loaded.pieces(output),
                    query=loaded.query(output),
                    uses=uses,
                    places={use.used_by: loaded.places[use.used_by] for use in uses},
                )

    def _score(
        self, outputs: Sequence[_QuotedOutput], stopped: set[int], columns: Sequence[VariantColumn]
    ) -> Iterator[RecalledCall]:
        self._pause()
        subjects: dict[UUID, ScoreInput] = {}
        for output in outputs:
            for items in build_items(output.uses, stopped).values():
                query = BaselineQuery(output.query, output.call.hex)
                subjects[output.call] = ScoreInput(output.call, output.pieces, query, items, output.cwd)
        scores: dict[UUID, dict[int, dict[str, RecallScore]]] = {}
        for subject in subjects.values():
            scores[subject.call] = {budget: dict(score_baselines(subject, budget)) for budget in subject.budgets()}
        large = [subject for subject in subjects.values() if subject.budgets()]
        for call, budget, column, score in score_variants(large, columns, on_receipt=self._pause):
            scores[call][budget][column] = score
        for output in outputs:
            if output.call in subjects:
                subject = subjects[output.call]
                yield RecalledCall(
                    call=output.call.bytes,
                    run=output.run.bytes,
                    session=output.session.bytes,
                    tool=output.tool,
                    size=subject.size,
                    items=tuple(
                        QuotedItem(
                            tuple(sorted({output.pieces[index].line for index in item.carriers})),
                            output.places[item.used_by],
                        )
                        for item in subject.items
                    ),
                    scores=scores[output.call],
                )

    def _pause(self, **columns: Any) -> None:
        """Stores the progress and lets other work go on; an end of this process is no attempt. Raises _Interrupted."""
        still_open = RecallReport.objects.open().order_by().filter(pk=self.report.pk)
        if self.is_over():
            still_open.update(attempts=F("attempts") - 1)
            raise _Interrupted
        if columns or time.monotonic() - self.paused > PAUSE_AFTER:
            if not still_open.update(done=self.done, **columns):
                raise _Interrupted
            self.on_pause()
            self.paused = time.monotonic()


def _name_versions(column: VariantColumn) -> tuple[str, ...]:
    return tuple(sorted({f"{variant.id} version {variant.version}" for variant in column.variants.values()}))


def _find_session(run: Run) -> UUID:
    """The run at the top of the run's parents."""
    key: UUID = run.pk
    parent, passed = run.parent_id, {key}
    while parent is not None and parent not in passed:
        passed.add(parent)
        key, parent = parent, Run.objects.filter(pk=parent).values_list("parent_id", flat=True).first()
    return key


def _summarise_tools(
    calls: Sequence[RecalledCall], scored: Mapping[str, int], columns: Sequence[str]
) -> Iterator[ToolRecall]:
    """The most called tool first."""
    by_tool: dict[str, list[RecalledCall]] = defaultdict(list)
    for call in calls:
        by_tool[call.tool].append(call)
    for tool, count in sorted(scored.items(), key=lambda pair: (-pair[1], pair[0])):
        quoted = by_tool[tool]
        budgets = sorted({budget for call in quoted for budget in call.scores})
        yield ToolRecall(
            tool=tool,
            scored=count,
            quoted=len(quoted),
            items=sum(len(call.items) for call in quoted),
            sessions=len({call.session for call in quoted}),
            cells={budget: dict(_summarise_columns(quoted, budget, columns)) for budget in budgets},
        )


def _summarise_columns(
    calls: Sequence[RecalledCall], budget: int, columns: Sequence[str]
) -> Iterator[tuple[str, RecallCell]]:
    large = [call for call in calls if budget in call.scores]
    sessions = {session: index for index, session in enumerate(sorted({call.session for call in large}))}
    means: dict[str, tuple[list[float], list[float], list[tuple[int, float]]]] = {}
    for column in columns:
        pairs = [(call, call.recall(budget, column)) for call in large]
        recalls = [(call, recall) for call, recall in pairs if recall is not None]
        differences = [
            (sessions[call.session], recall - (call.recall(budget, REFERENCE) or 0.0)) for call, recall in recalls
        ]
        sizes = [float(call.scores[budget][column].characters) for call, _ in recalls]
        means[column] = ([recall for _, recall in recalls], sizes, differences)
    grouped = []
    for _, _, differences in means.values():
        sums, counts = [0.0] * len(sessions), [0] * len(sessions)
        for index, difference in differences:
            sums[index] += difference
            counts[index] += 1
        grouped.append(GroupedValues(sums, counts))
    for (column, (recalls_of, sizes, _)), values, interval in zip(
        means.items(), grouped, bootstrap_means(grouped, SEED), strict=True
    ):
        if recalls_of:
            count = len(recalls_of)
            is_reference = column == REFERENCE
            yield (
                column,
                RecallCell(
                    calls=count,
                    mean=sum(recalls_of) / count,
                    characters=sum(sizes) / count,
                    difference=None if is_reference else values.total / count,
                    interval=None if is_reference else interval,
                ),
            )

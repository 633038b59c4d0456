"""Two runs side by side: their calls aligned in order, and what differs in each pair.

Calls with the same tool and the same arguments are aligned first, as many as are in the same order in both runs;
between those, calls of the same tool are paired, whose arguments then differ. Halves are compared by the hashes of
their recorded bytes, each as its run has it: a fork may have another receipt of a call that it copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

from django.conf import settings
from django.db.models import Count
from django.urls import reverse

from dashboard.evidence.argument_labels import show_label
from dashboard.evidence.execution import find_rerun_of
from dashboard.models import Observation, Project, RecordedReceipt, Run, RunCall
from dashboard.models.outcomes import NOT_COUNTED, Outcome, describe_outcome
from dashboard.text.diff import align_items
from dashboard.text.diff_markup import DiffView
from dashboard.text.formatting import format_change, format_count, format_duration, format_size
from dashboard.text.params import Params
from dashboard.text.text_markup import printable

SURFACES = {"args": "Arguments", "result": "Result", "receipt": "Receipt"}
HalfState: TypeAlias = Literal["same", "changed", "left", "right", "absent"]
PairKind: TypeAlias = Literal["same", "changed", "args", "left", "right"]


class RecordedHalf(NamedTuple):
    sha256: str
    size: int  # bytes as recorded


@dataclass(frozen=True, slots=True)
class RunCallRow:
    """A call as its run has it; `number` counts the calls of the run from 1. `asked` is stored, `label` is shown."""

    key: UUID
    number: int
    tool: str
    asked: str
    outcome: str
    exit_status: int | None
    tokens: int
    is_cut: bool
    halves: Mapping[str, RecordedHalf]
    cwd: str = ""
    is_counted: bool = True

    @property
    def label(self) -> str:
        """Made for the rows of a page alone, because it is searched for secrets."""
        return show_label(self.asked, self.cwd)

    @property
    def words(self) -> str:
        words = describe_outcome(self.outcome, self.exit_status) if self.is_counted else NOT_COUNTED
        return words + (", cut" if self.is_cut else "")

    @property
    def is_plain(self) -> bool:
        """True for a call that succeeded and was not cut, as most are."""
        return self.outcome == Outcome.SUCCEEDED and not self.is_cut

    @property
    def ending(self) -> tuple[str, int, bool]:
        return self.outcome, self.exit_status or 0, self.is_cut

    @property
    def tone(self) -> str:
        return Outcome(self.outcome).tone

    @property
    def identity(self) -> tuple[str, str]:
        args = self.halves.get("args")
        return self.tool, args.sha256 if args else ""


class HalfChange(NamedTuple):
    """One half of a pair: in words, how it differs; and the sizes of both."""

    label: str
    state: HalfState
    words: str
    sizes: str = ""


@dataclass(frozen=True, slots=True)
class CallPair:
    """Calls that are aligned; one side is None where the other run has no such call. `index` counts from 0."""

    index: int
    left: RunCallRow | None
    right: RunCallRow | None
    kind: PairKind

    @property
    def changes(self) -> list[HalfChange]:
        return [compare_half(name, self.left, self.right) for name in SURFACES]

    @property
    def name(self) -> str:
        call = self.left or self.right
        return call.tool if call else ""


class TotalRow(NamedTuple):
    label: str
    left: str
    right: str
    change: str


def _find_kind(left: RunCallRow | None, right: RunCallRow | None) -> PairKind:
    if left is None or right is None:
        return "left" if right is None else "right"
    if left.identity != right.identity:
        return "args"
    return "same" if left.halves == right.halves and left.ending == right.ending else "changed"


def compare_half(name: str, left: RunCallRow | None, right: RunCallRow | None) -> HalfChange:
    before, after = (call.halves.get(name) if call else None for call in (left, right))
    label = SURFACES[name]
    if before is None or after is None:
        only = before or after
        if only is None:
            return HalfChange(label, "absent", "not recorded")
        return HalfChange(label, "left" if before else "right", f"{format_size(only.size)} on one side")
    if before.sha256 == after.sha256:
        return HalfChange(label, "same", "same")
    sizes = f"{format_size(before.size)} → {format_size(after.size)}"
    more = after.size - before.size
    change = f"{'+' if more > 0 else '−'}{format_size(abs(more))}" if more else "same size"
    return HalfChange(label, "changed", f"changed, {change}", sizes)


class RunComparisonParams(Params):
    def __init__(self, query: Mapping[str, str]) -> None:
        super().__init__(query)
        self.is_only = self.flag("only")
        self.skip = self.integer("skip", default=0)
        self.pair = self.integer("pair", default=None)
        self.view: DiffView = self.choice("view", ("side", "unified"), default="side")
        self.rows = {name: self.integer(f"{name}_row", default=0) for name in SURFACES}


@dataclass(frozen=True)
class RunComparison:
    """All pairs of two runs.

    `uncompared` is the number of calls beyond those that are aligned, `waiting` of those that are not counted yet.
    """

    left: Run
    right: Run
    params: RunComparisonParams
    pairs: tuple[CallPair, ...]
    is_rough: bool
    uncompared: int
    waiting: int

    @cached_property
    def listed(self) -> list[CallPair]:
        """All pairs, or those that differ."""
        return [pair for pair in self.pairs if pair.kind != "same"] if self.params.is_only else list(self.pairs)

    @property
    def skip(self) -> int:
        """A link beyond the last pair leads to the last page."""
        last = max(0, len(self.listed) - 1) // settings.PAIRS_PER_PAGE * settings.PAIRS_PER_PAGE
        return min(self.params.skip, last)

    @property
    def shown(self) -> list[CallPair]:
        return self.listed[self.skip : self.skip + settings.PAIRS_PER_PAGE]

    @property
    def counts(self) -> dict[PairKind, int]:
        kinds: tuple[PairKind, ...] = ("same", "changed", "args", "left", "right")
        return {kind: sum(pair.kind == kind for pair in self.pairs) for kind in kinds}

    @cached_property
    def first_difference(self) -> CallPair | None:
        return next((pair for pair in self.pairs if pair.kind != "same"), None)

    @cached_property
    def first_other_call(self) -> CallPair | None:
        """The first pair whose calls are not the same: another tool, other arguments, or no partner."""
        return next((pair for pair in self.pairs if pair.kind not in ("same", "changed")), None)

    @property
    def first_difference_url(self) -> str:
        return self.jump_url(self.first_difference) if self.first_difference else ""

    @property
    def first_other_url(self) -> str:
        return self.jump_url(self.first_other_call) if self.first_other_call else ""

    def jump_url(self, pair: CallPair) -> str:
        """The page that lists the pair, with ten pairs before it."""
        place = self.listed.index(pair)
        return self.params.url(skip=max(0, place - 10) or None, pair=None) + f"#pair-{pair.index}"

    @property
    def only_url(self) -> str:
        return self.params.url(only=None if self.params.is_only else 1, skip=None)

    @property
    def previous_url(self) -> str:
        return self.params.url(skip=max(0, self.skip - settings.PAIRS_PER_PAGE) or None) if self.skip else ""

    @property
    def next_url(self) -> str:
        following = self.skip + settings.PAIRS_PER_PAGE
        return self.params.url(skip=following) if following < len(self.listed) else ""

    @property
    def swapped_url(self) -> str:
        return reverse("run-against", args=[self.right.pk, self.left.pk])

    @property
    def titles(self) -> tuple[str, str]:
        return printable(str(self.left)), printable(str(self.right))

    @property
    def totals(self) -> Iterator[TotalRow]:
        columns = {
            "Calls": "call_count",
            "Failed": "failed_count",
            "Refused": "refused_count",
            "Cut": "cut_count",
            "Unanswered": "unanswered_count",
            "Tokens of receipts, estimated": "token_count",
        }
        for label, column in columns.items():
            left, right = getattr(self.left, column), getattr(self.right, column)
            yield TotalRow(
                label, format_count(left), format_count(right), format_change(right - left) if left != right else ""
            )
        took, took_right = self.left.recorded_duration_ms, self.right.recorded_duration_ms
        change = ""
        if took is not None and took_right is not None and took != took_right:
            change = f"{'+' if took_right > took else '−'}{format_duration(abs(took_right - took))}"
        yield TotalRow("Duration", format_duration(took), format_duration(took_right), change)


def load_run_comparison(left: Run, right: Run, params: RunComparisonParams) -> RunComparison:
    """Eight queries for each pair of runs, whatever their length."""
    sides = [_load_calls(run) for run in (left, right)]
    uncompared = sum(max(0, run.call_count - settings.COMPARED_CALLS) for run in (left, right))
    pairs, is_rough = align_calls(*sides)
    waiting = sum(run.count_waiting() for run in (left, right))
    return RunComparison(left, right, params, pairs, is_rough, uncompared, waiting)


def align_calls(left: Sequence[RunCallRow], right: Sequence[RunCallRow]) -> tuple[tuple[CallPair, ...], bool]:
    """Pairs in the order of both runs, and whether a stretch was too long to be aligned."""
    blocks, is_rough = align_items([call.identity for call in left], [call.identity for call in right])
    pairs: list[CallPair] = []

    def add(lefts: Sequence[RunCallRow | None], rights: Sequence[RunCallRow | None]) -> None:
        for before, after in zip(lefts, rights, strict=True):
            pairs.append(CallPair(len(pairs), before, after, _find_kind(before, after)))

    for block in blocks:
        lefts, rights = left[block.left_start : block.left_end], right[block.right_start : block.right_end]
        if block.is_same:
            add(lefts, rights)
            continue
        inner, is_inner_rough = align_items([call.tool for call in lefts], [call.tool for call in rights])
        is_rough = is_rough or is_inner_rough
        for stretch in inner:
            befores = lefts[stretch.left_start : stretch.left_end]
            afters = rights[stretch.right_start : stretch.right_end]
            if stretch.is_same:
                add(befores, afters)
            else:
                add(befores, [None] * len(befores))
                add([None] * len(afters), afters)
    return tuple(pairs), is_rough


def _load_calls(run: Run) -> list[RunCallRow]:
    """The first COMPARED_CALLS calls of a run in its order, with the hashes of their halves; three queries."""
    names = ("tool", "asked", "outcome", "exit_status", "tokens", "is_cut", "run_id", "derivation")
    members = RunCall.objects.filter(run=run).order_by("ordinal", "call_id")
    rows = list(members.values_list("call_id", *(f"call__{name}" for name in names))[: settings.COMPARED_CALLS])
    halves: dict[UUID, dict[str, RecordedHalf]] = {}
    observed = Observation.objects.filter(call__memberships__run=run, surface__in=SURFACES, selected=True)
    for call, surface, sha256, size in observed.values_list("call_id", "surface", "sha256", "size"):
        halves.setdefault(call, {})[surface] = RecordedHalf(str(sha256), size)
    receipts: dict[UUID, tuple[bool, int, bool]] = {}
    of_run = RecordedReceipt.objects.filter(run=run, observation__isnull=False).order_by("call_id", "seq")
    columns = ("call_id", "superseded_line", "observation__sha256", "observation__size", "tokens", "is_cut")
    for call, superseded, sha256, size, tokens, is_cut in of_run.values_list(*columns):
        is_current = superseded is None
        if call in receipts and receipts[call][0] and not is_current:
            continue  # one that is in the context goes before one that was replaced
        receipts[call] = is_current, tokens, is_cut
        halves.setdefault(call, {})["receipt"] = RecordedHalf(str(sha256), size)
    calls = []
    for number, (key, tool, asked, outcome, exit_status, tokens, is_cut, own, derivation) in enumerate(rows, start=1):
        _, tokens, is_cut = receipts.get(key, (True, tokens, is_cut)) if own != run.pk else (True, tokens, is_cut)
        of_call = halves.get(key, {})
        recorded = (key, number, tool, asked, outcome, exit_status, tokens, is_cut, of_call)
        calls.append(RunCallRow(*recorded, cwd=run.cwd, is_counted=bool(derivation)))
    return calls


def load_chosen(project: Project, keys: Sequence[UUID]) -> list[Run]:
    """The runs of a form, the oldest first; three at most, which is one too many."""
    return list(project.runs.filter(pk__in=keys[:3]).order_by("sort_at", "pk"))


def find_original(run: Run) -> Run | None:
    """The run whose plan this one ran again, or from whose history it copied most calls; None where there is none."""
    if name := find_rerun_of(run):
        return Run.objects.filter(project=run.project_id, namespace=run.namespace, external_id=name).first()
    copied = RunCall.objects.filter(run=run, inherited=True).exclude(call__run=run)
    most = copied.values_list("call__run").annotate(n=Count("*")).order_by("-n", "call__run").first()
    return Run.objects.filter(pk=most[0], project=run.project_id).first() if most else None

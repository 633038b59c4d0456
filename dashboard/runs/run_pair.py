"""Two calls that are aligned in two runs: the difference of each half, line by line.

Receipts are compared as the exact texts. Arguments and results are JSON and are compared as lines: each member with
its pointer, the lines of a long text below it, so that a changed line of an output is one line of the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.shortcuts import get_object_or_404

from dashboard.evidence.call_evidence import CallEvidence, load_evidence
from dashboard.models import Project, Run
from dashboard.runs.run_comparison import (
    SURFACES,
    CallPair,
    HalfChange,
    RunCallRow,
    RunComparison,
    RunComparisonParams,
    compare_half,
)
from dashboard.text.diff import compute_difference
from dashboard.text.diff_markup import DiffPage, build_diff_page
from dashboard.text.masks import mask_value
from envelopes.schema.result import JsonValue
from envelopes.text.pointer import join
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

MOST_CHARACTERS = 300_000  # of each half that a difference is made of
ROOM = 70_000  # characters of markup for the difference of one half


@dataclass(frozen=True)
class HalfDifference:
    """One half of both calls. `page` is None where nothing is to be compared."""

    name: str
    change: HalfChange
    page: DiffPage | None
    compared: int = 0  # characters of each text, where there are more
    next_url: str = ""
    first_url: str = ""


@dataclass(frozen=True)
class RunPairPage:
    comparison: RunComparison
    pair: CallPair
    halves: tuple[HalfDifference, ...]
    left_url: str
    right_url: str
    previous_url: str
    next_url: str
    list_url: str


def load_pair(comparison: RunComparison, project: Project) -> RunPairPage | None:
    """The pair that the address names; None for a number beyond the last."""
    params, pairs = comparison.params, comparison.pairs
    if params.pair is None or params.pair >= len(pairs):
        return None
    pair = pairs[params.pair]
    sides = ((pair.left, comparison.left), (pair.right, comparison.right))
    evidence = [_load_side(project, row, run) if row else None for row, run in sides]
    listed = [other.index for other in comparison.listed]
    before = max((index for index in listed if index < pair.index), default=None)
    after = min((index for index in listed if index > pair.index), default=None)
    return RunPairPage(
        comparison=comparison,
        pair=pair,
        halves=tuple(_build_half(name, pair, evidence, params) for name in SURFACES),
        left_url=_call_url(evidence[0], comparison.left),
        right_url=_call_url(evidence[1], comparison.right),
        previous_url="" if before is None else _pair_url(params, before),
        next_url="" if after is None else _pair_url(params, after),
        list_url=comparison.jump_url(pair) if pair in comparison.listed else params.url(pair=None),
    )


def _load_side(project: Project, row: RunCallRow, run: Run) -> CallEvidence:
    call = get_object_or_404(project.calls.with_run_and_source(), pk=row.key)
    return load_evidence(call, {"run": str(run.pk)})


def _call_url(evidence: CallEvidence | None, run: Run) -> str:
    return f"{evidence.call.get_absolute_url()}?run={run.pk}" if evidence else ""


def _pair_url(params: RunComparisonParams, index: int) -> str:
    return params.url(pair=index, **{f"{name}_row": None for name in SURFACES})


def _build_half(
    name: str, pair: CallPair, evidence: Sequence[CallEvidence | None], params: RunComparisonParams
) -> HalfDifference:
    change = compare_half(name, pair.left, pair.right)
    if change.state in ("same", "absent"):
        return HalfDifference(name, change, None)
    texts = [_read_half(name, of_side) if of_side else "" for of_side in evidence]
    is_cut = max(map(len, texts)) > MOST_CHARACTERS
    difference = compute_difference(*(text[:MOST_CHARACTERS] for text in texts))
    row = params.rows[name]
    page = build_diff_page(difference, params.view, spaces=False, start=row, room=ROOM)
    return HalfDifference(
        name,
        change,
        page,
        compared=MOST_CHARACTERS if is_cut else 0,
        next_url=params.url(**{f"{name}_row": page.next_row}) if page.next_row is not None else "",
        first_url=params.url(**{f"{name}_row": None}) if row else "",
    )


def _read_half(name: str, evidence: CallEvidence) -> str:
    if name == "receipt":
        return evidence.halves.receipt.text if evidence.halves.receipt else ""
    raw = evidence.bytes_of(name)
    return "" if raw is None else write_members(raw)


def write_members(raw: bytes) -> str:
    """JSON as lines that can be compared: a member a line with its pointer, the lines of a long text below it."""
    try:
        document = parse_json(raw)
    except Untrusted:
        return raw.decode("utf-8", "backslashreplace")
    lines: list[str] = []
    waiting: list[tuple[str, str, JsonValue]] = [("", "", document)]
    while waiting:
        pointer, name, value = waiting.pop()
        if isinstance(value, dict) and value:
            waiting += [(join(pointer, key), key, member) for key, member in reversed(value.items())]
        elif isinstance(value, list) and value:
            waiting += [(join(pointer, str(at)), name, value[at]) for at in reversed(range(len(value)))]
        elif isinstance(value, str) and "\n" in value:
            lines += [f"{pointer}:", mask_value(name, value)]
        else:
            text = mask_value(name, value) if isinstance(value, str) else value
            lines.append(f"{pointer}: {dump_json(text).decode('utf-8', 'backslashreplace')}")
    return "\n".join(lines)

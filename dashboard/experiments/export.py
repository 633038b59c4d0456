"""A finished comparison as JSON, for `compare_variants --json` and the download."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dashboard.experiments.measure_calls import MEASURES, Cell
from dashboard.experiments.significance import Interval
from dashboard.experiments.stored_columns import load_column_rows
from dashboard.experiments.stored_comparison import load_results, load_summary
from dashboard.experiments.summary import ColumnSummary
from dashboard.models import Comparison


def load_column_names(comparison: Comparison) -> list[str]:
    return list(dict(comparison.columns.order_by("ordinal").values_list("ordinal", "name")).values())


def export_json(comparison: Comparison) -> Iterator[str]:
    """One JSON document in pieces: a batch of calls in memory at a time."""
    names = load_column_names(comparison)
    yield json.dumps(export_summary(comparison))[:-1] + ', "calls": ['
    separator = ""
    for rows in load_results(comparison):
        for row in rows:
            cells = zip(names, row.cells, strict=True)
            variants = {name: _export_cell(cell) for name, cell in cells if cell is not None}
            call = {"call": str(row.key), "tool": row.tool, "family": row.family, "variants": variants}
            yield separator + json.dumps(call)
            separator = ", "
    yield "]}"


def export_summary(comparison: Comparison) -> dict[str, Any]:
    """Everything but the calls; `totals` are by variant, with `deltas` for all but the baseline."""
    summary = load_summary(comparison)
    names = load_column_names(comparison)
    variants = [
        {
            "column": row.name,
            "family": row.family or None,
            "id": row.variant,
            "version": row.version,
            "hash": row.hash or None,
            "policy": row.policy or None,
        }
        for row in load_column_rows(comparison)
    ]
    return {
        "comparison": str(comparison.pk),
        "name": comparison.name,
        "query": comparison.query,
        "chosen_calls": comparison.is_chosen,
        "family": comparison.family,
        "sample": comparison.sample,
        "seed": comparison.seed,
        "budget": comparison.budget,
        "baseline": names[0],
        "variants": variants,
        "call_count": summary.calls,
        "deleted_calls": summary.gone,
        "unanswered_calls": summary.unanswered,
        "unread_calls": summary.unread,
        "token_count": {"encoding": summary.encoding or None, "certainty": "estimate"},
        "totals": {name: _export_totals(column) for name, column in zip(names, summary.columns, strict=True)},
    }


def _export_cell(cell: Cell) -> dict[str, Any]:
    if cell.problem:
        return {"problem": cell.problem}
    return {
        "characters": cell.characters,
        "tokens": cell.tokens,
        "lines": cell.lines,
        "cut": cell.is_cut,
        "dropped": cell.dropped,
        "dropped_fields": list(cell.fields),
        "lint": list(cell.lint),
    }


def _export_totals(column: ColumnSummary) -> dict[str, Any]:
    deltas = {
        measure: {
            "calls": delta.calls,
            "baseline": delta.baseline,
            "variant": delta.value,
            "delta": delta.change,
            "interval": _export_interval(delta.interval),
            "more": delta.more,
            "fewer": delta.fewer,
            "sign_test": delta.probability,
        }
        for measure, delta in column.deltas.items()
    }
    return {
        "calls": column.calls,
        "absent": column.absent,
        **{measure: column.totals[measure].value for measure in MEASURES},
        "intervals": {measure: _export_interval(column.totals[measure].interval) for measure in MEASURES},
        "problems": column.problems,
        "rules": column.rules,
        "deltas": deltas,
    }


def _export_interval(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [round(interval.low, 3), round(interval.high, 3)]

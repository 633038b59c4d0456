"""A finished comparison as plain data: what its page shows, for `compare_variants --json` and the export."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from dashboard.comparisons.cells import MEASURES, Cell, Row
from dashboard.comparisons.frozen_columns import load_column_rows
from dashboard.comparisons.results import load_results
from dashboard.comparisons.summary import Bounds, ColumnSummary, unpacked_summary
from dashboard.models import Comparison


def column_names(comparison: Comparison) -> list[str]:
    return list(dict(comparison.columns.order_by("ordinal").values_list("ordinal", "name")).values())


def comparison_facts(comparison: Comparison) -> dict[str, Any]:
    """Everything but the calls; `totals` by variant, and of each but the baseline its `delta`."""
    summary = unpacked_summary(bytes(comparison.summary or b""))
    names = column_names(comparison)
    return {
        "comparison": str(comparison.pk),
        "name": comparison.name,
        "query": comparison.query,
        "family": comparison.family,
        "sample": comparison.sample,
        "seed": comparison.seed,
        "baseline": names[0],
        "variants": variant_facts(comparison),
        "call_count": summary.calls,
        "deleted_calls": summary.gone,
        "unanswered_calls": summary.unanswered,
        "unread_calls": summary.unread,
        "token_count": {"encoding": summary.encoding or None, "certainty": "estimate"},
        "totals": {name: _total_facts(column) for name, column in zip(names, summary.columns, strict=True)},
    }


def variant_facts(comparison: Comparison) -> list[dict[str, Any]]:
    return [
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


def call_facts(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """In the frozen order, a batch in memory at a time."""
    names = column_names(comparison)
    for rows in load_results(comparison):
        for row in rows:
            yield _row_facts(row, names)


def json_pieces(comparison: Comparison) -> Iterator[str]:
    """One JSON document, call by call: a hundred thousand of them are never in memory at once."""
    yield json.dumps(comparison_facts(comparison))[:-1] + ', "calls": ['
    for number, facts in enumerate(call_facts(comparison)):
        yield (", " if number else "") + json.dumps(facts)
    yield "]}"


def _row_facts(row: Row, names: Sequence[str]) -> dict[str, Any]:
    variants = {name: _cell_facts(cell) for name, cell in zip(names, row.cells, strict=True) if cell is not None}
    return {"call": str(row.key), "tool": row.tool, "family": row.family, "variants": variants}


def _cell_facts(cell: Cell) -> dict[str, Any]:
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


def _total_facts(column: ColumnSummary) -> dict[str, Any]:
    totals: dict[str, Any] = {measure: column.totals[measure].value for measure in MEASURES}
    intervals = {measure: _ends(column.totals[measure].interval) for measure in MEASURES}
    facts = {"calls": column.calls, "absent": column.absent, **totals, "intervals": intervals}
    deltas = {
        measure: {
            "calls": one.calls,
            "baseline": one.baseline,
            "variant": one.value,
            "delta": one.change,
            "interval": _ends(one.interval),
            "more": one.more,
            "fewer": one.fewer,
            "sign_test": one.probability,
        }
        for measure, one in column.deltas.items()
    }
    return facts | {"problems": column.problems, "rules": column.rules, "deltas": deltas}


def _ends(bounds: Bounds | None) -> list[float] | None:
    return None if bounds is None else [round(bounds.low, 3), round(bounds.high, 3)]

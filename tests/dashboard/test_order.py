"""The order of rows does not depend on the database: SQLite puts NULL first, PostgreSQL last."""

from __future__ import annotations

import ast

import pytest
from django.apps import apps
from django.db.models.constants import LOOKUP_SEP

from dashboard.models import Project
from dashboard.runs.waterfall import load_child_runs
from tests.dashboard.factories import START, create_run
from tests.source import modules, nodes

# Sorted by a column that may be NULL, where the filter or the table has none.
WITHOUT_NULL = {
    "dashboard/experiments/drift.py:pinned_at": "of pinned comparisons alone",
    "dashboard/experiments/verdicts.py:at": "every verdict has a time",
    # Annotations are about a run or a call, so both are columns that may be NULL, there alone:
    "dashboard/workspace/steps.py:call": "a column of RunCall, never NULL there",
    "dashboard/runs/run_comparison.py:run": "a column of calls, never NULL there",
    "dashboard/experiments/drift.py:run": "the same",
    "dashboard/experiments/preview_source.py:run": "a column of facets, never NULL there",
    "dashboard/runs/replay.py:call": "a column of RunCall, never NULL there",
    "dashboard/runs/waterfall.py:call": "the same",
    "dashboard/models/projects.py:at": "every entry of the audit log has a time",
    "dashboard/management/console.py:project": "a column of runs, never NULL there",
    "dashboard/plans/confirmation_page.py:call": "a column of RunCall, never NULL there",
    "dashboard/experiments/quoted_tokens.py:finished_at": "of finished reports alone",
    "dashboard/calls/call_order.py:started_at": "ids of a few calls, which are sorted afterwards",
    "dashboard/filters/queryset.py:started_at": "ids of a few calls in the order of an index, to look up their runs",
    "dashboard/models/runs.py:started_at": "of calls with a time alone",
    "dashboard/rule_trials.py:call": "of artifacts of calls",
    "dashboard/ingest/source_frames.py:source": "a column of frames, never NULL there",
    "dashboard/ingest/import_report.py:source": "of the sources of an import",
    "dashboard/artifacts/retention.py:source": "a reading of the whole table in the order of its index",
    "dashboard/artifacts/retention.py:start": "the same",
}


def test_no_query_sorts_by_a_column_that_may_be_null_without_a_place_for_null() -> None:
    models = apps.get_app_config("dashboard").get_models()
    nullable = {field.name for model in models for field in model._meta.concrete_fields if field.null}
    sorted_by = {
        f"{path}:{name}"
        for path in modules("dashboard")
        if "migrations" not in path.parts
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "order_by"
        for argument in node.args
        if isinstance(argument, ast.Constant)
        if (name := str(argument.value).lstrip("-").rsplit(LOOKUP_SEP, 1)[-1]) in nullable
    }
    assert sorted_by == set(WITHOUT_NULL)


@pytest.mark.postgresql
@pytest.mark.django_db
def test_child_runs_without_a_time_come_last(project: Project) -> None:
    parent = create_run(project)
    times = {"without": None, "early": START, "late": START.replace(year=2030)}
    for name, started_at in times.items():
        create_run(project, name, parent=parent, started_at=started_at)
    assert [run.external_id for run in load_child_runs(parent).all] == ["early", "late", "without"]

"""Stored rows, which models make themselves (`models.fields.LoadedRow`)."""

from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from dashboard.models import Call, Project
from tests.dashboard.factories import create_call, create_run


@pytest.mark.postgresql
def test_columns_that_were_not_loaded_can_be_loaded_later(
    project: Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    create_call(create_run(project, "a"), "a-1", receipt="r")
    call = Call.objects.select_related("run").only("tool", "run__title").get()
    assert {"external_id", "summary"} <= call.get_deferred_fields()
    with django_assert_num_queries(2):
        call.refresh_from_db(fields=["external_id"])
        call.run.refresh_from_db(fields=["external_id"])
        assert (call.external_id, call.run.external_id) == ("a-1", "a")
    call.tool = "Other"
    call.save(update_fields=["tool"])
    call.refresh_from_db()
    assert (call.tool, Call.objects.get() == call) == ("Other", True)

"""What the Artifact page asks the database: prepared queries, found by an index each."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from dashboard.models import Artifact, Call, Observation, Project, Run
from dashboard.prepared import Row, given, instance, names_of, prepared

SAME_SHOWN = 8
# What a link says of them, in the order of their models.
CALL = ("id", "run_id", "external_id", "tool")
RUN = ("id", "external_id", "title")


@prepared
def _artifacts() -> QuerySet[Any, Any]:
    wanted = Artifact.objects.filter(project=given("project", Artifact, "project"), pk=given("pk", Artifact, "id"))
    return wanted.values_list(*names_of(Artifact))


@prepared
def _observations() -> QuerySet[Any, Any]:
    return Observation.objects.filter(pk=given("pk", Observation, "id")).values_list(*names_of(Observation))


@prepared
def _of_content() -> QuerySet[Any, Any]:
    same = Artifact.objects.filter(
        project=given("project", Artifact, "project"), sha256=given("sha256", Artifact, "sha256")
    )
    return (
        same.filter(~Q(call=given("call", Artifact, "call")))
        .order_by("call__started_at", "id")
        .values_list(*names_of(Artifact), *(f"call__{name}" for name in CALL), *(f"call__run__{name}" for name in RUN))[
            : SAME_SHOWN + 1
        ]
    )


def artifact_of(project: Project, pk: UUID) -> Artifact | None:
    """The project's own artifact with its call and run, and what it is a field of."""
    row = next(iter(_artifacts(project=project.pk, pk=pk)), None)
    if row is None:
        return None
    artifact = instance(Artifact, row)
    call = project.calls.with_run_and_source().filter(pk=artifact.call_id).first()
    if call is None:
        return None
    artifact.call = call
    if artifact.observation_id is not None:
        found = _observations(pk=artifact.observation_id)
        artifact.observation = instance(Observation, found[0]) if found else None
    return artifact


def same_content(artifact: Artifact) -> tuple[Artifact, ...]:
    """Those of other calls of the project, SAME_SHOWN and one; which other projects hold it is nobody's business."""
    if not artifact.sha256:
        return ()
    rows = _of_content(project=artifact.project_id, sha256=artifact.sha256, call=artifact.call_id)
    return tuple(_with_call(row) for row in rows)


def _with_call(row: Any) -> Artifact:
    own = len(names_of(Artifact))
    artifact = instance(Artifact, row[:own])
    artifact.call, artifact.call.run = call_and_run(row[own:])
    return artifact


def call_and_run(row: Row) -> tuple[Call, Run]:
    """From their columns CALL and RUN."""
    call = Call.from_db(connection.alias, CALL, row[: len(CALL)])
    return call, Run.from_db(connection.alias, RUN, row[len(CALL) :])

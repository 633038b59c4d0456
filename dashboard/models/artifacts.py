"""The full outputs behind the previews. A URL names an artifact by id, never by a path."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import models
from django.urls import reverse

from dashboard.models.evidence import Observation
from dashboard.models.fields import CompactUUIDField, LoadedRow
from dashboard.models.projects import Project
from dashboard.models.runs import Call
from dashboard.models.sources import SentContent


class ArtifactQuerySet(models.QuerySet["Artifact"]):
    def stored_files(self) -> ArtifactQuerySet:
        """Artifacts whose content is a file in the artifact store."""
        return self.filter(observation=None, state=Artifact.State.PRESENT)

    def with_call(self) -> ArtifactQuerySet:
        """With their call, its run, and the recorded result that a field artifact is part of."""
        return self.select_related("call__run", "observation")

    def with_call_names(self) -> ArtifactQuerySet:
        """With as much of their call and its run as a link shows."""
        return self.select_related("call__run").only(
            *(field.attname for field in Artifact._meta.concrete_fields),
            *("call__run_id", "call__external_id", "call__tool", "call__started_at"),
            *("call__run__external_id", "call__run__title"),
        )

    def duplicates(self, artifact: Artifact) -> ArtifactQuerySet:
        """Artifacts of the project's other calls with the content of `artifact`, oldest call first.

        Other projects are left out: their content must not be visible here.
        """
        if not artifact.sha256:
            return self.none()
        others = self.filter(project=artifact.project_id, sha256=artifact.sha256).exclude(call=artifact.call_id)
        return others.with_call_names().order_by(models.F("call__started_at").asc(nulls_last=True), "id")

    def referenced(self, hashes: Iterable[str]) -> set[str]:
        """Those of the stored contents `hashes` (SHA-256) that an artifact of any project refers to.

        Content that a program has just sent is among them: the record that refers to it may come later.
        """
        recent = SentContent.objects.recent().filter(sha256__in=hashes)
        stored = set(self.stored_files().filter(sha256__in=hashes).values_list("sha256", flat=True))
        return stored | set(recent.values_list("sha256", flat=True))


class Artifact(LoadedRow):
    """A large field of a recorded result, or a file that the recording names.

    Field: the string at the JSON pointer `pointer` in `observation`, so that a full output is stored once.
    File: the content is in the artifact store under `sha256`, or is `missing`, or was `removed`.
    """

    class State(models.TextChoices):
        PRESENT = "present"
        MISSING = "missing"
        REMOVED = "removed"  # by retention, at removed_at

    id = CompactUUIDField(primary_key=True, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="artifacts")
    call = models.ForeignKey(Call, models.CASCADE, related_name="artifacts")
    ordinal = models.IntegerField(default=0)
    role = models.CharField(max_length=64)
    path = models.CharField(max_length=1024)  # of a file as the recording names it; virtual for a field
    state = models.CharField(max_length=8, choices=State.choices, default=State.PRESENT)
    observation = models.ForeignKey(Observation, models.CASCADE, null=True, related_name="artifacts")
    pointer = models.CharField(max_length=500, default="")
    sha256 = models.CharField(max_length=64, default="")
    size = models.BigIntegerField(default=0)  # bytes, UTF-8
    lines = models.BigIntegerField(default=0)
    removed_at = models.DateTimeField(null=True)
    media_type = models.CharField(max_length=100, default="text/plain")

    objects = ArtifactQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["call", "ordinal"]),
            models.Index(fields=["project", "sha256"]),  # duplicates, and whether a file is still referenced
        ]

    def __str__(self) -> str:
        return f"{self.role} of {self.call_id}"

    def get_absolute_url(self) -> str:
        return reverse("artifact-detail", args=[self.pk])

"""The full outputs behind the previews. An artifact is named by id, never by a path in a URL."""

from __future__ import annotations

from django.db import models
from django.urls import reverse

from dashboard.models.evidence import Observation
from dashboard.models.projects import Project
from dashboard.models.runs import Call


class ArtifactQuerySet(models.QuerySet["Artifact"]):
    def stored_files(self) -> ArtifactQuerySet:
        """Artifacts whose content is a file in the artifact store."""
        return self.filter(observation=None, state=Artifact.State.PRESENT)

    def referenced(self, digests: set[str]) -> set[str]:
        """Which of these stored files (sha256) artifacts of any project refer to."""
        return set(self.stored_files().filter(sha256__in=digests).values_list("sha256", flat=True))


class Artifact(models.Model):
    """A large field of a recorded result, or a file that the recording names.

    kind field: the string at `pointer` in `observation`, so that a full output is kept once.
    kind file: the content lies in the artifact store under `sha256`, is `missing`, or was `removed`.
    """

    class State(models.TextChoices):
        PRESENT = "present"
        MISSING = "missing"
        REMOVED = "removed"  # by retention, at removed_at

    id = models.UUIDField(primary_key=True, editable=False)
    project = models.ForeignKey(Project, models.CASCADE, related_name="artifacts")
    call = models.ForeignKey(Call, models.CASCADE, related_name="artifacts")
    ordinal = models.IntegerField(default=0)
    role = models.CharField(max_length=64)
    path = models.CharField(max_length=1024)  # virtual, or as the recording names it
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
            models.Index(fields=["project", "sha256"]),  # others with the same content; whether a file is still named
        ]

    def __str__(self) -> str:
        return f"{self.role} of {self.call_id}"

    def get_absolute_url(self) -> str:
        return reverse("artifact-detail", args=[self.pk])

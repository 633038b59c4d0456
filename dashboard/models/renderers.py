"""What operators add to the renderers: template variants, which are retired, and envelopes pasted for a preview."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from dashboard.models.projects import Project


class TemplateVariant(models.Model):
    """One version of a variant written in the browser. Never changed: another text is another version.

    `sha256` is over everything that decides what it writes, so that a receipt can name it for good.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="template_variants")
    family = models.CharField(max_length=32)
    name = models.CharField(max_length=40)
    version = models.IntegerField()
    title = models.CharField(max_length=100)
    source = models.TextField()
    characters = models.IntegerField()
    head_share = models.IntegerField()
    cut_at = models.CharField(max_length=10)
    note = models.CharField(max_length=200, default="")
    sha256 = models.CharField(max_length=64)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "family", "name", "version"], name="one_template_version")
        ]

    def __str__(self) -> str:
        return f"{self.family}/{self.name} version {self.version}"

    def save(self, *args: Any, **options: Any) -> None:
        if not self._state.adding:
            raise TypeError("A version of a template variant is never changed: write another one.")
        super().save(*args, **options)


class RetiredTemplate(models.Model):
    """A template that is offered no longer. Its versions stay, and what names one of them writes it still."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="retired_templates")
    family = models.CharField(max_length=32)
    name = models.CharField(max_length=40)
    retired_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    retired_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "family", "name"], name="one_retired_template")]

    def __str__(self) -> str:
        return f"{self.family}/{self.name}"


class PastedEnvelope(models.Model):
    """A canonical envelope that somebody pasted to look at, by the hash of its bytes."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="pasted_envelopes")
    sha256 = models.CharField(max_length=64)
    data = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "sha256"], name="one_pasted_envelope")]

    def __str__(self) -> str:
        return self.sha256[:12]

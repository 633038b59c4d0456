"""Variants that operators write as templates, the retired ones, and envelopes pasted for a preview."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models

from dashboard.models.projects import Project


class TemplateVariantQuerySet(models.QuerySet["TemplateVariant"]):
    def in_use(self) -> TemplateVariantQuerySet:
        """Without the versions of retired templates."""
        same = {name: models.OuterRef(name) for name in ("project", "family", "name")}
        return self.exclude(models.Exists(RetiredTemplate.objects.filter(**same)))

    def with_id(self, project_id: int, variant_id: str) -> TemplateVariantQuerySet:
        """All versions of the variant with an id such as `template/command/terse`."""
        family, _, name = variant_id.removeprefix("template/").partition("/")
        return self.filter(project=project_id, family=family, name=name)


class TemplateVariant(models.Model):
    """One version of a variant written in the browser. It never changes: another text is another version.

    `sha256` covers everything that decides the written text, so that a receipt can name the version for good.
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
    objects = TemplateVariantQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "family", "name", "version"], name="one_template_version")
        ]

    def __str__(self) -> str:
        return f"{self.family}/{self.name} version {self.version}"

    def save(self, *args: Any, **options: Any) -> None:
        if not self._state.adding:
            raise TypeError("A version of a template variant never changes: save another one.")
        super().save(*args, **options)


class RetiredTemplate(models.Model):
    """A template that is no longer offered. Its versions stay, for comparisons and addresses that name one."""

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
    """A canonical envelope that an operator pasted for a preview, found by the hash of its bytes."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="pasted_envelopes")
    sha256 = models.CharField(max_length=64)
    data = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "sha256"], name="one_pasted_envelope")]

    def __str__(self) -> str:
        return self.sha256[:12]

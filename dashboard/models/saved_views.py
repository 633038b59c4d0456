"""Filters over runs that operators keep under a name, beside the presets."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from dashboard.models.projects import Project


class SavedView(models.Model):
    """A filter as it stands in the search bar, and a sort of the Runs page; seen by the whole project."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=60)
    query = models.TextField()
    sort = models.CharField(max_length=16)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="one_saved_view")]

    def __str__(self) -> str:
        return self.name

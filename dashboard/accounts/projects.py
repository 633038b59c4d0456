"""The project that a command works in."""

from __future__ import annotations

from dashboard.models import Project

DEFAULT = "default"


def get_or_create_project(slug: str = DEFAULT) -> Project:
    return Project.objects.get_or_create(slug=slug, defaults={"name": slug.replace("-", " ").capitalize()})[0]

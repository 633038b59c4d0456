"""The Django app of the dashboard."""

from __future__ import annotations

import hashlib
from pathlib import Path

from django.apps import AppConfig
from django.contrib.staticfiles.finders import find
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.core.management import CommandError
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.loader import MigrationLoader
from django.db.models.signals import pre_migrate


class DashboardConfig(AppConfig):
    name = "dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        pre_migrate.connect(refuse_older_store, sender=self)


def refuse_older_store(using: str = DEFAULT_DB_ALIAS, **_: object) -> None:
    """Raises CommandError for a store of a version from before 0.2.0, which cannot be migrated."""
    loader = MigrationLoader(connections[using])
    if any(
        app == DashboardConfig.name and (app, name) not in loader.disk_migrations
        for app, name in loader.applied_migrations
    ):
        raise CommandError(
            "This store was written by another version of Counterfoil, and stores migrate only from 0.2.0 on. Set "
            "COUNTERFOIL_DATA (or DATABASE_URL) to a new, empty place and import the recordings again."
        )


class VersionedFiles(StaticFilesStorage):
    """Names each style and script by its content, so that no browser shows new pages with those of an older version."""

    def __init__(self) -> None:
        super().__init__()
        self._addresses: dict[str, str] = {}  # a page has twenty, and each takes 20 microseconds to compose

    def url(self, name: str | None, *, force: bool = False) -> str:
        del force
        name = name or ""
        if name not in self._addresses:
            path = find(name)
            version = f"?v={hashlib.sha256(Path(path).read_bytes()).hexdigest()[:8]}" if isinstance(path, str) else ""
            self._addresses[name] = super().url(name) + version
        return self._addresses[name]

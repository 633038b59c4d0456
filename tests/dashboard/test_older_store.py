"""A store of another version is refused with what to do; before 0.2.0 stores do not migrate."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

pytestmark = pytest.mark.django_db


def test_a_store_with_migrations_that_are_not_here_is_refused() -> None:
    MigrationRecorder(connection).record_applied("dashboard", "0010_recorded_receipt")
    with pytest.raises(CommandError, match="Set COUNTERFOIL_DATA .* and import the recordings again"):
        call_command("migrate", verbosity=0)

"""Fixtures for the tests of faults."""

from __future__ import annotations

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from tests.faults.imports import pattern


@pytest.fixture(scope="session", autouse=True)
def _tables_are_made_once(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """Stores of processes are copies of the test database, which no test has written to for good."""
    del django_db_setup
    if connection.vendor == "sqlite":  # elsewhere a process makes them, when one is asked for
        with django_db_blocker.unblock():
            pattern()

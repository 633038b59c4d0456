"""Who most tests of pages are, alice, an operator of the test's project; and the recordings that several read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from pytest_django import DjangoDbBlocker

from dashboard.models import Project
from tests.conftest import CHECKOUT
from tests.dashboard.factories import create_project, create_user

BUNDLED = CHECKOUT / "dashboard" / "samples"


@pytest.fixture(scope="module")
def kept_project(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Project]:
    """A project for fixtures of a module, whose rows its tests share: what a test changes is taken back after it."""
    del django_db_setup
    with django_db_blocker.unblock(), transaction.atomic():
        yield create_project("kept")
        transaction.set_rollback(True)


@pytest.fixture
def project(request: pytest.FixtureRequest, db: None) -> Project:
    """The one that is kept for a test that uses its rows, and otherwise one that has no rows."""
    return create_project("kept" if "kept_project" in request.fixturenames else "ledger")


@pytest.fixture
def alice(project: Project, client: Client) -> User:
    user = create_user("alice", project=project)
    client.force_login(user)
    return user


@pytest.fixture(scope="module", params=["bundled", pytest.param("whole", marks=pytest.mark.recordings)])
def folder(request: pytest.FixtureRequest) -> Path:
    """The excerpts that the repository ships, and in the recordings run the whole sessions."""
    if request.param == "bundled":
        return BUNDLED
    root: Path = request.getfixturevalue("recordings_root")
    return root / "claude-code"

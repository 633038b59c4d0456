"""Who most tests of pages are, alice, an operator of the test's project; and the recordings that several read."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.models import Project
from tests.conftest import CHECKOUT
from tests.dashboard.factories import create_user

BUNDLED = CHECKOUT / "dashboard" / "samples"


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

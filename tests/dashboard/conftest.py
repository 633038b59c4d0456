"""Who most tests of pages are: alice, signed in, an operator of the test's project."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.models import Project
from tests.dashboard.factories import create_user


@pytest.fixture
def alice(project: Project, client: Client) -> User:
    user = create_user("alice", project=project)
    client.force_login(user)
    return user

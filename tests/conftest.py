"""What every kind of test may ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from dashboard.models import Project
from tests.dashboard.factories import create_project, create_user

CHECKOUT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def recordings_root() -> Path:
    """The folder of whole recordings, which the repository does not ship."""
    root = Path(os.environ.get("COUNTERFOIL_RECORDINGS") or CHECKOUT.parent / "shared" / "samples")
    if not (root / "claude-code").is_dir():
        pytest.fail(f"No recordings in {root}: set COUNTERFOIL_RECORDINGS to the folder that has claude-code/ in it.")
    return root


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """SQLite gets a file and so its write-ahead log, as in production: in memory, locks behave otherwise."""
    default = settings.DATABASES["default"]
    if default["ENGINE"].endswith("sqlite3"):
        default["TEST"]["NAME"] = str(settings.DATA / "tests.db")


@pytest.fixture
def project(db: None) -> Project:
    return create_project("ledger")


@pytest.fixture
def operator(project: Project) -> User:
    """May write in `project`, and sees no other."""
    return create_user("olga", project=project)


@pytest.fixture
def operator_client(client: Client, operator: User) -> Client:
    client.force_login(operator)
    return client

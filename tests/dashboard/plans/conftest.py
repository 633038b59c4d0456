"""Runs of plans write to a data folder of the test."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def data(settings: Settings, tmp_path: Path) -> Path:
    settings.DATA = tmp_path / "data"
    return tmp_path / "data"

"""The calls of a module, one for each of its OUTPUTS: imported once, and as they were for each test."""

from __future__ import annotations

import pytest

from dashboard.models import Call, Project
from tests.dashboard.measured_comparisons import import_commands


@pytest.fixture(scope="module")
def imported(request: pytest.FixtureRequest, kept_project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    import_commands(kept_project, tmp_path_factory.mktemp("sessions"), request.module.OUTPUTS)


@pytest.fixture
def calls(project: Project, imported: None) -> list[Call]:
    return list(project.calls.order_by("line"))

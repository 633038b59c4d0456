"""pytest plugin: a worker sends the controller what a run shows, and leaves out the rest.

For each test xdist sends six messages, which took both sides 1.2 ms together. Three are enough: the report of the
test itself, its end, and that the worker has gone on. Left out are its start and the reports of a setup and of a
teardown that passed and wrote nothing. With -v, --durations or --junit-xml every message is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LEFT_OUT: dict[str, Any] = {"left_out": True}


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if not _leaves_out(session.config):
        return
    (interactor,) = [plugin for plugin in session.config.pluginmanager.get_plugins() if hasattr(plugin, "sendevent")]
    interactor.sendevent = send_what_is_shown(interactor.sendevent)


@pytest.hookimpl(tryfirst=True)
def pytest_report_to_serializable(
    config: pytest.Config, report: pytest.CollectReport | pytest.TestReport
) -> dict[str, Any] | None:
    return dict(LEFT_OUT) if _leaves_out(config) and shows_nothing(report) else None


def _leaves_out(config: pytest.Config) -> bool:
    option = config.option
    is_worker = hasattr(config, "workerinput")
    return is_worker and option.verbose <= 0 and option.durations is None and option.xmlpath is None


def shows_nothing(report: pytest.CollectReport | pytest.TestReport) -> bool:
    is_around = isinstance(report, pytest.TestReport) and report.when != "call"
    return is_around and report.passed and not report.sections and not report.user_properties


def send_what_is_shown(send: Callable[..., None]) -> Callable[..., None]:
    def send_or_leave_out(name: str, **content: Any) -> None:
        if name != "logstart" and "left_out" not in content.get("data", ()):
            send(name, **content)

    return send_or_leave_out

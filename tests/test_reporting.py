"""A worker leaves out of its messages only what no run shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import each
from tests.reporting import send_what_is_shown, shows_nothing


def report(when: Any, outcome: Any = "passed", **content: Any) -> pytest.TestReport:
    return pytest.TestReport("test_x.py::test_x", ("test_x.py", 1, "test_x"), {}, outcome, None, when, **content)


@each("when", ["setup", "teardown"])
def test_what_passed_around_a_test_shows_nothing(when: str) -> None:
    assert shows_nothing(report(when))


@each(
    "shown",
    [
        report("call"),
        *(report(when, outcome) for when in ("setup", "call", "teardown") for outcome in ("failed", "skipped")),
        report("teardown", sections=[("Captured stdout teardown", "left over")]),
        report("teardown", user_properties=[("name", "value")]),
        pytest.CollectReport("test_x.py", "passed", None, []),
    ],
)
def test_every_other_report_is_shown(shown: pytest.TestReport | pytest.CollectReport) -> None:
    assert not shows_nothing(shown)


def test_all_but_a_start_and_what_is_left_out_is_sent() -> None:
    sent: list[str] = []
    send = send_what_is_shown(lambda name, **_: sent.append(name))
    send("logstart", nodeid="x")
    send("testreport", data={"left_out": True, "item_index": 1})
    send("testreport", data={"outcome": "passed"})
    send("logfinish", nodeid="x")
    send("runtest_protocol_complete", item_index=1, duration=0.1)
    assert sent == ["testreport", "logfinish", "runtest_protocol_complete"]

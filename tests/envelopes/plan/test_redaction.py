"""OD-30, of results: what a tool returns of a secret is in no record, and the steps behind it get the value itself."""

from __future__ import annotations

from typing import Any

from tests.envelopes.plan.simulation import Echoed, Value, make_plan, make_tool, run_plan, step


def test_od_30_a_result_that_repeats_a_secret_or_is_one_is_masked_in_the_records_alone() -> None:
    def run(given: Value, context: Any) -> Any:
        return Echoed(value={"key": f"for {given.secret}", "token": "t0ken"}, path="kept")

    login = make_tool("Login", run, sensitive=("/secret",), sensitive_result=("/value/token",))
    got: list[Any] = []
    use = make_tool("Use", lambda given, _: Echoed(value=got.append(given.secret)), sensitive=("/secret",))
    plan = make_plan(step("a", "Login", {"secret": "hunter2"}), step("b", "Use", {"secret": "$steps.a.value.token"}))
    ran = run_plan(plan, login, use)
    assert got == ["t0ken"], "later steps get the value itself"
    assert ran.result.outputs()["a"]["value"] == {"key": "for hunter2", "token": "t0ken"}
    for record in (*ran.recorder.calls, *ran.recorder.results, *ran.recorder.events):
        assert not [secret for secret in ("hunter2", "t0ken") if secret in str(record)], record
    first = ran.recorder.results[0]
    assert first.data == {"value": {"key": "for [redacted]", "token": "[redacted]"}, "path": "kept", "number": 0}
    assert first.data_hash is None
    assert ran.recorder.results[1].data_hash is not None

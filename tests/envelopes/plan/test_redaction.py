"""OD-30, of results: what a tool returns of a secret is in no record, and the steps behind it get the value itself."""

from __future__ import annotations

from typing import Any

from envelopes.plan.tool_answers import ToolFailed
from envelopes.schema.result import CompleteOutput
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


def test_od_30_messages_payloads_and_previews_of_a_call_with_a_secret_are_masked() -> None:
    def run(given: Value, context: Any) -> Any:
        context.progress(f"asks with {given.secret}", {"key": given.secret, str(given.secret): [given.secret]})
        if given.number:
            raise ToolFailed("network_failed", f"refused {given.secret}")
        return CompleteOutput.success("Login", f"logged in with {given.secret} for t0ken", Echoed(value="t0ken"))

    login = make_tool("Login", run, sensitive=("/secret",), sensitive_result=("/value",))
    plan = make_plan(
        step("a", "Login", {"secret": "hunter2"}, preview="log in with hunter2"),
        step("b", "Login", {"secret": "hunter2", "number": 1}, onError="skip", retry={"maxAttempts": 1}),
    )
    ran = run_plan(plan, login)
    recorder = ran.recorder
    assert ran.ends == {"a": "ok", "b": "error"}
    assert recorder.header is not None
    records = (recorder.header.to_json(), *recorder.calls, *recorder.results, *recorder.events)
    assert not [record for record in records if "hunter2" in str(record) or "t0ken" in str(record)]
    assert recorder.header.plan is not None
    assert recorder.header.plan["steps"][0]["preview"] == "log in with [redacted]"
    assert recorder.results[0].user_message == "logged in with [redacted] for [redacted]"
    messages = [event.message for event in ran.events("step.progress", "step.finished")]
    assert messages[:2] == ["asks with [redacted]", "logged in with [redacted] for [redacted]"]
    assert ran.events("step.progress")[0].payload == {"key": "[redacted]", "[redacted]": ["[redacted]"]}

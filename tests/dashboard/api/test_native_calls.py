"""Calls of a runtime of unknown habits, recorded with `LiveRecorder`: how they ended and what the model got."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.ingest.importer import import_paths
from dashboard.ingest.store_derived import derive_waiting
from dashboard.models import Call, Project, Remark
from dashboard.models.outcomes import Outcome
from envelopes.recorder import LiveRecorder, LiveRun
from tests.dashboard.page_text import parse_page

pytestmark = pytest.mark.django_db

LOG = "\n".join(f"line {number} of the deploy log" for number in range(1, 401))


def record_calls(run: LiveRun) -> None:
    @run.tool
    def restart(service: str) -> None:
        """Returns None."""

    restart("web")
    for word in ("denied", "Timed out", "canceled", "failed", "done", "queued"):
        call = run.call(word, {})
        run.result(call, status=word)
        run.receipt(call, f"The call was {word}.")
    call = run.call("deploy", {"env": "prod"})
    run.result(call, denied_reason="policy forbids prod")
    run.receipt(call, "Denied: policy forbids prod")
    for tool, members in (
        ("blocked", {"denied_reason": "blocked"}),
        ("no_word", {"denied_reason": "not now", "error": {"kind": "denied", "message": "not now"}}),
        ("raised", {"error": {"kind": "boom", "message": "x"}}),
    ):
        run.result(run.call(tool, {}), **members)
    for tool, result, receipt in (
        ("read_log", {"text": LOG}, f"deploy.log:\n{LOG[:2_000]}\n[truncated]"),
        ("number_log", LOG, "\n".join(f"{number}: {line}" for number, line in enumerate(LOG.split("\n"), 1))),
        ("join_log", LOG, LOG.replace("\n", "; ")),
        ("dump", {"text": "x" * 900}, "x" * 400 + "…"),
        ("weather", {"wind": {"speed": 12}, "sky": "overcast"}, "Overcast. Wind 12 km/h."),
        ("greet", {"name": "Ann"}, "Said hello."),
    ):
        call = run.call(tool, {})
        run.result(call, result)
        run.receipt(call, receipt)


@pytest.fixture
def recorded(project: Project, tmp_path: Path) -> dict[str, Call]:
    with LiveRecorder(tmp_path) as recorder, recorder.run("night", title="Night shift") as run:
        record_calls(run)
    import_paths(project, [tmp_path])
    derive_waiting(project)
    return {call.tool: call for call in Call.objects.all()}


def test_the_words_of_a_runtime_for_the_end_of_a_call_are_understood(recorded: dict[str, Call]) -> None:
    outcomes = {tool: call.outcome for tool, call in recorded.items()}
    assert outcomes["denied"] == outcomes["deploy"] == Outcome.REFUSED
    assert outcomes["blocked"] == outcomes["no_word"] == Outcome.REFUSED
    assert outcomes["raised"] == Outcome.FAILED
    assert outcomes["Timed out"] == Outcome.TIMED_OUT
    assert outcomes["canceled"] == Outcome.CANCELLED
    assert outcomes["failed"] == Outcome.FAILED
    assert outcomes["done"] == outcomes["queued"] == Outcome.SUCCEEDED
    assert (recorded["deploy"].error_kind, recorded["deploy"].summary) == ("policy_denied", "policy forbids prod")
    remarks = Remark.objects.filter(kind=Remark.Kind.STATUS).values_list("call", "was")
    assert list(remarks) == [(recorded["queued"].pk, "queued")]


def test_a_tool_that_returns_nothing_has_returned_null(recorded: dict[str, Call], alice: User, client: Client) -> None:
    restart = recorded["restart"]
    assert (restart.result_fidelity, restart.summary) == ("structured", "restart returned null")
    page = parse_page(client.get(restart.get_absolute_url(), follow=True)).text
    assert "No result was recorded" not in page


def test_what_was_cut_is_stated_and_what_is_not_known_is_not(
    recorded: dict[str, Call], alice: User, client: Client
) -> None:
    cuts = {call.tool: (call.seen_lines, call.output_lines) for call in recorded.values() if call.is_cut}
    assert cuts == {"read_log": (77, 400), "dump": (0, 1)}

    def sentences(tool: str) -> str:
        return parse_page(client.get(recorded[tool].get_absolute_url(), follow=True)).by_id("step").text

    assert "the model got lines 1–77 of 400" in sentences("read_log")
    assert "the model got the first 400 of 900 characters of its one line" in sentences("dump")
    assert "the model got less than 1 line" in sentences("dump")
    assert "the model got all 400 lines" in sentences("number_log")
    joined = sentences("join_log")
    assert "The recorded output (400 lines) is not in the receipt word for word." in joined
    assert "cut before the model" not in joined


def test_words_that_may_come_from_the_result_are_not_said_to_be_the_runtimes_own(
    recorded: dict[str, Call], alice: User, client: Client
) -> None:
    def share(tool: str) -> str:
        page = parse_page(client.get(recorded[tool].get_absolute_url(), follow=True))
        return page.select_one("[data-half=receipt] .share").text

    for tool in ("weather", "join_log"):
        assert share(tool) == "The text is not linked to the result, because its place in it is not certain."
    assert "the text was added by the runtime" in share("greet")

"""When a mapping fails on a call, the call is shown as recorded and becomes a problem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import Client

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Problem, Project
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.spans import Span
from envelopes.families import command, external, registry
from envelopes.families.base import Family
from envelopes.families.external import any_agent
from tests.dashboard.page_text import parse_page
from tests.dashboard.recorded_calls import load_call
from tests.dashboard.sessions import SESSION, answers, asks, encoded, write

pytestmark = pytest.mark.django_db


class Broken(RuntimeError):
    pass


def break_on(evidence: Evidence) -> Reading:
    raise Broken("<script>\x00 of " + evidence.tool)


def align_nothing(_evidence: Evidence, _text: str) -> list[Span]:
    return []


BROKEN = ToolMapping(agent="claude-code", tools=("Bash",), version=1, read=break_on, align=align_nothing)


@pytest.fixture
def broken_bash(monkeypatch: pytest.MonkeyPatch) -> None:
    row: tuple[Family, ToolMapping] = (command.FAMILY, BROKEN)
    monkeypatch.setitem(registry._mappings(), ("claude-code", "Bash"), row)


@pytest.mark.postgresql
@pytest.mark.usefixtures("broken_bash")
def test_a_call_that_its_family_cannot_read_is_stored_and_reported_once(
    project: Project, tmp_path: Path, operator_client: Client
) -> None:
    path = write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_1"), answers("toolu_1"), asks("toolu_2", "Read")])
    report = import_paths(project, [path])
    call = Call.objects.get(external_id="toolu_1")
    assert (call.family, call.status, call.receipt_characters) == ("external", "success", 3)
    assert report.lines == {"accepted": 3, "rejected": 0, "blank": 0}
    problems = [(problem["line"], problem["path"]) for problem in report.problems]
    assert problems == [(2, "call toolu_1")]
    assert "Broken" in report.problems[0]["reason"]
    problem = Problem.objects.get()
    assert json.loads(bytes(problem.raw))["stdout"] == "a\nb"
    assert "call toolu_1" in parse_page(operator_client.get("/problems/")).text
    with path.open("ab") as file:
        file.write(encoded(answers("toolu_1", at="2026-03-01T09:00:09Z")) + b"\n")
    assert [problem["line"] for problem in import_paths(project, [path]).problems] == [2]


@pytest.mark.postgresql
def test_a_note_goes_when_the_call_is_read_again_and_understood(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_1"), answers("toolu_1")])
    with monkeypatch.context() as during:
        during.setitem(registry._mappings(), ("claude-code", "Bash"), (command.FAMILY, BROKEN))
        import_paths(project, [path])
    with path.open("ab") as file:
        file.write(encoded(answers("toolu_1", at="2026-03-01T08:00:09Z")) + b"\n")
    assert import_paths(project, [path]).problems == []
    assert Call.objects.get().family == "command"


def test_a_call_that_even_the_fallback_cannot_read_does_not_stop_the_import(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operator_client: Client
) -> None:
    def break_on_anything(evidence: Evidence) -> Reading:
        return break_on(evidence) if evidence.has_result else any_agent.FALLBACK_MAPPING.read(evidence)

    worse = ToolMapping(agent="", tools=(), version=1, read=break_on_anything, align=align_nothing)
    monkeypatch.setattr("envelopes.halves.FALLBACK", (external.FAMILY, worse))
    monkeypatch.setitem(registry._mappings(), ("claude-code", "Bash"), (command.FAMILY, BROKEN))
    path = write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_1"), answers("toolu_1"), asks("toolu_2", "Read")])
    assert import_paths(project, [path]).added["calls"] == 2
    page = operator_client.get(f"/calls/{Call.objects.get(external_id='toolu_1').pk}/")
    assert page.status_code == 200
    assert operator_client.get(f"/calls/{Call.objects.get(external_id='toolu_1').pk}/?as=text").status_code == 200


def test_an_answer_without_its_call_shows_which_facts_are_unknown(
    project: Project, tmp_path: Path, operator_client: Client
) -> None:
    import_paths(
        project, [write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_1"), answers("toolu_1"), answers("toolu_2")])]
    )
    stray, known = (Call.objects.get(external_id=name) for name in ("toolu_2", "toolu_1"))
    page = load_call(operator_client, stray)
    assert page.select_one("h1").text == "A call that was not recorded"
    assert "the tool and its arguments are unknown" in page.text
    assert not page.has('[aria-label^="Arguments"]')
    assert load_call(operator_client, known).has('[aria-label^="Arguments"]')
    run_page = parse_page(operator_client.get(stray.run.get_absolute_url()))
    assert "not recorded" in run_page.texts("b")

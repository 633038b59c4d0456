"""`compare_variants`: one JSON document whose totals anybody can recount from its calls."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from dashboard.intake.importing import import_paths
from dashboard.models import Call, Comparison, Project
from tests.dashboard.comparisons import import_commands
from tests.dashboard.factories import create_project

pytestmark = pytest.mark.django_db

COMMAND_FAMILY = ("recorded", "receipt", "canonical_json", "tail_first")


def printed(*arguments: str) -> str:
    out = StringIO()
    call_command("compare_variants", *arguments, stdout=out)
    return out.getvalue()


def recounted(document: dict[str, Any], name: str) -> dict[str, int]:
    cells = [call["variants"][name] for call in document["calls"] if name in call["variants"]]
    return {
        "calls": len(cells),
        "characters": sum(cell["characters"] for cell in cells),
        "tokens": sum(cell["tokens"] for cell in cells),
        "cut": sum(cell["cut"] for cell in cells),
        "dropped": sum(cell["dropped"] for cell in cells),
        "lint": sum(len(cell["lint"]) for cell in cells),
    }


def assert_recounts(document: dict[str, Any]) -> None:
    assert document["call_count"] == len(document["calls"])
    for name, total in document["totals"].items():
        assert {key: total[key] for key in recounted(document, name)} == recounted(document, name)
    first = document["baseline"]
    for name in list(document["totals"])[1:]:
        both = [call["variants"] for call in document["calls"] if {first, name} <= call["variants"].keys()]
        changes = [cells[name]["tokens"] - cells[first]["tokens"] for cells in both]
        delta = document["totals"][name]["deltas"]["tokens"]
        assert (delta["delta"], delta["calls"]) == (sum(changes), len(both))
        assert delta["more"] == sum(change > 0 for change in changes)


def test_totals_can_be_recounted_from_the_calls(project: Project, tmp_path: Path) -> None:
    import_commands(project, tmp_path, ["one", "two\nlines", "x" * 20_000])
    document = json.loads(
        printed("--project", "ledger", "--family", "command", "--variants", ",".join(COMMAND_FAMILY), "--json")
    )
    assert_recounts(document)
    assert len(document["calls"]) == 3
    assert [one["id"] for one in document["variants"]] == [
        "recorded",
        "command/receipt",
        "canonical_json",
        "command/tail_first",
    ]
    assert Comparison.objects.get().pk.hex == document["comparison"].replace("-", "")


def test_a_person_gets_a_table_and_may_keep_nothing(project: Project, tmp_path: Path) -> None:
    import_commands(project, tmp_path, ["one", "two"])
    asked = import_commands(project, tmp_path, ["three"], session="0f5f6d8e-0000-4000-8000-000000000002")[-1]
    Call.objects.filter(pk=asked.pk).update(status=Call.Status.UNKNOWN)
    table = printed("--project", "ledger", "--variants", "receipt,markdown", "--forget")
    assert "2 calls" in table
    assert "Left out: 1 without an answer." in table
    assert "Δ tokens" in table
    assert not Comparison.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--variants", "receipt,nonsense"), "no variant “nonsense”"),
        (("--variants", "receipt,markdown", "--query", "tool:"), "has no value behind it"),
        (("--variants", "receipt,markdown", "--project", "nobody"), "no project 'nobody'"),
    ],
)
def test_a_mistake_is_told_in_words(project: Project, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    import_commands(project, tmp_path, ["one"])
    with pytest.raises(CommandError, match=said):
        printed("--project", "ledger", *arguments)


@pytest.mark.recordings
def test_totals_of_the_samples_can_be_recounted(db: None, recordings_root: Path) -> None:
    project = create_project("default")
    import_paths(project, [recordings_root / "claude-code"])
    document = json.loads(printed("--family", "command", "--variants", ",".join(COMMAND_FAMILY), "--json"))
    assert_recounts(document)
    assert len(document["calls"]) > 300
    assert document["totals"]["canonical_json"]["lint"] > document["totals"]["receipt"]["lint"]

"""`compare_variants`: one JSON document whose totals anybody can recount from its calls."""

from __future__ import annotations

import json
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from toktok import batch_count

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Comparison, Project
from tests.cases import each
from tests.dashboard.factories import create_project, create_user
from tests.dashboard.measured_comparisons import import_commands
from tests.dashboard.page_text import Element, Page, parse_page

pytestmark = pytest.mark.django_db

SHOWN = {
    "Tokens": "tokens",
    "Characters": "characters",
    "Cut calls": "cut",
    "Lint findings": "lint",
    "Fields dropped": "dropped",
}
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
        for measure, delta in document["totals"][name]["deltas"].items():
            before = [number(cells[first], measure) for cells in both]
            after = [number(cells[name], measure) for cells in both]
            assert (delta["calls"], delta["baseline"], delta["variant"]) == (len(both), sum(before), sum(after))
            assert delta["delta"] == sum(after) - sum(before)
            assert delta["more"] == sum(new > old for old, new in zip(before, after, strict=True))
            assert delta["fewer"] == sum(new < old for old, new in zip(before, after, strict=True))


def number(cell: dict[str, Any], measure: str) -> int:
    return len(cell["lint"]) if measure == "lint" else int(cell[measure])


def assert_written(document: dict[str, Any], variants: Iterable[str], *, every: int) -> None:
    """Renders one call in `every` with the command `render`, and measures the text here."""
    for call in document["calls"][::every]:
        for name in variants:
            out = StringIO()
            call_command("render", call["call"], "--variant", name, "--stored", stdout=out)
            text, cell = out.getvalue(), call["variants"][name]
            assert (cell["characters"], cell["tokens"]) == (len(text), sum(batch_count([text], "o200k_base")))
            assert cell["lines"] == len(text.split("\n"))


def assert_shown(document: dict[str, Any], page: Page) -> None:
    """The table of figures has the totals and the differences of the document."""
    rows = [(row.select_one("th").text, row) for row in page.select("table.figures tbody tr")]
    columns = list(document["totals"].values())
    for label, measure in SHOWN.items():
        totals, deltas = [figures(row) for row_label, row in rows if row_label == label]
        assert totals == [column[measure] for column in columns]
        assert deltas == [column["deltas"][measure]["delta"] for column in columns[1:]]


def figures(row: Element) -> list[int]:
    return [int(text.split()[0].replace(",", "").replace("−", "-")) for text in row.texts("span.tone")]


def test_totals_can_be_recounted_from_the_calls(project: Project, tmp_path: Path) -> None:
    import_commands(project, tmp_path, ["one", "two\nlines", "x" * 20_000])
    document = json.loads(
        printed("--project", "ledger", "--family", "command", "--variants", ",".join(COMMAND_FAMILY), "--json")
    )
    assert_recounts(document)
    assert document["token_count"] == {"encoding": "o200k_base", "certainty": "estimate"}
    assert len(document["calls"]) == 3
    assert [variant["id"] for variant in document["variants"]] == [
        "recorded",
        "command/receipt",
        "canonical_json",
        "command/tail_first",
    ]
    assert Comparison.objects.get().pk.hex == document["comparison"].replace("-", "")


@pytest.fixture
def report(project: Project, tmp_path: Path) -> str:
    import_commands(project, tmp_path, ["one", "x" * 20_000])
    return printed("--project", "ledger", "--variants", "receipt,canonical_json", "--json")


@each(
    "path",
    [
        *((key,) for key in ("calls", "tokens", "characters", "cut", "lint", "dropped")),
        *(("deltas", "lint", key) for key in ("calls", "baseline", "variant", "delta", "more", "fewer")),
    ],
)
def test_a_number_that_is_off_by_one_is_noticed(report: str, path: tuple[str, ...]) -> None:
    document = json.loads(report)
    assert_recounts(document)
    numbers = document["totals"]["canonical_json"]
    for key in path[:-1]:
        numbers = numbers[key]
    numbers[path[-1]] += 1
    with pytest.raises(AssertionError):
        assert_recounts(document)


@pytest.mark.postgresql
def test_a_person_gets_a_table_and_may_keep_nothing(project: Project, tmp_path: Path) -> None:
    import_commands(project, tmp_path, ["one", "two"])
    unanswered = import_commands(project, tmp_path, ["three"], session="0f5f6d8e-0000-4000-8000-000000000002")[-1]
    Call.objects.filter(pk=unanswered.pk).update(status=Call.Status.UNKNOWN)
    table = printed("--project", "ledger", "--variants", "receipt,markdown", "--forget")
    assert "2 calls" in table
    assert "Left out: 1 without an answer." in table
    assert "Δ tokens" in table
    assert not Comparison.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--variants", "receipt,nonsense"), "no variant “nonsense”"),
        (("--variants", "receipt,markdown", "--query", "tool:"), "has no value behind it"),
        (("--variants", "receipt,markdown", "--project", "nobody"), "no project 'nobody'"),
    ],
)
def test_a_mistake_is_described_in_words(
    project: Project, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    import_commands(project, tmp_path, ["one"])
    with pytest.raises(CommandError, match=sentence):
        printed("--project", "ledger", *arguments)


@pytest.mark.recordings
def test_totals_of_the_samples_can_be_recounted(db: None, client: Client, recordings_root: Path) -> None:
    project = create_project("default")
    import_paths(project, [recordings_root])
    document = json.loads(printed("--family", "command", "--variants", ",".join(COMMAND_FAMILY), "--json"))
    assert_recounts(document)
    assert_written(document, COMMAND_FAMILY[1:], every=9)
    client.force_login(create_user("ada", project=project))
    assert_shown(document, parse_page(client.get(f"/experiments/{document['comparison']}/")))
    assert len(document["calls"]) > 300
    assert document["totals"]["canonical_json"]["lint"] > document["totals"]["receipt"]["lint"]

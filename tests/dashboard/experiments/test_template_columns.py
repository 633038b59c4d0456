"""Template variants as columns of a comparison: frozen by version, rendered in their own process, failures stated."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client

from dashboard.experiments.drift import check_all
from dashboard.experiments.stored_comparison import Selection, load_results, start_comparison
from dashboard.models import Call, Project, TemplateVariant
from dashboard.variants.variant_list import UnusableColumns, save_version
from dashboard.worker import work_until_idle
from envelopes.families.registry import family
from tests.dashboard.factories import create_project, create_user
from tests.dashboard.measured_comparisons import compared
from tests.dashboard.page_text import parse_page

pytestmark = pytest.mark.django_db

OUTPUTS = ["one", "two\nlines", "three"]
ENDLESS = "{% if result.stdout_preview contains 'two' %}{% for i in (1..999999999) %}x{% endfor %}{% endif %}short"


def save(project: Project, source: str, name: str = "terse") -> TemplateVariant:
    author = create_user("ada", project=project)
    return save_version(project, family("command"), author, name=name, title=name, source=source, characters="4000")


def test_a_template_is_measured_like_any_variant_and_named_by_version_and_hash(
    project: Project, calls: list[Call]
) -> None:
    save(project, "It said {{ result.stdout_preview }}")
    comparison, summary = compared(project, ["receipt", "terse"])
    row = comparison.columns.get(name="terse")
    assert (row.variant, row.version, len(row.hash), row.family) == ("template/command/terse", 1, 16, "command")
    assert summary.columns[1].totals["characters"].value == sum(len(f"It said {text}") for text in OUTPUTS)


def test_a_version_saved_later_changes_nothing_of_an_older_comparison(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    save(project, "first {{ result.stdout_preview }}")
    comparison = start_comparison(project, Selection(), ["receipt", "terse"])
    save(project, "second")
    work_until_idle()
    comparison.refresh_from_db()
    assert comparison.is_finished
    pair = parse_page(operator_client.get(f"/experiments/{comparison.pk}/calls/{calls[0].pk}/"))
    assert "first one" in pair.by_role("region", "Text by terse").text
    assert "measured another one" not in pair.text
    assert "version 2" in parse_page(operator_client.get(f"/experiments/{comparison.pk}/")).text


def test_two_versions_are_side_by_side(project: Project, calls: list[Call]) -> None:
    save(project, "12345")
    save(project, "123")
    _, summary = compared(project, ["terse@1", "terse@2", "terse"])
    assert [column.totals["characters"].value for column in summary.columns] == [15, 9, 9]


def test_a_template_that_fails_on_one_call_is_a_cell_that_says_so(
    operator_client: Client, project: Project, calls: list[Call]
) -> None:
    save(project, ENDLESS)
    comparison, summary = compared(project, ["receipt", "terse"])
    assert (summary.columns[1].problems, summary.columns[1].calls) == (1, 2)
    (failed,) = [row for rows in load_results(comparison) for row in rows if row.cells[1] and row.cells[1].problem]
    assert failed.cells[1].problem.startswith("the template failed: ")
    page = parse_page(operator_client.get(f"/experiments/{comparison.pk}/calls/{failed.key}/"))
    assert failed.cells[1].problem in page.text


def test_a_template_of_another_project_is_no_column(project: Project, calls: list[Call]) -> None:
    save(create_project("other"), "theirs")
    with pytest.raises(UnusableColumns, match="no variant “terse”"):
        start_comparison(project, Selection(), ["receipt", "terse"])


def test_the_command_and_the_form_offer_templates(operator_client: Client, project: Project, calls: list[Call]) -> None:
    save(project, "{{ status }}")
    out = StringIO()
    call_command("compare_variants", "--project", "kept", "--variants", "recorded,terse@1", "--json", stdout=out)
    document = json.loads(out.getvalue())
    assert document["totals"]["terse@1"]["characters"] == len("success") * len(OUTPUTS)
    for address, label in (("?family=command", "terse template"), ("", "terse command only template")):
        form = parse_page(operator_client.get(f"/experiments/new/{address}"))
        assert form.by_role("checkbox", label, exact=True)


@pytest.mark.postgresql
def test_a_pinned_template_drifts_when_a_newer_version_is_saved(project: Project, calls: list[Call]) -> None:
    save(project, "{{ status }}")
    comparison, _ = compared(project, ["receipt", "terse"])
    type(comparison).objects.update(pinned_at=comparison.finished_at)
    assert check_all(project).drifted == ()
    save(project, "{{ status }}!")
    assert {(drift.reason, drift.detail) for drift in check_all(project).drifted} == {
        ("variant", "version 1 is version 2 now")
    }

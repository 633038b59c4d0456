"""Variants that operators write: the editor, versions that nothing changes, and who may."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from dashboard.experiments import stored_comparison
from dashboard.experiments.drift import check_all
from dashboard.models import Project, RetiredTemplate, Run, TemplateVariant
from dashboard.variants.variant_list import find_variant, latest_by_family, offered_by_family, offered_variants
from envelopes.families.registry import family
from tests.dashboard.factories import create_project, create_run, create_user
from tests.dashboard.measured_comparisons import compared, import_commands
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.recorded_calls import bash

EDITOR = "/experiments/renderers/command/templates/"
PAGE = "/experiments/renderers/command/"


@pytest.fixture
def run(operator_client: Client, project: Project) -> Run:
    del operator_client  # signs in
    return create_run(project, "session-one")


def save(client: Client, source: str, name: str = "terse", at: str = EDITOR, **fields: str) -> Any:
    form = {"name": name, "title": "Terse", "source": source, "characters": "4000", "save": "1"} | fields
    return client.post(at, form)


def load(client: Client, address: str) -> Page:
    return parse_page(client.get(address))


def receipt_text(page: Page) -> str:
    return "".join(text.exact for text in page.select("[data-half=receipt] pre[data-exact]"))


def test_a_template_becomes_a_variant_of_its_family(client: Client, run: Run) -> None:
    call = bash(run, "hello\nworld\n")
    response = save(client, "It said:\n{{ result.stdout_preview }}", at=f"{EDITOR}?call={call.pk}")
    assert response["Location"] == f"{PAGE}?call={call.pk}&variant=terse"
    page = load(client, response["Location"])
    assert receipt_text(page).replace("\r", "") == "It said:\nhello\nworld\n"
    linked = page.select_one('#variant-text [data-pointer="/result/stdout_preview"]')
    assert (linked["data-at"], linked.text[:5]) == ("0-12", "hello")
    assert "template/command/terse version 1" in page.text
    assert "template" not in load(client, "/experiments/renderers/file/").by_role("radiogroup", "Variant").html
    assert load(client, f"/calls/{call.pk}/variants/").has("[data-variant=terse]")


def test_a_draft_is_shown_while_it_is_written_and_nothing_is_stored(client: Client, run: Run) -> None:
    form = {"source": "{{ status }}!", "characters": "4000"}
    response = client.post(f"{EDITOR}?sample=ExecCommand/success", form, headers={"HX-Request": "true"})
    page = parse_page(response)
    assert receipt_text(page) == "success!"
    assert page.is_fragment
    assert not TemplateVariant.objects.exists()


def test_the_editor_begins_with_a_template_that_writes_something(client: Client, run: Run) -> None:
    assert "exit_status: 0" in receipt_text(load(client, f"{EDITOR}?sample=ExecCommand/success"))


def test_the_editor_shows_what_the_template_sees_and_leads_to_the_line_that_is_wrong(client: Client, run: Run) -> None:
    address = f"{EDITOR}?sample=ExecCommand/success"
    assert load(client, address).has('[data-half=canonical] [data-pointer="/result/exit_status"]')
    form = {"source": "one\n{{ nothing }}", "characters": "4000"}
    draft = parse_page(client.post(address, form, headers={"HX-Request": "true"}))
    assert draft.by_role("link", "Line 2")["data-line"] == "2"
    assert not draft.has("[data-half=canonical]"), "no letter that is typed changes it"


def test_a_field_that_this_result_lacks_is_named_and_no_error(client: Client, run: Run) -> None:
    form = {"source": "{{ status }}\n{{ result.exit_staus }}", "characters": "4000"}
    draft = parse_page(client.post(f"{EDITOR}?sample=ExecCommand/success", form, headers={"HX-Request": "true"}))
    assert (
        "Line 2: this result has no result.exit_staus, so nothing is written for it. It has exit_status." in draft.text
    )
    assert receipt_text(draft) == "success\n"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("one\n{{ nothing }}", "Line 2: there is no 'nothing'"),
        ("\r\n\r\n{% include 'x' %}", "Line 3: unexpected tag 'include'"),
        ("{{ result.__class__ }}", "Line 1: names that begin with an underscore"),
        ("{% for i in (1..1000000000) %}x{% endfor %}", "loop iteration limit reached"),
    ],
)
def test_an_error_in_a_template_is_reported_with_its_line(client: Client, run: Run, source: str, sentence: str) -> None:
    form = {"source": source, "characters": "4000"}
    assert sentence in parse_page(client.post(f"{EDITOR}?sample=ExecCommand/success", form)).text


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": "Bad Name"}, "A name is lower-case letters"),
        ({"name": "markdown"}, "There is already a variant markdown"),
        ({"name": "recorded"}, "There is already a variant recorded"),
        ({"characters": "many"}, "The longest text is a whole number from 200 to 12,000"),
        ({"characters": "90000"}, "The longest text is a whole number"),
        ({"source": "{% if %}"}, "Not saved. Line 1: missing expression."),
    ],
)
def test_what_cannot_be_saved_says_why_and_stays_in_the_box(
    client: Client, run: Run, fields: dict[str, str], sentence: str
) -> None:
    response = save(client, **({"source": "{{ status }} kept"} | fields))
    assert response.status_code == 422
    page = parse_page(response)
    assert sentence in page.by_role("alert").text
    assert fields.get("source", "{{ status }} kept") in page.by_id("source").exact
    assert not TemplateVariant.objects.exists()


@pytest.mark.postgresql
def test_a_new_version_leaves_the_old_one_as_it_was(client: Client, run: Run, project: Project) -> None:
    save(client, "first {{ status }}")
    before = find_variant(offered_variants(project, family("command")), "terse")
    save(client, "second {{ status }}", at=f"{EDITOR}terse/", note="says second")
    address = f"{PAGE}?sample=ExecCommand/success&against=none&variant="
    shown = {key: receipt_text(load(client, address + key)) for key in ("terse", "terse@1", "terse@2")}
    assert shown == {"terse": "second success", "terse@1": "first success", "terse@2": "second success"}
    after = find_variant(offered_variants(project, family("command"), also=["terse@1"]), "terse@1")
    assert before is not None
    assert after is not None
    assert after.variant.hash == before.variant.hash
    page = load(client, f"{EDITOR}terse/?version=1")
    assert page.by_id("source").text == "first {{ status }}"
    assert "says second" in page.by_role("region", "Versions").text


def test_the_same_text_again_is_no_new_version(client: Client, run: Run) -> None:
    save(client, "{{ status }}")
    assert save(client, "{{ status }}", at=f"{EDITOR}terse/").status_code == 302
    assert list(TemplateVariant.objects.values_list("version", flat=True)) == [1]


def test_a_new_template_takes_no_name_that_another_has(client: Client, run: Run) -> None:
    save(client, "{{ status }}")
    response = save(client, "{{ summary_text }}")
    assert response.status_code == 422
    assert "There is already a template terse" in parse_page(response).by_role("alert").text
    assert TemplateVariant.objects.get().source == "{{ status }}"


def test_a_version_cannot_be_changed(client: Client, run: Run) -> None:
    save(client, "{{ status }}")
    row = TemplateVariant.objects.get()
    row.source = "other"
    with pytest.raises(TypeError, match="never changes"):
        row.save()


def test_a_viewer_reads_templates_and_saves_none(client: Client, run: Run, project: Project) -> None:
    save(client, "{{ status }}")
    client.force_login(create_user("vera", project=project, role="viewer"))
    assert client.get(f"{EDITOR}terse/").status_code == 200
    assert save(client, "other", at=f"{EDITOR}terse/").status_code == 403
    assert TemplateVariant.objects.count() == 1


def test_a_template_of_another_project_is_not_there(client: Client, run: Run) -> None:
    save(client, "{{ status }}")
    client.force_login(create_user("vera", project=create_project("other")))
    assert client.get(f"{EDITOR}terse/").status_code == 404
    assert "variant=terse is not a variant of this family" in load(client, f"{PAGE}?variant=terse").text


RETIRE = f"{EDITOR}terse/retire/"


@pytest.mark.postgresql
def test_a_retired_template_is_offered_nowhere_and_comes_back(client: Client, run: Run, project: Project) -> None:
    call = bash(run, "hello")
    save(client, "{{ status }}")
    lists = (PAGE, f"/calls/{call.pk}/", f"/calls/{call.pk}/variants/", "/experiments/new/", "/experiments/")
    assert all(load(client, address).all_by_text("terse", exact=True) for address in lists)
    assert client.post(RETIRE)["Location"] == f"{EDITOR}terse/"
    for address in lists[:-1]:
        assert not re.search(r"\bterse\b", load(client, address).markup), address
    assert "retired: terse" in load(client, "/experiments/").text
    assert not latest_by_family(project)
    assert "by olga. It is no longer offered." in load(client, f"{EDITOR}terse/").text
    client.post(RETIRE)  # once more changes nothing
    assert client.post(RETIRE, {"back": "1"}).status_code == 302
    assert all(load(client, address).all_by_text("terse", exact=True) for address in lists)
    assert "retired" not in load(client, "/experiments/").text


def test_what_names_a_retired_template_still_shows_its_text(client: Client, run: Run, project: Project) -> None:
    call = bash(run, "hello")
    save(client, "first {{ status }}")
    save(client, "second {{ status }}", at=f"{EDITOR}terse/")
    client.post(RETIRE)
    for key, text in (("terse", "second success"), ("terse@1", "first success")):
        address = f"{PAGE}?sample=ExecCommand/success&against=none&variant={key}"
        assert receipt_text(load(client, address)) == text
        assert f"Receipt by {key}" in load(client, f"/calls/{call.pk}/?right=variant-{key}").text
    offers = offered_by_family(project, also=["terse", "receipt"])
    assert [offer.key for offer in offers["command"]].count("terse") == 1
    assert "terse" not in [offer.key for offer in offers["file"]]


def test_an_old_comparison_is_unharmed_by_the_retirement_of_its_template(
    operator_client: Client, project: Project, tmp_path: Path
) -> None:
    client, (call,) = operator_client, import_commands(project, tmp_path, ["hello"])
    save(client, "It said {{ result.stdout_preview }}")
    comparison, _ = compared(project, ["receipt", "terse"])
    stored_comparison.pin(comparison, is_pinned=True)
    addresses = (f"/experiments/{comparison.pk}/", f"/experiments/{comparison.pk}/calls/{call.pk}/")
    before = [load(client, address).text for address in addresses]
    assert "It said hello" in before[1]
    client.post(RETIRE)
    assert [load(client, address).text for address in addresses] == before
    assert check_all(project).drifted == ()


@pytest.mark.postgresql
def test_a_new_version_brings_a_retired_template_back(client: Client, run: Run, project: Project) -> None:
    save(client, "{{ status }}")
    client.post(RETIRE)
    save(client, "{{ status }}!", at=f"{EDITOR}terse/")
    assert not project.retired_templates.exists()
    assert find_variant(offered_variants(project, family("command")), "terse") is not None


def test_only_an_operator_of_the_project_retires(client: Client, run: Run, project: Project) -> None:
    save(client, "{{ status }}")
    client.force_login(create_user("vera", project=project, role="viewer"))
    assert client.post(RETIRE).status_code == 403
    assert not load(client, f"{EDITOR}terse/").has("[form=retire]")
    client.force_login(create_user("charlie", project=create_project("other")))
    assert client.post(RETIRE).status_code == 404
    assert client.get(RETIRE).status_code == 405
    assert not RetiredTemplate.objects.exists()


def test_a_template_that_is_looked_at_leads_to_its_text_and_its_versions(client: Client, run: Run) -> None:
    save(client, "{{ status }}")
    link = load(client, f"{PAGE}?sample=ExecCommand/success&variant=terse").by_role("link", "template and versions")
    assert (link["href"], link["data-key"]) == (f"{EDITOR}terse/?sample=ExecCommand%2Fsuccess", "h")
    assert not load(client, f"{PAGE}?sample=ExecCommand/success").has(f'[href^="{EDITOR}terse/"]')


def test_hostile_text_in_a_template_is_text(client: Client, run: Run) -> None:
    page = parse_page(save(client, "</textarea><script>alert(1)</script>{{ nothing }}"))
    assert "</textarea><script>alert(1)</script>" in page.by_id("source").exact
    assert not [script for script in page.select("script") if "alert" in script.exact]

"""Variants that operators write: the editor, versions that nothing changes, and who may."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from django.test import Client

from dashboard.models import Project, Run, TemplateVariant
from dashboard.renderers.variant_list import by_key, offered
from envelopes.families import family
from tests.dashboard.factories import create_project, create_run, create_user
from tests.dashboard.page_text import text_of
from tests.dashboard.test_call_page import bash, receipt_of

EDITOR = "/renderers/command/templates/"
PAGE = "/renderers/command/"


@pytest.fixture
def run(operator_client: Client, project: Project) -> Run:
    del operator_client  # signs in
    return create_run(project, "session-one")


def save(client: Client, source: str, name: str = "terse", at: str = EDITOR, **fields: str) -> Any:
    form = {"name": name, "title": "Terse", "source": source, "characters": "4000", "save": "1"} | fields
    return client.post(at, form)


def words(response: Any) -> str:
    return unescape(" ".join(text_of(response.content.decode()).split()))


def test_a_template_becomes_a_variant_of_its_family(client: Client, run: Run) -> None:
    call = bash(run, "hello\nworld\n")
    response = save(client, "It said:\n{{ result.stdout_preview }}", at=f"{EDITOR}?call={call.pk}")
    assert response["Location"] == f"{PAGE}?call={call.pk}&variant=terse"
    html = client.get(response["Location"]).content.decode()
    assert receipt_of(html).replace("\r", "") == "It said:\nhello\nworld\n"
    assert 'data-pointer="/result/stdout_preview" data-at="0-12">hello' in html
    assert "template/command/terse version 1" in unescape(" ".join(text_of(html).split()))
    assert "template" not in client.get("/renderers/file/").content.decode().partition("data-variants")[2][:3000]
    assert "terse" in client.get(f"/calls/{call.pk}/variants/").content.decode()


def test_a_draft_is_shown_while_it_is_written_and_nothing_is_kept(client: Client, run: Run) -> None:
    form = {"source": "{{ status }}!", "characters": "4000"}
    html = client.post(f"{EDITOR}?sample=ExecCommand/success", form, headers={"HX-Request": "true"}).content.decode()
    assert receipt_of(html) == "success!"
    assert "<html" not in html
    assert not TemplateVariant.objects.exists()


def test_the_editor_begins_with_a_template_that_writes_something(client: Client, run: Run) -> None:
    html = client.get(f"{EDITOR}?sample=ExecCommand/success").content.decode()
    assert "exit_status: 0" in receipt_of(html)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("one\n{{ nothing }}", "Line 2: there is no 'nothing'"),
        ("\r\n\r\n{% include 'x' %}", "Line 3: unexpected tag 'include'"),
        ("{{ result.__class__ }}", "Line 1: names that begin with an underscore"),
        ("{% for i in (1..1000000000) %}x{% endfor %}", "loop iteration limit reached"),
    ],
)
def test_what_is_wrong_in_a_template_is_told_with_its_line(
    client: Client, run: Run, source: str, sentence: str
) -> None:
    form = {"source": source, "characters": "4000"}
    assert sentence in words(client.post(f"{EDITOR}?sample=ExecCommand/success", form))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": "Bad Name"}, "A name is lower-case letters"),
        ({"name": "markdown"}, "There is a variant markdown already"),
        ({"name": "recorded"}, "There is a variant recorded already"),
        ({"characters": "many"}, "The ceiling is a whole number from 200 to 12,000"),
        ({"characters": "90000"}, "The ceiling is a whole number"),
        ({"source": "{% if %}"}, "Not saved. Line 1: missing expression."),
    ],
)
def test_what_cannot_be_saved_says_why_and_stays_in_the_box(
    client: Client, run: Run, fields: dict[str, str], sentence: str
) -> None:
    response = save(client, **({"source": "{{ status }} kept"} | fields))
    assert response.status_code == 422
    assert sentence in words(response)
    assert fields.get("source", "{{ status }} kept") in unescape(response.content.decode())
    assert not TemplateVariant.objects.exists()


def test_a_new_version_leaves_the_old_one_as_it_was(client: Client, run: Run, project: Project) -> None:
    save(client, "first {{ status }}")
    before = by_key(offered(project, family("command")), "terse")
    save(client, "second {{ status }}", at=f"{EDITOR}terse/", note="says second")
    address = f"{PAGE}?sample=ExecCommand/success&against=none&variant="
    shown = {key: receipt_of(client.get(address + key).content.decode()) for key in ("terse", "terse@1", "terse@2")}
    assert shown == {"terse": "second success", "terse@1": "first success", "terse@2": "second success"}
    after = by_key(offered(project, family("command"), also=["terse@1"]), "terse@1")
    assert before is not None
    assert after is not None
    assert after.variant.hash == before.variant.hash
    html = client.get(f"{EDITOR}terse/?version=1").content.decode()
    assert "first {{ status }}" in html
    assert "says second" in html


def test_the_same_text_again_is_no_new_version(client: Client, run: Run) -> None:
    save(client, "{{ status }}")
    save(client, "{{ status }}")
    assert list(TemplateVariant.objects.values_list("version", flat=True)) == [1]


def test_a_version_cannot_be_changed(client: Client, run: Run) -> None:
    save(client, "{{ status }}")
    row = TemplateVariant.objects.get()
    row.source = "other"
    with pytest.raises(TypeError, match="never changed"):
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
    assert "no such variant" in words(client.get(f"{PAGE}?variant=terse"))


def test_hostile_text_in_a_template_is_text(client: Client, run: Run) -> None:
    html = save(client, "</textarea><script>alert(1)</script>{{ nothing }}").content.decode()
    assert "<script>alert" not in html

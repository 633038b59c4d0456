"""Two artifacts side by side: which are offered, what differs, and where the looking stops."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.artifacts import difference as module
from dashboard.models import Artifact, Run
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import text_of
from tests.dashboard.stored_artifacts import field_artifact, stored

pytestmark = pytest.mark.django_db
BEFORE = b"".join(b"line %d\n" % number for number in range(1, 201))
AFTER = BEFORE.replace(b"line 120\n", b"line 120 <b>changed</b>\n") + b"line 201\n"


@pytest.fixture
def run(client: Client, settings: Settings, tmp_path: Path) -> Run:
    settings.ARTIFACTS = tmp_path / "artifacts"
    project = create_project()
    client.force_login(create_user("alice", project=project))
    return create_run(project, "one")


def page_of(client: Client, artifact: Artifact, query: str = "") -> str:
    response = client.get(f"/artifacts/{artifact.pk}/difference/{query}")
    assert response.status_code == 200
    return response.content.decode()


def test_outputs_of_the_call_of_the_path_and_of_the_run_are_offered(client: Client, run: Run) -> None:
    call = create_call(run)
    artifact = stored(call, BEFORE)
    of_call = field_artifact(call, "x")
    of_path = stored(create_call(create_run(run.project, "two"), tool="Read"), AFTER)
    of_role = stored(create_call(run), AFTER, path="/another")
    stored(create_call(create_run(create_project("other"), "three")), AFTER)
    found = re.findall(
        r'<h3 class="part-named isolate">([^<]+)</h3>|href="\?with=([0-9a-f-]+)"', page_of(client, artifact)
    )
    assert [one or other for one, other in found] == [
        *("Of the same call", str(of_call.pk)),
        *("The same path, elsewhere", str(of_path.pk)),
        *("log of other calls in this run", str(of_role.pk)),
    ]


@pytest.mark.parametrize("view", ["side", "unified"])
def test_what_differs_is_shown_with_its_lines(client: Client, run: Run, view: str) -> None:
    artifact, other = stored(create_call(run), BEFORE), stored(create_call(run), AFTER)
    page = page_of(client, artifact, f"?with={other.pk}&view={view}")
    shown = text_of(page)
    assert "−1" in shown
    assert "+2" in shown
    assert "116 equal lines" in shown
    assert "<b>changed" not in page
    assert "changed" in shown


def test_the_same_content_is_told_by_its_hash(client: Client, run: Run) -> None:
    artifact, other = stored(create_call(run), BEFORE), stored(create_call(run), BEFORE)
    assert "the same content, byte for byte" in page_of(client, artifact, f"?with={other.pk}")


def test_a_large_output_is_compared_as_far_as_the_page_says(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMPARED", 300)
    artifact, other = stored(create_call(run), BEFORE), stored(create_call(run), AFTER)
    page = text_of(page_of(client, artifact, f"?with={other.pk}"))
    assert "the same text as far as it is compared" in page
    assert "the first 295 B of 1.7 KB are compared" in page


def test_what_is_no_text_or_not_here_is_said(client: Client, run: Run) -> None:
    artifact = stored(create_call(run), BEFORE)
    binary = stored(create_call(run), b"\x7fELF" + bytes(range(32)) * 20)
    gone = stored(create_call(run), AFTER, state=Artifact.State.MISSING)
    assert "It is no text." in page_of(client, artifact, f"?with={binary.pk}")
    assert "its file was missing or exceeded the quota" in page_of(client, artifact, f"?with={gone.pk}")


def test_an_output_of_another_project_is_none(client: Client, run: Run) -> None:
    artifact = stored(create_call(run), BEFORE)
    other = stored(create_call(create_run(create_project("other"), "two")), b"secret of the other")
    for said in (str(other.pk), "x", ""):
        page = page_of(client, artifact, f"?with={said}")
        assert "secret" not in page
        assert "There is nothing to compare it with" in page


def test_a_long_difference_goes_on(client: Client, run: Run) -> None:
    artifact = stored(create_call(run), b"".join(b"a %d\n" % number for number in range(5_000)))
    other = stored(create_call(run), b"".join(b"b %d\n" % number for number in range(5_000)))
    page = page_of(client, artifact, f"?with={other.pk}")
    following = re.search(r'href="(\?[^"]*row=\d+)">Next rows', page)
    assert following
    assert "From the beginning" in page_of(client, artifact, html.unescape(following[1]))

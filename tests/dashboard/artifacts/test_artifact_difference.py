"""Two artifacts side by side: which are offered, what differs, and how much is compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from dashboard.artifacts.difference import COMPARED_BYTES
from dashboard.models import Artifact, Run
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import Page, parse_page
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


def page_of(client: Client, artifact: Artifact, query: str = "") -> Page:
    response = client.get(f"/artifacts/{artifact.pk}/difference/{query}")
    assert response.status_code == 200
    return parse_page(response)  # type: ignore[arg-type]


def test_outputs_of_the_call_of_the_path_and_of_the_run_are_offered(client: Client, run: Run) -> None:
    call = create_call(run)
    artifact = stored(call, BEFORE)
    of_call = field_artifact(call, "x")
    of_path = stored(create_call(create_run(run.project, "two"), tool="Read"), AFTER)
    of_role = stored(create_call(run), AFTER, path="/another")
    stored(create_call(create_run(create_project("other"), "three")), AFTER)
    offers = page_of(client, artifact).by_role("region", "Which one?")
    assert offers.texts("h3") == [
        "Of the same call",
        "The same path, elsewhere",
        "log of other calls in this run",
    ]
    links = [[link["href"] for link in offer.all_by_role("link")] for offer in offers.select("ul")]
    assert links == [[f"?with={other.pk}"] for other in (of_call, of_path, of_role)]


@pytest.mark.postgresql("side")
@pytest.mark.parametrize("view", ["side", "unified"])
def test_what_differs_is_shown_with_its_lines(client: Client, run: Run, view: str) -> None:
    artifact, other = stored(create_call(run), BEFORE), stored(create_call(run), AFTER)
    page = page_of(client, artifact, f"?with={other.pk}&view={view}")
    assert "−1" in page.text
    assert "+2" in page.text
    assert "116 equal lines" in page.text
    assert not page.has(".diff b")
    assert "<b>changed</b>" in page.by_role("table").text


def test_the_same_content_is_recognised_by_its_hash(client: Client, run: Run) -> None:
    artifact, other = stored(create_call(run), BEFORE), stored(create_call(run), BEFORE)
    assert "the same content, byte for byte" in page_of(client, artifact, f"?with={other.pk}").text


def test_a_large_output_is_compared_as_far_as_the_page_says(client: Client, run: Run) -> None:
    """The last line within the bytes that are compared is whole."""
    line = b"a line of 37 bytes that stays equal.\n"
    same = line * (COMPARED_BYTES // len(line) + 1)
    artifact, other = stored(create_call(run), same + BEFORE), stored(create_call(run), same + AFTER)
    page = page_of(client, artifact, f"?with={other.pk}")
    assert "the same text as far as it is compared" in page.text
    assert len(same) > COMPARED_BYTES
    assert page.text.count("the first 1.0 MB of 1.1 MB are compared") == 2


def test_binary_or_missing_content_is_reported(client: Client, run: Run) -> None:
    artifact = stored(create_call(run), BEFORE)
    binary = stored(create_call(run), b"\x7fELF" + bytes(range(32)) * 20)
    gone = stored(create_call(run), AFTER, state=Artifact.State.MISSING)
    assert "It is not text." in page_of(client, artifact, f"?with={binary.pk}").text
    assert "its file was missing or exceeded the quota" in page_of(client, artifact, f"?with={gone.pk}").text


def test_an_output_of_another_project_is_none(client: Client, run: Run) -> None:
    artifact = stored(create_call(run), BEFORE)
    other = stored(create_call(create_run(create_project("other"), "two")), b"secret of the other")
    for other_id in (str(other.pk), "x", ""):
        page = page_of(client, artifact, f"?with={other_id}")
        assert "secret" not in page.markup
        assert "There is nothing to compare it with" in page.text


def test_a_long_difference_goes_on(client: Client, run: Run) -> None:
    artifact = stored(create_call(run), b"".join(b"a %d\n" % number for number in range(5_000)))
    other = stored(create_call(run), b"".join(b"b %d\n" % number for number in range(5_000)))
    page = page_of(client, artifact, f"?with={other.pk}")
    following = page_of(client, artifact, page.by_role("link", "Next rows")["href"])
    assert following.all_by_role("link", "From the beginning")

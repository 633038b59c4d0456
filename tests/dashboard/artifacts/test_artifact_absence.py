"""Why an artifact has no content to show: never imported, removed, lost, changed, or the store is unreachable."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dashboard.artifacts.content import AbsenceCause, NoContent, open_content, open_stream
from dashboard.artifacts.retention import check_store
from dashboard.models import Artifact, Call, Observation
from tests.cases import extended_except
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import parse_page
from tests.dashboard.stored_artifacts import (
    field_artifact,
    open_page,
    read_stored,
    remove_stored,
    replace_stored,
    stored,
)

pytestmark = pytest.mark.django_db
LARGE = b"".join(b"line %d of it\n" % number for number in range(200_000))
NOWHERE = "http://127.0.0.1:9"  # the port of `discard`, where no service listens


@pytest.fixture
def call(client: Client, artifact_store: str) -> Call:
    project = create_project()
    client.force_login(create_user("alice", project=project))
    return create_call(create_run(project))


@pytest.fixture
def cut_off(
    artifact_store: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Takes the store away: its folder, as a disk that is not mounted, or the service of its bucket."""

    def cut() -> None:
        if artifact_store.startswith("s3:"):
            monkeypatch.setenv("AWS_ENDPOINT_URL", NOWHERE)
            settings.ARTIFACT_CACHE = tmp_path / "of another process"
        else:
            Path(artifact_store).rename(tmp_path / "not mounted")

    return cut


def cause(artifact: Artifact) -> AbsenceCause:
    with pytest.raises(NoContent) as error, open_content(artifact):
        pass
    return error.value.absence.cause


def name_of(artifact: Artifact) -> str:
    return f"{artifact.sha256[:2]}/{artifact.sha256}{'.zst' if artifact.size > 1_000_000 else ''}"


def run_check() -> tuple[int, dict[str, object]]:
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("check_store", "--json", stdout=out)
    assert isinstance(ended.value.code, int)
    return ended.value.code, json.loads(out.getvalue())


@pytest.mark.parametrize("content", [b"content\n", LARGE], ids=["small", "large"])
def test_what_the_store_says_it_has_not_is_lost_and_other_content_is_no_content(call: Call, content: bytes) -> None:
    artifact = stored(call, content)
    original = read_stored(name_of(artifact))
    replace_stored(name_of(artifact), original[:-5])
    assert cause(artifact) == AbsenceCause.CHANGED
    replace_stored(name_of(artifact), b"x" * len(original))
    assert cause(artifact) == AbsenceCause.CHANGED
    remove_stored(name_of(artifact))
    assert cause(artifact) == AbsenceCause.MISSING


def test_content_of_the_same_size_is_compared_by_its_hash_and_of_another_by_size(client: Client, call: Call) -> None:
    artifact = stored(call, b"content\n")
    replace_stored(name_of(artifact), b"CONTENT\n")
    page = open_page(client, artifact)
    assert "The content is not what was stored" in page.text
    assert "as many bytes, with another hash" in page.text
    assert "CONTENT" not in page.markup
    replace_stored(name_of(artifact), b"content\nand more\n")
    assert "17 bytes, where 8 were stored" in open_page(client, artifact).text
    assert client.get(f"/artifacts/{artifact.pk}/raw").status_code == 404


@pytest.mark.parametrize("artifact_store", ["folder"], indirect=True)
def test_content_that_is_too_large_to_be_hashed_for_a_page_is_compared_by_its_dates(
    client: Client, call: Call, settings: Settings
) -> None:
    content = b"\0 bytes" * 300_000
    artifact = stored(call, content)
    name = f"{artifact.sha256[:2]}/{artifact.sha256}"
    replace_stored(name, content)  # copied: other dates, the same bytes
    assert "is not what was stored" not in open_page(client, artifact).text
    replace_stored(name, b"X" + content[1:])
    assert "as many bytes, with another hash" in open_page(client, artifact).text
    assert client.get(f"/artifacts/{artifact.pk}/raw").status_code == 404
    settings.ARTIFACT_HASHED_BYTES = 2_000_000
    assert "may have been written to, or copied" in open_page(client, artifact).text
    replace_stored(name, content)
    assert check_store().findings == ()
    assert "may have been written to" not in open_page(client, artifact).text


DAMAGES: dict[str, Callable[[Artifact], object]] = {
    "is not what was stored": lambda artifact: replace_stored(name_of(artifact), b"CONTENT\n"),
    "is lost": lambda artifact: remove_stored(name_of(artifact)),
    "was removed": lambda artifact: Artifact.objects.update(state="removed", removed_at=timezone.now()),
    "was not imported": lambda artifact: Artifact.objects.update(state="missing"),
}


@pytest.mark.parametrize("words", DAMAGES)
def test_a_download_without_content_gives_the_reason_that_the_page_gives(
    client: Client, call: Call, words: str
) -> None:
    artifact = stored(call, b"content\n")
    DAMAGES[words](artifact)
    page = open_page(client, artifact).text
    for address in ("raw", "picture"):
        response = client.get(f"/artifacts/{artifact.pk}/{address}")
        assert (response.status_code, response["Content-Type"]) == (404, "text/plain; charset=utf-8")
        heading, sentence, *_ = response.content.decode().splitlines()
        assert heading == f"The content {words}."
        assert sentence.removesuffix(".") in page
    assert client.get(f"/artifacts/{call.pk}/raw")["Content-Type"].startswith("text/html")


def test_a_frame_that_is_damaged_spoils_its_own_window_alone(client: Client, call: Call) -> None:
    artifact = stored(call, LARGE * 3)
    damaged = bytearray(read_stored(name_of(artifact)))
    damaged[len(damaged) // 2] ^= 1
    replace_stored(name_of(artifact), bytes(damaged))
    queries = ("?at=0", "?at=25", "?at=50", "?tail")
    pages = [open_page(client, artifact, query) for query in queries]
    assert ["not what was stored" in page.text for page in pages] == [False, False, True, False]
    search = open_page(client, artifact, "find/?q=nowhere+to+be+found")
    assert "It was changed or damaged in the artifact store" in search.text


def test_content_that_was_never_stored_or_was_removed_is_reported_as_such(client: Client, call: Call) -> None:
    artifact = stored(call, b"content\n", state=Artifact.State.MISSING)
    assert cause(artifact) == AbsenceCause.NOT_IMPORTED
    artifact.state, artifact.removed_at = Artifact.State.REMOVED, timezone.now()
    artifact.save()
    assert cause(artifact) == AbsenceCause.REMOVED
    assert "removed by retention" in open_page(client, artifact).text


@pytest.mark.postgresql("folder")
def test_a_field_that_is_no_longer_in_its_result_is_changed(call: Call) -> None:
    artifact = field_artifact(call, "text")
    Observation.objects.update(own_data=b"{}")
    assert cause(Artifact.objects.get(pk=artifact.pk)) == AbsenceCause.CHANGED


@pytest.mark.parametrize("artifact_store", extended_except(["folder", "bucket"], "folder"), indirect=True)
def test_a_store_that_cannot_be_reached_has_lost_nothing(
    client: Client, call: Call, cut_off: Callable[[], None]
) -> None:
    artifact = stored(call, LARGE)
    cut_off()
    assert cause(artifact) == AbsenceCause.UNREACHABLE
    page = open_page(client, artifact)
    assert "The artifact store cannot be reached" in page.text
    assert "so the state of the content is unknown: " in page.text
    assert "lost by this" in page.text
    for address in ("raw", "picture"):
        answer = client.get(f"/artifacts/{artifact.pk}/{address}")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")
    other = field_artifact(call, "text")
    difference = client.get(f"/artifacts/{artifact.pk}/difference/?with={other.pk}")
    assert "The artifact store cannot be reached" in parse_page(difference).text  # type: ignore[arg-type]


@pytest.mark.postgresql("folder")
def test_check_store_distinguishes_an_unreachable_store_from_missing_files(
    call: Call, cut_off: Callable[[], None]
) -> None:
    artifact = stored(call, b"content\n")
    remove_stored(name_of(artifact))
    code, report = run_check()
    assert (code, report["unreachable"]) == (1, "")
    assert isinstance(report["findings"], list)
    assert [finding["kind"] for finding in report["findings"]] == ["artifact"]
    cut_off()
    code, report = run_check()
    assert code == 2
    assert (report["ok"], report["findings"]) == (False, [])
    assert report["unreachable"]


def test_rows_are_checked_though_the_store_is_down(call: Call, cut_off: Callable[[], None]) -> None:
    stored(call, b"content\n")
    field_artifact(call, "text")
    Observation.objects.update(own_data=b"{}")
    cut_off()
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("check_store", stdout=out)
    assert ended.value.code == 2
    assert "observation" in out.getvalue()
    assert "The artifact store cannot be reached: " in out.getvalue()
    assert "none is known to be missing" in out.getvalue()


def test_a_download_begins_at_the_beginning(call: Call) -> None:
    for content in (b"content\n", LARGE, b""):
        with open_stream(stored(call, content)) as stream:
            assert stream.read(9) == content[:9]

"""A file that grows, shrinks or is replaced while somebody reads it."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from dashboard.artifacts.stores import configured_store
from dashboard.ingest.watch import GrowingFiles
from dashboard.models import Artifact, Run, Source
from envelopes.storage.file_store import MissingArtifact
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.stored_artifacts import open_page, rows_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where an agent keeps the output of a background task, beside its recording."""
    folder = tmp_path / "session" / "tool-results"
    folder.mkdir(parents=True)
    return folder / "task.txt"


@pytest.fixture
def artifact(client: Client, settings: Settings, tmp_path: Path, file: Path) -> Artifact:
    """A file that a live run names and that does not exist yet."""
    settings.ARTIFACTS = tmp_path / "artifacts"
    project = create_project()
    client.force_login(create_user("alice", project=project))
    run = create_run(project, last_at=timezone.now())
    source = Source.objects.create(
        project=project, path=str(tmp_path / "session.jsonl"), format="claude-code", namespace="claude-code"
    )
    call = create_call(run, source=source)
    return Artifact.objects.create(
        id=call.pk, project=project, call=call, role="log", path=f"/home/x/{file.name}", state=Artifact.State.MISSING
    )


class Watch:
    """A watch whose clock the test sets."""

    def __init__(self, artifact: Artifact) -> None:
        self.now = 0.0
        self.growing = GrowingFiles(artifact.project, lambda: self.now)

    def look(self) -> int:
        self.now += 1_000
        return self.growing.poll()


@pytest.fixture
def watch(artifact: Artifact) -> Watch:
    return Watch(artifact)


def poll(client: Client, page: Page) -> Page | None:
    """The answer to the next request of a page that follows the file; None for 204."""
    response = client.get(page.by_id("follow")["hx-get"], headers={"HX-Request": "true"})
    return None if response.status_code == 204 else parse_page(response)  # type: ignore[arg-type]


def updated(client: Client, page: Page) -> Page:
    answer = poll(client, page)
    assert answer is not None
    return answer


def added(page: Page) -> list[tuple[str, str]]:
    return [(row.select_one("a").text, row.select_one("pre").exact) for row in page.select(".line")]


def write(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def test_what_is_added_appears_until_the_run_is_over(
    client: Client, artifact: Artifact, watch: Watch, file: Path
) -> None:
    write(file, b"one\ntwo\n")
    assert watch.look() == 1
    page = open_page(client, artifact, "?tail&follow=1")
    assert rows_of(page) == [(1, "one"), (2, "two")]
    assert poll(client, page) is None
    assert watch.look() == 0

    write(file, b"one\ntwo\nthree\nfo")
    assert watch.look() == 1
    answer = updated(client, page)
    assert added(answer) == [("3", "three"), ("4", "fo")]
    assert "16 B so far" in answer.text
    write(file, b"one\ntwo\nthree\nfour\nfive\n")
    assert watch.look() == 1
    answer = updated(client, answer)
    assert added(answer) == [("4…", "ur"), ("5", "five")]

    artifact.call.run.ended_at = timezone.now()
    artifact.call.run.save()
    answer = updated(client, answer)
    assert "The run is over" in answer.text
    assert not answer.has("[hx-get]")


def test_a_file_that_is_empty_yet_is_followed_from_its_beginning(
    client: Client, artifact: Artifact, watch: Watch, file: Path
) -> None:
    write(file, b"")
    assert watch.look() == 1
    assert open_page(client, artifact).by_role("link", "Follow", exact=True)["href"] == "?tail&follow=1"
    page = open_page(client, artifact, "?tail&follow=1")
    assert poll(client, page) is None
    write(file, b"one\n")
    assert watch.look() == 1
    assert added(updated(client, page)) == [("1", "one")]


def test_much_that_is_added_comes_a_window_at_a_time(
    client: Client, artifact: Artifact, watch: Watch, file: Path
) -> None:
    write(file, b"line\n")
    watch.look()
    page = open_page(client, artifact, "?tail&follow=1")
    write(file, b"line\n" * 1_000)
    watch.look()
    counts = []
    while answer := poll(client, page):
        counts.append(len(added(answer)))
        page = answer
    assert counts == [400, 400, 199]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"one\n", "The file became shorter while you were reading it: 8 B before, 4 B now."),
        (b"other\nlines\nnow\n", "The file was replaced by another one while you were reading it."),
        (b"eno\nowt\n", "The file was replaced by another one while you were reading it."),
        (b"", "The file became shorter while you were reading it: 8 B before, 0 B now."),
    ],
)
def test_a_file_that_shrinks_or_is_replaced_is_reported_on_the_page(
    client: Client, artifact: Artifact, watch: Watch, file: Path, content: bytes, message: str
) -> None:
    write(file, b"one\ntwo\n")
    watch.look()
    page = open_page(client, artifact, "?tail&follow=1")
    write(file, content)
    assert watch.look() == 1
    answer = updated(client, page)
    assert message in answer.text
    assert answer.by_role("link", "Reload")["href"] == "?tail&follow=1"
    assert not answer.has("[hx-get]")
    assert client.get(f"/artifacts/{artifact.pk}/?tail&follow=1").status_code == 200


def test_a_file_that_is_removed_leaves_its_stored_content(
    client: Client, artifact: Artifact, watch: Watch, file: Path
) -> None:
    write(file, b"one\n")
    watch.look()
    file.unlink()
    assert watch.look() == 0
    assert rows_of(open_page(client, artifact)) == [(1, "one")]


def test_content_that_is_removed_from_the_store_is_reported(
    client: Client, artifact: Artifact, watch: Watch, file: Path
) -> None:
    write(file, b"one\n")
    watch.look()
    page = open_page(client, artifact, "?tail&follow=1")
    Artifact.objects.update(sha256="0" * 64)
    assert "The content was removed while you were reading it." in updated(client, page).text


def test_contents_that_nothing_names_any_more_are_not_kept(artifact: Artifact, watch: Watch, file: Path) -> None:
    hashes = []
    for number in range(1, 4):
        write(file, b"line\n" * number)
        assert watch.look() == 1
        artifact.refresh_from_db()
        hashes.append(artifact.sha256)
    assert (artifact.state, artifact.size, artifact.lines) == ("present", 15, 3)
    for gone in hashes[:2]:
        with pytest.raises(MissingArtifact):
            configured_store().open(gone)


@pytest.mark.parametrize("fault", ["link", "folder", "pipe"])
def test_only_regular_files_are_stored_again(
    artifact: Artifact, watch: Watch, file: Path, tmp_path: Path, fault: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not for the web")
    {"link": lambda: file.symlink_to(secret), "folder": file.mkdir, "pipe": lambda: os.mkfifo(file)}[fault]()
    assert watch.look() == 0
    artifact.refresh_from_db()
    assert artifact.state == "missing"


def test_a_run_that_is_over_is_looked_after_once_more_and_not_followed(
    client: Client, artifact: Artifact, watch: Watch, file: Path
) -> None:
    write(file, b"one\n")
    watch.look()
    artifact.call.run.last_at = timezone.now() - timedelta(hours=1)
    artifact.call.run.save()
    write(file, b"one\ntwo\n")
    assert watch.look() == 1
    write(file, b"one\ntwo\nthree\n")
    assert watch.look() == 0
    page = open_page(client, artifact)
    assert rows_of(page) == [(1, "one"), (2, "two")]
    assert not page.by_role("main").all_by_role("link", "Follow")
    assert "The run is over" in open_page(client, artifact, "?tail&follow=1").text


def test_a_large_file_rests_between_two_looks(artifact: Artifact, file: Path) -> None:
    times = iter([10.0, 10.0, 13.0, 13.0, 20.0, 20.0, 80.0, 80.0, 80.0, 80.0, 80.0])  # one for each look at the clock
    growing = GrowingFiles(artifact.project, lambda: next(times))
    write(file, b"one\n")
    assert growing.poll() == 1  # took 3 seconds
    write(file, b"one\ntwo\n")
    assert growing.poll() == 0
    assert growing.poll() == 1


def test_a_file_that_outgrows_the_quota_stays_as_it_was(
    artifact: Artifact, watch: Watch, file: Path, settings: Settings
) -> None:
    settings.ARTIFACT_QUOTA_BYTES = 100
    write(file, b"one\n")
    assert watch.look() == 1
    write(file, b"one\n" * 100)
    assert watch.look() == 0
    artifact.refresh_from_db()
    assert (artifact.state, artifact.size) == ("present", 4)


@pytest.mark.postgresql("True")
@pytest.mark.parametrize("is_over", [False, True])
def test_files_that_an_unreachable_store_missed_are_stored_when_it_is_back(
    artifact: Artifact, watch: Watch, file: Path, settings: Settings, *, is_over: bool
) -> None:
    write(file, b"one\n")
    assert watch.look() == 1
    write(file, b"one\ntwo\n")
    there, settings.ARTIFACTS = settings.ARTIFACTS, file  # where a folder is expected there is none
    if is_over:
        Run.objects.update(ended_at=timezone.now())
    assert [watch.look(), watch.look()] == [0, 0]
    settings.ARTIFACTS = there
    assert [watch.look(), watch.look()] == [1, 0]
    artifact.refresh_from_db()
    assert (artifact.state, artifact.size) == ("present", 8)


def test_following_is_for_those_of_the_project(client: Client, artifact: Artifact) -> None:
    address = f"/artifacts/{artifact.pk}/follow/"
    assert client.get(address).url == f"/artifacts/{artifact.pk}/?tail&follow=1"  # type: ignore[attr-defined]
    client.force_login(create_user("charlie", project=create_project("other")))
    assert client.get(address, headers={"HX-Request": "true"}).status_code == 404

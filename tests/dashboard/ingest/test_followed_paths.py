"""Paths that the background work follows: stored and ended by a command, listed on the import page."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.ingest.import_report import ImportReport
from dashboard.ingest.watch import BACKOFF_FACTOR, Followers, follow
from dashboard.models import AuditEntry, Call, FollowedPath, Project, Source
from tests.dashboard.page_text import parse_page
from tests.dashboard.sessions import SESSION, answers, asks, encoded, short_session, write
from tests.envelopes.recordings.opencode_storage import print_export, read_export, write_database

pytestmark = pytest.mark.django_db


@pytest.mark.postgresql
def test_a_followed_path_is_stored_listed_and_ended(
    operator_client: Client, project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "sessions" / f"{SESSION}.jsonl", short_session()).parent
    options = {"project": project.slug}
    call_command("import_runs", str(folder), follow=True, **options)
    call_command("import_runs", str(folder), follow=True, format="claude-code", **options)
    row = FollowedPath.objects.get()
    assert (row.project, row.path, row.format, Call.objects.count()) == (project, str(folder), "claude-code", 3)
    FollowedPath.objects.update(problem="there is no such file or folder")
    page = parse_page(operator_client.get("/runs/import/")).text
    assert f"{folder}: cannot be followed now, there is no such file or folder" in page

    call_command("import_runs", str(folder), unfollow=True, **options)
    assert "cannot be followed" not in parse_page(operator_client.get("/runs/import/")).text
    with pytest.raises(CommandError, match="none of these paths is followed"):
        call_command("import_runs", str(folder), unfollow=True, **options)
    assert Call.objects.count() == 3, "what was imported stays"
    followers = Followers()
    followers.update()
    followers.stop()


@pytest.mark.postgresql
def test_an_operator_ends_it_on_the_page(operator_client: Client, project: Project) -> None:
    row = FollowedPath.objects.create(project=project, path="/var/sessions")
    (form,) = parse_page(operator_client.get("/runs/import/")).select("form[action*=followed]")
    assert form.select_one("button")["aria-label"] == "Stop following /var/sessions"
    assert operator_client.post(form["action"])["Location"] == "/runs/import/"
    assert not FollowedPath.objects.exists()
    assert AuditEntry.objects.get().subject == "path /var/sessions no longer followed"
    assert operator_client.post(f"/runs/import/followed/{row.pk}/end/").status_code == 404


def test_what_only_this_process_knows_cannot_be_followed_later(tmp_path: Path) -> None:
    for other in ({"watch": True}, {"artifacts_root": [str(tmp_path)]}):
        with pytest.raises(CommandError, match="goes neither with --watch nor with --artifacts-root"):
            call_command("import_runs", str(tmp_path), follow=True, **other)
    assert not FollowedPath.objects.exists()


@pytest.mark.postgresql
@pytest.mark.parametrize(("backoff", "versions"), [(0, 3), (BACKOFF_FACTOR * 10_000, 2)], ids=["none", "long"])
@pytest.mark.parametrize("name", ["session.json", "opencode.db"])
def test_what_is_read_as_a_whole_rests_while_other_files_are_followed(
    project: Project, tmp_path: Path, name: str, backoff: float, versions: int
) -> None:
    """The document is changed in the first round and in the second; the other file until the end."""
    document, other = tmp_path / name, write(tmp_path / f"{SESSION}.jsonl", short_session())
    exported, stop = read_export("1.18.33"), Event()

    def change() -> None:
        exported["info"]["time"]["updated"] += 1
        if document.suffix == ".json":
            document.write_bytes(print_export(exported))
        else:
            write_database(document, [exported])

    def note(report: ImportReport) -> None:
        read = Source.objects.filter(path__contains=name).count()
        calls = Call.objects.filter(run__external_id=SESSION).count()
        if report.added["runs"] or (report.files and read == 2 and calls == 3):
            change()
        if read >= versions and report.files:
            with other.open("ab") as file:
                file.write(
                    b"".join(encoded(line) + b"\n" for line in (asks(f"toolu_{calls}"), answers(f"toolu_{calls}")))
                )
        if calls > 5:
            stop.set()

    change()
    follow(project, [tmp_path], on_report=note, stop=stop, backoff=backoff)
    assert Source.objects.filter(path__contains=name).count() == versions

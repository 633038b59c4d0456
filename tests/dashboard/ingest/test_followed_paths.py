"""Paths that the background work follows: stored and ended by a command, listed on the import page."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.ingest.watch import Followers
from dashboard.models import AuditEntry, Call, FollowedPath, Project
from tests.dashboard.page_text import parse_page
from tests.dashboard.sessions import SESSION, short_session, write

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

"""Access tokens: created once, stored as a hash, listed, revoked, limited."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client, RequestFactory
from django.utils import timezone
from pytest_django import Settings

from dashboard.accounts import DEFAULT_PROJECT, DEMO_PROJECT
from dashboard.models import AccessToken, AuditEntry, Project, SignInFailure
from dashboard.tokens import ACCOUNT, RequestRate, authorise, create_token, find_token, revoke_token
from tests.cases import each
from tests.dashboard.factories import create_project
from tests.dashboard.page_text import parse_page

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


def answer(token: str, scope: str = "ingest", header: str = "") -> int:
    request = RequestFactory().post("/", headers={"Authorization": header or f"Bearer {token}"})
    refusal = authorise(request, scope)
    return 200 if refusal is None else refusal.status_code


def test_a_token_opens_its_project_for_its_purpose_until_it_is_revoked(project: Project) -> None:
    token = create_token(project, "ci", "ingest", by="alice")
    row = AccessToken.objects.get()
    assert token.split("_", 2)[2] not in (row.secret_sha256, row.key)
    assert (answer(token), answer(token, "read")) == (200, 403)
    row.refresh_from_db()
    assert row.used_at is not None
    assert revoke_token(row)
    assert not revoke_token(row)
    assert answer(token) == 401
    assert create_token(project, "ci", "ingest", by="alice")  # the name is free again


WRONG = ("", "cft_", "cft__", "cft_zz_zz", "cft_\x00_x", "cft_é_é", "x" * 9_000, "cft_deadbeef_" + "A" * 43)


@each("text", WRONG)
def test_nothing_else_is_a_token(project: Project, text: str) -> None:
    token = create_token(project, f"of {len(text)} {text[4:5].isalnum()} {hash(text)}"[:60], "ingest", by="alice")
    assert find_token(text) is None
    assert find_token(token[:-1]) is None
    assert find_token(token + "A") is None
    assert find_token(token.upper()) is None


def test_the_default_project_is_created_by_its_name_where_there_is_none_but_the_demo() -> None:
    create_project(DEMO_PROJECT)
    call_command("create_token", "build-machine", scope="ingest", project=DEFAULT_PROJECT, stdout=StringIO())
    assert AccessToken.objects.get().project.slug == DEFAULT_PROJECT
    with pytest.raises(CommandError, match="There is no project 'other'. Known: default, demo."):
        call_command("create_token", "build-machine", project="other", stdout=StringIO())
    Project.objects.filter(slug=DEFAULT_PROJECT).update(slug="ledger")
    with pytest.raises(CommandError, match="There is no project 'default'. Known: demo, ledger."):
        call_command("create_token", "build-machine", project=DEFAULT_PROJECT, stdout=StringIO())


def test_a_client_that_guesses_waits_and_a_valid_token_does_not(project: Project) -> None:
    token = create_token(project, "ci", "ingest", by="alice")
    assert [answer(f"cft_deadbeef_{number}") for number in range(11)] == [*[401] * 10, 429]
    assert answer(token) == 200
    assert SignInFailure.objects.count() == 10
    assert answer("", header="Basic eDp5") == 429
    SignInFailure.objects.update(at=timezone.now() - timedelta(hours=1))
    assert answer(f"cft_deadbeef_{ACCOUNT}") == 401


def test_a_token_sends_so_many_requests_a_minute(project: Project, settings: Settings) -> None:
    now = 100.0
    rate = RequestRate(lambda: now)
    assert [rate.wait_seconds("a", 60) for _ in range(60)] == [0.0] * 60
    assert rate.wait_seconds("a", 60) == pytest.approx(1.0)
    assert rate.wait_seconds("b", 60) == 0.0
    now += 1
    assert [rate.wait_seconds("a", 60), rate.wait_seconds("a", 60)] == [0.0, pytest.approx(1.0)]
    settings.TOKEN_REQUESTS_A_MINUTE = 1
    token = create_token(project, "ci", "ingest", by="alice")
    assert [answer(token), answer(token)] == [200, 429]


def test_the_command_prints_a_token_once_and_the_audit_log_has_its_name(project: Project) -> None:
    out = StringIO()
    call_command("create_token", "ci", scope="mcp", project=project.slug, as_json=True, stdout=out)
    facts = json.loads(out.getvalue())
    assert find_token(facts["token"]) == AccessToken.objects.get(name="ci", scope="mcp")
    (entry,) = AuditEntry.objects.all()
    assert entry.subject == "token ci created for mcp"
    for arguments in (["ci"], ["  "], ["x" * 61]):
        with pytest.raises(CommandError):
            call_command("create_token", *arguments, project=project.slug, stdout=out)


def test_operators_create_list_and_revoke_tokens_on_a_page(project: Project, alice: User, client: Client) -> None:
    page = client.post("/tokens/", {"name": "laptop", "scope": "ingest"})
    token = parse_page(page).select_one("[role=status] code").text
    assert find_token(token) is not None
    assert token not in client.get("/tokens/").content.decode()
    assert client.post("/tokens/", {"name": "laptop", "scope": "ingest"}).status_code == 422
    assert client.post("/tokens/", {"name": "x", "scope": "all"}).status_code == 422
    client.post(f"/tokens/{AccessToken.objects.get().pk}/revoke/")
    assert find_token(token) is None
    assert "revoked" in parse_page(client.get("/tokens/")).select_one("tbody").text
    subjects = list(AuditEntry.objects.order_by("pk").values_list("subject", flat=True))
    assert subjects == ["token laptop created for ingest", "token laptop revoked"]

"""Sign-in by one-time link or password, projects per request, and the commands that create users."""

from __future__ import annotations

import ipaddress
import json
import socket
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.accounts import FAILURE_MEMORY, client_address, create_link, identify_client
from dashboard.models import Comparison, Membership, Project, SignInFailure, SignInLink
from tests.cases import each
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.measured_comparisons import recalled
from tests.dashboard.page_text import parse_page
from tests.dashboard.stored_artifacts import stored

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _no_failures_yet(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the real one is slow on purpose


@pytest.fixture
def alice() -> User:
    user = create_user("alice", project=create_project())
    user.set_password(PASSWORD)
    user.save()
    return user


def is_signed_in(client: Client) -> bool:
    return client.get("/runs/").status_code == 200


def sign_in(client: Client, password: str = PASSWORD, **fields: str) -> int:
    return client.post("/sign-in/", {"name": "alice", "password": password} | fields).status_code


def alert(response: HttpResponse) -> str:
    return parse_page(response).by_role("alert").text


def printed(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_links_lead_to_the_address_of_the_setting_else_to_the_newest_server_that_listens(
    alice: User, settings: Settings, tmp_path: Path
) -> None:
    settings.DATA = tmp_path
    assert "http://127.0.0.1:8000/" in printed("signin_link", "alice")
    with socket.create_server(("127.0.0.1", 0)) as server:
        served = f"http://127.0.0.1:{server.getsockname()[1]}"
        (tmp_path / "address").write_text(f"http://127.0.0.1:1\n{served}\nhttp://127.0.0.1:2")
        assert f"{served}/" in printed("signin_link", "alice")
    assert "http://127.0.0.1:1/" in printed("signin_link", "alice"), "none listens: the one that was started last"
    settings.BASE_URL = "https://counterfoil.example"
    assert "https://counterfoil.example/" in printed("signin_link", "alice")
    assert "http://localhost:1/" in printed("signin_link", "alice", "--base-url", "http://localhost:1")


def test_a_link_lets_in_once(client: Client, alice: User) -> None:
    address, _ = create_link(alice)
    assert client.post(address).url == "/runs/"
    assert is_signed_in(client)
    second = Client()
    response = second.post(address)
    assert response.status_code == 410
    assert "This sign-in link was used on" in alert(response)
    assert not is_signed_in(second)


def test_looking_at_a_link_does_not_use_it_up(client: Client, alice: User) -> None:
    address, _ = create_link(alice)
    for _ in range(3):
        page = client.get(address)
        assert page.status_code == 200
        assert "works once" in parse_page(page).by_role("main").text
    assert not is_signed_in(client)
    assert client.post(address).status_code == 302


def test_a_link_expires(client: Client, alice: User) -> None:
    address, _ = create_link(alice)
    SignInLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert "expired on" in alert(client.get(address))
    assert client.post(address).status_code == 410
    assert not is_signed_in(client)


@pytest.mark.parametrize("token", ["x", "a" * 5_000, "%00", "%ED%A0%80", "é"])
def test_an_unknown_link_is_refused(client: Client, token: str) -> None:
    response = client.post(f"/sign-in/{token}/")
    assert response.status_code == 410
    assert "not known here" in alert(response)


def test_the_token_itself_is_not_stored(alice: User) -> None:
    token = create_link(alice)[0].split("/")[2]
    link = SignInLink.objects.get()
    assert token not in str(vars(link))
    assert link.token_sha256 == SignInLink.digest(token)


@pytest.mark.postgresql
def test_somebody_switched_off_is_not_let_in(client: Client, alice: User) -> None:
    address, _ = create_link(alice)
    User.objects.update(is_active=False)
    client.post(address)
    assert sign_in(client) == 403
    assert not is_signed_in(client)


def test_a_link_needs_its_form(alice: User) -> None:
    address, _ = create_link(alice)
    strict = Client(enforce_csrf_checks=True)
    response = strict.post(address)
    assert response.status_code == 403
    assert parse_page(response).by_role("heading", "This form was not accepted")
    assert SignInLink.objects.get().used_at is None


def test_name_and_password_let_in(client: Client, alice: User) -> None:
    assert sign_in(client, "wrong") == 403
    assert not is_signed_in(client)
    assert sign_in(client) == 302
    assert is_signed_in(client)


@pytest.mark.parametrize("name", ["", "nobody", "\x00", "a" * 10_000, "'; --"])
def test_a_wrong_name_is_refused_in_words(client: Client, alice: User, name: str) -> None:
    response = client.post("/sign-in/", {"name": name, "password": PASSWORD})
    assert response.status_code == 403
    assert alert(response) == "Wrong name or password."


def fail(times: int, *, name: str = "alice", address: str = "192.0.2.1") -> int:
    """The last status of so many wrong passwords."""
    attacker = Client(REMOTE_ADDR=address)
    return [attacker.post("/sign-in/", {"name": name, "password": "wrong"}).status_code for _ in range(times)][-1]


def test_many_failures_block_that_name_from_that_address_only(client: Client, alice: User) -> None:
    for _ in range(10):
        assert sign_in(client, "wrong") == 403
    assert sign_in(client) == 429
    assert "Wait 15 minutes" in alert(client.post("/sign-in/", {"name": "ALICE", "password": PASSWORD}))
    assert sign_in(Client(REMOTE_ADDR="192.0.2.9")) == 302


def test_failures_are_forgotten_after_a_while(client: Client, alice: User) -> None:
    assert fail(11, address="127.0.0.1") == 429
    SignInFailure.objects.update(at=timezone.now() - FAILURE_MEMORY)
    assert sign_in(client) == 302
    sign_in(Client(), "wrong")
    assert SignInFailure.objects.count() == 1


def test_one_address_that_tries_many_names_is_blocked_and_nobody_else(client: Client, alice: User) -> None:
    for number in range(5):
        assert fail(10, name=f"name {number}") == 403
    assert fail(1, name="another") == 429
    assert sign_in(client) == 302


def test_no_attack_locks_the_owner_of_an_account_out(client: Client, alice: User) -> None:
    assert sign_in(client) == 302
    client.post("/sign-out/")
    for number in range(10):
        fail(10, address=f"192.0.2.{number}")
    assert sign_in(Client(REMOTE_ADDR="198.51.100.1")) == 429  # a device that nobody knows has to wait
    assert sign_in(client) == 302
    unknown = Client()
    assert unknown.post(create_link(alice)[0]).status_code == 302
    unknown.post("/sign-out/")
    assert sign_in(unknown) == 302


def test_a_known_device_has_no_more_attempts_than_others_and_none_for_other_accounts(
    client: Client, alice: User
) -> None:
    sign_in(client)
    assert [sign_in(client, "wrong") for _ in range(11)][-1] == 429
    create_user("bob")
    request = RequestFactory().get("/sign-in/")
    request.COOKIES = {name: morsel.value for name, morsel in client.cookies.items()}
    assert identify_client(request, "Alice").is_known_device
    assert not identify_client(request, "bob").is_known_device
    assert client.cookies["known_device"]["httponly"]


@each(
    ("sender", "forwarded", "client"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),  # no proxy of ours
        ("127.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "6.6.6.6, 198.51.100.1", "198.51.100.1"),  # what the client wrote itself is not believed
        ("127.0.0.1", "6.6.6.6, 198.51.100.1, 10.0.0.7", "198.51.100.1"),  # two proxies of ours
        ("127.0.0.1", "10.0.0.7", "10.0.0.7"),
        ("::1", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:127.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "unknown", "127.0.0.1"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("", "198.51.100.1", ""),
    ],
)
def test_a_client_is_who_the_nearest_trusted_proxy_says(
    settings: Any, sender: str, forwarded: str, client: str
) -> None:
    settings.TRUSTED_PROXIES = [ipaddress.ip_network(proxy) for proxy in ("127.0.0.1", "::1", "10.0.0.0/8")]
    request = RequestFactory().get("/", REMOTE_ADDR=sender, headers={"X-Forwarded-For": forwarded})
    assert client_address(request) == client


def test_the_session_is_renewed_at_sign_in(client: Client, alice: User) -> None:
    client.get("/sign-in/")
    session = client.session
    session["planted"] = True
    session.save()
    before = session.session_key
    client.cookies["sessionid"] = before
    sign_in(client)
    assert client.cookies["sessionid"].value != before


def test_who_was_on_the_way_gets_there(client: Client, alice: User) -> None:
    address = client.get("/problems/?file=a").url
    assert address == "/sign-in/?next=/problems/%3Ffile%3Da"
    assert parse_page(client.get(address)).select_one("input[name=next]")["value"] == "/problems/?file=a"
    assert client.post("/sign-in/", {"name": "alice", "password": PASSWORD, "next": "/problems/?file=a"}).url == (
        "/problems/?file=a"
    )


def test_signing_out_ends_the_session(client: Client, alice: User) -> None:
    client.force_login(alice)
    assert client.get("/sign-out/").status_code == 405
    assert is_signed_in(client)
    assert client.post("/sign-out/").url == "/sign-in/"
    assert not is_signed_in(client)


def test_a_user_without_a_project_gets_an_explanation_and_can_sign_out(client: Client) -> None:
    client.force_login(create_user("charlie"))
    response = client.get("/runs/")
    assert response.status_code == 403
    assert "not a member of any project" in parse_page(response).by_role("main").text
    assert client.post("/sign-out/").status_code == 302


@pytest.mark.postgresql
def test_a_link_into_another_project_of_the_person_offers_to_switch(client: Client, alice: User) -> None:
    calls = [create_call(create_run(create_project(name), f"of {name}")) for name in ("work", "secret")]
    create_user("alice", project=create_project("work"), role="viewer")
    client.force_login(alice)
    work = calls[0].project
    subjects = [calls[0], calls[0].run, stored(calls[0], b"x"), recalled(work, calls[0])]
    comparison = Comparison.objects.create(project=work).get_absolute_url()
    assert parse_page(client.get(comparison)).by_role("link", "Open it in Work")["href"] == f"{comparison}?project=work"
    for subject in subjects:
        response = client.get(subject.get_absolute_url())
        offer = parse_page(response).by_role("link", "Open it in Work")
        assert (response.status_code, client.get(offer["href"], follow=True).status_code) == (404, 200)
        client.get("/runs/?project=default")
    response = client.get(calls[1].get_absolute_url())
    assert response.status_code == 404
    assert "secret" not in parse_page(response).text.casefold()


def test_a_member_of_two_projects_switches_between_them(client: Client, alice: User) -> None:
    create_run(create_project("default"), title="Run at home")
    create_run(create_project("work"), title="Run at work")
    client.force_login(alice)
    assert not parse_page(client.get("/runs/")).has('[href="/runs/?project=work"]')
    create_user("alice", project=create_project("work"), role="viewer")
    assert parse_page(client.get("/runs/")).has('[href="/runs/?project=work"]')
    for address in ("/runs/?project=work", "/runs/"):
        page = parse_page(client.get(address))
        assert page.all_by_role("link", "Run at work")
        assert not page.all_by_text("Run at home")
    assert client.get("/runs/?project=somebody-elses").status_code == 404


@pytest.mark.postgresql
def test_create_user_prints_a_link_that_works(client: Client) -> None:
    out = printed("create_user", "dora")
    assert "dora was created: operator in default." in out
    assert client.post(urlsplit(out.split()[-1]).path).status_code == 302
    assert is_signed_in(client)


@pytest.mark.postgresql
def test_create_user_prints_one_json_document(client: Client) -> None:
    create_project("work")
    document = json.loads(printed("create_user", "eve", "--role", "viewer", "--project", "work", "--json"))
    assert set(document) == {"user", "role", "project", "created", "link", "expires_at"}
    assert (document["user"], document["role"], document["created"]) == ("eve", "viewer", True)
    assert Membership.objects.get(user__username="eve").role == "viewer"
    again = json.loads(printed("create_user", "eve", "--project", "work", "--json"))
    assert again["created"] is False
    assert Membership.objects.get(user__username="eve").role == "operator"


@pytest.mark.postgresql
def test_a_second_project_is_created_for_a_user_and_then_takes_tokens() -> None:
    create_project("work")
    with pytest.raises(CommandError, match=r"'pa'\. Known: work\. `create_user .* --create-project` creates"):
        call_command("create_token", "laptop", "--project", "pa")
    for _ in range(2):
        assert "operator in pa" in printed("create_user", "eve", "--project", "pa", "--create-project")
    assert "in pa" in printed("create_token", "laptop", "--project", "pa")
    assert [project.slug for project in Project.objects.order_by("slug")] == ["pa", "work"]


def test_the_default_project_is_made_when_there_is_none() -> None:
    printed("create_user", "dora")
    assert [project.slug for project in Project.objects.all()] == ["default"]


def test_signin_link_renews_the_way_in(client: Client, alice: User) -> None:
    document = json.loads(printed("signin_link", "alice", "--json", "--base-url", "https://runs.example/"))
    assert document["link"].startswith("https://runs.example/sign-in/")
    assert client.post(urlsplit(document["link"]).path).status_code == 302


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["create_user", "no spaces"], "cannot be a name"),
        (["create_user", "dora", "--project", "nowhere"], "There is no project 'nowhere'"),
        (["create_user", "dora", "--create-project"], "needs --project SLUG"),
        (["create_user", "dora", "--project", "a/b", "--create-project"], "needs --project SLUG"),
        (["signin_link", "nobody"], "There is no user 'nobody'"),
    ],
)
def test_commands_complain_in_words(arguments: list[str], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        call_command(*arguments)
    assert not User.objects.exists()


def test_a_page_loads_the_session_the_user_and_the_memberships(
    operator_client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    operator_client.get("/docs/")
    with django_assert_num_queries(3):
        operator_client.get("/docs/")


def test_memberships_are_loaded_with_every_request(
    client: Client, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    olga = create_user("olga", project=project)
    client.force_login(olga)
    create_run(project, title="Ledger run")
    assert parse_page(client.get("/runs/")).all_by_role("link", "Ledger run")
    Membership.objects.filter(user=olga).update(project=create_project("other"))
    assert not parse_page(client.get("/runs/")).all_by_text("Ledger run")
    Membership.objects.filter(user=olga).delete()
    assert client.get("/runs/").status_code == 403
    assert [(record.getMessage(), record.exc_info) for record in caplog.records] == [("Not allowed: /runs/", None)]


@pytest.mark.parametrize("change", ["signed out elsewhere", "no longer active", "another password", "deleted"])
def test_a_session_that_no_longer_holds_opens_nothing(client: Client, project: Project, change: str) -> None:
    olga = create_user("olga", project=project)
    client.force_login(olga)
    assert client.get("/runs/").status_code == 200
    match change:
        case "signed out elsewhere":
            client.session.flush()
        case "no longer active":
            User.objects.filter(pk=olga.pk).update(is_active=False)
        case "another password":
            olga.set_password("correct horse battery")
            olga.save()
        case _:
            olga.delete()
    assert client.get("/runs/").status_code == 302


@pytest.mark.parametrize("key", ["\x00" * 8, "a\x00bcdefgh", "é" * 9, "' OR 1=1 --", "0" * 4_000, "short", ""])
def test_a_cookie_that_is_not_a_session_key_opens_nothing(client: Client, project: Project, key: str) -> None:
    client.force_login(create_user("olga", project=project))
    del client.cookies["sessionid"]
    assert client.get("/runs/", headers={"cookie": f"sessionid={key}"}).status_code == 302

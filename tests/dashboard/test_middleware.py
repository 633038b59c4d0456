"""Every address needs sign-in and answers with the same headers."""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from uuid import UUID

import pytest
from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory, override_settings
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django import Settings

from dashboard.middleware import CompressionMiddleware, OneLineFormatter, TurnsMiddleware
from tests.cases import each
from tests.conftest import CHECKOUT
from tests.dashboard.factories import create_call, create_problem, create_project, create_run, create_user
from tests.dashboard.page_text import parse_page

pytestmark = pytest.mark.django_db

OPEN = {"sign-in", "sign-in-link", "sign-out", "healthz"}
SAMPLES = {
    "uuid": str(UUID(int=1)),
    "int": "1",
    "slug": "a-name",
    "str": "result",
    "path": "a/path/",
}


def patterns(resolver: URLResolver | None = None) -> Iterator[URLPattern]:
    for entry in (resolver or get_resolver()).url_patterns:
        if isinstance(entry, URLResolver):
            yield from patterns(entry)
        else:
            yield entry


def build_address(pattern: URLPattern) -> str:
    route = str(pattern.pattern)
    for kind, value in SAMPLES.items():
        while f"<{kind}:" in route:
            before, _, rest = route.partition(f"<{kind}:")
            route = before + value + rest.partition(">")[2]
    assert "<" not in route, f"give {route} a sample"
    return "/" + route


ADDRESSES = {pattern.name: build_address(pattern) for pattern in patterns()}


class Unread:
    """A body that must not be read."""

    def read(self, *_: object) -> bytes:
        raise AssertionError("the body was read")

    readline = read


BODIES = {
    "over the limit": ({"CONTENT_LENGTH": "1000000000"}, 413, "accepts at most"),
    "over all numbers": ({"CONTENT_LENGTH": "9" * 30}, 400, "Content-Length is not a number"),
    "negative": ({"CONTENT_LENGTH": "-5"}, 400, "Content-Length is not a number"),
    "in chunks": ({"HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": ""}, 411, "Send the size"),
}


@each("address", [*ADDRESSES.values(), "/nowhere/", "/static/css/tokens.css"])
def test_no_address_reads_a_body_that_it_does_not_accept(client: Client, address: str) -> None:
    for method, kind in (("POST", "over the limit"), ("GET", "in chunks")):
        assert_refused_unread(client, method, address, kind)


@each("kind", BODIES)
def test_a_body_without_a_usable_size_is_refused_unread(client: Client, kind: str) -> None:
    assert_refused_unread(client, "POST", "/sign-in/", kind)


def assert_refused_unread(client: Client, method: str, address: str, kind: str) -> None:
    headers, status, sentence = BODIES[kind]
    form = {"CONTENT_TYPE": "multipart/form-data; boundary=x", "wsgi.input": Unread()}
    response = client.generic(method, address, **form, **headers)
    assert response.status_code == status
    assert sentence in response.content.decode()
    if not address.startswith("/static/"):
        assert_headers(response)


def test_only_declared_addresses_accept_more_than_a_form() -> None:
    limits = {pattern.name: getattr(pattern.callback, "body_limit", None) for pattern in patterns()}
    assert {name: limit for name, limit in limits.items() if limit} == {
        "import-new": "UPLOAD_LIMIT_BYTES",
        "api-traces": "INTAKE_BODY_LIMIT_BYTES",
        "api-mcp": "TEXT_BODY_LIMIT_BYTES",
        "api-logs": "INTAKE_BODY_LIMIT_BYTES",
        "api-hook": "INTAKE_BODY_LIMIT_BYTES",
        "api-records": "INTAKE_BODY_LIMIT_BYTES",
        "api-artifact": "UPLOAD_LIMIT_BYTES",
        "renderer-paste": "TEXT_BODY_LIMIT_BYTES",
        "template-new": "TEXT_BODY_LIMIT_BYTES",
        "template-detail": "TEXT_BODY_LIMIT_BYTES",
    }


@each("name", sorted(name for name in set(ADDRESSES) - OPEN if not name.startswith("api-")))
def test_every_address_leads_to_sign_in_and_back(client: Client, name: str) -> None:
    assert client.get(ADDRESSES[name], follow=False).url == f"/sign-in/?next={ADDRESSES[name]}"


def assert_headers(response: object) -> None:
    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"
    assert "no-store" in response["Cache-Control"]
    assert response["Referrer-Policy"] == "same-origin"


@pytest.mark.postgresql("experiment-list", "run-delete")
@pytest.mark.rendering
@pytest.mark.parametrize("name", sorted(ADDRESSES))
def test_every_answer_carries_the_headers(client: Client, name: str) -> None:
    assert_headers(client.get(ADDRESSES[name]))
    client.force_login(create_user("alice", project=create_project()))
    assert_headers(client.get(ADDRESSES[name]))
    assert_headers(client.post(ADDRESSES[name]))


def test_pages_that_exist_carry_the_headers(client: Client) -> None:
    project = create_project()
    client.force_login(create_user("alice", project=project))
    run = create_run(project)
    call = create_call(run, result={"a": 1}, receipt="a")
    problem = create_problem(project)
    for address in (run.get_absolute_url(), call.get_absolute_url(), f"/problems/{problem.pk}/raw"):
        response = client.get(address)
        assert response.status_code == 200
        assert_headers(response)


def test_an_address_that_does_not_exist_has_a_page_of_words(client: Client) -> None:
    client.force_login(create_user("alice", project=create_project()))
    response = client.get("/nowhere/")
    assert response.status_code == 404
    assert parse_page(response).by_role("heading", "Not found")
    assert_headers(response)


def test_a_foreign_host_name_is_refused_in_words(client: Client) -> None:
    response = client.get("/sign-in/", headers={"host": "evil.example"})
    assert response.status_code == 400
    assert parse_page(response).by_role("heading", "This request cannot be read")


def test_a_mistake_of_ours_repeats_nothing_of_the_request(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("sk-secret")

    client.raise_request_exception = False
    client.force_login(create_user("alice", project=create_project()))
    monkeypatch.setattr("dashboard.views.runs.build_run_list", fail)
    response = client.get("/runs/?q=sk-other-secret")
    assert response.status_code == 500
    assert parse_page(response).by_role("heading", "Server error")
    assert b"secret" not in response.content
    assert_headers(response)


TOKEN = "Ab1_-" * 8 + "xyz"  # as long as that of a link


LOGGED = {
    "a link that was used": ("POST", f"/sign-in/{TOKEN}/"),
    "a link without its form": ("POST", f"/sign-in/{TOKEN}/x"),
    "a link with a wrong method": ("PUT", f"/sign-in/{TOKEN}/"),
    "a link in another case": ("GET", f"/SIGN-IN/{TOKEN[:20]}/"),
    "a link in a query": ("GET", f"/nowhere/?next=/sign-in/{TOKEN}/"),
    "a token in a wrong place": ("GET", f"/nowhere/{TOKEN}"),
    "an encoded link": ("GET", f"/sign-in%252F{TOKEN[:20]}/x/"),
}


@pytest.mark.parametrize("name", LOGGED)
def test_no_link_reaches_the_log_whatever_the_status(
    client: Client, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    method, address = LOGGED[name]
    for sender in (client, Client(enforce_csrf_checks=True)):
        assert sender.generic(method, address).status_code >= 400
    assert caplog.records
    for record in caplog.records:
        line = OneLineFormatter("%(levelname)s %(message)s").format(record)
        assert TOKEN[:20] not in line
        assert "\n" not in line


@each(
    ("text", "formatted"),
    [
        ("Error handling request GET /runs/?q=my-password", "Error handling request GET /runs/?[redacted]"),
        ("Invalid Request Line 'GET /sign-in/abc HTTP/9'", "Invalid Request Line 'GET /sign-in/[redacted] HTTP/9'"),
        ("Key (session_key)=(abc) already exists.", "Key (session_key)=([redacted]) already exists."),
        ("postgres://olga:hunter22@db/x refused", "postgres://[redacted]@db/x refused"),
        ("two\nlines \x1b[31m", "two\\x0alines \\x1b[31m"),
        ("Not Found: /runs/0f5f6d8e-0000-4000-8000-000000000001/", None),
    ],
)
def test_a_line_of_the_log_has_no_secret_and_no_second_line(text: str, formatted: str | None) -> None:
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "%s", (text,), None)
    assert OneLineFormatter("%(message)s").format(record) == (formatted or text)


def test_the_message_of_an_exception_forges_no_line_and_shows_no_secret() -> None:
    message = "sk-ant-api03-" + "a" * 95 + "\n2026-01-01 ERROR forged"
    try:
        raise ValueError(message)
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "failed", (), sys.exc_info())
    text = OneLineFormatter("%(message)s").format(record)
    assert "sk-ant-api03" not in text
    assert [line for line in text.split("\n") if not line.startswith("\t")] == ["failed"]


def test_static_files_are_open_and_typed(client: Client) -> None:
    response = client.get("/static/css/tokens.css")
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/css")
    assert b"@layer tokens" in response.getvalue()
    assert response["X-Content-Type-Options"] == "nosniff"
    response.close()


def test_a_page_names_each_of_its_files_by_the_content(client: Client) -> None:
    page = parse_page(client.get("/sign-in/"))
    addresses = [str(link["href"]) for link in page.select("link")] + [
        str(item["src"]) for item in page.select("script")
    ]
    assert len(addresses) > 10
    for address in addresses:
        response = client.get(address)
        digest = hashlib.sha256(response.getvalue()).hexdigest()
        assert address.partition("?v=")[2] == digest[:8]
        response.close()


def test_vendored_files_are_as_published() -> None:
    readme = (CHECKOUT / "static/vendor/README.md").read_text("utf-8")
    scripts = list((CHECKOUT / "static/vendor").glob("*.min.*"))
    assert scripts
    for script in scripts:
        assert f"{script.name} |" in readme
        assert sha256(script.read_bytes()).hexdigest() in readme


def test_health_is_claimed_only_while_the_database_answers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OperationalError("could not connect to 10.0.0.1")

    assert client.get("/healthz").json() == {"ok": True}
    monkeypatch.setattr(connection, "cursor", refuse)
    response = client.get("/healthz")
    assert response.status_code == 503
    assert response.json() == {"ok": False}


@override_settings(SECURE_SSL_REDIRECT=True)
def test_https_is_insisted_on_when_it_is_set(client: Client) -> None:
    response = client.get("/runs/")
    assert response.status_code == 301
    assert response.url == "https://testserver/runs/"
    assert client.get("/healthz").status_code == 200  # whoever watches the process asks it directly


@pytest.mark.extended
@pytest.mark.rendering
def test_check_deploy_finds_nothing_with_https() -> None:
    environment = os.environ | {"COUNTERFOIL_HTTPS": "1"}
    environment.pop("DJANGO_ALLOW_ASYNC_UNSAFE", None)  # of the browser tests
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.extended
@pytest.mark.rendering
def test_a_command_makes_the_tables_of_an_empty_store_and_names_the_one_that_updates_an_older_one(
    tmp_path: Path,
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}

    def signin_link() -> tuple[int, list[str]]:
        done = subprocess.run(
            [sys.executable, "manage.py", "signin_link", "alice"],
            cwd=CHECKOUT,
            env=environment | {"COUNTERFOIL_DATA": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert done.stdout == ""
        return done.returncode, done.stderr.splitlines()

    assert signin_link() == (1, ["CommandError: There is no user 'alice'. `create_user alice` creates one."])
    with closing(sqlite3.connect(tmp_path / "counterfoil.db")) as store:
        store.executescript("DROP TABLE dashboard_signinlink; DELETE FROM django_migrations WHERE app = 'dashboard'")
        store.executescript("DROP TABLE auth_user")
    assert signin_link() == (
        1,
        [
            "CommandError: no such table: auth_user",
            "The store has pending migrations. Run: python manage.py migrate",
        ],
    )


@pytest.mark.parametrize("is_attachment", [False, True])
def test_a_page_is_compressed_and_a_download_is_not(rf: RequestFactory, *, is_attachment: bool) -> None:
    headers = {"Content-Disposition": "attachment; filename=x"} if is_attachment else {}

    def answer(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(b"a line\n" * 1_000, headers=headers)

    response = CompressionMiddleware(answer)(rf.get("/", HTTP_ACCEPT_ENCODING="gzip"))
    assert response.has_header("Content-Encoding") != is_attachment
    assert (len(response.content) < 700) != is_attachment


@pytest.mark.django_db
def test_a_first_visit_transfers_less_than_100_kilobytes(client: Client) -> None:
    client.force_login(create_user("alice", project=create_project()))
    page = client.get("/runs/", HTTP_ACCEPT_ENCODING="gzip")
    head = parse_page(gzip.decompress(page.content).decode())
    assets = {
        *(str(link["href"]) for link in head.select("link[href]")),
        *(str(script["src"]) for script in head.select("script[src]")),
        *(str(icon["href"]).partition("#")[0] for icon in head.select("use[href]")),
    }
    answers = [client.get(asset, HTTP_ACCEPT_ENCODING="gzip") for asset in sorted(assets)]
    assert len(answers) > 10
    sizes = [len(page.content), *(len(b"".join(answer)) for answer in answers)]
    assert sum(sizes) < 100_000, sizes


def test_pages_wait_for_their_turn_and_health_and_forms_do_not(settings: Settings, rf: RequestFactory) -> None:
    """Twenty requests of a second each took all threads, so that nobody else was answered."""
    settings.ANSWERS_AT_ONCE, settings.ANSWERS_WAITING, settings.ANSWER_WAIT_SECONDS = 1, 1, 60.0
    begun, end = threading.Semaphore(0), threading.Event()

    def answer(request: HttpRequest) -> HttpResponse:
        if request.GET.get("slow"):
            begun.release()
            assert end.wait(60)
        return HttpResponse("answered")

    middleware, statuses = TurnsMiddleware(answer), list[int]()
    slow = [
        threading.Thread(target=lambda: statuses.append(middleware(rf.get("/runs/?slow=1")).status_code)) for _ in "12"
    ]
    slow[0].start()
    assert begun.acquire(timeout=60), "it works on the first one"
    slow[1].start()
    settings.ANSWER_WAIT_SECONDS = 0.0  # the second one waits in any case, or it is answered as the third one is
    third = middleware(rf.get("/runs/"))
    assert (third.status_code, third["Retry-After"]) == (503, "2")
    assert "Many requests are being answered" in parse_page(third).text
    assert parse_page(third).select_one('main a[href=""]').text == "Try again"
    assert middleware(rf.get("/healthz")).content == b"answered"
    assert middleware(rf.post("/runs/views/")).content == b"answered"
    end.set()
    for thread in slow:
        thread.join(60)
    assert 200 in statuses
    assert middleware(rf.get("/runs/")).content == b"answered"

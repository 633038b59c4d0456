"""A real browser on a live server. What the browser complains of fails the test that caused it.

page             a signed-out page; addresses are given without their host: page.goto("/runs/")
operator_page    the same, signed in as `operator`
browse           makes further pages: browse(signed_in=True, java_script_enabled=False, viewport={…})
troubles         what the browser complained of so far; a test that provokes a complaint takes it out
bundled          the project of `operator`, with the recordings that the package ships in it
serious          what axe finds serious or critical on a page, a sentence each. Every rule looks at every element,
                 but for contrast: that is most of axe's work, and looks at two elements of each look, or at all
                 of them as `whole`; `contrast_alone` asks for no other rule
in_both_themes   opens an address in the light and then turns the light out: what is serious there, and in which
assert_accessible  fails with what axe finds serious or critical on a page
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright
from pytest_django.live_server_helper import LiveServer

from dashboard.ingest.importer import import_paths
from dashboard.models import Project
from envelopes.text.tokens import count_tokens
from tests.browser.chromium import FLAGS, Chromium, NoChromium, find
from tests.conftest import CHECKOUT
from tests.dashboard.factories import create_project

PATIENCE = 10_000
SERIOUS = {"serious", "critical"}
CONTRAST = "color-contrast"
# What passed is not asked for: axe would describe each of its thousands of elements.
VIOLATIONS: dict[str, Any] = {"resultTypes": ["violations"]}
# Rules whose violations are never serious, by axe's own word on each, and contrast, which is asked for by itself.
PASSED_OVER = """serious => Object.fromEntries(axe._audit.rules
  .filter((one) => one.id === "color-contrast" || (one.impact && !serious.includes(one.impact)))
  .map((one) => [one.id, {enabled: false}]))"""
# Colours on their way from one theme to the other have no contrast yet; what inherits them sets out after them.
SETTLED = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const moving = () => document.getAnimations().filter((one) => one instanceof CSSTransition);
  for (await frame(), await frame(); moving().length; await frame(), await frame()) {
    await Promise.allSettled(moving().map((one) => one.finished));
  }
}"""
LOOKS = Path(__file__).with_name("looks.js").read_text("utf-8")

Browse = Callable[..., Page]
Serious = Callable[..., list[str]]
SAMPLES = CHECKOUT / "dashboard" / "samples"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = _chromium_or_fail()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium.executable, args=list(FLAGS), env={**os.environ, **chromium.environment}
        )
        yield launched
        launched.close()


def _chromium_or_fail() -> Chromium:
    try:
        return find()
    except NoChromium as missing:
        sentence = str(missing)
    pytest.fail(sentence, pytrace=False)


@pytest.fixture
def troubles() -> list[str]:
    return []


@pytest.fixture
def browse(
    browser: Browser, live_server: LiveServer, troubles: list[str], request: pytest.FixtureRequest
) -> Iterator[Browse]:
    contexts: list[BrowserContext] = []

    def open_page(*, signed_in: bool = False, **options: Any) -> Page:
        # Under the C locale Chromium names a language that its own Intl refuses.
        options = {"locale": "en-US", **options}
        context = browser.new_context(base_url=live_server.url, reduced_motion="reduce", **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        if signed_in:
            _sign_in(context, request.getfixturevalue("operator"), live_server.url)
        _listen(context, troubles, live_server.url)
        return context.new_page()

    yield open_page
    for context in contexts:
        context.close()
    if troubles:
        pytest.fail("The browser complained:\n" + "\n".join(troubles), pytrace=False)


def _sign_in(context: BrowserContext, person: User, url: str) -> None:
    client = Client()
    client.force_login(person)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": url}])


def _listen(context: BrowserContext, troubles: list[str], url: str) -> None:
    """Chromium reports a violation of the content security policy as an error on the console."""

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            troubles.append(f"{message.text} ({message.location.get('url', '')})")

    def on_request(request: Request) -> None:
        if not request.url.startswith((url, "data:", "blob:", "about:")):
            troubles.append(f"asked another host: {request.url}")

    context.on("console", on_console)
    context.on("weberror", lambda error: troubles.append(f"uncaught: {error.error}"))
    context.on("request", on_request)


@pytest.fixture
def page(browse: Browse) -> Page:
    return browse()


@pytest.fixture
def operator_page(browse: Browse) -> Page:
    return browse(signed_in=True)


@pytest.fixture(scope="session")
def shelf() -> Iterator[sqlite3.Connection]:
    """Where the database lies as it was after the first import of the bundled recordings; empty until then."""
    with closing(sqlite3.connect(":memory:")) as kept:
        yield kept


@pytest.fixture
def project(db: None, request: pytest.FixtureRequest) -> Project:
    """The project of the test, which holds the bundled recordings already where the test asks for `bundled`."""
    del db
    return _filled(request.getfixturevalue("shelf")) if "bundled" in request.fixturenames else create_project("ledger")


def _filled(shelf: sqlite3.Connection) -> Project:
    """Brought in once and then copied page by page: nothing else is in the database of a test that begins."""
    connection.ensure_connection()
    here = connection.connection if connection.vendor == "sqlite" else None
    if here and shelf.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
        shelf.backup(here)
        return Project.objects.get()
    project = create_project("ledger")
    count_tokens("")  # with the vocabulary here, no import starts a process to count beside it
    import_paths(project, [SAMPLES])
    if here:
        here.backup(shelf)
    return project


@pytest.fixture
def bundled(project: Project) -> Project:
    return project


@pytest.fixture
def serious() -> Serious:
    script = Axe().axe_script

    def find_violations(page: Page, *, contrast_alone: bool = False, whole: bool = False) -> list[str]:
        page.wait_for_load_state()  # of half a page axe would say that its headings are missing
        page.evaluate(SETTLED)
        if page.evaluate("typeof axe") == "undefined":
            page.evaluate(script)
        passed_over = page.evaluate(PASSED_OVER, sorted(SERIOUS))
        found = [] if contrast_alone else _violations(page, "document", {"rules": passed_over})
        where = "document" if whole else f"{{include: [document], exclude: ({LOOKS})()}}"
        return found + _violations(page, where, {"runOnly": [CONTRAST]})

    return find_violations


def _violations(page: Page, where: str, options: dict[str, Any]) -> list[str]:
    answer = page.evaluate(f"options => axe.run({where}, options)", VIOLATIONS | options)
    return [_sentence(one) for one in answer["violations"] if one["impact"] in SERIOUS]


@pytest.fixture
def in_both_themes(serious: Serious) -> Serious:
    def look(page: Page, address: str, *, whole: bool = False) -> list[str]:
        page.emulate_media(color_scheme="light")
        page.goto(address)
        found = [f"{address} light: {sentence}" for sentence in serious(page, whole=whole)]
        # The elements are the same in the dark; only their colours are not.
        page.emulate_media(color_scheme="dark")
        in_the_dark = serious(page, contrast_alone=True, whole=whole)
        return found + [f"{address} dark: {sentence}" for sentence in in_the_dark]

    return look


@pytest.fixture
def assert_accessible(serious: Serious) -> Callable[[Page], None]:
    def check(page: Page) -> None:
        found = serious(page)
        assert not found, f"axe on {page.url}:\n" + "\n".join(found)

    return check


def _sentence(violation: dict[str, Any]) -> str:
    places = "; ".join(node["html"][:160] for node in violation["nodes"][:5])
    return f"{violation['impact']}: {violation['help']} ({violation['id']}, {len(violation['nodes'])} times): {places}"

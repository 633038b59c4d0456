"""A real browser on a live server. What the browser complains of fails the test that caused it.

page             a signed-out page; addresses are given without their host: page.goto("/runs/")
operator_page    the same, signed in as `operator`
browse           makes further pages: browse(signed_in=True, script=False, viewport={…}); of a `clocked` one the test
                 can turn the clock: page.clock. All tests share the windows, which are wiped between them: a new one
                 costs a third of a second
troubles         what the browser complained of so far; a test that provokes a complaint takes it out
bundled          the project of `operator`, with the recordings that the package ships in it
serious          what axe finds serious or critical on a page, a sentence each. Every rule looks at every element,
                 but for contrast: that is most of axe's work, and looks at two elements of each look among all
                 pages, or at all of them as `whole`; `contrast_alone` asks for no other rule
in_both_themes   what is serious on a page in the light and, as far as colours go, in the dark
assert_accessible  fails with what axe finds serious or critical on a page
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client, TransactionTestCase
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    ViewportSize,
    WebError,
    expect,
    sync_playwright,
)
from playwright.sync_api import Error as PlaywrightError
from pytest_django.live_server_helper import LiveServer

from dashboard.ingest.importer import import_paths
from dashboard.models import Project
from envelopes.text.tokens import count_tokens
from tests.browser.chromium import FLAGS, Chromium, NoChromium, find
from tests.browser.rest import NOTES_THAT_IT_IS_LEFT, PATIENCE, come_to_rest
from tests.conftest import CHECKOUT
from tests.dashboard.factories import create_project

VIEWPORT: ViewportSize = {"width": 1280, "height": 720}
SERIOUS = {"serious", "critical"}
AXE_RUN = Path(__file__).with_name("axe_run.js").read_text("utf-8")

Browse = Callable[..., Page]
Serious = Callable[..., list[str]]
SAMPLES = CHECKOUT / "dashboard" / "samples"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = _chromium_or_fail()
    expect.set_options(timeout=PATIENCE)  # 5 seconds by default, which a busy machine exceeds
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


class Kind(NamedTuple):
    signed_in: bool
    script: bool
    clocked: bool


class SharedPages:
    """Windows of each kind, wiped between the tests."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser, self._url = browser, url
        self._free: dict[Kind, list[Page]] = {}
        self._lent: list[tuple[Kind, Page]] = []

    def lend(self, kind: Kind) -> Page:
        free = self._free.setdefault(kind, [])
        page = free.pop() if free else self._open(kind)
        self._lent.append((kind, page))
        return page

    def _open(self, kind: Kind) -> Page:
        context = self._browser.new_context(
            base_url=self._url,
            java_script_enabled=kind.script,
            locale="en-US",  # under the C locale Chromium names a language that its own Intl refuses
            reduced_motion="reduce",
            viewport=VIEWPORT,
        )
        context.set_default_timeout(PATIENCE)
        context.add_init_script(NOTES_THAT_IT_IS_LEFT)
        if kind.clocked:
            context.clock.install()
        return context.new_page()

    def take_back(self) -> None:
        for kind, page in self._lent:
            try:
                _wipe(page, kind)
            except PlaywrightError:  # a window that cannot even be wiped is given up
                page.context.close()
            else:
                self._free[kind].append(page)
        self._lent.clear()


FORGET = "() => { if (origin !== 'null') { localStorage.clear(); sessionStorage.clear(); } }"
# Ends what the page would go on asking for; true for one that was about to be left. What was just pressed, and `stop`
# itself, take effect in a later task: the next test's first page would be aborted. To leave each for an empty one costs
# as much as the first page of a test. Parts of a page that come into view ask for more, without the cookies, and the
# sign-in page in answer reloads the page.
FORGET_AND_STOP = f"""async () => {{
  for (const name of ["htmx:beforeRequest", "htmx:beforeSwap"]) {{
    addEventListener(name, (event) => {{ event.preventDefault(); event.stopImmediatePropagation(); }}, true);
  }}
  stop();
  await new Promise((resolve) => setTimeout(resolve));
  for (let timer = setTimeout(() => {{}}); timer; timer--) clearTimeout(timer);
  ({FORGET})();
  return Boolean(globalThis.isLeft) || document.readyState !== "complete";
}}"""


def _wipe(page: Page, kind: Kind) -> None:
    for other in page.context.pages:
        if other is not page:
            other.close()
    has_timers = kind.script and not kind.clocked  # of the browser
    is_left = page.evaluate(FORGET_AND_STOP if has_timers else FORGET)
    if is_left or not has_timers:  # its way to another page would end the next test's
        page.goto("about:blank")
    page.context.clear_cookies()
    page.context.clear_permissions()
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(VIEWPORT)
    page.mouse.move(0, 0)


@pytest.fixture(scope="session")
def shared_pages(browser: Browser, live_server: LiveServer) -> SharedPages:
    return SharedPages(browser, live_server.url)


@pytest.fixture
def browse(
    shared_pages: SharedPages, live_server: LiveServer, troubles: list[str], request: pytest.FixtureRequest
) -> Iterator[Browse]:
    with ExitStack() as afterwards:
        afterwards.callback(shared_pages.take_back)

        def open_page(
            *, signed_in: bool = False, script: bool = True, clocked: bool = False, viewport: ViewportSize = VIEWPORT
        ) -> Page:
            page = shared_pages.lend(Kind(signed_in=signed_in, script=script, clocked=clocked))
            page.set_viewport_size(viewport)
            # A person's window may write the clipboard after a click. Playwright denies it from 1.65 on.
            page.context.grant_permissions(["clipboard-write"])
            if signed_in:
                _sign_in(page.context, request.getfixturevalue("operator"), live_server.url)
            afterwards.enter_context(_listen(page.context, troubles, live_server.url))
            return page

        yield open_page
    if troubles:
        pytest.fail("The browser complained:\n" + "\n".join(troubles), pytrace=False)


def _sign_in(context: BrowserContext, person: User, url: str) -> None:
    client = Client()
    client.force_login(person)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": url}])


@contextmanager
def _listen(context: BrowserContext, troubles: list[str], url: str) -> Iterator[None]:
    """Chromium reports a violation of the content security policy as an error on the console."""

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            troubles.append(f"{message.text} ({message.location.get('url', '')})")

    def on_request(request: Request) -> None:
        if not request.url.startswith((url, "data:", "blob:", "about:")):
            troubles.append(f"asked another host: {request.url}")

    def on_error(error: WebError) -> None:
        troubles.append(f"uncaught: {error.error}")

    with listening(context, {"console": on_console, "weberror": on_error, "request": on_request}):
        yield


@contextmanager
def listening(context: BrowserContext, listeners: dict[Any, Any]) -> Iterator[None]:
    for event, listener in listeners.items():
        context.on(event, listener)
    yield
    for event, listener in listeners.items():
        context.remove_listener(event, listener)


@pytest.fixture
def page(browse: Browse) -> Page:
    return browse()


@pytest.fixture
def operator_page(browse: Browse) -> Page:
    return browse(signed_in=True)


@pytest.fixture(scope="session", autouse=True)
def _permissions_are_not_written_anew() -> Iterator[None]:
    """What a test leaves is emptied out; Django then writes rows on every model, which nothing here reads."""

    def empty(case: TransactionTestCase) -> None:
        del case
        call_command("flush", verbosity=0, interactive=False, reset_sequences=False, inhibit_post_migrate=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty)
        yield


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
    count_tokens("")  # loads the vocabulary, which no test is about
    import_paths(project, [SAMPLES])
    if here:
        here.backup(shelf)
    return project


@pytest.fixture
def bundled(project: Project) -> Project:
    return project


@pytest.fixture(scope="session")
def looks() -> dict[str, str]:
    """What `serious` has looked at so far, as axe_run.js says it."""
    return {"known": "[]"}


@pytest.fixture
def serious(looks: dict[str, str]) -> Serious:
    script = Axe().axe_script

    def find_violations(page: Page, *, contrast_alone: bool = False, whole: bool = False) -> list[str]:
        come_to_rest(page)  # of half a page axe would say that its headings are missing
        if page.evaluate("typeof axe") == "undefined":
            page.evaluate(script)
        question = {"serious": sorted(SERIOUS), "contrastAlone": contrast_alone, "whole": whole, **looks}
        answer = page.evaluate(AXE_RUN, question)
        if not answer["violations"]:  # what has a fault is looked at again, wherever else it stands
            looks["known"] = answer["known"]
        return [_sentence(violation) for violation in answer["violations"]]

    return find_violations


@pytest.fixture
def in_both_themes(serious: Serious) -> Serious:
    def look(page: Page, *, whole: bool = False) -> list[str]:
        page.emulate_media(color_scheme="light")
        in_the_light = serious(page, whole=whole)
        # The elements are the same in the dark; only their colours are not.
        page.emulate_media(color_scheme="dark")
        in_the_dark = serious(page, contrast_alone=True, whole=whole)
        return [f"light: {sentence}" for sentence in in_the_light] + [f"dark: {sentence}" for sentence in in_the_dark]

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

"""Takes pictures of every page, to be looked at: `python -m tests.browser.pictures OUTDIR`.

Serves the bundled recordings from a throw-away store and signs in by the one-time link, as a newcomer does.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.chromium import FLAGS, find

CHECKOUT = Path(__file__).resolve().parents[2]
WIDTHS = (1440, 1024, 390)
SCHEMES = ("light", "dark")
ID = r"[0-9a-f-]{36}"
RUN, ARTIFACT = (re.compile(rf"^/{noun}/{ID}/$") for noun in ("runs", "artifacts"))
CALL = re.compile(rf"^/runs/{ID}/[0-9]+/[a-z]+$")  # a step of a run
CALLS_OF_A_RUN = 3
LISTS = {
    "runs": "/runs/",
    "calls": "/calls/",
    "import": "/runs/import/",
    "experiments": "/experiments/",
    "recall": "/experiments/recall/",
    "preview": "/experiments/renderers/command/",
    "tools": "/tools/",
    "tool": "/tools/ExecCommand/",
    "insights": "/insights/",
    "insights-differs": "/insights/?show=differs",
    "insights-cost": "/insights/?show=cost",
    "insights-quoted": "/insights/?show=quoted",
    "chosen-runs": "/runs/against/",
    "problems": "/problems/",
    "docs": "/docs/",
    "masking": "/masking/",
    "audit": "/audit/",
    "error": "/nothing/",
}
STARTS_WITHIN = 30.0


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    chromium = find()
    with tempfile.TemporaryDirectory() as store, sync_playwright() as playwright:
        environment = os.environ | {"COUNTERFOIL_DATA": store}
        link = _loaded(environment)
        browser = playwright.chromium.launch(
            executable_path=chromium.executable, args=list(FLAGS), env={**os.environ, **chromium.environment}
        )
        with _served(environment) as base:
            _take_all(browser, base, link, out)
        browser.close()


def _loaded(environment: dict[str, str]) -> str:
    """Loads the bundled recordings; the path of the sign-in link that `demo` prints."""
    command = [sys.executable, "manage.py", "demo", "--no-serve"]
    printed = subprocess.run(command, cwd=CHECKOUT, env=environment, check=True, capture_output=True, text=True).stdout
    found = re.search(r"http\S*/sign-in/\S+", printed)
    if found is None:
        raise SystemExit(f"`demo --no-serve` printed no sign-in link:\n{printed}")
    return urlsplit(found[0]).path


@contextmanager
def _served(environment: dict[str, str]) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "manage.py", "runserver", "--noreload", address]
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=quiet, stderr=quiet)
    try:
        _wait_for(f"http://{address}/healthz")
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait()


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            urlopen(url).close()
            return
        except URLError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _take_all(browser: Browser, base: str, link: str, out: Path) -> None:
    signed_out = browser.new_page(base_url=base)
    _take(signed_out, "sign-in", "/sign-in/", out)
    signed_out.close()
    page = browser.new_page(base_url=base, reduced_motion="reduce")
    page.goto(link)
    _accept(page)
    for name, path in _pages(page):
        _take(page, name, path, out)


def _accept(page: Page) -> None:
    """The link's page signs in by a button."""
    page.locator("main form button").click()
    page.wait_for_url("**/runs/")


def _pages(page: Page) -> list[tuple[str, str]]:
    found = list(LISTS.items())
    runs = _links(page, "/runs/", RUN)
    for run in runs[:1]:
        calls = _links(page, run, CALL)
        found += [("run", run), ("history", f"{run}context"), ("replay", f"{run}replay")]
        chosen = calls[:: max(1, len(calls) // CALLS_OF_A_RUN)][:CALLS_OF_A_RUN]
        found += [(f"call-{number}", call) for number, call in enumerate(chosen, start=1)]
    return found + [("artifact", path) for path in _first_artifact(page, runs)]


def _first_artifact(page: Page, runs: list[str]) -> list[str]:
    for run in runs:
        for call in _links(page, run, CALL):
            artifacts = _links(page, call, ARTIFACT)
            if artifacts:
                return artifacts[:1]
    return []


def _links(page: Page, path: str, pattern: re.Pattern[str]) -> list[str]:
    """The addresses of that kind on a page, in their order, each once."""
    page.goto(path)
    address = "one => new URL(one.getAttribute('href'), location.href).pathname"  # a link in a drawing has no other
    hrefs = page.eval_on_selector_all("a[href]", f"all => all.map({address})")
    return list(dict.fromkeys(href for href in hrefs if pattern.match(href)))


def _take(page: Page, name: str, path: str, out: Path) -> None:
    """The first screen, and beside it the whole page, which may be too long to look at."""
    (out / "whole").mkdir(exist_ok=True)
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(path, wait_until="networkidle")
            target = f"{name}-{width}-{scheme}.png"
            page.screenshot(path=out / target)
            page.screenshot(path=out / "whole" / target, full_page=True)
            print(target, _overflow(page, width))


def _overflow(page: Page, width: int) -> str:
    """No page may be wider than its window."""
    needed = page.evaluate("document.documentElement.scrollWidth")
    return f"needs {needed} pixels" if needed > width else ""


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))

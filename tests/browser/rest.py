"""Waits until a page has come to rest, so that what is looked at or pressed next does not depend on the moment.

A key or a click may begin to load another page. Until its first bytes are there the old page stays, complete and quiet,
and a second key would be pressed on it. So each page notes that it is left: browsers say so before they ask for
anything. It notes in the same way that htmx fetches an entry of the history, which no class of an element tells.
"""

from __future__ import annotations

from playwright.sync_api import Download, Error, Locator, Page

PATIENCE = 60_000  # milliseconds; a busy machine may need many of them, and nothing waits longer than it has to
# Run in each page before its own scripts.
NOTES_THAT_IT_IS_LEFT = """(() => {
  const note = (isLeft) => () => { globalThis.isLeft = isLeft; };
  for (const event of ["beforeunload", "htmx:historyCacheMiss"]) addEventListener(event, note(true));
  for (const event of ["htmx:historyRestore", "htmx:historyCacheMissLoadError"]) addEventListener(event, note(false));
})()"""
# Loaded, its fonts there, no answer on its way or being put in, nothing that moves, and drawn so.
RESTS = """async (patience) => {
  const until = performance.now() + patience;
  const frame = () => new Promise(requestAnimationFrame);
  const moves = () => globalThis.isLeft || document.readyState !== "complete"
    || document.querySelector(".htmx-request, .htmx-swapping, .htmx-settling, .htmx-added, [aria-busy=true]")
    || document.getAnimations().some((animation) => animation.playState === "running");
  await document.fonts.ready;
  do {
    if (performance.now() > until) throw new Error("the page does not come to rest");
    await frame();
    await frame();
  } while (moves());
}"""


def come_to_rest(page: Page) -> None:
    """A page that is left meanwhile is waited for again, as the one that it became."""
    for _ in range(3):
        page.wait_for_load_state()
        try:
            page.evaluate(RESTS, PATIENCE)
        except Error as error:
            if "context was destroyed" not in error.message and "navigation" not in error.message:
                raise
        else:
            return
    raise AssertionError(f"{page.url} is left again and again")


def press(page: Page, *keys: str) -> None:
    """Presses the keys one after the other, each on a page that has come to rest."""
    for key in keys:
        come_to_rest(page)
        page.keyboard.press(key)


def scroll_to_end(page: Page) -> None:
    """What is loaded as it comes into view replaces itself: no element of the page may be waited for meanwhile."""
    come_to_rest(page)
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    come_to_rest(page)


def download(page: Page, button: Locator) -> Download:
    """What the button or link downloads. The page was about to be left, as it seemed, and stays."""
    come_to_rest(page)
    with page.expect_download() as started:
        button.click()
    page.evaluate("globalThis.isLeft = false")
    return started.value

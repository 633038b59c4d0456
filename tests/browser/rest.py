"""Waits until a page has come to rest, so that what is looked at or pressed next does not depend on the moment."""

from __future__ import annotations

from playwright.sync_api import Error, Page

PATIENCE = 60_000  # milliseconds; a busy machine may need many of them, and nothing waits longer than it has to
# Loaded, its fonts there, no answer of htmx on its way or being put in, nothing that moves, and drawn so.
RESTS = """async (patience) => {
  const until = performance.now() + patience;
  const frame = () => new Promise(requestAnimationFrame);
  const moves = () => document.readyState !== "complete"
    || document.querySelector(".htmx-request, .htmx-swapping, .htmx-settling, .htmx-added")
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

"""A page that counts what a person presses on it: clicks, keys, and texts that are typed."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page

from tests.browser.rest import come_to_rest, press


class CountedPage:
    """Counts what a person presses on a page: keys and clicks, and apart from them texts that are typed."""

    def __init__(self, page: Page) -> None:
        self.page, self.presses, self.texts = page, 0, 0

    def start(self, address: str) -> Page:
        self.page.goto(address)
        come_to_rest(self.page)
        return self.page

    def press(self, *keys: str) -> None:
        press(self.page, *keys)
        self.presses += len(keys)

    def click(self, target: Locator, **options: Any) -> None:
        come_to_rest(self.page)
        target.click(**options)
        self.presses += 1

    def write(self, text: str, *, box: str = "", send: str = "") -> None:
        """Types into what has the focus, or into the box with this label, which is clicked unless it has the focus.

        `send` is the key that sends the text.
        """
        come_to_rest(self.page)
        if box:
            target = self.page.get_by_label(box, exact=True)
            if not target.evaluate("box => box === document.activeElement"):
                self.click(target)
            target.fill(text)
        else:
            self.page.keyboard.insert_text(text)
        self.texts += 1
        if send:
            self.press(send)

    def search(self, text: str) -> None:
        self.press("S")
        self.write(text, send="Enter")


def link_in_bar(page: Page, name: str) -> Locator:
    return page.get_by_role("navigation", name="Pages").get_by_role("link", name=name)

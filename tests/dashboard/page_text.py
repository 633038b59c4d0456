"""Finds the parts of a page by role, text, id or CSS selector, so that no test matches patterns over markup.

    page = parse_page(client.get("/runs/"))
    page.by_role("link", name="Fix the login")["href"]
    page.by_id("receipt-text").exact
    page.texts("table.listing tbody tr")

`by_…` and `select_one` fail unless exactly one element fits; `all_by_…` and `select` give a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from selectolax.lexbor import LexborHTMLParser, LexborNode

if TYPE_CHECKING:
    from django.http import HttpResponse

# Roles that elements have by themselves (WAI-ARIA in HTML); `role="…"` is looked at beside them.
IMPLICIT_ROLES = {
    "article": "article",
    "banner": "body > header",
    "button": "button, summary, input[type=submit], input[type=button]",
    "cell": "td",
    "checkbox": "input[type=checkbox]",
    "columnheader": "thead th, th[scope=col]",
    "combobox": "select, input[list]",
    "complementary": "aside",
    "definition": "dd",
    "dialog": "dialog",
    "form": "form",
    "group": "fieldset, details",
    "heading": "h1, h2, h3, h4, h5, h6",
    "img": "img, svg[aria-label]",
    "link": "a[href]",
    "list": "ul, ol",
    "listitem": "li",
    "main": "main",
    "navigation": "nav",
    "option": "option",
    "progressbar": "progress",
    "radio": "input[type=radio]",
    "region": "section[aria-label], section[aria-labelledby]",
    "row": "tr",
    "rowheader": "th[scope=row]",
    "searchbox": "input[type=search]",
    "slider": "input[type=range]",
    "spinbutton": "input[type=number]",
    "status": "output",
    "table": "table",
    "term": "dt",
    "textbox": "textarea, input:not([type]), input[type=text], input[type=password], input[type=email]",
}
MARK = "i.mark[data-code]"
# Without their table around them, an HTML parser drops these tags.
PART_OF_A_TABLE = re.compile(r"\s*<(tr|td|th|tbody|thead)\b")
AROUND = {"tr": "<table>", "tbody": "<table>", "thead": "<table>", "td": "<table><tr>", "th": "<table><tr>"}


class Element:
    """A part of a page. `element["href"]` is an attribute's value; `"disabled" in element` says whether it is set."""

    def __init__(self, node: LexborNode) -> None:
        self._node = node

    def __repr__(self) -> str:
        return self.html[:200]

    def __getitem__(self, attribute: str) -> str:
        assert attribute in self._node.attributes, f"no {attribute!r} in {self!r}"
        return self._node.attributes[attribute] or ""

    def __contains__(self, attribute: str) -> bool:
        return attribute in self._node.attributes

    def get(self, attribute: str, default: str | None = None) -> str | None:
        attributes = self._node.attributes
        return (attributes[attribute] or "") if attribute in attributes else default

    @property
    def tag(self) -> str:
        return str(self._node.tag)

    @property
    def attributes(self) -> dict[str, str]:
        return {name: value or "" for name, value in self._node.attributes.items()}

    @property
    def classes(self) -> list[str]:
        return (self.get("class") or "").split()

    @property
    def html(self) -> str:
        return self._node.html or ""

    @property
    def exact(self) -> str:
        """The text with its whitespace, and with marked characters back in their places."""
        if self._node.css_first(MARK) is None:
            return self._node.text()
        return "".join(_texts(self._node))

    @property
    def text(self) -> str:
        """The text as one line, each run of whitespace a single space."""
        return " ".join(self.exact.split())

    @property
    def name(self) -> str:
        """What assistive technology calls it."""
        if label := self.get("aria-label"):
            return label
        if ids := self.get("aria-labelledby"):
            labels = (_root(self._node).css_first(f'[id="{label}"]') for label in ids.split())
            return " ".join(Element(label).text for label in labels if label is not None)
        if self.tag in ("input", "select", "textarea"):
            return self._field_label()
        return self.text or self.get("alt") or self.get("title") or ""

    def _field_label(self) -> str:
        if "id" in self:
            label = _root(self._node).css_first(f'label[for="{self["id"]}"]')
            if label is not None:
                return Element(label).text
        around = self.closest("label")
        return around.text if around else self.get("value") or self.get("placeholder") or ""

    def select(self, selector: str) -> list[Element]:
        """The elements inside it that a CSS selector fits, in the order of the page."""
        # A node that several parts of the selector fit is found as often. Comparing nodes would write out their HTML.
        nodes = {node.mem_id: node for node in self._node.css(selector)}
        nodes.pop(self._node.mem_id, None)
        return [Element(node) for node in nodes.values()]

    def select_one(self, selector: str) -> Element:
        return _only(self.select(selector), selector, self)

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.select(selector)]

    def rows(self, selector: str = "tr") -> list[list[str]]:
        """The texts of the cells, row by row."""
        return [row.texts("td, th") for row in self.select(selector)]

    @property
    def facts(self) -> dict[str, str]:
        """The definition of each term, from the lists of terms (`<dl>`) in it."""
        terms = self.select("dt")
        return {term.text: definition.text for term in terms if (definition := term.next_element) is not None}

    def has(self, selector: str) -> bool:
        return bool(self.select(selector))

    def by_id(self, name: str) -> Element:
        return self.select_one(f'[id="{name}"]')

    def all_by_role(self, role: str, name: str | None = None, *, exact: bool = False) -> list[Element]:
        """`name` is a part of the accessible name, or with `exact` the whole of it."""
        implicit = IMPLICIT_ROLES.get(role)
        elements = self.select(f'[role="{role}"]' + (f", {implicit}" if implicit else ""))
        elements = [element for element in elements if element.get("role", role) == role]
        if name is None:
            return elements
        return [element for element in elements if (element.name == name if exact else name in element.name)]

    def by_role(self, role: str, name: str | None = None, *, exact: bool = False) -> Element:
        elements = self.all_by_role(role, name, exact=exact)
        names = [element.name for element in self.all_by_role(role)] if len(elements) != 1 else ()
        assert len(elements) == 1, f"{len(elements)} {role}s are called {name!r}; there are {names}"
        return elements[0]

    def all_by_text(self, text: str, *, exact: bool = False) -> list[Element]:
        """The innermost elements with this text in them, or with `exact` with this text and no other."""
        return list(_innermost(self._node, text, exact=exact))

    def by_text(self, text: str, *, exact: bool = False) -> Element:
        return _only(self.all_by_text(text, exact=exact), f"the text {text!r}", self)

    def closest(self, selector: str) -> Element | None:
        """The element itself or the nearest around it that the selector fits."""
        # Not `css_matches`: it is also true of an element that only contains one that fits.
        fitting = {node.mem_id for node in _root(self._node).css(selector)}
        node: LexborNode | None = self._node
        while node is not None and node.mem_id not in fitting:
            node = node.parent
        return Element(node) if node is not None else None

    @property
    def next_element(self) -> Element | None:
        node = self._node.next
        while node is not None and not node.is_element_node:
            node = node.next
        return Element(node) if node is not None else None


class Page(Element):
    """A whole page, or a fragment of one."""

    def __init__(self, markup: str) -> None:
        self.markup = markup
        part = PART_OF_A_TABLE.match(markup)
        self._tree = LexborHTMLParser(AROUND[part[1]] + markup if part else markup)
        root = self._tree.root
        assert root is not None, "an empty page"
        super().__init__(root)

    @property
    def is_fragment(self) -> bool:
        """Nothing is around the part that htmx asked for: neither a head nor a header."""
        return not self.has("head > *, body > header")

    @property
    def title(self) -> str:
        return self.select_one("head > title").text


def parse_page(page: HttpResponse | str | bytes) -> Page:
    """Parses a response, or the markup of a page or of a fragment."""
    content = page if isinstance(page, str | bytes) else page.content
    return Page(content if isinstance(content, str) else content.decode())


def text_of(markup: str) -> str:
    """The text of a piece of markup, with its whitespace, and with marked characters back in their places."""
    return parse_page(f"<div>{markup}").select_one("body").exact  # a body would lose the space before its first tag


def assert_harmless(page: Page) -> None:
    """Asserts that no hostile text of a recording acts on the page, neither as an element nor as a raw character.

    It looks at the markup as well as at the tree: a browser must not get these bytes, whatever a parser makes of them.
    """
    assert not page.has("[hx-post], b[hx-get]")
    assert not any("alert" in script.text for script in page.select("script"))
    for hostile in ("<script>alert", "\u202e", "\x1b", "\x00"):
        assert hostile not in page.markup, hostile


def _only(elements: list[Element], what: str, within: Element) -> Element:
    assert len(elements) == 1, f"{len(elements)} elements are {what} within {within!r}"
    return elements[0]


def _root(node: LexborNode) -> LexborNode:
    root = node.parser.root
    assert root is not None
    return root


def _texts(node: LexborNode) -> Iterator[str]:
    child = node.first_child
    while child is not None:
        if child.is_text_node:
            yield child.text_content or ""
        elif child.tag == "i" and (code := child.attributes.get("data-code")):
            yield chr(int(code))
        elif child.is_element_node:
            yield from _texts(child)
        child = child.next


def _innermost(node: LexborNode, text: str, *, exact: bool) -> Iterator[Element]:
    child = node.first_child
    while child is not None:
        if child.is_element_node:
            within = list(_innermost(child, text, exact=exact))
            if within:
                yield from within
            else:
                element = Element(child)
                if element.text == text if exact else text in element.text:
                    yield element
        child = child.next

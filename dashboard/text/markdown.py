"""Renders the operator documentation: the Markdown files of `dashboard/docs`, by markdown-it-py.

HTML in a document stays text, and an address is a page of this server or https; anything else stays text too.
The library renders our own files and docstrings only, never anything that was recorded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

FOLDER = Path(__file__).parents[1] / "docs"
# Reading order of the index; a file that is not named here is not served.
ORDER = (
    *(
        "recordings",
        "agents",
        "intake",
        "reading-a-call",
        "fidelity",
        "query",
        "calls",
        "insights",
        "run-against-run",
        "plans",
        "together",
    ),
    *("renderers", "comparisons", "changing-receipts", "keys"),
    *("storage", "deployment", "runtime", "recorder", "tour", "bad-inputs", "decisions", "requirements"),
)
ADDRESS = re.compile(r"https://|/(?!/)|#|[a-z-]+/?$")
DOCUMENT = re.compile(r"^([a-z-]+)\.md(?=#|$)")  # a page beside this one, as the file itself links it
NOT_A_SLUG = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Section:
    """A heading of the second level: `key` is its id on the page."""

    key: str
    title: str


@dataclass(frozen=True)
class Document:
    """One page: `title`, `lead` and the titles of `sections` are plain text, `html` is the rendered rest."""

    name: str
    title: str
    lead: str
    sections: tuple[Section, ...]
    html: str


def build_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    normalize = parser.normalizeLink
    parser.normalizeLink = lambda url: normalize(DOCUMENT.sub(r"/docs/\1/", url))  # type: ignore[method-assign]
    parser.validateLink = lambda url: ADDRESS.match(url) is not None  # type: ignore[method-assign]
    return parser


PARSER = build_parser()


@cache
def document(name: str) -> Document | None:
    """The page called `name`; None unless it is one of ORDER, so that no name reaches the file system."""
    return render_document(name, (FOLDER / f"{name}.md").read_text("utf-8")) if name in ORDER else None


def documents() -> list[Document]:
    return [page for name in ORDER if (page := document(name))]


def render_document(name: str, source: str) -> Document:
    """The first heading becomes the title and leaves the text; every other heading gets an id from its words."""
    tokens = PARSER.parse(source)
    title, lead, sections = name, "", []
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = _plain_text(tokens[i + 1])
            key = NOT_A_SLUG.sub("-", heading.lower()).strip("-")
            token.attrSet("id", key)
            if token.tag == "h2":
                sections.append(Section(key, heading))
        elif token.type == "paragraph_open" and not lead:
            lead = _plain_text(tokens[i + 1])
        elif token.type in ("fence", "code_block"):
            token.attrSet("tabindex", "0")  # code scrolls sideways: the keyboard has to reach it
    if tokens and tokens[0].tag == "h1":
        title, tokens = _plain_text(tokens[1]), tokens[3:]
    return Document(name, title, lead, tuple(sections), PARSER.renderer.render(tokens, PARSER.options, {}))


def render_inline(text: str) -> str:
    """One paragraph as HTML, without the paragraph itself."""
    return str(PARSER.renderInline(text))


def _plain_text(inline: Token) -> str:
    return "".join(" " if child.type == "softbreak" else child.content for child in inline.children or ())

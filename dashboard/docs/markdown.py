"""The operator documentation: files under dashboard/docs, read into blocks that a template writes out.

A subset of Markdown, and no HTML at all: headings, paragraphs, lists (one level), fenced code,
and within a line `code`, **strong** and [text](address). Addresses are pages of this server or https.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
# Reading order of the index; a file that is not named here is not served.
ORDER = (
    *("recordings", "reading-a-call", "fidelity", "query", "renderers", "comparisons", "changing-receipts"),
    *("keys", "storage", "runtime"),
)
SPAN = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|\[([^\]]+)\]\(([^)\s]+)\)")
ADDRESS = re.compile(r"https://|/(?!/)|#|[a-z-]+/?$")
HEADING = re.compile(r"(#{1,3}) (.+)")
ITEM = re.compile(r"(?:[-*]|(\d+)\.) +(.+)")
NOT_A_SLUG = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Span:
    """`kind` is text, code, strong or link."""

    kind: str
    text: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """`kind` is h1, h2, h3, p, ul, ol or pre. A list has an entry in `items` each, everything else one."""

    kind: str
    items: tuple[tuple[Span, ...], ...]
    slug: str = ""

    @property
    def spans(self) -> tuple[Span, ...]:
        return self.items[0]

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True)
class Document:
    name: str
    blocks: tuple[Block, ...]

    @property
    def title(self) -> str:
        return next((block.text for block in self.blocks if block.kind == "h1"), self.name)

    @property
    def lead(self) -> tuple[Span, ...]:
        return next((block.spans for block in self.blocks if block.kind == "p"), ())

    @property
    def body(self) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block.kind != "h1")


@cache
def document(name: str) -> Document | None:
    """The page called `name`; None unless it is one of ORDER, so that no name reaches the file system."""
    if name not in ORDER:
        return None
    return Document(name, tuple(blocks_of((FOLDER / f"{name}.md").read_text("utf-8"))))


def documents() -> list[Document]:
    return [found for name in ORDER if (found := document(name))]


def blocks_of(text: str) -> Iterator[Block]:
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif line.startswith("```"):
            end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith("```")), len(lines))
            yield Block("pre", ((Span("text", "\n".join(lines[at + 1 : end])),),))
            at = end + 1
        elif found := HEADING.fullmatch(line):
            yield _heading(len(found[1]), found[2])
            at += 1
        else:
            end = next((i for i in range(at, len(lines)) if _ends(lines[i])), len(lines))
            yield _list(lines[at:end]) if ITEM.match(line) else Block("p", (tuple(spans_of(_joined(lines[at:end]))),))
            at = end


def spans_of(text: str) -> Iterator[Span]:
    last = 0
    for found in SPAN.finditer(text):
        code, strong, label, address = found.groups()
        if last < found.start():
            yield Span("text", text[last : found.start()])
        yield _span(found.group(), code, strong, label, address)
        last = found.end()
    if last < len(text):
        yield Span("text", text[last:])


def _span(whole: str, code: str | None, strong: str | None, label: str | None, address: str | None) -> Span:
    if code is not None:
        return Span("code", code)
    if strong is not None:
        return Span("strong", strong)
    if label is None or address is None or not ADDRESS.match(address):
        return Span("text", whole)
    return Span("link", label, address)


def _heading(level: int, text: str) -> Block:
    return Block(f"h{level}", (tuple(spans_of(text)),), NOT_A_SLUG.sub("-", text.lower()).strip("-"))


def _ends(line: str) -> bool:
    return not line.strip() or line.startswith("```") or HEADING.fullmatch(line) is not None


def _list(lines: Iterable[str]) -> Block:
    """A line that does not begin an item goes on with the one above."""
    items: list[str] = []
    is_ordered = False
    for line in lines:
        found = ITEM.match(line)
        if found:
            is_ordered = is_ordered or found[1] is not None
            items.append(found[2])
        else:
            items[-1] += " " + line.strip()
    return Block("ol" if is_ordered else "ul", tuple(tuple(spans_of(item)) for item in items))


def _joined(lines: Iterable[str]) -> str:
    return " ".join(line.strip() for line in lines)

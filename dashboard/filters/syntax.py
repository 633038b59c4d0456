"""The grammar of a filter: text to a tree of And, Or, Not and Term, and the tree to text again.

    any      = all ("or" all)*
    all      = item+
    item     = ["-"] ( "(" any ")" | term )
    term     = [key ":"] ( "quoted text" | word )

A word ends at white space, or at a parenthesis that it did not open. A backslash in quotes keeps the next character
from meaning anything. Every pair of parentheses is a node of its own, so that `str` of a tree parses to that tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

MAX_DEPTH = 8  # of parentheses

TEXT = "text"  # the kind of a term without a key
_KEY = re.compile(r"([A-Za-z_]+):")
_OR = re.compile(r"or(?=[\s()]|$)", re.IGNORECASE)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PLAIN = re.compile(r'[^\s":\\()-][^\s":\\()]*')
_PLAIN_BEHIND_KEY = re.compile(r'[^\s"\\()-][^\s"\\()]*')


@dataclass(frozen=True)
class Term:
    """One condition; `kind` is a key of the language, or TEXT. In a pattern each `*` stands for any characters."""

    kind: str
    value: str
    is_pattern: bool = False
    at: int = field(default=0, compare=False)  # of its first character in the text

    def __str__(self) -> str:
        prefix = "" if self.kind == TEXT else f"{self.kind}:"
        plain = _PLAIN if self.kind == TEXT else _PLAIN_BEHIND_KEY
        means_more = self.value.lower() == "or" if self.kind == TEXT else "*" in self.value
        if self.is_pattern or (plain.fullmatch(self.value) and not means_more):
            return prefix + self.value
        return prefix + '"' + re.sub(r'(["\\])', r"\\\1", self.value) + '"'


@dataclass(frozen=True)
class Not:
    node: Node

    def __str__(self) -> str:
        return "-" + (f"({self.node})" if isinstance(self.node, (And, Or)) else str(self.node))


@dataclass(frozen=True)
class And:
    """All of `nodes`; none at all is the empty filter."""

    nodes: tuple[Node, ...] = ()

    def __str__(self) -> str:
        return " ".join(f"({node})" if isinstance(node, (And, Or)) else str(node) for node in self.nodes)


@dataclass(frozen=True)
class Or:
    """Any of `nodes`, two at least."""

    nodes: tuple[Node, ...]

    def __str__(self) -> str:
        return " or ".join(
            f"({node})" if isinstance(node, Or) or (isinstance(node, And) and len(node.nodes) == 1) else str(node)
            for node in self.nodes
        )


Node: TypeAlias = "Term | Not | And | Or"


def inner_nodes(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Term):
        return ()
    return (node.node,) if isinstance(node, Not) else node.nodes


def iterate_terms(node: Node) -> Iterator[Term]:
    """All terms of a tree, from left to right."""
    if isinstance(node, Term):
        yield node
    for child in inner_nodes(node):
        yield from iterate_terms(child)


def replace_terms(node: Node, change: Callable[[Term], Term | None]) -> Node | None:
    """The tree with every term changed; what is left without a term goes, and repeated neighbours too."""
    if isinstance(node, Term):
        return change(node)
    if isinstance(node, Not):
        inner = replace_terms(node.node, change)
        return None if inner is None else Not(inner)
    changed = (replace_terms(child, change) for child in node.nodes)
    nodes = tuple(dict.fromkeys(child for child in changed if child is not None))
    if isinstance(node, Or):
        return Or(nodes) if len(nodes) > 1 else next(iter(nodes), None)
    return And(nodes) if nodes else None


def parse_tree(text: str) -> tuple[And | Or, list[str]]:
    """The tree, and a sentence for each thing that cannot be read. Never raises."""
    parser = _Parser(text)
    tree = parser.parse_any(depth=0)
    return tree, parser.problems


def describe_place(at: int) -> str:
    return f"at character {at + 1}"


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.problems: list[str] = []
        self.is_stopped = False  # at something behind which nothing can be read

    def parse_any(self, depth: int) -> And | Or:
        """Up to the end of the text, or behind the parenthesis that closes a group."""
        start = self.at
        branches: list[list[Node]] = [[]]
        last_or = -1
        while self._skip_spaces():
            if self.text[self.at] == ")":
                if depth:
                    break
                self._report(f"“)” {describe_place(self.at)} closes nothing; text with it needs quotes.")
                self.at += 1
            elif word := _OR.match(self.text, self.at):
                if not branches[-1]:
                    self._report(f"“or” {describe_place(self.at)} has nothing before it; as a word it needs quotes.")
                last_or, self.at = self.at, word.end()
                branches.append([])
            elif (item := self._parse_item(depth)) is not None:
                branches[-1].append(item)
        if last_or >= 0 and not branches[-1]:
            self._report(f"“or” {describe_place(last_or)} has nothing behind it; as a word it needs quotes.")
        if depth:
            self._close(start, is_empty=not any(branches))
        nodes = [nodes[0] if len(nodes) == 1 else And(tuple(nodes)) for nodes in branches if nodes]
        if len(nodes) > 1:
            return Or(tuple(nodes))
        return And(tuple(next((branch for branch in branches if branch), ())))

    def _close(self, start: int, *, is_empty: bool) -> None:
        if self.is_stopped:
            return
        if self.at >= len(self.text):
            self._report(f"“(” {describe_place(start - 1)} opens a group that nothing closes.")
        elif is_empty:
            self._report(f"The parentheses {describe_place(start - 1)} contain no term.")
        self.at += 1

    def _parse_item(self, depth: int) -> Node | None:
        start = self.at
        is_negated = self.text[self.at] == "-"
        self.at += is_negated
        item: Node | None
        if self.text[self.at : self.at + 1] == "(":
            self.at += 1
            if depth == MAX_DEPTH:
                self._report(f"“(” {describe_place(self.at - 1)} is nested deeper than {MAX_DEPTH} groups.")
                self._stop()
                return None
            item = self.parse_any(depth + 1)
            item = item if item.nodes else None
        else:
            item = self._parse_term(start)
        return Not(item) if is_negated and item is not None else item

    def _parse_term(self, start: int) -> Term | None:
        at = self.at
        key = _KEY.match(self.text, at)
        self.at = key.end() if key else self.at
        kind = key[1].lower() if key else TEXT
        if self.text[self.at : self.at + 1] != '"':
            value = self._take_word()
            is_pattern = key is not None and "*" in value and not set(value) & {"(", ")"}
        elif quoted := _QUOTED.match(self.text, self.at):
            value, is_pattern, self.at = _ESCAPED.sub(r"\1", quoted[1]), False, quoted.end()
        else:
            self._report(
                f"“{_shorten(self.text[start:])}” {describe_place(start)} opens a quotation that nothing closes."
            )
            self._stop()
            return None
        if value.strip():
            return Term(kind, value, is_pattern, at)
        word = _shorten(self.text[start : self.at])
        reason = "has no value behind it" if key else "contains no text to search for"
        self._report(f"“{word}” {describe_place(start)} {reason}.")
        return None

    def _take_word(self) -> str:
        start, depth = self.at, 0
        while self.at < len(self.text) and not (character := self.text[self.at]).isspace():
            depth += (character == "(") - (character == ")")
            if depth < 0:
                break
            self.at += 1
        return self.text[start : self.at]

    def _skip_spaces(self) -> bool:
        """False at the end of the text."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at < len(self.text)

    def _stop(self) -> None:
        self.is_stopped, self.at = True, len(self.text)

    def _report(self, problem: str) -> None:
        self.problems.append(problem)


def _shorten(word: str) -> str:
    return word if len(word) <= 60 else word[:59] + "…"

"""Two block tags for what a page repeats: Django's own nodes cost more than the rest of a long page.

    {% once %}…{% endonce %}                    the same for everybody, so written once a process
    {% each row in page.rows %}…{% endeach %}   a `for` whose body is filled in column by column

In `each` may stand text, {{ row.field }} with filters that take no argument, {% if row.field %}…{% endif %}
without another branch, and another `each` over {{ row.field }}; anything else is refused when the template
is read. All is escaped but a SafeString. An attribute that is missing is an error.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from django import template
from django.template.base import FilterExpression, Node, NodeList, Parser, TextNode, Token, VariableNode
from django.template.context import Context
from django.template.defaulttags import IfNode
from django.utils.safestring import SafeString

register = template.Library()

Rows: TypeAlias = Sequence[Any]
Column: TypeAlias = Callable[[Rows], Iterable[str]]
APART = "\x00"  # no label holds it: dashboard.text.escaping draws it as a sign


class OnceNode(Node):
    """Rendered without variables, so that nothing of one person's page gets into another's."""

    def __init__(self, body: NodeList) -> None:
        self.body = body
        self.written: SafeString | None = None

    def render(self, context: Context) -> SafeString:
        if self.written is None:
            self.written = self.body.render(context.new({}))
        return self.written


@register.tag
def once(parser: Parser, _token: Token) -> OnceNode:
    body = parser.parse(("endonce",))
    parser.delete_first_token()
    return OnceNode(body)


class Pattern:
    """Markup with gaps, and for each gap the function that makes its column of all rows."""

    def __init__(self, nodes: NodeList, name: str) -> None:
        parts, self.columns = [], []
        for node in nodes:
            if isinstance(node, TextNode):
                parts.append(node.s.replace("%", "%%"))
            else:
                parts.append("%s")
                self.columns.append(_column(node, name))
        self.markup = "".join(parts)

    def fill(self, rows: Rows) -> list[str]:
        if not self.columns:
            return [self.markup % ()] * len(rows)
        return [self.markup % cells for cells in zip(*[column(rows) for column in self.columns], strict=True)]


def _column(node: Node, name: str) -> Column:
    match node:
        case VariableNode():
            return _values(node.filter_expression, name)
        case IfNode(conditions_nodelists=[(condition, body)]) if condition is not None:
            return _sometimes(_field(getattr(condition, "value", None), name), Pattern(body, name))
        case EachNode():
            return _nested(_field(node.source, name), node.pattern)
        case _:
            raise template.TemplateSyntaxError(f"“each” cannot hold {node!r}: see templatetags/pieces.py")


def _values(expression: FilterExpression, name: str) -> Column:
    get = _field(expression, name, may_filter=True)
    filters = [function for function, arguments in expression.filters if not arguments]
    if len(filters) < len(expression.filters):
        raise template.TemplateSyntaxError(f"“each” knows no filter with an argument: {expression.token}")

    def column(rows: Rows) -> Iterable[str]:
        values = map(get, rows)
        for function in filters:
            values = map(function, values)
        return _escaped(list(values))

    return column


def _escaped(values: list[object]) -> list[str]:
    """All of a column at once; one by one where a text holds the very sign that keeps them apart."""
    if any(isinstance(value, SafeString) for value in values):
        return [value if isinstance(value, SafeString) else html.escape(str(value)) for value in values]
    texts = list(map(str, values))
    escaped = html.escape(APART.join(texts)).split(APART)
    return escaped if len(escaped) == len(texts) else [html.escape(text) for text in texts]


def _sometimes(get: Callable[[Any], Any], pattern: Pattern) -> Column:
    def column(rows: Rows) -> Iterable[str]:
        holds = [bool(get(row)) for row in rows]
        filled = iter(pattern.fill([row for row, is_held in zip(rows, holds, strict=True) if is_held]))
        return [next(filled) if is_held else "" for is_held in holds]

    return column


def _nested(get: Callable[[Any], Any], pattern: Pattern) -> Column:
    def column(rows: Rows) -> Iterable[str]:
        return ["".join(pattern.fill(inner)) if (inner := get(row)) else "" for row in rows]

    return column


def _field(source: object, name: str, *, may_filter: bool = False) -> Callable[[Any], Any]:
    expression = source if isinstance(source, FilterExpression) else None
    first, *fields = getattr(expression and expression.var, "lookups", None) or ("",)
    if expression is None or first != name or (expression.filters and not may_filter):
        raise template.TemplateSyntaxError(f"“each” reads the fields of “{name}”, not {source}")
    return attrgetter(".".join(fields)) if fields else _itself


def _itself(row: Any) -> Any:
    return row


class EachNode(Node):
    def __init__(self, source: FilterExpression, pattern: Pattern) -> None:
        self.source, self.pattern = source, pattern

    def render(self, context: Context) -> str:
        return "".join(self.pattern.fill(list(self.source.resolve(context))))


@register.tag
def each(parser: Parser, token: Token) -> EachNode:
    match token.split_contents():
        case [_, name, "in", source]:
            body = parser.parse(("endeach",))
            parser.delete_first_token()
            return EachNode(parser.compile_filter(source), Pattern(body, name))
        case _:
            raise template.TemplateSyntaxError("{% each row in rows %}")

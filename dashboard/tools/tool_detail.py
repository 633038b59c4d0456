"""One built-in tool: what the model may say to it, what comes back, and how that is spoken to the model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dashboard.models import Project
from dashboard.text import json_markup
from dashboard.text.chunks import FIRST_CHARS, TextChunk
from dashboard.tools.provider_declarations import SCHEMA, Declared, Form, bodies
from dashboard.tools.samples import Rendered, Sample, tool_samples
from dashboard.tools.schema_tables import Shape, shapes
from dashboard.tools.tool_list import ForeignRow, ToolRow, foreign_names, foreign_rows, tool_row, uses
from envelopes.families.registry import builtin
from envelopes.schema.tool import DISPATCH_KINDS, InvalidToolInput, ToolDefinition

ONE_LINE = 72  # characters of an example


@dataclass(frozen=True, kw_only=True)
class Example:
    """`refusal` is the sentence that the model gets; empty when the input is taken."""

    window: TextChunk
    refusal: str
    hint: str


@dataclass(frozen=True, kw_only=True)
class MatrixCell:
    """One sample under one variant, in numbers."""

    characters: int
    tokens: int
    is_cut: bool


@dataclass(frozen=True, kw_only=True)
class MatrixRow:
    sort: str
    cells: tuple[MatrixCell, ...]
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """The samples of a tool: all of them in numbers, the chosen one in full."""

    variants: tuple[Rendered, ...]
    rows: tuple[MatrixRow, ...]
    sample: Sample


@dataclass(frozen=True, kw_only=True)
class ToolPage:
    row: ToolRow
    family: str
    description: str
    hint: str
    declared: Declared
    taken: tuple[Example, ...]
    refused: tuple[Example, ...]
    error_kinds: tuple[str, ...]
    dispatch_kinds: tuple[str, ...]
    shapes: tuple[Shape, ...]
    gallery: Gallery | None
    foreign: tuple[ForeignRow, ...]


def tool_page(project: Project, name: str, *, sort: str, form: str) -> ToolPage:
    """One query. Raises KeyError for an unknown tool, and for a sample or a form that it does not have."""
    family, definition = builtin(name)
    used = uses(project, {name, *foreign_names([family])})
    return ToolPage(
        row=tool_row(definition, used),
        family=family.title,
        description=definition.description,
        hint=definition.hint,
        declared=_declared(definition, form),
        taken=tuple(_example(definition, one) for one in definition.examples),
        refused=tuple(_example(definition, one) for one in definition.counter_examples),
        error_kinds=definition.error_kinds,
        dispatch_kinds=tuple(kind for kind in DISPATCH_KINDS if kind not in definition.error_kinds),
        shapes=shapes(definition.result),
        gallery=_gallery(tool_samples(name), sort),
        foreign=tuple(foreign_rows(family, used)),
    )


def _declared(definition: ToolDefinition, form: str) -> Declared:
    found = bodies(definition)
    return Declared(
        forms=tuple(Form(name=name, title=title, is_current=name == form) for name, (title, _) in found.items()),
        window=_window(found[form][1]),
        without_conditions=form != SCHEMA and bool(definition.conditions),
    )


def _gallery(found: dict[str, Sample], sort: str) -> Gallery | None:
    """None for a tool without samples."""
    if not found:
        return None
    sample = found[sort or next(iter(found))]
    rows = [
        MatrixRow(sort=one.sort, cells=tuple(_cells(one.rendered)), is_current=one is sample) for one in found.values()
    ]
    return Gallery(variants=sample.rendered, rows=tuple(rows), sample=sample)


def _cells(rendered: Iterable[Rendered]) -> Iterable[MatrixCell]:
    for one in rendered:
        yield MatrixCell(characters=one.characters, tokens=one.tokens.count, is_cut=one.is_cut)


def _example(definition: ToolDefinition, arguments: dict[str, Any]) -> Example:
    refusal = hint = ""
    try:
        definition.parse(arguments)
    except InvalidToolInput as refused:
        refusal, hint = refused.error.message, refused.error.recovery_hint or ""
    return Example(window=_window(arguments), refusal=refusal, hint=hint)


def _window(value: dict[str, Any]) -> TextChunk:
    """Our own JSON, on one line where that is short; in ASCII, since an example may hold what no page can."""
    line = json.dumps(value)
    text = line if len(line) <= ONE_LINE else json.dumps(value, indent=json_markup.INDENT)
    return json_markup.rest(text, 0, FIRST_CHARS)

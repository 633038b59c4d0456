"""The page of a built-in tool: its definition, its examples, its result types and its samples under every variant.

Definitions and samples are part of the program, so each tool is computed once a process.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from dashboard.models import Project
from dashboard.text import json_markup
from dashboard.text.receipt_markup import FieldLinks, ReceiptChunk, receipt_chunk
from dashboard.text.text_markup import FIRST_CHARS, TextChunk
from dashboard.tools.tool_list import AgentTools, ToolRow, agent_tools, count_uses, mapped_names, tool_row
from dashboard.variants.render_call import is_cut
from envelopes.families.base import Family
from envelopes.families.registry import builtin, samples
from envelopes.pipeline.project import Projection, project
from envelopes.pipeline.render import render
from envelopes.schema.conversion import struct_schemas
from envelopes.schema.receipt import Receipt, SegmentSource, Variant
from envelopes.schema.tool import DISPATCH_KINDS, InvalidToolInput, ToolDefinition
from envelopes.storage.sinks import MemorySink
from envelopes.text.pointer import iterate_scalars
from envelopes.text.tokens import TokenCount, count_all
from envelopes.text.untrusted_json import dump_json
from envelopes.transports import TRANSPORTS, UnsupportedPart
from envelopes.variants import variants_for

ONE_LINE = 72  # characters of an example's JSON
JSON_SCHEMA = ""  # the name of the form that is no provider's
ANY_TYPE = "any JSON"
HALVES = ("/result/", "/error/")
SORTS = ("success", "error", "large", "empty", "odd")

Schema = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DeclarationForm:
    """A form of the definition that can be chosen; `name` is that of a transport."""

    name: str
    title: str
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class ToolDeclaration:
    """The definition as a model gets it. `without_conditions`: the shown form omits rules between fields."""

    forms: tuple[DeclarationForm, ...]
    window: TextChunk
    without_conditions: bool


@dataclass(frozen=True, kw_only=True)
class InputExample:
    """`refusal` is the sentence that the model gets; empty for a valid input."""

    window: TextChunk
    refusal: str
    hint: str


@dataclass(frozen=True, kw_only=True)
class SchemaField:
    """`nested` is the name of the type that the field contains, empty for a plain value."""

    name: str
    kind: str
    nested: str
    default: str  # as JSON; empty when the field is required
    is_required: bool
    note: str


@dataclass(frozen=True, kw_only=True)
class SchemaTable:
    """A struct with its fields. `is_result` is false for the types within a result."""

    name: str
    note: str  # Markdown
    fields: tuple[SchemaField, ...]
    is_result: bool


@dataclass(frozen=True, kw_only=True)
class RenderedSample:
    """`is_cut`: the canonical result, or this variant, left text out.

    `shown` of `total` characters of the strings in the result (or the error) are in the receipt.
    """

    variant: Variant
    receipt: Receipt
    tokens: TokenCount
    is_cut: bool
    shown: int
    total: int

    @property
    def characters(self) -> int:
        return len(self.receipt.text)

    @property
    def window(self) -> ReceiptChunk:
        return receipt_chunk(self.receipt, FieldLinks({}), 0, FIRST_CHARS)


@dataclass(frozen=True, kw_only=True)
class FieldLoss:
    """A field of which the canonical result has only a part; `unit` is characters or lines."""

    pointer: str
    shown: int
    total: int
    unit: str


@dataclass(frozen=True, kw_only=True)
class ToolSample:
    """`half` is `result` or `error`: the one that the sample has."""

    sort: str
    half: str
    canonical: bytes
    losses: tuple[FieldLoss, ...]
    rendered: tuple[RenderedSample, ...]

    @property
    def window(self) -> TextChunk:
        return json_markup.first_chunk(json_markup.indent_json(self.canonical), FIRST_CHARS, "data-pointer")


@dataclass(frozen=True, kw_only=True)
class MatrixRow:
    sort: str
    cells: tuple[RenderedSample, ...]
    is_current: bool


@dataclass(frozen=True, kw_only=True)
class SampleGallery:
    """The samples of a tool: all of them in numbers, the chosen one in full."""

    variants: tuple[RenderedSample, ...]
    rows: tuple[MatrixRow, ...]
    sample: ToolSample


@dataclass(frozen=True, kw_only=True)
class ToolPage:
    row: ToolRow
    family: str
    description: str
    hint: str
    declaration: ToolDeclaration
    valid: tuple[InputExample, ...]
    refused: tuple[InputExample, ...]
    error_kinds: tuple[str, ...]
    dispatch_kinds: tuple[str, ...]
    tables: tuple[SchemaTable, ...]
    gallery: SampleGallery | None
    agents: tuple[AgentTools, ...]


def load_tool_page(project: Project, name: str, *, sort: str, form: str) -> ToolPage:
    """One query. Raises KeyError for an unknown tool, and for a sample or a form that it does not have."""
    family, definition = builtin(name)
    uses = count_uses(project, {name, *mapped_names([family])})
    return ToolPage(
        row=tool_row(definition, uses),
        family=family.title,
        description=definition.description,
        hint=definition.hint,
        declaration=_build_declaration(definition, form),
        valid=tuple(_check_example(definition, arguments) for arguments in definition.examples),
        refused=tuple(_check_example(definition, arguments) for arguments in definition.counter_examples),
        error_kinds=definition.error_kinds,
        dispatch_kinds=tuple(kind for kind in DISPATCH_KINDS if kind not in definition.error_kinds),
        tables=build_schema_tables(definition.result),
        gallery=_build_gallery(render_samples(name), sort),
        agents=tuple(agent_tools(family, uses)),
    )


def _build_declaration(definition: ToolDefinition, form: str) -> ToolDeclaration:
    """The schema alone, or a provider's entry for the tool. Providers that cannot declare it are left out."""
    bodies: dict[str, tuple[str, dict[str, Any]]] = {JSON_SCHEMA: ("JSON Schema", definition.input_schema())}
    for transport in TRANSPORTS:
        try:
            bodies[transport.name] = (transport.title, transport.declare(definition))
        except UnsupportedPart:
            continue
    return ToolDeclaration(
        forms=tuple(
            DeclarationForm(name=name, title=title, is_current=name == form) for name, (title, _) in bodies.items()
        ),
        window=_json_window(bodies[form][1]),
        without_conditions=form != JSON_SCHEMA and bool(definition.conditions),
    )


def _check_example(definition: ToolDefinition, arguments: dict[str, Any]) -> InputExample:
    refusal = hint = ""
    try:
        definition.parse(arguments)
    except InvalidToolInput as refused:
        refusal, hint = refused.error.message, refused.error.recovery_hint or ""
    return InputExample(window=_json_window(arguments), refusal=refusal, hint=hint)


def _json_window(value: dict[str, Any]) -> TextChunk:
    """Our own JSON, on one line where that is short. In ASCII: an example may contain what a page cannot show."""
    line = json.dumps(value)
    text = line if len(line) <= ONE_LINE else json.dumps(value, indent=json_markup.INDENT)
    return json_markup.later_chunk(text, 0, FIRST_CHARS)


def _build_gallery(samples: dict[str, ToolSample], sort: str) -> SampleGallery | None:
    """None for a tool without samples. Raises KeyError for an unknown sort; without one the first is chosen."""
    if not samples:
        return None
    chosen = samples[sort or next(iter(samples))]
    rows = tuple(
        MatrixRow(sort=sample.sort, cells=sample.rendered, is_current=sample is chosen) for sample in samples.values()
    )
    return SampleGallery(variants=chosen.rendered, rows=rows, sample=chosen)


def build_schema_tables(results: Iterable[type[msgspec.Struct]]) -> tuple[SchemaTable, ...]:
    """The result structs, then the types within them, read from the JSON Schema that msgspec makes of them."""
    schemas, components = struct_schemas(results)
    result_names = [_target(schema) for schema in schemas]
    order = [*result_names, *(name for name in components if name not in result_names)]
    return tuple(_build_table(name, components[name], is_result=name in result_names) for name in order)


def _build_table(name: str, schema: Schema, *, is_result: bool) -> SchemaTable:
    required = frozenset(schema.get("required", ()))
    fields = []
    for key, field in schema.get("properties", {}).items():
        has_default = key not in required and "default" in field
        fields.append(
            SchemaField(
                name=key,
                kind=describe_type(field),
                nested=_nested_type(field),
                default=json.dumps(field["default"], ensure_ascii=False) if has_default else "",
                is_required=key in required,
                note=field.get("description", ""),
            )
        )
    note = " ".join(schema.get("description", "").split())
    return SchemaTable(name=name, note=note, fields=tuple(fields), is_result=is_result)


def describe_type(schema: Schema) -> str:
    """`text`, `integer or null`, `list of Hit`, `"a" or "b"`."""
    match schema:
        case {"$ref": str()}:
            return _target(schema)
        case {"anyOf": list(choices)}:
            return " or ".join(dict.fromkeys(map(describe_type, choices)))
        case {"enum": list(values)}:
            return " or ".join(map(json.dumps, values))
        case {"const": value}:
            return json.dumps(value)
        case {"type": "array"}:
            return f"list of {describe_type(schema.get('items') or {})}"
        case {"type": "string"}:
            return "text"
        case {"type": str(name)}:
            return name
    return ANY_TYPE


def _nested_type(schema: Schema) -> str:
    match schema:
        case {"$ref": str()}:
            return _target(schema)
        case {"anyOf": list(choices)}:
            return next((name for choice in choices if (name := _nested_type(choice))), "")
        case {"items": dict(items)}:
            return _nested_type(items)
    return ""


def _target(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


@cache
def render_samples(name: str) -> dict[str, ToolSample]:
    """By sort, success first. Raises KeyError for a name that no family defines."""
    family, _ = builtin(name)
    outputs = samples(name)
    order = sorted(outputs, key=lambda sort: SORTS.index(sort) if sort in SORTS else len(SORTS))
    return {
        sort: _render_sample(sort, project(outputs[sort], family, family.projection, MemorySink()), family)
        for sort in order
    }


def _render_sample(sort: str, projection: Projection, family: Family) -> ToolSample:
    canonical = projection.canonical
    variants = variants_for(family)
    receipts = [render(canonical, family, variant.policy, variant=variant) for variant in variants]
    counts = count_all([receipt.text for receipt in receipts])
    lengths = {
        pointer: len(text)
        for pointer, text in iterate_scalars(canonical.to_json())
        if isinstance(text, str) and pointer.startswith(HALVES)
    }
    return ToolSample(
        sort=sort,
        half="result" if canonical.error is None else "error",
        canonical=dump_json(canonical.to_json()),
        losses=tuple(
            FieldLoss(pointer=field.pointer, shown=field.cut.shown_count, total=field.cut.total, unit=field.cut.unit)
            for field in projection.cuts
        ),
        rendered=tuple(
            RenderedSample(
                variant=variant,
                receipt=receipt,
                tokens=count,
                is_cut=is_cut(receipt, projection.cuts),
                shown=_count_shown(receipt, lengths),
                total=sum(lengths.values()),
            )
            for variant, receipt, count in zip(variants, receipts, counts, strict=True)
        ),
    )


def _count_shown(receipt: Receipt, lengths: dict[str, int]) -> int:
    """Characters of the strings that are in the receipt; a string that the renderer rewords counts as shown."""
    counts: Counter[str] = Counter()
    for segment in receipt.segments:
        match segment.source:
            case SegmentSource("canonical", pointer, int(start), int(end)) if pointer in lengths:
                counts[pointer] += end - start
            case SegmentSource("canonical", pointer) if pointer in lengths:
                counts[pointer] += lengths[pointer]
    return sum(min(count, lengths[pointer]) for pointer, count in counts.items())

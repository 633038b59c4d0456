"""Any complete output of a built-in tool, drawn from the types that its definition names."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from envelopes.families import builtin
from envelopes.file_text import FileText, read_file_text
from envelopes.result import CompleteOutput, ToolError

TEXT = st.text(st.characters(exclude_categories=()), max_size=40) | st.builds(
    lambda part, times: part * times, st.sampled_from(["line of text\n", "word ", "x", "\n"]), st.integers(0, 2_000)
)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(
    SCALAR, lambda child: st.lists(child, max_size=3) | st.dictionaries(st.text(max_size=8), child, max_size=4)
)


@cache  # built once: building a strategy costs three times what drawing from it does
def outputs(tool: str) -> st.SearchStrategy[CompleteOutput]:
    successes = [successful(tool, result) for result in builtin(tool)[1].result]
    return st.one_of(*successes, failed(tool))


def successful(tool: str, result: type[msgspec.Struct]) -> st.SearchStrategy[CompleteOutput]:
    return st.builds(
        CompleteOutput,
        tool_name=st.just(tool),
        status=st.just("success"),
        summary_text=st.just(f"{tool} is done"),
        result=values(inspect.type_info(result)),
    )


def failed(tool: str) -> st.SearchStrategy[CompleteOutput]:
    error = st.builds(
        ToolError,
        kind=st.sampled_from([*builtin(tool)[1].error_kinds, "tool_execution_failed"]),
        message=TEXT,
        details=st.none() | st.dictionaries(st.sampled_from(["field", "task_id", "url", "workdir"]), JSON, max_size=4),
        recovery_hint=st.none() | TEXT,
        retryable=st.booleans(),
    )
    return st.builds(
        CompleteOutput,
        tool_name=st.just(tool),
        status=st.just("error"),
        summary_text=st.just(f"{tool} failed"),
        error=error,
    )


def values(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Everything of a type. Lists may be long by repetition, so that bounds are reached."""
    match kind:
        case inspect.Metadata():
            return values(kind.type)
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.UnionType():
            return st.one_of(*map(values, kind.types))
        case inspect.VarTupleType() | inspect.ListType():
            few = st.lists(values(kind.item_type), max_size=3)
            items = st.builds(lambda some, times: some * times, few, st.sampled_from([1, 1, 1, 120]))
            return items.map(tuple) if isinstance(kind, inspect.VarTupleType) else items
        case inspect.DictType():
            return st.dictionaries(values(kind.key_type), values(kind.value_type), max_size=3)
        case inspect.StructType(cls=built) if built is FileText:
            return st.builds(lambda text: read_file_text(io.BytesIO(text.encode("utf-8", "replace")), "log"), TEXT)
        case inspect.StructType():
            return st.builds(kind.cls, **{field.name: values(field.type) for field in kind.fields})
        case _:
            return _PLAIN[type(kind)]


_PLAIN: dict[type[inspect.Type], st.SearchStrategy[Any]] = {
    inspect.NoneType: st.none(),
    inspect.BoolType: st.booleans(),
    inspect.IntType: st.integers(),
    inspect.FloatType: st.floats(allow_nan=False, allow_infinity=False),
    inspect.StrType: TEXT,
    inspect.AnyType: JSON,
}

"""Draws complete outputs of a built-in tool or of a family from their types.

Hypothesis draws the texts and the numbers, a handful of each, and a seed; the seed puts them
together. With a choice of Hypothesis's own for every field and every member, ten thousand outputs of
one tool took more than twice as long; what that buys, smaller counter-examples, is switched off here.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import cache, partial
from random import Random
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from envelopes.families.base import Family
from envelopes.families.registry import builtin
from envelopes.schema.budget import RECEIPT_CHARACTERS
from envelopes.schema.result import CompleteOutput, JsonValue, ToolError
from envelopes.schema.tool import DISPATCH_KINDS
from envelopes.text.preview import FileText, read_file_text

TEXT = st.text(st.characters(exclude_categories=()), max_size=40) | st.builds(
    lambda part, times: part * times, st.sampled_from(["line of text\n", "word ", "x", "\n"]), st.integers(0, 2_000)
)
ROOM = 20 * RECEIPT_CHARACTERS  # of a repeated list: far beyond every bound, lists of lists grew to 100 MB
DEEPEST = 3  # of nested JSON


class Drawn(msgspec.Struct, frozen=True):
    """The parts that outputs are composed of."""

    random: Random
    texts: list[str]
    integers: list[int]
    floats: tuple[float, float]

    def text(self) -> str:
        """Draws one of the texts, or the end of one after the beginning of another."""
        first, second = self.random.choice(self.texts), self.random.choice(self.texts)
        if self.random.random() < 0.6:
            return first
        return first[: self.random.randint(0, len(first))] + second[self.random.randint(0, len(second)) :]

    def integer(self) -> int:
        return self.random.choice((*self.integers, self.random.randint(-2, 400)))

    def scalar(self) -> JsonValue:
        number = self.random.choice(self.floats)
        return self.random.choice((None, True, False, self.integer(), number, self.text(), self.text()))

    def json(self, depth: int = 0) -> JsonValue:
        sort = self.random.randrange(4) if depth < DEEPEST else 0
        if sort == 2:
            return [self.json(depth + 1) for _ in range(self.random.randrange(4))]
        if sort == 3:
            return {self.text()[:8]: self.json(depth + 1) for _ in range(self.random.randrange(5))}
        return self.scalar()


DRAWN = st.builds(
    Drawn,
    st.builds(Random, st.integers(0, 2**64 - 1)),  # st.randoms() has every call pass through Hypothesis
    st.lists(TEXT, min_size=1, max_size=5),
    st.lists(st.integers(), min_size=1, max_size=2),
    st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.just(0.5)),
)


def outputs(tool: str) -> st.SearchStrategy[CompleteOutput]:
    definition = builtin(tool)[1]
    return _any_of(tool, tuple(definition.result), (*definition.error_kinds, *DISPATCH_KINDS))


def foreign_outputs(family: Family) -> st.SearchStrategy[CompleteOutput]:
    """Outputs with the result types that no built-in tool of the family has, under the name of a foreign tool."""
    tool = next((row.tools[0] for row in family.mappings if row.tools), "mcp__server__tool")
    own = {result for definition in family.tools for result in definition.result}
    return _any_of(tool, tuple(result for result in family.results if result not in own), tuple(DISPATCH_KINDS))


@cache
def _any_of(
    tool: str, results: tuple[type[msgspec.Struct], ...], kinds: tuple[str, ...]
) -> st.SearchStrategy[CompleteOutput]:
    ways = [partial(successful, tool, inspect.type_info(result)) for result in results]
    return st.builds(lambda way, drawn: way(drawn), st.sampled_from([*ways, partial(failed, tool, kinds)]), DRAWN)


def successful(tool: str, result: inspect.Type, drawn: Drawn) -> CompleteOutput:
    return CompleteOutput(tool_name=tool, status="success", summary_text=f"{tool} is done", result=value(result, drawn))


def failed(tool: str, kinds: Sequence[str], drawn: Drawn) -> CompleteOutput:
    choice, names = drawn.random.choice, ["field", "task_id", "url", "workdir"]
    named = drawn.random.sample(names, drawn.random.randint(0, len(names)))
    error = ToolError(
        kind=choice(kinds),
        message=drawn.text(),
        details=choice([None, {name: drawn.json() for name in named}]),
        recovery_hint=choice([None, drawn.text()]),
        retryable=choice([True, False]),
    )
    return CompleteOutput(tool_name=tool, status="error", summary_text=f"{tool} failed", error=error)


def value(kind: inspect.Type, drawn: Drawn) -> Any:
    """Draws a value of a type. Lists may be long by repetition, so that limits are reached."""
    match kind:
        case inspect.Metadata():
            return value(kind.type, drawn)
        case inspect.LiteralType():
            return drawn.random.choice(kind.values)
        case inspect.UnionType():
            return value(drawn.random.choice(kind.types), drawn)
        case inspect.VarTupleType():
            return tuple(repeated(kind.item_type, drawn))
        case inspect.ListType():
            return repeated(kind.item_type, drawn)
        case inspect.DictType():
            several = range(drawn.random.randrange(4))
            return {value(kind.key_type, drawn): value(kind.value_type, drawn) for _ in several}
        case inspect.StructType(cls=built) if built is FileText:
            return read_file_text(io.BytesIO(drawn.text().encode("utf-8", "replace")), "log")
        case inspect.StructType():
            return kind.cls(**{field.name: value(field.type, drawn) for field in kind.fields})
        case _:
            return _PLAIN[type(kind)](drawn)


def repeated(item: inspect.Type, drawn: Drawn) -> list[Any]:
    some = [value(item, drawn) for _ in range(drawn.random.randrange(4))]
    return some * max(1, min(drawn.random.choice([1, 1, 1, 120]), ROOM // len(repr(some))))


_PLAIN: dict[type[inspect.Type], Callable[[Drawn], Any]] = {
    inspect.NoneType: lambda _: None,
    inspect.BoolType: lambda drawn: drawn.random.choice([True, False]),
    inspect.IntType: Drawn.integer,
    inspect.FloatType: lambda drawn: drawn.random.choice(drawn.floats),
    inspect.StrType: Drawn.text,
    inspect.AnyType: Drawn.json,
}

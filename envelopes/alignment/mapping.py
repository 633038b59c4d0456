"""What a foreign agent recorded about one call, and how a family takes it in.

    Evidence     the surfaces of one recorded call, already tamed JSON
    Reading      the typed complete output, and which recorded field became which canonical one
    ToolMapping  one row of a family's `(agent, tool)` mapping, with its own version

A source's own error flag is evidence and is kept; the reading decides what the envelope says
(a non-zero exit is a verdict inside a success, design.md section 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Literal, TypeAlias

import msgspec

from envelopes.alignment.spans import Span
from envelopes.schema.result import CompleteOutput, JsonValue

ResultFidelity: TypeAlias = Literal["structured", "bounded", "stringified", "parsed_from_receipt", "absent"]
ReceiptFidelity: TypeAlias = Literal["exact", "recorded", "reconstructed", "inflated", "masked", "absent"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """`has_result` tells a recorded null from nothing recorded. `receipt_text` joins the text parts."""

    agent: str
    tool: str
    args: JsonValue
    result: JsonValue = None
    has_result: bool = False
    receipt_text: str | None = None
    is_error: bool | None = None


class OutputField(msgspec.Struct, frozen=True):
    """A recorded string whose lines the model is meant to read, for the drawing of the cut.

    `first_line` and `total_lines` place it inside something larger (a Read of lines 200 to 400 of
    a file of 1,432): both count lines, `first_line` from 1. The first `start` characters are the
    source's own prefix (`Error: `) and no part of the output.
    """

    pointer: str
    first_line: int = 1
    total_lines: int | None = None
    start: int = 0


class FieldSlice(msgspec.Struct, frozen=True):
    """Characters [start, end) of a recorded string that are another canonical field than the rest of it is."""

    pointer: str
    start: int
    end: int
    canonical: str


class Reading(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """`links` maps pointers into the recorded result to pointers into the canonical envelope.

    A link covers what lies below it: `/filenames` -> `/result/filenames` also ties `/filenames/3`.

    `build` makes the complete output when `complete` is first used: a page that has the stored envelope needs
    the links alone, and typing the twenty thousand items of a list takes longer than the rest of the page.
    """

    build: Callable[[], CompleteOutput]
    fidelity: ResultFidelity
    links: Mapping[str, str] = {}
    outputs: tuple[OutputField, ...] = ()
    slices: tuple[FieldSlice, ...] = ()

    @cached_property
    def complete(self) -> CompleteOutput:
        return self.build()


class ItemLinks(Mapping[str, str]):
    """The members of `count` items of a list, `/tasks/3/id` -> `/result/work_items/3/id`, beside `links` of their own.

    `names` are members by their recorded name. Nothing is made before it is asked for: a list may be long.
    """

    def __init__(
        self, recorded: str, canonical: str, count: int, names: Mapping[str, str], links: Mapping[str, str]
    ) -> None:
        self.recorded, self.canonical = f"{recorded}/", f"{canonical}/"
        self._count, self.names, self._links = count, names, links

    def __getitem__(self, pointer: str) -> str:
        above, _, name = pointer.rpartition("/")
        item = self.item(above)
        if item is None or name not in self.names:
            return self._links[pointer]
        return f"{item}/{self.names[name]}"

    def item(self, pointer: str) -> str | None:
        """Where the item at that pointer stands in the envelope; None: it is no item of this list."""
        index = self.index(pointer)
        return f"{self.canonical}{index}" if index else None

    def index(self, pointer: str) -> str:
        """As it is written there; empty: it is no item of this list."""
        found = pointer[len(self.recorded) :] if pointer.startswith(self.recorded) else ""
        return found if found.isascii() and found.isdigit() and int(found) < self._count else ""

    def __iter__(self) -> Iterator[str]:
        yield from self._links
        for index in range(self._count):
            yield from (f"{self.recorded}{index}/{name}" for name in self.names)

    def __len__(self) -> int:
        return len(self._links) + self._count * len(self.names)


class ToolMapping(msgspec.Struct, frozen=True, kw_only=True):
    """`tools` are the agent's own names. Raise `version` whenever `read` says something new.

    `align` gives a list in any order, or yields spans in the order of the text: of a long receipt a page
    shows the beginning, and whoever yields is asked for no more than that.

    `lists` are members of the recorded result of which the beginning tells where the beginning of a receipt is
    from: what `align` yields goes through them in order, and `read` makes of them no more than their links.
    """

    agent: str
    tools: tuple[str, ...]
    version: int
    read: Callable[[Evidence], Reading]
    align: Callable[[Evidence, str], Iterable[Span]]
    lists: tuple[str, ...] = ()

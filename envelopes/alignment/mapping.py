"""The types of a mapping: how a family reads what a foreign agent recorded about one call.

    Evidence     the recorded arguments, result and receipt of one call, as parsed JSON
    Reading      the typed complete output, and which recorded field became which canonical one
    ToolMapping  one row of a family's `(agent, tool)` table, with its own version

The source's own error flag is kept as evidence; the reading decides the status of the envelope (a non-zero
exit is a verdict inside a success, D-8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Literal, TypeAlias

import msgspec

from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.spans import Span
from envelopes.schema.result import CompleteOutput, JsonValue, ToolError
from envelopes.text.preview import Cut

ResultFidelity: TypeAlias = Literal["structured", "bounded", "stringified", "parsed_from_receipt", "absent"]
ReceiptFidelity: TypeAlias = Literal["exact", "recorded", "reconstructed", "inflated", "masked", "absent"]


# What is said of an output of which the receipt does not have every line:
#   certain    that the others were cut: the family knows how its agent prints this text
#   proven     the same where `foreign_receipts.is_cut_proven`, else that it is not known
#   shortened  as proven, but nothing where it is not known: the text is one of many that a result has
Claim: TypeAlias = Literal["certain", "proven", "shortened"]

NATIVE = "native"  # the agent of native records, which any runtime may write


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded surfaces of one call.

    `has_result` distinguishes a recorded null from no record. `receipt_text` joins the text parts of the receipt.
    `is_further`: that text is one that the model got behind earlier ones of the call, without those.
    `skip` is the reason of a call that its source skipped and that has neither a result nor an error; without a message
    it is the kind of a call that was refused or stopped, and the result, or the receipt, is the message.
    """

    agent: str
    tool: str
    args: JsonValue
    result: JsonValue = None
    has_result: bool = False
    receipt_text: str | None = None
    is_error: bool | None = None
    skip: ToolError | None = None
    is_further: bool = False


class OutputField(msgspec.Struct, frozen=True):
    """A recorded string whose lines the model is meant to read; the cut is measured on these fields.

    `first_line` and `total_lines` locate the field in a larger file (a Read of lines 200 to 400 of 1,432):
    both count lines, `first_line` from 1. The first `start` characters are a prefix that the source added
    (`Error: `) and do not belong to the output. `is_asked`: the arguments of the call chose these lines of the file.
    `ends_in_blank_line`: the file goes on behind the text, so that a blank line is behind its last line break.
    """

    pointer: str
    first_line: int = 1
    total_lines: int | None = None
    start: int = 0
    is_asked: bool = False
    claim: Claim = "certain"
    ends_in_blank_line: bool = False

    def with_blank_line(self, cut: Cut) -> Cut:
        """The cut of the text with all lines that it has in its file."""
        if not self.ends_in_blank_line:
            return cut
        shown = tuple((start, end + (end == cut.total)) for start, end in cut.shown)
        return Cut(cut.unit, cut.total + 1, shown)


class FieldSlice(msgspec.Struct, frozen=True):
    """Characters [start, end) of a recorded string that became another canonical field than the rest of it."""

    pointer: str
    start: int
    end: int
    canonical: str


class Reading(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A recorded result as the family reads it.

    `links` maps pointers into the recorded result to pointers into the canonical envelope. A link also covers
    what is below it: `/filenames` -> `/result/filenames` includes `/filenames/3`.

    `source_cuts` are parts of the output that neither the recorded result nor the receipt contains. `is_cut_unknown`:
    the receipt has more of the output than the record, or later receipts have the rest, so that no cut is claimed.

    `build` makes the complete output when `complete` is first used: a page that has the stored envelope needs
    the links alone, and typing the twenty thousand items of a list takes longer than the rest of the page.
    """

    build: Callable[[], CompleteOutput]
    fidelity: ResultFidelity
    links: Mapping[str, str] = {}
    outputs: tuple[OutputField, ...] = ()
    slices: tuple[FieldSlice, ...] = ()
    source_cuts: tuple[SourceCut, ...] = ()
    is_cut_unknown: bool = False

    @cached_property
    def complete(self) -> CompleteOutput:
        return self.build()


def bounded_fidelity(fidelity: ResultFidelity, source_cuts: tuple[SourceCut, ...]) -> ResultFidelity:
    """The fidelity of a recorded result that its source shortened; one that was not recorded keeps its own."""
    return "bounded" if source_cuts and fidelity in ("structured", "stringified") else fidelity


class ItemLinks(Mapping[str, str]):
    """Links of the items of one long list, computed when they are looked up, and a few `links` beside them.

    `/tasks/3/id` -> `/result/work_items/3/id`, for each of `count` items and each recorded name in `names`.
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
        """The canonical pointer of the item at a recorded pointer; None for anything but an item of the list."""
        index = self.index(pointer)
        return f"{self.canonical}{index}" if index else None

    def index(self, pointer: str) -> str:
        """The index of the item at a recorded pointer, as text; empty for anything but an item of the list."""
        index = pointer[len(self.recorded) :] if pointer.startswith(self.recorded) else ""
        return index if index.isascii() and index.isdigit() and int(index) < self._count else ""

    def __iter__(self) -> Iterator[str]:
        yield from self._links
        for index in range(self._count):
            yield from (f"{self.recorded}{index}/{name}" for name in self.names)

    def __len__(self) -> int:
        return len(self._links) + self._count * len(self.names)


class NoReading(Exception):
    """Raised by a mapping for a call that is none of its tool's: it is read as that of any tool, without a note."""


class ToolMapping(msgspec.Struct, frozen=True, kw_only=True):
    """One family's reading and alignment of the results of some foreign tools.

    `tools` are the agent's own names. Raise `version` whenever `read` returns something else than before.

    `align` returns a list in any order, or yields spans in the order of the text: a page that shows the
    beginning of a long receipt stops the generator there.

    `lists`: fields of the recorded result that `align` consumes in order; for a long receipt only their first
    elements are decoded. `read` must use nothing of these fields but their links.
    """

    agent: str
    tools: tuple[str, ...]
    version: int
    read: Callable[[Evidence], Reading]
    align: Callable[[Evidence, str], Iterable[Span]]
    lists: tuple[str, ...] = ()

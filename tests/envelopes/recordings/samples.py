"""Recordings of real agents as the tests read them: their records, both halves of each call, and what is linked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from pathlib import Path

from envelopes.alignment.receipt_parts import join_contents
from envelopes.families.registry import is_mapped
from envelopes.halves import Halves, read_halves
from envelopes.recordings import detect_format
from envelopes.recordings.base import (
    CallRecord,
    Format,
    LineProblem,
    ReceiptRecord,
    Record,
    ResultRecord,
    SourceLine,
    SourcePath,
)
from envelopes.schema.result import JsonValue
from envelopes.text.pointer import text_at

FOLDER = Path(__file__).parent
HEAD_BYTES = 65_536
LEAST_LINE = 4  # characters: a shorter line of a receipt occurs in a result by chance


def lines_of(raw: bytes) -> Iterator[SourceLine]:
    offset = 0
    for number, line in enumerate(BytesIO(raw), start=1):
        yield SourceLine(number, offset, line)
        offset += len(line)


@dataclass(frozen=True)
class Sample:
    """A recording with its records. `calls` have the first call, result and receipt record of each id."""

    path: str
    raw: bytes
    format: Format
    records: tuple[Record | LineProblem, ...]

    @property
    def calls(self) -> list[CallRecord]:
        return [record for record in self.records if isinstance(record, CallRecord)]

    @property
    def results(self) -> dict[str, ResultRecord]:
        first: dict[str, ResultRecord] = {}
        for record in self.records:
            if isinstance(record, ResultRecord) and record.result is not None:
                first.setdefault(record.call, record)
        return first

    @property
    def receipts(self) -> dict[str, ReceiptRecord]:
        first: dict[str, ReceiptRecord] = {}
        for record in self.records:
            if isinstance(record, ReceiptRecord):
                first.setdefault(record.call, record)
        return first

    def receipts_of(self, call: str) -> list[ReceiptRecord]:
        """The first receipt of a call, and those that the model got behind it."""
        records = [record for record in self.records if isinstance(record, ReceiptRecord) and record.call == call]
        return [*records[:1], *(record for record in records[1:] if record.is_further)]

    @property
    def problems(self) -> list[LineProblem]:
        return [record for record in self.records if isinstance(record, LineProblem)]

    def halves(self) -> Iterator[Halves]:
        flags = {
            record.call: record.is_error
            for record in self.records
            if isinstance(record, ResultRecord) and record.is_error is not None
        }
        for call in self.calls:
            result = self.results.get(call.call)
            contents = [entry.content for entry in self.receipts_of(call.call)]
            yield read_halves(
                agent=self.format.agent,
                tool=call.tool,
                args=call.args,
                result=result.result if result else None,
                content=join_contents(contents) if len(contents) > 1 else next(iter(contents), None),
                is_error=flags.get(call.call),
            )

    def ends(self, tool: str, words: str) -> list[JsonValue]:
        """How the calls of a tool ended whose arguments have the words: the kind of error, else the exit status."""
        asked = [
            halves.projection.canonical
            for call, halves in zip(self.calls, self.halves(), strict=True)
            if call.tool == tool and words in json.dumps(json.loads(call.args or b""))
        ]
        results = [canonical.result if isinstance(canonical.result, dict) else {} for canonical in asked]
        return [
            canonical.error.kind if canonical.error else result.get("exit_status")
            for canonical, result in zip(asked, results, strict=True)
        ]


def read_bytes(raw: bytes, path: str) -> Sample:
    """Reads a recording whose format is detected by its content. Raises UnknownFormat."""
    source_path = SourcePath(path)
    recording = detect_format(raw[:HEAD_BYTES], source_path)
    return Sample(path, raw, recording, tuple(recording.read(lines_of(raw), source_path, {})))


def read_sample(path: str) -> Sample:
    """Reads a file of the samples beside the tests."""
    return read_bytes((FOLDER / path).read_bytes(), path)


@dataclass
class FolderFiles:
    """The files beside one of a session."""

    path: Path

    def names(self) -> Sequence[str]:
        return sorted(path.name for path in self.path.iterdir())

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()


def read_folder(folder: Path) -> Sample:
    """Reads the files of a session as one sample. A call that two of them have comes once."""
    records: list[Record | LineProblem] = []
    for path in sorted(folder.rglob("*.jsonl")):
        place, raw = SourcePath(path.as_posix(), folder=FolderFiles(path.parent)), path.read_bytes()
        recording = detect_format(raw[:HEAD_BYTES], place)
        known = {record.call for record in records if isinstance(record, CallRecord)}
        records += (
            record
            for record in recording.read(lines_of(raw), place, {})
            if not (isinstance(record, CallRecord) and record.call in known)
        )
    return Sample(folder.name, b"", recording, tuple(records))


def read_in_parts(raw: bytes, path: str, size: int) -> list[Record | LineProblem]:
    """Reads `size` lines at a time, with the state that is stored between two parts of a growing file."""
    recording = detect_format(raw[:HEAD_BYTES], SourcePath(path))
    records: list[Record | LineProblem] = []
    state: dict[str, object] = {}
    lines = lines_of(raw)
    while part := list(islice(lines, size)):
        records += recording.read(iter(part), SourcePath(path), state)
        state = json.loads(json.dumps(state))
    return records


# Tools of the servers that the sampled agents were given, and names that no tool has.
NO_TOOL_OF_THE_AGENT = re.compile(r"demo[_-]|(?:no_such|nonexistent)_tool\Z|invalid\Z")


@dataclass
class Shares:
    """What the mappings of one agent account for: its calls with a typed mapping, characters of receipts with a link.

    Calls of other tools than the agent's own have no mapping, and their receipts count all the same.
    `repeated` are the characters of lines of receipts that occur in the recorded result of their call.
    """

    calls: int = 0
    typed: int = 0
    repeated: int = 0
    linked: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        for call, halves in zip(sample.calls, sample.halves(), strict=True):
            if not NO_TOOL_OF_THE_AGENT.match(call.tool):
                self.calls += 1
                self.typed += is_mapped(sample.format.agent, call.tool)
            if halves.note:
                self.notes.append(f"{call.tool}: {halves.note}")
            if halves.receipt is None:
                continue
            check_links(halves)
            if not halves.evidence.has_result:
                continue
            recorded = "\n".join(texts_in(halves.evidence.result))
            for segment in halves.receipt.segments:
                for line in segment.text.split("\n"):
                    if len(line) >= LEAST_LINE and line in recorded:
                        self.repeated += len(line)
                        self.linked += len(line) if segment.source else 0


def check_links(halves: Halves) -> None:
    """Every linked segment is the text of its source, or the JSON of it."""
    assert halves.receipt is not None
    documents = {"complete": halves.evidence.result, "args": halves.evidence.args}
    for segment in halves.receipt.segments:
        if segment.source is None or not segment.source.end:
            continue
        value = text_at(documents[segment.source.document], segment.source.pointer)
        assert value is not None, segment
        text = value[segment.source.start : segment.source.end]
        assert segment.text in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])


def texts_in(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for member in value.values():
                yield from texts_in(member)
        case list():
            for element in value:
                yield from texts_in(element)

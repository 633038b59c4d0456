"""The place of a record, in the words of its format, is where the sample has the record."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from envelopes.recordings import RECORDINGS, UnknownFormat, detect_format
from envelopes.recordings.base import (
    CallRecord,
    EventRecord,
    Format,
    LineRecord,
    MessageRecord,
    SourcePath,
    SupersedeRecord,
    UsageRecord,
)
from envelopes.recordings.places import PlaceName, name_line, name_position
from envelopes.schema.result import JsonValue
from envelopes.storage.seekable import load_zstd
from tests.envelopes.recordings.samples import FOLDER, HEAD_BYTES, FolderFiles, lines_of
from tests.source import CHECKOUT

FOLDERS = (
    *(
        "atif",
        "audit",
        "cline/3.0.65",
        "cline/tasks",
        "codex",
        "continue_cli",
        "gemini_cli",
        "inspect_ai",
        "kimi_cli",
        "kimi_code",
    ),
    *(
        "mcp_frames",
        "message_dumps",
        "mini_swe_agent",
        "mistral_vibe",
        "openhands",
        "otlp/logs",
        "releases",
        "swe_agent",
    ),
)
FILES = ("codex_exec.jsonl", "stream.jsonl", "otlp/openinference_openai_0.1.66_cut.jsonl")
CLAUDE_CODE = CHECKOUT / "dashboard/samples/entire/microcompact.excerpt.jsonl"
# Formats whose readers place a record as another format's does that has a sample, or that have no file at all.
WITHOUT_SAMPLE = {
    *("otlp-protobuf", "otlp-document", "codex-otel", "native", "openai-responses", "anthropic", "openai-chat"),
    *("claude-code-hooks", "claude-code-journal"),
}
WITHOUT_CALLS = {  # or with those of programs alone
    *("claude-code-agent", "claude-code-otel", "mistral-vibe-facts", "continue-cli-index"),
}
FIRST_TIME = 10**14  # places of programs are microseconds
LEAST_CHARACTERS = 12  # of a text: a shorter one is at other places by chance
each_format = pytest.mark.parametrize("recording", RECORDINGS, ids=[recording.name for recording in RECORDINGS])


@cache
def samples() -> dict[str, list[tuple[Path, bytes]]]:
    """The files of the samples by the names of their formats."""
    paths = [path for folder in FOLDERS for path in sorted((FOLDER / folder).rglob("*")) if path.is_file()]
    found: dict[str, list[tuple[Path, bytes]]] = defaultdict(list)
    for path in [*paths, *(FOLDER / name for name in FILES), CLAUDE_CODE]:
        raw = path.read_bytes()
        try:
            found[detect_format(raw[:HEAD_BYTES], source_path(path)).name].append((path, raw))
        except UnknownFormat:
            continue  # what was sent, licences
    path, raw = found["codex"][0]
    found["codex-zst"] = [(path.with_suffix(".jsonl.zst"), load_zstd().compress(raw))]
    return found


def source_path(path: Path) -> SourcePath:
    return SourcePath(path.as_posix(), folder=FolderFiles(path.parent))


def records_of(recording: Format, path: Path, raw: bytes) -> list[LineRecord]:
    records = recording.read(lines_of(raw), source_path(path), {})
    return [record for record in records if isinstance(record, LineRecord)]


def find_text(name: PlaceName, run: str, path: Path, raw: bytes) -> str | None:
    """What the recording has at a place, by its words alone; None for words that name nothing that can be found."""
    if name.number is None or name.noun == "position":
        return None
    if name.noun == "message":
        document = json.loads(raw)
        return json.dumps((document if isinstance(document, list) else document["messages"])[name.number])
    if name.noun == "step":
        return json.dumps(json.loads(raw)["steps"][name.number - 1])
    if name.noun == "item":
        return json.dumps(json.loads(raw)["history"][name.number - 1])
    if name.noun == "event":
        [event] = path.parent.glob(f"event-{name.number:05}-*.json")
        return event.read_text("utf-8")
    assert name.noun == "line"
    is_whole = run.rpartition("/")[2] == path.parent.name  # not of a subagent that has no files of its own
    if ("kimi_cli" in path.parts and path.name == "wire.jsonl" and is_whole) or name.within:
        number = name.within.removeprefix(" of context ") or "1"
        numbered = path.with_name(f"context_{number}.jsonl")
        raw = (numbered if numbered.exists() else path.with_name("context.jsonl")).read_bytes()
    elif path.suffix == ".zst":
        raw = load_zstd().decompress(raw)
    return raw.split(b"\n")[name.number - 1].decode()


def leaves(value: JsonValue) -> Iterator[str]:
    """The texts in a value, and in texts that are JSON by themselves."""
    if isinstance(value, str):
        try:
            inner = json.loads(value)
        except ValueError:
            inner = None
        yield from leaves(inner) if isinstance(inner, dict | list) else [value]
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from leaves(member)


def texts_of(record: LineRecord) -> list[str]:
    """The texts of a call or a message that are long enough to be found. A reader may put several into a sentence."""
    raw = record.args if isinstance(record, CallRecord) else getattr(record, "content", None)
    pieces = [piece for text in leaves(json.loads(raw or b"null")) for piece in re.split(r"[\n`]", text)]
    return [piece for piece in pieces if len(piece) >= LEAST_CHARACTERS]


@each_format
def test_what_a_place_names_has_the_record_in_it(recording: Format) -> None:
    """Of each call and message the texts are there; a number that is no line, message or event is not called one."""
    checked = 0
    for path, raw in samples()[recording.name]:
        for record in records_of(recording, path, raw):
            if record.place >= FIRST_TIME or not isinstance(record, CallRecord | MessageRecord):
                continue
            name = recording.name_place(record.place)
            there = find_text(name, record.run, path, raw)
            if there is None:
                assert name.noun in ("position", "the start", "the end of the context"), (path.name, str(name))
                continue
            written = "\n".join(leaves(json.loads(there)))
            assert [text for text in texts_of(record) if text not in written] == [], (path.name, str(name))
            checked += 1
    assert checked or recording.name_place is name_position or recording.name in WITHOUT_SAMPLE | WITHOUT_CALLS


@each_format
def test_a_format_whose_places_are_called_lines_has_the_lines_of_its_records_there(recording: Format) -> None:
    """An event may stand before its line, a receipt may end at that of another record, usage is at its request's."""
    if recording.name_place is not name_line or recording.name == "codex-zst":  # whose lines are packed
        return
    for path, raw in samples()[recording.name]:
        records = records_of(recording, path, raw)
        lines = {record.line for record in records}
        for record in records:
            if record.place < FIRST_TIME:
                early = isinstance(record, EventRecord) and record.place == record.line - 1
                ends = isinstance(record, SupersedeRecord) and record.place in lines
                begins = isinstance(record, UsageRecord) and 0 < record.place < record.line
                assert record.place == record.line or early or ends or begins, (path.name, record)


def test_every_format_has_a_sample_or_places_as_another_one() -> None:
    assert {recording.name for recording in RECORDINGS} - samples().keys() <= WITHOUT_SAMPLE


@pytest.mark.parametrize(
    ("format_name", "place", "words"),
    [
        ("claude-code", 8_002, "line 8,002"),
        ("claude-code", 0, "the start"),
        ("cline", 0, "the start"),
        ("cline", 1, "message 0"),
        ("cline-task", 9_998, "message 9"),
        ("openhands", 1, "event 0"),
        ("openhands", 8_004, "event 2,000"),
        ("kimi-cli", 12, "line 12"),
        ("kimi-cli", 99_999, "the end of the context"),
        ("kimi-cli", 100_000, "the start of context 2"),
        ("kimi-cli", 100_012, "line 12 of context 2"),
        ("kimi-cli", 299_999, "the end of context 3"),
        ("gemini-cli", 12, "position 12"),
        ("gemini-cli-jsonl", 12, "line 12"),
    ],
)
def test_a_place_is_named_as_its_format_counts(format_name: str, place: int, words: str) -> None:
    [recording] = [recording for recording in RECORDINGS if recording.name == format_name]
    assert str(recording.name_place(place)) == words


@pytest.mark.parametrize(
    ("format_name", "first", "last", "words"),
    [
        ("codex", 3, 40, "lines 3 to 40"),
        ("codex", 3, 3, "line 3"),
        ("cline", 9_001, 12_400, "messages 9 to 12"),
        ("cline", 9_001, 9_400, "message 9"),
        ("cline", 0, 9_400, "the start to message 9"),
        ("kimi-cli", 100_003, 100_009, "lines 3 to 9 of context 2"),
        ("kimi-cli", 3, 100_009, "line 3 to line 9 of context 2"),
        ("opencode", 40, 57, "positions 40 to 57"),
    ],
)
def test_a_range_of_places_has_its_noun_once(format_name: str, first: int, last: int, words: str) -> None:
    [recording] = [recording for recording in RECORDINGS if recording.name == format_name]
    assert recording.name_place(first).through(recording.name_place(last)) == words

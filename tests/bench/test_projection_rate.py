"""How fast a recorded call is projected and rendered, hashes included.

python -m pytest -m bench tests/bench/test_projection_rate.py -s -n 0
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from envelopes.alignment.mapping import Evidence
from envelopes.families.base import Family
from envelopes.families.registry import find_mapping
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.recordings import UnknownFormat, detect_format
from envelopes.recordings.base import CallRecord, ResultRecord, SourceLine, SourcePath
from envelopes.schema.result import CompleteOutput
from envelopes.storage.sinks import MemorySink
from envelopes.text.canonical_json import hash_value
from envelopes.text.untrusted_json import Untrusted, parse_json

LEAST_RATE = 5_000  # calls a second and core
SMALL = 4 * 1024  # bytes of the recorded result
MOST_CALLS = 5_000
ROUNDS = 5


@pytest.mark.bench
@pytest.mark.recordings
def test_five_thousand_small_calls_a_second_are_projected_rendered_and_hashed(recordings_root: Path) -> None:
    calls = list(_small_calls(recordings_root / "claude-code"))
    documents = [
        project(complete, family, family.projection, MemorySink()).canonical.to_json() for family, complete in calls
    ]
    whole = min(_seconds(_both_halves, calls) for _ in range(ROUNDS))
    floor = min(_seconds(_dumped, documents) for _ in range(ROUNDS))
    rate = len(calls) / whole
    print(
        f"{len(calls)} calls: {rate:,.0f} a second and core, {whole / len(calls) * 1e6:.0f} µs each; "
        f"json.dumps of the same envelopes {floor / len(calls) * 1e6:.0f} µs, ratio {whole / floor:.1f}"
    )
    assert len(calls) > 1_000
    assert rate >= LEAST_RATE


def _seconds(work: object, given: object) -> float:
    """Processor time: what others do on the machine is not measured."""
    start = time.process_time()
    work(given)  # type: ignore[operator]
    return time.process_time() - start


def _both_halves(calls: list[tuple[Family, CompleteOutput]]) -> None:
    for family, complete in calls:
        canonical = project(complete, family, family.projection, MemorySink()).canonical
        hash_value(canonical.to_json())
        hashlib.sha256(render(canonical, family, family.rendering).text.encode("utf-8", "surrogatepass")).hexdigest()


def _dumped(documents: list[object]) -> None:
    for document in documents:
        json.dumps(document)


def _small_calls(folder: Path) -> Iterator[tuple[Family, CompleteOutput]]:
    """Complete outputs of recorded calls with a result under 4 KB, as their families read them."""
    found = 0
    for path in sorted(folder.rglob("*.jsonl")):
        for family, complete in _calls_of(path):
            yield family, complete
            found += 1
            if found == MOST_CALLS:
                return


def _calls_of(path: Path) -> Iterator[tuple[Family, CompleteOutput]]:
    with path.open("rb") as file:
        lines = [SourceLine(number, 0 if number == 1 else 1, raw) for number, raw in enumerate(file, start=1)]
    place = SourcePath(path.name)
    try:
        reader = detect_format(b"".join(line.raw for line in lines[:50])[:65_536], place)
    except UnknownFormat:
        return
    asked: dict[str, CallRecord] = {}
    for record in reader.read(lines, place, {}):
        if isinstance(record, CallRecord):
            asked[record.call] = record
        elif isinstance(record, ResultRecord) and record.call in asked and len(record.result or b"") < SMALL:
            yield from _read(reader.agent, asked[record.call], record)


def _read(agent: str, call: CallRecord, record: ResultRecord) -> Iterator[tuple[Family, CompleteOutput]]:
    family, row = find_mapping(agent, call.tool)
    if record.result is None:
        return
    try:
        args, result = parse_json(call.args), parse_json(record.result)
    except Untrusted:
        return
    evidence = Evidence(
        agent=agent,
        tool=call.tool,
        args=args,
        result=result,
        has_result=True,
        is_error=record.is_error,
        receipt_text="",
    )
    yield family, row.read(evidence).complete

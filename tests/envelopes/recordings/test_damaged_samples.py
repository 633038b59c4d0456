"""Recordings with changed bytes and changed values: a reader raises nothing, and keeps what is whole."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from envelopes.halves import read_halves
from envelopes.recordings import RECORDINGS
from envelopes.recordings.base import CallRecord, LineProblem, ReceiptRecord, ResultRecord, SourcePath
from tests.envelopes.recordings.samples import FOLDER, lines_of

SAMPLES = sorted(
    path
    for pattern in ("*.json", "*.jsonl", "*.traj", "*.eval")
    for path in FOLDER.glob(f"*/{pattern}")
    if path.parent.name not in ("audit", "resumed", "rewritten")
)
OTHERS: tuple[Any, ...] = (None, 0, -1, 1.5, "", [], {}, True, "x", [1], {"a": 1}, ["a", None], 10**30, "\0")
ROUNDS = 12
MOST_CALLS = 20  # of a changed sample, whose halves are read too


def changed_values(value: Any, chance: random.Random) -> Any:
    """The same JSON with some values replaced and some members left out."""
    if chance.random() < 0.03:
        return chance.choice(OTHERS)
    if isinstance(value, dict):
        return {name: changed_values(member, chance) for name, member in value.items() if chance.random() > 0.01}
    return [changed_values(element, chance) for element in value[:40]] if isinstance(value, list) else value


def changed(raw: bytes, name: str, chance: random.Random) -> bytes:
    if name.endswith(".eval") or chance.random() < 0.4:
        damaged = bytearray(raw[: chance.choice((300, 5_000, 60_000, len(raw)))])
        for _ in range(chance.randrange(8)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        return bytes(damaged)
    if name.endswith(".jsonl"):
        lines = chance.sample(raw.splitlines(), min(30, raw.count(b"\n")))
        return b"\n".join(json.dumps(changed_values(json.loads(line), chance)).encode() for line in lines)
    return json.dumps(changed_values(json.loads(raw), chance), indent=chance.choice((None, 2))).encode()


def read_all(raw: bytes, path: str) -> None:
    """Reads the bytes with every reader, and the halves of some of the calls."""
    lines = list(lines_of(raw))
    for recording in RECORDINGS:
        recording.sniff(raw[:65_536], SourcePath(path))
        if recording.is_document is path.endswith(".jsonl"):
            continue
        state: dict[str, object] = {}
        records = list(recording.read(iter(lines), SourcePath(path), state))
        assert json.loads(json.dumps(state)) == state
        assert all(1 <= record.line <= max(1, len(lines)) for record in records)
        assert all(record.reason for record in records if isinstance(record, LineProblem))
        results = {record.call: record.result for record in records if isinstance(record, ResultRecord)}
        receipts = {record.call: record.content for record in records if isinstance(record, ReceiptRecord)}
        for call in [record for record in records if isinstance(record, CallRecord)][:MOST_CALLS]:
            halves = read_halves(
                agent=recording.agent,
                tool=call.tool,
                args=call.args,
                result=results.get(call.call),
                content=receipts.get(call.call),
                is_error=None,
            )
            assert "could not read" not in halves.note


@pytest.mark.extended
@pytest.mark.parametrize("path", SAMPLES, ids=[path.name for path in SAMPLES])
def test_no_change_of_a_sample_stops_a_reader(path: Any) -> None:
    chance = random.Random(path.name)
    raw = path.read_bytes()
    for _ in range(ROUNDS):
        read_all(changed(raw, path.name, chance), path.relative_to(FOLDER).as_posix())

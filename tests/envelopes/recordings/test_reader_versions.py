"""A reader that yields other records for the same bytes has another version: `rederive` reads the store again by it."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from envelopes.recordings import RECORDINGS, UnknownFormat
from tests.conftest import CHECKOUT, GOLDENS
from tests.envelopes.recordings.samples import FOLDER, read_bytes

SAMPLES = CHECKOUT / "dashboard" / "samples"
SUFFIXES = {".json", ".jsonl", ".eval", ".traj"}
# Without a sample of its own: what programs send, or another packing of a format that is here.
NOT_SAMPLED = {
    *("claude-code-hooks", "claude-code-journal", "codex-otel", "native"),
    *("otlp-protobuf", "otlp-document", "codex-zst"),
    *("openai-responses", "anthropic", "openai-chat"),
}


def stated_fields(record: msgspec.Struct) -> dict[str, Any]:
    """What the reader set: a new field of all records changes nothing until a reader sets it."""
    fields = msgspec.structs.fields(record)
    return {field.name: getattr(record, field.name) for field in fields if getattr(record, field.name) != field.default}


def read_all() -> Iterator[tuple[str, str]]:
    """The format of each sample, and a digest of its records."""
    for folder in (FOLDER, SAMPLES):
        for path in sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES):
            try:
                sample = read_bytes(path.read_bytes(), path.relative_to(folder).as_posix())
            except UnknownFormat:
                continue
            records = [(type(record).__name__, stated_fields(record)) for record in sample.records]
            yield sample.format.name, hashlib.sha256(msgspec.json.encode(records)).hexdigest()


@pytest.fixture(scope="module")
def digests() -> dict[str, str]:
    """One digest of all samples of a format."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, digest in read_all():
        found[name].append(digest)
    return {name: hashlib.sha256("".join(parts).encode()).hexdigest()[:32] for name, parts in found.items()}


def test_a_reader_that_yields_other_records_has_another_version(
    digests: dict[str, str], golden: Callable[[str, str], None]
) -> None:
    known = {
        name: (version, digest)
        for name, version, digest in map(str.split, (GOLDENS / "readers.txt").read_text().splitlines())
    }
    versions = {recording.name: str(recording.version) for recording in RECORDINGS}
    for name, digest in digests.items():
        is_other = name in known and known[name][1] != digest
        assert not is_other or known[name][0] != versions[name], (
            f"The reader {name} yields other records than its version {versions[name]} did: raise its `version`, "
            "so that `rederive` reads stored recordings again, and run with --update-goldens."
        )
    golden("readers", "".join(f"{name} {versions[name]} {digest}\n" for name, digest in sorted(digests.items())))


def test_each_format_has_a_sample_or_is_named_without_one(digests: dict[str, str]) -> None:
    assert {recording.name for recording in RECORDINGS} - digests.keys() == NOT_SAMPLED

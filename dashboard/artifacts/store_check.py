"""Whether what is stored is what was stored: files by their hashes, references by their files, bytes by their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from dashboard.artifacts.stores import artifact_files
from dashboard.models import Artifact, Observation
from envelopes.storage.file_store import MissingArtifact, Unreachable

ROWS_AT_ONCE = 200  # a row may hold megabytes


@dataclass(frozen=True)
class Finding:
    """`kind` is file, artifact or observation; `name` its place in the store or its id."""

    kind: str
    name: str
    reason: str


@dataclass(frozen=True)
class Checked:
    """`unreachable` says why the store could not be asked: of its files nothing is known then, good or bad."""

    findings: tuple[Finding, ...]
    unreachable: str = ""


def check_store() -> Checked:
    """The rows are checked whether the store of files answers or not."""
    files, unreachable = list[Finding](), ""
    try:
        files += _files()
        files += _references()
    except Unreachable as error:
        unreachable = error.strerror or str(error)
    return Checked((*files, *_observations()), unreachable)


def _files() -> Iterator[Finding]:
    for fault in artifact_files().check():
        yield Finding("file", fault.name, fault.reason)


def _references() -> Iterator[Finding]:
    """What is changed, truncated or a link is named with its file already."""
    files = artifact_files()
    kept = Artifact.objects.filter(observation=None, state=Artifact.State.PRESENT).order_by("pk")
    for pk, sha256 in kept.values_list("pk", "sha256").iterator(chunk_size=2_000):
        try:
            files.open(sha256).close()
        except MissingArtifact as missing:
            yield Finding("artifact", str(pk), f"its content is missing: {missing}")
        except Unreachable:
            raise
        except OSError as damage:
            yield Finding("artifact", str(pk), f"its content is damaged: {damage}")


def _observations() -> Iterator[Finding]:
    rows = Observation.objects.order_by("pk").values_list("pk", "sha256", "size", "data")
    for pk, sha256, size, data in rows.iterator(chunk_size=ROWS_AT_ONCE):
        raw = bytes(data)
        if len(raw) != size or hashlib.sha256(raw).hexdigest() != sha256:
            yield Finding("observation", str(pk), "its bytes are not those that were recorded")

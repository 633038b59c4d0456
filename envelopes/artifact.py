"""Where a large field goes when only a preview of it fits (RFC-059, RFC-079).

ArtifactSink   what a projector writes to
MemorySink     keeps the texts; for tests and for projections that are computed to be looked at
"""

from __future__ import annotations

import hashlib
from typing import Protocol

from envelopes.result import ArtifactRef


class ArtifactSink(Protocol):
    def write(self, role: str, text: str) -> ArtifactRef:
        """Keep `text` whole and say under which virtual path (never an OS path, spec/model.md E-5)."""


class MemorySink:
    """Deterministic: the path follows from the role and the content (RFC-085)."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def write(self, role: str, text: str) -> ArtifactRef:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        path = f"artifacts/{digest[:16]}/{role}.txt"
        self.texts[path] = text
        return ArtifactRef(path)

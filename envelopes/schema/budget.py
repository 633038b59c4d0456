"""How much fits into the canonical result, and how much into the receipt.

    ProjectionPolicy   sizes of the canonical result
    UNLIMITED          a projection that shortens nothing, for a page that shows all that was recorded
    RenderPolicy       sizes of the receipt

Each family owns its defaults (RFC-110); together they keep a receipt within 12,000 characters (E-8).
They hold for tools that promise nothing. A tool whose definition promises its caller a budget gives that one, in the
unit of the definition (E-29): its output comes on top of both ceilings. What may run at all is a third policy,
`envelopes.schema.call.RunPolicy`.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec

RECEIPT_CHARACTERS = 12_000  # OUT-008 and E-8: the ceiling of a receipt without a promised budget
# Twice what a receipt may have: handles, times and metadata come on top of the family's previews.
CANONICAL_CHARACTERS = 2 * RECEIPT_CHARACTERS
PREVIEW_CHARACTERS = 8_000
DETAILS_CHARACTERS = 1_000
# Of the message and the hint of an error in a receipt; with the details, all of them fit into one.
MESSAGE_CHARACTERS = 6_000
HINT_CHARACTERS = 2_000
LIST_ROWS = 200
HEAD_SHARE = 50
READ_ARTIFACT = "ReadArtifact"

CutAt: TypeAlias = Literal["lines", "characters"]


class ProjectionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in characters. `preview` is shared by all previews of one result; `canonical` is all of its JSON.

    `keeps_promises`: output for which the tool's definition promises a budget has that one instead. `project` sets it
    for a family's own policy, which is a default; any other policy holds for every tool.
    """

    preview: int = PREVIEW_CHARACTERS
    details: int = DETAILS_CHARACTERS
    rows: int = LIST_ROWS
    canonical: int = CANONICAL_CHARACTERS
    keeps_promises: bool = False

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits over the sizes."""
        return _size_fingerprint(self)


@lru_cache(maxsize=64)  # each call that is derived states its family's
def _size_fingerprint(policy: ProjectionPolicy) -> str:
    sizes = msgspec.structs.asdict(policy)
    del sizes["keeps_promises"]
    return _fingerprint(sizes)


UNLIMITED_CHARACTERS = 10**12
UNLIMITED = ProjectionPolicy(
    preview=UNLIMITED_CHARACTERS,
    details=UNLIMITED_CHARACTERS,
    rows=UNLIMITED_CHARACTERS,
    canonical=UNLIMITED_CHARACTERS,
)


class RenderPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`characters` bounds the whole receipt; renderers cut previews to stay within it.

    `head_share` percent of a shortened text are its beginning, and the cut keeps whole lines unless `cut_at` is
    "characters". `read_tool` is the tool by which the model opens an artifact (E-27): markers and paths
    name it. None for a profile that withholds it; then no path is written. An option at its default is left out of the
    fingerprint, so that adding an option changes no older fingerprint.
    """

    characters: int = RECEIPT_CHARACTERS
    head_share: int = HEAD_SHARE
    cut_at: CutAt = "lines"
    read_tool: str | None = READ_ARTIFACT

    @property
    def fingerprint(self) -> str:
        options: dict[str, tuple[object, object]] = {
            "head_share": (self.head_share, HEAD_SHARE),
            "cut_at": (self.cut_at, "lines"),
            "read_tool": (self.read_tool, READ_ARTIFACT),
        }
        changed = {name: value for name, (value, default) in options.items() if value != default}
        return _fingerprint({"characters": self.characters, **changed})


def _fingerprint(policy: object) -> str:
    return hashlib.sha256(msgspec.json.encode(policy, order="sorted")).hexdigest()[:16]

"""What may pass on to the canonical result, and what may pass on to the receipt.

Three kinds of policy, three names (design.md section 1): RunPolicy says what may run,
ProjectionPolicy what fits into the canonical result, RenderPolicy what fits into the receipt.
Each family owns its default (RFC-110); the sums keep a receipt within 12,000 characters
(spec/model.md E-8).
"""

from __future__ import annotations

import hashlib

import msgspec

RECEIPT_CHARACTERS = 12_000  # OUT-008 and spec/model.md E-8: the hard ceiling of any receipt
PREVIEW_CHARACTERS = 8_000
DETAILS_CHARACTERS = 1_000
LIST_ROWS = 200


class ProjectionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in characters. `preview` is shared by all previews of one result."""

    preview: int = PREVIEW_CHARACTERS
    details: int = DETAILS_CHARACTERS
    rows: int = LIST_ROWS

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self)


class RenderPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`characters` bounds the whole receipt; renderers cut previews to stay within it."""

    characters: int = RECEIPT_CHARACTERS

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self)


def _fingerprint(policy: msgspec.Struct) -> str:
    return hashlib.sha256(msgspec.json.encode(policy, order="sorted")).hexdigest()[:16]

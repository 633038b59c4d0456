"""What a recorded receipt was written from, where its record says so and the writer was one of our variants.

A record states four things: the variant's id and version, the hash of its policy, and the hash of the canonical
result. A receipt that lacks one of them, or was written by somebody else's renderer, has no fingerprint:
drift says what we would write otherwise today, and of others we know nothing.
"""

from __future__ import annotations

from dashboard.models import Receipt, ReceiptFingerprint
from dashboard.variants.fingerprints import text_sha256
from dashboard.variants.variant_list import load_current_variant
from envelopes.families.registry import all_families
from envelopes.halves import parse_parts
from envelopes.recordings.base import ReceiptRecord
from envelopes.text.untrusted_json import Untrusted, parse_json

LONGEST_POLICY = 16
DIGITS = 64  # of a sha256


def stated_fingerprint(project_id: int, receipt: Receipt, record: ReceiptRecord) -> ReceiptFingerprint | None:
    """Not saved yet. None for a receipt that does not say, or not of us."""
    said = _said(record)
    renderer, policy, canonical = (said.get(name) for name in ("renderer", "render_policy", "canonical_sha256"))
    if not isinstance(renderer, dict) or not isinstance(policy, str) or not isinstance(canonical, str):
        return None
    name, version = renderer.get("id"), str(renderer.get("version"))
    digest = canonical.rpartition(":")[2]
    if not isinstance(name, str) or not version.isdecimal() or len(digest) != DIGITS or len(policy) > LONGEST_POLICY:
        return None
    owner = name.partition("/")[0] if "/" in name else all_families()[0].name  # the others serve every family
    if load_current_variant(project_id, owner, name) is None:
        return None
    return ReceiptFingerprint(
        receipt=receipt,
        variant=name,
        version=int(version[:9]),
        policy=policy,
        canonical_sha256=digest,
        text_sha256=text_sha256(_text(record.content)),
    )


def _said(record: ReceiptRecord) -> dict[str, object]:
    try:
        said = parse_json(record.extra or b"{}")
    except Untrusted:
        return {}
    return dict(said) if isinstance(said, dict) else {}


def _text(content: bytes) -> str:
    return "".join(part for part in parse_parts(parse_json(content)) if isinstance(part, str))

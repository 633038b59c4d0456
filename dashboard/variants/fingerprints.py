"""Fingerprints of receipts that this system sent, and which of them would be written differently today.

A fingerprint holds the variant's id and version, its policy, the hash of the envelope and the hash of the text. Of
the four that may have changed, the first in this order is the reason of the drift:

    variant     it is gone, or its version is another
    policy      the same variant has another policy by default
    canonical   the envelope was derived again and is another
    text        nothing of that changed, and the text did: a renderer changed without a new version

Texts of pinned comparisons have a fifth, `tokens`: the same text is counted as more or fewer tokens today.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from dashboard.evidence.call_evidence import CallEvidence, load_evidence
from dashboard.models import Call, Comparison, ReceiptFingerprint
from dashboard.variants.render_call import describe_failure, family_name
from dashboard.variants.variant_list import load_current_variant
from envelopes.families.registry import all_families, family
from envelopes.pipeline.render import render
from envelopes.schema.receipt import Variant
from envelopes.text.canonical_json import NotCanonical, hash_value
from envelopes.text.untrusted_json import Untrusted, object_slices, parse_json
from envelopes.variants.template import TemplateUnanswered

OTHER_TEXT = "the same version writes another text"
OTHER_CANONICAL = "the canonical result is another"
NOT_INSTALLED = "the family that read the call is not installed"

STATED = ("renderer", "render_policy", "canonical_sha256")  # by a record that delivers a receipt
POLICY_CHARACTERS = 16
SHA256_DIGITS = 64

DriftReason = Literal["variant", "policy", "canonical", "text", "tokens"]
ReasonDetail = tuple[DriftReason, str]


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A text that would be another today; `baseline` is the pinned comparison, None for a receipt that was sent."""

    call: UUID
    tool: str
    variant: str
    reason: DriftReason
    detail: str
    baseline: Comparison | None = None


@dataclass(frozen=True)
class FingerprintedReceipt:
    """A receipt that this system sent; `drift` is None when the same text would be written today.

    `is_checked` is false where that is unknown, because the variant could not be run in the time of one page.
    """

    fingerprint: ReceiptFingerprint
    drift: Drift | None
    is_checked: bool = True

    @property
    def key(self) -> str:
        """The name of the variant in addresses."""
        return self.fingerprint.variant.rpartition("/")[2]

    def is_rendered_from(self, evidence: CallEvidence) -> bool:
        """True where it is the receipt in view, and was rendered from the canonical result in view."""
        is_in_view = evidence.receipt is not None and evidence.receipt.pk == self.fingerprint.receipt_id
        return is_in_view and envelope_sha256(evidence.canonical) == self.fingerprint.canonical_sha256


def read_fingerprint(project_id: int, delivery: bytes, text: str) -> dict[str, Any] | None:
    """The columns of the fingerprint of a receipt, from the record that delivered it; `text` is the receipt's.

    A record has to state the variant's id and version, the hash of its policy and the hash of the canonical result.
    None for a receipt that lacks one of them or was written by another renderer: drift compares with what this
    system would write today, so it needs to know what it wrote.
    """
    members = object_slices(delivery)
    try:
        renderer, policy, canonical = (parse_json(members.get(name, b"null")) for name in STATED)
    except Untrusted:
        return None
    if not isinstance(renderer, dict) or not isinstance(policy, str) or not isinstance(canonical, str):
        return None
    name, version = renderer.get("id"), str(renderer.get("version"))
    digest = canonical.rpartition(":")[2]
    if not isinstance(name, str) or not version.isdecimal():
        return None
    if len(digest) != SHA256_DIGITS or len(policy) > POLICY_CHARACTERS:
        return None
    owner = name.partition("/")[0] if "/" in name else all_families()[0].name  # shared variants serve every family
    if load_current_variant(project_id, owner, name) is None:
        return None
    return {
        "variant": name,
        "version": int(version[:9]),
        "policy": policy,
        "canonical_sha256": digest,
        "text_sha256": text_sha256(text),
    }


def text_bytes(text: str) -> bytes:
    """UTF-8, with lone surrogates, which a receipt may contain and a strict encoding refuses."""
    return text.encode("utf-8", "surrogatepass")


def text_sha256(text: str) -> str:
    return hashlib.sha256(text_bytes(text)).hexdigest()


def envelope_sha256(canonical: bytes) -> str:
    """The hash of the RFC 8785 form, as records state it, whatever the order of keys in the stored bytes."""
    try:
        return hash_value(parse_json(canonical))[1]
    except NotCanonical:
        return text_sha256(canonical.decode("utf-8", "surrogatepass"))


def load_fingerprinted(call: Call) -> list[FingerprintedReceipt]:
    """Each receipt of the call that this system sent, rendered again and compared."""
    fingerprints = ReceiptFingerprint.objects.filter(receipt__call=call)
    if not fingerprints.exists():  # most calls have none, and the rows of the query below are wide
        return []
    receipts = []
    for fingerprint in fingerprints.select_related("receipt__call__run").order_by("receipt__seq"):
        try:
            receipts.append(FingerprintedReceipt(fingerprint, find_drift(fingerprint)))
        except TemplateUnanswered:
            receipts.append(FingerprintedReceipt(fingerprint, None, is_checked=False))
    return receipts


def find_drift(fingerprint: ReceiptFingerprint) -> Drift | None:
    """None when the same text would be written today. Raises TemplateUnanswered where it could not be written now."""
    call = fingerprint.receipt.call
    changed = _find_change(fingerprint, load_evidence(call, {}))
    if changed is None:
        return None
    return Drift(call=call.pk, tool=call.tool, variant=fingerprint.variant, reason=changed[0], detail=changed[1])


def _find_change(fingerprint: ReceiptFingerprint, evidence: CallEvidence) -> ReasonDetail | None:
    owner = family_name(evidence)
    written_by, separator, _ = fingerprint.variant.partition("/")
    if separator and written_by != owner:
        return "variant", f"it is of the family {written_by}, and the call is read by {owner}"
    today = load_current_variant(evidence.call.project_id, owner, fingerprint.variant)
    changed = changed_version(fingerprint.version, fingerprint.policy, today)
    if changed is not None or today is None:
        return changed
    if envelope_sha256(evidence.canonical) != fingerprint.canonical_sha256:
        today_by = evidence.projection.versions if evidence.projection else ""
        return "canonical", name_changed_version(fingerprint.projected_by, today_by)
    canonical = evidence.envelope
    try:
        text = render(canonical, family(owner), today.policy, variant=today).text
    except KeyError:
        return "variant", NOT_INSTALLED
    except TemplateUnanswered:
        raise
    except Exception as error:  # variants come from packages and operators; one that fails does not write the same text
        return "text", describe_failure(error)
    return None if text_sha256(text) == fingerprint.text_sha256 else ("text", OTHER_TEXT)


def name_changed_version(before: str, now: str) -> str:
    """Names the version behind another envelope, from those that made each: `mapping of claude-code 3 → 4`."""
    mapping_before, _, policy_before = before.partition(" ")
    mapping, _, policy = now.partition(" ")
    reader_before, _, version_before = mapping_before.rpartition(":")
    reader, _, version = mapping.rpartition(":")
    if not before or not now or before == now:
        return OTHER_CANONICAL
    if reader_before != reader:
        return f"mapping {mapping_before} → {mapping}"
    if version_before != version:
        agent = reader.partition(":")[2]
        return f"mapping of {'any agent' if agent == '*' else agent} {version_before} → {version}"
    return f"policy of the canonical result {policy_before} → {policy}"


def changed_version(version: int, policy: str, today: Variant | None) -> ReasonDetail | None:
    """The reason where the variant is gone, or its version or policy is another today."""
    if today is None:
        return "variant", "it is gone"
    if today.version != version:
        return "variant", f"version {version} is version {today.version} now"
    if today.policy.fingerprint != policy:
        return "policy", f"policy {policy} is {today.policy.fingerprint} now"
    return None

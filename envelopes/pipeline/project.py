"""The two projections of the RFC, a function a step (RFC-057 to RFC-061, RFC-073 to RFC-085).

    project(complete, family, policy, sink)  -> Projection  (canonical envelope and its cuts)
    render(canonical, family, policy)        -> Receipt     (bounded, every character sourced)
    rendered_pair(projection, receipt)       -> Pair        (what `envelopes.lint.rules` looks at)

The family is an argument: this module knows none. Both are deterministic for the same output,
policy and sink state.
"""

from __future__ import annotations

import hashlib
import json

import msgspec

from envelopes.families.base import Family, FieldCut, Projected, whole_elsewhere
from envelopes.lint.model import Pair, Shortened
from envelopes.pipeline.size_limit import LIMITS, Shortening, elsewhere, fits, is_elsewhere, json_characters
from envelopes.schema.budget import ProjectionPolicy, RenderPolicy
from envelopes.schema.receipt import Receipt, text_receipt
from envelopes.schema.result import CanonicalResult, CompleteOutput, InvalidOutput, JsonValue, ToolError, summary
from envelopes.schema.variant import Variant
from envelopes.storage.file_store import ArtifactSink


class Projection(msgspec.Struct, frozen=True):
    canonical: CanonicalResult
    cuts: tuple[FieldCut, ...] = ()


class ReceiptTooLong(ValueError):
    """A renderer passed its policy's ceiling: a fault of the renderer, never cut in silence."""


def project(complete: CompleteOutput, family: Family, policy: ProjectionPolicy, sink: ArtifactSink) -> Projection:
    """Raises InvalidOutput when the complete output breaks exclusivity, or its result is none of the family's."""
    complete.check()
    if complete.result is None:
        return _project_error(complete, policy, sink)
    if not isinstance(complete.result, family.results):
        raise InvalidOutput(f"{complete.tool_name}: {type(complete.result).__name__} is no result of {family.name}")
    projected = family.project(complete.result, policy, sink)
    canonical = CanonicalResult(
        tool_name=complete.tool_name,
        status=complete.status,
        summary_text=summary(complete.summary_text),
        result=projected.result,
        artifacts=projected.artifacts,
    )
    if fits(canonical, policy.canonical):
        return Projection(canonical, projected.cuts)
    return _lowered(canonical, projected, policy, sink)


def render(
    canonical: CanonicalResult, family: Family, policy: RenderPolicy, *, variant: str | Variant = "receipt"
) -> Receipt:
    """`variant` is the name of one of the family's renderers, or a variant that serves every family.

    Raises KeyError for a name that the family lacks and ReceiptTooLong when the renderer breaks its budget.
    """
    if isinstance(variant, Variant):
        name, renderer = variant.id, variant.render
    else:
        name, renderer = f"{family.name}/{variant}", family.renderers[variant]
        renderer = whole_elsewhere if is_elsewhere(canonical) else renderer
    receipt = text_receipt(renderer(canonical, policy))
    if len(receipt.text) > policy.characters:
        said = f"{name} wrote {len(receipt.text)} characters, its policy allows {policy.characters}"
        raise ReceiptTooLong(said)
    return receipt


def rendered_pair(projection: Projection, receipt: Receipt) -> Pair:
    """Both halves of a call whose receipt was rendered from this projection."""
    cuts = tuple(Shortened(one.pointer, one.cut) for one in projection.cuts)
    return Pair(canonical=projection.canonical, receipt=receipt, cuts=cuts)


def _lowered(
    canonical: CanonicalResult, projected: Projected, policy: ProjectionPolicy, sink: ArtifactSink
) -> Projection:
    """The family's result beyond the ceiling: with shorter texts, or else only where the whole of it is."""
    kept = sink.write("result", _readable(canonical.to_json()))
    size = json_characters(canonical)
    before = {one.pointer: one.cut for one in projected.cuts}
    artifacts = (*canonical.artifacts, kept)
    for limit in LIMITS:
        shortening = Shortening(limit, before, projected.sealed)
        shown = shortening.of(projected.result, "/result")
        if isinstance(shown, dict):
            shown |= elsewhere(size, len(canonical.artifacts))
            lower = msgspec.structs.replace(canonical, result=shown, artifacts=artifacts)
            if fits(lower, policy.canonical):
                return Projection(lower, _field_cuts(shortening))
    return Projection(msgspec.structs.replace(canonical, result=elsewhere(size), artifacts=(kept,)))


def _field_cuts(shortening: Shortening) -> tuple[FieldCut, ...]:
    return tuple(FieldCut(pointer, cut) for pointer, cut in shortening.cuts.items())


def _readable(document: JsonValue) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1)


def _project_error(complete: CompleteOutput, policy: ProjectionPolicy, sink: ArtifactSink) -> Projection:
    """Only `details` may shrink; every other field of the error stays (RFC-096 to RFC-098).

    Of a message or a hint that alone would pass the ceiling, the beginning and the end stay; kind and
    retryable always. The error as its tool made it, details too, is kept beside it.
    """
    canonical = CanonicalResult(
        tool_name=complete.tool_name,
        status="error",
        summary_text=summary(complete.summary_text),
        error=_bounded_error(complete.error, policy) if complete.error else None,
    )
    if canonical.error is None or fits(canonical, policy.canonical):
        return Projection(canonical)
    whole = _readable(msgspec.to_builtins(complete.error))
    kept = sink.write("error", whole)
    lower = canonical
    for limit in LIMITS:
        shortening = Shortening(limit, {})
        error = shortening.of_error(canonical.error)
        details = {**(error.details or {}), "error_characters": len(whole), "error_artifact": 0}
        error = msgspec.structs.replace(error, details=details)
        lower = msgspec.structs.replace(canonical, error=error, artifacts=(kept,))
        if fits(lower, policy.canonical):
            break
    return Projection(lower, _field_cuts(shortening))


def _bounded_error(error: ToolError, policy: ProjectionPolicy) -> ToolError:
    # Not msgspec: it refuses lone surrogates and integers beyond 64 bits, which recordings do hold.
    text = json.dumps(error.details, ensure_ascii=False, separators=(",", ":"))
    if error.details is None or len(text) <= policy.details:
        return error
    omitted = {
        "omitted": True,
        "reason": f"details are larger than {policy.details} characters",
        "char_count": len(text),
        "sha256": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        "preview": text[: policy.details],
    }
    return msgspec.structs.replace(error, details=omitted)

"""The first projection of the RFC: a complete output becomes a bounded canonical result (RFC-057 to RFC-061).

    project(complete, family, policy, sink)  -> Projection   the envelope, and its cuts

The family is an argument: this module knows none. The same output, policy and sink state give the same result.
"""

from __future__ import annotations

import hashlib
import json

import msgspec

from envelopes.families.base import Family, FieldCut, Projected
from envelopes.pipeline.size_limit import LIMITS, Shortener, count_characters, fits, stub
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import CanonicalResult, CompleteOutput, InvalidOutput, JsonValue, ToolError, summarize
from envelopes.storage.file_store import ArtifactSink


class Projection(msgspec.Struct, frozen=True):
    canonical: CanonicalResult
    cuts: tuple[FieldCut, ...] = ()


def project(complete: CompleteOutput, family: Family, policy: ProjectionPolicy, sink: ArtifactSink) -> Projection:
    """Bounds what a tool produced; what does not fit is written to `sink` and referred to.

    Raises InvalidOutput unless there is either a result or an error, and for a result that is not of the family.

    >>> from envelopes import MemorySink, builtin
    >>> family, definition = builtin("ExecCommand")
    >>> lines = "".join(f"line {number}\\n" for number in range(5_000))
    >>> complete = CompleteOutput(
    ...     tool_name="ExecCommand", status="success", summary_text="command exited with status 0",
    ...     result=definition.read_data({"exit_status": 0, "stdout": lines, "stderr": ""}),
    ... )
    >>> sink = MemorySink()
    >>> canonical = project(complete, family, family.projection, sink).canonical
    >>> canonical.result["stdout_truncated"], sink.texts[canonical.artifacts[0].path] == lines
    (True, True)
    """
    complete.check()
    if complete.result is None:
        return _project_error(complete, policy, sink)
    if not isinstance(complete.result, family.results):
        raise InvalidOutput(f"{complete.tool_name}: {type(complete.result).__name__} is no result of {family.name}")
    projected = family.project(complete.result, policy, sink)
    canonical = CanonicalResult(
        tool_name=complete.tool_name,
        status=complete.status,
        summary_text=summarize(complete.summary_text),
        result=projected.result,
        artifacts=projected.artifacts,
    )
    if fits(canonical, policy.canonical):
        return Projection(canonical, projected.cuts)
    return _shorten(canonical, projected, policy, sink)


def _shorten(
    canonical: CanonicalResult, projected: Projected, policy: ProjectionPolicy, sink: ArtifactSink
) -> Projection:
    """The family's result beyond the limit: with shorter texts, or else as a stub."""
    whole = sink.write("result", _readable(canonical.to_json()))
    size = count_characters(canonical)
    before = {field_cut.pointer: field_cut.cut for field_cut in projected.cuts}
    artifacts = (*canonical.artifacts, whole)
    for limit in LIMITS:
        shortener = Shortener(limit, before, projected.sealed)
        result = shortener.apply(projected.result, "/result")
        if isinstance(result, dict):
            result |= stub(size, len(canonical.artifacts))
            shorter = msgspec.structs.replace(canonical, result=result, artifacts=artifacts)
            if fits(shorter, policy.canonical):
                return Projection(shorter, _field_cuts(shortener))
    return Projection(msgspec.structs.replace(canonical, result=stub(size), artifacts=(whole,)))


def _project_error(complete: CompleteOutput, policy: ProjectionPolicy, sink: ArtifactSink) -> Projection:
    """Only `details` may shrink; every other field of the error stays (RFC-096 to RFC-098).

    A message or a hint that alone would pass the limit keeps its beginning and its end; kind and retryable
    always stay. The error as its tool made it, details included, is written as an artifact.
    """
    canonical = CanonicalResult(
        tool_name=complete.tool_name,
        status="error",
        summary_text=summarize(complete.summary_text),
        error=_bounded_error(complete.error, policy) if complete.error else None,
    )
    if canonical.error is None or fits(canonical, policy.canonical):
        return Projection(canonical)
    text = _readable(msgspec.to_builtins(complete.error))
    whole = sink.write("error", text)
    shorter = canonical
    for limit in LIMITS:
        shortener = Shortener(limit, {})
        error = shortener.apply_to_error(canonical.error)
        details = {**(error.details or {}), "error_characters": len(text), "error_artifact": 0}
        error = msgspec.structs.replace(error, details=details)
        shorter = msgspec.structs.replace(canonical, error=error, artifacts=(whole,))
        if fits(shorter, policy.canonical):
            break
    return Projection(shorter, _field_cuts(shortener))


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


def _field_cuts(shortener: Shortener) -> tuple[FieldCut, ...]:
    return tuple(FieldCut(pointer, cut) for pointer, cut in shortener.cuts.items())


def _readable(document: JsonValue) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1)

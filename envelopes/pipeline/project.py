"""The first projection of the RFC: a complete output becomes a bounded canonical result (RFC-057 to RFC-061).

    project(complete, family, policy, sink)  -> Projection   the envelope, and its cuts

The family is an argument: this module knows none. The same output, policy and sink state give the same result.

A family's own budgets keep its previews and lists short. The upper limit is the same for every family (RFC-111): so
many characters of JSON. Where a result passes it, or an id is as long as a book, the longest texts are shortened
first, each with its cut recorded and stated, by one limit for all of them that is lowered until the envelope fits;
when texts were not the reason, the result becomes a stub. Either way the whole is written first, and
`result_artifact` (of an error: `error_artifact` in its details) is the index of its artifact, beside how many
characters it has. Text with a budget that the tool's definition promises does not count (E-29): it
comes on top of the limit and is not shortened. Serialised JSON is never cut (RFC-066): what remains are the same
fields with shorter texts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

import msgspec

from envelopes.families.base import Family, FieldCut, Projected
from envelopes.families.fitting import count_indented
from envelopes.schema.budget import HINT_CHARACTERS, MESSAGE_CHARACTERS, ProjectionPolicy
from envelopes.schema.result import CanonicalResult, CompleteOutput, InvalidOutput, JsonValue, ToolError, summarize
from envelopes.storage.sinks import ArtifactSink
from envelopes.text.pointer import join, text_at
from envelopes.text.preview import Cut, shorten

LIMITS = (8_000, 4_000, 2_000, 1_000, 500, 250, 120, 60, 30)  # characters of a text, tried in this order
SPACES = 2  # json.dumps writes a blank after each comma and colon: never as many as there are other characters
QUOTES = 2
STUB_MEMBERS = frozenset({"result_characters", "result_artifact"})


class Projection(msgspec.Struct, frozen=True):
    canonical: CanonicalResult
    cuts: tuple[FieldCut, ...] = ()


def project(complete: CompleteOutput, family: Family, policy: ProjectionPolicy, sink: ArtifactSink) -> Projection:
    """Bounds what a tool produced; what does not fit is written to `sink` and referred to.

    The family's own policy is a default, beside which a budget that the tool's definition promises is kept; any other
    policy holds for every tool. Raises InvalidOutput unless there is either a result or an error, and for a result
    that is not of the family.

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
    policy = msgspec.structs.replace(policy, keeps_promises=policy == family.projection)
    projected = family.project(complete.result, policy, sink)
    policy = msgspec.structs.replace(policy, canonical=policy.canonical + _count_promised(projected))
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


def _count_promised(projected: Projected) -> int:
    """The characters of JSON that the texts with a promised budget have between their quotation marks."""
    texts = (text_at({"result": projected.result}, pointer) or "" for pointer in projected.promised)
    return sum(len(json.dumps(text, ensure_ascii=False)) - QUOTES for text in texts)


def _shorten(
    canonical: CanonicalResult, projected: Projected, policy: ProjectionPolicy, sink: ArtifactSink
) -> Projection:
    """The family's result beyond the limit: with shorter texts, or else as a stub."""
    whole = sink.write("result", _readable(canonical.to_json()))
    size = count_characters(canonical)
    before = {field_cut.pointer: field_cut.cut for field_cut in projected.cuts}
    artifacts = (*canonical.artifacts, whole)
    for limit in LIMITS:
        shortener = Shortener(limit, before, (*projected.sealed, *projected.promised))
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
    always stay. The error as its tool made it is written as an artifact where anything was cut here, or will be in
    a receipt.
    """
    canonical = CanonicalResult(
        tool_name=complete.tool_name,
        status="error",
        summary_text=summarize(complete.summary_text),
        error=complete.error,
    )
    error = complete.error
    if error is None or _is_short(error, policy) and fits(canonical, policy.canonical):
        return Projection(canonical)
    text = _readable(msgspec.to_builtins(error))
    details, cuts = _bound_details(error.details, policy.details)
    details |= {"error_characters": len(text), "error_artifact": 0}
    error = msgspec.structs.replace(error, details=details)
    shorter = msgspec.structs.replace(canonical, error=error, artifacts=(sink.write("error", text),))
    if fits(shorter, policy.canonical):
        return Projection(shorter, cuts)
    for limit in LIMITS:
        shortener = Shortener(limit, {})
        shorter = msgspec.structs.replace(shorter, error=shortener.apply_to_error(error))
        if fits(shorter, policy.canonical):
            break
    return Projection(shorter, (*cuts, *_field_cuts(shortener)))


def _is_short(error: ToolError, policy: ProjectionPolicy) -> bool:
    """True for an error that a receipt shows whole."""
    return (
        count_indented(error.message) <= MESSAGE_CHARACTERS
        and count_indented(error.recovery_hint or "") <= HINT_CHARACTERS
        and (error.details is None or _count_compact(error.details) <= policy.details)
    )


def _bound_details(
    details: dict[str, JsonValue] | None, limit: int
) -> tuple[dict[str, JsonValue], tuple[FieldCut, ...]]:
    """The details with shorter texts, the longest first; where that is not enough, the short members that fit.

    A receipt names some members, so that they stay themselves: JSON that was cut would have none (RFC-066).
    """
    if details is None or _count_compact(details) <= limit:
        return dict(details or {}), ()
    for characters in LIMITS:
        shortener = Shortener(characters, {})
        shorter = shortener.apply(details, "/error/details")
        if isinstance(shorter, dict) and _count_compact(shorter) <= limit:
            return shorter, _field_cuts(shortener)
    kept: dict[str, JsonValue] = {}
    for name, member in details.items():
        is_scalar = not isinstance(member, dict | list | tuple)
        if is_scalar and _count_compact({**kept, name: member}) <= limit:
            kept[name] = member
    return {**kept, "members_omitted": len(details) - len(kept)}, ()


def _count_compact(details: JsonValue) -> int:
    # Not msgspec: it refuses lone surrogates and integers beyond 64 bits, which recordings do hold.
    return len(json.dumps(details, ensure_ascii=False, separators=(",", ":")))


def _field_cuts(shortener: Shortener) -> tuple[FieldCut, ...]:
    return tuple(FieldCut(pointer, cut) for pointer, cut in shortener.cuts.items())


def _readable(document: JsonValue) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1)


def fits(canonical: CanonicalResult, characters: int) -> bool:
    """True for an envelope whose JSON text has at most so many characters."""
    try:
        # Enough for nearly every call: UTF-8 has at least as many bytes as characters.
        if len(msgspec.json.encode(canonical)) * SPACES <= characters:
            return True
    except (UnicodeEncodeError, OverflowError, ValueError):
        pass  # a lone surrogate or a huge integer: recordings hold both, and json takes them
    return count_characters(canonical) <= characters


def count_characters(canonical: CanonicalResult) -> int:
    return len(json.dumps(canonical.to_json(), ensure_ascii=False))


def stub(characters: int, artifact: int = 0) -> dict[str, JsonValue]:
    """The members that replace a result: how many characters it has, and the index of its artifact."""
    return {"result_characters": characters, "result_artifact": artifact}


def is_stub(canonical: CanonicalResult) -> bool:
    """True when nothing remains of the result but the members of `stub`."""
    return bool(canonical.artifacts) and isinstance(canonical.result, dict) and set(canonical.result) == STUB_MEMBERS


class Shortener:
    """Cuts the texts of a result that pass `limit`; `cuts` are then those of the shorter result.

    `before` are the cuts that the result has already, `sealed` the texts that must stay whole.
    """

    def __init__(self, limit: int, before: Mapping[str, Cut], sealed: Collection[str] = ()) -> None:
        self._limit, self._before, self._sealed = limit, before, sealed
        self.cuts: dict[str, Cut] = {}

    def apply(self, value: JsonValue, pointer: str) -> JsonValue:
        field = pointer.removesuffix("_omitted")  # of a field that was left out as a whole, only its count remains
        if field in self._before:
            self.cuts[field] = self._before[field]
        match value:
            case str() if len(value) > self._limit and pointer not in self._sealed:
                shorter, self.cuts[pointer] = shorten(value, self._before.get(pointer), self._limit)
                return shorter
            case dict():
                return {name: self.apply(child, join(pointer, name)) for name, child in value.items()}
            case list():
                return [self.apply(child, join(pointer, index)) for index, child in enumerate(value)]
        return value

    def apply_to_error(self, error: ToolError) -> ToolError:
        """Shortens message and hint. A runtime decides by `kind` and `retryable`; `details` have their own limit."""
        hint = error.recovery_hint
        return msgspec.structs.replace(
            error,
            message=self.apply(error.message, "/error/message"),
            recovery_hint=None if hint is None else self.apply(hint, "/error/recovery_hint"),
        )

"""The usage of a request as Anthropic's API reports it, in a session's message or in a response that a program kept.

1. Within one request a provider may run the model several times (`iterations`): around a tool of its own, such as an
   advisor, or after a fallback. The counts are the sum over the passes of this model. The context is that of the last
   pass; what the passes before it got is in the sum once more.
2. A pass of type `compaction` is a summary that the provider made of the context before it went on. It explains that
   the context became smaller, like the edits in `context_management`.
"""

from __future__ import annotations

import msgspec

from envelopes.recordings.json_lines import NOTHING, Count, ForeignObject, first_byte, struct_reader
from envelopes.text.untrusted_json import array_slices

_OWN_PASSES = frozenset({"message", "fallback_message", None})
_COMPACTION = "compaction"


class ApiUsage(ForeignObject, frozen=True, gc=False):
    """`usage` of a response: the tokens of the request that it answers, or of one pass of it."""

    type: str | None = None
    input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    output_tokens: Count | None = None
    iterations: msgspec.Raw = NOTHING

    @property
    def whole_input(self) -> int:
        counts = (self.input_tokens, self.cache_read_input_tokens, self.cache_creation_input_tokens)
        return sum(count or 0 for count in counts)


class ContextManagement(ForeignObject, frozen=True):
    """`context_management` of a response: how the provider edited the context before it gave it to the model."""

    applied_edits: msgspec.Raw = NOTHING


class AppliedEdit(ForeignObject, frozen=True):
    cleared_input_tokens: Count | None = None


class ProviderEdits(msgspec.Struct, frozen=True):
    """How the provider edited the context: its report, None where it did nothing, and each edit by its place."""

    report: bytes | None
    management: ContextManagement
    applied: dict[int, AppliedEdit]


class UsageReport(msgspec.Struct, frozen=True):
    """The usage of a request with what the provider did to its context.

    `edits` is JSON: its report of that, None where it did nothing; `cleared` are the tokens that went, None where it
    reported none. `repeated` is the part of the input that passes before the last one got. `objects` are those that
    were read, by their path, for remarks on their values.
    """

    api: ApiUsage
    edits: bytes | None
    cleared: int | None
    repeated: int
    objects: dict[str, ForeignObject]


_read_usage = struct_reader(ApiUsage)
_read_context_management = struct_reader(ContextManagement)
_read_edit = struct_reader(AppliedEdit)


def read_usage_report(usage: bytes, edits: ProviderEdits) -> UsageReport:
    """`usage` is a JSON object. Raises Untrusted."""
    api, report, applied = _read_usage(usage), edits.report, edits.applied
    objects: dict[str, ForeignObject] = {"usage": api, "context_management": edits.management}
    objects |= {f"context_management.applied_edits[{index}]": edit for index, edit in applied.items()}
    cleared = [edit.cleared_input_tokens for edit in applied.values() if edit.cleared_input_tokens is not None]
    passes = [_read_usage(slice_) for slice_ in _slices(api.iterations) if slice_.startswith(b"{")]
    own = [part.whole_input for part in passes if part.type in _OWN_PASSES and part.whole_input]
    compacted = [part.whole_input for part in passes if part.type == _COMPACTION]
    if own and compacted:
        report = report or bytes(api.iterations)
        cleared.append(max(0, max(compacted) - own[-1]))
    repeated = max(0, api.whole_input - own[-1]) if own else 0
    return UsageReport(api, report, sum(cleared) if cleared else None, repeated, objects)


def _slices(raw: msgspec.Raw) -> list[bytes]:
    """The elements of a list; nothing where another value stands there."""
    return array_slices(bytes(raw)) if first_byte(raw) == b"[" else []


def read_edits(raw: msgspec.Raw) -> ProviderEdits:
    """`raw` is any JSON or nothing; an edit that is no object has no fields. Raises Untrusted."""
    if first_byte(raw) != b"{":
        return ProviderEdits(None, ContextManagement(), {})
    management = _read_context_management(raw)
    applied = {
        index: _read_edit(slice_) if slice_.startswith(b"{") else AppliedEdit()
        for index, slice_ in enumerate(_slices(management.applied_edits))
    }
    return ProviderEdits(bytes(raw) if applied else None, management, applied)

"""The usage of a request to the model, as a message of the API reports it.

1. `usage` is repeated on all lines of a message. Older releases wrote it when the answer began, so that its output is
   a few tokens; newer ones repeat it with the whole output on the last line. The input is the same on nearly all.
2. Within one request a provider may run the model several times (`iterations`): around a tool of its own, such as an
   advisor, or after a fallback. The counts are the sum over the passes of this model. The context is that of the last
   pass; what the passes before it got is in the sum once more.
3. A pass of type `compaction` is a summary that the provider made of the context before it went on. It explains that
   the context became smaller, like the edits in `context_management`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from envelopes.recordings.base import Record, UsageRecord
from envelopes.recordings.claude_code.reader_state import SYNTHETIC, ReaderState, note_request
from envelopes.recordings.json_lines import NOTHING, Count, ForeignObject, change_remarks, first_byte, struct_reader
from envelopes.text.untrusted_json import array_slices

if TYPE_CHECKING:
    from envelopes.recordings.claude_code.messages import ApiMessage, MessageContext

_OWN_PASSES = frozenset({"message", "fallback_message", None})
_COMPACTION = "compaction"


class ApiUsage(ForeignObject, frozen=True, gc=False):
    """`message.usage`: the tokens of the request that this message answers, or of one pass of it."""

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
    """`message.context_management`: how the provider edited the context before it gave it to the model."""

    applied_edits: msgspec.Raw = NOTHING


class AppliedEdit(ForeignObject, frozen=True):
    cleared_input_tokens: Count | None = None


_read_usage = struct_reader(ApiUsage)
_read_context_management = struct_reader(ContextManagement)
_read_edit = struct_reader(AppliedEdit)


def usage_records(context: MessageContext, message: ApiMessage, state: ReaderState) -> Iterator[Record]:
    """Nothing for a message that no request gave, and for the second line with the same usage."""
    if context.role != "assistant" or message.model == SYNTHETIC or first_byte(message.usage) != b"{":
        return
    request, usage = message.id or context.key, bytes(message.usage)
    management, applied = _read_edits(message.context_management)
    edits = bytes(message.context_management) if applied else None
    if not note_request(state, context.run, request, usage + (edits or b"")):
        return
    api = _read_usage(usage)
    objects: dict[str, ForeignObject] = {"usage": api, "context_management": management}
    objects |= {f"context_management.applied_edits[{index}]": edit for index, edit in applied.items()}
    for name, fields in objects.items():
        yield from change_remarks(fields, f"{context.path}.{name}", line=context.line, run=context.run)
    cleared = [edit.cleared_input_tokens for edit in applied.values() if edit.cleared_input_tokens is not None]
    passes = [_read_usage(slice_) for slice_ in _slices(api.iterations) if slice_.startswith(b"{")]
    own = [part.whole_input for part in passes if part.type in _OWN_PASSES and part.whole_input]
    compacted = [part.whole_input for part in passes if part.type == _COMPACTION]
    if own and compacted:
        edits = edits or bytes(api.iterations)
        cleared.append(max(0, max(compacted) - own[-1]))
    record = UsageRecord(
        line=context.line,
        run=context.run,
        request=request,
        input_tokens=api.input_tokens or 0,
        cache_read_tokens=api.cache_read_input_tokens or 0,
        cache_creation_tokens=api.cache_creation_input_tokens or 0,
        output_tokens=api.output_tokens or 0,
        repeated_tokens=max(0, api.whole_input - own[-1]) if own else 0,
        usage=usage,
        edits=edits,
        cleared_tokens=sum(cleared) if cleared else None,
        origin=context.origin,
        at=context.at,
    )
    if record.context_tokens:
        yield record


def _slices(raw: msgspec.Raw) -> list[bytes]:
    """The elements of a list; nothing where another value stands there."""
    return array_slices(bytes(raw)) if first_byte(raw) == b"[" else []


def _read_edits(raw: msgspec.Raw) -> tuple[ContextManagement, dict[int, AppliedEdit]]:
    """Returns the provider's report of its edits, and each edit by its place; one that is no object has no fields."""
    if first_byte(raw) != b"{":
        return ContextManagement(), {}
    management = _read_context_management(raw)
    applied = {
        index: _read_edit(slice_) if slice_.startswith(b"{") else AppliedEdit()
        for index, slice_ in enumerate(_slices(management.applied_edits))
    }
    return management, applied

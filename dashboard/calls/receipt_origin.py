"""Traces the text that the model got: to the tool, to a hook that returned another output, to parts of an MCP result.

A hook's output counts as what the model got only where the recorded receipt shows it: most of its characters come from
that output, and more than from the tool's own, as recorded. Of an MCP result the page states for each part whether the
client recorded it and whether the receipt contains it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias
from uuid import UUID

from dashboard.evidence.call_evidence import CallEvidence
from dashboard.evidence.hook_outputs import HOOK_SUCCESS, HookOutput, load_hook_outputs
from dashboard.models import Event
from dashboard.text.diff import compute_difference
from dashboard.text.diff_markup import DiffPage, build_diff_page
from envelopes.halves import Halves, read_halves
from envelopes.schema.result import JsonValue
from envelopes.text.pointer import text_at
from envelopes.text.untrusted_json import dump_json, parse_json

DIFF_MARKUP_CHARACTERS = 64 * 1024
COMPARED_CHARACTERS = 256 * 1024  # of each text

RewriteState: TypeAlias = Literal["rewritten", "same", "ignored", "either"]
BADGES: dict[RewriteState, str] = {
    "rewritten": "written by a hook",
    "same": "output returned by a hook",
    "either": "a hook returned another output",
}


@dataclass(frozen=True, kw_only=True)
class HookRewrite:
    """`difference` is between the tool's own output and the hook's, None where the tool's own is not recorded."""

    state: RewriteState
    hook: HookOutput
    difference: DiffPage | None
    is_compared_whole: bool = True

    @property
    def badge(self) -> str:
        return BADGES.get(self.state, "")

    @property
    def sentence(self) -> str:
        command = f" ({self.hook.command})" if self.hook.command else ""
        name = f"{self.hook.name or 'a hook'}{command}"
        match self.state:
            case "rewritten":
                return (
                    f"A hook wrote the text that the model got, by the recording: {name} returned another output in "
                    "place of the tool's own, and the recorded receipt is made from that."
                )
            case "same":
                return (
                    f"The recorded output is what a hook returned: {name}. "
                    "Whether the tool's own output was another one is not recorded."
                )
            case "ignored":
                receipt = "the recorded receipt is made from the tool's own output"
                return f"A hook returned another output, {name}, but {receipt}."
        uncertain = "Which of the two the recorded receipt was made from is not certain"
        return f"A hook returned another output: {name}. {uncertain}."


def load_rewrite(evidence: CallEvidence, events: Iterable[Event], run: UUID, *, has_more: bool) -> HookRewrite | None:
    """None where no hook returned an output. `events` are the first ones of the call, `run` is that of the receipts."""
    if not has_more and not any(event.message == HOOK_SUCCESS for event in events):
        return None
    hooks = load_hook_outputs(run, {evidence.call.pk: evidence.call.tool}).get(evidence.call.pk, [])
    rewrites = [_compare(evidence, hook) for hook in hooks]
    order: tuple[RewriteState, ...] = ("rewritten", "same", "either", "ignored")
    return min(rewrites, key=lambda rewrite: order.index(rewrite.state), default=None)


def _compare(evidence: CallEvidence, hook: HookOutput) -> HookRewrite:
    recorded = evidence.result
    if recorded is not None and parse_json(recorded) == parse_json(hook.output):
        return HookRewrite(state="same", hook=hook, difference=None)
    own, other = _read(evidence, recorded), _read(evidence, hook.output)
    by_own, by_hook = _linked(own), _linked(other)
    state: RewriteState = "either"
    if by_own > by_hook:
        state = "ignored"
    elif by_hook > by_own and 2 * by_hook > len(evidence.receipt_text):  # a few characters fit by chance
        state = "rewritten"
    if recorded is None:
        return HookRewrite(state=state, hook=hook, difference=None)
    texts = _output_text(own), _output_text(other)
    page = build_diff_page(
        compute_difference(*(text[:COMPARED_CHARACTERS] for text in texts)),
        "side",
        spaces=False,
        room=DIFF_MARKUP_CHARACTERS,
    )
    is_whole = page.next_row is None and max(map(len, texts)) <= COMPARED_CHARACTERS
    return HookRewrite(state=state, hook=hook, difference=page, is_compared_whole=is_whole)


def _read(evidence: CallEvidence, result: bytes | None) -> Halves:
    """Reads the call as if this had been the tool's output."""
    return read_halves(
        agent=evidence.call.namespace,
        tool=evidence.call.tool,
        args=evidence.args,
        result=result,
        content=evidence.content,
        is_error=evidence.call.source_error,
    )


def _linked(halves: Halves) -> int:
    """The characters of the receipt that come from the output."""
    segments = halves.receipt.segments if halves.receipt else ()
    return sum(len(part.text) for part in segments if part.source is not None and part.source.document == "complete")


def _output_text(halves: Halves) -> str:
    """The texts of the output, or its JSON where the family knows none."""
    result: JsonValue = halves.evidence.result
    texts = [text_at(result, output.field.pointer) or "" for output in halves.outputs]
    if texts:
        return "\n".join(texts)
    return result if isinstance(result, str) else dump_json(result).decode()

"""Outputs that hooks returned in place of a tool's own, as a recording has them.

Claude Code writes an `attachment` line for each hook that ended well (`hook_success`), with what the hook printed. A
PostToolUse hook may print JSON whose `hookSpecificOutput` has `updatedToolOutput`, or `updatedMCPToolOutput` for tools
of MCP servers: another output, from which the client makes the receipt. Of both, release 2.1.100 takes the second and
2.1.332 the first. A client ignores one that does not have the form of the tool's results, so such a line alone is no
proof of a rewrite. A hook counts as the author of a receipt only where most of its characters come from the hook's
output, and more than from the tool's own, as recorded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from django.db.models import QuerySet

from dashboard.models import Event, load_slices
from dashboard.models.runs import ReceiptAuthor
from envelopes.halves import Halves
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

ATTACHMENT, HOOK_SUCCESS = "attachment", "hook_success"  # the kind and the message of such an event
AFTER_TOOL = "PostToolUse"
ANY_TOOL, MCP_TOOL = "updatedToolOutput", "updatedMCPToolOutput"
MCP_PREFIX = "mcp__"

RewriteState: TypeAlias = Literal["rewritten", "same", "ignored", "either"]
# The first of several outputs is that which explains most.
AUTHORS: dict[RewriteState, str] = {
    "rewritten": ReceiptAuthor.HOOK,
    "same": ReceiptAuthor.UNCLEAR,
    "either": ReceiptAuthor.UNCLEAR,
    "ignored": "",
}


class _HookAttachment(msgspec.Struct, rename="camel"):
    hook_event: str = ""
    hook_name: str = ""
    command: str = ""
    stdout: str = ""


class _HookLine(msgspec.Struct):
    attachment: _HookAttachment


class HookOutput(NamedTuple):
    """`output` is the JSON that a hook returned for a call in place of the tool's output."""

    line: int
    name: str
    command: str
    output: bytes


_decode = msgspec.json.Decoder(_HookLine, strict=False).decode


def _read_outputs(events: Iterable[Event], tool: str) -> Iterator[HookOutput]:
    """Yields the outputs that the events of one call of this tool contain, in their order."""
    for event in sorted(events, key=lambda event: event.line):
        try:
            attachment = _decode(event.data).attachment
            printed = parse_json(attachment.stdout.encode()) if attachment.stdout.lstrip().startswith("{") else None
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError, Untrusted):
            continue
        answer = printed.get("hookSpecificOutput") if isinstance(printed, dict) else None
        if attachment.hook_event != AFTER_TOOL or not isinstance(answer, dict):
            continue
        names = (ANY_TOOL, MCP_TOOL) if tool.startswith(MCP_PREFIX) else (ANY_TOOL,)
        for output in (answer[name] for name in names if answer.get(name) is not None):
            yield HookOutput(event.line, attachment.hook_name, attachment.command, dump_json(output))


class Rewrite(NamedTuple):
    """A hook's output beside the recorded receipt.

    `own` is the call as recorded, `other` as if the hook's output had been the tool's; None where both are the same.
    """

    state: RewriteState
    hook: HookOutput
    own: Halves | None = None
    other: Halves | None = None

    @property
    def author(self) -> str:
        return AUTHORS[self.state]


def find_rewrite(
    hooks: Iterable[HookOutput], recorded: bytes | None, read: Callable[[bytes | None], Halves]
) -> Rewrite | None:
    """Compares what hooks returned with the `recorded` result; `read` reads the call with another one."""
    order = list(AUTHORS)
    rewrites = [_compare(hook, recorded, read) for hook in hooks]
    return min(rewrites, key=lambda rewrite: order.index(rewrite.state), default=None)


def _compare(hook: HookOutput, recorded: bytes | None, read: Callable[[bytes | None], Halves]) -> Rewrite:
    if recorded is not None and parse_json(recorded) == parse_json(hook.output):
        return Rewrite("same", hook)
    own, other = read(recorded), read(hook.output)
    by_own, by_hook = count_linked(own), count_linked(other)
    state: RewriteState = "either"
    if by_own > by_hook:
        state = "ignored"
    elif by_hook > by_own and 2 * by_hook > len(own.receipt.text if own.receipt else ""):  # a few fit by chance
        state = "rewritten"
    return Rewrite(state, hook, own, other)


def count_linked(halves: Halves) -> int:
    """The characters of the receipt that come from the output."""
    segments = halves.receipt.segments if halves.receipt else ()
    return sum(len(part.text) for part in segments if part.source is not None and part.source.document == "complete")


def hook_events(calls: Iterable[UUID]) -> QuerySet[Event]:
    """The events with what hooks printed for these calls."""
    return Event.objects.filter(call__in=list(calls), kind=ATTACHMENT, message=HOOK_SUCCESS)


def load_hook_outputs(tools: Mapping[UUID, str]) -> dict[UUID, list[HookOutput]]:
    """By call, for the calls in `tools`, each with its tool's name. Two queries, one where there are no hooks."""
    if not tools:
        return {}
    events = list(hook_events(tools))
    load_slices(events)
    by_call: dict[UUID, list[Event]] = defaultdict(list)
    for event in events:
        if event.call is not None:
            by_call[event.call].append(event)
    outputs = {call: list(_read_outputs(of_call, tools[call])) for call, of_call in by_call.items()}
    return {call: of_call for call, of_call in outputs.items() if of_call}

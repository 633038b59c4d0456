"""Traces the text that the model got: to the tool, to a hook that returned another output, to parts of an MCP result.

`evidence.hook_outputs` decides which output a receipt was made from. Of an MCP result the page states for each part
whether the client recorded it and whether the receipt contains it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from dashboard.evidence.call_evidence import CallEvidence
from dashboard.evidence.execution import recorded_members
from dashboard.evidence.hook_outputs import (
    HOOK_SUCCESS,
    MCP_PREFIX,
    HookOutput,
    Rewrite,
    RewriteState,
    count_linked,
    find_rewrite,
    load_hook_outputs,
)
from dashboard.models import Call, Event
from dashboard.text.diff import compute_difference
from dashboard.text.diff_markup import DiffPage, build_diff_page
from dashboard.text.find_secrets import CONTEXT
from dashboard.text.masks import mask_text
from envelopes.halves import Halves, read_halves
from envelopes.schema.receipt import Receipt, TextPart
from envelopes.schema.result import JsonValue
from envelopes.text.pointer import text_at
from envelopes.text.untrusted_json import Untrusted, dump_json, object_slices, parse_json

DIFF_MARKUP_CHARACTERS = 64 * 1024
COMPARED_CHARACTERS = 256 * 1024  # of each text
PART_CHARACTERS = 1_000  # of a part of an MCP result on the page
MCP_AUDIENCES = {
    "content": "for the model",
    "structuredContent": "for the application",
    "_meta": "for the client, not for the model",
}

BADGES: dict[RewriteState, str] = {
    "rewritten": "written by a hook",
    "same": "output returned by a hook",
    "either": "a hook returned another output",
}


@dataclass(frozen=True, kw_only=True)
class HookRewrite:
    """`difference` is between the tool's own output and the hook's, None where the tool's own is not recorded.

    `halves` are read with the hook's output, where the receipt was made from that.
    """

    state: RewriteState
    hook: HookOutput
    halves: Halves | None
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


def load_hooks(call: Call, events: Iterable[Event], *, has_more: bool) -> list[HookOutput]:
    """The outputs that hooks returned for the call. `events` are its first ones."""
    if not has_more and not any(event.message == HOOK_SUCCESS for event in events):
        return []
    return load_hook_outputs({call.pk: call.tool}).get(call.pk, [])


def build_rewrite(evidence: CallEvidence, hooks: Iterable[HookOutput]) -> HookRewrite | None:
    """None where no hook returned an output."""
    rewrite = find_rewrite(hooks, evidence.result, partial(_read, evidence))
    return rewrite and _show_rewrite(rewrite, has_own=evidence.result is not None)


def _show_rewrite(rewrite: Rewrite, *, has_own: bool) -> HookRewrite:
    halves = rewrite.other if rewrite.state == "rewritten" else None
    if not has_own or rewrite.own is None or rewrite.other is None:
        return HookRewrite(state=rewrite.state, hook=rewrite.hook, halves=halves, difference=None)
    texts = _output_text(rewrite.own), _output_text(rewrite.other)
    page = build_diff_page(
        compute_difference(*(text[:COMPARED_CHARACTERS] for text in texts)),
        "side",
        spaces=False,
        room=DIFF_MARKUP_CHARACTERS,
    )
    is_whole = page.next_row is None and max(map(len, texts)) <= COMPARED_CHARACTERS
    return HookRewrite(
        state=rewrite.state, hook=rewrite.hook, halves=halves, difference=page, is_compared_whole=is_whole
    )


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


def _output_text(halves: Halves) -> str:
    """The texts of the output, or its JSON where the family knows none."""
    result: JsonValue = halves.evidence.result
    texts = [text_at(result, output.field.pointer) or "" for output in halves.outputs]
    if texts:
        return "\n".join(texts)
    return result if isinstance(result, str) else dump_json(result).decode()


@dataclass(frozen=True, kw_only=True)
class McpPart:
    """`recorded` describes the value that the client recorded, empty without one; `seen` its share in the receipt."""

    name: str
    audience: str
    recorded: str = ""
    seen: str = ""
    text: str = ""
    omitted: int = 0


@dataclass(frozen=True, kw_only=True)
class McpAudiences:
    """The three parts of an MCP result. `sentence` says which of them the model got."""

    parts: tuple[McpPart, ...]
    sentence: str


def build_audiences(evidence: CallEvidence, got: str) -> McpAudiences | None:
    """None for a call of no MCP tool. `got` begins the sentence about what the model got.

    The text that is recorded of a call that failed or was refused is the client's, and no part of a server's result.
    """
    is_mcp = evidence.call.tool.startswith(MCP_PREFIX)
    result = evidence.halves.evidence.result if is_mcp else None
    if is_mcp and evidence.result is not None and evidence.halves.is_beginning:
        result = parse_json(evidence.result)
    if isinstance(result, str) and evidence.call.status == Call.Status.ERROR:
        result = None
    members = {"content": result} if isinstance(result, list | str) else result if isinstance(result, dict) else {}
    members = {name: members[name] for name in MCP_AUDIENCES if members.get(name) is not None}
    if is_mcp:
        members |= {name: value for name, value in _recorded_meta(evidence).items() if name in MCP_AUDIENCES}
    if not members or not evidence.is_answered:
        return None
    parts = tuple(_build_part(evidence, name, members.get(name)) for name in MCP_AUDIENCES)
    return McpAudiences(
        parts=parts, sentence=_name_audiences(parts, got, has_receipt=evidence.halves.receipt is not None)
    )


def _recorded_meta(evidence: CallEvidence) -> dict[str, JsonValue]:
    """The parts that Claude Code records beside a result of content blocks (`mcpMeta`)."""
    for observation in evidence.observations:
        extra = recorded_members(observation).get("extra", b"") if observation.surface == "timing" else b""
        meta = parse_json(object_slices(extra).get("mcpMeta", b"null")) if extra.startswith(b"{") else None
        if isinstance(meta, dict):
            return meta
    return {}


def _build_part(evidence: CallEvidence, name: str, value: JsonValue) -> McpPart:
    if value is None:
        return McpPart(name=name, audience=MCP_AUDIENCES[name])
    text = dump_json(value).decode()
    recorded = (
        f"{len(value)} block{'s' * (len(value) != 1)}" if isinstance(value, list) else f"{len(text):,} characters"
    )
    return McpPart(
        name=name,
        audience=MCP_AUDIENCES[name],
        recorded=recorded,
        seen=_find_share(evidence, value, is_content=name == "content"),
        text=mask_text(text[: PART_CHARACTERS + CONTEXT])[:PART_CHARACTERS],
        omitted=max(0, len(text) - PART_CHARACTERS),
    )


def _find_share(evidence: CallEvidence, value: JsonValue, *, is_content: bool) -> str:
    """The share of a part that the receipt in view contains: all, some, or none."""
    receipt = evidence.halves.receipt
    if receipt is None:
        return ""
    if not is_content:
        texts = [part.text for part in receipt.parts if isinstance(part, TextPart)]
        return "all" if any(_is_json_of(text, value) for text in (*texts, receipt.text)) else "none"
    blocks = value if isinstance(value, list) else [{"type": "text", "text": value}]
    shown = [_is_shown(block, receipt) for block in blocks]
    if all(shown):
        return "all"
    return "some" if any(shown) or count_linked(evidence.halves) else "none"


def _is_shown(block: JsonValue, receipt: Receipt) -> bool:
    """True for a text that the receipt has, and for another block where the receipt has parts beside its texts."""
    text = block.get("text") if isinstance(block, dict) else None
    if isinstance(text, str):
        return text in receipt.text
    return any(not isinstance(part, TextPart) for part in receipt.parts)


def _is_json_of(text: str, value: JsonValue) -> bool:
    if text[:1] not in ("{", "[", '"') or len(text) > COMPARED_CHARACTERS:
        return False
    try:
        return parse_json(text.encode()) == value
    except (Untrusted, UnicodeEncodeError):
        return False


def _name_audiences(parts: tuple[McpPart, ...], got: str, *, has_receipt: bool) -> str:
    recorded = [part for part in parts if part.recorded]
    if not has_receipt:
        return "No receipt is recorded, so which of its parts the model got is not known."
    seen = {
        share: " and ".join(part.name for part in recorded if part.seen == share) for share in ("all", "some", "none")
    }
    model = " and ".join(part for part in (seen["all"], seen["some"] and f"some of {seen['some']}") if part)
    sentence = f"{got} {model or 'none of the recorded parts'}"
    return f"{sentence}; {seen['none']} stayed with the client." if seen["none"] else f"{sentence}."

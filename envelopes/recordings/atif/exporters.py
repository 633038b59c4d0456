"""Decides by the name of the agent which half the content of an observation is, since each program writes another.

The specification calls it the output of the tool, and leaves open which text the model got. So it is a result, unless
the exporter of the agent was compared with the agent's own session: Harbor, of which releases 0.1.28 to 0.26.0 were.

    recorded       the text that went to the model, character for character
    reconstructed  that text, of which the exporter may have changed the form: blanks at its ends, parts that it joined
    None           the output of the tool, to which the agent added something when it sent it, or the exporter did

Harbor drops the text of a failure of the Gemini CLI and of Qwen Code; for the latter it writes an empty text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from envelopes.alignment.mapping import ReceiptFidelity
from envelopes.recordings.document_fields import object_member, text_member
from envelopes.recordings.documents import DocumentValue, decode_arguments
from envelopes.text.untrusted_json import Untrusted, join_array, object_slices

Members: TypeAlias = dict[str, DocumentValue]
OTHER = "atif"
_BLOCK = '{"type": "'  # a block that Harbor wrote as JSON where the result of Claude Code is no text


class Exporter(NamedTuple):
    """`agent` is the one whose tools these are; `content` what the content of an observation is for the model.

    `drops_failures`: an empty text may stand for a failure. `pairs`: how a result that names no call finds its own, by
    the order of both, or as the one result of the one command: earlier releases of Terminus named none at all.
    `replaces`: a compaction takes the place of the request that would have had the observation before it.
    """

    agent: str = OTHER
    content: ReceiptFidelity | None = None
    drops_failures: bool = False
    pairs: Literal["ids", "order", "alone"] = "ids"
    replaces: bool = False


TERMINUS = Exporter("terminus-2", "recorded", pairs="alone", replaces=True)
TERMINUS_COMMAND = "bash_command"
# By the name of the agent in the document.
EXPORTERS = {
    "claude-code": Exporter("claude-code"),
    "codex": Exporter("codex", "reconstructed"),
    "gemini-cli": Exporter("gemini-cli", "recorded"),
    "mini-swe-agent": Exporter("mini-swe-agent", "recorded", pairs="order"),
    "pi": Exporter("pi", "reconstructed"),
    "qwen-code": Exporter("qwen-code", "recorded", drops_failures=True),
    "terminus-2": TERMINUS,
    **{f"terminus-2-summarization-{part}": TERMINUS for part in ("summary", "questions", "answers")},
    "vibe": Exporter("mistral-vibe", "recorded"),
}


class ObservedHalves(NamedTuple):
    """Both halves of one call; `receipt` is JSON, and None where the recording has none."""

    result: DocumentValue | None = None
    receipt: bytes | None = None
    fidelity: ReceiptFidelity = "recorded"


def find_exporter(agent: str) -> Exporter:
    return EXPORTERS.get(agent, Exporter())


def pairs_in_order(calls: Sequence[Members], given: Sequence[str | None], exporter: Exporter) -> bool:
    """True where the results, which have the given ids of calls, belong to the calls of their step in their order."""
    if any(given) or len(given) < len(calls):
        return False
    if exporter.pairs == "alone":
        return len(given) == 1 and [text_member(call, "function_name") for call in calls] == [TERMINUS_COMMAND]
    return exporter.pairs == "order"


def read_arguments(call: Members, step: Members, exporter: Exporter) -> bytes:
    """The arguments of a call. Those of Codex need not be an object: then the raw ones are beside the step."""
    given = call["arguments"].raw if "arguments" in call else b"null"
    if exporter.agent != "codex":
        return given
    raw = _find_detail(call, step, "raw_arguments")
    return decode_arguments(raw.raw) if raw is not None and raw.is_text else given


def _find_detail(call: Members, step: Members, name: str) -> DocumentValue | None:
    """Finds what Harbor keeps of a call of Codex beside the step, of which it is the only call or one of several."""
    extra = object_member(step, "extra")
    details = object_member(extra, "tool_call_details")
    named = object_member(details, call["tool_call_id"].text() or "") if "tool_call_id" in call else {}
    return named.get(name) or extra.get(name) or extra.get(f"tool_{name}")


def read_answer(result: Members, call: Members, step: Members, exporter: Exporter) -> ObservedHalves:
    """Reads what an observation has of its call."""
    content = result.get("content")
    if exporter.agent == "claude-code":
        return _read_claude_code(result, call, step)
    if content is None or (content.raw == b'""' and exporter.drops_failures):
        return ObservedHalves()
    # Harbor takes the output out of the JSON object that some releases of Codex sent.
    is_part = exporter.agent == "codex" and _find_detail(call, step, "metadata") is not None
    if exporter.content is None or is_part:
        return ObservedHalves(result=content)
    return ObservedHalves(receipt=content.raw, fidelity="reconstructed" if content.is_list else exporter.content)


def read_failure(result: Members, step: Members) -> bool | None:
    """True for a call that failed, where the exporter copied the agent's flag; None where it did not."""
    extra = object_member(result, "extra") or object_member(step, "extra")
    for name, failed in (("is_error", b"true"), ("tool_result_is_error", b"true"), ("success", b"false")):
        if name in extra and extra[name].raw in (b"true", b"false"):
            return extra[name].raw == failed
    return True if "error" in extra and extra["error"].is_text else None


def _read_claude_code(result: Members, call: Members, step: Members) -> ObservedHalves:
    """Harbor composes the content of both halves, and keeps them beside it where the result is an object."""
    content, beside = result.get("content"), object_member(result, "extra") or object_member(step, "extra")
    kept = object_member(beside, "tool_result_metadata")
    if "raw_tool_result" in kept:
        sent = object_member(kept, "raw_tool_result").get("content")
        return ObservedHalves(kept.get("tool_use_result"), sent.raw if sent else None)
    marks = object_member(call, "extra").keys() | object_member(step, "extra").keys()
    is_of_harbor = not {"raw_arguments", "tool_use_name"}.isdisjoint(marks)
    if content is None or not is_of_harbor:
        return ObservedHalves(result=content)
    text = content.text() or ""
    if not text.startswith(_BLOCK):
        return ObservedHalves(receipt=content.raw, fidelity="reconstructed")
    block = text.encode("utf-8", "surrogatepass")
    try:
        object_slices(block)
        msgspec.json.decode(block)
    except (Untrusted, msgspec.DecodeError, RecursionError):
        return ObservedHalves(result=content)  # several blocks
    return ObservedHalves(receipt=join_array([block]), fidelity="reconstructed")

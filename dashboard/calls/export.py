"""A call, its receipt alone, or one of its stages, to be pasted elsewhere: as text, JSON or Markdown.

The receipt's text is exact: nothing is added, trimmed or re-wrapped. Only a lone surrogate, which no encoding of text
can carry, is written as \\udxxx. The JSON forms contain the recorded bytes themselves.
"""

from __future__ import annotations

import re

from dashboard.calls.half_panes import half_text
from dashboard.calls.stages import COMPACTED, WIRE, encode_receipt
from dashboard.evidence.call_evidence import CallEvidence
from envelopes.pipeline.compaction import compact, recap
from envelopes.text.untrusted_json import visible
from envelopes.transports import TRANSPORTS, UnsupportedPart

CONTENT_TYPES = {"text": "text/plain", "json": "application/json", "markdown": "text/markdown"}

_FENCE = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)


def export_receipt(evidence: CallEvidence, form: str) -> tuple[str, str] | None:
    """Content type and text; None for an unknown form."""
    match form:
        case "text":
            text = half_text(evidence, "receipt")
        case "json":
            text = (evidence.content or b"null").decode()
        case "markdown":
            text = _fenced(half_text(evidence, "receipt"), "text")
        case _:
            return None
    return CONTENT_TYPES[form], visible(text)


def export_call(evidence: CallEvidence, form: str) -> tuple[str, str] | None:
    """Content type and text; None for an unknown form, and for one that this call does not have."""
    match form:
        case "text":
            blocks = [_title(evidence), *(f"--- {title} ---\n{body}" for title, body, _ in _blocks(evidence))]
            text: str | None = "\n\n".join(blocks) + "\n"
        case "json":
            text = _call_json(evidence)
        case "markdown":
            blocks = [f"## {title}\n\n{_fenced(body, language)}" for title, body, language in _blocks(evidence)]
            text = "\n\n".join([f"# {_title(evidence)}", *blocks]) + "\n"
        case "compacted":
            text = recap(compact(evidence.envelope, 0).canonical).text
        case _:
            text = _body_text(evidence, form)
    if text is None:
        return None
    content_type = CONTENT_TYPES.get(form, CONTENT_TYPES["text" if form == COMPACTED else "json"])
    return content_type, visible(text)


def _body_text(evidence: CallEvidence, form: str) -> str | None:
    transport = next((transport for transport in TRANSPORTS if form == WIRE + transport.name), None)
    try:
        body = encode_receipt(transport, evidence) if transport else None
    except UnsupportedPart:
        return None
    return None if body is None else body.decode()


def _call_json(evidence: CallEvidence) -> str:
    """Recorded values are spliced in as their own bytes, so that 1.00 stays 1.00."""
    call = evidence.call
    recorded = {
        "args": evidence.args,
        "canonical": evidence.canonical if evidence.is_answered else b"null",
        "recorded": evidence.result or b"null",
        "receipt": evidence.content or b"null",
    }
    members = [f'"call":{_quoted(call.external_id)}', f'"tool":{_quoted(call.tool)}']
    members += [f'"{name}":{raw.decode()}' for name, raw in recorded.items()]
    return "{" + ",".join(members) + "}\n"


def _title(evidence: CallEvidence) -> str:
    call = evidence.call
    return " · ".join(part for part in (call.tool, call.status, call.summary, call.external_id) if part)


def _blocks(evidence: CallEvidence) -> list[tuple[str, str, str]]:
    """Title, text and Markdown language of each part of the call."""
    result = half_text(evidence, "canonical") if evidence.is_answered else "(no result was recorded)"
    receipt = half_text(evidence, "receipt") if evidence.halves.receipt else "(no receipt was recorded)"
    return [
        ("arguments", half_text(evidence, "args"), "json"),
        ("canonical result", result, "json"),
        ("receipt", receipt, "text"),
    ]


def _fenced(text: str, language: str) -> str:
    """A fence longer than any in the text, so that nothing in it can close the block."""
    longest = max((len(fence) for fence in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    newline = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{newline}{fence}"


def _quoted(text: str) -> str:
    """A JSON string; `json.dumps` would escape what is not ASCII."""
    escaped = "".join(f"\\u{ord(char):04x}" if char < " " or char in '"\\' else char for char in text)
    return f'"{escaped}"'

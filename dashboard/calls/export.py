"""A call, or its receipt alone, to be pasted elsewhere: as text, as JSON, as Markdown.

The receipt's text is exact: nothing is added, trimmed or re-wrapped. Only a lone surrogate, which no
encoding of text can carry, is written as \\udxxx. The JSON forms hold the recorded bytes themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dashboard.calls import stages as call_rail
from dashboard.calls.panes import half_text
from dashboard.evidence.call_evidence import CallEvidence
from envelopes.text.untrusted_json import visible

Form = tuple[str, Callable[[CallEvidence], str | None]]  # content type, text

_FENCE = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)


def copied(surfaces: CallEvidence, form: str, *, only_receipt: bool) -> tuple[str, str] | None:
    """Content type and text; None for a form that does not exist, for every call or for this one."""
    found = (RECEIPT_FORMS if only_receipt else CALL_FORMS).get(form)
    text = found[1](surfaces) if found else None
    return None if found is None or text is None else (found[0], visible(text))


def _receipt_text(surfaces: CallEvidence) -> str:
    return half_text(surfaces, "receipt")


def _receipt_json(surfaces: CallEvidence) -> str:
    return (surfaces.content or b"null").decode()


def _receipt_markdown(surfaces: CallEvidence) -> str:
    return _fenced(half_text(surfaces, "receipt"), "text")


def _call_text(surfaces: CallEvidence) -> str:
    blocks = [_title(surfaces)]
    for title, text in _blocks(surfaces):
        blocks.append(f"--- {title} ---\n{text}")
    return "\n\n".join(blocks) + "\n"


def _call_markdown(surfaces: CallEvidence) -> str:
    languages = ("json", "json", "text")
    blocks = [f"# {_title(surfaces)}"]
    for (title, text), language in zip(_blocks(surfaces), languages, strict=True):
        blocks.append(f"## {title}\n\n{_fenced(text, language)}")
    return "\n\n".join(blocks) + "\n"


def _call_json(surfaces: CallEvidence) -> str:
    """Recorded values are spliced in as their own bytes, so that 1.00 stays 1.00."""
    call = surfaces.call
    recorded = {
        "args": surfaces.args,
        "canonical": surfaces.canonical if surfaces.is_answered else b"null",
        "recorded": surfaces.result or b"null",
        "receipt": surfaces.content or b"null",
    }
    members = [f'"call":{_quoted(call.external_id)}', f'"tool":{_quoted(call.tool)}']
    members += [f'"{name}":{raw.decode()}' for name, raw in recorded.items()]
    return "{" + ",".join(members) + "}\n"


def _title(surfaces: CallEvidence) -> str:
    call = surfaces.call
    return " · ".join(part for part in (call.tool, call.status, call.summary, call.external_id) if part)


def _blocks(surfaces: CallEvidence) -> list[tuple[str, str]]:
    receipt = half_text(surfaces, "receipt") if surfaces.halves.receipt else "(no receipt was recorded)"
    return [
        ("arguments", half_text(surfaces, "args")),
        ("canonical result", half_text(surfaces, "canonical") if surfaces.is_answered else "(no result was recorded)"),
        ("receipt", receipt),
    ]


def _fenced(text: str, language: str) -> str:
    """A fence longer than any in the text, so that nothing in it can close the block."""
    longest = max((len(found) for found in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    newline = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{newline}{fence}"


def _quoted(text: str) -> str:
    escaped = "".join(f"\\u{ord(one):04x}" if one < " " or one in '"\\' else one for one in text)
    return f'"{escaped}"'


RECEIPT_FORMS: dict[str, Form] = {
    "text": ("text/plain", _receipt_text),
    "json": ("application/json", _receipt_json),
    "markdown": ("text/markdown", _receipt_markdown),
}
CALL_FORMS: dict[str, Form] = {
    "text": ("text/plain", _call_text),
    "json": ("application/json", _call_json),
    "markdown": ("text/markdown", _call_markdown),
    **call_rail.FORMS,
}

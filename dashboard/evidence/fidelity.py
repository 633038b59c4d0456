"""How faithful the source of a half is, and the words for it on every page.

A page claims that the model saw a text only where that is known; every other wording names what is known instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dashboard.models import Call


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """`heading` is over the half, `got` begins a sentence, `badge` labels it among others, `means` explains it."""

    name: str
    heading: str
    badge: str
    means: str
    got: str = ""
    tone: str = ""


RECEIPT = {
    fidelity.name: fidelity
    for fidelity in (
        Fidelity(
            name="exact",
            heading="The model saw",
            got="The model got",
            badge="the model saw",
            means="The program that sent this text recorded it as it was sent, character for character.",
            tone="good",
        ),
        Fidelity(
            name="recorded",
            heading="Recorded as seen by the model",
            got="By the recording, the model got",
            badge="recorded as seen",
            means="The agent wrote this text into its own log as the tool's answer to the model. Nothing proves "
            "that no hook or client changed it on the way.",
        ),
        Fidelity(
            name="reconstructed",
            heading="Rebuilt, not recorded",
            got="As far as it can be rebuilt, the model got",
            badge="reconstructed: what the model saw was not recorded",
            means="The recording has no text that was sent as it is. This one was rebuilt from what the recording has.",
            tone="warn",
        ),
        Fidelity(
            name="inflated",
            heading="Recorded, but the model saw less",
            got="At most, the model got",
            badge="inflated: longer than what the model saw",
            means="The agent showed the model a preview of an output that was too large, or cut it when it was sent, "
            "yet wrote the full text into its log. The model got a part of this.",
            tone="warn",
        ),
        Fidelity(
            name="masked",
            heading="Recorded with parts masked",
            got="Apart from what is masked, the model got",
            badge="masked: the model saw what is hidden here",
            means="Secrets were masked at import. The model saw them; this store never had them.",
            tone="warn",
        ),
        Fidelity(
            name="absent",
            heading="No receipt was recorded",
            got="It is not recorded whether the model got",
            badge="nothing recorded",
            means="What the model got for this call, if anything, was not recorded.",
            tone="warn",
        ),
    )
}

RESULT = {
    fidelity.name: fidelity
    for fidelity in (
        Fidelity(
            name="structured",
            heading="Structured result",
            badge="full result",
            means="The source kept the tool's result as structured data.",
            tone="good",
        ),
        Fidelity(
            name="bounded",
            heading="Bounded result",
            badge="shortened",
            means="The tool or its agent shortened this result before it was recorded; the receipt may have more.",
            tone="warn",
        ),
        Fidelity(
            name="stringified",
            heading="Result kept as text",
            badge="text only",
            means="The source kept the result as one string; its fields were not recorded.",
            tone="warn",
        ),
        Fidelity(
            name="parsed_from_receipt",
            heading="Read out of the receipt",
            badge="rebuilt from the receipt",
            means="The source kept no result. This one was read out of the text for the model.",
            tone="warn",
        ),
        Fidelity(
            name="absent",
            heading="No result was recorded",
            badge="no result",
            means="The source kept no result of this call.",
            tone="warn",
        ),
    )
}

PARTLY_PARSED = replace(
    RESULT["parsed_from_receipt"],
    means="The source kept only a part of the result. The rest was read out of the text for the model.",
)


def describe_seen_lines(call: Call) -> str:
    """How many lines of a cut output the model got; empty where the recording has no lines to count."""
    if not call.output_lines:
        return ""
    if (call.seen_lines, call.output_lines) == (0, 1):
        return "less than 1 line"
    least = "at least " if call.result_fidelity == "bounded" else ""
    if not call.seen_lines:
        return f"no whole line of {least}{call.output_lines:,} lines"
    seen = f"at most {call.seen_lines:,}" if call.receipt_fidelity == "inflated" else f"{call.seen_lines:,}"
    return f"{seen} of {least}{call.output_lines:,} lines"


def receipt_fidelity(name: str) -> Fidelity:
    return RECEIPT.get(name, RECEIPT["recorded"])


def result_fidelity(name: str, *, has_recorded: bool = False) -> Fidelity:
    """`has_recorded`: the source kept something of the result, which then is less than what the half shows."""
    fidelity = RESULT.get(name, RESULT["absent"])
    return PARTLY_PARSED if has_recorded and fidelity.name == PARTLY_PARSED.name else fidelity

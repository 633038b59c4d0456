"""What a page may say about a half, by how faithful its source is.

"The model saw" is said only where that is known; every other word says what is known instead.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """`heading` stands over the half, `got` begins a sentence, `means` explains the badge.

    `said` is the badge of a receipt among others, where no heading stands over it.
    """

    name: str
    heading: str
    got: str
    means: str
    said: str = ""
    tone: str = ""


RECEIPT = {
    one.name: one
    for one in (
        Fidelity(
            name="exact",
            heading="The model saw",
            got="The model got",
            said="the model saw",
            means="This text was stored by the program that sent it, character for character as it was sent.",
            tone="good",
        ),
        Fidelity(
            name="recorded",
            heading="Recorded as seen by the model",
            got="By the recording, the model got",
            said="recorded as seen",
            means="The agent wrote this text into its own log as the tool's answer to the model. Nothing proves "
            "that no hook or client changed it on the way.",
        ),
        Fidelity(
            name="reconstructed",
            heading="Rebuilt: what the model probably saw",
            got="As far as it can be rebuilt, the model got",
            said="reconstructed: what the model saw was not recorded",
            means="The recording kept no receipt. This text was rebuilt from other parts of the recording.",
            tone="warn",
        ),
        Fidelity(
            name="inflated",
            heading="Recorded, but the model saw less",
            got="The log's copy, larger than what the model saw, holds",
            said="inflated: longer than what the model saw",
            means="The agent told the model that the output was too large and showed it a preview, yet wrote the "
            "full text into its log. The model got the preview, not all of this.",
            tone="warn",
        ),
        Fidelity(
            name="masked",
            heading="Recorded with parts masked",
            got="Apart from what is masked, the model got",
            said="masked: the model saw what is hidden here",
            means="Secrets were masked when this was taken in. The model saw them; this store never held them.",
            tone="warn",
        ),
        Fidelity(
            name="absent",
            heading="No receipt was recorded",
            got="Nothing says whether the model got",
            said="nothing recorded",
            means="The recording does not say what the model got for this call, if anything.",
            tone="warn",
        ),
    )
}

RESULT = {
    one.name: one
    for one in (
        Fidelity(
            name="structured",
            heading="Structured result",
            got="",
            means="The source kept the tool's result as structured data, beside the text for the model.",
            tone="good",
        ),
        Fidelity(
            name="bounded",
            heading="Bounded result",
            got="",
            means="The source kept a structured result that it had already shortened itself.",
            tone="warn",
        ),
        Fidelity(
            name="stringified",
            heading="Result kept as text",
            got="",
            means="The source kept the result as one string; its fields were not recorded.",
            tone="warn",
        ),
        Fidelity(
            name="parsed_from_receipt",
            heading="Read out of the receipt",
            got="",
            means="The source kept no result. What stands here was read out of the text for the model.",
            tone="warn",
        ),
        Fidelity(
            name="absent",
            heading="No result was recorded",
            got="",
            means="The source kept no result of this call.",
            tone="warn",
        ),
    )
}


def receipt_fidelity(name: str) -> Fidelity:
    return RECEIPT.get(name, RECEIPT["recorded"])


def result_fidelity(name: str) -> Fidelity:
    return RESULT.get(name, RESULT["absent"])

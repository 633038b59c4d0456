"""Previews of outputs that an agent saved to a file."""

from __future__ import annotations

import pytest

from envelopes.alignment.gemini_receipts import match_output
from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.spans import match_excerpt

HALF = "a line of the log\n" * 278  # 5,004 characters, 278 lines
LONG = "x" * 2_000
PREVIEW = "<persisted-output>\nOutput too large (25.8KB). Full output saved to: /t/1.txt\n\nPreview (first 2KB):\n{}"
HASHED = (
    "<persisted-output>\nOutput too large (29 KB). Full output saved to: /t/1.txt\nFull output sha256: 8470957c\n"
    "Note: this file may be cleaned up after 24 hours.\nTo read the complete output, use the read_file tool with the "
    "absolute file path above.\n\nPreview (up to 2000 chars):\n{}\n...\n</persisted-output>"
)
SHORTENED = "Output too large. Showing first 8,000 and last 32,000 characters. For full output see: /t/1.txt\n{}"
MASKED = "<tool_output_masked>\n{}\n\nOutput too large. Full output available at: /t/1.txt\n</tool_output_masked>"


@pytest.mark.parametrize(
    ("text", "shown", "seen"),
    [
        (PREVIEW.format("one\ntwo\n...\n</persisted-output>"), "one\ntwo", "one\ntwo"),
        (PREVIEW.format("one\n</persisted-output>\n\n<system-reminder>\nx\n</system-reminder>"), "one", "one"),
        (PREVIEW.format("one\ntw"), "one\ntw", "one\ntw"),
        (PREVIEW.format(f"{HALF}</persisted-output>"), HALF[:-1], HALF[: 111 * 18 - 1]),
        (PREVIEW.format(f"{LONG * 2}\n</persisted-output>"), LONG * 2, LONG),
        (HASHED.format("one\ntwo"), "one\ntwo", "one\ntwo"),
        (SHORTENED.format(f"{LONG}{LONG}"), LONG * 2, LONG * 2),
        (MASKED.format("one\n... [TRUNCATED] ...\ntwo"), *["one\n... [TRUNCATED] ...\ntwo"] * 2),
    ],
)
def test_of_an_inflated_receipt_the_model_saw_what_a_preview_has(text: str, shown: str, seen: str) -> None:
    preview = find_output_preview(text)
    assert preview is not None
    assert (preview.path, text[preview.start : preview.end]) == ("/t/1.txt", shown)
    assert text[preview.start : preview.seen_end(text)] == seen
    assert preview.is_inflated == (shown != seen)
    assert preview.is_later == text.startswith("<tool_output_masked>")


@pytest.mark.parametrize(
    "text",
    [
        "The receipt is " + PREVIEW.format("one"),
        "<persisted-output>\nno path",
        HASHED.format("one").replace("Preview (up to", "A note (up to"),
        "It says: " + SHORTENED.format("one"),
        "Output too large. Showing first few and last few characters. For full output see: /t/1.txt\n",
        "<tool_output_masked>\nno end",
        "See " + MASKED.format("one"),
    ],
)
def test_a_text_about_previews_is_none(text: str) -> None:
    assert find_output_preview(text) is None


def test_the_beginning_and_the_end_of_a_saved_output_are_linked() -> None:
    output = "".join(f"line {number}\n" for number in range(1_000))
    head, tail = output[:400], output[-1_600:]
    text = SHORTENED.format(f"{head}\n\n... [6,890 characters omitted] ...\n\n{tail}")
    spans = match_excerpt(text, output, "")
    assert [text[span.start : span.end] for span in spans] == [head.rstrip(), tail.rstrip()]
    assert [output[span.value_start : span.value_end] for span in spans] == [head.rstrip(), tail.rstrip()]


def test_the_output_that_a_person_saw_begins_with_the_preview_of_it() -> None:
    output = "".join(f"row {number}\n" for number in range(1_000))
    receipt = HASHED.format(output[:1_800])
    [span] = match_output(receipt, output, "mcp__probe__longout")
    assert (receipt[span.start : span.end], span.value_start, span.value_end) == (output[:1_800], 0, 1_800)
    assert not match_output(receipt, "a view for a person", "mcp__probe__longout")
    assert not match_output(output[:1_800], output, "mcp__probe__longout")

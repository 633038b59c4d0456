"""Receipts that are the preview of an output which an agent saved to a file.

    Claude Code  <persisted-output>                    around the first 2,000 characters
    Gemini CLI   Output too large. Showing first 8,000 and last 32,000 characters. …
                                                       before the beginning and the end of an output, with a mark of
                                                       how many characters are left out between them
                 <tool_output_masked>                  around the beginning and the end of an output that the model had
                                                       whole before
    Qwen Code    Tool output was too large and has been truncated. …
                                                       before the beginning and the end, as in earlier releases of the
                                                       Gemini CLI
                 <persisted-output>                    as Claude Code's, with the hash of the output and notes behind
                                                       the path
    OpenCode     ...output truncated...                before the end of what a command printed
                 ...1002 lines truncated... / The tool call succeeded but the output was truncated. …
                                                       behind the beginning of what another tool returned
    Copilot CLI  Output too large to read at once (106.3 KB). Saved to: …
                                                       before the first 500 characters of an output

Claude Code logs the whole output in some releases and sends the preview: a receipt that is longer than its preview can
be is inflated.
"""

from __future__ import annotations

import re

import msgspec

PREVIEW_CHARACTERS = 2_000  # Claude Code's preview of a saved output, up to the last line break in them
INFLATED_CHARACTERS = 2_500
PREVIEW_TAG = "<persisted-output>"
PREVIEW_HEAD = (
    rf"\s*{PREVIEW_TAG}\n[^\n]*saved to: (?P<path>[^\n]+)\n(?:[^\n]+\n){{0,8}}\nPreview \((?:first|up to) [^)\n]*\):\n"
)
MASKED_TAG = "<tool_output_masked>"
_PREVIEW_HEAD = re.compile(PREVIEW_HEAD)
_PREVIEW_FOOT, _MORE = "\n</persisted-output>", "\n..."
_SHORTENED_HEAD = re.compile(
    r"Output too large\. Showing first [\d.,’ \xa0\u202f]+ and last [\d.,’ \xa0\u202f]+ characters\. "
    r"For full output see: (?P<path>[^\n]+)\n"
)
_TRUNCATED_HEAD = re.compile(
    r"Tool output was too large and has been truncated\.\nThe full output has been saved to: (?P<path>[^\n]+)\n"
    r"(?:[^\n]+\n){1,8}\nTruncated part of the output:\n"
)
_END_HEAD = re.compile(r"\.\.\.output truncated\.\.\.\n\nFull output saved to: (?P<path>[^\n]+)\n\n")
_BEGINNING_FOOT = re.compile(
    r"\n\n\.\.\.\d+ \w+ truncated\.\.\.\n\nThe tool call succeeded but the output was truncated\. "
    r"Full output saved to: (?P<path>[^\n]+)\n[^\n]+\Z"
)
_LARGE_HEAD = re.compile(
    r"Output too large to read at once \([^)\n]*\)\. Saved to: (?P<path>[^\n]+)\n[^\n]+\n\nPreview \(first [^)\n]*\):\n"
)
_LARGE_FOOT = re.compile(r"\n<[^<>\n]{0,200}exit code -?\d{1,10}>\Z")
_MASKED_FOOT = re.compile(
    r"\n\nOutput too large\. Full output available at: (?P<path>[^\n]+)\n</tool_output_masked>\s*\Z"
)
_LONGEST_FOOT = 4_096  # characters


class OutputPreview(msgspec.Struct, frozen=True):
    """Characters [start, end) of a receipt are the preview of an output that was saved to the file `path`.

    `most`: the agent sends at most so many of them, None where it sends what it logs. `is_later`: the model had the
    whole output until this took its place.
    """

    path: str
    start: int
    end: int
    most: int | None = None
    is_later: bool = False

    @property
    def is_inflated(self) -> bool:
        return self.most is not None and self.end - self.start > INFLATED_CHARACTERS

    def seen_end(self, receipt: str) -> int:
        """The character at which the agent ended the preview that it sent."""
        if self.most is None or not self.is_inflated:
            return self.end
        limit = self.start + self.most
        line_end = receipt.rfind("\n", self.start, limit)
        return line_end if line_end - self.start > self.most // 2 else limit


def find_output_preview(receipt: str) -> OutputPreview | None:
    """The preview in a receipt that is one; reminders of the runtime may follow it."""
    if receipt.startswith(MASKED_TAG):
        foot = _MASKED_FOOT.search(receipt, max(0, len(receipt) - _LONGEST_FOOT))
        return foot and OutputPreview(foot["path"], len(MASKED_TAG) + 1, foot.start(), is_later=True)
    if shortened := _SHORTENED_HEAD.match(receipt) or _TRUNCATED_HEAD.match(receipt) or _END_HEAD.match(receipt):
        return OutputPreview(shortened["path"], shortened.end(), len(receipt))
    if large := _LARGE_HEAD.match(receipt):
        foot = _LARGE_FOOT.search(receipt, large.end())
        return OutputPreview(large["path"], large.end(), foot.start() if foot else len(receipt))
    if beginning := _BEGINNING_FOOT.search(receipt, max(0, len(receipt) - _LONGEST_FOOT)):
        return OutputPreview(beginning["path"], 0, beginning.start())
    head = _PREVIEW_HEAD.match(receipt) if PREVIEW_TAG in receipt[:200] else None
    if head is None:
        return None
    foot_at = receipt.rfind(_PREVIEW_FOOT, head.end())
    end = foot_at if foot_at >= 0 else len(receipt)
    if receipt.endswith(_MORE, head.end(), end):
        end -= len(_MORE)
    return OutputPreview(head["path"], head.end(), end, PREVIEW_CHARACTERS)

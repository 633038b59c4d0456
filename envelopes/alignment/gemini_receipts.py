"""The tags, sections and marks that the Gemini CLI, and Qwen Code after it, put around an output before they send it.

<untrusted_context> … </untrusted_context>     around what a command, a page or an MCP server returned, in 0.61
Output: … / Exit Code: 3 / Signal: 9 / …       the sections of a shell command; earlier releases write all of them,
                                               behind the command and its folder
… [308,974 characters omitted] ...             between the beginning and the end of an output that it saved
... [CONTENT TRUNCATED] ...                    the same in earlier releases and in Qwen Code
"""

from __future__ import annotations

import re

import msgspec

from envelopes.alignment.saved_outputs import find_output_preview

SHELL_TOOL = "run_shell_command"
SHELL_HEAD = re.compile(r"(?:Command: )?(?:.*?\nDirectory: [^\n]*\n)?(?:Output|Stdout): ", re.DOTALL)
SHELL_TAIL = re.compile(
    r"(?:\nError: (?P<error>[^\n]*))?(?:\nExit Code: (?P<exit>\(none\)|-?\d{1,10}))?(?:\nSignal: (?P<signal>[^\n]*))?"
    r"(?:\nBackground PIDs: [^\n]*)?(?:\nProcess Group PGID: [^\n]*)?\s*\Z"
)
_SECTION = re.compile(r"\n(?=(?:Error|Exit Code|Signal|Background PIDs|Process Group PGID): )")
_OPENING, _CLOSING = "<untrusted_context>\n", "\n</untrusted_context>"
_OMITTED = re.compile(
    r"\n\n\.\.\. \[[\d.,’ \xa0\u202f]+ characters omitted\] \.\.\.\n\n"
    r"|\n\n---\n\.\.\. \[CONTENT TRUNCATED\] \.\.\.\n---\n\n"
)
_TAIL_CHARACTERS = 4_000


class ShownPart(msgspec.Struct, frozen=True):
    """`length` characters of an output, from `start` on, stand at character `at` of a receipt."""

    at: int
    start: int
    length: int


def untrusted_region(receipt: str) -> tuple[int, int]:
    """The characters [start, end) of what is between the tags; all of a receipt, or of a preview, without tags."""
    preview = find_output_preview(receipt)
    start, end = (preview.start, preview.end) if preview else (0, len(receipt))
    if not receipt.startswith(_OPENING, start):
        return start, end
    closing = receipt.rfind(_CLOSING, start, end)
    return start + len(_OPENING), end if closing < 0 else closing


def untrusted_text(receipt: str) -> str:
    """The text between the tags of a receipt that begins with one; any other receipt as it is."""
    return receipt[slice(*untrusted_region(receipt))] if receipt.startswith(_OPENING) else receipt


def match_shell_tail(shown: str, start: int, output: str | None = None) -> re.Match[str] | None:
    """The sections behind the output in the text of a shell command, whose output begins at `start`.

    An output may end in such lines itself: the recorded `output` decides, and without one they are all sections.
    """
    begin = max(start, len(shown) - _TAIL_CHARACTERS)
    ends = [*(mark.start() for mark in _SECTION.finditer(shown, begin)), len(shown)]
    tails = [tail for end in ends if (tail := SHELL_TAIL.match(shown, end))]
    recorded = (tail for tail in tails if shown[start : tail.start()] == output)
    return next(recorded, tails[0] if tails else None)


def match_output(receipt: str, output: str, tool: str) -> list[ShownPart]:
    """The parts of `output` that a receipt of the tool shows: all of it, or its beginning and its end. Else none.

    A text for a person that says something about the output is none of these.
    """
    start, end = untrusted_region(receipt)
    shown = receipt[start:end]
    head = SHELL_HEAD.match(shown) if tool == SHELL_TOOL else None
    if tool == SHELL_TOOL and head is None:
        return []
    begin = head.end() if head else 0
    tail = match_shell_tail(shown, begin, output) if head else None
    stop = tail.start() if tail else len(shown)
    omitted = _OMITTED.search(shown, begin, stop) if find_output_preview(receipt) else None
    if omitted is None:
        return [ShownPart(start + begin, 0, len(output))] if output and shown[begin:stop] == output else []
    first, last = omitted.start() - begin, stop - omitted.end()
    is_same = output.startswith(shown[begin : omitted.start()]) and output.endswith(shown[omitted.end() : stop])
    if not is_same or first + last >= len(output):
        return []
    return [
        ShownPart(start + begin, 0, first),
        ShownPart(start + omitted.end(), len(output) - last, last),
    ]

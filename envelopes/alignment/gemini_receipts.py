"""The tags, sections and marks that the Gemini CLI, and Qwen Code after it, put around an output before they send it.

<untrusted_context> … </untrusted_context>     around what a command, a page or an MCP server returned, in 0.61
Output: … / Exit Code: 3 / Signal: 9 / …       the sections of a shell command; earlier releases write all of them,
                                               behind the command and its folder
Command timed out after 2000ms …               before the output of a command that was stopped, without sections
… [308,974 characters omitted] ...             between the beginning and the end of an output that it saved
... [CONTENT TRUNCATED] ...                    the same in earlier releases and in Qwen Code, also where it could not
                                               save the output
"""

from __future__ import annotations

import re

from envelopes.alignment.saved_outputs import find_output_preview
from envelopes.alignment.spans import Span

SHELL_TOOL = "run_shell_command"
SHELL_HEAD = re.compile(r"(?:Command: )?(?:.*?\nDirectory: [^\n]*\n)?(?:Output|Stdout): ", re.DOTALL)
_SECTIONS = (
    r"(?:\nError: (?P<error>[^\n]*))?(?:\nExit Code: (?P<exit>\(none\)|-?\d{1,10}))?(?:\nSignal: (?P<signal>[^\n]*))?"
    r"(?:\nBackground PIDs: [^\n]*)?"
)
_UNSAVED = r"(?P<unsaved>\n\[Note: Could not save full output to file\])?"
SHELL_TAIL = re.compile(rf"{_SECTIONS}(?:\nProcess Group PGID: [^\n]*)?{_UNSAVED}\s*\Z")
_HOOKED_TAIL = re.compile(rf"{_SECTIONS}(?P<last>\nProcess Group PGID: (?:\(none\)|\d{{1,12}})){_UNSAVED}\n\n")
# The beginning of a preview without a line of the output: its first line was too long.
_CUT_HEAD = re.compile(
    r"Command: (?:(?!\nDirectory: )[^\0])*?\n\n---\n\.\.\. \[CONTENT TRUNCATED\] \.\.\.\n---\n\n(?:\.\.\.)?"
)
# A command that ended by itself has a section before its output, so that no output is taken for this sentence.
STOPPED_HEAD = re.compile(
    r"(?P<reason>Command (?:(?:timed out after \d{1,12}ms|was cancelled by user) before it could complete"
    r"|was automatically cancelled because it exceeded the timeout of [\d.,]{1,20} minutes without output)\.)"
    r" (?:(?P<below>Below is the output) before it (?:timed out|was cancelled):\n|There was no output before it )"
)
_SECTION = re.compile(r"\n(?=(?:Error|Exit Code|Signal|Background PIDs|Process Group PGID): )")
_OPENING, _CLOSING = "<untrusted_context>\n", "\n</untrusted_context>"
_BETWEEN = f"{_CLOSING}\n{_OPENING}"  # two texts of a server; the client escapes a closing tag within a text
_OMITTED = re.compile(
    r"\n\n\.\.\. \[[\d.,’ \xa0\u202f]+ characters omitted\] \.\.\.\n\n"
    r"|\n\n---\n\.\.\. \[CONTENT TRUNCATED\] \.\.\.\n---\n\n"
)
_UNSAVED_MARK = re.compile(r"\n\.\.\. \[CONTENT TRUNCATED\] \.\.\.\n")  # where it could not save the output
_BROKEN = "..."
_TAIL_CHARACTERS = 4_000


def untrusted_region(receipt: str) -> tuple[int, int]:
    """The characters [start, end) of what is between the tags; all of a receipt, or of a preview, without tags."""
    preview = find_output_preview(receipt)
    start, end = (preview.start, preview.end) if preview else (0, len(receipt))
    if not receipt.startswith(_OPENING, start):
        return start, end
    closing = receipt.rfind(_CLOSING, start, end)
    return start + len(_OPENING), end if closing < 0 else closing


def untrusted_text(receipt: str) -> str:
    """The texts between the tags of a receipt that begins with one; any other receipt as it is."""
    if not receipt.startswith(_OPENING):
        return receipt
    return receipt[slice(*untrusted_region(receipt))].replace(_BETWEEN, "\n")


def match_shell_head(shown: str) -> re.Match[str] | None:
    """Finds what is before the output in the text of a shell command that ended by itself; None for another text."""
    return SHELL_HEAD.match(shown) or _CUT_HEAD.match(shown)


def match_shell_tail(shown: str, start: int, output: str | None = None) -> re.Match[str] | None:
    """The sections behind the output in the text of a shell command, whose output begins at `start`.

    An output may end in such lines itself: the recorded `output` decides, and without one they are all sections.
    Behind the last section may be what a hook said, which some releases put there without a mark.
    """
    if output is not None and shown.startswith(output, start):
        at = start + len(output)
        if tail := SHELL_TAIL.match(shown, at) or _HOOKED_TAIL.match(shown, at):
            return tail
    begin = max(start, len(shown) - _TAIL_CHARACTERS)
    ends = [*(mark.start() for mark in _SECTION.finditer(shown, begin)), len(shown)]
    tail = next((tail for end in ends if (tail := SHELL_TAIL.match(shown, end))), None)
    return tail if tail and tail.group().strip() else _match_hooked_tail(shown, start) or tail


def _match_hooked_tail(shown: str, start: int) -> re.Match[str] | None:
    """The sections before the words of a hook; None where more than one place may be the end of the output."""
    tails: dict[int, re.Match[str]] = {}
    for mark in _SECTION.finditer(shown, start):
        if tail := _HOOKED_TAIL.match(shown, mark.start()):
            tails.setdefault(tail.start("last"), tail)
    return next(iter(tails.values())) if len(tails) == 1 else None


def match_output(receipt: str, output: str, tool: str, pointer: str = "") -> list[Span]:
    """Links the `output` recorded at `pointer` in a receipt of the tool: all of it, or one or both of its ends.

    A text for a person that says something about the output is none of these.
    """
    start, end = untrusted_region(receipt)
    shown = receipt[start:end]
    head = (match_shell_head(shown) or STOPPED_HEAD.match(shown)) if tool == SHELL_TOOL else None
    if tool == SHELL_TOOL and head is None:
        return []
    begin = head.end() if head else 0
    tail = match_shell_tail(shown, begin, output) if head else None
    stop = tail.start() if tail else len(shown)
    if _BETWEEN in shown and not head and receipt.startswith(_OPENING):
        return _match_texts(shown, output, start, pointer)
    mark = _OMITTED if find_output_preview(receipt) else _UNSAVED_MARK if tail and tail["unsaved"] else None
    omitted = mark.search(shown, begin, stop) if mark else None
    if head and head.re is _CUT_HEAD:
        return _match_ends(shown, output, start, (begin, begin), (begin, stop), pointer)
    if omitted is None:
        is_beginning = mark is _OMITTED and tool != SHELL_TOOL and output.startswith(shown)
        is_same = begin < stop and (shown[begin:stop] == output or is_beginning)
        return [Span(start + begin, start + stop, pointer, 0, stop - begin)] if is_same else []
    return _match_ends(shown, output, start, (begin, omitted.start()), (omitted.end(), stop), pointer)


def _match_texts(shown: str, output: str, start: int, pointer: str) -> list[Span]:
    """The lines of an output that `shown` has in several texts, each between tags of its own."""
    texts = shown.split(_BETWEEN)
    if "\n".join(texts) != output:
        return []
    spans, at, offset = [], start, 0
    for text in texts:
        spans.append(Span(at, at + len(text), pointer, offset, offset + len(text)))
        at, offset = at + len(text) + len(_BETWEEN), offset + len(text) + 1
    return [span for span in spans if span.end > span.start]


def _match_ends(
    shown: str, output: str, start: int, beginning: tuple[int, int], end: tuple[int, int], pointer: str
) -> list[Span]:
    """The beginning and the end of an output that `shown` has between two pairs of characters.

    The agent adds three dots where it breaks a line off.
    """
    first, last = shown[slice(*beginning)], shown[slice(*end)]
    if not output.startswith(first):
        first = first.removesuffix(_BROKEN)
    if not output.endswith(last):
        last = last.removeprefix(_BROKEN)
    if not (output.startswith(first) and output.endswith(last)) or len(first) + len(last) >= len(output):
        return []
    first_at, last_end = start + beginning[0], start + end[1]
    spans = [
        Span(first_at, first_at + len(first), pointer, 0, len(first)),
        Span(last_end - len(last), last_end, pointer, len(output) - len(last), len(output)),
    ]
    return [span for span in spans if span.end > span.start]

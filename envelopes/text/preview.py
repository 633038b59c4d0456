"""Previews of the beginning and the end of a text, with a record of what was cut.

    head_tail         a preview of a text: whole lines while they fit (RFC-099, RFC-100)
    clip              the beginning of a text that stands on one line
    find_cut          the cut of a preview, found by its marker
    shorten           a preview made smaller, its marker still counting in the whole text
    read_file_text    the two ends of a file of any size, which are all that a preview needs (RFC-064)
    preview_command   a command on one line without its scripts and secrets, and its digest

Only when one line alone passes the budget are characters counted instead of lines (E-18).
"""

from __future__ import annotations

import codecs
import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import BinaryIO, Literal, TypeAlias

import msgspec

from envelopes.schema.budget import PREVIEW_CHARACTERS
from envelopes.text.credentials import redact

FILE_CHUNK = 256 * 1024  # bytes
COMMAND_CHARACTERS = 240  # of the preview of a command
HEREDOC_NOTE = "[heredoc left out]"
SCRIPT_NOTE = "[inline script left out]"
_INLINE_SCRIPT = re.compile(
    r"(\b(?:python[\d.]{0,5}|node|deno|bun|perl|ruby|php|bash|sh|zsh|pwsh)\s+(?:-[\w-]{1,20}\s+){0,4}?-(?:[ce]|[a-z]c)\s+)"
    r"('[^']*'|\"(?:[^\"\\]|\\.)*\")"
)
_MARKER = re.compile(
    r"\.\.\.\n\[output truncated: showing first (\d+) and last (\d+) of (\d+) (lines|characters)\]\n\.\.\.\n"
)
_HEREDOC = re.compile(r"(?<!<)<<-?[ \t]*(?:'([^'\n]{1,80})'|\"([^\"\n]{1,80})\"|\\?([A-Za-z_][\w.-]{0,80}))")

Unit: TypeAlias = Literal["lines", "characters"]


class Cut(msgspec.Struct, frozen=True):
    """Which part of a text is shown. `shown` holds half-open ranges in `unit`, ascending."""

    unit: Unit
    total: int
    shown: tuple[tuple[int, int], ...]

    @property
    def shown_count(self) -> int:
        return sum(end - start for start, end in self.shown)

    @property
    def dropped_count(self) -> int:
        return self.total - self.shown_count

    @property
    def is_whole(self) -> bool:
        return self.dropped_count <= 0

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """The ranges that are not shown, ascending."""
        edges = [0, *(edge for span in self.shown for edge in span), self.total]
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return tuple((start, end) for start, end in pairs if end > start)

    @property
    def ends(self) -> tuple[int, int]:
        """How much is shown of the beginning, and how much of the end."""
        head = self.shown[0][1] if self.shown and self.shown[0][0] == 0 else 0
        return head, self.shown_count - head

    def marker(self) -> str:
        """The sentence that a receipt prints where the cut is (RFC-100)."""
        head, tail = self.ends
        return f"[output truncated: showing first {head} and last {tail} of {self.total} {self.unit}]"


class CutPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A preview taken apart at its marker: text[:head_end] and text[tail_start:] are the output's own."""

    head_end: int
    tail_start: int
    first: int
    last: int
    total: int
    unit: Unit


class TextPreview(msgspec.Struct, frozen=True):
    """`head` + gap + `tail`; `cut` is None when the text fits and `head` is all of it."""

    head: str
    tail: str
    cut: Cut | None

    @property
    def text(self) -> str:
        if self.cut is None:
            return self.head
        newline = "" if self.head.endswith("\n") or not self.head else "\n"
        return f"{self.head}{newline}{_gap(self.cut)}{self.tail}"


def head_tail(text: str, budget: int, *, head_share: int = 50, unit: Unit = "lines") -> TextPreview:
    """A preview of at most `budget` characters of `text` (the marker comes on top).

    `head_share` percent of the budget are for the beginning. `unit` is what may stay whole.
    """
    if len(text) <= budget:
        return TextPreview(text, "", None)
    for_head = budget * head_share // 100
    by_lines = _by_lines(text, for_head, budget - for_head) if unit == "lines" else None
    return by_lines if by_lines is not None else _by_characters(text, for_head, budget - for_head)


def clip(text: str, budget: int, total: int) -> tuple[str, Cut]:
    """The beginning of a text of `total` characters on one line, ended by an ellipsis."""
    length = max(0, budget - 1)
    return f"{text[:length]}…"[:budget], Cut("characters", total, ((0, length),))


def shorten(text: str, cut: Cut | None, budget: int) -> tuple[str, Cut]:
    """At most `budget` characters of what `text` shows, which is longer.

    `cut` is the cut that `text` is a preview with; None when it is a whole text.
    """
    before, marker, after = text.partition(_gap(cut)) if cut else (text, "", "")
    if cut and marker:
        again = _again_by_lines if cut.unit == "lines" else _again_by_characters
        preview = again(before, after, cut, budget)
        return preview.text, preview.cut or cut
    if cut or "\n" not in text:
        return clip(text, budget, cut.total if cut else len(text))
    preview = head_tail(text, budget)
    assert preview.cut is not None  # the text is longer than its budget
    return preview.text, preview.cut


def find_cut(preview: str) -> CutPreview | None:
    """Finds the marker whose numbers fit the text around it: an output may contain the same words."""
    for match in _MARKER.finditer(preview):
        first, last, total = (int(match[group]) for group in (1, 2, 3))
        head, tail = preview[: match.start()], preview[match.end() :]
        unit: Unit = "lines" if match[4] == "lines" else "characters"
        if unit == "lines":
            fits = head.count("\n") == first and len(split_lines(tail)) == last
        else:
            # A head that ends in the middle of a line has got a newline before the marker.
            fits = len(head) >= first and head[first:] in ("", "\n") and len(tail) == last
            head = head[:first]
        if fits:
            return CutPreview(
                head_end=len(head), tail_start=match.end(), first=first, last=last, total=total, unit=unit
            )
    return None


def split_lines(text: str) -> list[str]:
    """Lines with their newline, cut at LF alone: str.splitlines also cuts at U+2028, VT and FF."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def count_fitting_lines(lines: list[str], budget: int) -> int:
    """How many of the first lines have at most `budget` characters together."""
    used = 0
    for count, line in enumerate(lines):
        used += len(line)
        if used > budget:
            return count
    return len(lines)


def _gap(cut: Cut) -> str:
    return f"...\n{cut.marker()}\n...\n"


def _by_lines(text: str, for_head: int, for_tail: int) -> TextPreview | None:
    """None where a line alone passes the room of its end; an end without room has no line.

    `text` has more characters than both rooms together. It is not split: it may have a million lines.
    """
    head_end = text.rfind("\n", 0, for_head) + 1
    tail_start = text.find("\n", len(text) - for_tail - 1) + 1 or len(text)
    if (for_head and head_end == 0) or (for_tail and tail_start == len(text)):
        return None
    head, total = text.count("\n", 0, head_end), text.count("\n") + (not text.endswith("\n"))
    tail = total - text.count("\n", 0, tail_start) if tail_start < len(text) else 0
    return TextPreview(text[:head_end], text[tail_start:], Cut("lines", total, ((0, head), (total - tail, total))))


def _by_characters(text: str, head: int, tail: int) -> TextPreview:
    cut = Cut("characters", len(text), ((0, head), (len(text) - tail, len(text))))
    return TextPreview(text[:head], text[len(text) - tail :], cut)


def _again_by_lines(before: str, after: str, cut: Cut, budget: int) -> TextPreview:
    """An output may contain the words of the marker, so no more is taken from an end than the cut shows of it."""
    first, last = cut.ends
    head, tail = split_lines(before)[:first], split_lines(after)[::-1][:last]
    head = head[: count_fitting_lines(head, budget // 2)]
    tail = tail[: count_fitting_lines(tail, budget - budget // 2)]
    smaller = Cut("lines", cut.total, ((0, len(head)), (cut.total - len(tail), cut.total)))
    return TextPreview("".join(head), "".join(tail[::-1]), smaller)


def _again_by_characters(before: str, after: str, cut: Cut, budget: int) -> TextPreview:
    first, last = cut.ends
    head, last = before[: min(first, budget // 2)], min(last, len(after), budget - budget // 2)
    smaller = Cut("characters", cut.total, ((0, len(head)), (cut.total - last, cut.total)))
    return TextPreview(head, after[len(after) - last :], smaller)


class FileText(msgspec.Struct, frozen=True, kw_only=True):
    # The docstring is part of inventory.json: a change raises the inventory's version.
    """`path` is virtual. `start` has the first of its `characters`, `end` the last of those behind them.

    Together they are the whole text of a short output; records of earlier releases repeat characters of it in both.
    Bytes that are no UTF-8 count as one replacement character each run, as Python decodes them, and `is_text` is then
    false. `size` is in bytes.
    """

    path: str
    start: str
    end: str = ""
    characters: int
    lines: int
    size: int | None = None
    is_text: bool = True

    @property
    def ends(self) -> tuple[str, str]:
        """The beginning and the end of the text; both are the whole text where all of it was read."""
        repeated = len(self.start) + len(self.end) - self.characters
        if repeated < 0:
            return self.start, self.end
        whole = self.start + self.end[repeated:]
        return whole, whole

    def preview(self, budget: int) -> TextPreview:
        """The preview that `head_tail` gives for the whole text, up to the characters that were read of an end."""
        start, end = self.ends
        budget = budget if self.characters <= len(self.start) else min(budget, len(self.start))
        if self.characters <= len(start):
            return head_tail(start, budget)
        first, last = split_lines(start), split_lines(end)
        head = count_fitting_lines(first, budget // 2)
        # The first line of the end may be half a line. It never fits: the end is longer than half the budget.
        tail = count_fitting_lines(last[::-1], budget - budget // 2)
        if head and tail:
            cut = Cut("lines", self.lines, ((0, head), (self.lines - tail, self.lines)))
            return TextPreview("".join(first[:head]), "".join(last[-tail:]), cut)
        head, tail = budget // 2, budget - budget // 2
        cut = Cut("characters", self.characters, ((0, head), (self.characters - tail, self.characters)))
        return TextPreview(self.start[:head], self.end[len(self.end) - tail :], cut)


def read_file_text(stream: BinaryIO, path: str, keep: int = PREVIEW_CHARACTERS) -> FileText:
    """Reads the stream to its end, a chunk at a time. `keep` characters of each end are kept for previews."""
    reader = FileTextReader(keep)
    while chunk := stream.read(FILE_CHUNK):
        reader.add(chunk)
    return reader.finish(path)


class FileTextReader:
    """Builds a FileText of bytes that pass by. `keep` characters of each end are kept."""

    def __init__(self, keep: int = PREVIEW_CHARACTERS) -> None:
        self._keep = keep
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strict = codecs.getincrementaldecoder("utf-8")("strict")
        self._start = self._end = self._last = ""
        self._characters = self._newlines = self._size = 0
        self.is_text = True

    def add(self, chunk: bytes, *, final: bool = False) -> None:
        text = self._decoder.decode(chunk, final=final)
        try:
            if self.is_text:
                self._strict.decode(chunk, final=final)
        except UnicodeDecodeError:
            self.is_text = False
        keep = self._keep
        self._start += text[: keep - len(self._start)]
        self._end = (self._end + text)[-keep:] if keep else ""
        self._characters += len(text)
        self._newlines += text.count("\n")
        self._last = text[-1:] or self._last
        self._size += len(chunk)

    def finish(self, path: str) -> FileText:
        self.add(b"", final=True)
        return FileText(
            path=path,
            start=self._start,
            end=self._end[max(0, len(self._start) + len(self._end) - self._characters) :],
            characters=self._characters,
            lines=self._newlines + (self._last not in ("", "\n")),
            size=self._size,
            is_text=self.is_text,
        )


class CommandPreview(msgspec.Struct, frozen=True, kw_only=True):
    """`preview` is for receipts, lists and logs; `digest` is the sha256 of the whole command, in hex."""

    preview: str
    digest: str
    contains_heredoc: bool
    contains_inline_script: bool


def preview_command(cmd: str) -> CommandPreview:
    """Previews a command, which may hold credentials and whole scripts.

    Heredocs and inline scripts are replaced by a note, and whatever looks like a secret by `[redacted]`. Redacting
    comes before cutting, so that no half of a secret escapes its pattern.
    """
    lines = cmd.split("\n")
    outside = list(_without_heredocs(lines)) if "<<" in cmd else lines
    text, scripts = _INLINE_SCRIPT.subn(rf"\1{SCRIPT_NOTE}", "\n".join(outside))
    preview = " ".join(redact(text).split())
    return CommandPreview(
        preview=preview if len(preview) <= COMMAND_CHARACTERS else preview[: COMMAND_CHARACTERS - 1] + "…",
        digest=hashlib.sha256(cmd.encode("utf-8", "surrogatepass")).hexdigest(),
        contains_heredoc=len(outside) != len(lines) or ("<<" in cmd and HEREDOC_NOTE in outside),
        contains_inline_script=scripts > 0,
    )


def _without_heredocs(lines: list[str]) -> Iterator[str]:
    """The lines with a note for the text of each heredoc. One without a closing line is none: `1 << shift`."""
    positions: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        positions.setdefault(line.strip("\t"), []).append(number)
    at = 0
    while at < len(lines):
        yield lines[at]
        for words in _HEREDOC.findall(lines[at]):
            word = "".join(words)
            ends = positions.get(word, [])
            following = bisect_right(ends, at)
            if following < len(ends):
                yield HEREDOC_NOTE
                yield word
                at = ends[following]
        at += 1


def common_beginning(text: str, other: str) -> int:
    """The number of characters that both begin with, by bisection: comparing slices is cheap."""
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text[low:middle] == other[low:middle] else (low, middle - 1)
    return low

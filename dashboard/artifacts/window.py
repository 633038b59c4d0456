"""A window of an artifact as rows of a page: text, terminal output, a diff, a table, bytes.

A window is at most 400 lines and 64 KiB. A line longer than that is shown in stretches, each a window
by bytes within the line.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate

from django.utils.safestring import SafeString

from dashboard.artifacts.content import Content
from dashboard.artifacts.json_tree import value_address
from dashboard.artifacts.search import marked
from dashboard.artifacts.visible_lines import Seen
from dashboard.text.ansi_markup import PLAIN, ansi_rows, style_after
from dashboard.text.text_markup import escape, escape_decoded
from envelopes.storage.encoding import decode
from envelopes.storage.line_index import WIDE
from envelopes.storage.line_window import LineWindow, WindowStart, read_window
from envelopes.storage.search import TextQuery

ROWLESS = ("json", "picture")
HEX_ROW = 16
HEX_BYTES = 4096
STYLE_FROM = 16 * 1024  # bytes before a window from which its first colours follow
COLUMNS = 60
RECORD = 50  # lines of one record of a table: where a quote is not closed by then, it opens nothing
CELL = 400  # characters
BEGINNING = 300  # characters of a line of JSON
SEEN_SAID = {
    "": "",
    "yes": "",
    "no": ", never seen by the model",
    "part": ", of which the model got the beginning",
}
DIFF_KINDS = {"+": "add", "-": "del", "@": "at"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line, a stretch of one, or 16 bytes. `number` is 0 where no line number is known.

    `seen` is yes, no, or part for a line of which the model got the beginning; empty where nothing says so.
    """

    number: int
    offset: int
    html: SafeString
    seen: str = ""
    is_asked: bool = False  # the address names this line
    is_continued: bool = False  # begins inside the line
    kind: str = ""
    cells: tuple[SafeString, ...] = ()
    fold: str = ""  # the address of the JSON value that the line holds
    kept: str = ""  # what every link of the page keeps

    @property
    def anchor(self) -> str:
        return f"L{self.number}" if self.number else f"B{self.offset}"

    @property
    def query(self) -> str:
        return f"line={self.number}" if self.number else f"offset={self.offset}"

    @property
    def href(self) -> str:
        return f"?{self.query}{self.kept}#{self.anchor}"

    @property
    def label(self) -> str:
        """What is read aloud of the number."""
        return (f"Line {self.number}" if self.number else f"Byte {self.offset}") + SEEN_SAID[self.seen]

    @property
    def mark(self) -> str:
        """The number as it stands in the margin."""
        return (str(self.number) if self.number else f"@{self.offset:,}") + ("…" if self.is_continued else "")

    @property
    def is_flat(self) -> bool:
        return not self.fold


@dataclass(frozen=True, kw_only=True)
class ArtifactWindow:
    """Bytes [start, end) of `size`; `first` and `last` are line numbers, 0 where none is known."""

    form: str
    rows: tuple[Row, ...]
    start: int
    end: int
    size: int
    first: int
    ends_in_line: bool = False

    @property
    def last(self) -> int:
        return self.first + max(0, len(self.rows) - 1) if self.first else 0

    @property
    def percent(self) -> int:
        return self.start * 100 // self.size if self.size else 0


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What is said of lines beside their text: which the model got, which the address names, what was looked for."""

    seen: Seen | None = None
    lines: range = range(0)
    query: TextQuery | None = None
    kept: str = ""


@dataclass(frozen=True)
class _Lines:
    """The lines of a window, and what a row of them needs to know."""

    content: Content
    window: LineWindow
    texts: list[str]
    query: TextQuery | None


def window_of(content: Content, form: str, place: WindowStart, marks: Marks) -> ArtifactWindow:
    """What was looked for is set off in the form of text. A form without lines has no rows."""
    if form in ROWLESS:
        return ArtifactWindow(form=form, rows=(), start=0, end=content.size, size=content.size, first=0)
    return _hex_window(content, place, marks.kept) if form == "hex" else _line_window(content, form, place, marks)


def _line_window(content: Content, form: str, place: WindowStart, marks: Marks) -> ArtifactWindow:
    window = read_window(content.stream, content.index, place)
    texts = decode(window.data, content.index.encoding).split("\n")
    ends_open = texts[-1] != ""
    if not ends_open:
        texts.pop()
    found = _Lines(content, window, texts, marks.query)
    first = window.first or 0
    needs_starts = not first or form == "jsonl"
    starts = _starts(window, texts, content.index.encoding) if needs_starts else [window.start] * len(texts)
    rows = [
        Row(
            number=first + index if first else 0,
            offset=starts[index],
            html=html,
            seen=marks.seen.of_row(first + index if first else 0, starts[index], window.end) if marks.seen else "",
            is_asked=first + index in marks.lines if first else False,
            is_continued=window.is_continued and index == 0,
            kind=kind,
            cells=cells,
            kept=marks.kept,
            fold=value_address(starts[index]) if kind == "fold" and not (window.is_continued and index == 0) else "",
        )
        for index, (html, kind, cells) in enumerate(ROWS.get(form, _text_rows)(found))
    ]
    return ArtifactWindow(
        form=form,
        rows=tuple(rows),
        start=window.start,
        end=window.end,
        size=window.size,
        first=first,
        ends_in_line=ends_open and window.end < window.size,
    )


def _starts(window: LineWindow, texts: list[str], encoding: str) -> list[int]:
    """Where each row begins, for a permalink while no line number is known."""
    if encoding in WIDE:
        sizes = [len(text.encode(encoding, "surrogatepass")) + 2 for text in texts]
    else:
        sizes = [len(line) + 1 for line in window.data.split(b"\n")]
    return list(accumulate(sizes, initial=window.start))


_Drawn = Sequence[tuple[SafeString, str, tuple[SafeString, ...]]]


def _text_rows(found: _Lines) -> _Drawn:
    drawn = marked(found.texts, found.query) if found.query else [escape_decoded(line) for line in found.texts]
    return [(html, "", ()) for html in drawn]


def _ansi_rows(found: _Lines) -> _Drawn:
    style = PLAIN
    if found.window.start:
        begin = max(0, found.window.start - STYLE_FROM)
        found.content.stream.seek(begin)
        before = found.content.stream.read(found.window.start - begin)
        style = style_after(decode(before, found.content.index.encoding))
    return [(html, "", ()) for html in ansi_rows(found.texts, style)]


def _diff_rows(found: _Lines) -> _Drawn:
    """By the first character: a window may begin within a hunk. Names of files stand in pairs, and what does not is
    a line that itself begins with -- or ++."""
    around = zip(["", *found.texts], found.texts, [*found.texts[1:], ""], strict=False)
    return [(escape_decoded(line), _diff_kind(before, line, behind), ()) for before, line, behind in around]


def _diff_kind(before: str, line: str, behind: str) -> str:
    is_old = line.startswith("--- ") and behind.startswith("+++ ")
    is_new = line.startswith("+++ ") and before.startswith("--- ")
    return "file" if is_old or is_new or line.startswith(("diff ", "index ")) else DIFF_KINDS.get(line[:1], "")


def _json_rows(found: _Lines) -> _Drawn:
    """The beginning of each line; what it holds is unfolded on demand."""
    shown = [line if len(line) <= BEGINNING else f"{line[:BEGINNING]}…" for line in found.texts]
    return [(escape_decoded(line), "fold" if line[:1] in ("{", "[") else "", ()) for line in shown]


def _table_rows(found: _Lines) -> _Drawn:
    """A row a line, so that line numbers stay those of the file. A cell over several lines stands whole in the row of
    its first one, and the rows of the others say so.
    """
    delimiter = delimiter_of(decode(found.content.head, found.content.index.encoding))
    drawn: list[tuple[SafeString, str, tuple[SafeString, ...]]] = []
    while len(drawn) < len(found.texts):
        at = len(drawn)
        values, lines = _record(found.texts, at, delimiter)
        drawn.append((escape(""), "", _drawn_cells(values)))
        drawn += [(escape(""), "inside", ())] * (lines - 1)
    return drawn


def _record(texts: Sequence[str], at: int, delimiter: str) -> tuple[list[str], int]:
    """The values of the record that begins in a line, and over how many lines it goes."""
    quotes, end = texts[at].count('"') % 2, at + 1
    while quotes and end < min(len(texts), at + RECORD):
        quotes, end = (quotes + texts[end].count('"')) % 2, end + 1
    if end > at + 1 and not quotes:
        lines = [f"{line.rstrip(chr(13))}\n" for line in texts[at:end]]
        with suppress(csv.Error):  # a quote that opens nothing: the line stands by itself
            records = list(
                csv.reader([line.replace("\0", "\u2400") for line in lines], delimiter=delimiter, strict=True)
            )
            if len(records) == 1:
                return records[0], end - at
    return _split(texts[at].rstrip("\r"), delimiter), 1


def delimiter_of(head: str) -> str:
    """What stands most often in the first line."""
    first = head.partition("\n")[0]
    return max("\t;|,", key=first.count)


def _drawn_cells(values: Sequence[str]) -> tuple[SafeString, ...]:
    shown = [value if len(value) <= CELL else f"{value[:CELL]}…" for value in values[:COLUMNS]]
    more = [f"and {len(values) - COLUMNS} more columns"] if len(values) > COLUMNS else []
    return tuple(escape_decoded(value) for value in [*shown, *more])


def heads_of(content: Content, window: ArtifactWindow) -> tuple[SafeString, ...]:
    """The cells of a table's first line, for a window that lies behind it."""
    if window.form != "table" or window.first < 2:
        return ()
    head = decode(content.head, content.index.encoding)
    first, end, _ = head.partition("\n")
    return _drawn_cells(_split(first.rstrip("\r"), delimiter_of(head))) if end else ()


def _split(line: str, delimiter: str) -> list[str]:
    """As csv reads it, which is asked only where there is anything but delimiters to be read."""
    if '"' not in line and "\0" not in line:
        return line.split(delimiter) if line else []
    try:
        return next(csv.reader([line.replace("\0", "\u2400")], delimiter=delimiter), [])
    except csv.Error:
        return [line]


ROWS: dict[str, Callable[[_Lines], _Drawn]] = {
    "text": _text_rows,
    "ansi": _ansi_rows,
    "diff": _diff_rows,
    "table": _table_rows,
    "jsonl": _json_rows,
}


def _hex_window(content: Content, place: WindowStart, kept: str) -> ArtifactWindow:
    asked = place.offset or 0
    if place.percent is not None:
        asked = content.size * min(place.percent, 100) // 100
    elif place.is_tail:
        asked = content.size - HEX_BYTES + HEX_ROW
    start = max(0, min(asked, content.size - 1)) // HEX_ROW * HEX_ROW
    content.stream.seek(start)
    data = content.stream.read(HEX_BYTES)
    rows = [
        Row(number=0, offset=start + at, html=escape_decoded(_hex_row(data[at : at + HEX_ROW])), kept=kept)
        for at in range(0, len(data), HEX_ROW)
    ]
    return ArtifactWindow(form="hex", rows=tuple(rows), start=start, end=start + len(data), size=content.size, first=0)


def _hex_row(data: bytes) -> str:
    shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
    return f"{data.hex(' '):<47}  {shown}"

"""A window of an artifact as rows of a page: text, terminal output, a diff, a table, bytes.

A window has at most 400 lines and 64 KiB. A line longer than that is shown in stretches, each a window by bytes
within the line.

A view mode is chosen by the first bytes and the name of the content, never HTML, SVG or Markdown. The first mode that
fits is the default; text and bytes are always offered, in case another mode was chosen wrongly.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate
from typing import NamedTuple

from django.utils.safestring import SafeString

from dashboard.artifacts.content import Content
from dashboard.artifacts.json_tree import value_address
from dashboard.artifacts.search import find_marks, highlight_hits
from dashboard.artifacts.visible_lines import VisibleLines
from dashboard.text.ansi_markup import PLAIN, render_ansi_lines, style_after
from dashboard.text.images import read_image_header
from dashboard.text.text_markup import escape, escape_decoded
from envelopes.storage.encoding import SNIFFED, decode
from envelopes.storage.json_members import LONGEST_NAME, list_members
from envelopes.storage.line_index import WIDE, count_ends
from envelopes.storage.line_window import LineWindow, WindowStart, read_window
from envelopes.storage.search import TextHit, TextQuery
from envelopes.text.deadline import NO_DEADLINE, Deadline

MODES_WITHOUT_ROWS = ("json", "picture")
HEX_ROW = 16  # bytes
HEX_BYTES = 4096
STYLE_BYTES = 16 * 1024  # before a window, from which its first colours follow
MOST_COLUMNS = 60
LONGEST_RECORD = 50  # lines of one record of a table: a quote that is not closed by then opens nothing
LONGEST_CELL = 400  # characters
JSON_BEGINNING = 300  # characters of a line of JSON
STATE_LABELS = {
    "": "",
    "yes": "",
    "no": ", not seen by the model",
    "part": ", of which the model saw the beginning",
}
DIFF_KINDS = {"+": "add", "-": "del", "@": "at"}


@dataclass(frozen=True, kw_only=True)
class ArtifactRow:
    """A line, a stretch of one, or 16 bytes. `number` is 0 where the line number is not known.

    `seen` is yes, no, or part for a line of which the model got the beginning; empty where it is not known.
    """

    number: int
    offset: int
    html: SafeString
    seen: str = ""
    is_highlighted: bool = False  # the address names this line
    is_continued: bool = False  # begins inside the line
    kind: str = ""
    cells: tuple[SafeString, ...] = ()
    json_address: str = ""  # of the JSON value on the line
    query_suffix: str = ""  # the part of the query string that every link of the page keeps

    @property
    def is_marked(self) -> bool:
        """One test instead of three for most rows of a page."""
        return self.is_highlighted or bool(self.seen or self.kind)

    @property
    def anchor(self) -> str:
        return f"L{self.number}" if self.number else f"B{self.offset}"

    @property
    def href(self) -> str:
        query = f"line={self.number}" if self.number else f"offset={self.offset}"
        return f"?{query}{self.query_suffix}#{self.anchor}"

    @property
    def label(self) -> str:
        """The accessible name of the link in the margin."""
        return (f"Line {self.number}" if self.number else f"Byte {self.offset}") + STATE_LABELS[self.seen]

    @property
    def margin(self) -> str:
        return (str(self.number) if self.number else f"@{self.offset:,}") + ("…" if self.is_continued else "")


@dataclass(frozen=True, kw_only=True)
class ArtifactWindow:
    """Bytes [start, end) of `size` in a view mode; `first` and `last` are line numbers, 0 where none is known.

    `unmarked` is the first line, or the byte where no line is known, from which on matches are not highlighted.
    """

    mode: str
    rows: tuple[ArtifactRow, ...]
    start: int
    end: int
    size: int
    first: int
    ends_in_line: bool = False
    unmarked: int = 0

    @property
    def last(self) -> int:
        return self.first + max(0, len(self.rows) - 1) if self.first else 0

    @property
    def label(self) -> str:
        return f"lines {self.first} to {self.last}" if self.first else f"bytes {self.start} to {self.end}"

    @property
    def percent(self) -> int:
        return self.start * 100 // self.size if self.size else 0


@dataclass(frozen=True, kw_only=True)
class WindowMarks:
    """Marks of a window: lines that the model saw, lines that the address names, and matches of a search.

    Matches are looked for until the deadline.
    """

    visible: VisibleLines | None = None
    lines: range = range(0)
    query: TextQuery | None = None
    query_suffix: str = ""
    deadline: Deadline = NO_DEADLINE


class _RenderedLine(NamedTuple):
    html: SafeString
    kind: str = ""
    cells: tuple[SafeString, ...] = ()


@dataclass(frozen=True)
class _WindowText:
    content: Content
    window: LineWindow
    lines: list[str]
    hits: Sequence[TextHit] = ()


def load_window(content: Content, mode: str, start: WindowStart, marks: WindowMarks) -> ArtifactWindow:
    """Reads a window of the content. Matches are highlighted in text only; JSON and pictures have no rows."""
    if mode in MODES_WITHOUT_ROWS:
        return ArtifactWindow(mode=mode, rows=(), start=0, end=content.size, size=content.size, first=0)
    if mode == "hex":
        return _load_hex_window(content, start, marks.query_suffix)
    window = read_window(content.stream, content.index, start)
    lines = decode(window.data, content.index.encoding).split("\n")
    ends_in_line = lines[-1] != ""
    if not ends_in_line:
        lines.pop()
    first = window.first or 0
    if first and mode != "jsonl":
        offsets = [window.start] * len(lines)  # links use the line numbers
    else:
        offsets = _line_offsets(window, lines, content.index.encoding)
    hits = find_marks(content, marks.query if mode == "text" else None, window, marks.deadline)
    rendered = RENDERERS.get(mode, _render_text)(_WindowText(content, window, lines, hits.hits))
    rows = []
    for index, (html, kind, cells) in enumerate(rendered):
        number = first + index if first else 0
        is_continued = window.is_continued and index == 0
        rows.append(
            ArtifactRow(
                number=number,
                offset=offsets[index],
                html=html,
                seen=marks.visible.row_state(number, offsets[index], window.end) if marks.visible else "",
                is_highlighted=number in marks.lines,
                is_continued=is_continued,
                kind=kind,
                cells=cells,
                json_address=value_address(offsets[index]) if kind == "json" and not is_continued else "",
                query_suffix=marks.query_suffix,
            )
        )
    return ArtifactWindow(
        mode=mode,
        rows=tuple(rows),
        start=window.start,
        end=window.end,
        size=window.size,
        first=first,
        ends_in_line=ends_in_line and window.end < window.size,
        unmarked=0 if hits.is_whole else _line_of(window, content.index.encoding, hits.reached) or hits.reached,
    )


def _line_of(window: LineWindow, encoding: str, offset: int) -> int:
    """The number of the line at a byte of the window, 0 where it is not known."""
    return window.first + count_ends(window.data[: offset - window.start], encoding) if window.first else 0


def _line_offsets(window: LineWindow, lines: list[str], encoding: str) -> list[int]:
    """The byte at which each row begins."""
    if encoding in WIDE:
        sizes = [len(line.encode(encoding, "surrogatepass")) + 2 for line in lines]
    else:
        sizes = [len(line) + 1 for line in window.data.split(b"\n")]
    return list(accumulate(sizes, initial=window.start))


def _render_text(text: _WindowText) -> list[_RenderedLine]:
    if not text.hits:
        return [_RenderedLine(escape_decoded(line)) for line in text.lines]
    encoding = text.content.index.encoding
    offsets = _line_offsets(text.window, text.lines, encoding)
    return [_RenderedLine(html) for html in highlight_hits(text.hits, text.window, text.lines, offsets, encoding)]


def _render_ansi(text: _WindowText) -> list[_RenderedLine]:
    style = PLAIN
    if text.window.start:
        begin = max(0, text.window.start - STYLE_BYTES)
        text.content.stream.seek(begin)
        before = text.content.stream.read(text.window.start - begin)
        style = style_after(decode(before, text.content.index.encoding))
    return [_RenderedLine(html) for html in render_ansi_lines(text.lines, style)]


def _render_diff(text: _WindowText) -> list[_RenderedLine]:
    """Lines are classified by their first character, because a window may begin within a hunk.

    File names stand in pairs of lines; any other line with --- or +++ is one that itself begins with -- or ++.
    """
    rendered = []
    for before, line, after in zip(["", *text.lines], text.lines, [*text.lines[1:], ""], strict=False):
        is_old_name = line.startswith("--- ") and after.startswith("+++ ")
        is_new_name = line.startswith("+++ ") and before.startswith("--- ")
        is_header = is_old_name or is_new_name or line.startswith(("diff ", "index "))
        kind = "file" if is_header else DIFF_KINDS.get(line[:1], "")
        rendered.append(_RenderedLine(escape_decoded(line), kind))
    return rendered


def _render_json_lines(text: _WindowText) -> list[_RenderedLine]:
    """The beginning of each line; its value is unfolded on demand."""
    return [
        _RenderedLine(escape_decoded(_shortened(line, JSON_BEGINNING)), "json" if line[:1] in ("{", "[") else "")
        for line in text.lines
    ]


def _render_table(text: _WindowText) -> list[_RenderedLine]:
    """One row a line, so that line numbers stay those of the file.

    A cell over several lines is shown in the row of its first line; the rows of the others are marked `inside`.
    """
    delimiter = find_delimiter(decode(text.content.head, text.content.index.encoding))
    rendered: list[_RenderedLine] = []
    while len(rendered) < len(text.lines):
        values, line_count = _read_record(text.lines, len(rendered), delimiter)
        rendered.append(_RenderedLine(escape(""), "", _render_cells(values)))
        rendered += [_RenderedLine(escape(""), "inside")] * (line_count - 1)
    return rendered


RENDERERS: dict[str, Callable[[_WindowText], list[_RenderedLine]]] = {
    "text": _render_text,
    "ansi": _render_ansi,
    "diff": _render_diff,
    "table": _render_table,
    "jsonl": _render_json_lines,
}


def _read_record(lines: Sequence[str], start: int, delimiter: str) -> tuple[list[str], int]:
    """The values of the record that begins in line `start`, and its number of lines."""
    open_quotes, end = lines[start].count('"') % 2, start + 1
    while open_quotes and end < min(len(lines), start + LONGEST_RECORD):
        open_quotes, end = (open_quotes + lines[end].count('"')) % 2, end + 1
    if end > start + 1 and not open_quotes:
        record = [f"{line.rstrip(chr(13))}\n".replace("\0", "\u2400") for line in lines[start:end]]
        with suppress(csv.Error):  # a quote that opens nothing: the line is a record by itself
            records = list(csv.reader(record, delimiter=delimiter, strict=True))
            if len(records) == 1:
                return records[0], end - start
    return _split_values(lines[start].rstrip("\r"), delimiter), 1


def _split_values(line: str, delimiter: str) -> list[str]:
    """The values of one line. `csv` is slower than `split`, and is only used where there are quotes."""
    if '"' not in line and "\0" not in line:
        return line.split(delimiter) if line else []
    try:
        return next(csv.reader([line.replace("\0", "\u2400")], delimiter=delimiter), [])
    except csv.Error:
        return [line]


def find_delimiter(head: str) -> str:
    """The most frequent delimiter of the first line."""
    first_line = head.partition("\n")[0]
    return max("\t;|,", key=first_line.count)


def _render_cells(values: Sequence[str]) -> tuple[SafeString, ...]:
    cells = [_shortened(value, LONGEST_CELL) for value in values[:MOST_COLUMNS]]
    if len(values) > MOST_COLUMNS:
        cells.append(f"and {len(values) - MOST_COLUMNS} more columns")
    return tuple(map(escape_decoded, cells))


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def table_header(content: Content, window: ArtifactWindow) -> tuple[SafeString, ...]:
    """The cells of a table's first line, for a window that begins behind it."""
    if window.mode != "table" or window.first < 2:
        return ()
    head = decode(content.head, content.index.encoding)
    first_line, newline, _ = head.partition("\n")
    return _render_cells(_split_values(first_line.rstrip("\r"), find_delimiter(head))) if newline else ()


def _load_hex_window(content: Content, start: WindowStart, query_suffix: str) -> ArtifactWindow:
    offset = start.offset or 0
    if start.percent is not None:
        offset = content.size * min(start.percent, 100) // 100
    elif start.is_tail:
        offset = content.size - HEX_BYTES + HEX_ROW
    begin = max(0, min(offset, content.size - 1)) // HEX_ROW * HEX_ROW
    content.stream.seek(begin)
    data = content.stream.read(HEX_BYTES)
    rows = []
    for index in range(0, len(data), HEX_ROW):
        row = data[index : index + HEX_ROW]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        html = escape_decoded(f"{row.hex(' '):<47}  {characters}")
        rows.append(ArtifactRow(number=0, offset=begin + index, html=html, query_suffix=query_suffix))
    return ArtifactWindow(mode="hex", rows=tuple(rows), start=begin, end=begin + len(data), size=content.size, first=0)


JSON_LINES = 6  # lines that are looked at
TABLE_LINES = 5
LONGEST_CHARACTER = 4  # bytes
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")
_DIFF = re.compile(r"^(diff --git |--- [^\n]+\n\+\+\+ |@@ -\d+)", re.MULTILINE)
_TABLE_NAME = re.compile(r"\.(csv|tsv)$", re.IGNORECASE)


@dataclass(frozen=True)
class ViewMode:
    """`fits` gets the first bytes as text, and the name. `has_lines`: its window consists of lines."""

    name: str
    label: str
    fits: Callable[[str, str], bool]
    has_lines: bool = True
    has_text: bool = True


MODES = (
    ViewMode("json", "JSON", lambda head, _name: _is_json(head), has_lines=False),
    ViewMode("jsonl", "JSON lines", lambda head, _name: _is_json_lines(head)),
    ViewMode("ansi", "Terminal", lambda head, _name: bool(_COLOUR.search(head))),
    ViewMode("diff", "Diff", lambda head, _name: bool(_DIFF.search(head))),
    ViewMode("table", "Table", lambda head, name: bool(_TABLE_NAME.search(name)) or _is_table(head)),
    ViewMode("text", "Text", lambda _head, _name: True),
)
TEXT = MODES[-1]
BYTES = ViewMode("hex", "Bytes", lambda _head, _name: True, has_lines=False, has_text=False)
PICTURE = ViewMode("picture", "Picture", lambda _head, _name: True, has_lines=False, has_text=False)


def view_modes(head: bytes, encoding: str, name: str) -> tuple[ViewMode, ...]:
    """The modes that fit content that begins with `head`. `encoding` is empty for what is not text."""
    picture = (PICTURE,) if read_image_header(head) else ()
    if not encoding:
        return (*picture, BYTES, TEXT)
    text = decode(head, encoding)
    # JSON is read as bytes, and is UTF-8 (RFC 8259).
    offered = MODES if encoding == "utf-8" else [mode for mode in MODES if "json" not in mode.name]
    return (*picture, *(mode for mode in offered if mode.fits(text, name)), BYTES)


def pick_mode(modes: tuple[ViewMode, ...], name: str, *, needs_lines: bool) -> ViewMode:
    """The mode `name`, else the first; instead of a JSON tree the first with lines where a line is asked for."""
    named = next((mode for mode in modes if mode.name == name), None)
    if named is None and needs_lines and modes[0].name == "json":
        return next(mode for mode in modes if mode.has_lines)
    return named or modes[0]


def _is_json(head: str) -> bool:
    """True for one object or array with nothing behind it, as far as the head shows.

    One that was cut short qualifies where it has a complete member.
    """
    raw = head.removeprefix("\ufeff").encode("utf-8", "surrogateescape")
    if raw.lstrip()[:1] not in (b"{", b"["):
        return False
    value = list_members(BytesIO(raw), 0)
    if value.end >= 0:
        return not raw[value.end :].strip()
    is_cut_head = len(raw) >= SNIFFED - LONGEST_CHARACTER  # the head of longer content, cut anywhere
    if is_cut_head:
        return value.fault < 0 or value.fault >= len(raw) - LONGEST_NAME
    return value.fault < 0 or (value.fault >= len(raw) and bool(value.members))


def _is_json_lines(head: str) -> bool:
    """True for two lines and more of which each but the last is an object or array."""
    lines = [line for line in head.removeprefix("\ufeff").split("\n")[:JSON_LINES] if line.strip()]
    complete = lines[:-1] or lines
    return len(lines) > 1 and all(line[:1] in ("{", "[") and _is_json(line) for line in complete)


def _is_table(head: str) -> bool:
    """True for three columns and more, the same number in each of the first five lines."""
    lines = head.split("\n")[:TABLE_LINES]
    counts = {line.count(find_delimiter(head)) for line in lines}
    is_json = head.lstrip().startswith(("{", "["))
    return len(lines) == TABLE_LINES and len(counts) == 1 and min(counts) >= 2 and not is_json

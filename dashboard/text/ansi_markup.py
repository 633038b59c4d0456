"""Terminal output as a page shows it: colours and weights as classes, every other sequence as a mark.

Cursor movement, titles, links and device commands change nothing here: each is one mark that names it,
so that nothing of the text is hidden and nothing in it acts. The one-byte forms (U+0080 to U+009F) are
marks like every control character, and begin no sequence. A carriage return is a mark as well: what
a terminal would have painted over stays to be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from django.utils.safestring import SafeString, mark_safe

from dashboard.text.escaping import escape_attribute
from dashboard.text.text_markup import escape_decoded

_SEQUENCE = re.compile(
    "\x1b\\[(?P<parameters>[0-9:;<=>?]*)[ -/]*(?P<final>[@-~])"
    "|\x1b[\\]PX^_](?P<string>[^\x07\x1b\n]*)(?:\x07|\x1b\\\\|(?=[\x1b\n]|$))"
    "|\x1b[ -/]*[0-~]"
)
_COLOURS = re.compile("\x1b\\[([0-9:;]*)m")
_MOST_SEQUENCES = 2_000  # in a line; what is behind them is shown as marks
_NAMES = {
    **dict.fromkeys("ABCDEFGHfd", "cursor"),
    **dict.fromkeys("JK", "erase"),
    **dict.fromkeys("hl", "mode"),
    **dict.fromkeys("STLM", "scroll"),
    **dict.fromkeys("nc", "query"),
}
# What an operating system command (OSC) is about, by its number.
_COMMANDS = {**dict.fromkeys("012", "title"), "8": "link", "52": "clipboard", **dict.fromkeys(("9", "777"), "notice")}
_WEIGHTS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 8: "conceal", 9: "strike"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("inverse",), 28: ("conceal",), 29: ("strike",)}


class Style(NamedTuple):
    """Colours 0 to 15 of the terminal's palette; "" is none. Other colours are drawn as the nearest of them."""

    ink: str = ""
    ground: str = ""
    weights: frozenset[str] = frozenset()

    @property
    def classes(self) -> str:
        colours = [f"a-{self.ink}"] if self.ink else []
        colours += [f"a-on-{self.ground}"] if self.ground else []
        return " ".join([*colours, *(f"a-{weight}" for weight in sorted(self.weights))])


PLAIN = Style()
SHORT = 32  # characters of numbers


def ansi_rows(lines: Iterable[str], style: Style = PLAIN) -> list[SafeString]:
    rows = []
    for line in lines:
        html, style = _row(line, style)
        rows.append(html)
    return rows


def style_after(text: str) -> Style:
    """The style that a stretch of output leaves behind, from the last time that it was reset."""
    style = PLAIN
    for found in _SEQUENCE.finditer(text[text.rfind("\x1b[0m") + 1 :]):
        style = _applied(style, found)
    return style


def _row(line: str, style: Style) -> tuple[SafeString, Style]:
    """Most lines have colours and nothing else: those are taken apart at once."""
    first, *rest = _COLOURS.split(line)
    if "\x1b" in first or len(rest) > _MOST_SEQUENCES or any("\x1b" in text for text in rest[1::2]):
        return _mixed_row(line, style)
    parts = [_styled(first, style)]
    for parameters, text in zip(rest[::2], rest[1::2], strict=True):
        style = _after(style, parameters)
        parts.append(_styled(text, style))
    return mark_safe("".join(parts)), style


def _mixed_row(line: str, style: Style) -> tuple[SafeString, Style]:
    parts, at = [], 0
    for found in islice(_SEQUENCE.finditer(line), _MOST_SEQUENCES):
        parts.append(_styled(line[at : found.start()], style))
        if found["final"] == "m":
            style = _applied(style, found)
        else:
            parts.append(_mark(found))
        at = found.end()
    parts.append(_styled(line[at:], style))
    return mark_safe("".join(parts)), style


def _styled(text: str, style: Style) -> str:
    if not text or style == PLAIN:
        return escape_decoded(text)
    return f"{_opening(style)}{escape_decoded(text)}</span>"


@lru_cache(1_000)
def _opening(style: Style) -> str:
    return f'<span class="{style.classes}">'


def _mark(found: re.Match[str]) -> str:
    """What the sequence would have done; all of it in the title."""
    kind = _NAMES.get(found["final"] or "", "control")
    if found["string"] is not None:
        is_command = found[0].startswith("\x1b]")
        kind = _COMMANDS.get(found["string"].partition(";")[0] if is_command else "", "string")
    return f'<i class="mark" title="{escape_attribute(found[0][:200])}">{kind}</i>'


def _applied(style: Style, found: re.Match[str]) -> Style:
    if found["final"] != "m":
        return style
    return _after(style, found["parameters"])


def _after(style: Style, parameters: str) -> Style:
    return _known(style, parameters) if len(parameters) <= SHORT else _set(style, parameters)


@lru_cache(5_000)  # a log has few of them, and two in a line; what nobody would write is not kept
def _known(style: Style, parameters: str) -> Style:
    return _set(style, parameters)


def _set(style: Style, parameters: str) -> Style:
    codes = [code for part in parameters.split(";") for code in _codes(part)]
    at = 0
    while at < len(codes):
        style, taken = _one(style, codes[at:])
        at += taken
    return style


def _codes(part: str) -> list[int]:
    """The numbers of a parameter. Behind colons (ISO 8613-6) stands what belongs to the first: a colour, a kind of
    underline, and a colour space before red, green and blue."""
    codes = [int(code) if code.isdigit() and len(code) < 4 else 0 for code in part.split(":")]
    match codes:
        case [_]:
            return codes
        case [38 | 48 | 58 as which, 2, _, red, green, blue, *_]:
            return [which, 2, red, green, blue]
        case [38 | 48 | 58, *_]:
            return codes
        case [4, 0, *_]:
            return [24]
    return codes[:1]


def _one(style: Style, codes: list[int]) -> tuple[Style, int]:
    """The style after the first code, and how many numbers belong to it."""
    code = codes[0]
    if code in (38, 48, 58):
        colour, taken = _wide_colour(codes)
        # 58 is the colour of an underline, which the page draws in that of the text.
        drawn = {38: style._replace(ink=colour), 48: style._replace(ground=colour)}
        return drawn.get(code, style), taken
    return _simple(style, code), 1


def _simple(style: Style, code: int) -> Style:
    match code:
        case 0:
            return PLAIN
        case code if code in _WEIGHTS:
            return style._replace(weights=style.weights | {_WEIGHTS[code]})
        case code if code in _OFF:
            return style._replace(weights=style.weights - set(_OFF[code]))
        case 39:
            return style._replace(ink="")
        case 49:
            return style._replace(ground="")
        case code if 30 <= code <= 37 or 90 <= code <= 97:
            return style._replace(ink=str(code - 30 if code < 90 else code - 82))
        case code if 40 <= code <= 47 or 100 <= code <= 107:
            return style._replace(ground=str(code - 40 if code < 100 else code - 92))
    return style


def _wide_colour(codes: list[int]) -> tuple[str, int]:
    if len(codes) >= 3 and codes[1] == 5:
        return _of_256(codes[2]), 3
    if len(codes) >= 5 and codes[1] == 2:
        return _nearest(*codes[2:5]), 5
    return "", len(codes)


def _of_256(number: int) -> str:
    if number < 16:
        return str(number)
    if number > 231:
        return _nearest(*[8 + 10 * (number - 232)] * 3)
    levels = [int(level) * 51 for level in ((number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6)]
    return _nearest(*levels)


def _nearest(red: int, green: int, blue: int) -> str:
    """A class a colour: the sixteen that the page defines for light and dark."""
    strong = max(red, green, blue)
    if strong - min(red, green, blue) < 40:
        return str((0, 8, 7, 15)[min(3, strong // 64)])
    bits = sum(bit for bit, part in ((1, red), (2, green), (4, blue)) if part * 2 > strong)
    return str(bits + 8 if strong > 200 else bits)

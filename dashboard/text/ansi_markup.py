"""Terminal output as markup: colours and weights as classes, every other sequence as a mark.

Cursor movement, titles, links and device commands have no effect here: each becomes one mark with its name, so that
nothing of the text is hidden and nothing in it acts. The one-byte forms (U+0080 to U+009F) are marks like every
control character and begin no sequence. A carriage return is a mark as well, so that text which a terminal would
have overwritten stays readable.

`rich.ansi` is not used because it drops every sequence but colours and links, which hides what a program sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from django.utils.safestring import SafeString, mark_safe

from dashboard.text.text_markup import escape_attribute, escape_decoded

_SEQUENCE = re.compile(
    "\x1b\\[(?P<parameters>[0-9:;<=>?]*)[ -/]*(?P<final>[@-~])"
    "|\x1b[\\]PX^_](?P<string>[^\x07\x1b\n]*)(?:\x07|\x1b\\\\|(?=[\x1b\n]|$))"
    "|\x1b[ -/]*[0-~]"
)
_COLOURS = re.compile("\x1b\\[([0-9:;]*)m")
_MOST_SEQUENCES = 2_000  # in a line; those behind them are shown as marks of single characters
_CACHED_PARAMETERS = 32  # characters: longer parameters are not worth a place in the cache
_NAMES = {
    **dict.fromkeys("ABCDEFGHfd", "cursor"),
    **dict.fromkeys("JK", "erase"),
    **dict.fromkeys("hl", "mode"),
    **dict.fromkeys("STLM", "scroll"),
    **dict.fromkeys("nc", "query"),
}
# Operating system commands (OSC) by their number.
_COMMANDS = {**dict.fromkeys("012", "title"), "8": "link", "52": "clipboard", **dict.fromkeys(("9", "777"), "notice")}
_WEIGHTS = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 8: "conceal", 9: "strike"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("inverse",), 28: ("conceal",), 29: ("strike",)}


class AnsiStyle(NamedTuple):
    """Colours 0 to 15 of the terminal's palette; "" is none. Other colours become the nearest of them."""

    ink: str = ""
    ground: str = ""
    weights: frozenset[str] = frozenset()


PLAIN = AnsiStyle()


def render_ansi_lines(lines: Iterable[str], style: AnsiStyle = PLAIN) -> list[SafeString]:
    """Lines of output that begins in `style`."""
    rendered = []
    for line in lines:
        html, style = _render_line(line, style)
        rendered.append(html)
    return rendered


def style_after(text: str) -> AnsiStyle:
    """The style at the end of `text`, from the last time that it was reset."""
    style = PLAIN
    for sequence in _SEQUENCE.finditer(text[text.rfind("\x1b[0m") + 1 :]):
        if sequence["final"] == "m":
            style = _apply(style, sequence["parameters"])
    return style


def _render_line(line: str, style: AnsiStyle) -> tuple[SafeString, AnsiStyle]:
    first, *rest = _COLOURS.split(line)
    parts = []
    if "\x1b" not in first and len(rest) <= _MOST_SEQUENCES and not any("\x1b" in text for text in rest[1::2]):
        # Most lines have colours and nothing else; splitting them is several times faster.
        parts.append(_render_styled(first, style))
        for parameters, text in zip(rest[::2], rest[1::2], strict=True):
            style = _apply(style, parameters)
            parts.append(_render_styled(text, style))
        return mark_safe("".join(parts)), style
    offset = 0
    for sequence in islice(_SEQUENCE.finditer(line), _MOST_SEQUENCES):
        parts.append(_render_styled(line[offset : sequence.start()], style))
        if sequence["final"] == "m":
            style = _apply(style, sequence["parameters"])
        else:
            parts.append(_render_mark(sequence))
        offset = sequence.end()
    parts.append(_render_styled(line[offset:], style))
    return mark_safe("".join(parts)), style


def _render_styled(text: str, style: AnsiStyle) -> str:
    return f"{_opening_tag(style)}{escape_decoded(text)}</span>" if text and style != PLAIN else escape_decoded(text)


@lru_cache(1_000)
def _opening_tag(style: AnsiStyle) -> str:
    classes = [f"a-{style.ink}"] if style.ink else []
    classes += [f"a-on-{style.ground}"] if style.ground else []
    return f'<span class="{" ".join([*classes, *(f"a-{weight}" for weight in sorted(style.weights))])}">'


def _render_mark(sequence: re.Match[str]) -> str:
    """A mark with the name of what the sequence would do, and the sequence itself in the title."""
    kind = _NAMES.get(sequence["final"] or "", "control")
    if sequence["string"] is not None:
        is_command = sequence[0].startswith("\x1b]")
        kind = _COMMANDS.get(sequence["string"].partition(";")[0] if is_command else "", "string")
    return f'<i class="mark" title="{escape_attribute(sequence[0][:200])}">{kind}</i>'


def _apply(style: AnsiStyle, parameters: str) -> AnsiStyle:
    apply = _apply_cached if len(parameters) <= _CACHED_PARAMETERS else _apply_parameters
    return apply(style, parameters)


def _apply_parameters(style: AnsiStyle, parameters: str) -> AnsiStyle:
    codes = [code for part in parameters.split(";") for code in _parse_codes(part)]
    index = 0
    while index < len(codes):
        code, used = codes[index], 1
        if code in (38, 48, 58):
            colour, used = _parse_colour(codes[index:])
            if code == 38:
                style = style._replace(ink=colour)
            elif code == 48:
                style = style._replace(ground=colour)
            # 58 is the colour of an underline, which the page draws in the colour of the text.
        else:
            style = _apply_code(style, code)
        index += used
    return style


_apply_cached = lru_cache(5_000)(_apply_parameters)  # a log has few different parameters, and two in a line


def _parse_codes(part: str) -> list[int]:
    """The numbers of a parameter.

    Numbers behind colons (ISO 8613-6) belong to the first: a colour, with an optional colour space before red, green
    and blue, or a kind of underline.
    """
    codes = [int(code) if code.isdigit() and len(code) < 4 else 0 for code in part.split(":")]
    match codes:
        case [_]:
            return codes
        case [38 | 48 | 58 as code, 2, _, red, green, blue, *_]:
            return [code, 2, red, green, blue]
        case [38 | 48 | 58, *_]:
            return codes
        case [4, 0, *_]:
            return [24]
    return codes[:1]


def _apply_code(style: AnsiStyle, code: int) -> AnsiStyle:
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


def _parse_colour(codes: list[int]) -> tuple[str, int]:
    """The nearest palette colour of `38;5;n` or `38;2;r;g;b`, and how many numbers belong to it."""
    if len(codes) >= 5 and codes[1] == 2:
        return _nearest(*codes[2:5]), 5
    if len(codes) < 3 or codes[1] != 5:
        return "", len(codes)
    number = codes[2]
    if number < 16:
        return str(number), 3
    if number > 231:  # a ramp of greys
        return _nearest(*[8 + 10 * (number - 232)] * 3), 3
    levels = ((number - 16) // 36, (number - 16) // 6 % 6, (number - 16) % 6)  # a cube of 6 × 6 × 6 colours
    return _nearest(*(51 * level for level in levels)), 3


def _nearest(red: int, green: int, blue: int) -> str:
    """The nearest of the sixteen colours that the page defines for light and dark."""
    strongest = max(red, green, blue)
    if strongest - min(red, green, blue) < 40:
        return str((0, 8, 7, 15)[min(3, strongest // 64)])
    bits = sum(bit for bit, part in ((1, red), (2, green), (4, blue)) if part * 2 > strongest)
    return str(bits + 8 if strongest > 200 else bits)

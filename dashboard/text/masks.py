"""The masks of one request: which rules apply, what they masked, and the texts, streams and pages with masks.

`Masks` lives in a context variable from the beginning of a request to its end (`dashboard.middleware`). Windows of
long texts are masked before they are cut (`mask_around`, `MaskedStream`), because a window may begin inside a secret.
The response is masked once more as a whole, so that a page needs to do nothing for it and cannot forget it. Without a
request (a command, an import) nothing is masked.

A mask has as many characters as what it covers, so that offsets, segments, highlights and links, which are positions
in the stored text, fit the masked text too. Line ends and colour codes inside a secret stay. A mask of eight characters
and more contains a keyed digest of the secret: equal secrets have equal masks.

The search has a time budget. What it did not reach is hidden, with a sentence in its place.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from time import thread_time
from typing import Any, BinaryIO

from django.conf import settings

from dashboard.text.clean_text import COLOUR_CODE, CleanText, MaskSpan, has_noise
from dashboard.text.find_secrets import CONTEXT, NOT_SEARCHED, RuleSet

BLOCK = 64 * 1024  # bytes of a stream that are masked at once
LENGTH_CLASSES = ((8, "up to 8"), (16, "9 to 16"), (32, "17 to 32"), (64, "33 to 64"), (256, "65 to 256"))
DIGEST_LENGTH = 6
SHORTEST_WITH_DIGEST = DIGEST_LENGTH + 2
LONG_WINDOW = 2_000  # characters of markup
MOST_MASKS = 20_000  # in one text within a time budget; each is drawn in 10 to 20 µs
BUILT_IN = RuleSet()
COMPILED: dict[int, tuple[str, RuleSet]] = {}  # of the projects that this process knows, with their stamps


def length_class(length: int) -> str:
    return next((label for most, label in LENGTH_CLASSES if length <= most), "more than 256")


class Masks:
    """`places` counts masks by the name of their rule; `names` has the rule of each digest, `titles` a sentence.

    `seconds` of processor time are for all searches until the next `renew`; `hidden` counts the characters that they
    did not reach. `windows` is the markup of long texts that were masked before they were cut.
    """

    def __init__(self, rules: RuleSet = BUILT_IN, seconds: float = math.inf) -> None:
        self.rules = rules
        self.places: Counter[str] = Counter()
        self.names: dict[str, str] = {}
        self.titles: dict[str, str] = {}
        self.hidden = 0
        self.windows: list[str] = []
        self._seconds = self._remaining = seconds

    def renew(self) -> None:
        """Begins a new time budget."""
        self._remaining = self._seconds

    def find(self, text: str, *, is_bytes: bool = False, stop: float = math.inf) -> list[MaskSpan]:
        """`is_bytes`: the text is bytes decoded as Latin-1, one character a byte. `stop` as in `RuleSet.find`."""
        if not self.rules.may_mask(text, is_bytes=is_bytes):
            return []
        began = thread_time()
        spans = self.rules.find(text, began + self._remaining, is_bytes=is_bytes, stop=stop)
        if len(spans) > MOST_MASKS and self._remaining < math.inf:
            spans[MOST_MASKS:] = [MaskSpan(spans[MOST_MASKS].start, len(text), NOT_SEARCHED)]
        self._remaining -= thread_time() - began
        return spans

    def mask(self, text: str, *, stop: float = math.inf) -> str:
        spans = self.find(text, stop=stop)
        return self.apply(text, spans) if spans else text

    def mask_bytes(self, data: bytes) -> bytes:
        """Masks bytes of any encoding: they stay as many, and no other byte changes."""
        text = data.decode("latin-1")
        spans = self.find(text, is_bytes=True)
        return self.apply(text, spans).encode("latin-1") if spans else data

    def apply(self, text: str, spans: list[MaskSpan]) -> str:
        self.hidden += sum(span.end - span.start for span in spans if span.rule == NOT_SEARCHED)
        return apply_masks(text, spans, self._digest)

    def _digest(self, secret: str, rule: str) -> str:
        """Keyed with the store's own key, so that nobody can try passwords on it elsewhere."""
        key = _digest_key(settings.SECRET_KEY)
        name = hmac.digest(key, secret.encode("utf-8", "surrogatepass"), "sha256").hex()[:DIGEST_LENGTH]
        self.places[rule] += 1
        self.names[name] = rule
        self.titles[name] = f"Masked by rule {rule}: {length_class(len(secret))} characters, equal ones have {name}"
        return name


@lru_cache(1)
def _digest_key(secret_key: str) -> bytes:
    return hashlib.sha256(f"counterfoil.masks{secret_key}".encode()).digest()


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_SHOWN = re.compile(rf"{COLOUR_CODE}|[\r\n\0]+")  # inside of a mask


def apply_masks(text: str, spans: Iterable[MaskSpan], digest: Callable[[str, str], str]) -> str:
    """`digest` gets a secret without noise and the name of its rule, and returns at least six letters and digits."""
    pieces: list[str] = []
    offset = 0
    in_string = _StringsOfJson(text)
    for start, end, rule in spans:
        secret = text[start:end]
        if rule == NOT_SEARCHED:
            drawn = _hide(secret)
        else:
            clean = CleanText(secret).text if has_noise(secret) else secret
            mask = digest(clean.replace("\\n", "\n"), rule)[:DIGEST_LENGTH]
            drawn = _draw_mask(text, start, end, mask, in_string)
        pieces += [text[offset:start], drawn]
        offset = end
    return "".join([*pieces, text[offset:]]) if pieces else text


HIDDEN = "[hidden from here on: not searched for secrets within the time limit]"
_LINE = re.compile(r"[^\r\n]+")


def _hide(text: str) -> str:
    """Asterisks with line ends, and HIDDEN in the first line that has room for it."""
    is_drawn = False

    def draw(line: re.Match[str]) -> str:
        nonlocal is_drawn
        size = line.end() - line.start()
        if is_drawn or size < len(HIDDEN):
            return "*" * size
        is_drawn = True
        return HIDDEN.ljust(size, "*")

    return _LINE.sub(draw, text)


_QUOTE = re.compile(r'(?<!\\)(?>(?:\\\\)*)"')


class _StringsOfJson:
    """`at(position)`: whether a document of JSON has a string there. The quotes are looked for when that is asked."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._quotes: list[int] | None = None

    def at(self, position: int) -> bool:
        if self._quotes is None:
            self._quotes = [quote.end() for quote in _QUOTE.finditer(self._text)]
        return bisect_right(self._quotes, position) % 2 == 1


def _draw_mask(text: str, start: int, end: int, mask: str, in_string: _StringsOfJson) -> str:
    """Asterisks with the digest in the first stretch that has room for it; a number of a JSON document in quotes."""
    secret = text[start:end]
    before = text[max(0, start - 8) : start].rstrip(" ")
    is_item = before.endswith(("[", ",")) and text[end : end + 1] in (",", "]")
    if _NUMBER.fullmatch(secret) and (is_item or before.endswith('":')) and not in_string.at(start):
        return "*" * (end - start) if before.endswith('\\":') else f'"{"*" * (end - start - 2)}"'
    pieces: list[str] = []
    offset = 0
    for shown in [*_SHOWN.finditer(secret), None]:
        stop = shown.start() if shown else len(secret)
        room = stop - offset
        if mask and room >= SHORTEST_WITH_DIGEST:
            pieces.append(f"*{mask}".ljust(room, "*"))
            mask = ""
        else:
            pieces.append("*" * room)
        if shown:
            pieces.append(shown[0])
            offset = shown.end()
    return "".join(pieces)


_current: ContextVar[Masks | None] = ContextVar("masks", default=None)


@contextmanager
def masking(masks: Masks | None) -> Iterator[Masks | None]:
    token = _current.set(masks)
    try:
        yield masks
    finally:
        _current.reset(token)


def current_masks() -> Masks | None:
    return _current.get()


def mask_text(text: str) -> str:
    """The text as it may be shown: as long as it is, masked by the rules of the request."""
    masks = _current.get()
    return masks.mask(text) if masks else text


def mask_around(text: str, start: int, end: int, name: str = "") -> str:
    """The text, of which [start, end) may be shown; only what begins there, or in the context before, is masked.

    The whole of a text is a secret where the name of its member says so.
    """
    masks = _current.get()
    if masks is None:
        return text
    if name and masks.rules.secret_name(name):
        return mask_value(name, text)
    first, last = max(0, start - CONTEXT), end + CONTEXT
    part = text[first:last]
    masked = masks.mask(part, stop=end - first)
    return text if masked is part else f"{text[:first]}{masked}{text[last:]}"


def remember_window(markup: str) -> None:
    """Notes the markup of a masked text, which is not searched again with the page. A short one may be elsewhere."""
    masks = _current.get()
    if masks is not None and len(markup) >= LONG_WINDOW:
        masks.windows.append(markup)


def mask_value(name: str, text: str) -> str:
    """The text of an argument or a part of this name."""
    masks = _current.get()
    if masks is None:
        return text
    rule = masks.rules.secret_name(name) if name else ""
    return masks.apply(text, [MaskSpan(0, len(text), rule)]) if rule and text else masks.mask(text)


class MaskedStream(io.RawIOBase):
    """A stream of the same length whose secrets are masked, byte for byte; it can be read from anywhere."""

    def __init__(self, stream: BinaryIO, masks: Masks) -> None:
        self._stream, self._masks = stream, masks
        self._at = 0
        self._size = stream.seek(0, io.SEEK_END)
        self._blocks: dict[int, bytes] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        number, offset = divmod(self._at, BLOCK)
        if self._at >= self._size:
            return 0
        data = self._block(number)[offset : offset + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def read(self, size: int = -1) -> bytes:
        """Reads all bytes that are asked for; other raw streams may return fewer."""
        remaining = size if size >= 0 else self._size - self._at
        pieces = []
        while remaining > 0 and (piece := super().read(min(remaining, BLOCK))):
            pieces.append(piece)
            remaining -= len(piece)
        return b"".join(pieces)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            while len(self._blocks) >= 4:
                del self._blocks[next(iter(self._blocks))]
            start = number * BLOCK
            begin = max(0, start - CONTEXT)
            self._stream.seek(begin)
            data = self._stream.read(start - begin + BLOCK + CONTEXT)
            self._masks.renew()  # a download takes as long as the reader needs; a page has a deadline of its own
            self._blocks[number] = self._masks.mask_bytes(data)[start - begin : start - begin + BLOCK]
        return self._blocks[number]

    def close(self) -> None:
        self._stream.close()
        super().close()


def mask_stream(stream: BinaryIO) -> BinaryIO:
    masks = _current.get()
    return stream if masks is None else MaskedStream(stream, masks)  # type: ignore[return-value]


def mask_line(text: str, seconds: float) -> str:
    """A line of the log, which belongs to no project: by the built-in rules and those of each project known here."""
    for rules in [BUILT_IN, *(rules for _, rules in list(COMPILED.values()))]:
        text = Masks(rules, seconds).mask(text)
    return text

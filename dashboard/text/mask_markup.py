"""Masks a whole response; of a page of HTML its text as a reader sees it, and the attributes that repeat recorded text.

The rules look at the visible text, in which a key and its value stand beside each other whatever elements they are in.
Masks that were drawn earlier, in a window of a longer text, become elements that name their rule here, too.
"""

from __future__ import annotations

import html
import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import cast
from urllib.parse import quote, unquote

from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import reverse

from dashboard.text.masks import DIGEST_LENGTH, HIDDEN, Masks

MASK_NOTE = "<!-- masks -->"  # in base.html
_INLINE = "span|i|b|mark|bdi|code|em|strong|a|kbd|small|wbr"
_MARK = r'<i class="mark"[^>]*>[^<]*</i>'
_ESCAPE_MARK = b'<i class="mark" data-code="27">'
_TOKEN = re.compile(
    rf"(?P<mark>{_MARK})|(?P<inline></?(?:{_INLINE})(?=[\s>])[^>]*>)|(?P<tag><[^>]*>)|&[a-z#0-9]{{1,8}};"
)
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&#39;": "'", "&amp;": "&"}
# Of the page as bytes, because most pages have nothing to mask and need not be decoded:
_MARKS = re.compile(_MARK.encode())
_INLINE_TAGS = re.compile(rf"</?(?:{_INLINE})(?=[\s>])[^>]*+>".encode())
_TAGS = re.compile(rb"<[^>]*+>")
_ADJACENT_TAGS = re.compile(rb"<[^>]*+>(?>(?:\s*+<[^>]*+>)*)")
_BYTES = [(entity.encode(), character.encode()) for entity, character in _ENTITIES.items()]
_NAMES = ("title", "href", "aria-label", "value", "alt", "placeholder", "content", "data-text")
_ATTRIBUTE = re.compile(rf'(?<= )(?P<name>{"|".join(_NAMES)})="(?P<value>[^"]{{6,}})"')
# Their values in bytes. Two certain characters come first, which are found faster than the space before a name; the
# last letter of a name tells most of the other attributes apart, such as id and class.
_ENDS = "".join({name[-1] for name in _NAMES})
_WHOLE = "|".join(f'(?<= {name}=")' for name in _NAMES)
_VALUE = re.compile(rf'="(?<=[{_ENDS}]=")(?:{_WHOLE})([^"]{{6,}})"'.encode())
_STEPS = re.compile(rb'<aside class="steps".*?</aside>', re.DOTALL)
_MASK = re.compile(rb"\*([0-9a-f]{%d})\*+" % DIGEST_LENGTH)
WINDOW_HEAD = 500  # bytes
REVEALS = {"run-step": "step-reveal", "artifact-detail": "artifact-reveal"}  # by the page: who reveals it
_DRAWN = re.compile(
    rf"(?P<raw><(?:title|textarea|option)[\s>][^<]*)|<[^>]*>|\*(?P<digest>[0-9a-f]{{{DIGEST_LENGTH}}})\*+"
)


def mask_response(request: HttpRequest, response: HttpResponseBase, masks: Masks) -> None:
    """Replaces the content where it has a secret; pictures have no text. An artifact is masked where it is opened."""
    if getattr(response, "is_revealed", False):
        if isinstance(response, HttpResponse) and MASK_NOTE.encode() in response.content:
            note = render_to_string("masks/_revealed.html", request=request)
            response.content = response.content.replace(MASK_NOTE.encode(), note.encode(), 1)
        return
    if isinstance(response, StreamingHttpResponse) and not getattr(response, "is_masked", False):
        response.streaming_content = _mask_pieces(cast(Iterable[bytes], response.streaming_content), masks)
    if not isinstance(response, HttpResponse):
        return
    kind = response.headers.get("Content-Type", "").partition(";")[0]
    if kind.startswith("image/") or not response.content:
        return
    masks.renew()
    if kind == "text/html":
        _mask_page_response(request, response, masks)
        return
    content, hidden = response.content, masks.hidden
    masked = masks.mask_bytes(content)
    if masks.hidden > hidden and kind == "application/json":  # with its end hidden it is none
        response.status_code, masked = 503, json.dumps({"error": HIDDEN}).encode()
    if masked is not content:
        response.content = masked


def _mask_page_response(request: HttpRequest, response: HttpResponse, masks: Masks) -> None:
    page = response.content
    masked = mask_page(page, masks)
    if (masks.places or masks.hidden) and MASK_NOTE.encode() in masked:
        match = request.resolver_match
        action = REVEALS.get(match.url_name or "") if match else None
        in_steps = _count_in_steps(masked, masks)
        context = {
            "places": sorted((masks.places - in_steps).items()),
            "in_steps": sorted(in_steps.items()),
            "hidden": masks.hidden,
            "reveal": reverse(action, kwargs=match.kwargs) if match and action else "",
            "is_artifact": action == "artifact-reveal",
        }
        note = render_to_string("masks/_note.html", context, request)
        masked = masked.replace(MASK_NOTE.encode(), note.encode(), 1)
    if masked is not page:
        response.content = masked


def _count_in_steps(page: bytes, masks: Masks) -> Counter[str]:
    """The masks in the list of steps, by rule: they are of other steps than the open one. Short masks name no rule."""
    steps = _STEPS.search(page)
    names = [masks.names.get(digest.decode()) for digest in _MASK.findall(steps[0])] if steps else []
    return Counter(name for name in names if name) & masks.places


def _mask_pieces(pieces: Iterable[bytes], masks: Masks) -> Iterator[bytes]:
    for piece in pieces:  # a line, or several
        masks.renew()
        yield masks.mask_bytes(piece)


def mask_page(content: bytes, masks: Masks) -> bytes:
    """Most pages have no secret outside of their windows; one that has is searched once more, for the places."""
    searched = _without_windows(content, masks.windows)
    has_secret = bool(masks.find(_visible_text(searched, _ADJACENT_TAGS)))
    has_secret_value = _has_secret_value(searched, masks)
    if not (has_secret or has_secret_value or masks.titles):
        return content
    page = content.decode()
    if has_secret:
        text = _visible_text(content)
        page = _replace_text(page, masks.apply(text, masks.find(text)))
    if has_secret_value:
        page = _mask_attributes(page, masks)
    return (_name_rules(page, masks) if masks.titles else page).encode()


def _without_windows(content: bytes, windows: list[str]) -> bytes:
    pieces: list[bytes] = []
    offset = 0
    for start, end in sorted(_find_window(content, window.encode()) for window in windows):
        if start >= offset:
            pieces.append(content[offset:start])
            offset = end
    return b"\n".join([*pieces, content[offset:]])


def _find_window(content: bytes, markup: bytes) -> tuple[int, int]:
    """The place of the markup, (-1, -1) for none. It is looked for by its head: to look for all of it takes long."""
    start = content.find(markup[:WINDOW_HEAD])
    while start >= 0 and not content.startswith(markup, start):
        start = content.find(markup[:WINDOW_HEAD], start + 1)
    return (start, start + len(markup)) if start >= 0 else (-1, -1)


def _visible_text(content: bytes, tags: re.Pattern[bytes] = _TAGS) -> str:
    """No tags, a line end for each that is not inline, and nothing in place of a mark but that of an escape."""
    if b'<i class="mark"' in content:
        content = _MARKS.sub(lambda match: b"\x1b" if match[0].startswith(_ESCAPE_MARK) else b"", content)
    content = tags.sub(b"\n", _INLINE_TAGS.sub(b"", content))
    for entity, character in _BYTES if b"&" in content else ():
        content = content.replace(entity, character)
    return content.decode()


def _has_secret_value(content: bytes, masks: Masks) -> bool:
    """Searches the values of the attributes that repeat recorded text as one text, a line each."""
    values = b"\n".join(dict.fromkeys(_VALUE.findall(content)))
    return bool(masks.find(html.unescape(unquote(values) if b"%" in values else values.decode())))


def _replace_text(page: str, masked: str) -> str:
    """The page with the characters of `masked`, its visible text, which is as long as it was."""
    pieces: list[str] = []
    offset = position = 0
    for token in _TOKEN.finditer(page):
        size = token.start() - offset
        pieces.append(masked[position : position + size])
        position, offset, markup = position + size, token.end(), token[0]
        if token["tag"] or markup.startswith(_ESCAPE_MARK.decode()):
            position += 1
        elif markup in _ENTITIES:
            character = masked[position]
            markup = markup if character == _ENTITIES[markup] else html.escape(character)
            position += 1
        elif not token["mark"] and not token["inline"]:  # an entity that is not read as one character
            markup = masked[position : position + len(markup)]
            position += len(markup)
        pieces.append(markup)
    return "".join([*pieces, page[offset:]])


def _mask_attributes(page: str, masks: Masks) -> str:
    attributes = list(_ATTRIBUTE.finditer(page))
    values = [
        html.unescape(unquote(match["value"]) if match["name"] == "href" else match["value"]) for match in attributes
    ]
    values = [value.replace("\n", " ") for value in values]
    spans = masks.find("\n".join(values))
    starts = [0]
    for value in values:
        starts.append(starts[-1] + len(value) + 1)
    pieces: list[str] = []
    offset = 0
    first_last = [(bisect_right(starts, span.start) - 1, bisect_left(starts, span.end)) for span in spans]
    for index in sorted({index for first, behind in first_last for index in range(first, behind)}):
        match = attributes[index]
        if values[index].startswith(settings.STATIC_URL):
            continue
        masked = masks.mask(values[index])
        masked = quote(masked, safe="/?=&#:%") if match["name"] == "href" else html.escape(masked)
        pieces += [page[offset : match.start("value")], masked]
        offset = match.end("value")
    return "".join([*pieces, page[offset:]])


def _name_rules(page: str, masks: Masks) -> str:
    """Each mask of this request as an element; the titles contain names of rules and digests alone."""

    def name_rule(match: re.Match[str]) -> str:
        title = masks.titles.get(match["digest"] or "")
        return match[0] if title is None else f'<span class="masked" title="{html.escape(title)}">{match[0]}</span>'

    return _DRAWN.sub(name_rule, page)

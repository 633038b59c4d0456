"""Finding text in an artifact: slices of a search, each within a second, and the next hit from a place.

A search is not a job: each answer says how far it came and where to go on, so whoever closes the page
has cancelled it, and a file of any size needs no more memory than a small one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.safestring import SafeString

from dashboard.artifacts.content import Content
from dashboard.models import Artifact
from dashboard.text.text_markup import escape_decoded, highlight
from envelopes.storage.encoding import decode
from envelopes.storage.line_index import WIDE
from envelopes.storage.search import (
    LISTED,
    BadQuery,
    SearchHits,
    TextHit,
    TextQuery,
    find_first,
    find_hits,
    find_previous,
)

SECONDS = 1.0  # a slice; a page that searches has to answer
AROUND = 160  # bytes of context on each side
FAR = 16 * 1024  # from its line's beginning, a hit is shown by a window of its own
ERROR_WORDS = (
    *(b"error", b"Error", b"ERROR", b"fatal", b"FATAL", b"panic", b"Traceback"),
    *(b"Exception", b"failed", b"Failed", b"FAILED", b"failure"),
)
# A colour's sequence ends in a letter, so that no word begins behind it.
ERRORS = r"(?:\b|(?<=[0-9;\[]m))(errors?|fatal|exception|traceback|panic(ked)?|failed|failure)\b"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the operator looks for; `problem` says why it cannot be."""

    text: str
    is_regex: bool
    ignores_case: bool
    problem: str = ""
    query: TextQuery | None = None

    @property
    def parameters(self) -> dict[str, str]:
        flags = {"regex": self.is_regex, "any_case": self.ignores_case}
        return {"q": self.text} | {name: "1" for name, is_set in flags.items() if is_set}


@dataclass(frozen=True, kw_only=True)
class ShownHit:
    href: str
    line: int  # 0 where it is not known yet
    offset: int
    before: SafeString
    match: SafeString
    after: SafeString


@dataclass(frozen=True, kw_only=True)
class Slice:
    """One slice: `count` hits are known with it, over what was searched before as well."""

    hits: tuple[ShownHit, ...]
    count: int
    percent: int
    is_whole: bool
    is_too_slow: bool
    is_paused: bool
    on_href: str  # the next slice
    pause_href: str
    more_href: str  # hits that were counted and not listed


def asked_of(query: QueryDict, encoding: str) -> Asked | None:
    """None when nothing is looked for. `?errors` stands for what looks like an error."""
    text = ERRORS if "errors" in query else query.get("q", "")
    if not text:
        return None
    is_regex, ignores = "regex" in query or "errors" in query, "any_case" in query or "errors" in query
    try:
        found = TextQuery.parse(text, is_regex=is_regex, ignores_case=ignores, encoding=encoding or "utf-8")
    except BadQuery as bad:
        return Asked(text=text, is_regex=is_regex, ignores_case=ignores, problem=str(bad))
    return Asked(text=text, is_regex=is_regex, ignores_case=ignores, query=found)


def slice_of(content: Content, artifact: Artifact, asked: Asked, query: QueryDict) -> Slice:
    """From `?from=` on; `?count=` were found before, and `?listed` of them are on the page already."""
    assert asked.query is not None
    begin, known = number(query, "from"), number(query, "count")
    listed = max(0, LISTED - number(query, "listed"))
    is_paused = "paused" in query
    if is_paused:
        found = SearchHits(hits=(), count=0, start=begin, reached=begin, size=content.size)
    else:
        found = find_hits(content.stream, asked.query, begin, seconds=SECONDS, listed=listed)
    hits = tuple(_shown(content, artifact, asked, hit) for hit in found.hits)
    count = known + found.count
    go_on = {"from": found.reached, "count": count, "listed": LISTED - listed + len(hits)}
    fresh = {"from": found.hits[-1].end if found.hits else found.reached, "count": count - found.count + len(hits)}
    return Slice(
        hits=hits,
        count=count,
        percent=found.reached * 100 // content.size if content.size else 100,
        is_whole=found.is_whole and not is_paused,
        is_too_slow=found.is_too_slow,
        is_paused=is_paused,
        on_href="?" + urlencode(asked.parameters | go_on),
        pause_href="?" + urlencode(asked.parameters | go_on | {"paused": 1}),
        more_href="?" + urlencode(asked.parameters | fresh) if found.count > len(hits) and hits else "",
    )


def hit_from(content: Content, artifact: Artifact, asked: Asked, query: QueryDict) -> tuple[str, bool]:
    """The address of the next hit from `?next=`, or of the one before `?before=`; whether there is one.

    Where the time ends first, it is the address of the search that goes on.
    """
    assert asked.query is not None
    if "before" in query:
        hit, reached = find_previous(content.stream, asked.query, number(query, "before"), seconds=SECONDS)
        return (_href(content, artifact, asked, hit), True) if hit else (_search_href(artifact, asked, 0), reached > 0)
    if "errors" in query and content.index.encoding not in WIDE:
        first, reached = find_first(content.stream, ERROR_WORDS, number(query, "next"), seconds=SECONDS)
        address = _href(content, artifact, asked, first) if first else _search_href(artifact, asked, reached)
        return address, first is not None or reached < content.size
    found = find_hits(content.stream, asked.query, number(query, "next"), seconds=SECONDS, listed=1, most=1)
    if found.hits:
        return _href(content, artifact, asked, found.hits[0]), True
    return _search_href(artifact, asked, found.reached), not found.is_whole


def marked(lines: list[str], query: TextQuery) -> list[SafeString]:
    """Lines with what was found in them set off."""
    return [_marked(line, query) for line in lines]


def number(query: QueryDict, name: str) -> int:
    said = query.get(name, "")
    return int(said) if re.fullmatch("[0-9]{1,15}", said) else 0


def _marked(line: str, query: TextQuery) -> SafeString:
    spans: list[tuple[int, int]] = []
    try:
        plain = re.finditer(re.escape(query.text), line)
        for found in plain if query.pattern is None else query.pattern.finditer(line, timeout=0.2):
            if found.end() > found.start():
                spans.append(found.span())
    except TimeoutError:
        pass  # the line is shown all the same
    return highlight(line, spans)


def _shown(content: Content, artifact: Artifact, asked: Asked, hit: TextHit) -> ShownHit:
    encoding = content.index.encoding
    begin = max(0, hit.start - AROUND)
    content.stream.seek(begin)
    data = content.stream.read(hit.end - begin + AROUND)
    before = decode(data[: hit.start - begin], encoding).rpartition("\n")[2]
    after = decode(data[hit.end - begin :], encoding).partition("\n")[0]
    return ShownHit(
        href=_href(content, artifact, asked, hit),
        line=_line(content, hit.start),
        offset=hit.start,
        before=escape_decoded(before.lstrip("\ufffd")),
        match=escape_decoded(decode(data[hit.start - begin : hit.end - begin], encoding)),
        after=escape_decoded(after),
    )


def _line(content: Content, offset: int) -> int:
    return content.index.line_at(content.stream, offset) if offset <= content.index.size else 0


def _href(content: Content, artifact: Artifact, asked: Asked, hit: TextHit) -> str:
    """The window whose first line holds the hit; a few bytes before it in a line that is longer than a window."""
    line = _line(content, hit.start)
    is_far = not line or hit.start - content.index.line_start(content.stream, line) > FAR
    place = {"offset": max(0, hit.start - AROUND)} if is_far else {"line": line}
    parameters = asked.parameters | place | {"hit": hit.start, "as": "text"}
    return f"{artifact.get_absolute_url()}?{urlencode(parameters)}{'' if is_far else f'#L{line}'}"


def _search_href(artifact: Artifact, asked: Asked, begin: int) -> str:
    return f"{artifact.get_absolute_url()}find/?{urlencode(asked.parameters | {'from': begin})}"

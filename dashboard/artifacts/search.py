"""Text search in an artifact: slices of a search, each within a second, and the next hit from a position.

A search is not a job: each answer reports how far it came and where to go on, so closing the page cancels it, and a
file of any size needs no more memory than a small one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.utils.safestring import SafeString

from dashboard.artifacts.content import Content
from dashboard.artifacts.location import LARGEST
from dashboard.models import Artifact
from dashboard.text.params import Params
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

CONTEXT_BYTES = 160  # on each side of a hit
FAR_BYTES = 16 * 1024  # a hit so far from the beginning of its line is shown in a window of its own
HIGHLIGHT_SECONDS = 0.2  # for the matches of one line
ERROR_WORDS = (
    *(b"error", b"Error", b"ERROR", b"fatal", b"FATAL", b"panic", b"Traceback"),
    *(b"Exception", b"failed", b"Failed", b"FAILED", b"failure"),
)
# The sequence of a colour ends in a letter, so \b alone does not match behind it.
ERRORS = r"(?:\b|(?<=[0-9;\[]m))(errors?|fatal|exception|traceback|panic(ked)?|failed|failure)\b"


@dataclass(frozen=True, kw_only=True)
class ArtifactSearch:
    """The text to find. `problem` says why it cannot be searched for; `query` is None then."""

    text: str
    is_regex: bool
    ignores_case: bool
    problem: str = ""
    query: TextQuery | None = None

    @property
    def parameters(self) -> dict[str, str]:
        flags = {"regex": self.is_regex, "any_case": self.ignores_case}
        return {"q": self.text} | {name: "1" for name, is_set in flags.items() if is_set}


def parse_search(params: Params, encoding: str) -> ArtifactSearch | None:
    """None when there is nothing to find. `?errors` stands for words that look like an error."""
    text = ERRORS if "errors" in params else params.text("q", strip=False)
    if not text:
        return None
    is_regex, ignores_case = "regex" in params or "errors" in params, "any_case" in params or "errors" in params
    query, problem = None, ""
    try:
        query = TextQuery.parse(text, is_regex=is_regex, ignores_case=ignores_case, encoding=encoding or "utf-8")
    except BadQuery as error:
        problem = str(error)
    return ArtifactSearch(text=text, is_regex=is_regex, ignores_case=ignores_case, problem=problem, query=query)


@dataclass(frozen=True, kw_only=True)
class ListedHit:
    """A hit in its context. `line` is 0 where it is not known yet."""

    href: str
    line: int
    offset: int
    before: SafeString
    match: SafeString
    after: SafeString


@dataclass(frozen=True, kw_only=True)
class SearchSlice:
    """One slice of a search. `count` includes the hits of the slices before it."""

    hits: tuple[ListedHit, ...]
    count: int
    percent: int
    is_whole: bool
    is_too_slow: bool
    is_paused: bool
    next_href: str  # the next slice
    pause_href: str
    more_href: str  # hits that were counted and not listed


def load_search_slice(content: Content, artifact: Artifact, search: ArtifactSearch, params: Params) -> SearchSlice:
    """Searches from `?from=` on; `?count=` hits were found before, and `?listed=` of them are on the page already."""
    assert search.query is not None
    start, known = params.integer("from", default=0, most=LARGEST), params.integer("count", default=0, most=LARGEST)
    room = max(0, LISTED - params.integer("listed", default=0, most=LARGEST))
    is_paused = "paused" in params
    if is_paused:
        result = SearchHits(hits=(), count=0, start=start, reached=start, size=content.size)
    else:
        seconds = settings.ARTIFACT_SEARCH_SECONDS
        result = find_hits(content.stream, search.query, start, seconds=seconds, listed=room)
    hits = tuple(_list_hit(content, artifact, search, hit) for hit in result.hits)
    count = known + result.count
    following = search.parameters | {"from": result.reached, "count": count, "listed": LISTED - room + len(hits)}
    unlisted = {"from": result.hits[-1].end if hits else result.reached, "count": known + len(hits)}
    return SearchSlice(
        hits=hits,
        count=count,
        percent=result.reached * 100 // content.size if content.size else 100,
        is_whole=result.is_whole and not is_paused,
        is_too_slow=result.is_too_slow,
        is_paused=is_paused,
        next_href=f"?{urlencode(following)}",
        pause_href=f"?{urlencode(following | {'paused': 1})}",
        more_href=f"?{urlencode(search.parameters | unlisted)}" if result.count > len(hits) and hits else "",
    )


def find_hit_address(content: Content, artifact: Artifact, search: ArtifactSearch, params: Params) -> tuple[str, bool]:
    """The address of the next hit from byte `?next=`, or of the last one before `?before=`; and whether there is one.

    Where the time is up first, it is the address at which the search goes on.
    """
    assert search.query is not None
    seconds = settings.ARTIFACT_SEARCH_SECONDS
    start = params.integer("next", default=0, most=LARGEST)
    if "before" in params:
        end = params.integer("before", default=0, most=LARGEST)
        hit, reached = find_previous(content.stream, search.query, end, seconds=seconds)
        is_there, reached = hit is not None or reached > 0, 0
    elif "errors" in params and content.index.encoding not in WIDE:
        # Plain words first: the expression is too slow for a whole file.
        hit, reached = find_first(content.stream, ERROR_WORDS, start, seconds=seconds)
        is_there = hit is not None or reached < content.size
    else:
        result = find_hits(content.stream, search.query, start, seconds=seconds, listed=1, most=1)
        hit, reached = result.hits[0] if result.hits else None, result.reached
        is_there = hit is not None or not result.is_whole
    if hit:
        return _hit_address(content, artifact, search, hit), True
    return f"{artifact.get_absolute_url()}find/?{urlencode(search.parameters | {'from': reached})}", is_there


def highlight_matches(line: str, query: TextQuery) -> SafeString:
    """The line with its matches highlighted, as many as can be found in time."""
    spans: list[tuple[int, int]] = []
    pattern = query.pattern
    try:
        plain = re.finditer(re.escape(query.text), line)
        for match in plain if pattern is None else pattern.finditer(line, timeout=HIGHLIGHT_SECONDS):
            if match.end() > match.start():
                spans.append(match.span())
    except TimeoutError:
        pass  # the rest of the line is shown without highlights
    return highlight(line, spans)


def _list_hit(content: Content, artifact: Artifact, search: ArtifactSearch, hit: TextHit) -> ListedHit:
    encoding = content.index.encoding
    start = max(0, hit.start - CONTEXT_BYTES)
    content.stream.seek(start)
    data = content.stream.read(hit.end - start + CONTEXT_BYTES)
    before = decode(data[: hit.start - start], encoding).rpartition("\n")[2]
    after = decode(data[hit.end - start :], encoding).partition("\n")[0]
    return ListedHit(
        href=_hit_address(content, artifact, search, hit),
        line=_line_number(content, hit.start),
        offset=hit.start,
        before=escape_decoded(before.lstrip("\ufffd")),
        match=escape_decoded(decode(data[hit.start - start : hit.end - start], encoding)),
        after=escape_decoded(after),
    )


def _line_number(content: Content, offset: int) -> int:
    return content.index.line_at(content.stream, offset) if offset <= content.index.size else 0


def _hit_address(content: Content, artifact: Artifact, search: ArtifactSearch, hit: TextHit) -> str:
    """The window that begins with the line of the hit, or shortly before the hit in a line longer than a window."""
    line = _line_number(content, hit.start)
    is_far = not line or hit.start - content.index.line_start(content.stream, line) > FAR_BYTES
    place = {"offset": max(0, hit.start - CONTEXT_BYTES)} if is_far else {"line": line}
    parameters = search.parameters | place | {"hit": hit.start, "as": "text"}
    return f"{artifact.get_absolute_url()}?{urlencode(parameters)}{'' if is_far else f'#L{line}'}"

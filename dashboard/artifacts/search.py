"""Text search in an artifact: slices of a search, each within the request's time, and the next hit from a position.

A search is not a job: each answer reports how far it came and where to go on, so closing the page cancels it, and a
file of any size needs no more memory than a small one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urlencode

from django.utils.safestring import SafeString

from dashboard.artifacts.content import Content
from dashboard.artifacts.location import LARGEST
from dashboard.models import Artifact
from dashboard.text.params import Params
from dashboard.text.text_markup import escape_decoded, highlight
from envelopes.storage.encoding import decode
from envelopes.storage.line_window import LineWindow
from envelopes.storage.search import LISTED, BadQuery, SearchHits, TextHit, TextQuery, find_hits, find_previous
from envelopes.text.deadline import Deadline

CONTEXT_BYTES = 160  # on each side of a hit
FAR_BYTES = 16 * 1024  # a hit so far from the beginning of its line is shown in a window of its own
MOST_MARKS = 2_000  # matches that are highlighted in one window
# The sequence of a colour ends in a letter, so \b alone does not match behind it. The word itself is group 1.
ERRORS = r"(?:\b|\x1b\[[0-9;:]*m)(errors?|fatal|exception|traceback|panic(?:ked)?|failed|failure)\b"


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
        query = TextQuery.parse(
            text,
            is_regex=is_regex,
            ignores_case=ignores_case,
            encoding=encoding or "utf-8",
            group=1 if text == ERRORS else 0,
        )
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
    is_paused: bool
    next_href: str  # the next slice
    pause_href: str
    more_href: str  # hits that were counted and not listed


def load_search_slice(
    content: Content, artifact: Artifact, search: ArtifactSearch, params: Params, deadline: Deadline
) -> SearchSlice:
    """Searches from `?from=` on; `?count=` hits were found before, and `?listed=` of them are on the page already."""
    assert search.query is not None
    start, known = params.integer("from", default=0, most=LARGEST), params.integer("count", default=0, most=LARGEST)
    room = max(0, LISTED - params.integer("listed", default=0, most=LARGEST))
    is_paused = "paused" in params
    if is_paused:
        result = SearchHits(hits=(), count=0, start=start, reached=start, end=content.size)
    else:
        result = find_hits(content.stream, search.query, start, deadline=deadline, listed=room)
    hits = tuple(_list_hit(content, artifact, search, hit) for hit in result.hits)
    count = known + result.count
    following = search.parameters | {"from": result.reached, "count": count, "listed": LISTED - room + len(hits)}
    unlisted = {"from": result.hits[-1].end if hits else result.reached, "count": known + len(hits)}
    return SearchSlice(
        hits=hits,
        count=count,
        percent=result.reached * 100 // content.size if content.size else 100,
        is_whole=result.is_whole and not is_paused,
        is_paused=is_paused,
        next_href=f"?{urlencode(following)}",
        pause_href=f"?{urlencode(following | {'paused': 1})}",
        more_href=f"?{urlencode(search.parameters | unlisted)}" if result.count > len(hits) and hits else "",
    )


def find_hit_address(
    content: Content, artifact: Artifact, search: ArtifactSearch, params: Params, deadline: Deadline
) -> tuple[str, bool]:
    """The address of the next hit from byte `?next=`, or of the last one before `?before=`; and whether there is one.

    Where the time is up first, it is the address at which the search goes on.
    """
    assert search.query is not None
    start = params.integer("next", default=0, most=LARGEST)
    if "before" in params:
        end = params.integer("before", default=0, most=LARGEST)
        hit, reached = find_previous(content.stream, search.query, end, deadline=deadline)
        is_there, reached = hit is not None or reached > 0, 0
    else:
        result = find_hits(content.stream, search.query, start, deadline=deadline, listed=1, most=1)
        hit, reached = result.hits[0] if result.hits else None, result.reached
        is_there = hit is not None or not result.is_whole
    if hit:
        return _hit_address(content, artifact, search, hit), True
    return f"{artifact.get_absolute_url()}find/?{urlencode(search.parameters | {'from': reached})}", is_there


def find_marks(content: Content, query: TextQuery | None, window: LineWindow, deadline: Deadline) -> SearchHits:
    """The first MOST_MARKS matches in a window, as many as are found before the deadline."""
    if query is None:
        return SearchHits(hits=(), count=0, start=window.start, reached=window.end, end=window.end)
    return find_hits(
        content.stream, query, window.start, end=window.end, deadline=deadline, listed=MOST_MARKS, most=MOST_MARKS
    )


def highlight_hits(
    hits: Iterable[TextHit], window: LineWindow, lines: Iterable[str], offsets: Iterable[int], encoding: str
) -> Iterator[SafeString]:
    """The lines with their hits highlighted; `offsets` are the bytes at which the lines begin, and the end."""
    remaining = deque(hits)
    for line, (start, end) in zip(lines, pairwise(offsets), strict=False):
        spans: list[tuple[int, int]] = []
        at, character = start, 0
        while remaining and remaining[0].start < end:
            hit, span = remaining.popleft(), []
            for offset in (hit.start, hit.end):
                character += len(decode(window.data[at - window.start : offset - window.start], encoding))
                at = offset
                span.append(character)
            spans.append((span[0], span[1]))
        yield highlight(line, spans) if spans else escape_decoded(line)


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

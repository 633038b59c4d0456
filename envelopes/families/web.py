"""Tools that read the web: WebFetch and WebSearch of Claude Code.

    Page           one address, and the text that was made of it
    SearchResults  links, and the text that was written about them

The text comes from outside and is untrusted; the receipt says so before it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from envelopes.alignment import Span, match_at
from envelopes.budget import ProjectionPolicy
from envelopes.excerpts import match_excerpt
from envelopes.families.base import (
    Facet,
    Family,
    Projector,
    ResultMembers,
    bounded,
    headline,
    item_lines,
    label,
    line_break,
    member_line,
    project_by_type,
    sliced,
    text_block,
)
from envelopes.foreign import Evidence, OutputField, Reading
from envelopes.json_text import match_json_at
from envelopes.outline import outline_text
from envelopes.receipt import Segment
from envelopes.recorded import Members, RecordedText, reading, typed_tool
from envelopes.result import CanonicalResult, CompleteOutput, JsonValue, ToolError

UNTRUSTED = "Untrusted text from the web"


class Page(msgspec.Struct, frozen=True, kw_only=True):
    url: str | None = None
    status: int | None = None
    status_text: str | None = None
    bytes_read: int | None = None
    duration_ms: int | float | None = None
    text: str = ""


class Link(msgspec.Struct, frozen=True):
    title: str
    url: str


class SearchResults(msgspec.Struct, frozen=True, kw_only=True):
    query: str | None = None
    results: tuple[Link, ...] = ()
    text: str = ""
    duration_seconds: int | float | None = None


def _page(found: Page, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        "url": found.url,
        "status": found.status,
        "status_text": found.status_text,
        "bytes_read": found.bytes_read,
        "duration_ms": found.duration_ms,
        **projector.text("text", found.text, policy.preview, role="text"),
    }


def _search_results(found: SearchResults, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    links: list[JsonValue] = [{"title": link.title, "url": link.url} for link in found.results]
    return {
        "query": found.query,
        "duration_seconds": found.duration_seconds,
        **projector.listed("results", links, policy),
        **projector.text("text", found.text, policy.preview, role="text"),
    }


def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline(canonical.summary_text)
    yield from member_line(canonical, "URL", "/result/url")
    yield from member_line(canonical, "Status", "/result/status")
    yield from member_line(canonical, "Bytes", "/result/bytes_read")
    yield from item_lines(canonical, "/result/results", _link)
    yield from text_block(canonical, "/result/text", UNTRUSTED)


def _link(item: JsonValue, pointer: str) -> Iterable[Segment]:
    link = Members(item)
    yield label("- ")
    yield sliced(link.text("title") or "", f"{pointer}/title")
    yield line_break()
    yield label("  ")
    yield sliced(link.text("url") or "", f"{pointer}/url")


def _read_fetch(evidence: Evidence, recorded: Members) -> Reading:
    page = Page(
        url=recorded.text("url"),
        status=recorded.integer("code"),
        status_text=recorded.text("codeText"),
        bytes_read=recorded.integer("bytes"),
        duration_ms=recorded.number("durationMs"),
        text=recorded.text("result") or "",
    )
    links = {
        "/url": "/result/url",
        "/code": "/result/status",
        "/codeText": "/result/status_text",
        "/bytes": "/result/bytes_read",
        "/durationMs": "/result/duration_ms",
        "/result": "/result/text",
    }
    status = f" with status {page.status}" if page.status is not None else ""
    said = f"Fetched {page.url or 'a page'}{status}"
    return reading(evidence, page, said, links=links, outputs=(OutputField("/result"),))


def _align_fetch(recorded: Members, text: str) -> list[Span]:
    return match_excerpt(text, recorded.text("result") or "", "/result")


def _read_search(evidence: Evidence, recorded: Members) -> Reading:
    links = {"/query": "/result/query", "/durationSeconds": "/result/duration_seconds"}
    found: list[Link] = []
    texts: list[str] = []
    outputs: list[OutputField] = []
    for index, item in enumerate(recorded.items("results")):
        pointer = f"/results/{index}"
        if isinstance(item.get("content"), list):
            for row, entry in enumerate(item.items("content")):
                links[f"{pointer}/content/{row}"] = f"/result/results/{len(found)}"
                found.append(Link(entry.text("title") or "", entry.text("url") or ""))
        else:
            texts.append(item.recorded if isinstance(item.recorded, str) else outline_text(item.recorded))
            links[pointer] = "/result/text"
            outputs.append(OutputField(pointer))
    result = SearchResults(
        query=recorded.text("query"),
        results=tuple(found),
        text="\n\n".join(texts),
        duration_seconds=recorded.number("durationSeconds"),
    )
    sought = f" for {result.query!r}" if result.query else ""
    said = f"{len(found) or 'No'} web {'result' if len(found) == 1 else 'results'}{sought}"
    return reading(evidence, result, said, links=links, outputs=tuple(outputs))


_QUERY = 'Web search results for query: "'
_LINKS = "Links: "
_REMINDER = "\n\nREMINDER: You MUST include the sources above"


def _align_search(recorded: Members, text: str) -> list[Span]:
    """The query, then each result in the recorded order: links as JSON, texts as they are."""
    if not text.startswith(_QUERY):
        return []
    spans: list[Span] = []
    if query := match_at(text, len(_QUERY), recorded.text("query") or "", "/query"):
        spans.append(query)
    at = spans[-1].end if spans else len(_QUERY)
    for index, item in enumerate(recorded.items("results")):
        matched = _align_result(text, at, item, f"/results/{index}")
        if not matched:
            break
        spans.extend(matched)
        at = matched[-1].end
    return spans


def _align_result(text: str, at: int, item: Members, pointer: str) -> list[Span]:
    """What stands between two results is white space and the rest of the JSON before."""
    if isinstance(item.recorded, str):
        start = _after(text, at, '"\n]}')
        end = text.rfind(_REMINDER)
        whole = match_at(text, start, item.recorded.strip(), pointer)
        if whole is None or (end >= 0 and whole.end > end):
            return []
        offset = len(item.recorded) - len(item.recorded.lstrip())
        return [Span(whole.start, whole.end, pointer, offset, offset + whole.value_end)]
    start = text.find(_LINKS, at)
    content = item.get("content")
    if start < 0 or text[at:start].strip('"\n]} ') or not isinstance(content, list):
        return []
    return match_json_at(text, start + len(_LINKS), content, f"{pointer}/content")[0]


def _after(text: str, at: int, skipped: str) -> int:
    while at < len(text) and text[at] in skipped:
        at += 1
    return at


AGENT = "claude-code"

FAMILY = Family(
    name="web",
    title="Web",
    results=(Page, SearchResults, RecordedText),
    project=project_by_type({Page: _page, SearchResults: _search_results}),
    renderers={"receipt": bounded(_body)},
    projection=ProjectionPolicy(preview=10_000),
    foreign=(
        typed_tool(
            agent=AGENT,
            tools=("WebFetch",),
            version=1,
            expects=("result", "url", "code"),
            read=_read_fetch,
            align=_align_fetch,
        ),
        typed_tool(
            agent=AGENT,
            tools=("WebSearch",),
            version=1,
            expects=("results", "query"),
            read=_read_search,
            align=_align_search,
        ),
    ),
    facets=(
        Facet("Text", "/result/text", "text"),
        Facet("Address", "/result/url", "link"),
        Facet("Results", "/result/results", "table"),
    ),
    samples=(
        CompleteOutput(
            tool_name="WebFetch",
            status="success",
            summary_text="Fetched https://example.org/changes with status 200",
            result=Page(
                url="https://example.org/changes",
                status=200,
                status_text="OK",
                bytes_read=5_120,
                text="# Changes\n\nNone.",
            ),
        ),
        CompleteOutput(
            tool_name="WebFetch",
            status="success",
            summary_text="Fetched https://example.org/log with status 200",
            result=Page(
                url="https://example.org/log",
                status=200,
                bytes_read=90_000,
                text="\n".join(f"Entry {number}: a line of the page" for number in range(1_500)),
            ),
        ),
        CompleteOutput(
            tool_name="WebSearch",
            status="success",
            summary_text="1 web result for 'receipts'",
            result=SearchResults(query="receipts", results=(Link("Receipt", "https://example.org/receipt"),)),
        ),
        CompleteOutput(
            tool_name="WebSearch",
            status="success",
            summary_text="No web results for 'zxqv'",
            result=SearchResults(query="zxqv"),
        ),
        CompleteOutput(
            tool_name="WebFetch",
            status="error",
            summary_text="Request failed with status code 404",
            error=ToolError(kind="network_failed", message="Request failed with status code 404", retryable=True),
        ),
    ),
)

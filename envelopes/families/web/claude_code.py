"""Claude Code's WebFetch and WebSearch: what it recorded, and where its receipts took it from."""

from __future__ import annotations

import re
from functools import partial

from envelopes.alignment.json_spans import match_json_at
from envelopes.alignment.lenient_structs import RecordedObject, link_names, read_struct, reading, tool_mapping
from envelopes.alignment.mapping import Evidence, OutputField, Reading
from envelopes.alignment.spans import Span, match_at, match_excerpt
from envelopes.families.web.results import Link, RecordedPage, RecordedSearch
from envelopes.text.outline import outline_text

_mapping = partial(tool_mapping, agent="claude-code")
FETCH_NAMES = {
    "url": "url",
    "code": "status",
    "codeText": "status_text",
    "bytes": "bytes_read",
    "durationMs": "duration_ms",
    "result": "text",
}

_QUERY = 'Web search results for query: "'
_LINKS = "Links: "
_REST_OF_JSON = re.compile(r'["\n\]}]*')
_REMINDER = "\n\nREMINDER: You MUST include the sources above"


def _read_fetch(evidence: Evidence, recorded: RecordedObject) -> Reading:
    page = read_struct(RecordedPage, recorded, FETCH_NAMES)
    status = f" with status {page.status}" if page.status is not None else ""
    summary = f"Fetched {page.url or 'a page'}{status}"
    return reading(evidence, page, summary, links=link_names(FETCH_NAMES), outputs=(OutputField("/result"),))


def _align_fetch(recorded: RecordedObject, text: str) -> list[Span]:
    return match_excerpt(text, recorded.text("result") or "", "/result")


def _read_search(evidence: Evidence, recorded: RecordedObject) -> Reading:
    links = {"/query": "/result/query", "/durationSeconds": "/result/duration_seconds"}
    pages: list[Link] = []
    texts: list[str] = []
    outputs: list[OutputField] = []
    for index, item in enumerate(recorded.items("results")):
        pointer = f"/results/{index}"
        if isinstance(item.get("content"), list):
            for row, entry in enumerate(item.items("content")):
                links[f"{pointer}/content/{row}"] = f"/result/results/{len(pages)}"
                pages.append(Link(entry.text("title") or "", entry.text("url") or ""))
        else:
            texts.append(item.recorded if isinstance(item.recorded, str) else outline_text(item.recorded))
            links[pointer] = "/result/text"
            outputs.append(OutputField(pointer))
    result = RecordedSearch(
        query=recorded.text("query"),
        results=tuple(pages),
        text="\n\n".join(texts),
        duration_seconds=recorded.number("durationSeconds"),
    )
    sought = f" for {result.query!r}" if result.query else ""
    summary = f"{len(pages) or 'No'} web {'result' if len(pages) == 1 else 'results'}{sought}"
    return reading(evidence, result, summary, links=links, outputs=tuple(outputs))


def _align_search(recorded: RecordedObject, text: str) -> list[Span]:
    """Links the query, then each result in the recorded order: links as JSON, texts as they are."""
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


def _align_result(text: str, at: int, item: RecordedObject, pointer: str) -> list[Span]:
    """Links one result. Between two of them are white space and the rest of the JSON before, and nothing else."""
    if isinstance(item.recorded, str):
        end = text.rfind(_REMINDER)
        rest = _REST_OF_JSON.match(text, at)
        whole = match_at(text, rest.end() if rest else at, item.recorded.strip(), pointer)
        if whole is None or (end >= 0 and whole.end > end):
            return []
        offset = len(item.recorded) - len(item.recorded.lstrip())
        return [Span(whole.start, whole.end, pointer, offset, offset + whole.value_end)]
    start = text.find(_LINKS, at)
    content = item.get("content")
    if start < 0 or text[at:start].strip('"\n]} ') or not isinstance(content, list):
        return []
    return match_json_at(text, start + len(_LINKS), content, f"{pointer}/content")[0]


MAPPINGS = (
    _mapping(tools=("WebFetch",), version=1, expects=("result", "url", "code"), read=_read_fetch, align=_align_fetch),
    _mapping(tools=("WebSearch",), version=1, expects=("results", "query"), read=_read_search, align=_align_search),
)

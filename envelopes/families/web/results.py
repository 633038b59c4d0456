"""Typed results of the web family, and their bounded projection.

Text from the web is untrusted: whoever wrote the page may have written orders to the model into it.
What WebFetch of ours brings is wrapped in the canonical result already, so that no renderer can send
it bare:

    <untrusted-web-content id="1f0c…" source="https://…">
    the text
    </untrusted-web-content id="1f0c…">

The id follows from the text. A page cannot hold its own hash, so it cannot forge the last line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import partial
from typing import Literal

import msgspec

from envelopes.families.base import Projector, ResultMembers, project_by_type
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import JsonValue

WEB_CHARACTERS = 10_000  # spec/model.md E-8
LINE_CHARACTERS = 200
URL_CHARACTERS = 2_000
SNIPPET_CHARACTERS = 300


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One address as a foreign agent recorded it, and the text that was made of it."""

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
    """Links as a foreign agent recorded them, and the text that was written about them."""

    query: str | None = None
    results: tuple[Link, ...] = ()
    text: str = ""
    duration_seconds: int | float | None = None


class FetchedPage(msgspec.Struct, frozen=True, kw_only=True):
    """What WebFetch brought. `text` is bare; `truncated` says that the fetch itself stopped at a limit.

    `sha256` is over the bytes that were read, hexadecimal. `fetched_at` is ISO 8601. The canonical
    result has `text_truncated` besides when only a preview of `text` fits.
    """

    url: str
    final_url: str
    status: int
    content_type: str | None = None
    bytes_read: int
    truncated: bool = False
    sha256: str
    fetched_at: str
    source: str = "local_http"
    text: str


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    url: str
    snippet: str | None = None
    source: str
    published_at: str | None = None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One provider that was asked, whether it answered or not.

    `command` stays in the complete output: a command line may hold credentials.
    """

    provider: str
    status: str
    result_count: int = 0
    error_kind: str | None = None
    error_message: str | None = None
    provider_kind: str | None = None
    capabilities: tuple[str, ...] = ()
    command: str | None = None


class FoundPages(msgspec.Struct, frozen=True, kw_only=True):
    """What WebSearch found. `citations` are the sources that an answer has to name."""

    query: str
    provider: str
    mode: Literal["single", "fallback", "aggregate"] = "single"
    provider_attempts: tuple[Attempt, ...] = ()
    winning_provider: str | None = None
    results: tuple[Hit, ...] = ()
    citations: tuple[Link, ...] = ()
    fetched_at: str


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
    return {
        "query": found.query,
        "duration_seconds": found.duration_seconds,
        **projector.items("results", _links(found.results), policy),
        **projector.text("text", found.text, policy.preview, role="text"),
    }


def _links(links: Iterable[Link]) -> list[JsonValue]:
    return [{"title": link.title, "url": link.url} for link in links]


def _fetched_page(found: FetchedPage, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    shown, artifact = projector.preview("text", found.text, policy.preview, role="page")
    projector.seal("text")  # cut through its last line, the page could go on as if it were the receipt
    return {
        "url": projector.line("url", found.url, URL_CHARACTERS),
        "final_url": projector.line("final_url", found.final_url, URL_CHARACTERS),
        "status": found.status,
        "content_type": found.content_type,
        "bytes_read": found.bytes_read,
        "truncated": found.truncated,
        "sha256": found.sha256,
        "fetched_at": found.fetched_at,
        "source": found.source,
        "text": wrapped(shown, found.text, found.final_url),
        "text_truncated": True if artifact is not None else None,
        "text_artifact": artifact,
    }


def wrapped(shown: str, text: str, source: str) -> str:
    """`shown`, the whole or a preview of `text`, between two lines that `text` cannot forge."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    place = "".join(character for character in source if character.isprintable() and character not in '"<>')
    return (
        f'<untrusted-web-content id="{digest}" source="{place[:500]}">\n{shown}\n</untrusted-web-content id="{digest}">'
    )


def _found_pages(found: FoundPages, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    aside = msgspec.structs.replace(policy, preview=policy.preview // 5)
    hits = msgspec.structs.replace(policy, preview=policy.preview - 2 * aside.preview)
    return {
        "query": projector.line("query", found.query, policy.details),
        "provider": found.provider,
        "mode": found.mode,
        **projector.build_items("provider_attempts", found.provider_attempts, aside, partial(_attempt, projector)),
        "winning_provider": found.winning_provider,
        **projector.build_items("results", found.results, hits, partial(_hit, projector)),
        **projector.items("citations", _links(found.citations), aside),
        "fetched_at": found.fetched_at,
    }


def _attempt(projector: Projector, attempt: Attempt, field: str) -> JsonValue:
    message = attempt.error_message
    return _present(
        provider=attempt.provider,
        status=attempt.status,
        result_count=attempt.result_count,
        error_kind=attempt.error_kind,
        error_message=None if message is None else projector.line(f"{field}/error_message", message, LINE_CHARACTERS),
        provider_kind=attempt.provider_kind,
        capabilities=list(attempt.capabilities) or None,
    )


def _hit(projector: Projector, hit: Hit, field: str) -> JsonValue:
    snippet = hit.snippet
    return _present(
        title=projector.line(f"{field}/title", hit.title, LINE_CHARACTERS),
        url=hit.url,
        snippet=None if snippet is None else projector.line(f"{field}/snippet", snippet, SNIPPET_CHARACTERS),
        source=hit.source,
        published_at=hit.published_at,
    )


def _present(**members: JsonValue) -> JsonValue:
    return {name: member for name, member in members.items() if member is not None}


project = project_by_type(
    {Page: _page, SearchResults: _search_results, FetchedPage: _fetched_page, FoundPages: _found_pages}
)

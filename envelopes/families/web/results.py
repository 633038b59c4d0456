"""The results of tools that read the web, and their bounded forms.

Text from the web is untrusted: whoever wrote the page may have written orders to the model into it.
The text that our WebFetch brings is wrapped in the canonical result already, so that no renderer can send
it bare:

    <untrusted-web-content id="1f0c…" source="https://…">
    the text
    </untrusted-web-content id="1f0c…">

The id is a hash of the text. A page cannot contain its own hash, so it cannot forge the last line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import partial
from typing import Literal

import msgspec

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.base import Projection, Projector, ResultMembers, count_noun, pick, without_nulls
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import JsonValue, to_members

WEB_CHARACTERS = 10_000  # E-8: of a search, and of what foreign agents recorded
MAX_CHARS = 20_000  # the default and the most
LINE_CHARACTERS = 200
URL_CHARACTERS = 2_000
SNIPPET_CHARACTERS = 300


class RecordedPage(msgspec.Struct, frozen=True, kw_only=True):
    """One address as a foreign agent recorded it, and the text that it made of the page."""

    url: str | None = None
    status: int | None = None
    status_text: str | None = None
    bytes_read: int | None = None
    duration_ms: int | float | None = None
    text: str = ""


class Link(msgspec.Struct, frozen=True):
    title: str
    url: str


class RecordedSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Links as a foreign agent recorded them, and the text that was written about them."""

    query: str | None = None
    results: tuple[Link, ...] = ()
    text: str = ""
    duration_seconds: int | float | None = None


class FetchedPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page that WebFetch read. `text` is bare; `truncated` says that the fetch itself stopped at a limit.

    `sha256` is over the bytes that were read, hexadecimal. `fetched_at` is ISO 8601. The canonical
    result has `text_truncated` besides when only a preview of `text` fits. `max_chars` is what the caller asked for;
    None means the default, 20,000.
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
    max_chars: int | None = None

    @property
    def granted_characters(self) -> int:
        return min(max(1, self.max_chars or MAX_CHARS), MAX_CHARS)


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
    """The results of a WebSearch. `citations` are the sources that an answer has to name."""

    query: str
    provider: str
    mode: Literal["single", "fallback", "aggregate"] = "single"
    provider_attempts: tuple[Attempt, ...] = ()
    winning_provider: str | None = None
    results: tuple[Hit, ...] = ()
    citations: tuple[Link, ...] = ()
    fetched_at: str


def _project_page(result: RecordedPage, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        **pick(result, "url", "status", "status_text", "bytes_read", "duration_ms"),
        **projector.text("text", result.text, policy.preview, role="text"),
    }


def _project_search(result: RecordedSearch, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    return {
        **pick(result, "query", "duration_seconds"),
        **projector.items("results", _list_links(result.results), policy),
        **projector.text("text", result.text, policy.preview, role="text"),
    }


def _list_links(links: Iterable[Link]) -> list[JsonValue]:
    return [pick(link, "title", "url") for link in links]


def _project_fetched(result: FetchedPage, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    budget = result.granted_characters if policy.keeps_promises else policy.preview
    preview, artifact = projector.preview("text", result.text, budget, role="page")
    if policy.keeps_promises:
        projector.promise("text")
    projector.seal("text")  # cut through its last line, the page could go on as if it were the receipt
    return {
        "url": projector.line("url", result.url, URL_CHARACTERS),
        "final_url": projector.line("final_url", result.final_url, URL_CHARACTERS),
        **pick(result, "status", "content_type", "bytes_read", "truncated", "sha256", "fetched_at", "source"),
        "text": wrap_untrusted(preview, result.text, result.final_url),
        "effective_max_chars": budget,
        "text_truncated": True if artifact is not None else None,
        "text_artifact": artifact,
    }


def granted_characters(result: JsonValue) -> int:
    """The characters of text that WebFetch's caller was granted; 0 for anything else."""
    return min(max(0, RecordedObject(result).integer("effective_max_chars") or 0), MAX_CHARS)


def wrap_untrusted(preview: str, text: str, source: str) -> str:
    """`preview`, the whole or a preview of `text`, between two lines that `text` cannot forge."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    address = "".join(character for character in source if character.isprintable() and character not in '"<>')
    tag = f'untrusted-web-content id="{digest}"'
    return f'<{tag} source="{address[:500]}">\n{preview}\n</{tag}>'


def _project_found(result: FoundPages, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    """Attempts and citations get a fifth of the preview budget each, the hits the rest."""
    aside = policy.preview // 5
    # A command line may hold credentials.
    attempts = [msgspec.structs.replace(attempt, command=None) for attempt in result.provider_attempts]
    hits, citations = result.results, _list_links(result.citations)
    return {
        "query": projector.line("query", result.query, policy.details),
        **pick(result, "provider", "mode"),
        **projector.build_items(
            "provider_attempts", attempts, policy, partial(_project_attempt, projector), characters=aside
        ),
        **_store_cut_items("provider_attempts", attempts, projector),
        "winning_provider": result.winning_provider,
        **projector.build_items(
            "results", hits, policy, partial(_project_hit, projector), characters=policy.preview - 2 * aside
        ),
        **_store_cut_items("results", hits, projector),
        **projector.items("citations", citations, policy, characters=aside),
        **_store_cut_items("citations", result.citations, projector),
        "fetched_at": result.fetched_at,
    }


def _store_cut_items(field: str, items: Iterable[msgspec.Struct], projector: Projector) -> ResultMembers:
    """`<field>_artifact` with all items, one a line, where some are left out or a text of one is cut."""
    pointer = f"/result/{field}"
    if not any(f"{cut.pointer}/".startswith(f"{pointer}/") for cut in projector.cuts):
        return {}
    lines = "\n".join(json.dumps(to_members(item), ensure_ascii=False) for item in items)
    return {f"{field}_artifact": projector.store(field.replace("_", "-"), lines)}


def _project_attempt(projector: Projector, attempt: Attempt, field: str) -> JsonValue:
    return without_nulls(
        {
            **pick(attempt, "provider", "status", "result_count", "error_kind"),
            "error_message": projector.line(f"{field}/error_message", attempt.error_message, LINE_CHARACTERS),
            "provider_kind": attempt.provider_kind,
            "capabilities": list(attempt.capabilities) or None,
        }
    )


def _project_hit(projector: Projector, hit: Hit, field: str) -> JsonValue:
    return without_nulls(
        {
            "title": projector.line(f"{field}/title", hit.title, LINE_CHARACTERS),
            "url": hit.url,
            "snippet": projector.line(f"{field}/snippet", hit.snippet, SNIPPET_CHARACTERS),
            **pick(hit, "source", "published_at"),
        }
    )


def fetched_outcome(page: FetchedPage) -> str:
    return f"fetched {page.final_url} with status {page.status}"


def read_outcome(page: RecordedPage) -> str:
    noun = "character" if len(page.text) == 1 else "characters"
    return f"read {len(page.text):,} {noun} of {page.url or 'a page'}"


def search_outcome(found: FoundPages) -> str:
    return f"{count_noun(len(found.results), 'result')} for {found.query}"


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {
    FetchedPage: _project_fetched,
    FoundPages: _project_found,
    RecordedPage: _project_page,
    RecordedSearch: _project_search,
}

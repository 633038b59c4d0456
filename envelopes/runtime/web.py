"""WebFetch and WebSearch: pages over HTTP under a policy on addresses, searches by the providers that are set up.

A host is resolved once, and the connection goes to the address that was checked: a name that resolves to another
address a moment later leads nowhere else. The policy holds for every redirect. Needs httpx (extra `web`).
"""

from __future__ import annotations

import hashlib
import html.parser
import ipaddress
import re
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias
from urllib.parse import urljoin, urlsplit

from envelopes.families.web.results import Attempt, FetchedPage, FoundPages, Link, fetched_outcome, search_outcome
from envelopes.families.web.results import Hit as Hit  # the providers of a runtime yield these
from envelopes.families.web.tools import MAX_RESULTS, WebFetchInput, WebSearchInput
from envelopes.plan.tool_answers import Tool, ToolFailed
from envelopes.plan.workers import CallContext
from envelopes.schema.result import CompleteOutput
from envelopes.schema.timestamps import format_instant

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

TIMEOUT_S = 20.0
MOST_BYTES = 750_000
MOST_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)
SCHEMES = ("http", "https")
TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # an IPv6 address that stands for an IPv4 one
ERRNO = re.compile(r"^\[Errno -?\d+\] ")
CHARSET = re.compile(r"charset=[\"']?([A-Za-z0-9_.:-]+)", re.IGNORECASE)
HTML_TYPES = ("text/html", "application/xhtml+xml")
AGENT = "Counterfoil-WebFetch/1.0"
UNSEEN = frozenset({"script", "style", "template", "noscript", "svg"})
BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset", "figure", "footer"),
        *("form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section"),
        *("table", "title", "tr", "ul"),
    )
)


@dataclass(frozen=True)
class WebPolicy:
    """Which hosts may be asked. `private_hosts` are names and addresses that are allowed although they are not public.

    `denied_hosts` are refused together with the hosts below them.
    """

    is_enabled: bool = True
    private_hosts: frozenset[str] = frozenset()
    denied_hosts: frozenset[str] = frozenset()


class SearchFailed(Exception):
    """Raised by a provider. `kind` is one of WebSearch's error kinds."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class SearchProvider(Protocol):
    """One engine. `name` is what a model calls it by."""

    name: str

    def search(self, query: str, limit: int) -> Sequence[Hit]:
        """The best results first. Raises SearchFailed."""


class _Target(NamedTuple):
    """A checked address of a URL."""

    url: str
    host: str
    address: str


class WebTools:
    """The two tools. `resolve` gives the addresses of a host; without `providers` no search is possible."""

    def __init__(
        self,
        policy: WebPolicy = WebPolicy(),
        providers: Iterable[SearchProvider] = (),
        *,
        resolve: Callable[[str], Sequence[str]] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._policy, self._now = policy, now
        self._providers = {provider.name: provider for provider in providers}
        self._resolve = resolve or _resolve

    def tools(self) -> tuple[Tool, ...]:
        unsearched = "" if self._providers else "no search provider is set up"
        unfetched = "" if find_spec("httpx") else "it needs httpx, the extra `web`"
        return (
            Tool.built_in("WebFetch", self.fetch, unavailable=unfetched),
            Tool.built_in("WebSearch", self.search, unavailable=unsearched),
        )

    def fetch(self, call: WebFetchInput, context: CallContext) -> CompleteOutput:
        if not self._policy.is_enabled:
            raise ToolFailed("web_fetch_disabled", "the operator has switched WebFetch off")
        due = time.monotonic() + TIMEOUT_S
        url = call.url
        with _client() as client:
            for _ in range(MOST_REDIRECTS + 1):
                target = self._check(url)
                with _requested(client, target, due) as response:
                    if response.status_code not in REDIRECTS:
                        body, is_cut = _read_body(response, due, context)
                        page = self._page(call, url, response, body, is_cut=is_cut)
                        return CompleteOutput.success("WebFetch", fetched_outcome(page), page)
                    url = _redirected(url, response.headers.get("location"))
        raise ToolFailed(
            "too_many_redirects",
            f"{call.url} redirects more than {MOST_REDIRECTS} times",
            details={"url": call.url, "last": url},
            recovery_hint="fetch the last address, if it is the one that you want",
        )

    def search(self, call: WebSearchInput, _context: CallContext) -> CompleteOutput:
        limit = min(call.max_results or MAX_RESULTS, MAX_RESULTS)
        chosen = self._choose_providers(call.provider)
        attempts: list[Attempt] = []
        for provider in chosen:
            try:
                hits = tuple(provider.search(call.query, limit))[:limit]
            except SearchFailed as failure:
                attempts.append(
                    Attempt(
                        provider=provider.name, status="failed", error_kind=failure.kind, error_message=str(failure)
                    )
                )
                continue
            attempts.append(Attempt(provider=provider.name, status="ok", result_count=len(hits)))
            result = FoundPages(
                query=call.query,
                provider=provider.name,
                mode="single" if len(chosen) == 1 else "fallback",
                provider_attempts=tuple(attempts),
                winning_provider=provider.name,
                results=hits,
                citations=tuple(Link(hit.title, hit.url) for hit in hits),
                fetched_at=self._stamp(),
            )
            return CompleteOutput.success("WebSearch", search_outcome(result), result)
        last = attempts[-1]
        raise ToolFailed(
            last.error_kind or "network_failed",
            "; ".join(f"{attempt.provider}: {attempt.error_message}" for attempt in attempts),
            details={"query": call.query, "providers": [attempt.provider for attempt in attempts]},
            recovery_hint="try other words, or fetch an address that you know with WebFetch",
        )

    def _choose_providers(self, name: str | None) -> list[SearchProvider]:
        chosen = (
            list(self._providers.values())
            if name is None
            else [self._providers[name]]
            if name in self._providers
            else []
        )
        if not chosen:
            there = ", ".join(self._providers) or "none"
            raise ToolFailed(
                "provider_unavailable",
                f"there is no search provider {name}" if name else "no search provider is set up",
                details={"provider": name, "providers": list(self._providers)},
                recovery_hint=f"set up: {there}. Fetch an address that you know with WebFetch",
            )
        return chosen

    def _check(self, url: str) -> _Target:
        """The address to connect to. Raises ToolFailed for a URL or an address that the policy does not allow."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise _invalid(url, str(error)) from error
        if parts.scheme not in SCHEMES:
            if parts.scheme:
                raise _denied(url, f"{parts.scheme} is no scheme that WebFetch may use")
            raise _invalid(url, "it is not absolute")
        if not host or parts.username is not None or parts.password is not None:
            raise _invalid(url, "it has no host" if not host else "it contains a name or a password")
        name = host.rstrip(".").lower()
        if any(name == denied or name.endswith(f".{denied}") for denied in self._policy.denied_hosts):
            raise _denied(url, f"{name} is not allowed here")
        try:
            addresses = [ipaddress.ip_address(address.partition("%")[0]) for address in self._resolve(name)]
        except OSError as error:
            raise ToolFailed(
                "network_failed", f"{name} has no address: {error.strerror or error}", details={"url": url}
            ) from error
        for address in addresses:
            if not is_public(address) and not {name, str(address)} & self._policy.private_hosts:
                leads = "" if name == str(address) else f" leads to {address}, which"
                raise _denied(url, f"{name}{leads} is no public address")
        if not addresses:
            raise ToolFailed("network_failed", f"{name} has no address", details={"url": url})
        return _Target(url, name, str(addresses[0]))

    def _page(
        self, call: WebFetchInput, url: str, response: httpx.Response, body: bytes, *, is_cut: bool
    ) -> FetchedPage:
        content_type = response.headers.get("content-type")
        return FetchedPage(
            url=call.url,
            final_url=url,
            status=response.status_code,
            content_type=content_type,
            bytes_read=len(body),
            truncated=is_cut,
            sha256=hashlib.sha256(body).hexdigest(),
            fetched_at=self._stamp(),
            text=read_text(body, content_type or "", call.extract_mode or "auto"),
            max_chars=call.max_chars,
        )

    def _stamp(self) -> str:
        return format_instant(self._now(), timespec="milliseconds")


def is_public(address: Address) -> bool:
    """False for every address of a private, local or special network, also where IPv6 wraps an IPv4 address.

    >>> is_public(ipaddress.ip_address("169.254.169.254"))
    False
    """
    if isinstance(address, ipaddress.IPv6Address):
        wrapped = address.ipv4_mapped or address.sixtofour
        if wrapped is not None:
            return is_public(wrapped)
        if address in TRANSLATED or address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast


def read_text(body: bytes, content_type: str, mode: str) -> str:
    """The text of a page: markup is stripped from HTML by `auto`, always by `text`, never by `raw`."""
    named = CHARSET.search(content_type) or CHARSET.search(body[:1024].decode("ascii", "replace"))
    try:
        text = body.decode(named[1] if named else "utf-8", "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    is_html = content_type.partition(";")[0].strip().lower() in HTML_TYPES
    return strip_markup(text) if mode == "text" or (mode == "auto" and is_html) else text


def strip_markup(text: str) -> str:
    """The words of an HTML page, blocks on lines of their own.

    >>> strip_markup("<title>A</title><p>One <b>two</b></p><script>no()</script><ul><li>three</ul>")
    'A\\nOne two\\n- three'
    """
    reader = _TextReader()
    reader.feed(text)
    reader.close()
    return reader.text()


class _TextReader(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._pieces: list[str] = []
        self._hidden = self._preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in UNSEEN
        self._preformatted += tag == "pre"
        if tag in BLOCKS:
            self._pieces.append("\n")
        if tag == "li":
            self._pieces.append("- ")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in UNSEEN))
        self._preformatted = max(0, self._preformatted - (tag == "pre"))
        if tag in BLOCKS:
            self._pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        self._pieces.append(data if self._preformatted else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        lines = (line.rstrip() for line in "".join(self._pieces).split("\n"))
        return "\n".join(line.removeprefix(" ") for line in lines if line.strip(" -"))


def _resolve(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@contextmanager
def _client() -> Iterator[httpx.Client]:
    try:
        import httpx
    except ImportError as error:
        raise ToolFailed(
            "tool_execution_failed", "WebFetch needs httpx: install envelopes with the extra `web`"
        ) from error
    with httpx.Client(trust_env=False, follow_redirects=False, timeout=TIMEOUT_S) as client:
        yield client


@contextmanager
def _requested(client: httpx.Client, target: _Target, due: float) -> Iterator[httpx.Response]:
    """The answer of the checked address, whose certificate has to be that of the host."""
    import httpx

    url = httpx.URL(target.url)
    headers = {"Host": url.netloc.decode("ascii"), "User-Agent": AGENT, "Accept-Encoding": "identity"}
    request = client.build_request(
        "GET",
        url.copy_with(host=target.address, fragment=None),
        headers=headers,
        timeout=max(0.1, due - time.monotonic()),
        extensions={"sni_hostname": target.host},
    )
    try:
        response = client.send(request, stream=True)
        try:
            yield response
        finally:
            response.close()
    except httpx.TimeoutException as error:
        raise _timed_out(target.url) from error
    except httpx.RemoteProtocolError as error:
        if "location header" in str(error):  # the client parses it, though it does not follow it
            raise _misdirected(target.url) from error
        raise _unanswered(target, error) from error
    except httpx.HTTPError as error:
        raise _unanswered(target, error) from error


def _unanswered(target: _Target, error: Exception) -> ToolFailed:
    reason = ERRNO.sub("", str(error)) or type(error).__name__
    message = f"{target.host} did not answer: {reason}"
    hint = "try once more later, or fetch another address"
    return ToolFailed("network_failed", message, details={"url": target.url}, recovery_hint=hint, retryable=True)


def _misdirected(url: str) -> ToolFailed:
    message = f"{url} redirects to something that is no address"
    return ToolFailed("invalid_redirect_location", message, details={"url": url})


def _read_body(response: httpx.Response, due: float, context: CallContext) -> tuple[bytes, bool]:
    """At most MOST_BYTES, and whether there was more."""
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > MOST_BYTES:
            return bytes(body[:MOST_BYTES]), True
        if time.monotonic() > due or context.is_cancelled:
            raise _timed_out(str(response.url))
    return bytes(body), False


def _redirected(url: str, location: str | None) -> str:
    if not location:
        raise ToolFailed("redirect_without_location", f"{url} redirects and names no address", details={"url": url})
    try:
        target = urljoin(url, location)
        urlsplit(target)
    except ValueError as error:
        raise _misdirected(url) from error
    return target


def _invalid(url: str, reason: str) -> ToolFailed:
    hint = "give an absolute http or https address without a name or password"
    return ToolFailed("invalid_url", f"{url!r} cannot be fetched: {reason}", details={"url": url}, recovery_hint=hint)


def _denied(url: str, reason: str) -> ToolFailed:
    hint = "fetch a public http or https address"
    return ToolFailed("network_denied", reason, details={"url": url}, recovery_hint=hint)


def _timed_out(url: str) -> ToolFailed:
    return ToolFailed("tool_timed_out", f"{url} did not answer within {TIMEOUT_S:g} s", details={"url": url})

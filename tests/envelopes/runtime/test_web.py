"""WebFetch against a server on loopback that the policy allows, and every address that it must not reach."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from envelopes import MemorySink
from envelopes.families.registry import builtin
from envelopes.families.web.results import Hit
from envelopes.pipeline.project import project
from envelopes.pipeline.render import render
from envelopes.plan.tool_answers import ToolFailed
from envelopes.runtime import web
from envelopes.runtime.web import MOST_BYTES, SearchFailed, WebPolicy, WebTools, is_public
from tests.envelopes.runtime.calls import CONTEXT

PAGE = "<html><head><title>Ä</title><style>p{}</style></head><body><p>One <b>two</b><script>no()</script></body></html>"


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        routes: dict[str, tuple[int, dict[str, str], bytes]] = {
            "/page": (200, {"Content-Type": "text/html; charset=iso-8859-1"}, PAGE.encode("iso-8859-1")),
            "/plain": (404, {"Content-Type": "text/plain"}, b"<b>nothing</b> here"),
            "/large": (200, {"Content-Type": "text/plain"}, b"x" * (MOST_BYTES + 1)),
            "/host": (200, {"Content-Type": "text/plain"}, self.headers["Host"].encode()),
            "/moved": (302, {"Location": "/page"}, b""),
            "/loop": (302, {"Location": "/loop"}, b""),
            "/nowhere": (302, {}, b""),
            "/broken": (302, {"Location": "http://[::1"}, b""),
            "/inside": (302, {"Location": "http://169.254.169.254/latest/"}, b""),
            "/file": (302, {"Location": "file:///etc/passwd"}, b""),
        }
        status, headers, body = routes[self.path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


LOCAL = WebPolicy(private_hosts=frozenset({"127.0.0.1"}))


def fetch(tools: WebTools, url: str, **arguments: Any) -> Any:
    family, definition = builtin("WebFetch")
    output = tools.fetch(definition.parse({"url": url, **arguments}), CONTEXT)  # type: ignore[arg-type]
    output.check()
    assert render(project(output, family, family.projection, MemorySink()).canonical, family, family.rendering).text
    return output.result


def test_a_page_is_read_as_text_with_its_address_status_and_hash(server: str) -> None:
    page = fetch(WebTools(LOCAL), f"{server}/moved")
    assert (page.url, page.final_url, page.status) == (f"{server}/moved", f"{server}/page", 200)
    assert (page.text, page.bytes_read, page.truncated) == ("Ä\nOne two", len(PAGE), False)
    assert len(page.sha256) == 64


@pytest.mark.parametrize(
    ("path", "mode", "text"),
    [
        ("/page", "raw", PAGE),
        ("/page", "auto", "Ä\nOne two"),
        ("/plain", "auto", "<b>nothing</b> here"),
        ("/plain", "text", "nothing here"),
    ],
)
def test_markup_is_stripped_as_the_call_asks(server: str, path: str, mode: str, text: str) -> None:
    assert fetch(WebTools(LOCAL), server + path, extract_mode=mode).text == text


def test_a_large_page_is_cut_and_says_so(server: str) -> None:
    page = fetch(WebTools(LOCAL), f"{server}/large")
    assert (page.bytes_read, page.truncated) == (MOST_BYTES, True)


def test_the_connection_goes_to_the_address_that_was_checked(server: str) -> None:
    """The name resolves once, to the loopback; the page sees the name."""
    asked: list[str] = []

    def resolve(host: str) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    port = server.rpartition(":")[2]
    tools = WebTools(WebPolicy(private_hosts=frozenset({"docs.example"})), resolve=resolve)
    assert fetch(tools, f"http://docs.example:{port}/host").text == f"docs.example:{port}"
    assert asked == ["docs.example"]


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("ftp://example.org/", "network_denied"),
        ("file:///etc/passwd", "network_denied"),
        ("example.org/page", "invalid_url"),
        ("http://", "invalid_url"),
        ("http://name:secret@example.org/", "invalid_url"),
        ("http://[::1", "invalid_url"),
        ("http://example.org:99999/", "invalid_url"),
        *[
            (f"http://{host}/", "network_denied")
            for host in (
                "127.0.0.1",
                "[::1]",
                "10.0.0.1",
                "169.254.169.254",
                "0.0.0.0",
                "[::ffff:10.0.0.1]",
                "2130706433",
            )
        ],
        ("http://metadata.internal/", "network_denied"),
        ("http://evil.example/", "network_denied"),
        ("http://sub.denied.example./", "network_denied"),
        ("http://nothing.example/", "network_failed"),
    ],
)
def test_what_the_policy_does_not_allow_is_never_asked(url: str, kind: str) -> None:
    names = {
        "metadata.internal": ["169.254.169.254"],
        "evil.example": ["93.184.215.14", "10.0.0.1"],
        "nothing.example": [],
    }

    def resolve(host: str) -> Sequence[str]:
        return names[host] if host in names else web._resolve(host)

    policy = WebPolicy(denied_hosts=frozenset({"denied.example"}))
    with pytest.raises(ToolFailed) as failure:
        fetch(WebTools(policy, resolve=resolve), url)
    assert failure.value.kind == kind


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/loop", "too_many_redirects"),
        ("/nowhere", "redirect_without_location"),
        ("/broken", "invalid_redirect_location"),
        ("/inside", "network_denied"),
        ("/file", "network_denied"),
    ],
)
def test_a_redirect_is_held_to_the_policy(server: str, path: str, kind: str) -> None:
    with pytest.raises(ToolFailed) as failure:
        fetch(WebTools(LOCAL), server + path)
    assert failure.value.kind == kind


def test_a_server_that_is_not_there_is_a_failure_that_may_pass() -> None:
    with pytest.raises(ToolFailed, match="did not answer") as failure:
        fetch(WebTools(LOCAL), "http://127.0.0.1:1/")
    assert failure.value.to_error().retryable


def test_a_fetch_that_is_switched_off_says_so() -> None:
    with pytest.raises(ToolFailed) as failure:
        fetch(WebTools(WebPolicy(is_enabled=False)), "https://example.org/")
    assert failure.value.kind == "web_fetch_disabled"


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07:6820:80da:af6b:8b2c", True),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("::", False),
        ("fe80::1", False),
        ("fc00::1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("2002:a00:1::", False),
    ],
)
def test_only_public_addresses_are_public(address: str, public: bool) -> None:  # noqa: FBT001
    assert is_public(ipaddress.ip_address(address)) is public


class Engine:
    def __init__(self, name: str, hits: int = 0, failure: str = "") -> None:
        self.name, self._hits, self._failure = name, hits, failure

    def search(self, query: str, limit: int) -> Sequence[Hit]:
        if self._failure:
            raise SearchFailed(self._failure, "no answer")
        return [
            Hit(title=f"{query} {number}", url=f"https://a.example/{number}", source=self.name)
            for number in range(self._hits)
        ]


def search(tools: WebTools, **arguments: Any) -> Any:
    return tools.search(builtin("WebSearch")[1].parse({"query": "cut", **arguments}), CONTEXT).result  # type: ignore[arg-type]


def test_a_search_falls_back_to_the_next_provider() -> None:
    tools = WebTools(providers=[Engine("first", failure="rate_limited"), Engine("second", hits=9)])
    found = search(tools)
    assert (found.mode, found.winning_provider, len(found.results)) == ("fallback", "second", 5)
    assert [(attempt.provider, attempt.status) for attempt in found.provider_attempts] == [
        ("first", "failed"),
        ("second", "ok"),
    ]
    assert [link.title for link in found.citations[:1]] == ["cut 0"]
    assert search(tools, provider="second", max_results=2).mode == "single"


@pytest.mark.parametrize(
    ("providers", "arguments", "kind"),
    [
        ([], {}, "provider_unavailable"),
        ([Engine("first")], {"provider": "second"}, "provider_unavailable"),
        ([Engine("first", failure="parse_failed")], {}, "parse_failed"),
    ],
)
def test_a_search_without_an_answer_names_the_reason(
    providers: list[Engine], arguments: dict[str, Any], kind: str
) -> None:
    with pytest.raises(ToolFailed) as failure:
        search(WebTools(providers=providers), **arguments)
    assert failure.value.kind == kind

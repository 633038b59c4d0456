"""Bad requests by the class of their fault, each with its status and words of its answer.

@R, @C and @A in an address are a run, a call and an artifact of the operator's project, @O a run of another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

PASSWORD = "correct horse battery"
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class BadRequest:
    name: str
    address: str
    status: int
    words: str = ""
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    form: str = FORM

    @property
    def answers(self) -> list[str]:
        return [f"{self.status}: {self.words}" if self.words else str(self.status)]


def form(name: str, status: int, body: bytes = b"name=x", **headers: str) -> BadRequest:
    """A form that saves a view; `_` in the name of a header stands for -."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return BadRequest(name, "/runs/views/", status, method="POST", body=body, headers=named)


def typed(name: str, status: int, body: bytes, kind: str, address: str = "/runs/views/") -> BadRequest:
    return BadRequest(name, address, status, method="POST", body=body, form=kind)


def leaving(name: str, elsewhere: str) -> BadRequest:
    """A sign-in that would be followed by another site."""
    body = urlencode({"name": "olga", "password": PASSWORD, "next": elsewhere}).encode()
    return BadRequest(name, "/sign-in/", 302, "/runs/", method="POST", body=body)


HALF_A_PART = b'--b\r\nContent-Disposition: form-data; name="files"; filename="x.jsonl"\r\n\r\nx'
FIELDS = "&".join(f"f{number}=1" for number in range(1_500)).encode()
REQUESTS: dict[str, tuple[BadRequest, ...]] = {
    "query-param": (
        BadRequest("a filter that cannot be read", "/runs/?q=status:%22", 200, "status"),
        BadRequest("a filter of 3,000 letters", f"/runs/?q={'a' * 3_000}", 200),
        BadRequest("a NUL in a filter", "/runs/?q=a%00b", 200),
        BadRequest("half a character in a filter", "/runs/?q=%ED%A0%80", 200),
        BadRequest("signs of a database in a filter", "/runs/?q=%25_%27%20OR%201=1--", 200),
        BadRequest("a column of ours as an order", "/runs/?sort=project__memberships__user__password", 200),
        BadRequest("a number of 400 digits", f"/runs/?view={'9' * 400}", 200),
        BadRequest("a page below nought", "/runs/?after=-1", 200),
        BadRequest("the same parameter a hundred times", "/runs/?" + "&".join(["q=a"] * 100), 200),
        BadRequest("a window that ends before it begins", "/artifacts/@A/?at=9-1", 200),
        BadRequest("a pattern that is none", "/artifacts/@A/?q=(((&regex=1", 200),
        BadRequest("a search without its text", "/artifacts/@A/find/", 400, "to find", headers={"HX-Request": "true"}),
        BadRequest("an encoding that does not exist", "/artifacts/@A/?encoding=klingon", 200),
        BadRequest("2,000 parameters", "/runs/?" + "&".join(f"p{n}=1" for n in range(2_000)), 400),
    ),
    "open-redirect": (
        leaving("another site", "https://evil.example/"),
        leaving("two slashes", "//evil.example"),
        leaving("three slashes", "///evil.example"),
        leaving("a slash and a backslash", "/\\evil.example"),
        leaving("two backslashes", "\\\\evil.example"),
        leaving("a scheme without slashes", "http:evil.example"),
        leaving("a scheme with three slashes", "https:///evil.example"),
        leaving("a NUL before it", "\x00//evil.example"),
        leaving("a space before it", " //evil.example"),
        leaving("a line end before it", "\r\n//evil.example"),
        leaving("a script", "javascript:alert(1)"),
        leaving("data", "data:text/html,x"),
    ),
    "http-host": (
        BadRequest("another name", "/runs/", 400, headers={"Host": "evil.example"}),
        BadRequest(
            "another name by a proxy that nobody trusts", "/runs/", 200, headers={"X-Forwarded-Host": "evil.example"}
        ),
        BadRequest("a name with an account", "/runs/", 400, headers={"Host": "localhost@evil.example"}),
    ),
    "http-method": (
        BadRequest("PUT of a page", "/runs/", 405, method="PUT"),
        BadRequest("POST to a page without a form", "/runs/@R/", 405, method="POST"),
        BadRequest("a method that does not exist", "/runs/", 405, method="BREW"),
        BadRequest("GET of a deletion", "/runs/views/1/delete/", 405),
    ),
    "http-ctype": (
        typed("a form as JSON", 415, b'{"name":"x"}', "application/json"),
        typed("a form as plain text", 415, b"name=x", "text/plain"),
        typed("an upload without a boundary", 400, b"x", "multipart/form-data", "/runs/import/"),
        typed("a form in UTF-16", 400, "name=x".encode("utf-16"), f"{FORM}; charset=utf-16"),
    ),
    "http-encoding": (
        BadRequest(
            "a compressed form",
            "/runs/views/",
            415,
            method="POST",
            body=b"\x1f\x8b",
            headers={"Content-Encoding": "gzip"},
        ),
        BadRequest("bytes in a path", "/runs/%ff%fe/", 404),
        BadRequest("a NUL in a path", "/runs/%00/", 404),
    ),
    "http-size": (
        form("a form of 70,000 bytes", 413, b"name=" + b"x" * 70_000),
        BadRequest("20,000 accepted languages", "/runs/", 200, headers={"Accept-Language": ",".join(["x-y"] * 20_000)}),
        form("a size that is none", 400, Content_Length="-5"),
    ),
    "http-multipart": (
        form("1,500 fields", 400, FIELDS),
        typed("a part without its end", 422, HALF_A_PART, "multipart/form-data; boundary=b", "/runs/import/"),
        typed("a boundary of 300 letters", 400, b"x", f"multipart/form-data; boundary={'b' * 300}", "/runs/import/"),
    ),
    "http-range": (
        BadRequest("2,000 ranges", "/artifacts/@A/raw", 200, headers={"Range": "bytes=" + ",".join(["0-1"] * 2_000)}),
        BadRequest("a range behind the end", "/artifacts/@A/raw", 416, headers={"Range": "bytes=99999999-"}),
        BadRequest("a range that is none", "/artifacts/@A/raw", 200, headers={"Range": "bytes=b-a"}),
    ),
    "csrf": (
        form("no token", 403, X_CSRFToken=""),
        form("another token", 403, X_CSRFToken="b" * 32),
        form("a request of the page's script without a token", 403, X_CSRFToken="", HX_Request="true"),
        form("a form of another site", 403, Origin="https://evil.example"),
    ),
    "idor": (
        BadRequest("a run of another project", "/runs/@O/", 404),
        BadRequest("the history of a run of another project", "/runs/@O/context", 404),
        BadRequest("the deletion of a run of another project", "/runs/@O/delete/", 404, method="POST"),
        BadRequest("another project by its name", "/runs/?project=other", 404),
    ),
    "path-traversal in an address": (
        BadRequest("upwards in an artifact", "/artifacts/../../etc/passwd", 404),
        BadRequest("upwards, encoded", "/artifacts/%2e%2e%2f%2e%2e%2fetc%2fpasswd/raw", 404),
        BadRequest("upwards in a static file", "/static/../dashboard/settings.py", 404),
        BadRequest("upwards in a page of the documentation", "/docs/..%2f..%2fREADME/", 404),
    ),
}

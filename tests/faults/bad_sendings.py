"""Requests to the intake that are wrong as requests, by the class of their fault, each with its answer."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.dashboard.api.native_records import BOMB, NDJSON
from tests.faults.bad_records import GOOD


@dataclass(frozen=True)
class BadSending:
    """A request whose body is a good call, unless it has another one."""

    name: str
    status: int
    words: str
    body: bytes = GOOD
    content_type: str = NDJSON
    headers: Mapping[str, str] = field(default_factory=dict)
    method: str = "POST"
    address: str = "/api/v1/records"

    @property
    def answers(self) -> list[str]:
        return [f"{self.status}: {self.words}" if self.words else str(self.status)]


def packed(name: str, status: int, words: str, body: bytes = GOOD, *, encoding: str = "gzip") -> BadSending:
    return BadSending(name, status, words, body, headers={"Content-Encoding": encoding})


def headed(name: str, status: int, words: str, header: str, value: str) -> BadSending:
    return BadSending(name, status, words, headers={header: value})


def content(name: str, status: int, words: str, address: str) -> BadSending:
    """A content of one byte under that address."""
    kind = "application/octet-stream"
    return BadSending(name, status, words, b"x", kind, method="PUT", address=f"/api/v1/artifacts/{address}")


PACKED = gzip.compress(GOOD)
UNKNOWN, LONG_KEY = "This token is not valid here.", "An Idempotency-Key has at most 200 printable ASCII characters."
TYPES = "Unsupported type. Send the body as application/x-ndjson or application/jsonl or application/json."
TRACE_TYPES = "Unsupported type. Send the body as application/x-protobuf or application/json."
ABSENT = "Not found."
SENDINGS: dict[str, tuple[BadSending, ...]] = {
    "http-encoding": (
        packed("gzip that is none", 400, "The body is not gzip, or is damaged.", b"abc"),
        packed("gzip that ends early", 400, "The compressed body ends early.", PACKED[:-9]),
        packed("70 MB in 70 kB", 413, "The body unpacks to more than 64.0 MB.", BOMB),
        packed("an encoding that nobody knows", 415, "Send the body as it is or compressed by gzip.", encoding="br"),
        packed("gzip in gzip", 422, "not UTF-8 at byte 1: 8b", gzip.compress(PACKED)),
    ),
    "http-auth": (
        headed("no token", 401, "Send a token: Authorization: Bearer cft_", "Authorization", ""),
        headed("a token that nobody has", 401, UNKNOWN, "Authorization", "Bearer cft_deadbeef_AAAA"),
        headed("a token of other letters", 401, UNKNOWN, "Authorization", "Bearer cft_\xe9\xe9_\xff"),
        headed("a name and a password", 401, UNKNOWN, "Authorization", "Basic eDp5"),
    ),
    "http-ctype": (
        BadSending("plain text", 415, TYPES, content_type="text/plain"),
        BadSending("a form", 415, TYPES, content_type="multipart/form-data; boundary=b"),
        BadSending("none", 415, TYPES, content_type=""),
        BadSending("records to the address of traces", 415, TRACE_TYPES, address="/v1/traces"),
    ),
    "http-method": (
        BadSending("GET", 405, "", b"", method="GET"),
        BadSending("PUT", 405, "", method="PUT"),
        BadSending("DELETE", 405, "", b"", method="DELETE"),
    ),
    "http-size": (
        BadSending("an empty body", 400, "The body is empty.", b""),
        BadSending("blank lines alone", 400, "The body is empty.", b" \n\n\t\n"),
        BadSending("20,001 records", 413, "A batch has at most 20,000 records; this one has 20,001.", b"{}\n" * 20_001),
        headed("a size below nought", 400, "Its Content-Length is not a number.", "Content-Length", "-5"),
        headed("a size of 20 MB", 413, "this address accepts at most 16.0 MB.", "Content-Length", "20000000"),
    ),
    "http-idempotency": (
        headed("a key of 201 letters", 400, LONG_KEY, "Idempotency-Key", "k" * 201),
        headed("a key with a tab", 400, LONG_KEY, "Idempotency-Key", "a\tb"),
        headed("a key of other letters", 400, LONG_KEY, "Idempotency-Key", "\xe9"),
    ),
    "path-traversal of a content": (
        content("a name that is no hash", 400, "The address ends with a SHA-256", "short"),
        content("upwards", 404, ABSENT, "../../etc"),
        content("upwards, encoded", 404, ABSENT, "%2e%2e%2fetc"),
        content("the hash of another content", 422, "its address has another.", "0" * 64),
    ),
}

"""Derives ids from what a row is of, so that importing the same thing again finds its row.

A call is (project, namespace, external run, external call); a namespace whose call ids are globally
unique leaves the run out, so that the call is one row across files (design.md section 1, Identity).
"""

from __future__ import annotations

import hashlib
from uuid import UUID


def derived(*parts: str | int | bytes) -> UUID:
    """128 bits over the parts; each is length-prefixed, so no two lists of parts collide by joining."""
    framed = []
    for part in parts:
        raw = (
            part.encode("utf-8", "surrogatepass")
            if isinstance(part, str)
            else b"%d" % part
            if isinstance(part, int)
            else part
        )
        framed.append(b"%d:%b" % (len(raw), raw))
    return UUID(int=int.from_bytes(hashlib.blake2b(b"".join(framed), digest_size=16).digest(), "big"))


def run_id(project: int, namespace: str, run: str) -> UUID:
    return derived("run", project, namespace, run)


def call_id(project: int, namespace: str, run: str, call: str, *, joins: bool) -> UUID:
    return derived("call", project, namespace, "" if joins else run, call)


def observation_id(call: UUID, surface: str, sha256: str) -> UUID:
    return derived("observation", call.bytes, surface, sha256)

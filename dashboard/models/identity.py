"""Ids that are derived from what they identify, so that a second import meets its own rows."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from uuid import UUID, SafeUUID


def derive_id(*parts: str | int | bytes, beside: UUID | None = None) -> UUID:
    """128 bits over the parts; each is length-prefixed, so no two lists of parts collide by joining.

    With `beside` the id begins with the first 32 bits of that one, and has 96 over the parts, which contain it: the
    rows of a run that are written together are then near each other in every index, instead of on a page each.
    """
    framed: list[bytes] = []
    for part in parts:
        text = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        framed += b"%d:" % len(text), text
    digest = int.from_bytes(blake2b(b"".join(framed), digest_size=16).digest(), "big")
    return _uuid(digest if beside is None else beside.int >> 96 << 96 | digest >> 32)


def _uuid(number: int) -> UUID:
    """`UUID(int=number)` without its checks, which take twice as long: each call that is written has ten ids."""
    uuid = object.__new__(UUID)
    object.__setattr__(uuid, "int", number)
    object.__setattr__(uuid, "is_safe", SafeUUID.unknown)
    return uuid


@lru_cache(maxsize=1_024)  # each record of a run asks for it
def run_id(project: int, namespace: str, run: str) -> UUID:
    return derive_id("run", project, namespace, run)


def call_id(project: int, namespace: str, run: str, call: str, *, joins: bool) -> UUID:
    beside = None if joins else run_id(project, namespace, run)
    return derive_id("call", project, namespace, "" if joins else run, call, beside=beside)


def observation_id(call: UUID, surface: str, sha256: str) -> UUID:
    return derive_id("observation", call.bytes, surface, sha256, beside=call)

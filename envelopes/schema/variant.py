"""A variant: a renderer with a policy, under a name that can be recorded.

A family's own renderers become variants `<family>/<name>`, `<family>/receipt` first; the variants that serve
every family are in `envelopes.variants` and have a name without a family. A receipt that was sent is
fingerprinted with `hash`, which shows later whether the renderer or its policy changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult

Renderer: TypeAlias = Callable[[CanonicalResult, RenderPolicy], Iterable[Segment]]


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """A renderer with a policy. Raise `version` whenever `render` writes something new for the same envelope.

    `digest` is a hash of what decides the text besides the program: of a template.
    """

    id: str
    version: int
    title: str
    render: Renderer
    policy: RenderPolicy = RenderPolicy()
    digest: str = ""

    @property
    def name(self) -> str:
        """The id without its family, which is what a person types."""
        return self.id.rsplit("/", 1)[-1]

    @property
    def hash(self) -> str:
        """16 hexadecimal digits over id, version, policy and digest, but not over envelope or text."""
        parts = "\n".join((self.id, str(self.version), self.policy.fingerprint, *filter(None, [self.digest])))
        return hashlib.sha256(parts.encode()).hexdigest()[:16]

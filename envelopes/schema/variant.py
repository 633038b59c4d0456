"""A variant: a renderer with a policy, under a name that can be recorded.

A family's own renderers become variants `<family>/<name>`, `<family>/receipt` first; the variants that
serve every family are in `envelopes.variants` and go by their name alone. What was sent is
fingerprinted with `hash`, so that a later rendering can say whether the renderer or its policy changed.
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
    """Raise `version` whenever `render` writes something new for the same envelope.

    `digest` is of what decides that besides the program: the text of a template.
    """

    id: str
    version: int
    title: str
    render: Renderer
    policy: RenderPolicy = RenderPolicy()
    digest: str = ""

    @property
    def name(self) -> str:
        """What a person types: the id without its family."""
        return self.id.rsplit("/", 1)[-1]

    @property
    def hash(self) -> str:
        """16 hexadecimal digits over id, version, policy and digest; envelope and text have hashes of their own."""
        said = "\n".join((self.id, str(self.version), self.policy.fingerprint, *filter(None, [self.digest])))
        return hashlib.sha256(said.encode()).hexdigest()[:16]

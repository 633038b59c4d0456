"""Versions of what derives and renders that differ from today's, for the time of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from dashboard.ingest.store_derived import current_derivation
from envelopes import families, halves, variants
from envelopes.alignment.mapping import Evidence, ToolMapping
from envelopes.families import registry
from envelopes.schema.budget import ProjectionPolicy
from envelopes.text import tokens

NEWER = 100  # added to the versions of mappings


@contextmanager
def changed_versions(**changes: Any) -> Iterator[None]:
    """Replaces members of the modules that are named: `changed_versions(**older_mappings())`."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in changes.items():
                for module in (registry, halves, variants, tokens):
                    if hasattr(module, name):
                        patch.setattr(module, name, value)
            _forget_versions()
            yield
    finally:
        _forget_versions()


def _forget_versions() -> None:
    registry.reload_plugins()
    current_derivation.cache_clear()


def other_mappings() -> dict[str, Any]:
    """Another version of every mapping, which reads no output of a command."""
    owner, fallback = families.FALLBACK
    changed = [
        msgspec.structs.replace(family, mappings=tuple(map(_other_mapping, family.mappings)))
        for family in families.FAMILIES
    ]
    return {"FAMILIES": tuple(changed), "FALLBACK": (owner, _other_mapping(fallback))}


def _other_mapping(mapping: ToolMapping) -> ToolMapping:
    def read(evidence: Evidence) -> Any:
        return mapping.read(msgspec.structs.replace(evidence, result={"stdout": "", "stderr": ""}))

    return msgspec.structs.replace(mapping, version=mapping.version + NEWER, read=read)


def other_policies(policy: ProjectionPolicy | None = None) -> dict[str, Any]:
    """Another policy of every projection, by default one that leaves a result one character."""
    policy = policy or ProjectionPolicy(preview=1)
    return {"FAMILIES": tuple(msgspec.structs.replace(family, projection=policy) for family in families.FAMILIES)}


def other_encoding() -> dict[str, Any]:
    """The count of four characters as a token, which serves where the vocabulary is not installed."""
    return {"_load_vocabulary": lambda: None}


def no_shared_variants() -> dict[str, Any]:
    return {"VARIANTS": ()}

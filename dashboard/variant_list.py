"""The variants that one project can choose from for a family, and those that others are measured by."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.models import Project
from envelopes.families.base import Family
from envelopes.renderings import variants_for
from envelopes.variant import Variant


@dataclass(frozen=True, kw_only=True)
class Offered:
    """`key` is how an address names it."""

    key: str
    variant: Variant
    origin: str  # built in | the package that brings it | template


def offered(project: Project, owner: Family) -> tuple[Offered, ...]:
    """The receipt first."""
    del project
    return tuple(Offered(key=one.name, variant=one, origin="built in") for one in variants_for(owner))


def by_key(found: tuple[Offered, ...], key: str) -> Offered | None:
    return next((one for one in found if key in (one.key, one.variant.id)), None)

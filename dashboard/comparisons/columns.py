"""The columns of a comparison: names of variants, each bound to what its name means in every family.

`receipt` is another renderer in each family, `tail_first` there is only for commands. `recorded` is no
variant: it is the receipt that the source recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dashboard.models import Comparison, ComparisonColumn
from envelopes.families import FAMILIES, family
from envelopes.renderings import Variant, variant, variants_for

RECORDED = "recorded"
MOST_COLUMNS = 8


@dataclass(frozen=True)
class Column:
    """`variants` by the name of the family; empty for what was recorded."""

    ordinal: int
    name: str
    variants: Mapping[str, Variant]

    @property
    def is_recorded(self) -> bool:
        return self.name == RECORDED


class UnusableColumns(ValueError):
    """What was asked for cannot be compared; the sentence says why."""


class ChangedVariant(ValueError):
    """A variant is no longer what it was when the comparison was made."""


def known_names(family_name: str = "") -> list[str]:
    """`recorded`, `receipt`, then the others in the order of the families."""
    owners = [family(family_name)] if family_name else FAMILIES
    names = dict.fromkeys(one.name for owner in owners for one in variants_for(owner))
    return [RECORDED, *names]


def bound_columns(names: Sequence[str], families: Iterable[str]) -> list[Column]:
    """Raises UnusableColumns."""
    if len(names) < 2 or len(names) > MOST_COLUMNS:
        raise UnusableColumns(f"A comparison needs 2 to {MOST_COLUMNS} variants; {len(names)} were named.")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UnusableColumns(f"{', '.join(repeated)} is named twice.")
    owners = sorted(set(families))
    return [Column(ordinal, name, _bound(name, owners)) for ordinal, name in enumerate(names)]


def _bound(name: str, owners: Sequence[str]) -> dict[str, Variant]:
    if name == RECORDED:
        return {}
    found = {owner: one for owner in owners if (one := _variant(owner, name)) is not None}
    if not found:
        known = [RECORDED, *dict.fromkeys(one.name for owner in owners for one in variants_for(family(owner)))]
        raise UnusableColumns(f"There is no variant “{name}” for these calls. There is: {', '.join(known)}.")
    return found


def _variant(owner: str, name: str) -> Variant | None:
    try:
        return variant(family(owner), name)
    except KeyError:
        return None


def column_rows(comparison: Comparison, columns: Iterable[Column]) -> list[ComparisonColumn]:
    """What is kept of the columns, so that it can be said later which versions were compared."""
    rows = []
    for column in columns:
        shared = {"comparison": comparison, "ordinal": column.ordinal, "name": column.name}
        if column.is_recorded:
            rows.append(ComparisonColumn(**shared, variant=RECORDED, version=1, hash="", policy=""))
        for owner, one in column.variants.items():
            frozen = {"variant": one.id, "version": one.version, "hash": one.hash, "policy": one.policy.fingerprint}
            rows.append(ComparisonColumn(**shared, family=owner, **frozen))
    return rows


def frozen_rows(comparison: Comparison) -> list[ComparisonColumn]:
    return list(comparison.columns.order_by("ordinal", "family"))


def todays_columns(rows: Iterable[ComparisonColumn]) -> list[Column]:
    """The columns as they can be rendered today, changed or not; a variant that is gone is left out."""
    bound: dict[int, tuple[str, dict[str, Variant]]] = {}
    for row in rows:
        _, variants = bound.setdefault(row.ordinal, (row.name, {}))
        found = _variant(row.family, row.variant) if row.family else None
        if found is not None:
            variants[row.family] = found
    return [Column(ordinal, name, variants) for ordinal, (name, variants) in sorted(bound.items())]


def frozen_columns(rows: Sequence[ComparisonColumn]) -> list[Column]:
    """Raises ChangedVariant when one of them is another today."""
    columns = todays_columns(rows)
    for row in rows:
        today = columns[row.ordinal].variants.get(row.family)
        if row.family and (today is None or today.hash != row.hash):
            now = "is gone" if today is None else f"is version {today.version} ({today.hash}) now"
            raise ChangedVariant(f"{row.variant} was version {row.version} ({row.hash}) and {now}.")
    return columns

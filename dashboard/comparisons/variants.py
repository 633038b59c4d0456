"""The columns of a comparison: names of variants, each bound to what its name means in every family.

`receipt` is another renderer in each family, `tail_first` there is only for commands. `recorded` is no
variant: it is the receipt that the source recorded. `terse` is a template of the project in its latest
version, `terse@2` in that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dashboard.models import Comparison, ComparisonColumn, Project
from dashboard.variants.templates import is_template, kept_version
from dashboard.variants.variant_list import Offered, by_key, current_variant, offered_by_family
from envelopes.variants import Variant

RECORDED = "recorded"
MOST_COLUMNS = 8
NAME_CHARACTERS = 64

Offers = Mapping[str, tuple[Offered, ...]]


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


def known_names(offers: Offers) -> list[str]:
    """`recorded`, `receipt`, then the others in the order of the families."""
    return [RECORDED, *dict.fromkeys(one.key for some in offers.values() for one in some)]


def bound_columns(project: Project, names: Sequence[str], families: Iterable[str]) -> list[Column]:
    """Raises UnusableColumns."""
    if len(names) < 2 or len(names) > MOST_COLUMNS:
        raise UnusableColumns(f"A comparison needs 2 to {MOST_COLUMNS} variants; {len(names)} were named.")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UnusableColumns(f"{', '.join(repeated)} is named twice.")
    offers = offered_by_family(project, also=names)
    mine = {owner: offers[owner] for owner in sorted(set(families)) if owner in offers}
    return [Column(ordinal, name, _bound(name, mine)) for ordinal, name in enumerate(names)]


def _bound(name: str, offers: Offers) -> dict[str, Variant]:
    if name == RECORDED:
        return {}
    found = {owner: one.variant for owner, some in offers.items() if (one := by_key(some, name)) is not None}
    if not found or len(name) > NAME_CHARACTERS:
        known = ", ".join(known_names(offers))
        raise UnusableColumns(f"There is no variant “{name[:NAME_CHARACTERS]}” for these calls. There is: {known}.")
    return found


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
    """The columns as they can be rendered today, changed or not; a variant that is gone is left out.

    A template's version is kept for good, so its column writes what it wrote, whatever is saved later.
    """
    bound: dict[int, tuple[str, dict[str, Variant]]] = {}
    for row in rows:
        _, variants = bound.setdefault(row.ordinal, (row.name, {}))
        found = _as_frozen(row)
        if found is not None:
            variants[row.family] = found
    return [Column(ordinal, name, variants) for ordinal, (name, variants) in sorted(bound.items())]


def _as_frozen(row: ComparisonColumn) -> Variant | None:
    if is_template(row.variant):
        return kept_version(row.comparison.project_id, row.variant, row.version)
    return current_variant(row.comparison.project_id, row.family, row.variant)


def frozen_columns(rows: Sequence[ComparisonColumn]) -> list[Column]:
    """Raises ChangedVariant when one of them is another today."""
    columns = todays_columns(rows)
    for row in rows:
        today = columns[row.ordinal].variants.get(row.family)
        if row.family and (today is None or today.hash != row.hash):
            now = "is gone" if today is None else f"is version {today.version} ({today.hash}) now"
            raise ChangedVariant(f"{row.variant} was version {row.version} ({row.hash}) and {now}.")
    return columns

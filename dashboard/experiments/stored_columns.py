"""The columns of a comparison: the versions of variants when it started, and how they are rendered today.

    column_rows(comparison, columns)   rows that name the versions
    load_columns(rows)                 the columns as they can be rendered today, changed or not
    load_specification(comparison)     the same as bytes, for a process without a database
    bind_unchanged(specification)      the columns of these bytes; raises ChangedVariant

A specification contains the text of each template; every other variant is found by its id where it is rendered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dashboard.models import Comparison, TemplateVariant
from dashboard.models.comparisons import ComparisonColumn
from dashboard.variants.variant_list import (
    RECORDED,
    VariantColumn,
    as_variant,
    find_installed,
    is_template,
    within_budget,
)
from envelopes.schema.receipt import Variant

TEMPLATE_FIELDS = ("family", "name", "version", "title", "source", "characters", "head_share", "cut_at")


class ChangedVariant(ValueError):
    """A variant is no longer what it was when the comparison was made."""


class ColumnSpecification(msgspec.Struct, frozen=True, array_like=True):
    """A row of a comparison's columns with its budget in tokens, and the fields of the template that it names."""

    ordinal: int
    name: str
    family: str
    variant: str
    version: int
    hash: str
    budget: int | None
    template: dict[str, Any] | None

    def bind(self) -> Variant | None:
        """The variant as it is rendered today; None where it is gone, and for what was recorded."""
        if is_template(self.variant):
            variant = None if self.template is None else as_variant(TemplateVariant(**self.template))
        else:
            variant = find_installed(self.family, self.variant)
        return None if variant is None else within_budget(variant, self.budget)


_specifications = msgspec.msgpack.Decoder(tuple[ColumnSpecification, ...])


def column_rows(comparison: Comparison, columns: Iterable[VariantColumn]) -> list[ComparisonColumn]:
    """Unsaved rows that name the compared versions: one for each column and family that it serves."""
    rows = []
    for column in columns:
        shared = {"comparison": comparison, "ordinal": column.ordinal, "name": column.name}
        if column.is_recorded:
            rows.append(ComparisonColumn(**shared, variant=RECORDED, version=1, hash="", policy=""))
        for owner, variant in column.variants.items():
            variant = within_budget(variant, comparison.budget)
            version = {"variant": variant.id, "version": variant.version, "hash": variant.hash}
            rows.append(ComparisonColumn(**shared, family=owner, policy=variant.policy.fingerprint, **version))
    return rows


def load_column_rows(comparison: Comparison) -> list[ComparisonColumn]:
    return list(comparison.columns.order_by("ordinal", "family"))


def load_columns(rows: Iterable[ComparisonColumn]) -> list[VariantColumn]:
    """The columns as they can be rendered today, changed or not; variants that are gone are left out.

    Template versions are kept for good, so a column of a template writes the same text whatever is saved later.
    """
    return _bind([_specify(row) for row in rows])


def load_specification(comparison: Comparison) -> bytes:
    """The columns of a comparison, for `bind_unchanged`."""
    return msgspec.msgpack.encode([_specify(row) for row in load_column_rows(comparison)])


def bind_unchanged(specification: bytes) -> tuple[VariantColumn, ...]:
    """Asks no database. Raises ChangedVariant when a variant is gone or has another hash today."""
    rows = _specifications.decode(specification)
    for row in rows:
        today = row.bind() if row.family else None
        if row.family and (today is None or today.hash != row.hash):
            now = "is gone" if today is None else f"is version {today.version} ({today.hash}) now"
            raise ChangedVariant(f"{row.variant} was version {row.version} ({row.hash}) and {now}.")
    return tuple(_bind(rows))


def _specify(row: ComparisonColumn) -> ColumnSpecification:
    template = None
    if is_template(row.variant):
        versions = TemplateVariant.objects.with_id(row.comparison.project_id, row.variant)
        template = versions.filter(version=row.version).values(*TEMPLATE_FIELDS).first()
    return ColumnSpecification(
        ordinal=row.ordinal,
        name=row.name,
        family=row.family,
        variant=row.variant,
        version=row.version,
        hash=row.hash,
        budget=row.comparison.budget,
        template=template,
    )


def _bind(rows: Sequence[ColumnSpecification]) -> list[VariantColumn]:
    names = {row.ordinal: row.name for row in rows}
    variants: dict[int, dict[str, Variant]] = {ordinal: {} for ordinal in names}
    for row in rows:
        variant = row.bind()
        if variant is not None:
            variants[row.ordinal][row.family] = variant
    return [VariantColumn(ordinal, names[ordinal], variants[ordinal]) for ordinal in sorted(names)]

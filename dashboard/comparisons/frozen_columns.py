"""The columns of a comparison as they were stored at its start, and as they can be rendered today."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dashboard.models import Comparison, ComparisonColumn
from dashboard.variants.templates import is_template, load_version
from dashboard.variants.variant_list import RECORDED, VariantColumn, load_current_variant
from envelopes.schema.variant import Variant


class ChangedVariant(ValueError):
    """A variant is no longer what it was when the comparison was made."""


def column_rows(comparison: Comparison, columns: Iterable[VariantColumn]) -> list[ComparisonColumn]:
    """Unsaved rows that name the compared versions: one for each column and family that it serves."""
    rows = []
    for column in columns:
        shared = {"comparison": comparison, "ordinal": column.ordinal, "name": column.name}
        if column.is_recorded:
            rows.append(ComparisonColumn(**shared, variant=RECORDED, version=1, hash="", policy=""))
        for owner, variant in column.variants.items():
            version = {"variant": variant.id, "version": variant.version, "hash": variant.hash}
            rows.append(ComparisonColumn(**shared, family=owner, policy=variant.policy.fingerprint, **version))
    return rows


def load_column_rows(comparison: Comparison) -> list[ComparisonColumn]:
    return list(comparison.columns.order_by("ordinal", "family"))


def load_columns(rows: Iterable[ComparisonColumn]) -> list[VariantColumn]:
    """The columns as they can be rendered today, changed or not; variants that are gone are left out.

    Template versions are kept for good, so a column of a template writes the same text whatever is saved later.
    """
    names: dict[int, str] = {}
    variants: dict[int, dict[str, Variant]] = {}
    for row in rows:
        names[row.ordinal] = row.name
        bound = variants.setdefault(row.ordinal, {})
        project_id = row.comparison.project_id
        if is_template(row.variant):
            variant = load_version(project_id, row.variant, row.version)
        else:
            variant = load_current_variant(project_id, row.family, row.variant)
        if variant is not None:
            bound[row.family] = variant
    return [VariantColumn(ordinal, names[ordinal], variants[ordinal]) for ordinal in sorted(names)]


def load_unchanged_columns(rows: Sequence[ComparisonColumn]) -> list[VariantColumn]:
    """Raises ChangedVariant when a variant is gone or has another hash today."""
    columns = load_columns(rows)
    for row in rows:
        today = columns[row.ordinal].variants.get(row.family)
        if row.family and (today is None or today.hash != row.hash):
            now = "is gone" if today is None else f"is version {today.version} ({today.hash}) now"
            raise ChangedVariant(f"{row.variant} was version {row.version} ({row.hash}) and {now}.")
    return columns

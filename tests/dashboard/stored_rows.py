"""Every row of a store as text, to compare two imports of the same recordings."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from django.db import models

from dashboard.models import (
    Artifact,
    Call,
    CanonicalProjection,
    Event,
    Message,
    Observation,
    ReceiptSupersession,
    RecordedReceipt,
    RequestUsage,
    Run,
    RunCall,
    RunFacet,
    load_slices,
)

SKIPPED = {"id", "revision", "evidence_version", "search_id", "created_at", "sort_at", "source", "observation"}
MODELS = (
    *(Run, Call, RunCall, Observation, RecordedReceipt, ReceiptSupersession, CanonicalProjection),
    *(Message, Event, RequestUsage, Artifact),
)


def stored_rows() -> dict[str, list[str]]:
    """Every row in all columns but the database's own numbers, which name no row of another import."""
    rows: dict[str, list[str]] = {}
    for model in MODELS:
        named = [name for name in ("source", "observation") if name in {field.name for field in model._meta.fields}]
        instances = list(model._default_manager.select_related(*named)) if named else list(model._default_manager.all())
        if model in (Observation, Message, Event, RequestUsage):
            load_slices(instances)
        rows[model.__name__] = sorted(json.dumps(columns_of(row)) for row in instances)
    rows["RunFacet"] = sorted(map(str, RunFacet.objects.values_list("run", "kind", "value", "count")))
    return rows


def columns_of(row: models.Model) -> dict[str, str]:
    columns = {field.name: getattr(row, field.attname) for field in row._meta.concrete_fields}
    values = {name: str(value) for name, value in columns.items() if name not in SKIPPED}
    if not isinstance(row, RunCall):
        values["id"] = str(row.pk)
    if columns.get("source"):
        values["source"] = Path(row.source.path).name  # type: ignore[attr-defined]
    if columns.get("observation"):
        values["observation"] = row.observation.sha256  # type: ignore[attr-defined]
    if isinstance(row, Observation | Message | Event | RequestUsage):
        values["data"] = hashlib.sha256(row.data).hexdigest()
    return values

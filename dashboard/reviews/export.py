"""Verdicts as JSON lines: with everything needed to repeat them, and as preference pairs.

The texts are written anew. `is_as_judged` says whether both are still those that were judged; a
preference pair is only written of texts that are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dashboard.comparisons.frozen_columns import load_column_rows, load_columns
from dashboard.comparisons.pair import written
from dashboard.evidence.call_evidence import Surfaces, surfaces_of
from dashboard.models import Call, Comparison, ComparisonColumn, Verdict
from dashboard.variants.fingerprints import text_sha256
from dashboard.variants.render_call import family_name
from dashboard.variants.variant_list import VariantColumn
from envelopes.text.untrusted_json import parse_json


def verdict_lines(comparison: Comparison) -> Iterator[str]:
    for verdict, surfaces, texts in _verdicts(comparison):
        yield _line(_verdict_facts(comparison, verdict, surfaces, texts))


def preference_lines(comparison: Comparison) -> Iterator[str]:
    """Of decided verdicts: the call as the prompt, the text that was preferred and the other one."""
    for verdict, surfaces, texts in _verdicts(comparison):
        if verdict.choice not in ("baseline", "variant") or not _is_as_judged(verdict, texts):
            continue
        chosen, rejected = texts[::-1] if verdict.choice == "variant" else texts
        columns = _columns(comparison, verdict, surfaces)
        names = columns[::-1] if verdict.choice == "variant" else columns
        yield _line(
            {
                "prompt": {
                    "tool": surfaces.call.tool,
                    "arguments": parse_json(surfaces.args),
                    "result": parse_json(surfaces.canonical),
                },
                "chosen": chosen,
                "rejected": rejected,
                "chosen_by": names[0],
                "rejected_by": names[1],
                "call": str(verdict.call),
                "reviewer": verdict.reviewer.get_username(),
            }
        )


_Texts = tuple[str, str]


def _verdicts(comparison: Comparison) -> Iterator[tuple[Verdict, Surfaces, _Texts]]:
    """In the order in which they were given; verdicts on calls that are gone have no texts and are left out."""
    columns = load_columns(load_column_rows(comparison))
    found = Verdict.objects.filter(review__comparison=comparison).select_related("review", "reviewer")
    for verdict in found.order_by("at", "pk").iterator(chunk_size=200):
        call = Call.objects.select_related("run").filter(pk=verdict.call, project=comparison.project_id).first()
        if call is not None:
            surfaces = surfaces_of(call, {})
            yield verdict, surfaces, _texts(surfaces, columns, verdict.review.ordinal)


def _texts(surfaces: Surfaces, columns: list[VariantColumn], ordinal: int) -> _Texts:
    return written(surfaces, columns[0], None).text, written(surfaces, columns[ordinal], None).text


def _is_as_judged(verdict: Verdict, texts: _Texts) -> bool:
    return (text_sha256(texts[0]), text_sha256(texts[1])) == (verdict.baseline_sha256, verdict.variant_sha256)


def _columns(comparison: Comparison, verdict: Verdict, surfaces: Surfaces) -> list[dict[str, Any]]:
    """The baseline and the variant, each as it was frozen for this call's family."""
    owner = family_name(surfaces)
    rows = [row for row in load_column_rows(comparison) if row.family in ("", owner)]
    by_ordinal = {row.ordinal: row for row in rows}
    return [_column_facts(by_ordinal.get(ordinal)) for ordinal in (0, verdict.review.ordinal)]


def _column_facts(row: ComparisonColumn | None) -> dict[str, Any]:
    if row is None:
        return {}
    return {"column": row.name, "id": row.variant, "version": row.version, "hash": row.hash, "policy": row.policy}


def _verdict_facts(comparison: Comparison, verdict: Verdict, surfaces: Surfaces, texts: _Texts) -> dict[str, Any]:
    call = surfaces.call
    baseline, variant = _columns(comparison, verdict, surfaces)
    return {
        "comparison": str(comparison.pk),
        "query": comparison.query,
        "family": comparison.family,
        "sample": comparison.sample,
        "seed": comparison.seed,
        "call": str(call.pk),
        "external_call": call.external_id,
        "run": str(call.run_id),
        "tool": call.tool,
        "canonical_sha256": text_sha256(surfaces.canonical.decode()),
        "baseline": baseline | {"text": texts[0], "sha256": verdict.baseline_sha256},
        "variant": variant | {"text": texts[1], "sha256": verdict.variant_sha256},
        "is_as_judged": _is_as_judged(verdict, texts),
        "choice": verdict.choice,
        "first": verdict.first,
        "note": verdict.note,
        "reviewer": verdict.reviewer.get_username(),
        "at": verdict.at.isoformat(),
    }


def _line(facts: dict[str, Any]) -> str:
    return json.dumps(facts) + "\n"

"""Evidence is written first; what follows from it is derived afterwards, and can be derived again at any time."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.ingest import derivation
from dashboard.ingest.derivation import compute_calls, current_derivation, derive_next_waiting, store_derived
from dashboard.ingest.importer import import_paths
from dashboard.ingest.write import delete_run
from dashboard.models import Call, CanonicalProjection, Project, RecordedReceipt, Run, RunFacet
from envelopes.alignment.mapping import Evidence, ToolMapping
from envelopes.families import FAMILIES, registry
from tests.dashboard.page_text import parse_page
from tests.dashboard.sessions import SESSION, answers, asks, write

pytestmark = pytest.mark.django_db
IGNORED = {"id", "revision", "created_at", "evidence_version", "source_id"}


@pytest.fixture
def session(tmp_path: Path) -> Path:
    lines = [asks("toolu_1"), answers("toolu_1", "a\nb", {"stdout": "a\nb", "stderr": ""}), asks("toolu_2")]
    return write(tmp_path / f"{SESSION}.jsonl", lines)


def derived_rows() -> dict[str, list[dict[str, Any]]]:
    models = (Call, CanonicalProjection, RecordedReceipt, RunFacet, Run)
    return {
        model.__name__: sorted(
            ({name: value for name, value in row.items() if name not in IGNORED} for row in model.objects.values()),
            key=repr,
        )
        for model in models
    }


def set_back(derivation: str = "") -> None:
    """The store as a process leaves it that was killed after the evidence was acknowledged."""
    CanonicalProjection.objects.all().delete()
    RunFacet.objects.all().delete()
    Call.objects.update(
        derivation=derivation, status="unknown", summary="", tokens=0, output_lines=0, family="external"
    )
    RecordedReceipt.objects.update(characters=0, tokens=0)
    Run.objects.update(unanswered_count=0, token_count=0, strip="", receipt_characters=0)


def rederive(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("rederive", "--json", *arguments, stdout=out)
    return dict(json.loads(out.getvalue()))


@pytest.mark.postgresql
@pytest.mark.parametrize(
    "derive",
    [
        derive_next_waiting,
        lambda: import_paths(Project.objects.get(), []),
        lambda: call_command("work", until_idle=True),
    ],
    ids=["the worker's step", "the next import", "the command"],
)
def test_calls_that_wait_are_derived_as_an_import_does(
    derive: Callable[[], object], project: Project, session: Path
) -> None:
    import_paths(project, [session])
    expected = derived_rows()
    set_back()
    assert derived_rows() != expected
    derive()
    assert derived_rows() == expected
    assert not derive_next_waiting()


def test_a_page_computes_what_waits_and_stores_nothing(
    project: Project, session: Path, operator_client: Client
) -> None:
    import_paths(project, [session])
    call = Call.objects.get(external_id="toolu_1")
    page = parse_page(operator_client.get(f"/calls/{call.pk}/")).text
    set_back()
    before = derived_rows()
    assert parse_page(operator_client.get(f"/calls/{call.pk}/")).text == page
    assert "2 calls are being counted." in parse_page(operator_client.get("/runs/?q=")).text
    assert "2 being counted" in parse_page(operator_client.get(f"/runs/{call.run_id}/")).text
    assert derived_rows() == before


@pytest.mark.postgresql
def test_what_was_computed_of_older_evidence_is_not_stored(project: Project, session: Path) -> None:
    import_paths(project, [session])
    older = compute_calls(list(Call.objects.values_list("pk", flat=True)))
    with session.open("ab") as file:
        file.write(json.dumps(answers("toolu_2", "late")).encode() + b"\n")
    import_paths(project, [session])
    expected = derived_rows()
    assert store_derived(project, older) == 1  # of the call that did not change
    assert derived_rows() == expected


@pytest.mark.postgresql
def test_rederive_gives_what_a_new_import_gives(project: Project, session: Path) -> None:
    import_paths(project, [session])
    expected = derived_rows()
    assert rederive() == {"calls": 0, "changed": 0, "dry_run": False}
    set_back("an older version")
    assert rederive("--dry-run") == {"calls": 2, "changed": 2, "dry_run": True}
    assert rederive("--project", "another")["calls"] == 0
    assert derived_rows() != expected
    assert rederive() == {"calls": 2, "changed": 2, "dry_run": False}
    assert derived_rows() == expected
    assert rederive("--run", str(Run.objects.get().pk)) == {"calls": 2, "changed": 0, "dry_run": False}
    with pytest.raises(CommandError, match="There is no run"):
        call_command("rederive", "--run", "x")


def read_as_before(patch: pytest.MonkeyPatch) -> None:
    """Another version of every mapping, which reads no output of a command."""

    def older(mapping: ToolMapping) -> ToolMapping:
        def read(evidence: Evidence) -> Any:
            return mapping.read(msgspec.structs.replace(evidence, result={"stdout": "", "stderr": ""}))

        return msgspec.structs.replace(mapping, version=mapping.version + 100, read=read)

    families = [msgspec.structs.replace(other, mappings=tuple(map(older, other.mappings))) for other in FAMILIES]
    patch.setattr(registry, "FAMILIES", tuple(families))


@pytest.mark.parametrize(
    ("product", "columns"),
    [
        (read_as_before, {}),
        ("ENCODING", {"tokens": 99}),
        ("CUT_VERSION", {"seen_lines": 0, "is_cut": True}),
        ("COUNTS_VERSION", {"summary": "in other words", "receipt_lines": 7}),
    ],
    ids=["mapping", "tokens", "cuts", "counts"],
)
def test_rederive_after_a_change_of_one_product_gives_what_a_new_import_gives(
    product: str | Callable[[pytest.MonkeyPatch], None], columns: dict[str, Any], project: Project, session: Path
) -> None:
    try:
        with pytest.MonkeyPatch.context() as patch:
            if isinstance(product, str):
                patch.setattr(derivation, product, "older")
            else:
                product(patch)
            forget_versions()
            import_paths(project, [session])
            Call.objects.update(**columns)
            older = set(Call.objects.values_list("derivation", flat=True))
    finally:
        forget_versions()
    stored = derived_rows()
    assert rederive()["changed"] == 2
    again = derived_rows()
    delete_run(Run.objects.get())
    import_paths(project, [session])
    assert derived_rows() == again != stored
    (before,), (after,) = older, set(Call.objects.values_list("derivation", flat=True))
    assert sum(was != now for was, now in zip(before.split("."), after.split("."), strict=True)) == 1


def forget_versions() -> None:
    registry.reload_plugins()
    current_derivation.cache_clear()


@pytest.mark.postgresql
def test_each_product_names_the_version_that_derived_it(project: Project, session: Path) -> None:
    import_paths(project, [session])
    envelopes, tokens, cuts, counts = current_derivation().split(".")
    assert set(Call.objects.values_list("derivation", flat=True)) == {f"{envelopes}.{tokens}.{cuts}.{counts}"}

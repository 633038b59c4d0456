"""Evidence is written first; what follows from it is derived afterwards, and can be derived again at any time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from dashboard.ingest import compute_derived
from dashboard.ingest.delete_runs import delete_run
from dashboard.ingest.importer import import_paths
from dashboard.ingest.store_derived import (
    LONGEST_REST,
    LONGEST_WAIT,
    Pace,
    compute_calls,
    current_derivation,
    derive_next_waiting,
    derive_waiting,
    store_derived,
)
from dashboard.models import (
    Call,
    CanonicalProjection,
    Observation,
    Project,
    ReceiptFingerprint,
    RecordedReceipt,
    Run,
    RunFacet,
    Source,
)
from envelopes.families import FALLBACK
from envelopes.families.registry import EXECUTOR_VERSION
from tests.dashboard.factories import create_project, create_run, create_source
from tests.dashboard.older_versions import (
    changed_versions,
    no_shared_variants,
    other_encoding,
    other_mappings,
    other_policies,
)
from tests.dashboard.page_text import parse_page
from tests.dashboard.recorded_calls import receipt_record
from tests.dashboard.sessions import FORK, SESSION, answers, asks, write

pytestmark = pytest.mark.django_db
# The time at which a file was written, and its hashes.
_NOT_OF_THE_CALL = re.compile(r"<time.*?</time>|\b[0-9a-f]{64}\b")
IGNORED = {"id", "revision", "created_at", "evidence_version", "search_id", "source_id"}


@pytest.fixture
def session(tmp_path: Path) -> Path:
    lines = [asks("toolu_1"), answers("toolu_1", "a\nb", {"stdout": "a\nb", "stderr": ""}), asks("toolu_2")]
    return write(tmp_path / f"{SESSION}.jsonl", lines)


def derived_rows() -> dict[str, list[dict[str, Any]]]:
    models = (Call, CanonicalProjection, ReceiptFingerprint, RecordedReceipt, RunFacet, Run)
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
    document = dict(json.loads(out.getvalue()))
    assert document.pop("read")["sources"] == 0  # no reader is older, see test_rereading
    return document


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


@pytest.mark.postgresql
def test_the_background_work_rests_while_programs_send_until_calls_have_waited_too_long(
    project: Project, session: Path
) -> None:
    import_paths(project, [session])
    expected, rests, waiting = derived_rows(), list[float](), Call.objects.latest("line")
    set_back()
    pace = Pace(sleep=rests.append)
    pace.rest(oldest=waiting.pk)
    assert (pace.is_slow, rests) == (False, [])
    create_source(project, "a batch")
    pace.rest(oldest=waiting.pk)
    assert (pace.is_slow, len(rests)) == (True, 1)
    assert 0 < rests[0] <= LONGEST_REST
    assert derive_waiting(project, calls_at_once=1, pace=pace) == 2
    assert derived_rows() == expected
    Source.objects.update(created_at=timezone.now() - 2 * LONGEST_WAIT)
    create_source(project, "a later batch")
    pace.rest(oldest=waiting.pk)
    assert (pace.is_slow, len(rests)) == (False, 1)


@pytest.mark.postgresql
def test_a_call_with_damaged_evidence_keeps_no_other_from_being_derived(
    project: Project, session: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import_paths(project, [session])
    import_paths(create_project("other"), [session])
    set_back()
    damaged = Call.objects.get(project=project, external_id="toolu_1")
    Observation.objects.filter(call=damaged, own_data=None).update(start=10**9)
    while derive_next_waiting():
        pass
    assert list(Call.objects.waiting()) == [damaged]
    assert caplog.text.count(f"call {damaged.pk} cannot be derived: the recorded bytes") == 1


def test_a_page_computes_what_waits_and_stores_nothing(
    project: Project, session: Path, operator_client: Client
) -> None:
    import_paths(project, [session])
    call = Call.objects.get(external_id="toolu_1")
    page = parse_page(operator_client.get(f"/calls/{call.pk}/")).by_id("step").text
    set_back()
    before = derived_rows()
    assert parse_page(operator_client.get(f"/calls/{call.pk}/")).by_id("step").text == page
    assert "2 calls are being counted." in parse_page(operator_client.get("/runs/?q=")).text
    assert "2 being counted" in parse_page(operator_client.get(f"/runs/{call.run_id}/")).text
    assert derived_rows() == before


def test_what_leaves_the_store_claims_of_a_call_that_waits_what_an_import_would_store(
    project: Project, session: Path, operator_client: Client, tmp_path: Path
) -> None:
    """Exports and shared files are kept: nobody looks at the store again to learn what was counted later."""
    import_paths(project, [session])
    call = Call.objects.get(external_id="toolu_1")

    def written() -> list[str]:
        for columns in ("", "call_id,outcome,summary,tokens"):
            call_command(
                "calls",
                jsonl=str(tmp_path / f"{len(columns)}.jsonl"),
                columns=columns,
                project=project.slug,
                stderr=errors,
            )
        pages = (f"/calls/{call.pk}/issue/", f"/calls/{call.pk}/share/", f"/runs/{call.run_id}/share/")
        texts = [operator_client.get(pages[0]), *(operator_client.post(page) for page in pages[1:])]
        shared = [_NOT_OF_THE_CALL.sub("", response.getvalue().decode()) for response in texts]
        return [*(path.read_text() for path in sorted(tmp_path.glob("*.jsonl")) if path != session), *shared]

    errors = StringIO()
    expected = written()
    assert errors.getvalue() == ""
    set_back()
    Call.objects.update(outcome="unanswered")
    before = derived_rows()
    assert written() == expected
    assert derived_rows() == before
    assert errors.getvalue() == "2 calls are being counted: until then filters and sorts may miss them.\n" * 2
    note = "2 calls are being counted: until then filters and sorts may miss them."
    assert note in operator_client.get(f"/runs/{call.run_id}/issue/").content.decode()
    rows = parse_page(operator_client.get(f"/runs/{call.run_id}/"))
    assert rows.texts(".call-row .row-status") == ["not counted yet"] * 2
    other = create_run(project)
    compared = parse_page(operator_client.get(f"/runs/{other.pk}/against/{call.run_id}/"))
    assert "2 calls are being counted" in compared.text
    assert compared.select_one(".against-table tbody").text.count("not counted yet") == 2


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


PRODUCTS = ("envelopes", "tokens", "cuts", "counts", "renderers")


def send_receipt(folder: Path) -> Path:
    """The receipt of a call, as a runtime of ours records it; its envelope is the stored one."""
    call = {"runId": "r", "callId": "c1", "tool": "Lookup", "args": {}, "createdAt": "2026-03-01T09:00:00.000Z"}
    write(folder / "calls.jsonl", [call])
    write(folder / "results.jsonl", [{**call, "status": "ok", "data": {"stdout_preview": "hello"}}])
    import_paths(Project.objects.get(), [folder])
    record = receipt_record(Call.objects.get(tool="Lookup"), "markdown")
    return write(folder / "receipts.jsonl", [record]).parent


@pytest.mark.postgresql("projection policy")
@pytest.mark.parametrize(
    ("change", "constant", "columns", "changed"),
    [
        pytest.param(other_mappings, "", {}, {"envelopes"}, marks=pytest.mark.extended),
        (other_policies, "", {}, {"envelopes"}),
        # Budgets of the previews of commands are counted in it, too.
        pytest.param(other_encoding, "", {}, {"envelopes", "tokens"}, marks=pytest.mark.extended),
        pytest.param(no_shared_variants, "", {}, {"renderers"}, marks=pytest.mark.extended),
        (dict, "CUT_VERSION", {"seen_lines": 0, "is_cut": True, "author": "hook"}, {"cuts"}),
        pytest.param(
            *(dict, "COUNTS_VERSION", {"summary": "in other words", "receipt_lines": 7}, {"counts"}),
            marks=pytest.mark.extended,
        ),
    ],
    ids=["mapping", "projection policy", "tokens", "receipt renderer", "cuts", "counts"],
)
def test_rederive_after_a_change_of_one_product_gives_what_a_new_import_gives(
    change: Callable[[], dict[str, Any]],
    constant: str,
    columns: dict[str, Any],
    changed: set[str],
    project: Project,
    session: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths = [session, send_receipt(tmp_path / "sent")]
    delete_run(Run.objects.get())
    with changed_versions(**change()), monkeypatch.context() as patch:
        if constant:
            patch.setattr(compute_derived, constant, "older")
        import_paths(project, paths)
        Call.objects.update(**columns)
        older = set(Call.objects.values_list("derivation", flat=True))
    stored = derived_rows()
    assert rederive()["calls"] == 3
    again = derived_rows()
    assert rederive()["calls"] == 0
    for run in Run.objects.all():
        delete_run(run)
    import_paths(project, paths)
    assert derived_rows() == again != stored
    assert len(again["ReceiptFingerprint"]) == 1
    (before,), (after,) = older, set(Call.objects.values_list("derivation", flat=True))
    versions = zip(PRODUCTS, before.split("."), after.split("."), strict=True)
    assert {product for product, was, now in versions if was != now} == changed


def test_each_product_names_the_version_that_derived_it(project: Project, session: Path) -> None:
    import_paths(project, [session])
    assert len(current_derivation().split(".")) == len(PRODUCTS)
    assert set(Call.objects.values_list("derivation", flat=True)) == {current_derivation()}


def test_the_background_work_stores_few_calls_at_once_those_of_a_run_together(tmp_path: Path) -> None:
    """A writer that waits waits for one portion; each portion raises the revision of the runs that it is of."""
    project = create_project()
    for session in (SESSION, FORK):
        lines = [asks(f"toolu_{session[-1]}{number}", session=session) for number in range(6)]
        import_paths(project, [write(tmp_path / f"{session}.jsonl", lines)])
    Call.objects.update(derivation="")
    before = dict(Run.objects.values_list("pk", "revision"))
    assert derive_waiting(project, calls_at_once=3) == 12
    assert not Call.objects.waiting().exists()
    after = dict(Run.objects.values_list("pk", "revision"))
    assert [after[run] - before[run] for run in before] == [2, 2]


def test_calls_that_no_family_maps_are_derived_again_too_when_their_reading_changed() -> None:
    before = current_derivation()
    owner, mapping = FALLBACK
    newer = msgspec.structs.replace(mapping, version=mapping.version + 1)
    changed: list[dict[str, Any]] = [{"FALLBACK": (owner, newer)}, {"EXECUTOR_VERSION": EXECUTOR_VERSION + 1}]
    for changes in changed:
        with changed_versions(**changes):
            assert current_derivation() != before
    assert current_derivation() == before

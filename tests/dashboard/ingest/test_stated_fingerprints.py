"""Receipts that name the variant that wrote them are stored on import, checked and shown on pages."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from dashboard.experiments.drift import check_all
from dashboard.filters.language import parse
from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project, ReceiptFingerprint
from envelopes.families import FALLBACK
from envelopes.schema.budget import ProjectionPolicy
from tests.dashboard.older_versions import NEWER, changed_versions, no_shared_variants, other_mappings, other_policies
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.recorded_calls import load_call, receipt_record

pytestmark = pytest.mark.django_db

DATA = {"exit_status": 0, "stdout_preview": "hello"}


@pytest.fixture
def call(project: Project, tmp_path: Path) -> Call:
    """An executor's call, imported from its audit folder."""
    write(tmp_path / "calls.jsonl", {"runId": "r", "callId": "c1", "tool": "Lookup", "args": {"q": "x"}})
    write(tmp_path / "results.jsonl", {"runId": "r", "callId": "c1", "status": "ok", "data": DATA})
    import_paths(project, [tmp_path])
    return Call.objects.get()


def write(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record) + "\n")


def send(call: Call, folder: Path, **changes: Any) -> None:
    """The receipt as a runtime of ours would record it."""
    record = receipt_record(call, "receipt") | {"fidelity": "exact"}
    record["canonical_sha256"] = f"sha256:{record['canonical_sha256']}"
    write(folder / "receipts.jsonl", record | changes)
    import_paths(call.project, [folder / "receipts.jsonl"])


def load(client: Client, address: str) -> Page:
    return parse_page(client.get(address))


def load_strip(client: Client, call: Call) -> str:
    return load(client, f"/calls/{call.pk}/variants/").text


def test_a_receipt_that_states_its_variant_is_compared_with_todays_text(
    operator_client: Client, call: Call, tmp_path: Path
) -> None:
    send(call, tmp_path)
    assert check_all(call.project).sent == 1
    assert check_all(call.project).drifted == ()
    assert "the text would be the same today" in load_strip(operator_client, call)
    assert not load_call(operator_client, call).has("#drift")


def test_a_list_without_drift_says_what_that_is_worth(operator_client: Client, call: Call, tmp_path: Path) -> None:
    address = "/experiments/drifted/"
    assert "No receipt of this project names the variant that wrote it" in load(operator_client, address).text
    send(call, tmp_path)
    assert "Not checked yet: run manage.py check_receipts." in load(operator_client, address).text
    check_all(call.project)
    assert "The last check found no drift." in load(operator_client, address).text


@pytest.mark.postgresql
def test_the_call_says_that_it_drifted_before_any_check_and_leads_to_what_it_would_say_today(
    operator_client: Client, call: Call, tmp_path: Path
) -> None:
    send(call, tmp_path, text="other words")
    drift = load_call(operator_client, call).by_id("drift")
    assert "The text changed: the same version writes another text" in drift.text
    link = drift.by_role("link", "Today's text", exact=True)
    assert link["href"] == f"/calls/{call.pk}/?right=variant-receipt"
    assert "not seen by the model" in load(operator_client, link["href"]).text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"render_policy": "0" * 16}, "policy"),
        ({"canonical_sha256": "sha256:" + "0" * 64}, "canonical"),
        pytest.param({"text": "other words"}, "text", marks=pytest.mark.extended),
        pytest.param({"renderer": {"id": "external/receipt", "version": 77}}, "variant", marks=pytest.mark.extended),
    ],
)
def test_the_call_and_the_list_say_which_of_the_four_changed(
    operator_client: Client, call: Call, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    send(call, tmp_path, **changes)
    assert [drift.reason for drift in check_all(call.project).drifted] == [reason]
    sentence = {"canonical": "The canonical result changed"}.get(reason, f"The {reason} changed")
    assert sentence in load_strip(operator_client, call)
    drift = load_call(operator_client, call).by_id("drift").text
    version = (receipt_record(call, "receipt") | changes)["renderer"]["version"]
    assert f"Drifted: this receipt was written by external/receipt version {version}" in drift
    assert sentence in drift
    assert load(operator_client, f"/experiments/drifted/?reason={reason}").has(f'a[href="/calls/{call.pk}/#drift"]')
    assert load(operator_client, "/runs/?preset=drifted").has('a[href="/experiments/drifted/"]')


def test_a_drifted_receipt_names_the_mapping_that_changed_and_stays_found(
    operator_client: Client, call: Call, tmp_path: Path
) -> None:
    with changed_versions(**other_mappings()):
        call_command("rederive", stdout=StringIO())
        send(Call.objects.get(), tmp_path)
        assert check_all(call.project).drifted == ()
    call_command("rederive", stdout=StringIO())
    version = FALLBACK[1].version
    sentence = f"mapping of any agent {version + NEWER} → {version}"
    assert [(drift.reason, drift.detail) for drift in check_all(call.project).drifted] == [("canonical", sentence)]
    assert f"The canonical result changed: {sentence}." in load_call(operator_client, call).by_id("drift").text
    call_command("rederive", "--run", str(call.run_id), stdout=StringIO())
    assert list(parse("state:drifted").runs(call.project)) == [call.run]
    assert [drift.detail for drift in check_all(call.project).drifted] == [sentence]


@pytest.mark.parametrize(
    "changes",
    [
        {"renderer": {"id": "work.receipt", "version": "1"}},
        {"renderer": {"id": "external/receipt", "version": "one"}},
        {"render_policy": None},
        {"canonical_sha256": "abc"},
        {"renderer": "external/receipt"},
    ],
)
def test_a_receipt_that_does_not_say_or_is_somebody_elses_has_no_fingerprint(
    call: Call, tmp_path: Path, changes: dict[str, Any]
) -> None:
    send(call, tmp_path, **changes)
    assert call.receipts.count() == 1
    assert not ReceiptFingerprint.objects.exists()


@pytest.mark.postgresql
def test_a_fingerprint_is_there_while_its_variant_is(call: Call, tmp_path: Path) -> None:
    send(call, tmp_path, renderer={"id": "markdown", "version": "1"})
    policy = ReceiptFingerprint.objects.get().projected_by.partition(" ")[2]
    with changed_versions(**other_policies(ProjectionPolicy(rows=7))):  # which this envelope does not reach
        call_command("rederive", stdout=StringIO())
        assert ReceiptFingerprint.objects.get().projected_by.partition(" ")[2] not in ("", policy)
    with changed_versions(**no_shared_variants()):
        call_command("rederive", stdout=StringIO())
        assert not ReceiptFingerprint.objects.exists()
    call_command("rederive", stdout=StringIO())
    assert ReceiptFingerprint.objects.get().variant == "markdown"


@pytest.mark.postgresql
def test_importing_again_keeps_one_fingerprint_and_another_projects_list_is_empty(
    operator_client: Client, call: Call, tmp_path: Path
) -> None:
    send(call, tmp_path, text="other")
    send(call, tmp_path, text="other")
    assert ReceiptFingerprint.objects.count() == 1
    page = load(operator_client, "/experiments/drifted/?from=x")
    assert "1 receipt of this project names the variant that wrote it." in page.text
    assert "Not checked yet" in page.text

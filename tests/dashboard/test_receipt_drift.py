"""Drift of receipts that this system sent, and of pinned comparisons: each of the four reasons, and the exit status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from django.core.management import call_command
from django.test import Client

from dashboard.calls.surfaces import surfaces_of
from dashboard.calls.variants import rendered
from dashboard.comparisons import comparing
from dashboard.models import Call, CanonicalProjection, Project, Receipt, ReceiptFingerprint, Run
from dashboard.query import parse
from dashboard.renderers.receipt_drift import check, remember_sent
from envelopes import renderings
from envelopes.budget import RenderPolicy
from envelopes.receipt import Segment
from tests.dashboard.comparisons import compared, import_commands

pytestmark = pytest.mark.django_db


@pytest.fixture
def calls(project: Project, tmp_path: Path) -> list[Call]:
    return import_commands(project, tmp_path, ["one", "two"])


@pytest.fixture
def sent(calls: list[Call]) -> ReceiptFingerprint:
    surfaces = surfaces_of(calls[0], {})
    found = rendered(surfaces, "markdown")
    receipt = Receipt.objects.get(call=calls[0])
    return remember_sent(receipt, found.variant, surfaces.canonical, found.receipt.text)


def change_markdown(monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    changed = tuple(
        msgspec.structs.replace(one, **changes) if one.name == "markdown" else one for one in renderings.VARIANTS
    )
    monkeypatch.setattr(renderings, "VARIANTS", changed)


def other_words(*_: object) -> Iterator[Segment]:
    yield Segment("other words", "label")


def reasons() -> list[tuple[str, str]]:
    return [(one.variant, one.reason) for one in check().drifted]


def exit_status(*arguments: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("check_receipts", *arguments, stdout=out)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue()
    return 0, out.getvalue()


def test_what_was_sent_and_would_be_sent_again_has_not_drifted(sent: ReceiptFingerprint) -> None:
    assert exit_status() == (0, "0 of 1 sent receipts and 0 pinned texts drifted.\n")
    sent.refresh_from_db()
    assert (sent.drift, sent.checked_at is not None) == ("", True)


def test_a_newer_version_is_drift_of_the_variant(sent: ReceiptFingerprint, monkeypatch: pytest.MonkeyPatch) -> None:
    change_markdown(monkeypatch, version=2)
    status, said = exit_status("--json")
    assert status == 1
    (found,) = json.loads(said)["drifted"]
    assert (found["reason"], found["detail"]) == ("variant", "version 1 is version 2 now")
    sent.refresh_from_db()
    assert sent.drift == "variant"


def test_the_preset_lists_the_runs_of_drifted_receipts_until_they_are_mended(
    sent: ReceiptFingerprint, operator_client: Client
) -> None:
    link = f'href="/runs/{Run.objects.get().pk}/'
    ReceiptFingerprint.objects.update(policy="another")
    check()
    assert link in operator_client.get("/runs/?preset=drifted").content.decode()
    assert [call.pk for call in parse("state:drifted", over="calls").calls(Run.objects.get())] == [sent.receipt.call_id]
    ReceiptFingerprint.objects.update(policy=RenderPolicy().fingerprint)
    check()
    assert link not in operator_client.get("/runs/?preset=drifted").content.decode()


def test_a_variant_that_is_gone_is_drift(sent: ReceiptFingerprint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderings, "VARIANTS", ())
    assert reasons() == [("markdown", "variant")]


def test_another_policy_is_drift_of_the_policy(sent: ReceiptFingerprint) -> None:
    ReceiptFingerprint.objects.update(policy=RenderPolicy(characters=100).fingerprint)
    assert reasons() == [("markdown", "policy")]


def test_another_envelope_is_drift_of_the_canonical_result(sent: ReceiptFingerprint, calls: list[Call]) -> None:
    stored = CanonicalProjection.objects.get(call=calls[0])
    stored.data = bytes(stored.data).replace(b"one", b"two")
    stored.save()
    assert reasons() == [("markdown", "canonical")]


def test_other_words_under_the_same_version_are_drift_of_the_text(
    sent: ReceiptFingerprint, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_markdown(monkeypatch, render=other_words)
    assert reasons() == [("markdown", "text")]
    assert "the same version writes another text" in exit_status()[1]


def test_a_pinned_comparison_is_held_the_same_way(
    project: Project, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison, _ = compared(project, ["recorded", "receipt", "markdown"])
    change_markdown(monkeypatch, render=other_words)
    assert reasons() == [], "nothing is pinned"
    comparing.pin(comparison, is_pinned=True)
    assert reasons() == [("markdown", "text"), ("markdown", "text")]
    status, said = exit_status()
    assert status == 1
    assert "2 of 0 sent receipts and 6 pinned texts drifted" in said
    assert exit_status("--project", "ledger")[0] == 1

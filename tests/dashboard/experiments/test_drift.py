"""Drift of receipts that this system sent, and of pinned comparisons: each of the four reasons, and the exit status."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.evidence.call_evidence import load_evidence
from dashboard.experiments import stored_comparison
from dashboard.experiments.drift import check_all
from dashboard.filters.language import parse
from dashboard.models import Call, CanonicalProjection, Project, ReceiptFingerprint, RecordedReceipt, Run
from dashboard.models.fields import compress_beside
from dashboard.variants.fingerprints import envelope_sha256, text_sha256
from dashboard.variants.render_call import render_call
from dashboard.variants.variant_list import save_version
from envelopes import variants
from envelopes.families.registry import family
from envelopes.schema.budget import RenderPolicy
from envelopes.schema.receipt import Segment
from tests.dashboard.factories import create_user
from tests.dashboard.measured_comparisons import compared, import_commands
from tests.dashboard.older_versions import changed_versions, other_encoding, other_mappings, other_policies
from tests.dashboard.page_text import parse_page

pytestmark = pytest.mark.django_db
OUTPUTS = ["one", "two"]


@pytest.fixture
def sent(calls: list[Call]) -> ReceiptFingerprint:
    evidence = load_evidence(calls[0], {})
    rendered = render_call(evidence, "markdown")
    return ReceiptFingerprint.objects.create(
        receipt=RecordedReceipt.objects.get(call=calls[0]),
        variant=rendered.variant.id,
        version=rendered.variant.version,
        policy=rendered.variant.policy.fingerprint,
        canonical_sha256=envelope_sha256(evidence.canonical),
        text_sha256=text_sha256(rendered.receipt.text),
    )


def change_markdown(monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    changed = tuple(
        msgspec.structs.replace(variant, **changes) if variant.name == "markdown" else variant
        for variant in variants.VARIANTS
    )
    monkeypatch.setattr(variants, "VARIANTS", changed)


def other_words(*_: object) -> Iterator[Segment]:
    yield Segment("other words", "label")


def reasons() -> list[tuple[str, str]]:
    return [(drift.variant, drift.reason) for drift in check_all().drifted]


def exit_status(*arguments: str) -> tuple[int, str]:
    out = StringIO()
    try:
        call_command("check_receipts", *arguments, stdout=out)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue()
    return 0, out.getvalue()


def test_what_was_sent_and_would_be_sent_again_has_not_drifted(sent: ReceiptFingerprint) -> None:
    assert exit_status() == (0, "0 of 1 sent receipts and 0 of 0 pinned texts drifted.\n")
    sent.refresh_from_db()
    assert (sent.drift, sent.checked_at is not None) == ("", True)


def test_a_newer_version_is_drift_of_the_variant(sent: ReceiptFingerprint, monkeypatch: pytest.MonkeyPatch) -> None:
    change_markdown(monkeypatch, version=2)
    status, output = exit_status("--json")
    assert status == 1
    (found,) = json.loads(output)["drifted"]
    assert (found["reason"], found["detail"]) == ("variant", "version 1 is version 2 now")
    sent.refresh_from_db()
    assert sent.drift == "variant"


@pytest.mark.postgresql
def test_the_preset_lists_the_runs_of_drifted_receipts_until_they_are_mended(
    sent: ReceiptFingerprint, operator_client: Client
) -> None:
    link = f'a[href^="/runs/{Run.objects.get().pk}/"]'
    ReceiptFingerprint.objects.update(policy="another")
    check_all()
    assert parse_page(operator_client.get("/runs/?preset=drifted")).has(link)
    assert [call.pk for call in parse("state:drifted", over="calls").calls(Run.objects.get())] == [sent.receipt.call_id]
    ReceiptFingerprint.objects.update(policy=RenderPolicy().fingerprint)
    check_all()
    assert not parse_page(operator_client.get("/runs/?preset=drifted")).has(link)


def test_a_variant_that_is_gone_is_drift(sent: ReceiptFingerprint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "VARIANTS", ())
    assert reasons() == [("markdown", "variant")]


def test_a_call_that_another_family_reads_names_both_families(sent: ReceiptFingerprint) -> None:
    ReceiptFingerprint.objects.update(variant="file/receipt")
    assert [drift.detail for drift in check_all().drifted] == [
        "it is of the family file, and the call is read by command"
    ]


def test_another_policy_is_drift_of_the_policy(sent: ReceiptFingerprint) -> None:
    ReceiptFingerprint.objects.update(policy=RenderPolicy(characters=100).fingerprint)
    assert reasons() == [("markdown", "policy")]


@pytest.mark.postgresql
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


def test_a_pinned_comparison_is_checked_the_same_way_and_shows_the_outcome(
    project: Project, calls: list[Call], operator_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def text_on(address: str) -> str:
        return parse_page(operator_client.get(address)).text

    comparison, _ = compared(project, ["recorded", "receipt", "markdown"])
    change_markdown(monkeypatch, render=other_words)
    assert reasons() == [], "nothing is pinned"
    stored_comparison.pin(comparison, is_pinned=True)
    assert "not yet: manage.py check_receipts" in text_on(comparison.get_absolute_url())
    assert reasons() == [("markdown", "text"), ("markdown", "text")]
    for address in (comparison.get_absolute_url(), "/experiments/drifted/"):
        assert "2 of 6 receipts would differ today (text 2: the same version writes another text)" in text_on(address)
    assert "pinned drifted" in text_on("/experiments/")
    reason = f"      2  markdown  text: the same version writes another text (pinned: {comparison.name})"
    status, output = exit_status()
    assert status == 1
    assert output.splitlines() == [reason, "0 of 0 sent receipts and 2 of 6 pinned texts drifted."]
    (line, _, *rest) = exit_status("--verbose")[1].splitlines()
    assert any(line.startswith(f"{call.pk}  Bash  markdown  text: ") for call in calls)
    assert rest == output.splitlines()
    assert exit_status("--project", "kept")[0] == 1


@pytest.mark.parametrize(
    ("change", "reason", "detail"),
    [
        (other_mappings, "canonical", r"mapping of claude-code (\d+) → (\d+)"),
        pytest.param(
            *(other_policies, "canonical", r"policy of the canonical result (\w+) → (\w+)"), marks=pytest.mark.extended
        ),
        pytest.param(
            *(other_encoding, "tokens", "token encoding (characters/4) → (o200k_base)"), marks=pytest.mark.extended
        ),
    ],
    ids=["mapping", "projection policy", "tokens"],
)
def test_a_pinned_comparison_names_the_version_that_changed(
    project: Project,
    tmp_path: Path,
    operator_client: Client,
    change: Callable[[], dict[str, Any]],
    reason: str,
    detail: str,
) -> None:
    with changed_versions(**change()):
        import_commands(project, tmp_path, ["one\n" * 10, "two\n" * 10])
        comparison, _ = compared(project, ["recorded", "markdown"])
        stored_comparison.pin(comparison, is_pinned=True)
        assert reasons() == []
    call_command("rederive", stdout=StringIO())
    drifted = check_all().drifted
    assert {drift.reason for drift in drifted} == {reason}
    (sentence,) = {drift.detail for drift in drifted}
    named = re.fullmatch(detail, sentence)
    assert named
    assert named[1] != named[2]
    assert (
        f"{reason} {len(drifted)}: {sentence})" in parse_page(operator_client.get(comparison.get_absolute_url())).text
    )
    assert f"{reason}: {sentence} (pinned: " in exit_status()[1]


def test_a_check_of_nothing_says_so(project: Project) -> None:
    assert exit_status()[1].startswith("Nothing was checked:")


@pytest.mark.postgresql
def test_a_project_that_is_not_there_is_no_drift(project: Project) -> None:
    with pytest.raises(CommandError) as refused:
        exit_status("--project", "nobody")
    assert refused.value.returncode == 2


def test_a_store_that_cannot_be_read_is_no_drift_either(sent: ReceiptFingerprint) -> None:
    CanonicalProjection.objects.update(packed=compress_beside(b"{", b""), observation=None, mapping="command:test:1")
    with pytest.raises(CommandError, match="could not be checked") as refused:
        exit_status()
    assert refused.value.returncode == 2


@pytest.mark.postgresql
def test_pinned_texts_of_deleted_calls_are_distinguished_from_unchanged_texts(
    project: Project, calls: list[Call]
) -> None:
    comparison, _ = compared(project, ["recorded", "receipt"])
    stored_comparison.pin(comparison, is_pinned=True)
    calls[0].delete()
    status, output = exit_status()
    assert status == 0
    assert output == (
        "0 of 0 sent receipts and 0 of 2 pinned texts drifted.\n"
        "2 pinned texts were not checked: their calls were deleted, or never answered.\n"
    )
    assert json.loads(exit_status("--json")[1])["unchecked"] == 2
    comparison.refresh_from_db()
    assert comparison.last_check == {"texts": 2, "unchecked": 2, "reasons": {}, "details": []}


def test_a_family_that_is_no_longer_installed_is_drift(
    project: Project, calls: list[Call], sent: ReceiptFingerprint
) -> None:
    comparison, _ = compared(project, ["receipt", "markdown"])
    stored_comparison.pin(comparison, is_pinned=True)
    CanonicalProjection.objects.update(mapping="cooking:test:1")
    assert reasons() == [(variant, "variant") for variant in ("markdown", *["command/receipt", "markdown"] * 2)]
    assert "the family that read the call is not installed" in exit_status()[1]
    _, summary = compared(project, ["receipt", "markdown"])
    assert (summary.calls, summary.unread, summary.gone) == (0, len(calls), 0)


def test_a_variant_that_raises_today_is_drift_of_the_text(
    sent: ReceiptFingerprint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Iterator[Segment]:
        raise RuntimeError("no words")

    change_markdown(monkeypatch, render=fails)
    assert reasons() == [("markdown", "text")]
    assert "RuntimeError: no words" in exit_status()[1]


@pytest.mark.postgresql
def test_a_pinned_version_of_a_template_is_not_compared_with_a_later_one(project: Project, calls: list[Call]) -> None:
    author = create_user("ada", project=project)
    fields = {"name": "brief", "title": "Brief", "characters": "900"}
    save_version(project, family("command"), author, source="{{ summary_text }}", **fields)
    for names in (["receipt", "brief@1"], ["receipt", "brief"]):
        stored_comparison.pin(compared(project, names)[0], is_pinned=True)
    assert reasons() == []
    save_version(project, family("command"), author, source="{{ status }}", **fields)
    assert [(drift.baseline.name, drift.detail) for drift in check_all().drifted if drift.baseline] == [
        ("all calls: receipt · brief", "version 1 is version 2 now")
    ] * len(calls)

"""The pages of renderers: the list of families, and the preview of a variant at a budget."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.experiments.preview import DIFF_MARKUP_CHARACTERS
from dashboard.experiments.preview_source import PASTE_BYTES, load_call_source, name_samples, store_pasted
from dashboard.models import CanonicalProjection, PastedEnvelope, Project, Run, RunFacet
from envelopes.families import FAMILIES
from envelopes.families.base import FieldCut
from envelopes.families.registry import family
from tests.cases import extended_except
from tests.dashboard.factories import START, create_call, create_project, create_run, create_user
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.recorded_calls import HOSTILE, bash

PAGE = "/experiments/renderers/command/"
HTMX = {"HX-Request": "true"}
OUTPUT = "".join(f"line {number} of the build\n" for number in range(120))
LONG_OUTPUT = "".join(f"line {number} of many that were printed\n" for number in range(4_000))


@pytest.fixture
def run(operator_client: Client, project: Project) -> Run:
    del operator_client  # signs in
    return create_run(project, "session-one")


def load(client: Client, address: str, **headers: str) -> Page:
    response = client.get(address, headers=headers)
    assert response.status_code == 200, address
    return parse_page(response)


def receipt_text(page: Page) -> str:
    return "".join(text.exact for text in page.select("#variant-text pre[data-exact]"))


def count_tokens_shown(page: Page) -> int:
    return int(page.select_one("#variant-text header b").text.replace(",", ""))


def envelope(**changes: Any) -> dict[str, Any]:
    result = {"disposition": "completed", "exit_status": 2, "stdout_preview": "hello\n"}
    return {"tool_name": "ExecCommand", "status": "success", "summary_text": "ended", "result": result} | changes


def paste(client: Client, document: dict[str, Any], **options: Any) -> str:
    """The address of the preview."""
    return str(client.post(f"{PAGE}paste/", {"envelope": json.dumps(document, **options)})["Location"])


def test_every_family_is_listed_with_its_variants_and_its_use(client: Client, run: Run) -> None:
    RunFacet.objects.create(run=run, project=run.project, kind="family", value="command", sort_at=run.sort_at, count=7)
    page = load(client, "/experiments/")
    hrefs = {link["href"] for link in page.all_by_role("link")}
    assert {f"/experiments/renderers/{owner.name}/?variant=receipt" for owner in FAMILIES} <= hrefs
    assert "/experiments/renderers/command/?variant=tail_first" in hrefs
    assert page.by_role("link", "7 calls in 1 run")["href"] == "/runs/?q=family%3Acommand"


@pytest.mark.postgresql
def test_of_a_large_project_the_runs_of_the_last_days_are_counted(client: Client, run: Run, settings: Settings) -> None:
    later = create_run(run.project, started_at=START + timedelta(days=1), facets={"family": ["command"]})
    RunFacet.objects.create(run=run, project=run.project, kind="family", value="command", sort_at=run.sort_at, count=7)
    for parent in (run, later):
        create_call(parent, started_at=parent.sort_at)
    settings.NEWEST_CALLS = 1
    page = load(client, "/experiments/")
    text = "Recorded calls are those of runs since 2026-03-02, because this project has many."
    assert page.texts("#last-days") == [text]
    link = page.by_role("link", "1 call in 1 run")
    assert len(load(client, link["href"]).select("[data-item]")) == 1
    settings.NEWEST_CALLS = 2
    assert load(client, "/experiments/").by_role("link", "8 calls in 2 runs")["href"] == "/runs/?q=family%3Acommand"


@pytest.mark.rendering
@pytest.mark.parametrize("owner", extended_except(FAMILIES, *FAMILIES[:3]), ids=lambda owner: owner.name)
def test_samples_of_every_family_have_their_preview(client: Client, run: Run, owner: Any) -> None:
    names = list(name_samples(owner))
    for name in {names[0], names[-1], *(name for name in names if name.endswith("/error"))}:
        page = load(client, f"/experiments/renderers/{owner.name}/?sample={name}")
        assert "Rendered now; no model saw it." in page.text, name
        assert page.has(".segments, .linked"), name


def test_a_recorded_call_is_found_by_its_address_and_by_the_agents_own_id(client: Client, run: Run) -> None:
    call = bash(run, OUTPUT, external_id="toolu_77")
    for key in (call.pk, "toolu_77"):
        page = load(client, f"{PAGE}?call={key}")
        assert page.has(f'a[href="/calls/{call.pk}/"]')
        assert receipt_text(page).startswith("stdout:\n")


@pytest.mark.postgresql
@pytest.mark.rendering
def test_the_text_is_linked_to_the_canonical_half(client: Client, run: Run) -> None:
    page = load(client, f"{PAGE}?call={bash(run, OUTPUT).pk}&against=none")
    linked = page.select_one("#variant-text .linked[data-at^='0-']")
    assert linked.text.startswith("line 0")
    field = page.select_one(f'[data-half=canonical] [data-pointer="{linked["data-pointer"]}"]')
    assert field.text.startswith('"line 0')


@pytest.mark.rendering
def test_a_budget_in_tokens_is_kept_and_says_what_fell_out(client: Client, run: Run) -> None:
    page = load(client, f"{PAGE}?call={bash(run, OUTPUT).pk}&budget=100")
    assert 60 < count_tokens_shown(page) <= 100
    assert "for a budget of 100 tokens" in page.text
    assert "0 dropped, 1 shortened" in page.text
    assert "1 shortened" in page.by_id("variant-text").text, "also where one looks while dragging"
    assert page.select_one("output[for=budget]").text == "100"
    assert "receipt shortened here: first" in receipt_text(page)


@pytest.mark.rendering
def test_a_budget_above_the_whole_receipt_is_not_reported_as_its_limit(client: Client, run: Run) -> None:
    page = load(client, f"{PAGE}?call={bash(run, OUTPUT).pk}&budget=99999")
    assert "Rendered now" in page.text
    assert "for a budget of" not in page.text


@pytest.mark.rendering
def test_a_field_names_the_budget_from_which_it_is_shown_whole(client: Client, run: Run) -> None:
    call = bash(run, OUTPUT)
    table = load(client, f"{PAGE}?call={call.pk}&budget=60").select_one("table.field-table")
    (row,) = (row for row in table.rows("tbody tr") if row[0] == "/result/stdout_preview")
    tokens, complete_from, dropped_below = (int(cell.replace(",", "")) for cell in row[2:])
    assert tokens < 60 < complete_from
    assert dropped_below < complete_from
    whole = load(client, f"{PAGE}?call={call.pk}&budget={complete_from}")
    assert len(whole.all_by_text("fields complete")) == 1


@pytest.mark.rendering
def test_the_slider_at_its_end_asks_for_the_whole_of_any_variant(client: Client, run: Run) -> None:
    address = f"{PAGE}?call={bash(run, OUTPUT).pk}&variant=markdown"
    whole = receipt_text(load(client, address))
    assert receipt_text(load(client, f"{address}&budget=90&of=90")) == whole
    assert receipt_text(load(client, f"{address}&budget=89&of=90")) != whole


@pytest.mark.rendering
def test_the_share_of_the_beginning_and_the_way_of_cutting_are_knobs(client: Client, run: Run) -> None:
    address = f"{PAGE}?call={bash(run, OUTPUT).pk}&budget=150"
    first = receipt_text(load(client, f"{address}&head=100"))
    last = receipt_text(load(client, f"{address}&head=0"))
    assert "line 0 of" in first
    assert "line 119 of" not in first
    assert "line 119 of" in last
    assert "line 0 of" not in last
    assert "characters]" in receipt_text(load(client, f"{address}&cut=characters"))


@pytest.mark.rendering
def test_tokens_by_role_and_by_field_sum_up_to_the_receipts_own(client: Client, run: Run) -> None:
    page = load(client, f"{PAGE}?call={bash(run, OUTPUT).pk}&variant=tagged")
    roles = page.by_role("region", "Tokens by role").rows("tbody tr")
    assert sum(int(tokens.replace(",", "")) for _, _, tokens in roles) == count_tokens_shown(page)


def test_the_difference_to_the_recorded_receipt_is_the_default(client: Client, run: Run) -> None:
    page = load(client, f"{PAGE}?call={bash(run, OUTPUT).pk}")
    difference = page.by_role("region", "Difference to the recorded receipt")
    assert difference.has("tr[data-kind=added]")
    assert page.select_one("#against option[selected]")["value"] == "recorded"


@pytest.mark.rendering
@pytest.mark.parametrize("view", ["side", "unified"])
def test_a_variant_is_compared_with_another_and_with_itself(client: Client, run: Run, view: str) -> None:
    address = f"{PAGE}?call={bash(run, OUTPUT).pk}&view={view}"
    assert load(client, f"{address}&against=tail_first").by_role("heading", "Difference to command/tail_first")
    assert "the same text" in load(client, f"{address}&against=receipt").text
    assert not load(client, f"{address}&against=none").all_by_role("heading", "Difference to")


@pytest.mark.rendering
def test_a_finding_of_the_rules_is_shown_with_the_receipt(client: Client, run: Run) -> None:
    page = load(client, f"{PAGE}?sample=ExecCommand/large&variant=canonical_json")
    assert "escaped_json" in page.by_id("variant-text").texts(".findings code")


@pytest.mark.rendering
def test_htmx_gets_the_workbench_alone(client: Client, run: Run) -> None:
    page = load(client, f"{PAGE}?call={bash(run, OUTPUT).pk}&budget=100", **HTMX)
    assert page.is_fragment
    assert page.by_id("workbench").has("#variant-text")
    assert page.by_id("workbench").has("#field-budget")


@pytest.mark.rendering
def test_a_turn_of_a_knob_is_answered_with_what_it_changes_and_nothing_besides(client: Client, run: Run) -> None:
    address = f"{PAGE}?call={bash(run, OUTPUT).pk}&budget=100"
    page = load(client, address, **HTMX, **{"HX-Target": "variant-text"})
    assert [part.get("id") for part in page.select("body > *")] == ["variant-text", "field-budget"]
    assert not page.has("#preview-options")
    assert "Canonical result" not in page.text
    assert "for a budget of 100 tokens" in page.text


@pytest.mark.rendering
def test_a_long_difference_shows_its_first_rows_and_leads_to_the_next_by_a_key(client: Client, run: Run) -> None:
    page = load(client, f"{PAGE}?call={bash(run, LONG_OUTPUT).pk}")
    difference = page.by_role("region", "Difference to the recorded receipt")
    rows = difference.select("tr[data-kind]")
    assert len(difference.html) < 2 * DIFF_MARKUP_CHARACTERS
    assert f"Shown here: the first {len(rows)} rows of the difference. It goes on." in difference.text
    onward = difference.select_one('a[data-hotkey=click][data-key="M"]')["href"]
    assert onward.endswith(f"row={len(rows)}#diff-title")
    rest = load(client, PAGE + onward).by_role("region", "Difference to the recorded receipt")
    assert f"from row {len(rows) + 1} of the difference on" in rest.text
    assert rows[-1].text not in rest.text


def test_the_rules_know_of_a_stored_envelope_what_was_cut_when_it_was_made(client: Client, run: Run) -> None:
    """The same findings as in a comparison, which reads the cuts beside the envelope."""
    call = bash(run, LONG_OUTPUT)
    projection = CanonicalProjection.objects.get(call=call)
    source = load_call_source(call, family("command"))
    assert [cut.pointer for cut in source.cuts] == ["/result/stdout_preview"]
    assert source.cuts[0].cut == msgspec.json.decode(bytes(projection.cuts), type=tuple[FieldCut, ...])[0].cut


def test_the_recorded_receipt_is_not_counted_again(client: Client, run: Run) -> None:
    call = bash(run, OUTPUT)
    receipt = call.receipts.get()
    receipt.tokens, receipt.characters = 4_321, len(OUTPUT)
    receipt.save()
    assert "4,321 → " in load(client, f"{PAGE}?call={call.pk}").text


@pytest.mark.rendering
@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("budget=lots", "budget=lots is not a whole number from 1 to 1,000,000"),
        ("budget=-4", "is not a whole number from 1"),
        ("head=101", "head=101 is not a whole number from 0 to 100"),
        ("variant=nothing", "variant=nothing is not a variant of this family, which has receipt, tail_first"),
        ("against=recorded", "against=recorded is not one of none, receipt"),
        ("cut=words", "cut=words is not one of lines, characters"),
        ("budget=" + "9" * 5_000, "is not a whole number"),
    ],
)
def test_a_parameter_that_cannot_be_parsed_is_named_and_has_its_default(
    client: Client, run: Run, query: str, sentence: str
) -> None:
    page = load(client, f"{PAGE}?sample=ExecCommand/success&{query}")
    assert sentence in page.text
    assert "Rendered now" in page.text


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("call=nothing", "There is no such call in this project"),
        ("call=00000000-0000-0000-0000-000000000000", "There is no such call in this project"),
        ("sample=no/such", "This family has no such sample."),
        ("pasted=" + "0" * 64, "no longer kept: paste it again"),
    ],
)
def test_a_missing_source_of_the_preview_is_reported(client: Client, run: Run, query: str, sentence: str) -> None:
    page = load(client, f"{PAGE}?{query}")
    assert sentence in page.text
    assert not page.has("details.source-menu[open]"), "it would lie over what is said"
    assert client.get("/experiments/renderers/nothing/").status_code == 404


def test_a_call_of_another_family_leads_to_its_own_page(client: Client, run: Run) -> None:
    call = bash(run, "hello")
    assert load(client, f"/experiments/renderers/file/?call={call.pk}").has(
        f'a[href="/experiments/renderers/command/?call={call.pk}"]'
    )


def test_a_call_of_another_project_is_not_found(client: Client, run: Run) -> None:
    other = bash(create_run(create_project("other")), "secret output", external_id="toolu_other")
    for key in (other.pk, "toolu_other"):
        page = load(client, f"{PAGE}?call={key}")
        assert "There is no such call" in page.text
        assert "secret output" not in page.markup


@pytest.mark.postgresql
def test_recent_calls_of_the_family_are_offered(client: Client, run: Run) -> None:
    call = bash(run, "hello")
    RunFacet.objects.create(run=run, project=run.project, kind="family", value="command", sort_at=run.sort_at, count=1)
    link = load(client, PAGE).select_one(f'a[href="?call={call.pk}"]')
    assert f"{call.receipt_characters:,} characters ·" in link.text, "calls of one tool are told apart by their size"
    assert not load(client, "/experiments/renderers/file/").has(f'a[href="?call={call.pk}"]')


def test_the_queries_are_few_and_the_same_however_much_is_recorded(
    client: Client, run: Run, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    call = bash(run, OUTPUT)
    load(client, f"{PAGE}?call={call.pk}")
    for _ in range(2):
        with django_assert_num_queries(11):
            load(client, f"{PAGE}?call={call.pk}&budget=99", **HTMX)
        for number in range(20):
            bash(run, f"output {number}")


@pytest.mark.postgresql
def test_a_pasted_envelope_has_an_address_of_its_own(client: Client, run: Run) -> None:
    location = paste(client, envelope())
    assert receipt_text(load(client, location)).startswith("Process exited with code 2")
    assert paste(client, envelope(), indent=4) == location
    assert PastedEnvelope.objects.count() == 1


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ("", "$", "not JSON"),
        ('{"tool_name": "X",\n "status": }', "Line 2, $", "not JSON"),
        ("[]", "$", "Expected `object`, got `array`"),
        (json.dumps(envelope(status="maybe")), "$.status", "Invalid enum value"),
        (json.dumps(envelope(result=None)), "$", "neither a result nor an error"),
        (json.dumps(envelope(error={"kind": "x"}, result=None, status="error")), "$.error", "missing required field"),
        (json.dumps(envelope(artifacts=[{"path": 1}])), "$.artifacts[0].path", "Expected `str`, got `int`"),
        (json.dumps(envelope(surplus=1)), "$.surplus", "no such member"),
        (json.dumps(envelope(summary_text="x" * 201)), "$.summary_text", "longer than 200"),
        ("[" * 5_000, "$", "nested deeper"),
        ('"\\ud800"', "$", "half of a character"),
        (json.dumps(envelope(status="\ud800")), "$", "half of a character"),
        (json.dumps(envelope(result="x" * PASTE_BYTES)), "$", "at most 256,000 are accepted"),
    ],
)
def test_a_paste_that_is_no_envelope_is_refused_with_its_place(
    client: Client, run: Run, text: str, path: str, reason: str
) -> None:
    response = client.post(f"{PAGE}paste/", {"envelope": text})
    assert response.status_code == 422
    page = parse_page(response)
    notice = page.by_role("alert").text
    assert path in notice
    assert reason in notice
    assert text[:100] in page.by_id("envelope").exact
    assert not PastedEnvelope.objects.exists()


@pytest.mark.rendering
def test_an_envelope_that_the_family_cannot_write_says_why_and_breaks_nothing(client: Client, run: Run) -> None:
    location = paste(client, envelope(result={"items": 7, "completed_count": 1}))
    assert "command/receipt could not write this receipt." in load(client, location).text


def test_the_rest_of_a_long_canonical_half_is_one_key_away(client: Client, run: Run) -> None:
    warnings = [f"warning {number} of the build" for number in range(3_000)]
    first = load(client, paste(client, envelope(result=envelope()["result"] | {"warnings": warnings})))
    later = load(client, first.select_one('a[data-key="m"]')["href"], **HTMX)
    assert later.is_fragment
    end = load(client, later.by_role("link", "Load the next part")["href"])
    assert "Load the next part" not in end.text
    texts = [part.exact for part in (first.by_id("halves"), later, end)]
    assert [sum(warning in text for text in texts) for warning in warnings] == [1] * len(warnings)
    assert client.get(f"{PAGE}canonical/?offset=x").status_code == 404
    assert client.get("/experiments/renderers/none/canonical/").status_code == 404


@pytest.mark.postgresql
def test_only_the_latest_pastes_are_kept(project: Project) -> None:
    hashes = [
        store_pasted(project, json.dumps(envelope(summary_text=f"number {number}")), limit=3) for number in range(5)
    ]
    assert list(PastedEnvelope.objects.order_by("pk").values_list("sha256", flat=True)) == hashes[2:]


def test_a_viewer_looks_and_pastes_nothing(client: Client, project: Project) -> None:
    client.force_login(create_user("vera", project=project, role="viewer"))
    assert not load(client, PAGE).all_by_role("button", "Paste JSON")
    assert client.post(f"{PAGE}paste/", {"envelope": json.dumps(envelope())}).status_code == 403


def test_a_paste_of_another_project_is_not_found(client: Client, run: Run) -> None:
    location = paste(client, envelope())
    client.force_login(create_user("vera", project=create_project("other")))
    assert "no longer kept" in load(client, location).text


@pytest.mark.rendering
def test_hostile_output_is_text_under_every_variant(client: Client, run: Run) -> None:
    call = bash(run, HOSTILE)
    for variant in ("receipt", "canonical_json", "outcome_json", "tagged", "markdown"):
        page = load(client, f"{PAGE}?call={call.pk}&variant={variant}&against=recorded&spaces=1")
        assert not [script for script in page.select("script") if "alert" in script.exact]
        assert not page.has("b[hx-post]")
        assert "\u202e" not in page.markup
        assert "\x1b" not in page.markup

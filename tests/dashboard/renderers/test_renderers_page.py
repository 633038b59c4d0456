"""The Renderers pages: what would the model get, under this variant and this budget?"""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import msgspec
import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard.models import CanonicalProjection, PastedEnvelope, Project, Run, RunFacet
from dashboard.renderers.preview import DIFF_ROOM
from dashboard.renderers.preview_pasted import KEPT, LIMIT
from dashboard.renderers.preview_source import of_call, sample_outputs
from envelopes.families import FAMILIES
from envelopes.families.base import FieldCut
from envelopes.families.registry import family
from tests.dashboard.calls.test_call_page import HOSTILE, bash, receipt_of
from tests.dashboard.factories import create_project, create_run, create_user
from tests.dashboard.page_text import text_of

PAGE = "/renderers/command/"
HTMX = {"HX-Request": "true"}
OUTPUT = "".join(f"line {number} of the build\n" for number in range(120))


@pytest.fixture
def run(operator_client: Client, project: Project) -> Run:
    del operator_client  # signs in
    return create_run(project, "session-one")


def page(client: Client, address: str, **headers: str) -> str:
    response = client.get(address, headers=headers)
    assert response.status_code == 200, address
    return response.content.decode()


def words(html: str) -> str:
    return " ".join(text_of(html).split())


def part(html: str, key: str) -> str:
    """The element with that id, up to the next section."""
    return html.partition(f'id="{key}"')[2].partition("</section>")[0]


def envelope(**changes: Any) -> dict[str, Any]:
    result = {"disposition": "completed", "exit_status": 2, "stdout_preview": "hello\n"}
    return {"tool_name": "ExecCommand", "status": "success", "summary_text": "ended", "result": result} | changes


def test_every_family_stands_in_the_list_with_its_variants_and_its_use(client: Client, run: Run) -> None:
    RunFacet.objects.create(run=run, project=run.project, kind="family", value="command", sort_at=run.sort_at, count=7)
    html = page(client, "/renderers/")
    assert "How does each family speak to the model?" in html
    for one in FAMILIES:
        assert f'href="/renderers/{one.name}/?variant=receipt"' in html
    assert 'href="/renderers/command/?variant=tail_first"' in html
    assert '<a href="/runs/?q=family%3Acommand">7 calls in 1 run</a>' in html


@pytest.mark.rendering
@pytest.mark.parametrize("owner", FAMILIES, ids=lambda one: one.name)
def test_samples_of_every_family_have_their_preview(client: Client, run: Run, owner: Any) -> None:
    names = list(sample_outputs(owner))
    for name in {names[0], names[-1], *(one for one in names if one.endswith("/error"))}:
        html = page(client, f"/renderers/{owner.name}/?sample={name}")
        assert "Written now, not what a model got." in words(html), name
        assert 'class="segments"' in html or 'class="linked"' in html, name


def test_a_recorded_call_is_found_by_its_address_and_by_the_agents_own_id(client: Client, run: Run) -> None:
    call = bash(run, OUTPUT, external_id="toolu_77")
    for key in (call.pk, "toolu_77"):
        html = page(client, f"{PAGE}?call={key}")
        assert f'href="/calls/{call.pk}/"' in html
        assert receipt_of(html).startswith("Command finished; no exit code was recorded")


@pytest.mark.rendering
def test_the_text_is_linked_to_the_canonical_half(client: Client, run: Run) -> None:
    html = page(client, f"{PAGE}?call={bash(run, OUTPUT).pk}&against=none")
    linked = re.search(r'<span class="linked" data-pointer="(/result/[^"]+)" data-at="0-(\d+)">line 0', html)
    assert linked
    assert f'data-pointer="{linked[1]}">&quot;line 0' in html


@pytest.mark.rendering
def test_a_budget_in_tokens_is_kept_and_says_what_fell_out(client: Client, run: Run) -> None:
    address = f"{PAGE}?call={bash(run, OUTPUT).pk}&budget=100"
    html = page(client, address)
    tokens = re.search(r"<b>(\d+)</b> tokens", html)
    assert tokens
    assert 60 < int(tokens[1]) <= 100
    assert "for a budget of 100 tokens" in words(html)
    assert "0 gone, 1 shortened" in words(html)
    assert "1 shortened" in words(part(html, "written")), "also where one looks while dragging"
    assert '<output class="number" for="budget">100</output>' in html
    assert "receipt shortened here: first" in receipt_of(html)


@pytest.mark.rendering
def test_a_budget_that_holds_the_whole_receipt_is_not_said_to_bound_it(client: Client, run: Run) -> None:
    html = page(client, f"{PAGE}?call={bash(run, OUTPUT).pk}&budget=99999")
    assert "Written now" in words(html)
    assert "for a budget of" not in words(html)


@pytest.mark.rendering
def test_a_field_names_the_budget_from_which_it_stands_whole(client: Client, run: Run) -> None:
    call = bash(run, OUTPUT)
    told = page(client, f"{PAGE}?call={call.pk}&budget=60").partition('id="fields-title"')[2]
    row = told.partition("/result/stdout_preview</button>")[2]
    numbers = [int(found.replace(",", "")) for found in re.findall(r"<td data-number[^>]*>([\d,]+)</td>", row)[:3]]
    tokens, whole_from, gone_below = numbers
    assert tokens < 60 < whole_from
    assert gone_below < whole_from
    whole = page(client, f"{PAGE}?call={call.pk}&budget={whole_from}")
    assert re.search(r"all \d+ fields stand whole", words(whole))


@pytest.mark.rendering
def test_the_slider_at_its_end_asks_for_the_whole_of_any_variant(client: Client, run: Run) -> None:
    call = bash(run, OUTPUT)
    whole = page(client, f"{PAGE}?call={call.pk}&variant=markdown")
    assert receipt_of(page(client, f"{PAGE}?call={call.pk}&variant=markdown&budget=90&of=90")) == receipt_of(whole)
    assert receipt_of(page(client, f"{PAGE}?call={call.pk}&variant=markdown&budget=89&of=90")) != receipt_of(whole)


@pytest.mark.rendering
def test_the_share_of_the_beginning_and_the_way_of_cutting_are_knobs(client: Client, run: Run) -> None:
    address = f"{PAGE}?call={bash(run, OUTPUT).pk}&budget=150"
    first = receipt_of(page(client, f"{address}&head=100"))
    last = receipt_of(page(client, f"{address}&head=0"))
    assert "line 0 of" in first
    assert "line 119 of" not in first
    assert "line 119 of" in last
    assert "line 0 of" not in last
    assert "characters]" in receipt_of(page(client, f"{address}&cut=characters"))


@pytest.mark.rendering
def test_tokens_by_role_and_by_field_sum_up_to_the_receipts_own(client: Client, run: Run) -> None:
    html = page(client, f"{PAGE}?call={bash(run, OUTPUT).pk}&variant=tagged")
    total = re.search(r"<b>([\d,]+)</b> tokens", html)
    roles = html.partition('id="roles-title"')[2].partition("</section>")[0]
    counts = re.findall(r"<td data-number>([\d,]+)</td></tr>", roles)
    assert total
    assert sum(int(one.replace(",", "")) for one in counts) == int(total[1].replace(",", ""))


def test_the_difference_to_the_recorded_receipt_is_the_default(client: Client, run: Run) -> None:
    html = page(client, f"{PAGE}?call={bash(run, OUTPUT).pk}")
    assert "Difference to the recorded receipt" in html
    assert '<tr data-kind="added">' in html
    assert '<option value="recorded" selected>' in html


@pytest.mark.rendering
@pytest.mark.parametrize("view", ["side", "unified"])
def test_a_variant_is_compared_with_another_and_with_itself(client: Client, run: Run, view: str) -> None:
    address = f"{PAGE}?call={bash(run, OUTPUT).pk}&view={view}"
    assert "Difference to command/tail_first" in page(client, f"{address}&against=tail_first")
    assert "the same text" in words(page(client, f"{address}&against=receipt"))
    assert "Difference to" not in page(client, f"{address}&against=none").partition('id="told"')[2]


@pytest.mark.rendering
def test_a_finding_of_the_rules_stands_with_the_receipt(client: Client, run: Run) -> None:
    html = page(client, f"{PAGE}?sample=ExecCommand/large&variant=canonical_json")
    assert "escaped_json" in part(html, "written")


@pytest.mark.rendering
def test_htmx_gets_the_workbench_alone(client: Client, run: Run) -> None:
    html = page(client, f"{PAGE}?call={bash(run, OUTPUT).pk}&budget=100", **HTMX)
    assert "<html" not in html
    assert 'id="written"' in html
    assert 'id="told"' in html


@pytest.mark.rendering
def test_a_turn_of_a_knob_is_answered_with_what_it_changes_and_nothing_besides(client: Client, run: Run) -> None:
    call = bash(run, OUTPUT)
    html = page(client, f"{PAGE}?call={call.pk}&budget=100", **HTMX, **{"HX-Target": "written"})
    assert re.findall(r'^ *<(?:section|div)[^>]* id="(\w+)"', html, re.MULTILINE) == ["written", "told"]
    assert 'id="knobs"' not in html
    assert "Canonical result" not in html
    assert "for a budget of 100 tokens" in words(html)


@pytest.mark.rendering
def test_a_long_difference_shows_its_first_rows_and_leads_to_the_next_by_a_key(client: Client, run: Run) -> None:
    call = bash(run, "".join(f"line {number} of many that were printed\n" for number in range(4_000)))
    told = part(page(client, f"{PAGE}?call={call.pk}"), "diff-title")
    shown = len(re.findall("<tr data-kind", told))
    assert len(told) < 2 * DIFF_ROOM
    assert f"Shown here: the first {shown} rows of the difference. It goes on." in words(told)
    following = re.search(r'href="([^"]+row=(\d+)#diff-title)" data-hotkey="click" data-key="M"', told)
    assert following
    assert int(following[2]) == shown
    rest = part(page(client, unescape(following[1]).replace("?", f"{PAGE}?", 1)), "diff-title")
    assert f"from row {shown + 1} of the difference on" in words(rest)
    assert text_of(told.rpartition("<tr data-kind")[2]) not in text_of(rest)


def test_the_rules_know_of_a_stored_envelope_what_was_cut_when_it_was_made(client: Client, run: Run) -> None:
    """The same findings as in a comparison, which reads the cuts beside the envelope."""
    call = bash(run, "".join(f"line {number} of many that were printed\n" for number in range(4_000)))
    held = CanonicalProjection.objects.get(call=call)
    about = of_call(call, family("command"))
    assert [one.pointer for one in about.cuts] == ["/result/stdout_preview"]
    assert about.cuts[0].cut == msgspec.json.decode(bytes(held.cuts), type=tuple[FieldCut, ...])[0].cut


def test_the_recorded_receipt_is_not_counted_again(client: Client, run: Run) -> None:
    call = bash(run, OUTPUT)
    receipt = call.receipts.get()
    receipt.tokens, receipt.characters = 4_321, len(OUTPUT)
    receipt.save()
    assert "4,321 → " in words(page(client, f"{PAGE}?call={call.pk}"))


@pytest.mark.rendering
@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("budget=lots", "budget=lots: a whole number from 1 to 1,000,000 is expected."),
        ("budget=-4", "a whole number from 1"),
        ("head=101", "head=101: a whole number from 0 to 100 is expected."),
        ("variant=nothing", "this family has no such variant. It has receipt, tail_first"),
        ("against=recorded", "against=recorded: it is one of none, receipt"),
        ("cut=words", "cut=words: it is one of lines, characters."),
        ("budget=" + "9" * 5_000, "a whole number"),
    ],
)
def test_a_knob_that_cannot_be_read_is_named_and_stands_at_its_default(
    client: Client, run: Run, query: str, sentence: str
) -> None:
    html = words(page(client, f"{PAGE}?sample=ExecCommand/success&{query}"))
    assert sentence in html
    assert "Written now" in html


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("call=nothing", "There is no such call in this project"),
        ("call=00000000-0000-0000-0000-000000000000", "There is no such call in this project"),
        ("sample=no/such", "This family has no such sample."),
        ("pasted=" + "0" * 64, "no longer kept: paste it again"),
    ],
)
def test_what_is_not_there_is_said(client: Client, run: Run, query: str, sentence: str) -> None:
    html = page(client, f"{PAGE}?{query}")
    assert sentence in words(html)
    assert '<details class="drop subject" open' not in html, "it would lie over what is said"
    assert client.get("/renderers/nothing/").status_code == 404


def test_a_call_of_another_family_leads_to_its_own_page(client: Client, run: Run) -> None:
    call = bash(run, "hello")
    assert f'href="/renderers/command/?call={call.pk}"' in page(client, f"/renderers/file/?call={call.pk}")


def test_a_call_of_another_project_is_not_found(client: Client, run: Run) -> None:
    other = bash(create_run(create_project("other")), "secret output", external_id="toolu_other")
    for key in (other.pk, "toolu_other"):
        html = page(client, f"{PAGE}?call={key}")
        assert "There is no such call" in html
        assert "secret output" not in html


def test_recent_calls_of_the_family_are_offered(client: Client, run: Run) -> None:
    call = bash(run, "hello")
    RunFacet.objects.create(run=run, project=run.project, kind="family", value="command", sort_at=run.sort_at, count=1)
    html = page(client, PAGE)
    assert f'href="?call={call.pk}"' in html
    assert f"{call.receipt_characters:,} characters ·" in words(html), "calls of one tool are told apart by their size"
    assert f'href="?call={call.pk}"' not in page(client, "/renderers/file/")


def test_the_queries_are_few_and_the_same_however_much_is_recorded(
    client: Client, run: Run, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    call = bash(run, OUTPUT)
    page(client, f"{PAGE}?call={call.pk}")
    for _ in range(2):
        with django_assert_num_queries(8):
            page(client, f"{PAGE}?call={call.pk}&budget=99", **HTMX)
        for number in range(20):
            bash(run, f"output {number}")


def test_a_pasted_envelope_has_an_address_of_its_own(client: Client, run: Run) -> None:
    response = client.post(f"{PAGE}paste/", {"envelope": json.dumps(envelope())})
    assert response.status_code == 302
    html = page(client, response["Location"])
    assert receipt_of(html).startswith("Process exited with code 2")
    assert (
        client.post(f"{PAGE}paste/", {"envelope": json.dumps(envelope(), indent=4)})["Location"] == response["Location"]
    )
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
        (json.dumps(envelope(result="x" * LIMIT)), "$", "at most 256,000 are taken"),
    ],
)
def test_a_paste_that_is_no_envelope_is_refused_with_its_place(
    client: Client, run: Run, text: str, path: str, reason: str
) -> None:
    response = client.post(f"{PAGE}paste/", {"envelope": text})
    assert response.status_code == 422
    html = response.content.decode()
    notice = words(html.partition('role="alert"')[2].partition("</div>")[0])
    assert path in notice
    assert reason in notice
    assert text[:100] in text_of(html)
    assert not PastedEnvelope.objects.exists()


@pytest.mark.rendering
def test_an_envelope_that_the_family_cannot_write_says_why_and_breaks_nothing(client: Client, run: Run) -> None:
    odd = envelope(result={"items": 7, "completed_count": 1})
    html = page(client, client.post(f"{PAGE}paste/", {"envelope": json.dumps(odd)})["Location"])
    assert "command/receipt could not write this receipt." in words(html)


def test_the_rest_of_a_long_canonical_half_is_one_key_away(client: Client, run: Run) -> None:
    warnings = [f"warning {number} of the build" for number in range(3_000)]
    long = envelope(result=envelope()["result"] | {"warnings": warnings})
    first = page(client, client.post(f"{PAGE}paste/", {"envelope": json.dumps(long)})["Location"])
    key = re.search(r'href="([^"]*)"[^>]* data-key="m"', first)
    assert key is not None
    later = page(client, unescape(key[1]), **HTMX)
    assert "<html" not in later
    onward = re.search(r'href="([^"]*)"', later)
    assert onward is not None
    end = page(client, unescape(onward[1]))
    assert "Load the next part" not in end
    shown = [text_of(html) for html in (part(first, "halves"), later, end)]
    assert [sum(one in html for html in shown) for one in warnings] == [1] * len(warnings)
    assert client.get(f"{PAGE}canonical/?offset=x").status_code == 404
    assert client.get("/renderers/none/canonical/").status_code == 404


def test_only_the_latest_pastes_are_kept(client: Client, run: Run) -> None:
    for number in range(KEPT + 3):
        client.post(f"{PAGE}paste/", {"envelope": json.dumps(envelope(summary_text=f"number {number}"))})
    assert PastedEnvelope.objects.count() == KEPT


def test_a_viewer_looks_and_pastes_nothing(client: Client, project: Project) -> None:
    client.force_login(create_user("vera", project=project, role="viewer"))
    assert "Paste JSON" not in page(client, PAGE)
    assert client.post(f"{PAGE}paste/", {"envelope": json.dumps(envelope())}).status_code == 403


def test_a_paste_of_another_project_is_not_found(client: Client, run: Run) -> None:
    location = client.post(f"{PAGE}paste/", {"envelope": json.dumps(envelope())})["Location"]
    client.force_login(create_user("vera", project=create_project("other")))
    assert "no longer kept" in page(client, location)


@pytest.mark.rendering
def test_hostile_output_is_text_under_every_variant(client: Client, run: Run) -> None:
    call = bash(run, HOSTILE)
    for variant in ("receipt", "canonical_json", "outcome_json", "tagged", "markdown"):
        html = page(client, f"{PAGE}?call={call.pk}&variant={variant}&against=recorded&spaces=1")
        assert "<script>alert" not in html
        assert "<b hx-post" not in html
        assert "\u202e" not in html
        assert "\x1b" not in html

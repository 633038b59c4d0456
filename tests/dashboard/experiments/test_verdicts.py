"""Blind verdicts: the queue and its buttons, the tally, and the exports."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.experiments.verdicts import is_variant_first, load_verdict_page, start_review
from dashboard.models import Call, Comparison, Observation, Project, Verdict
from tests.dashboard.factories import create_user
from tests.dashboard.measured_comparisons import compared, import_commands
from tests.dashboard.page_text import Page, parse_page

OUTPUTS = [f"output number {number}\nwith a second line" for number in range(6)]


@pytest.fixture(scope="module")
def measured(kept_project: Project, tmp_path_factory: pytest.TempPathFactory) -> UUID:
    import_commands(kept_project, tmp_path_factory.mktemp("sessions"), OUTPUTS)
    return compared(kept_project, ["recorded", "markdown", "canonical_json"], seed=11)[0].pk


@pytest.fixture
def comparison(project: Project, measured: UUID) -> Comparison:
    return project.comparisons.get(pk=measured)


def address(comparison: Comparison, ordinal: int = 1) -> str:
    return f"/experiments/{comparison.pk}/review/{ordinal}/"


def start(client: Client, comparison: Comparison) -> Page:
    assert client.post(address(comparison), {"do": "start"}).status_code == 302
    return load(client, comparison)


def load(client: Client, comparison: Comparison) -> Page:
    response = client.get(address(comparison))
    assert response.status_code == 200
    return parse_page(response)


def load_verdicts(client: Client, comparison: Comparison) -> Page:
    return parse_page(client.get(f"/experiments/{comparison.pk}/verdicts/"))


def call_key(page: Page) -> str:
    return page.select_one("[name=call]")["value"]


def judge(client: Client, comparison: Comparison, answer: str, note: str = "") -> str:
    call = call_key(load(client, comparison))
    assert client.post(address(comparison), {"call": call, "do": answer, "note": note}).status_code == 302
    return call


def test_a_pair_is_shown_without_a_word_of_whose_text_is_whose(operator_client: Client, comparison: Comparison) -> None:
    page = start(operator_client, comparison)
    form = page.select_one("form.review-form")
    assert "markdown" not in form.html
    assert "Text by" not in form.html
    assert not form.has("[data-recorded], [data-pointer]")
    assert "0 of 6 pairs judged by you" in page.text


def test_nobody_has_to_judge_what_is_not_shown(operator_client: Client, project: Project, tmp_path: Path) -> None:
    import_commands(project, tmp_path, ["long\n" * 7_000 + "the end of it"])
    comparison, _ = compared(project, ["recorded", "receipt"])
    part = start(operator_client, comparison)
    assert "more characters are not shown here. Show them" in part.text
    whole = parse_page(operator_client.get(address(comparison) + "?whole=1"))
    assert "are not shown here" not in whole.text
    assert whole.text.count("the end of it") == part.text.count("the end of it") + 1


def test_verdicts_are_counted_for_the_side_that_was_meant(
    operator_client: Client, operator: User, comparison: Comparison
) -> None:
    start(operator_client, comparison)
    review = comparison.reviews.get()
    for answer in ("first", "second", "tie", "both_bad"):
        call = UUID(judge(operator_client, comparison, answer, note="because"))
        verdict = Verdict.objects.get(call=call)
        is_first = is_variant_first(review, call, operator)
        expected = {"first": "variant" if is_first else "baseline", "second": "baseline" if is_first else "variant"}
        assert verdict.choice == expected.get(answer, answer)
        assert verdict.note == "because"
    (tally,) = load_verdict_page(comparison).tallies
    assert (tally.pairs, tally.wins + tally.losses, tally.ties, tally.both_bad) == (4, 2, 1, 1)
    assert "2 of 6 pairs" not in load(operator_client, comparison).text


def test_sides_and_order_are_drawn_with_the_seed(comparison: Comparison, operator: User) -> None:
    review = start_review(comparison, 1)
    again = start_review(comparison, 1)
    assert bytes(review.calls) == bytes(again.calls)
    sides = [is_variant_first(review, call.pk, operator) for call in Call.objects.all()]
    assert sides == [is_variant_first(again, call.pk, operator) for call in Call.objects.all()]
    others = [is_variant_first(review, UUID(int=number), operator) for number in range(200)]
    assert 60 < sum(others) < 140


@pytest.mark.postgresql
def test_a_verdict_is_taken_back_and_given_again(operator_client: Client, comparison: Comparison) -> None:
    start(operator_client, comparison)
    call = judge(operator_client, comparison, "tie")
    assert call_key(load(operator_client, comparison)) != call
    operator_client.post(address(comparison), {"do": "undo"})
    assert call_key(load(operator_client, comparison)) == call
    assert not Verdict.objects.exists()


def test_when_all_is_judged_the_page_says_so_and_still_takes_one_back(
    operator_client: Client, comparison: Comparison
) -> None:
    start(operator_client, comparison)
    for _ in OUTPUTS:
        judge(operator_client, comparison, "first")
    page = load(operator_client, comparison)
    assert page.by_role("heading", "All pairs are judged")
    assert page.by_role("button", "Undo the last verdict")


def test_the_verdicts_say_in_words_whether_anything_is_decided(
    operator_client: Client, operator: User, comparison: Comparison
) -> None:
    def verdicts() -> str:
        return load_verdicts(operator_client, comparison).text

    start(operator_client, comparison)
    review = comparison.reviews.get()
    assert "No pair has a winner yet: 0 of 6 are judged." in verdicts()
    assert "p = 1.000" not in verdicts(), "a test of nothing says nothing"
    for number in range(1, 7):
        is_first = is_variant_first(review, UUID(call_key(load(operator_client, comparison))), operator)
        judge(operator_client, comparison, "first" if is_first else "second")
        if number < 6:
            judged = "1 judged pair" if number == 1 else f"{number} judged pairs"
            assert f"cannot be told apart over {judged}, of 6 drawn." in verdicts()
    assert "markdown is found better over 6 judged pairs." in verdicts()
    assert "ties and pairs that are both bad are left out." in verdicts()


def test_reviewers_are_compared_with_each_other(
    operator_client: Client, project: Project, comparison: Comparison
) -> None:
    start(operator_client, comparison)
    other = Client()
    other.force_login(create_user("oskar", project=project))
    for answer, other_answer in (("tie", "tie"), ("both_bad", "tie"), ("tie", "tie")):
        assert judge(operator_client, comparison, answer) == judge(other, comparison, other_answer)
    agreement = load_verdicts(operator_client, comparison).by_text("olga and oskar").closest("li")
    assert agreement is not None
    assert "agree on 2 of 3" in agreement.text


@pytest.mark.postgresql("None-love-422")
@pytest.mark.parametrize(("call", "do", "status"), [("nonsense", "tie", 404), ("", "tie", 404), (None, "love", 422)])
def test_an_invalid_verdict_is_refused(
    operator_client: Client, comparison: Comparison, call: str | None, do: str, status: int
) -> None:
    key = call_key(start(operator_client, comparison)) if call is None else call
    assert operator_client.post(address(comparison), {"call": key, "do": do}).status_code == status
    assert operator_client.post(address(comparison, 9), {"do": "start"}).status_code == 422
    assert not Verdict.objects.exists()


def test_a_viewer_does_not_judge(client: Client, project: Project, comparison: Comparison) -> None:
    client.force_login(create_user("vera", project=project, role="viewer"))
    assert client.post(address(comparison), {"do": "start"}).status_code == 403
    assert client.get(f"/experiments/{comparison.pk}/verdicts/").status_code == 200


def lines(client: Client, comparison: Comparison, what: str) -> list[dict[str, object]]:
    response = client.get(f"/experiments/{comparison.pk}/export/{what}")
    assert "attachment" in response["Content-Disposition"]
    return [json.loads(line) for line in b"".join(response.streaming_content).splitlines()]


def test_verdicts_go_out_with_what_is_needed_to_repeat_them(operator_client: Client, comparison: Comparison) -> None:
    start(operator_client, comparison)
    judge(operator_client, comparison, "first", note="clearer")
    judge(operator_client, comparison, "tie")
    decided, tie = lines(operator_client, comparison, "verdicts")
    assert (decided["reviewer"], decided["note"], decided["seed"], decided["is_as_judged"]) == (
        "olga",
        "clearer",
        11,
        True,
    )
    assert decided["variant"]["id"] == "markdown"
    assert (decided["variant"]["version"], decided["variant"]["hash"]) == (1, "a2a3ba9889c8d026")
    assert decided["variant"]["text"].startswith("**Bash")
    (preference,) = lines(operator_client, comparison, "preferences")
    sides = {decided["baseline"]["text"], decided["variant"]["text"]}
    assert {preference["chosen"], preference["rejected"]} == sides
    assert preference["chosen"] == decided[decided["choice"]]["text"]
    assert preference["prompt"]["tool"] == "Bash"
    assert tie["choice"] == "tie"


@pytest.mark.postgresql
def test_no_preference_is_claimed_of_a_text_that_nobody_saw(operator_client: Client, comparison: Comparison) -> None:
    start(operator_client, comparison)
    call = judge(operator_client, comparison, "first")
    Observation.objects.filter(call=call, surface="receipt").update(own_data=b'"another"', start=None)
    assert lines(operator_client, comparison, "verdicts")[0]["is_as_judged"] is False
    assert lines(operator_client, comparison, "preferences") == []


def test_the_numbers_go_out_as_one_document(operator_client: Client, comparison: Comparison) -> None:
    response = operator_client.get(f"/experiments/{comparison.pk}/export/numbers")
    document = json.loads(b"".join(response.streaming_content))
    assert len(document["calls"]) == len(OUTPUTS)
    assert operator_client.get(f"/experiments/{comparison.pk}/export/nothing").status_code == 404

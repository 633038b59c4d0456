"""Tags, assignments, review marks, and the review queues that are saved views of calls."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict
from django.test import Client
from pytest_django import Settings

from dashboard.filters.language import parse
from dashboard.filters.names import complete
from dashboard.ingest import run_stats
from dashboard.models import AuditEntry, Call, Membership, Project, Run, SavedView, Tag
from dashboard.models.notes import READER, move_annotations
from dashboard.notes import annotations
from tests.dashboard.factories import create_call, create_project, create_run, create_user
from tests.dashboard.page_text import parse_page


def annotate(client: Client, subject: Run | Call, **form: str) -> None:
    response = client.post(f"{subject.get_absolute_url()}annotate/", form)
    assert response.status_code == 302, parse_page(response).by_role("alert").text


def select(project: Project, text: str) -> list[str]:
    query = parse(text, over="calls")
    assert query.problems == ()
    return sorted(query.calls_in(project).values_list("external_id", flat=True))


def select_runs(project: Project, text: str) -> list[str]:
    query = parse(text)
    assert query.problems == ()
    return sorted(query.runs(project).values_list("external_id", flat=True))


@pytest.fixture
def runs(project: Project) -> list[Run]:
    return [create_run(project, name) for name in ("a", "b", "c")]


@pytest.fixture
def annotated(client: Client, alice: User, project: Project, runs: list[Run]) -> list[Call]:
    """Run a: its first call is tagged, noted, reviewed and assigned to alice; run b is so itself; run c has nothing."""
    calls = [create_call(run, f"{run.external_id}-{number}", receipt="r") for run in runs for number in (1, 2)]
    for subject in (calls[0], runs[1]):
        annotate(client, subject, do="tag", tag=" Flaky ")
        annotate(client, subject, do="review")
        annotate(client, subject, do="assign", to=alice.username)
        client.post(f"{subject.get_absolute_url()}notes/", {"text": "Broken pipe here"})
    return calls


SELECTED = [
    ("tag:flaky", "a-1", "a b"),
    ("tag:FLA*", "a-1", "a b"),
    ("-tag:flaky", "a-2 b-1 b-2 c-1 c-2", "c"),
    ('note:"pipe broken"', "a-1", "a b"),
    ("note:nothing", "", ""),
    ("note:yes", "a-1", "a b"),
    ("note:no", "a-2 b-1 b-2 c-1 c-2", "c"),
    ("note:No", "a-2 b-1 b-2 c-1 c-2", "c"),
    ("reviewed:yes", "a-1", "b"),
    ("reviewed:no", "a-2 b-1 b-2 c-1 c-2", "a c"),
    ("assigned:alice", "a-1", "a b"),
    ("assigned:me", "a-1", "a b"),
    ("tag:flaky or reviewed:no", "a-1 a-2 b-1 b-2 c-1 c-2", "a b c"),
]


@pytest.mark.postgresql
@pytest.mark.usefixtures("annotated")
def test_filters_select_what_operators_added(project: Project) -> None:
    token = READER.set("alice")
    try:
        for text, of_calls, of_runs in SELECTED:
            assert select(project, text) == of_calls.split(), text
            assert select_runs(project, text) == of_runs.split(), text
    finally:
        READER.reset(token)
    assert parse("assigned:me").problems == ("“assigned:” at character 1 cannot be “me” here: nobody is signed in.",)


@pytest.mark.postgresql
@pytest.mark.usefixtures("annotated")
def test_tags_are_completed_counted_as_facets_and_kept_when_a_run_is_counted_again(
    client: Client, project: Project, runs: list[Run]
) -> None:
    assert [completion.label for completion in complete(project, "tag:fl", 6)] == ["tag:flaky"]
    run_stats.refresh_stats(list(Run.objects.filter(project=project)))
    page = parse_page(client.get("/runs/"))
    assert page.has('a[href$="q=tag%3Aflaky"]')
    annotate(client, Call.objects.get(external_id="a-1"), do="untag", tag="flaky")
    assert select_runs(project, "tag:flaky") == ["b"]
    annotate(client, runs[1], do="assign", to="")
    assert select_runs(project, "assigned:alice") == ["a"]


@pytest.mark.postgresql
@pytest.mark.usefixtures("annotated")
def test_a_run_that_is_found_to_be_another_one_takes_its_annotations_along(project: Project, runs: list[Run]) -> None:
    move_annotations(runs[1], runs[2])
    move_annotations(runs[1], runs[2])
    run_stats.refresh_stats(list(Run.objects.filter(project=project)))
    for text in ("tag:flaky", "note:pipe", "assigned:alice"):
        assert select_runs(project, text) == ["a", "c"], text
    assert select_runs(project, "reviewed:yes") == ["c"]


REFUSED = [
    ({"do": "tag", "tag": "two words"}, "A tag is one word"),
    ({"do": "tag", "tag": ""}, "A tag is one word"),
    ({"do": "untag", "tag": "\0"}, "A tag is one word"),
    ({"do": "assign", "to": "otto"}, "Only a member of the project"),
    ({"do": "explode"}, "does not name a change"),
]


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize(("form", "reason"), REFUSED)
def test_a_refused_change_is_explained(client: Client, runs: list[Run], form: dict[str, str], reason: str) -> None:
    create_user("otto", project=create_project("other"))
    response = client.post(f"/runs/{runs[0].pk}/annotate/", form)
    assert response.status_code == 422
    assert reason in parse_page(response).by_role("alert").text
    assert not AuditEntry.objects.filter(action="annotation").exists()


@pytest.mark.postgresql
@pytest.mark.usefixtures("annotated")
def test_the_page_says_who_reviewed_tagged_and_assigned(client: Client, project: Project) -> None:
    call = Call.objects.get(external_id="a-1")
    client.force_login(create_user("vera", project=project, role="viewer"))
    panel = parse_page(client.get(call.get_absolute_url())).by_id("notes")
    assert "reviewed by alice" in panel.text
    assert "Assigned to alice" in panel.text
    assert panel.select_one(".chip span")["title"].startswith("by alice, ")
    assert not panel.has("form")
    assert client.post(f"{call.get_absolute_url()}annotate/", {"do": "review"}).status_code == 403


@pytest.mark.postgresql
def test_an_assignment_alone_is_in_the_panel_and_not_in_the_row(client: Client, alice: User, runs: list[Run]) -> None:
    """Both are from one query: the panel must not take a row without marks for a call without annotations."""
    call = create_call(runs[0], "a-1", receipt="r")
    annotate(client, call, do="assign", to=alice.username)
    page = parse_page(client.get(call.get_absolute_url(), follow=True))
    assert page.by_id("notes").select_one("#assign-to option[selected]").text == "alice"
    assert not page.by_id("step-rows").has(".row-marks")
    annotate(client, call, do="tag", tag="slow")
    page = parse_page(client.get(call.get_absolute_url(), follow=True))
    assert page.by_id("step-rows").select_one(".row-marks").text == "slow"


@pytest.mark.postgresql
def test_checked_calls_and_whole_filters_are_tagged_and_what_is_left_out_is_told(
    client: Client, alice: User, project: Project, runs: list[Run], settings: Settings
) -> None:
    calls = [create_call(runs[0], f"a-{number}", receipt="r") for number in range(4)]
    other = create_call(create_run(create_project("other")), receipt="r")
    form = {"do": "tag", "tag": "slow", "call": [call.pk.hex for call in (calls[0], calls[1], other)]}
    page = parse_page(client.post("/calls/chosen/", form))
    assert page.select_one("h1").text == "2 calls tagged"
    assert select(project, "tag:slow") == ["a-0", "a-1"]
    settings.CHOSEN_CALLS = 3
    page = parse_page(client.post("/calls/chosen/", {"do": "tag", "tag": "slow", "q": "tool:Bash", "all": "1"}))
    assert "Only the newest 3 have the tag now" in page.text
    assert "2 calls got the tag slow; 1 of those chosen had it already." in page.by_role("status").text
    assert page.select_one("h1").text == "2 calls tagged"
    assert Tag.objects.filter(call=other).count() == 0
    assert client.post("/calls/chosen/", {"do": "tag", "tag": "slow"}).status_code == 422
    assert client.post("/calls/chosen/", {"do": "compare", "call": [calls[0].pk.hex]}).status_code == 302
    refused = client.post("/calls/chosen/", {"do": "compare", "q": "tool:Bash"})
    assert (refused.status_code, parse_page(refused).select_one("h1").text) == (422, "Nothing was compared")
    subjects = AuditEntry.objects.filter(action="annotation").values_list("subject", flat=True)
    assert sorted(subjects) == ["2 calls: tag slow added"] * 2
    client.force_login(create_user("vera", project=project, role="viewer"))
    assert client.post("/calls/chosen/", form).status_code == 403
    assert alice.username == "alice"


@pytest.mark.usefixtures("alice")
@pytest.mark.postgresql
def test_a_review_queue_leads_from_call_to_call_until_nothing_is_left(
    client: Client, project: Project, runs: list[Run]
) -> None:
    calls = [create_call(runs[0], f"a-{number}", receipt="r") for number in range(4)]
    client.post("/calls/chosen/", {"do": "review", "call": [call.pk.hex for call in calls[:3]]})
    view = SavedView.objects.get()
    assert (view.over, view.query) == ("calls", "tag:review")
    assert "3 to review" in parse_page(client.get("/review/")).text
    seen = []
    location = client.get(f"/review/{view.pk}/")["Location"]
    for _ in range(3):
        page = parse_page(client.get(location))
        seen.append(location.split("/")[2])
        form = page.select_one(".queue + form")
        answer = client.post(form["action"], {"do": "review", "next": form.select_one("[name=next]")["value"]})
        location = client.get(answer["Location"]).get("Location", "")
    assert seen == [str(call.pk) for call in reversed(calls[:3])]
    assert location == ""
    assert "Nothing else is left to review" in parse_page(client.get(f"/review/{view.pk}/")).text


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_a_call_that_is_skipped_behind_those_that_are_counted_leads_to_the_one_behind_it(
    client: Client, project: Project, runs: list[Run], settings: Settings
) -> None:
    calls = [create_call(runs[0], f"a-{number}", receipt="r") for number in range(4)]
    client.post("/calls/chosen/", {"do": "review", "call": [call.pk.hex for call in calls]})
    settings.COUNTED_CALLS = 1
    view = SavedView.objects.get()
    for skipped, following in ((calls[1], calls[0]), (calls[0], calls[3])):
        location = client.get(f"/review/{view.pk}/?after={skipped.pk}")["Location"]
        assert location.startswith(f"/calls/{following.pk}/?")


@pytest.mark.postgresql
@pytest.mark.postgresql
@pytest.mark.usefixtures("annotated")
def test_what_is_assigned_to_a_member_ends_with_the_membership_or_the_account(project: Project, alice: User) -> None:
    bob = create_user("bob", project=project)
    other = create_run(project, "d")
    annotations.change_annotation(other, alice, QueryDict("do=assign&to=bob"))
    assert select_runs(project, "assigned:*") == ["a", "b", "d"]
    bob.delete()
    assert (select_runs(project, "assigned:*"), select_runs(project, "assigned:bob")) == (["a", "b"], [])
    Membership.objects.filter(user=alice).delete()
    assert (select_runs(project, "assigned:*"), select(project, "assigned:alice")) == ([], [])
    assert select_runs(project, "tag:flaky") == ["a", "b"]


@pytest.mark.usefixtures("alice")
def test_views_of_calls_are_saved_and_opened_apart_from_those_of_runs(client: Client, project: Project) -> None:
    create_call(create_run(project), receipt="r")
    for over in ("runs", "calls"):
        form = {"name": "Mine", "q": "tool:Bash", "sort": "tokens", "over": over}
        view = f"/{over}/?view="
        assert client.post("/runs/views/", form)["Location"].startswith(view)
    saved = SavedView.objects.get(over="calls")
    page = parse_page(client.get(f"/calls/?view={saved.pk}"))
    assert page.by_id("q")["value"] == "tool:Bash"
    assert page.texts("a.chip[aria-current=true]") == ["Mine"]
    assert "There is no such saved view" in parse_page(client.get("/calls/?view=999")).text
    refused = client.post("/runs/views/", {"name": "", "q": "tool:Bash", "over": "calls"})
    assert refused.status_code == 422
    assert parse_page(refused).select_one("h1").text == "Calls"
    assert client.post(f"/runs/views/{saved.pk}/delete/")["Location"] == "/calls/?q=tool%3ABash&sort=tokens"

"""Notes on runs, calls and characters: who writes them, what they point at, and what happens when that changes."""

from __future__ import annotations

import hashlib

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.calls.half_panes import half_text
from dashboard.evidence.call_evidence import load_evidence
from dashboard.ingest.delete_runs import delete_run
from dashboard.models import AuditEntry, Call, Note, Observation, Project, Run
from tests.dashboard.factories import create_call, create_observation, create_receipt, create_run, create_user
from tests.dashboard.page_text import assert_harmless, parse_page

TOKEN = "ghp_" + "a1B2c3D4" * 5
OUTPUT = f"same\nFAIL one\nsame\nFAIL two\nsame\ntoken {TOKEN} end\n"
HOSTILE = "<script>alert(1)</script>\u202e\x1b"


@pytest.fixture
def call(project: Project) -> Call:
    return create_call(create_run(project), result={"stdout": OUTPUT, "stderr": ""}, receipt=OUTPUT)


def write(client: Client, call: Call, **form: str | int) -> Note:
    response = client.post(f"/calls/{call.pk}/notes/", {"text": "look here"} | form)
    note = Note.objects.order_by("-pk")[0]
    assert response.status_code == 302
    assert response["Location"].endswith(f"/calls/{call.pk}/#note-{note.pk}")
    return note


@pytest.mark.usefixtures("alice")
@pytest.mark.postgresql
def test_a_note_on_a_run_and_on_a_call_shows_who_wrote_it_there_and_in_the_lists(client: Client, call: Call) -> None:
    client.post(f"/runs/{call.run_id}/notes/", {"text": "this run is the broken one"})
    write(client, call, text=f"see line two {HOSTILE}")
    for address, text in ((f"/runs/{call.run_id}/", "this run is the broken one"), (f"/calls/{call.pk}/", "line two")):
        page = parse_page(client.get(address))
        note = page.select_one(".notes .note")
        assert page.select_one('a.badge[href="#notes"]').text == "✎ 1 note"
        assert text in note.text
        assert note.select_one("b").text == "alice"
        assert_harmless(page)
    assert parse_page(client.get("/calls/")).texts(".row-notes") == ["✎ 1"]
    run = parse_page(client.get("/runs/")).select_one(".row-notes")
    assert (run.text, run["title"]) == ("✎ 2", "2 notes on the run and its calls")
    assert AuditEntry.objects.filter(action="annotation", person="alice").count() == 2


RANGES = [
    ("receipt", "FAIL two", 0, OUTPUT.index("FAIL two")),
    ("receipt", "same", 14, 14),  # of three, the one that the browser meant
    ("receipt", "same\r\nFAIL two", 0, 14),  # as a form sends its lines
    ("canonical", "hello\nworld", 0, None),  # decoded, as lines of the value are drawn
    ("args", "echo hello", 0, None),
]


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize(("half", "quote", "start", "expected"), RANGES)
def test_a_range_is_stored_with_the_hash_of_its_half(
    client: Client, call: Call, half: str, quote: str, start: int, expected: int | None
) -> None:
    note = write(client, call, half=half, quote=quote, start=start)
    text = half_text(load_evidence(call, {}), half)  # type: ignore[arg-type]
    assert note.half == half
    assert note.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert text[note.start : note.end].replace("\\n", "\n") == quote.replace("\r\n", "\n")
    assert note.quote == text[note.start : note.end]
    assert expected is None or note.start == expected
    page = parse_page(client.get(f"/notes/{note.pk}/"))
    assert page.select_one("mark").exact == note.quote
    link = parse_page(client.get(f"/calls/{call.pk}/")).select_one("[data-note-range]")
    assert (link["data-note-half"], link["data-note-range"]) == (half, f"{note.start}-{note.end}")


@pytest.mark.usefixtures("alice")
def test_a_note_on_the_text_of_one_source_is_not_said_to_have_changed_beside_that_of_another(
    client: Client, call: Call
) -> None:
    write(client, call, half="args", quote="echo hello")
    other = create_observation(call, "args", {"command": "other"}, selected=False)
    shown = parse_page(client.get(f"/calls/{call.pk}/?args={other.pk}")).select_one(".note")
    assert "Not on the text in view" in shown.text
    assert "changed since" not in shown.text


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_a_note_whose_text_changed_quotes_what_it_was_about(client: Client, call: Call) -> None:
    note = write(client, call, half="receipt", quote="FAIL two")
    Observation.objects.filter(call=call, surface="receipt").delete()
    create_receipt(call, "another text with FAIL two")
    shown = parse_page(client.get(f"/calls/{call.pk}/")).select_one(".note")
    assert "The text has changed since" in shown.text
    assert shown.select_one("pre").text == "FAIL two"
    assert not parse_page(client.get(f"/notes/{note.pk}/")).has("mark")


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_a_note_on_a_receipt_that_was_replaced_leads_to_that_receipt(client: Client, call: Call) -> None:
    note = write(client, call, half="receipt", quote="FAIL two")
    first = call.receipts.get()
    create_receipt(call, "cleared to save context", seq=2)
    call.receipts.filter(pk=first.pk).update(superseded_line=call.line + 1)
    page = parse_page(client.get(f"/calls/{call.pk}/"))
    assert "cleared to save context" in page.by_id("receipt-text").text
    assert "another receipt" in page.select_one(".note").text
    other = page.by_role("link", "a receipt that is not in view")["href"]
    there = parse_page(client.get(other))
    assert "FAIL two" in there.by_id("receipt-text").text
    assert "another receipt" not in there.select_one(".note").text
    assert parse_page(client.get(f"/notes/{note.pk}/")).select_one("mark").exact == "FAIL two"


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_the_step_of_a_fork_writes_notes_on_the_receipt_that_the_fork_has(
    client: Client, call: Call, project: Project
) -> None:
    own = write(client, call, half="receipt", quote="FAIL two")
    fork = create_run(project, "fork")
    fork.members.create(call=call, ordinal=1, inherited=True)
    create_receipt(call, "the fork got ten lines less", run=fork)
    step = f"/runs/{fork.pk}/1/halves"
    page = parse_page(client.get(step))
    assert "ten lines less" in page.by_id("receipt-text").text
    query = page.select_one(".note-form input[name=query]")["value"]
    form = {"text": "x", "half": "receipt", "quote": "ten lines", "query": query}
    there = client.post(f"/calls/{call.pk}/notes/", form)["Location"]
    assert client.get(there, follow=False)["Location"].partition("#")[0] == step
    for address, other, in_view in ((step, own.pk, own.pk + 1), (f"/calls/{call.pk}/", own.pk + 1, own.pk)):
        noted = parse_page(client.get(address))
        assert "another receipt" in noted.by_id(f"note-{other}").text, address
        shown = noted.by_id(f"note-{in_view}").text
        assert "another receipt" not in shown, address
        assert "has changed" not in shown, address


@pytest.mark.usefixtures("alice")
def test_no_title_that_is_cut_shows_a_part_of_a_secret(client: Client, project: Project) -> None:
    run = create_run(project, title=f"{'t' * 41} {TOKEN}")
    client.post(f"/runs/{run.pk}/notes/", {"text": "x"})
    for address in (f"/notes/{Note.objects.get().pk}/", f"/runs/{run.pk}/notes/", f"/runs/{run.pk}/context"):
        page = parse_page(client.get(address))
        assert "t" * 41 in page.select_one("title").text, address
        assert "a1B2" not in page.html, address


@pytest.mark.usefixtures("alice")
def test_no_quote_stores_a_part_of_a_secret(client: Client, call: Call) -> None:
    page = parse_page(client.get(f"/calls/{call.pk}/"))
    masked = page.select_one("#receipt-text pre").exact.splitlines()[5]
    assert TOKEN not in masked
    for quote in (masked, TOKEN[:20]):
        note = write(client, call, half="receipt", quote=quote)
        assert "a1B2" not in note.quote
        assert "*" in note.quote
        assert OUTPUT[note.start : note.end] in OUTPUT


REFUSED = [
    ({"text": " "}, "A note needs a text."),
    ({"text": "x" * 10_001}, "at most 10,000 are stored"),
    ({"text": "x", "half": "receipt", "quote": "nowhere"}, "This passage is not in the receipt in view"),
    ({"text": "x", "half": "wire", "quote": "FAIL"}, "There is no half “wire”"),
    ({"text": "x", "half": "receipt", "quote": " "}, "choose both, or neither"),
    ({"text": "x", "half": "", "quote": "FAIL"}, "choose both, or neither"),
    ({"text": "x", "half": "receipt", "quote": "x" * 20_001}, "at most 20,000 can be selected"),
]


@pytest.mark.usefixtures("alice")
@pytest.mark.parametrize(("form", "reason"), REFUSED)
def test_a_refused_note_comes_back_with_the_reason(
    client: Client, call: Call, form: dict[str, str], reason: str
) -> None:
    response = client.post(f"/calls/{call.pk}/notes/", form)
    page = parse_page(response)
    assert response.status_code == 422
    assert reason in page.by_role("alert").text
    assert page.by_id("note-text").text == form["text"].strip()
    assert not Note.objects.exists()


@pytest.mark.postgresql
def test_a_note_is_changed_and_deleted_by_its_author_and_by_operators(
    client: Client, call: Call, alice: User, project: Project
) -> None:
    note = write(client, call)
    vera = create_user("vera", project=project, role="viewer")
    client.force_login(vera)
    page = parse_page(client.get(f"/calls/{call.pk}/"))
    assert page.has(".note")
    assert not page.has(".annotations form")
    assert client.post(f"/notes/{note.pk}/", {"text": "no"}).status_code == 403
    assert client.post(f"/calls/{call.pk}/notes/", {"text": "no"}).status_code == 403
    Note.objects.update(created_by=vera)
    assert client.post(f"/notes/{note.pk}/", {"text": "mine"}).status_code == 302
    client.force_login(alice)
    assert "changed" in parse_page(client.get(f"/notes/{note.pk}/")).select_one(".note-head").text
    assert client.post(f"/notes/{note.pk}/", {"do": "delete"}).status_code == 302
    assert not Note.objects.exists()
    changes = AuditEntry.objects.filter(action="annotation").order_by("pk").values_list("person", "subject")
    ends = ["added", "changed", "deleted"]
    assert [(person, subject.split()[-1]) for person, subject in changes] == list(
        zip(("alice", "vera", "alice"), ends, strict=True)
    )


@pytest.mark.usefixtures("alice")
@pytest.mark.postgresql
def test_a_deleted_run_takes_its_annotations_with_it(client: Client, call: Call) -> None:
    for noun, key in (("runs", call.run_id), ("calls", call.pk)):
        client.post(f"/{noun}/{key}/notes/", {"text": "x"})
        for form in ({"do": "tag", "tag": "flaky"}, {"do": "assign", "to": "alice"}, {"do": "review"}):
            assert client.post(f"/{noun}/{key}/annotate/", form).status_code == 302
    delete_run(Run.objects.get(pk=call.run_id))
    assert not Note.objects.exists()

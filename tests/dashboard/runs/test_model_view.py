"""The model view: what did the model actually see?"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard.ingest.importer import import_paths
from dashboard.models import Message, Project, RecordedReceipt, Run, RunCall, load_slices
from dashboard.runs.model_history import MAX_ITEMS, HistoryEntry, load_history
from dashboard.runs.timeline import WHOLE_BYTES, HistoryCursor, Timeline
from dashboard.text.payload_preview import Payload, preview_parts
from tests.dashboard.factories import (
    START,
    create_call,
    create_event,
    create_message,
    create_receipt,
    create_run,
)
from tests.dashboard.page_text import Page, assert_harmless, parse_page
from tests.dashboard.sessions import encoded

HTMX = {"HX-Request": "true"}
HOSTILE = '<script>alert(1)</script><b hx-post="/runs/" hx-trigger="load">\u202e\x1b[31m'


@pytest.fixture
def run(project: Project) -> Run:
    return create_run(project, "session-one", title="Fix the login")


def load(client: Client, run: Run, query: str = "", **headers: str) -> Page:
    response = client.get(f"/runs/{run.pk}/context{query}", headers=headers)
    assert response.status_code == 200
    return parse_page(response)


def receipt_at(call_line: int, run: Run, text: str, *, line: int, **fields: object) -> RecordedReceipt:
    """A call at `call_line` with a receipt at `line`, as a session has them."""
    call = create_call(run, line=call_line)
    receipt = create_receipt(call, text, **fields)
    receipt.line = line
    receipt.save()
    return receipt


def texts(entries: tuple[HistoryEntry, ...]) -> list[str]:
    return [" ".join([entry.kind, *(str(text.body) for text in entry.texts)]) for entry in entries]


def notes(entry: HistoryEntry) -> list[str]:
    return [note.text for note in entry.notes]


def test_messages_calls_and_receipts_are_in_the_order_of_the_recording(run: Run) -> None:
    create_message(run, "Please list the files.", line=1)
    receipt_at(2, run, "a.py\nb.py", line=3)
    create_message(run, [{"type": "text", "text": "There are two."}], role="assistant", line=4)
    assert texts(load_history(run).entries) == [
        "message Please list the files.",
        "call echo hello",
        "receipt a.py\nb.py",
        "message There are two.",
    ]


def test_parts_are_parts_and_unknown_blocks_are_their_json(run: Run) -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "hologram", "depth": 3},
    ]
    create_message(run, blocks, role="assistant", line=1)
    parts = load_history(run).entries[0].texts
    assert [(part.label, str(part.body)) for part in parts] == [
        ("thinking", "Hm."),
        ("", "Look:"),
        ("image", "image/png, 3 B"),
        ("hologram", "{&quot;type&quot;:&quot;hologram&quot;,&quot;depth&quot;:3}"),
    ]
    receipt_at(2, run, blocks[1:3], line=3)
    assert notes(load_history(run).entries[-1]) == ["recorded as seen", "images not counted"]


@pytest.mark.parametrize(
    ("fidelity", "words"),
    [
        ("exact", "the model saw"),
        ("recorded", "recorded as seen"),
        ("inflated", "inflated: longer than what the model saw"),
    ],
)
def test_only_an_exact_receipt_is_marked_as_seen(run: Run, fidelity: str, words: str) -> None:
    receipt_at(1, run, "text", line=2, fidelity=fidelity)
    assert notes(load_history(run).entries[1])[0] == words


def test_a_call_without_a_receipt_says_that_nothing_answered_it(run: Run) -> None:
    create_call(run, line=1)
    assert notes(load_history(run).entries[0]) == ["no receipt recorded: nothing answered this call"]


def test_content_before_a_compaction_is_marked_and_the_gauge_begins_again(run: Run) -> None:
    create_message(run, "long ago", line=1, tokens=700)
    create_event(run, "compact_boundary", line=2, message="Conversation compacted", at=START)
    create_message(run, "the summary", line=3, tokens=50)
    before, mark, after = load_history(run).entries
    assert notes(before) == ["compacted away later"]
    assert before.notes[0].title == (
        "The history was compacted at line 2 (2026-03-01 09:00:00 UTC); after that the model no longer saw this."
    )
    assert mark.heading == "Conversation compacted. The model no longer saw anything above this line."
    assert notes(after) == []
    assert [entry.weight.shown for entry in (before, mark, after)] == [700, 0, 50]


def test_content_that_a_compaction_may_have_kept_is_not_marked_as_gone(run: Run) -> None:
    create_message(run, "long ago", line=1, tokens=700)
    create_event(run, "partial_compact_boundary", line=2, message="compacted, but for 2 messages that stayed", at=START)
    before, mark = load_history(run).entries
    assert notes(before) == ["compacted later, perhaps kept"]
    unless = "this, unless it is in a message that stayed (compacted, but for 2 messages that stayed)."
    assert before.notes[0].title.endswith(unless)
    assert mark.heading.endswith(
        "The model no longer saw anything else above this line; what stayed is not in the count below."
    )


def test_a_replaced_receipt_is_marked_where_it_was_and_where_it_ended(run: Run) -> None:
    old = receipt_at(1, run, "the whole file", line=2, tokens=900)
    RecordedReceipt.objects.filter(pk=old.pk).update(superseded_line=5, superseded_reason="micro-compaction")
    new = create_receipt(old.call, "[cleared]", seq=2, tokens=3)
    RecordedReceipt.objects.filter(pk=new.pk).update(line=5)
    entries = load_history(run).entries
    assert [entry.kind for entry in entries] == ["call", "receipt", "receipt", "replacement"]
    assert "cleared from the context at line 5: micro-compaction" in notes(entries[1])
    assert entries[3].heading == "1 earlier receipt cleared from the context: micro-compaction."
    args = entries[0].tokens
    assert entries[3].weight.shown == args + 3
    create_event(run, "compact_boundary", line=4)
    entries = load_history(run).entries
    assert [(entry.kind, entry.weight.shown) for entry in entries[2:]] == [
        ("compaction", 0),
        ("receipt", 3),
        ("replacement", 3),
    ]


def test_a_copied_receipt_stands_at_its_own_line_of_the_run_that_copied_it(project: Project, run: Run) -> None:
    receipt = receipt_at(50, run, "from before", line=60)
    fork = create_run(project, "fork")
    RunCall.objects.create(run=fork, call=receipt.call, ordinal=2, inherited=True)
    create_message(fork, "while it ran", line=3)
    RecordedReceipt.objects.create(
        id=UUID(int=1),
        run=fork,
        call=receipt.call,
        seq=1,
        observation=receipt.observation,
        fidelity="recorded",
        line=4,
    )
    entries = load_history(fork).entries
    assert [(entry.kind, entry.line) for entry in entries] == [("call", 2), ("message", 3), ("receipt", 4)]
    assert "copied from another run's history" in notes(entries[0])
    assert [entry.kind for entry in load_history(run).entries] == ["call", "receipt"]


def test_pages_forwards_and_backwards_show_every_item_once(run: Run) -> None:
    for line in range(1, 2 * MAX_ITEMS + 11):
        create_message(run, f"message {line}", line=1 + line // 3, tokens=10)
    forwards, seen = load_history(run), []
    while True:
        seen += texts(forwards.entries)
        if not forwards.after:
            break
        total = forwards.before + len(forwards.entries) + forwards.after
        assert total == 2 * MAX_ITEMS + 10
        forwards = load_history(run, after=forwards.last)
    backwards, again = load_history(run, at_end=True), []
    assert backwards.entries[-1].weight.shown == 10 * (2 * MAX_ITEMS + 10)
    while True:
        again = texts(backwards.entries) + again
        if not backwards.before:
            break
        backwards = load_history(run, before=backwards.first)
    assert seen == again
    assert len(set(seen)) == len(seen) == 2 * MAX_ITEMS + 10


@pytest.mark.usefixtures("alice")
def test_what_is_left_out_is_counted_and_one_step_away(client: Client, run: Run) -> None:
    for line in range(1, MAX_ITEMS + 6):
        create_message(run, f"message {line}", line=line)
    assert "5 earlier left out" in load(client, run, "?at=end").select_one(".earlier").text
    later = load(client, run).select_one(".sentinel a")
    assert (later.text, later["hx-get"], later["hx-trigger"]) == ("5 later", later["href"], "intersect once")
    fragment = load(client, run, later["href"], **HTMX)
    assert fragment.by_text("message 45")
    assert fragment.is_fragment


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_a_long_text_is_bounded_by_the_page_and_never_looks_like_a_cut(client: Client, run: Run) -> None:
    message = create_message(run, "y" * 20_000, line=1)
    page = load(client, run)
    bound = "This page shows 8,192 of 20,000 characters; the page shortened it, not the runtime."
    assert page.texts(".viewer-bound") == [bound, "Show all of it"]
    assert page.select_one(".history pre").exact == "y" * 8_192
    whole = load(client, run, page.by_role("link", "Show all of it")["href"].partition("context")[2])
    assert whole.select_one("pre").exact == "y" * 20_000
    assert str(message.pk) in page.by_role("link", "Show all of it")["href"]


@pytest.mark.usefixtures("alice")
def test_a_message_of_any_length_is_read_in_windows(client: Client, run: Run) -> None:
    message = create_message(run, "a" * 70_000 + "the end", line=1)
    first = load(client, run, f"?message={message.pk}")
    assert "the end" not in first.select_one("pre").exact
    second = load(client, run, first.by_role("link", "next")["href"])
    assert first.select_one("pre").exact + second.select_one("pre").exact == "a" * 70_000 + "the end"


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_a_message_comes_raw_as_it_was_recorded(client: Client, run: Run) -> None:
    message = create_message(run, "x", line=1)
    message.own_data = b'{"a": 1.0, "a": 1.00}'
    message.save()
    response = client.get(f"/runs/{run.pk}/context?message={message.pk}&raw=1")
    assert response.content == b'{"a": 1.0, "a": 1.00}'
    assert response["Content-Disposition"].startswith("attachment")
    assert response["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
    assert response["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize("key", ["x", "", "00000000-0000-0000-0000-000000000000"])
@pytest.mark.usefixtures("alice")
def test_a_message_that_is_not_of_this_run_does_not_exist(client: Client, run: Run, key: str) -> None:
    assert client.get(f"/runs/{run.pk}/context?message={key}").status_code == 404


def test_a_huge_payload_is_read_only_as_far_as_it_is_shown(run: Run) -> None:
    create_message(run, "é" * WHOLE_BYTES, line=1)
    (text,) = load_history(run).entries[0].texts
    assert text.total is None
    assert str(text.body) == "é" * 8_192


def test_the_head_of_a_string_ends_before_a_broken_escape() -> None:
    head = b'"' + b"a" * 10 + b"\\ud83"
    (text,) = preview_parts(Payload(head, 5_000))
    assert str(text.body) == "a" * 10


def test_a_page_of_heavy_items_ends_early_and_goes_on(run: Run) -> None:
    for line in range(1, 31):
        create_message(run, '"' * 8_000, line=line)
    history = load_history(run)
    assert len(history.entries) < 30
    assert history.after == 30 - len(history.entries)
    end = load_history(run, at_end=True)
    assert end.entries[-1].line == 30
    assert end.before == 30 - len(end.entries)
    assert end.after == 0


@pytest.mark.parametrize("number", [10, 100])
@pytest.mark.usefixtures("alice")
def test_the_queries_are_as_many_for_10_calls_as_for_100(
    client: Client, run: Run, number: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    create_message(run, "go", line=1)
    create_event(run, "compact_boundary", line=2)
    for line in range(3, 2 * number, 2):
        receipt_at(line, run, "done", line=line + 1)
    client.get(f"/runs/{run.pk}/context")
    with django_assert_num_queries(23):
        client.get(f"/runs/{run.pk}/context")


@pytest.mark.usefixtures("alice")
def test_hostile_text_is_text(client: Client, run: Run) -> None:
    message = create_message(run, HOSTILE, role=HOSTILE[:30], line=1)
    create_call(run, line=2, tool=HOSTILE, args={HOSTILE: HOSTILE}, receipt=HOSTILE)
    create_event(run, "compact_boundary", line=9, message=HOSTILE)
    for page in (load(client, run), load(client, run, f"?message={message.pk}")):
        assert_harmless(page)


@pytest.mark.parametrize("query", ["?after=1-0-zz", "?before=%00", "?after=9-9-" + "f" * 32, "?before=-1-0-0"])
@pytest.mark.usefixtures("alice")
def test_a_mangled_place_is_answered_with_a_page(client: Client, run: Run, query: str) -> None:
    create_message(run, "hello", line=1, at=START + timedelta(seconds=1))
    page = load(client, run, query)
    is_behind_the_end = query == "?after=9-9-" + "f" * 32
    assert page.by_role("heading", "History of the run")
    assert bool(page.all_by_text("that does not exist; these are its first items")) is not is_behind_the_end
    assert bool(page.all_by_text("There is no item at this place. The history has 1 item,")) is is_behind_the_end


@pytest.mark.postgresql
def test_messages_of_one_line_are_in_its_order_on_every_page(project: Project, tmp_path: Path) -> None:
    """The history that a compression of Qwen Code left is one line."""
    words = [f"text {number}" for number in range(9)]
    history = [{"role": "user", "parts": [{"text": text}]} for text in words]
    place = {"sessionId": "s", "timestamp": "2026-11-27T10:00:00.000Z"}
    asked = {**place, "uuid": "u1", "type": "user", "message": {"role": "user", "parts": [{"text": "do it"}]}}
    left = {"subtype": "chat_compression", "systemPayload": {"compressedHistory": history}}
    lines = [encoded(asked), encoded({**place, "uuid": "u2", "type": "system", **left})]
    (tmp_path / "s.jsonl").write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for line in lines))
    import_paths(project, [tmp_path / "s.jsonl"])
    timeline = Timeline(Run.objects.get())
    items = timeline.after(None, 20)
    messages = [item.row for item in items if isinstance(item.row, Message)]
    load_slices(messages)
    said = [json.loads(message.data)[0]["text"] for message in messages]
    assert said == ["do it", *words]
    cursors = [item.cursor for item in items]
    assert [HistoryCursor.parse(str(cursor)) for cursor in cursors] == cursors
    for number, cursor in enumerate(cursors):
        assert [item.cursor for item in timeline.after(cursor, 2)] == cursors[number + 1 : number + 3]
        assert [item.cursor for item in timeline.before(cursor, 2)] == cursors[max(0, number - 2) : number]
        assert timeline.counts(cursor, since=-1).before == number


def test_a_link_to_a_place_in_the_history_that_is_older_than_its_order_still_leads_there() -> None:
    assert HistoryCursor.parse(f"7-1-{UUID(int=5).hex}") == HistoryCursor(7, 1, key=UUID(int=5))

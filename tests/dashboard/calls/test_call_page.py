"""The Call page: what did the tool return, and what did the model get?"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.evidence.fidelity import RECEIPT
from dashboard.models import Call, Project, Run
from envelopes.alignment.mapping import ReceiptFidelity
from tests.cases import each
from tests.dashboard.factories import (
    START,
    create_event,
    create_observation,
    create_project,
    create_receipt,
    create_run,
    create_user,
)
from tests.dashboard.page_text import Page, assert_harmless, parse_page
from tests.dashboard.recorded_calls import HOSTILE, bash, load_call, read_result, receipt_text, recorded

HTMX = {"HX-Request": "true"}


@pytest.fixture
def run(project: Project, alice: User) -> Run:
    return create_run(project, "session-one", title="Fix the login")


def neighbour(page: Page, relation: str) -> str:
    """The address of the next or previous call, empty at the ends."""
    links = page.select(f"a[rel={relation}]")
    return links[0]["href"] if links else ""


def test_both_halves_are_side_by_side(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, "hello\nworld\n"))
    result, receipt = page.select(".halves > .half")
    assert (result["aria-label"], receipt["aria-label"]) == ("What the tool returned", "Recorded as seen by the model")
    assert result.select_one('[data-pointer="/tool_name"]').text == '"Bash"'
    assert receipt_text(receipt) == "hello\nworld\n"
    assert page.select_one(".args .text-argument").text == "make test"


def test_a_field_and_its_characters_carry_the_same_pointer(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, "hello\nworld"))
    linked = page.select_one(".linked[data-recorded='/stdout']")
    assert (linked["data-at"], linked.exact) == ("0-11", "hello\nworld")
    field = page.select_one(f".json [data-pointer='{linked['data-pointer']}']")
    assert field.text.startswith('"hello')
    assert page.select_one(".share").text == "11 of 11 characters come from the result."


def test_the_recorded_result_is_one_key_away_and_lights_up_too(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, "hello\n"), "?left=recorded")
    result = page.select_one("[data-half=recorded]")
    assert result.select_one("[data-recorded='/stdout']").text.startswith('"hello')
    assert not page.has("[data-pointer='/tool_name']")
    assert result.select_one("[data-key=r]").text == "Canonical"


def test_the_runtimes_own_words_are_distinguished(client: Client, run: Run) -> None:
    result = read_result("one\ntwo", 1, 2)
    page = load_call(client, recorded(run, "Read", {"file_path": "/a"}, result, "     1→one\n     2→two\n"))
    segments = page.select_one(".segments")
    assert segments.exact == "     1→one\n     2→two\n"
    assert [(linked["data-at"], linked.exact) for linked in segments.select(".linked")] == [
        ("0-3", "one"),
        ("4-7", "two"),
    ]
    assert page.select_one(".share").text.endswith("come from the result; the rest was added by the runtime.")


def test_a_cut_is_drawn_to_scale_and_leads_to_what_was_missed(client: Client, run: Run) -> None:
    lines = [f"line {number} of a long output" for number in range(1, 1_001)]
    preview = "\n".join(lines[:40])
    receipt = (
        "<persisted-output>\nOutput too large (25.1KB). Full output saved to: /x/y.txt\n\n"
        f"Preview (first 2KB):\n{preview}\n...\n</persisted-output>"
    )
    call = bash(run, "\n".join(lines), receipt)
    cuts = load_call(client, call).select_one(".cuts")
    assert "By the recording, the model got lines 1–40 of 1,000; 960 not seen." in cuts.text
    seen, unseen = cuts.select("rect:not(.outside)")
    assert (seen.classes, seen["x"], seen["width"]) == (["seen"], "0.00", "40.00")
    assert (unseen.classes, unseen["x"], unseen["width"]) == (["unseen"], "40.00", "960.00")
    assert [rect.text for rect in (seen, unseen)] == ["lines 1–40: seen by the model", "lines 41–1,000: not seen"]
    assert cuts.by_role("link")["href"] == f"/artifacts/{call.artifacts.get().pk}/?from=31&line=41#L31"


@each("fidelity", ["exact", "recorded", "inflated", "reconstructed", "masked"])
def test_the_page_claims_no_more_than_the_source_knows(client: Client, run: Run, fidelity: ReceiptFidelity) -> None:
    call = bash(run, "hello\n")
    call.observations.filter(surface="receipt").update(fidelity=fidelity)
    receipt = load_call(client, call).select_one("[data-half=receipt]")
    assert RECEIPT[fidelity].means in receipt.text
    assert receipt.select_one(".explains summary").text == RECEIPT[fidelity].badge
    assert (receipt.select_one("h2").text == "The model saw") == (fidelity == "exact")


def test_a_failed_command_shows_its_exit_code_beside_its_outcome(client: Client, run: Run) -> None:
    call = recorded(run, "Bash", {"command": "false"}, "Error: Exit code 1\nno", "Exit code 1\nno", source_error=True)
    page = load_call(client, call)
    assert page.texts(".step-head .step-line > .badge") == ["failed, exit 1"]
    assert page.facts["Envelope"] == "success: the tool ran and reported exit 1"
    links = [(linked["data-pointer"], linked["data-at"]) for linked in page.select(".linked[data-recorded='']")]
    assert links == [("/result/exit_status", "7-19"), ("/result/combined_output_preview", "19-21")]


def test_an_error_has_its_kind_message_and_whether_to_try_again(client: Client, run: Run) -> None:
    message = "<tool_use_error>File does not exist.</tool_use_error>"
    call = recorded(run, "Read", {"file_path": "/no"}, "Error: File does not exist.", message, source_error=True)
    failure = load_call(client, call).select_one(".failure")
    assert failure.select_one("b").text == "missing_file"
    assert failure.select_one(".badge").text == "not retryable"
    assert failure.select_one("pre").text == "File does not exist."


def test_an_unanswered_call_says_so(client: Client, run: Run) -> None:
    page = load_call(client, recorded(run, "Bash", {"command": "sleep 9"}, None, None))
    assert page.by_text("The recording has no answer to this call.")
    assert page.by_role("heading", "No receipt was recorded")


def test_waiting_for_a_person_is_not_called_work(client: Client, run: Run) -> None:
    facts = load_call(client, bash(run, "x", duration_ms=192_000, tool_ms=2_000)).facts
    assert facts["Work"] == "2.0 s"
    assert facts["Waited"] == "3 min 10 s for a permission or its turn"
    assert load_call(client, bash(run, "y", duration_ms=3_200)).facts["Took"] == "3.2 s (with any waiting)"


def test_an_earlier_receipt_can_be_looked_at_with_when_and_why_it_went(client: Client, run: Run) -> None:
    call = bash(run, "hello\n")
    first = call.receipts.get()
    first.superseded_line, first.superseded_at, first.superseded_reason = 90, START, "microcompact"
    first.save()
    create_receipt(call, "[Old tool result content cleared]", seq=2)
    current = load_call(client, call)
    assert receipt_text(current) == "[Old tool result content cleared]"
    choices = current.by_role("navigation", "Receipts of this call in time")
    earlier = load_call(client, call, choices.by_role("link", "Receipt 1")["href"])
    assert receipt_text(earlier) == "hello\n"
    notice = earlier.by_text("Cleared from the context at line 90").text
    assert "(microcompact). Until then it was in the context." in notice
    assert "Receipt 1: microcompact" in choices.text
    first.superseded_reason = ""
    first.save()
    assert "Receipt 1: replaced" in load_call(client, call).text


def test_sources_that_disagree_can_each_be_looked_at(client: Client, run: Run) -> None:
    call = bash(run, "hello\n")
    other = create_observation(call, "args", {"command": "make other"}, selected=False)
    choices = load_call(client, call).by_role("navigation", "Sources of the args")
    assert "Logs disagree about the args" in choices.text
    assert f"/calls/{call.pk}/?args={other.pk}" in [link["href"] for link in choices.all_by_role("link")]
    assert load_call(client, call, f"?args={other.pk}").select_one(".args .text-argument").text == "make other"


@pytest.mark.postgresql
def test_attempts_and_events_and_the_child_run_are_there(client: Client, run: Run, project: Project) -> None:
    child = create_run(project, "agent-7", title="Look into it")
    bash(run, "first", step="s1", attempt=1)
    call = bash(run, "second", step="s1", attempt=2, child_run=child.pk)
    create_event(run, "bash_progress", call=call.pk, message="halfway")
    page = load_call(client, call)
    assert page.facts["Attempt"] == "1 succeeded 2 succeeded"
    assert page.select_one(".events").rows("tbody tr")[0][2:] == ["bash_progress", "halfway"]
    assert page.by_role("link", "Look into it")["href"] == f"/runs/{child.pk}/"


def test_j_and_k_walk_the_list_that_one_came_from_with_its_filter(client: Client, run: Run, settings: Settings) -> None:
    first, second, third = (bash(run, f"call {n}", line=n, summary=f"said {n}") for n in range(3))
    Call.objects.filter(pk=second.pk).update(tool="Grep")
    page = load_call(client, first, f"?from=run&run={run.pk}&q=tool%3ABash")
    assert neighbour(page, "next") == f"/runs/{run.pk}/3/halves?q=tool%3ABash"
    assert page.select_one(".walk .number").text == "1 of 2 in the filter"
    assert page.by_role("link", "Fix the login")["href"] == f"/runs/{run.pk}/?q=tool%3ABash#c-{first.pk}"
    assert neighbour(load_call(client, first), "next") == f"/runs/{run.pk}/2/halves"
    assert neighbour(load_call(client, third), "next") == ""
    settings.ROWS_PER_PAGE = 2
    up = load_call(client, third).by_role("link", "Fix the login")
    assert up["href"] == f"/runs/{run.pk}/?skip=2#c-{third.pk}"


def test_the_open_form_is_kept_while_walking(client: Client, run: Run) -> None:
    first, _ = bash(run, "one", line=1), bash(run, "two", line=2)
    page = load_call(client, first, "?left=recorded")
    assert neighbour(page, "next") == f"/runs/{run.pk}/2/halves?left=recorded"


def test_calls_of_one_line_are_walked_one_by_one(client: Client, run: Run) -> None:
    for number in range(3):
        bash(run, f"call {number}", line=7)
    first, second, third = (f"/runs/{run.pk}/{position}/halves" for position in (1, 2, 3))
    pages = [load_call(client, call) for call in Call.objects.order_by("pk")]
    assert [neighbour(page, "next") for page in pages] == [second, third, ""]
    assert [neighbour(page, "prev") for page in pages] == ["", first, second]


@pytest.mark.postgresql
def test_a_call_outside_the_filter_says_so(client: Client, run: Run) -> None:
    page = load_call(client, bash(run, "x"), "?q=tool:Grep")
    assert page.select_one(".walk .number").text == "this call is outside the filter"


def test_htmx_gets_the_open_step_alone(client: Client, run: Run) -> None:
    bash(run, "hello\n")
    response = client.get(f"/runs/{run.pk}/1/halves?spaces=1", headers={**HTMX, "HX-Target": "step"})
    assert response["Vary"].count("HX-Request") == 1
    page = parse_page(response)
    assert [element.get("id") for element in page.select("body > *")] == ["step"]
    assert page.title == "1 · Bash: hello · Counterfoil"
    assert page.select_one(".mark-space").exact == "↵\n"


def test_hostile_output_is_shown_as_text(client: Client, run: Run) -> None:
    raw = json.dumps({"stdout": HOSTILE + "\ud800", "stderr": "", "interrupted": False}).encode()
    receipt = json.dumps(HOSTILE + "\ud800").encode()
    call = recorded(run, "Bash", {"command": HOSTILE}, raw, receipt)
    for query in ("", "?left=recorded", "?spaces=1"):
        assert_harmless(load_call(client, call, query))
    assert receipt_text(load_call(client, call)) == HOSTILE + "\ud800"


def every_fragment(client: Client, call: Call, half: str) -> str:
    """All chunks of a half, as `load the next part` loads them."""
    text, address = "", f"/calls/{call.pk}/half/{half}/?offset=0"
    while address:
        response = client.get(address, headers=HTMX)
        assert len(response.content) < 1_000_000
        page = parse_page(response)
        text += "".join(part.exact for part in page.select("pre[data-exact]"))
        more = page.select(".more a")
        address = more[0]["href"] if more else ""
    return text


@pytest.mark.rendering
def test_fragments_in_a_row_are_exactly_the_recorded_text(client: Client, run: Run) -> None:
    stdout = "".join(f"{number}: \U0001f600\U0001f600 \r\x07 <b>\n" for number in range(9_000))
    call = bash(run, stdout)
    assert every_fragment(client, call, "receipt") == stdout
    recorded_json = every_fragment(client, call, "recorded")
    assert json.loads(recorded_json)["stdout"] == stdout
    assert every_fragment(client, call, "args") == '{\n  "command": "make test"\n}'


@pytest.mark.rendering
def test_one_line_of_5_mb_is_shown_in_windows(client: Client, run: Run) -> None:
    call = bash(run, "x" * 5_000_000)
    response = client.get(f"/calls/{call.pk}/")
    assert len(response.content) < 300_000
    more = parse_page(response).select_one("[data-half=receipt] .more")
    assert "the first 32,768 of 5,000,000 characters; the recording has all of them." in more.text
    assert more.by_role("link")["href"] == f"/calls/{call.pk}/half/receipt/?offset=32768&run={run.pk}"


@pytest.mark.extended
@pytest.mark.rendering
@pytest.mark.parametrize("unit", ["a \x00", "\u202e", "\n", '"', " \t", "\U0001f600", "<&>"])
def test_no_answer_passes_1_mb_whatever_a_tool_wrote(client: Client, run: Run, unit: str) -> None:
    output = unit * (600_000 // len(unit))
    result = {"stdout": output, "stderr": "", "interrupted": False}
    call = recorded(run, "Bash", {"command": output, "description": output}, result, output)
    for address in (
        "?left=recorded&spaces=1",
        "half/receipt/?offset=1&spaces=1",
        "half/recorded/?offset=1",
        "half/args/",
    ):
        assert len(client.get(f"/calls/{call.pk}/{address}").content) < 1_000_000


def test_a_later_window_is_a_page_of_its_own_without_htmx(client: Client, run: Run) -> None:
    call = bash(run, "line\n" * 20_000)
    page = load_call(client, call, "half/receipt/?offset=50000")
    assert page.by_role("heading", "Receipt")
    assert "Characters 50,000 to" in page.select_one(".page-head .muted").text


@pytest.mark.parametrize("address", ["half/wires/", "raw/timing", "?as=pdf"])
def test_what_does_not_exist_is_not_found(client: Client, run: Run, address: str) -> None:
    assert client.get(f"/calls/{bash(run, 'x').pk}/{address}").status_code == 404


@pytest.mark.parametrize("offset", ["-1", "x", "", "9" * 30])
def test_a_part_of_a_half_from_no_number_on_is_refused_with_a_sentence(client: Client, run: Run, offset: str) -> None:
    response = client.get(f"/calls/{bash(run, 'x').pk}/half/receipt/?offset={offset}")
    assert response.status_code == 400
    assert "This part of a page needs offset=, a whole number" in parse_page(response).text


def png(width: int, height: int) -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IEND", b"")).decode()


def image(data: str, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def test_parts_are_shown_as_parts(client: Client, run: Run) -> None:
    content = [{"type": "text", "text": "Look:"}, image(png(8, 6)), {"type": "novel", "x": "<script>"}]
    page = load_call(client, recorded(run, "mcp__a__b", {}, content, content))
    assert page.texts(".part-head") == ["Part 1: text", "Part 2: image", "Part 3: novel"]
    assert page.select_one("figure img")["src"].startswith("data:image/png;base64,")
    assert "8 × 6 pixels" in page.select_one("figcaption").text
    assert page.by_text("This kind of part is unknown; this is its JSON.")
    assert '{"type":"novel","x":"<script>"}' in page.texts("pre.exact")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (base64.b64encode(b"<svg onload=alert(1)>").decode(), "not a PNG, JPEG, GIF or WebP"),
        ("%%%", "not base64"),
        (png(40_000, 40_000), "40000 × 40000 pixels are too many"),
    ],
)
def test_a_picture_that_is_none_is_named_and_not_shown(client: Client, run: Run, data: str, why: str) -> None:
    page = load_call(client, recorded(run, "mcp__a__b", {}, [image(data)], [image(data)]))
    assert why in page.select_one("[data-half=receipt]").text
    assert not page.has("img")


def test_the_recorded_bytes_come_as_an_attachment(client: Client, run: Run) -> None:
    call = recorded(run, "Bash", {"command": "x"}, b'{"stdout": "a",  "n": 1.00}', b'"a"')
    response = client.get(f"/calls/{call.pk}/raw/result")
    assert response.content == b'{"stdout": "a",  "n": 1.00}'
    assert response["Content-Disposition"].startswith("attachment;")
    assert response["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
    assert response["X-Content-Type-Options"] == "nosniff"


@pytest.mark.postgresql
def test_a_receipt_is_copied_exactly(client: Client, run: Run) -> None:
    call = bash(run, "  spaced \t\r\n\x1b[1m```\n")
    text = client.get(f"/calls/{call.pk}/?as=text&what=receipt")
    assert text.content.decode() == "  spaced \t\r\n\x1b[1m```\n"
    assert text["Content-Type"] == "text/plain; charset=utf-8"
    assert json.loads(client.get(f"/calls/{call.pk}/?as=json&what=receipt").content) == "  spaced \t\r\n\x1b[1m```\n"


def test_a_copied_receipt_cannot_leave_its_markdown_fence(client: Client, run: Run) -> None:
    call = bash(run, "````\n# not a heading\n")
    copied = client.get(f"/calls/{call.pk}/?as=markdown&what=receipt").content.decode()
    assert copied == "`````text\n````\n# not a heading\n`````"


def test_a_call_is_copied_with_its_recorded_numbers(client: Client, run: Run) -> None:
    call = recorded(run, "Bash", b'{"command":"x","timeout":1.00,"n":NaN}', {"stdout": "a"}, "a")
    copied = client.get(f"/calls/{call.pk}/?as=json").content.decode()
    assert '"args":{"command":"x","timeout":1.00,"n":"NaN"}' in copied
    assert json.loads(copied)["canonical"]["tool_name"] == "Bash"
    assert "## receipt" in client.get(f"/calls/{call.pk}/?as=markdown").content.decode()
    assert "--- arguments ---" in client.get(f"/calls/{call.pk}/?as=text").content.decode()


@pytest.mark.parametrize(("headers", "number"), [({}, 20), ({**HTMX, "HX-Target": "step"}, 17)])
def test_the_number_of_queries_does_not_grow_with_the_run(
    client: Client,
    run: Run,
    django_assert_num_queries: DjangoAssertNumQueries,
    headers: dict[str, str],
    number: int,
) -> None:
    """The page of a step, and the open step alone, which is what a walk from step to step asks for."""
    call = bash(run, "hello\n", step="s1", line=1)
    address = f"/runs/{run.pk}/1/halves"
    client.get(address)  # the first visit writes the session
    with django_assert_num_queries(number):
        client.get(address, headers=headers)
    for line in range(2, 32):
        bash(run, f"more {line}", line=line)
        create_event(run, call=call.pk)
    with django_assert_num_queries(number):
        client.get(address, headers=headers)
    with django_assert_num_queries(number - 1):  # in the middle of the run; a call without a step has no attempts
        client.get(f"/runs/{run.pk}/20/halves", headers=headers)


def test_nobody_outside_the_project_gets_in(client: Client, run: Run) -> None:
    call = bash(run, "secret")
    client.force_login(create_user("charlie", project=create_project("other")))
    for address in ("", "half/receipt/", "raw/result", "?as=text"):
        assert client.get(f"/calls/{call.pk}/{address}").status_code == 404
    assert client.get(f"/calls/{UUID(int=7)}/").status_code == 404


def test_a_viewer_sees_the_call(client: Client, run: Run, project: Project) -> None:
    call = bash(run, "hello\n")
    client.force_login(create_user("bob", project=project, role="viewer"))
    assert receipt_text(load_call(client, call)) == "hello\n"

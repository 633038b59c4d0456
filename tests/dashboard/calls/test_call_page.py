"""The Call page: what is true, and what did the model get?"""

from __future__ import annotations

import base64
import html
import json
import re
import struct
import zlib
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.evidence.fidelity import RECEIPT
from dashboard.ingest.derive import derive
from dashboard.models import Call, Project, Run
from envelopes.alignment.mapping import ReceiptFidelity
from tests.dashboard.factories import (
    START,
    create_call,
    create_event,
    create_observation,
    create_project,
    create_receipt,
    create_run,
    create_user,
)
from tests.dashboard.page_text import text_of

HTMX = {"HX-Request": "true"}
HOSTILE = '<script>alert(1)</script><b hx-post="/runs/" hx-trigger="load">\u202egnp\x1b[31m\x00 \\'


@pytest.fixture
def run(project: Project, alice: User) -> Run:
    return create_run(project, "session-one", title="Fix the login")


def recorded(run: Run, tool: str, args: Any, result: Any, receipt: Any, **fields: Any) -> Call:
    """A call as an import leaves it: read by its agent's family, with its projection and artifacts."""
    made = create_call(run, args=args, receipt=receipt, tool=tool, **fields)
    if result is not None:
        create_observation(made, "result", result)
    made.namespace = "claude-code"
    derived = derive(made, {one.surface: one for one in made.observations.all()})
    for column, content in (derived.columns | fields).items():
        setattr(made, column, content)
    made.save()
    derived.projection.save(force_insert=True)
    for artifact in derived.artifacts:
        artifact.save(force_insert=True)
    return made


def bash(run: Run, stdout: str, receipt: Any = None, **fields: Any) -> Call:
    result = {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False}
    return recorded(run, "Bash", {"command": "make test"}, result, stdout if receipt is None else receipt, **fields)


def body(client: Client, call: Call, query: str = "", **headers: str) -> str:
    response = client.get(f"/calls/{call.pk}/{query}", headers=headers)
    assert response.status_code == 200
    return response.content.decode()


def receipt_of(page: str) -> str:
    return "".join(
        text_of(found) for found in re.findall(r'<pre class="exact" data-exact dir="auto">(.*?)</pre>', page, re.S)
    )


def test_both_halves_stand_side_by_side(client: Client, run: Run) -> None:
    page = body(client, bash(run, "hello\nworld\n"))
    assert "What is true, and what did the model get?" in page
    assert '<span class="jv s2" data-pointer="/tool_name">&quot;Bash&quot;</span>' in page
    assert receipt_of(page) == "hello\nworld\n"
    assert "make test" in page


def test_a_field_and_its_characters_carry_the_same_pointer(client: Client, run: Run) -> None:
    page = body(client, bash(run, "hello\nworld"))
    linked = re.search(
        r'<span class="linked" data-pointer="([^"]+)" data-recorded="/stdout" data-at="0-11">hello', page
    )
    assert linked
    assert f'data-pointer="{linked[1]}">&quot;hello' in page
    assert "11 of 11 characters come from the result" in page


def test_the_recorded_result_is_one_key_away_and_lights_up_too(client: Client, run: Run) -> None:
    page = body(client, bash(run, "hello\n"), "?left=recorded")
    assert 'data-recorded="/stdout">&quot;hello' in page
    assert 'data-pointer="/tool_name"' not in page
    assert 'data-key="r"' in page


def test_the_runtimes_own_words_are_told_apart(client: Client, run: Run) -> None:
    result = read_result("one\ntwo", 1, 2)
    page = body(client, recorded(run, "Read", {"file_path": "/a"}, result, "     1→one\n     2→two\n"))
    assert re.search(
        '"segments">     1→<span [^>]* data-at="0-3">one</span>\n     2→<span [^>]*>two</span>\n</span>', page
    )
    assert "the rest are the runtime" in page


def read_result(content: str, first: int, total: int) -> dict[str, Any]:
    lines = content.count("\n") + 1
    file = {"filePath": "/a", "content": content, "numLines": lines, "startLine": first, "totalLines": total}
    return {"type": "text", "file": file}


def test_a_cut_is_drawn_to_scale_and_leads_to_what_was_missed(client: Client, run: Run) -> None:
    lines = [f"line {number} of a long output" for number in range(1, 1_001)]
    shown = "\n".join(lines[:40])
    receipt = (
        "<persisted-output>\nOutput too large (25.1KB). Full output saved to: /x/y.txt\n\n"
        f"Preview (first 2KB):\n{shown}\n...\n</persisted-output>"
    )
    call = bash(run, "\n".join(lines), receipt)
    page = body(client, call)
    assert "By the recording, the model got lines 1–40 of 1,000; 960 lines never." in page
    assert '<rect class="seen" x="0.00" width="40.00"' in page
    assert '<rect class="unseen" x="40.00" width="960.00"' in page
    artifact = call.artifacts.get()
    assert f'href="/artifacts/{artifact.pk}/?line=41#L41"' in page


def test_a_part_that_was_never_asked_for_is_no_cut(client: Client, run: Run) -> None:
    call = recorded(
        run, "Read", {"file_path": "/a", "offset": 200}, read_result("x\ny", 200, 1_432), "   200→x\n   201→y\n"
    )
    page = body(client, call)
    assert "The call asked for lines 200–201 of 1,432; the other 1,430 were not asked for." in page
    assert "the model got all 2 lines" in page


@pytest.mark.parametrize("fidelity", ["exact", "recorded", "inflated", "reconstructed", "masked"])
def test_the_page_claims_no_more_than_the_source_knows(client: Client, run: Run, fidelity: ReceiptFidelity) -> None:
    call = bash(run, "hello\n")
    call.observations.filter(surface="receipt").update(fidelity=fidelity)
    page = html.unescape(body(client, call))
    assert RECEIPT[fidelity].means in page
    assert ("The model saw</h2>" in page) == (fidelity == "exact")


def test_a_failed_command_shows_its_exit_code_beside_the_status(client: Client, run: Run) -> None:
    call = recorded(run, "Bash", {"command": "false"}, "Error: Exit code 1\nno", "Exit code 1\nno", source_error=True)
    page = body(client, call)
    assert "exit 1</span>" in page
    links = re.findall(r'data-pointer="(\S+)" data-recorded="" data-at="([0-9-]+)"', page)
    assert links == [("/result/exit_status", "7-19"), ("/result/combined_output_preview", "19-21")]
    assert "source says error" in page
    assert "The source flags this call as an error." in page


def test_an_error_has_its_kind_message_and_whether_to_try_again(client: Client, run: Run) -> None:
    message = "<tool_use_error>File does not exist.</tool_use_error>"
    call = recorded(run, "Read", {"file_path": "/no"}, "Error: File does not exist.", message, source_error=True)
    page = body(client, call)
    assert "missing_file" in page
    assert "File does not exist." in page
    assert "retryable</span>" in page


def test_an_unanswered_call_says_so(client: Client, run: Run) -> None:
    page = body(client, recorded(run, "Bash", {"command": "sleep 9"}, None, None))
    assert "Nothing in the recording answers this call." in page
    assert "No receipt was recorded" in page


def test_waiting_for_a_person_is_not_called_work(client: Client, run: Run) -> None:
    page = body(client, bash(run, "x", duration_ms=192_000, tool_ms=2_000))
    assert "<dt>Work</dt><dd>2.0 s</dd>" in page
    assert re.search(r"Waiting, not work</dt><dd>3 min 10 s", page)


def test_an_earlier_receipt_can_be_looked_at_with_when_and_why_it_went(client: Client, run: Run) -> None:
    call = bash(run, "hello\n")
    first = call.receipts.get()
    first.superseded_line, first.superseded_at, first.superseded_reason = 90, START, "microcompact"
    first.save()
    create_receipt(call, "[Old tool result content cleared]", seq=2)
    standing = body(client, call)
    assert receipt_of(standing) == "[Old tool result content cleared]"
    assert f"receipt={first.observation_id}" in standing
    earlier = body(client, call, f"?receipt={first.observation_id}")
    assert receipt_of(earlier) == "hello\n"
    assert "It was replaced at line 90" in earlier
    assert "microcompact" in earlier


def test_sources_that_disagree_can_each_be_looked_at(client: Client, run: Run) -> None:
    call = bash(run, "hello\n")
    other = create_observation(call, "args", {"command": "make other"}, selected=False)
    assert "Sources disagree about the args" in body(client, call)
    assert "make other" in body(client, call, f"?args={other.pk}")


def test_attempts_and_events_and_the_child_run_are_there(client: Client, run: Run, project: Project) -> None:
    child = create_run(project, "agent-7", title="Look into it")
    bash(run, "first", step="s1", attempt=1)
    call = bash(run, "second", step="s1", attempt=2, child_run=child.pk)
    create_event(run, "bash_progress", call=call.pk, message="halfway")
    page = body(client, call)
    assert "1 success</a>" in page
    assert "2 success</a>" in page
    assert "halfway" in page
    assert f'href="/runs/{child.pk}/"' in page


def test_j_and_k_walk_the_list_that_one_came_from_with_its_filter(client: Client, run: Run, settings: Settings) -> None:
    first, second, third = (bash(run, f"call {n}", summary=f"said {n}") for n in range(3))
    Call.objects.filter(pk=second.pk).update(tool="Grep")
    query = f"?from=run&amp;run={run.pk}&amp;q=tool%3ABash"
    page = body(client, first, html.unescape(query))
    assert f'href="/calls/{third.pk}/{query}" rel="next"' in page
    assert "1 of 2 in the filter" in page
    assert f'href="/runs/{run.pk}/?q=tool%3ABash#c-{first.pk}"' in page
    assert f'href="/calls/{second.pk}/" rel="next"' in body(client, first)
    assert 'rel="next"' not in body(client, third)
    settings.ROWS_PER_PAGE = 2
    assert f'href="/runs/{run.pk}/?skip=2#c-{third.pk}"' in body(client, third)


def test_the_open_form_is_kept_while_walking(client: Client, run: Run) -> None:
    first, second = bash(run, "one"), bash(run, "two")
    assert f'href="/calls/{second.pk}/?left=recorded" rel="next"' in body(client, first, "?left=recorded")


def test_calls_of_one_line_are_walked_one_by_one(client: Client, run: Run) -> None:
    calls = [bash(run, f"call {n}", line=7) for n in range(3)]
    ahead = [re.search(r'href="/calls/([^/]+)/" rel="next"', body(client, call)) for call in calls]
    back = [re.search(r'href="/calls/([^/]+)/" rel="prev"', body(client, call)) for call in calls]
    first, second, third = (str(call.pk) for call in calls)
    assert [found and found[1] for found in ahead] == [second, third, None]
    assert [found and found[1] for found in back] == [None, first, second]


def test_a_call_outside_the_filter_says_so(client: Client, run: Run) -> None:
    assert "not among the 0 in the filter" in body(client, bash(run, "x"), "?q=tool:Grep")


def test_htmx_gets_the_halves_alone(client: Client, run: Run) -> None:
    call = bash(run, "hello\n")
    response = client.get(f"/calls/{call.pk}/?spaces=1", headers=HTMX)
    page = response.content.decode()
    assert response["Vary"].count("HX-Request") == 1
    assert page.strip().startswith('<div id="halves"')
    assert '<i class="mark-space">↵\n</i>' in page


def test_hostile_output_is_shown_as_text(client: Client, run: Run) -> None:
    raw = json.dumps({"stdout": HOSTILE + "\ud800", "stderr": "", "interrupted": False}).encode()
    receipt = json.dumps(HOSTILE + "\ud800").encode()
    call = recorded(run, "Bash", {"command": HOSTILE}, raw, receipt)
    for query in ("", "?left=recorded", "?spaces=1"):
        page = body(client, call, query)
        assert "<script>alert" not in page
        assert "<b hx-post" not in page
        assert not re.search("[\x00\x1b\u202e]", page)
    assert receipt_of(body(client, call)) == HOSTILE + "\ud800"


def every_fragment(client: Client, call: Call, half: str) -> str:
    """All windows of a half, as `load the rest` brings them."""
    text, offset = "", "0"
    while offset:
        response = client.get(f"/calls/{call.pk}/half/{half}/?offset={offset}", headers=HTMX)
        assert len(response.content) < 1_000_000
        page = response.content.decode()
        shown = re.search(r'<pre class="[^"]*" data-exact[^>]*>(.*?)</pre>', page, re.S)
        text += text_of(shown[1]) if shown else ""
        more = re.search(r'href="[^"]*offset=(\d+)"', page)
        offset = more[1] if more else ""
    return text


def test_fragments_in_a_row_are_exactly_the_recorded_text(client: Client, run: Run) -> None:
    stdout = "".join(f"{number}: \U0001f600\U0001f600 \r\x07 <b>\n" for number in range(9_000))
    call = bash(run, stdout)
    assert every_fragment(client, call, "receipt") == stdout
    recorded_json = every_fragment(client, call, "recorded")
    assert json.loads(recorded_json)["stdout"] == stdout
    assert every_fragment(client, call, "args") == '{\n  "command": "make test"\n}'


def test_one_line_of_5_mb_is_shown_in_windows(client: Client, run: Run) -> None:
    call = bash(run, "x" * 5_000_000)
    response = client.get(f"/calls/{call.pk}/")
    assert len(response.content) < 300_000
    page = response.content.decode()
    assert "Shown here: the first 32,768 of 5,000,000 characters." in page
    assert "the recording does not" in page
    assert f'href="/calls/{call.pk}/half/receipt/?offset=32768"' in page


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
    page = client.get(f"/calls/{call.pk}/half/receipt/?offset=50000").content.decode()
    assert "<!doctype html>" in page
    assert "Characters 50,000 to" in page


@pytest.mark.parametrize(
    "address", ["half/wires/", "half/receipt/?offset=-1", "half/receipt/?offset=x", "raw/timing", "?as=pdf"]
)
def test_what_does_not_exist_is_not_found(client: Client, run: Run, address: str) -> None:
    assert client.get(f"/calls/{bash(run, 'x').pk}/{address}").status_code == 404


def png(width: int, height: int) -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IEND", b"")).decode()


def image(data: str, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def test_parts_are_shown_as_parts(client: Client, run: Run) -> None:
    content = [{"type": "text", "text": "Look:"}, image(png(8, 6)), {"type": "novel", "x": "<script>"}]
    page = body(client, recorded(run, "mcp__a__b", {}, content, content))
    assert "Part 1: <span" in page
    assert 'src="data:image/png;base64,' in page
    assert "8 × 6 pixels" in page
    assert "No reader knows this kind of part" in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (base64.b64encode(b"<svg onload=alert(1)>").decode(), "not a PNG, JPEG, GIF or WebP"),
        ("%%%", "not base64"),
        (png(40_000, 40_000), "40000 × 40000 pixels are too many"),
    ],
)
def test_a_picture_that_is_none_is_named_and_not_shown(client: Client, run: Run, data: str, why: str) -> None:
    page = body(client, recorded(run, "mcp__a__b", {}, [image(data)], [image(data)]))
    assert why in page
    assert "<img" not in page


def test_the_recorded_bytes_come_as_an_attachment(client: Client, run: Run) -> None:
    call = recorded(run, "Bash", {"command": "x"}, b'{"stdout": "a",  "n": 1.00}', b'"a"')
    response = client.get(f"/calls/{call.pk}/raw/result")
    assert response.content == b'{"stdout": "a",  "n": 1.00}'
    assert response["Content-Disposition"].startswith("attachment;")
    assert response["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'; sandbox"
    assert response["X-Content-Type-Options"] == "nosniff"


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
    call = recorded(run, "Bash", b'{"command":"x","timeout":1.00}', {"stdout": "a"}, "a")
    copied = client.get(f"/calls/{call.pk}/?as=json").content.decode()
    assert '"args":{"command":"x","timeout":1.00}' in copied
    assert json.loads(copied)["canonical"]["tool_name"] == "Bash"
    assert "## receipt" in client.get(f"/calls/{call.pk}/?as=markdown").content.decode()
    assert "--- arguments ---" in client.get(f"/calls/{call.pk}/?as=text").content.decode()


def test_the_number_of_queries_does_not_grow_with_the_run(
    client: Client, run: Run, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    call = bash(run, "hello\n", step="s1")
    body(client, call)  # the first visit writes the session
    with django_assert_num_queries(15):
        body(client, call)
    for number in range(30):
        bash(run, f"more {number}")
        create_event(run, call=call.pk)
    with django_assert_num_queries(15):
        body(client, call)


def test_nobody_outside_the_project_gets_in(client: Client, run: Run) -> None:
    call = bash(run, "secret")
    client.force_login(create_user("charlie", project=create_project("other")))
    for address in ("", "half/receipt/", "raw/result", "?as=text"):
        assert client.get(f"/calls/{call.pk}/{address}").status_code == 404
    assert client.get(f"/calls/{UUID(int=7)}/").status_code == 404


def test_a_viewer_sees_the_call(client: Client, run: Run, project: Project) -> None:
    call = bash(run, "hello\n")
    client.force_login(create_user("bob", project=project, role="viewer"))
    assert receipt_of(body(client, call)) == "hello\n"

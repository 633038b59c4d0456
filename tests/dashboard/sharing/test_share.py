"""Shared files: both halves of calls in one HTML file, and the check that finds every change of it."""

from __future__ import annotations

import hashlib
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from dashboard.ingest.importer import import_paths
from dashboard.models import AuditEntry, Call, Project, ProjectRule, Run
from dashboard.sharing.share_file import NotShared, check_file
from tests.dashboard.factories import create_call, create_receipt, create_run, create_user
from tests.dashboard.page_text import assert_harmless, parse_page
from tests.dashboard.sessions import SESSION, answers, asks, write

TOKEN = "ghp_" + "a1B2c3D4" * 5
LINES = [f"line {number}\n" for number in range(1, 41)]
OUTPUT = "".join(LINES)
SEEN = "".join(LINES[:10])
PREVIEW = (
    "<persisted-output>\nOutput too large (70KB). Full output saved to: /x/toolu_1.txt\n\n"
    f"Preview (first 2KB):\n{SEEN}...\n</persisted-output>"
)
HOSTILE = "\n<script>alert(1)</script>\r\n</pre><pre data-text='x'>\u202e\x1b\x00 & &amp; é "


@pytest.fixture
def call(project: Project) -> Call:
    run = create_run(project, title=f"Deploy {TOKEN}")
    return create_call(run, result={"stdout": HOSTILE + TOKEN}, receipt=HOSTILE + TOKEN, summary=f"used {TOKEN}")


def share(client: Client, subject: Run | Call) -> bytes:
    response = client.post(f"{subject.get_absolute_url()}share/")
    assert response.status_code == 200
    assert response["Content-Disposition"].startswith("attachment")
    return b"".join(response.streaming_content)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("alice")
@pytest.mark.postgresql
def test_a_shared_call_has_both_halves_masked_with_their_hashes_and_nothing_from_elsewhere(
    client: Client, call: Call
) -> None:
    data = share(client, call)
    page = parse_page(data)
    assert TOKEN.encode() not in data
    assert "a1B2" not in page.html
    assert_harmless(page)
    receipt = page.select_one("pre[data-text=call-1-receipt]")
    shown = receipt.exact
    assert shown[: len(HOSTILE)] == HOSTILE
    assert len(shown) == len(HOSTILE + TOKEN)
    assert receipt["data-sha256"] == hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()
    assert [text["data-text"].removeprefix("call-1-") for text in page.select("pre")] == [
        *("arguments", "canonical", "receipt"),
    ]
    assert not page.has("script, link, img, iframe, [src]")
    assert not re.search(rb"@import|url\(", data)
    assert page.select_one("section dd a")["href"] == f"http://testserver/calls/{call.pk}/"
    assert check_file(data).changes == ()
    assert AuditEntry.objects.get(action="export").subject.startswith(f"call {call.external_id} ")


@pytest.mark.usefixtures("alice")
def test_a_shared_call_has_the_number_that_its_run_gives_it(client: Client, project: Project) -> None:
    run = create_run(project)
    calls = [create_call(run, f"call {number}", line=number) for number in range(3)]
    page = parse_page(share(client, calls[1]))
    assert page.facts["Step"] == "2 of 3"
    assert page.select_one("section h2").text.startswith("Bash")


@pytest.mark.usefixtures("alice")
def test_masks_of_the_project_reach_a_shared_file(client: Client, project: Project) -> None:
    call = create_call(create_run(project), receipt="customer 4711-ABC here")
    ProjectRule.objects.create(project=project, name="customer", pattern="[0-9]{4}-[A-Z]{3}")
    project.masking_stamp = "changed"
    project.save()
    data = share(client, call)
    assert b"4711-ABC" not in data
    assert check_file(data).changes == ()


@pytest.mark.usefixtures("alice")
def test_what_the_model_did_not_see_is_marked(client: Client, project: Project, tmp_path: Path) -> None:
    result = {"stdout": OUTPUT, "stderr": "", "interrupted": False}
    import_paths(
        project, [write(tmp_path / f"{SESSION}.jsonl", [asks("toolu_01"), answers("toolu_01", PREVIEW, result)])]
    )
    page = parse_page(share(client, project.calls.get()))
    output = page.select_one("pre[data-text=call-1-output-1]")
    assert output.exact == OUTPUT
    unseen = output.select_one(".unseen")
    assert page.by_role("link", "To the first of them")["href"] == f"#{unseen['id']}"
    assert unseen.exact == "".join(LINES[10:])
    assert any("lines 1–10 of 40; 30 not seen" in cut for cut in page.texts("section .cut"))


CHANGES = [
    (b"line 7", b"line 8", "call-1-receipt: the text was changed"),
    (b"</footer>", b"<!-- --></footer>", "something beside the texts"),
    (b"</footer>", b"<![foo[ x ]]></footer>", "something beside the texts"),
    (b"</footer>", b'<i data-code="' + b"9" * 5_000 + b'"></i></footer>', "something beside the texts"),
    (b'data-text="call-1-arguments"', b'data-txt="call-1-arguments"', "call-1-arguments: the text is missing"),
]


@pytest.mark.usefixtures("alice")
def test_every_change_of_a_file_is_found(client: Client, project: Project) -> None:
    data = share(client, create_call(create_run(project), result={"a": 1}, receipt=SEEN))
    assert check_file(data).texts == 3
    for was, becomes, change in CHANGES:
        assert data.count(was) == 1, was
        assert any(change in found for found in check_file(data.replace(was, becomes)).changes), change
    text = parse_page(data).select_one("pre[data-text=call-1-receipt]")
    forged = data.replace(b"line 7", b"line 8").replace(
        text["data-sha256"].encode(), hashlib.sha256(SEEN.replace("line 7", "line 8").encode()).hexdigest().encode(), 1
    )
    assert check_file(forged).changes == ("call-1-receipt: the hash beside the text is not the one in the list",)
    with pytest.raises(NotShared, match="Not a file that Counterfoil shared"):
        check_file(b"<html></html>")


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_a_run_with_many_calls_is_shared_in_part_and_says_so(
    client: Client, project: Project, settings: Settings
) -> None:
    run = create_run(project)
    for number in range(5):
        create_call(run, receipt=f"{number} " * 100)
    whole = parse_page(share(client, run))
    assert [len(whole.select("section")), len(whole.select("pre"))] == [5, 15]
    assert "left out" not in whole.text
    settings.SHARED_CALLS = 3
    settings.SHARED_CHARACTERS = 60
    data = share(client, run)
    part = parse_page(data)
    assert len(part.select("section")) == 3
    assert "2 of 5 calls are left out" in part.text
    assert "The first 60 of 200 characters." in part.text
    assert check_file(data).changes == ()


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_a_copied_call_is_shared_with_the_receipt_in_view_and_one_of_another_run_is_stated(
    client: Client, project: Project
) -> None:
    call = create_call(create_run(project, "original"), receipt="all ten lines")
    fork = create_run(project, "fork")
    fork.members.create(call=call, ordinal=1, inherited=True)
    assert "Receipt of another runoriginal" in parse_page(share(client, fork)).select_one("section dl").text
    create_receipt(call, "three lines", run=fork)
    shared = parse_page(share(client, fork))
    assert shared.select_one("pre[data-text=call-1-receipt]").exact == "three lines"
    assert "Receipt of another run" not in shared.select_one("section dl").text
    form = parse_page(client.get(f"/runs/{fork.pk}/1/halves")).select_one(f'form[action="/calls/{call.pk}/share/"]')
    response = client.post(form["action"], {"query": form.select_one("[name=query]")["value"]})
    page = parse_page(b"".join(response.streaming_content))  # type: ignore[attr-defined]
    assert page.select_one("pre[data-text=call-1-receipt]").exact == "three lines"
    assert "Receipt of another runfork" in page.select_one("section dl").text
    assert "Receipt of another run" not in parse_page(share(client, call)).text


@pytest.mark.usefixtures("alice")
def test_a_file_without_masks_says_so_in_itself_and_in_the_audit_log(client: Client, call: Call, settings: Any) -> None:
    settings.MASK = False
    assert "without masks" in parse_page(share(client, call)).text
    assert AuditEntry.objects.get(action="export").subject.endswith("as an HTML file, without masks")


def test_a_viewer_shares_what_a_viewer_sees(client: Client, project: Project, call: Call) -> None:
    client.force_login(create_user("vera", project=project, role="viewer"))
    assert TOKEN not in unescape(share(client, call).decode())


@pytest.mark.postgresql
def test_the_commands_share_and_verify(call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for subject, texts in ((call.external_id, 3), (str(call.run_id), 3)):
        target = tmp_path / f"{texts}-{subject[:8]}.html"
        call_command("share", subject, str(target))
        assert TOKEN not in target.read_text()
        call_command("verify", str(target))
        assert f"{texts} texts are unchanged" in capsys.readouterr().out
        with pytest.raises(CommandError, match="File exists"):
            call_command("share", subject, str(target))
        target.write_bytes(target.read_bytes().replace(b"echo hello", b"echo jello"))
        with pytest.raises(CommandError, match="call-1-arguments: the text was changed"):
            call_command("verify", str(target))
    with pytest.raises(CommandError, match="has no run.json: verify reads the folder of one run"):
        call_command("verify", str(tmp_path))
    with pytest.raises(CommandError, match="No such file"):
        call_command("verify", str(tmp_path / "none.html"))
    with pytest.raises(CommandError, match="There is no run or call"):
        call_command("share", "nothing", str(tmp_path / "x.html"))
    assert AuditEntry.objects.filter(action="export", client="command line").count() == 2

"""What an operator does on an Artifact page, with the keyboard: from a cut receipt to what the model never saw."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect
from pytest_django import Settings

from dashboard.artifacts.stores import configured_store
from dashboard.models import Artifact, Project, Run
from tests.browser.conftest import Browse, Serious
from tests.browser.rest import press
from tests.dashboard.factories import create_call, create_run
from tests.dashboard.stored_artifacts import field_artifact, stored

LINES = [f"line {number}: {'ERROR out of memory' if number % 250 == 0 else 'ok'}" for number in range(1, 2_001)]


@pytest.fixture
def cut(project: Project) -> Artifact:
    """Of 2,000 lines the model got 1 to 40 and 1,991 to 2,000."""
    text = "".join(f"{line}\n" for line in LINES)
    shown = [*LINES[:40], "\n... [1950 lines truncated] ...\n", *LINES[1_990:]]
    call = create_call(create_run(project, "session-one"), receipt="\n".join(shown), is_cut=True)
    call.namespace = "claude-code"
    call.save()
    return field_artifact(call, text)


def expect_highlighted(page: Page, *lines: int) -> None:
    rows = page.locator("#window [data-highlighted]")
    expect(rows).to_have_count(len(lines))
    for row, line in zip(rows.all(), lines, strict=True):
        expect(row).to_have_id(f"L{line}")


def test_from_a_cut_receipt_to_the_line_that_the_model_never_saw_in_two_keystrokes(
    operator_page: Page, cut: Artifact
) -> None:
    operator_page.goto(cut.call.get_absolute_url())
    expect(operator_page.locator('[data-half="receipt"]')).to_contain_text("1950 lines truncated")
    press(operator_page, "g")
    operator_page.wait_for_url("**/artifacts/**")
    expect(operator_page.locator("#window [data-highlighted]")).to_have_attribute("data-seen", "no")
    expect(operator_page.locator("#window [data-highlighted] pre")).to_have_text(LINES[40])


@pytest.mark.extended
def test_from_a_receipt_whose_output_was_saved_to_a_file_to_the_line_that_the_model_never_saw(
    operator_page: Page, project: Project, settings: Settings, tmp_path: Path
) -> None:
    """Of the file, not of what the recording holds: that may itself be its beginning."""
    settings.ARTIFACTS = tmp_path / "artifacts"
    path = "/home/x/session/tool-results/toolu_1.txt"
    preview = "\n".join(LINES[:40])
    receipt = f"<persisted-output>\nOutput too large (9MB). Full output saved to: {path}\n\nPreview (first 2KB):\n"
    call = create_call(create_run(project), receipt=f"{receipt}{preview}\n...\n</persisted-output>", is_cut=True)
    call.namespace = "claude-code"
    call.save()
    field_artifact(call, "\n".join(LINES[:100]))
    file = stored(call, "".join(f"{line}\n" for line in LINES * 50).encode(), path=path)
    operator_page.goto(call.get_absolute_url())
    press(operator_page, "g")
    operator_page.wait_for_url(f"**{file.get_absolute_url()}*")
    first = operator_page.locator("#window [data-highlighted]")
    expect(first).to_have_attribute("data-seen", "no")
    expect(first.locator("pre")).to_have_text(LINES[40])
    expect(first).to_be_in_viewport()


def test_find_step_through_hits_copy_a_link_and_open_it_in_another_session(
    operator_page: Page, browse: Browse, cut: Artifact
) -> None:
    page = operator_page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(cut.get_absolute_url())
    press(page, "/")
    page.keyboard.type("out of memory")
    press(page, "Enter")
    page.wait_for_url("**/find/**")
    expect(page.locator(".hits li")).to_have_count(8)
    press(page, "j")
    press(page, "Enter")
    page.wait_for_url(re.compile("line=250"))
    press(page, "f")
    page.wait_for_url(re.compile("line=500"))
    press(page, "f")
    page.wait_for_url(re.compile("line=750"))
    press(page, "F")
    page.wait_for_url(re.compile("line=500"))
    press(page, "y")
    expect(page.locator("[data-announcement]")).to_have_text("Copied the link.")
    copied = page.evaluate("navigator.clipboard.readText()")
    other = browse(signed_in=True)
    other.goto(copied)
    expect_highlighted(other, 500)
    expect(other.locator("#L500 mark")).to_have_text("out of memory")
    expect(other.locator("#L500")).to_be_in_viewport()


def test_a_search_is_stopped_and_goes_on_by_a_key(
    operator_page: Page,
    project: Project,
    settings: Settings,
    tmp_path: Path,
    troubles: list[str],
) -> None:
    """The time limit of 0 makes each slice a single piece, so that there are many slices to stop."""
    settings.ARTIFACTS = tmp_path / "artifacts"
    settings.ANSWER_SECONDS = 0.0
    artifact = stored(create_call(create_run(project)), b"a line of output\n" * 1_000_000)
    page, more = operator_page, operator_page.locator("p.more")
    page.goto(f"{artifact.get_absolute_url()}find/?q=needle")
    expect(more).to_contain_text("so far")
    expect(page.get_by_role("link", name="Search on")).to_be_hidden()
    for message in ("Stopped: 0 hits", "so far", "Stopped: 0 hits"):
        page.keyboard.press("x")
        expect(more).to_contain_text(message)
    press(page, "Escape")
    page.wait_for_url(f"**{artifact.get_absolute_url()}")
    press(page, "w")
    expect(page.get_by_label("Wrap lines")).not_to_be_checked()
    expect(page.locator(".line pre").first).to_have_css("white-space", "pre")
    # htmx reports the request that was aborted as an error.
    troubles[:] = [trouble for trouble in troubles if not trouble.startswith(("htmx:sendAbort", "htmx:afterRequest"))]


@pytest.mark.extended
def test_a_range_is_selected_by_two_clicks_and_by_keys_and_its_link_selects_it_again(
    operator_page: Page, browse: Browse, cut: Artifact
) -> None:
    page = operator_page
    page.goto(f"{cut.get_absolute_url()}?line=120")
    page.locator("#L122 > a").click()
    page.locator("#L125 > a").click(modifiers=["Shift"])
    expect_highlighted(page, 122, 123, 124, 125)
    press(page, "Shift+ArrowDown")
    press(page, "Shift+ArrowDown")
    expect_highlighted(page, *range(122, 128))
    expect(page).to_have_url(re.compile(r"\?line=122-127#L122$"))
    other = browse(signed_in=True, script=False)
    other.goto(page.url)
    expect_highlighted(other, *range(122, 128))
    other.goto(f"{cut.get_absolute_url()}")
    other.get_by_label("Go to").fill("122-127")
    other.get_by_role("button", name="Go", exact=True).click()
    expect_highlighted(other, *range(122, 128))


def test_a_fragment_of_another_tool_is_understood(operator_page: Page, cut: Artifact) -> None:
    operator_page.goto(f"{cut.get_absolute_url()}#L1200-L1203")
    operator_page.wait_for_url(re.compile(r"line=1200-1203#L1200"))
    expect_highlighted(operator_page, *range(1_200, 1_204))


@pytest.mark.extended
def test_a_fold_of_json_is_loaded_when_it_is_opened(
    operator_page: Page, browse: Browse, project: Project, settings: Settings, tmp_path: Path
) -> None:
    settings.ARTIFACTS = tmp_path / "artifacts"
    content = json.dumps({"rows": [{"id": number, "text": "word " * 40} for number in range(1_000)]}).encode()
    artifact = stored(create_call(create_run(project)), content)
    page = operator_page
    page.goto(artifact.get_absolute_url())
    page.locator(".tree summary").first.focus()
    press(page, "Enter")
    members = page.locator(".json-tree > .tree > li > details > .tree > li")
    expect(members).to_have_count(200)
    page.get_by_role("link", name="Later members").click()
    expect(members).to_have_count(400)
    expect(members.last.locator("summary .nt").first).to_have_text("399")
    page.goto(stored(artifact.call, b'{"a": 1}\n{"b": [2, 3]}\n').get_absolute_url())
    page.locator("#L2 summary").focus()
    press(page, "Enter")
    expect(page.locator("#L2 .tree .nt").first).to_have_text('"b"')
    plain = browse(signed_in=True, script=False)
    plain.goto(artifact.get_absolute_url())
    plain.locator(".tree summary").first.click()
    plain.get_by_role("link", name="Open it by itself").click()
    expect(plain.locator(".json-tree > .tree > li")).to_have_count(200)


def test_what_is_added_to_a_followed_file_appears_by_itself(
    browse: Browse, project: Project, settings: Settings, tmp_path: Path
) -> None:
    settings.ARTIFACTS = tmp_path / "artifacts"
    artifact = stored(create_call(create_run(project, last_at=timezone.now())), b"one\n")
    page = browse(signed_in=True, clocked=True)
    page.goto(artifact.get_absolute_url())
    press(page, "o")
    page.wait_for_url("**follow**")
    trimmed = page.locator("[data-trimmed]")
    expect(trimmed).to_be_hidden()
    page.locator("#window").evaluate("panel => { panel.dataset.maxRows = 2; }")
    longer = configured_store().put(io.BytesIO(b"one\ntwo <b>\nthree\n"))
    Artifact.objects.update(sha256=longer.sha256, size=longer.size, lines=longer.lines)
    page.clock.run_for(2_100)
    expect(page.locator(".lines pre")).to_have_text(["two <b>", "three"])
    expect(trimmed).to_be_visible()
    Run.objects.update(ended_at=timezone.now())
    page.clock.run_for(2_100)
    expect(page.locator("#follow")).to_contain_text("The run is over")
    expect(page.locator("#follow[hx-get]")).to_have_count(0)


@pytest.mark.extended
def test_the_views_of_an_artifact_are_accessible(
    operator_page: Page,
    in_both_themes: Serious,
    subtests: pytest.Subtests,
    project: Project,
    settings: Settings,
    tmp_path: Path,
) -> None:
    settings.ARTIFACTS = tmp_path / "artifacts"
    run = create_run(project, last_at=timezone.now())
    stamped = b"".join(b"2026-11-22 10:00:%02d \x1b[31mred\x1b[0m line\n" % second for second in range(60))
    log, other = stored(create_call(run), stamped), stored(create_call(run), stamped + b"more\n")
    tree = stored(create_call(run), b'{"a": [1, {"b": null}], "c": "text"}')
    rows = stored(create_call(run), b'{"a": 1}\n{"a": 2}\n')
    table = stored(log.call, b"a,b,c\n" + b"1,2,3\n" * 900, path="/home/x/rows.csv", role="report", ordinal=1)
    create_call(run, tool="Read", args={"file_path": "/home/x/log.txt", "offset": 3, "limit": 4})
    views = [
        f"{table.pk}/?line=700",
        f"{log.pk}/?go=10:00:30",
        f"{log.pk}/?tail&follow=1",
        f"{tree.pk}/",
        f"{rows.pk}/",
    ]
    views += [f"{log.pk}/difference/", f"{log.pk}/difference/?with={other.pk}", f"{log.pk}/find/?q=red"]
    for view in views:
        with subtests.test(view):
            operator_page.goto(f"/artifacts/{view}")
            assert not in_both_themes(operator_page)

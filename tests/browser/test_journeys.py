"""What an operator does, from the sign-in link to the line that the model never saw; once by mouse, once by keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Locator, Page, Request, expect

from dashboard.accounts import create_link
from dashboard.ingest.importer import import_paths
from dashboard.models import Artifact, Call, Project, Run
from dashboard.models.runs import step_url
from tests.browser.conftest import Browse, listening
from tests.browser.rest import come_to_rest, press
from tests.dashboard.factories import create_call, create_run
from tests.dashboard.sessions import SESSION, answers, asks, write

RUN_WITH_CUTS = "cut:yes tool:Bash"


@pytest.fixture
def cut_call(bundled: Project) -> Call:
    """A call whose output the model got only in part, with an artifact of its own."""
    found = (
        Artifact.objects.filter(call__is_cut=True, call__seen_lines__gt=0).select_related("call__run").order_by("pk")
    )
    return found[0].call


def test_from_the_sign_in_link_to_the_line_that_the_model_never_saw(page: Page, operator: User, cut_call: Call) -> None:
    path, _ = create_link(operator)
    page.goto(path)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/runs/")
    page.get_by_label("Filter").fill("cut:yes")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".run-table tbody tr")).to_have_count(Run.objects.filter(cut_count__gt=0).count())
    page.locator(f'a[href*="/runs/{cut_call.run_id}/"]').first.click()
    expect(page.locator("main h1")).to_contain_text(cut_call.run.title[:40])
    page.locator(f"#c-{cut_call.pk}").click()
    expect(page.locator("main h1")).to_have_text(cut_call.tool)
    expect(page.locator('[data-half="canonical"]')).to_contain_text('"tool_name"')
    expect(page.locator('[data-half="receipt"] .linked').first).to_be_visible()
    page.get_by_role("link", name=re.compile("^Go to line")).first.click()
    expect(page.locator("[data-highlighted]")).to_have_attribute("data-seen", "no")


def test_hovering_a_field_lights_up_its_characters_and_the_other_way_round(
    operator_page: Page, bundled: Project
) -> None:
    call = Call.objects.filter(tool="Glob", receipt_lines__gt=3).order_by("pk")[0]
    operator_page.goto(f"/calls/{call.pk}/")
    come_to_rest(operator_page)
    piece = operator_page.locator("#halves .linked[data-pointer]").first
    pointer = piece.get_attribute("data-pointer")
    field = operator_page.locator(f'[data-half="canonical"] [data-pointer="{pointer}"]').first
    piece.hover()
    highlighted = re.compile(r"\bis-(linked|around)\b")
    expect(field).to_have_class(highlighted)
    operator_page.mouse.move(0, 0)
    expect(field).not_to_have_class(highlighted)
    field.hover()
    expect(piece).to_have_class(highlighted)
    expect(operator_page.locator("[data-link-status]")).to_contain_text(str(pointer))


@pytest.mark.extended
def test_the_same_way_with_the_keyboard_alone(operator_page: Page, cut_call: Call) -> None:
    page = operator_page
    page.goto("/runs/")
    press(page, "/")
    page.keyboard.type("cut:yes")
    press(page, "Enter")
    page.wait_for_url(re.compile("cut"))
    runs = page.locator(".run-table tbody th a:not([data-peek])")
    expect(runs.first).to_be_visible()
    go_to(page, runs, cut_call.run.get_absolute_url())
    page.wait_for_url(f"**/runs/{cut_call.run_id}/**")
    calls = page.locator("[data-list] [data-item] a[id^=c-]")
    expect(calls.first).to_be_visible()
    position = cut_call.run.own_calls.filter(line__lt=cut_call.line).count() + 1
    go_to(page, calls, step_url(cut_call.run_id, position), before=1)
    page.wait_for_url(f"**/{position - 1}/halves")
    press(page, "j")
    page.wait_for_url(f"**/{position}/halves")
    expect(page.locator(f"#c-{cut_call.pk}")).to_have_attribute("aria-current", "true")
    press(page, "n")
    expect(page.locator("#halves .linked.is-linked").first).to_be_visible()
    press(page, "Escape")
    expect(page.locator("#halves .linked.is-linked")).to_have_count(0)
    press(page, "r")
    expect(page.locator('[data-half="recorded"]')).to_be_visible()
    press(page, "g")
    page.wait_for_url("**/artifacts/**")
    expect(page.locator("[data-highlighted]")).to_have_attribute("data-seen", "no")
    press(page, "t")
    page.wait_for_url("**tail**")
    press(page, "u")
    page.wait_for_url("**/halves**")
    press(page, "?")
    expect(page.locator("dialog[open]")).to_contain_text("Next step")
    press(page, "Escape", "u")
    expect(page.locator(f"#c-{cut_call.pk}")).to_be_focused()
    press(page, "m")
    page.wait_for_url("**/context**")
    press(page, "G")
    expect(page.locator("[data-list] [data-item]").last.locator("a").first).to_be_focused()


def go_to(page: Page, links: Locator, address: str, *, before: int = 0) -> None:
    """Walks down the list to the link, or to one so many before it, and follows it."""
    addresses = links.evaluate_all("links => links.map(link => link.pathname)")
    press(page, *["j"] * (addresses.index(address) + 1 - before), "Enter")


def test_a_live_run_keeps_what_is_typed_opened_and_focused_when_new_calls_come(
    browse: Browse, project: Project
) -> None:
    page = browse(signed_in=True, clocked=True)
    run = create_run(project, "live", last_at=timezone.now(), call_count=2)
    first, second = (create_call(run, line=line, duration_ms=9) for line in (1, 2))
    page.goto(f"/runs/{run.pk}/")
    page.locator("#by-tool summary").click()
    page.locator("#q").fill("status:fa")
    for number, focused in ((3, "#q"), (4, f"#c-{second.pk}")):
        page.locator(focused).focus()
        newest = create_call(run, line=number)
        Run.objects.filter(pk=run.pk).update(revision=number, call_count=number)
        page.clock.run_for(2_100)
        expect(page.locator(f"#c-{newest.pk}")).to_be_visible()
        expect(page.locator(focused)).to_be_focused()
        expect(page).to_have_title(f"Title of live: {number} calls · Counterfoil")
    expect(page.locator("#q")).to_have_value("status:fa")
    expect(page.locator("#by-tool")).to_have_attribute("open", "")
    expect(page.locator(f"#c-{first.pk}")).to_contain_text("echo hello")


@pytest.mark.extended
def test_the_first_screen_is_usable_before_any_fragment(browse: Browse, cut_call: Call) -> None:
    """Without script nothing further is asked for, and both halves are there all the same."""
    page = browse(signed_in=True, script=False)
    page.goto(f"/calls/{cut_call.pk}/")
    expect(page.locator('[data-half="canonical"]')).to_contain_text('"summary_text"')
    expect(page.locator('[data-half="receipt"] .linked').first).to_be_visible()
    page.get_by_role("link", name=re.compile("As recorded")).click()
    expect(page.locator('[data-half="recorded"]')).to_be_visible()


HOSTILE = {
    "a script": "<script>fetch('/canary')</script><img src=x onerror=\"fetch('/canary')\">",
    "htmx attributes": "<div hx-post='/canary' hx-trigger='load' hx-get='/canary'>x</div>",
    "closing tags": "</pre></code></textarea></title></script><meta http-equiv=refresh content='0;url=/canary'>",
    "terminal codes": "\x1b[31mred\x1b[0m\x1b]8;;javascript:fetch('/canary')\x07link\x1b]8;;\x07\x1b]0;title\x07",
    "bidi and invisible": "safe \u202e}txt.exe\u202c \u2066x\u2069 \u200b\ufeff end",
    "a template": "{{ settings.SECRET_KEY }}{% debug %}",
}


@pytest.fixture
def hostile(project: Project, tmp_path: Path) -> Run:
    """Every surface of each call says the same hostile text; the last is 5 MB on one line."""
    lines: list[object] = []
    texts = {**HOSTILE, "one long line": "<b>" + "x" * 5_000_000}
    for number, text in enumerate(texts.values()):
        call = f"toolu_{number}"
        lines += [
            asks(call, "Bash", {"command": text}),
            answers(call, text, {"stdout": text, "stderr": "", "interrupted": False}),
        ]
    import_paths(project, [write(tmp_path / f"{SESSION}.jsonl", lines)])  # type: ignore[arg-type]
    return Run.objects.get()


@pytest.mark.extended
def test_hostile_output_is_shown_as_text_and_does_nothing(
    operator_page: Page, hostile: Run, troubles: list[str]
) -> None:
    page, acted = operator_page, list[str]()
    calls = [f"/calls/{call.pk}/" for call in hostile.own_calls.order_by("line")]
    addresses = ["/runs/", f"/runs/{hostile.pk}/", f"/runs/{hostile.pk}/context", *calls]
    addresses += [f"/artifacts/{artifact.pk}/" for artifact in Artifact.objects.all()]
    texts = dict(zip(calls, HOSTILE.items(), strict=False))  # the long line is nobody's to read

    def on_request(request: Request) -> None:
        if "canary" in request.url:
            acted.append(request.url)

    with listening(page.context, {"request": on_request, "dialog": lambda dialog: acted.append(dialog.message)}):
        for address in addresses:
            page.goto(address)
            come_to_rest(page)
            assert page.url.endswith(address) or address in texts or "/calls/" in address
            expect(page.locator("[hx-disable] :is(script, img, meta, [onerror], [hx-post], [hx-get])")).to_have_count(0)
            if address in texts:
                expect_recorded(page, *texts[address])
            assert not acted
        for markup in ("<img src='/canary'>", "<meta http-equiv=refresh content='0;url=/canary'>"):
            with page.expect_console_message(lambda message: "/canary" in message.location["url"]):  # not found
                page.evaluate("markup => document.body.insertAdjacentHTML('beforeend', markup)", markup)
            assert acted, f"{markup} would not have been noticed"
            acted.clear()
            troubles.clear()


def expect_recorded(page: Page, name: str, text: str) -> None:
    receipt = page.locator('[data-half="receipt"]')
    marks = receipt.locator(".mark").evaluate_all("all => all.map(one => Number(one.dataset.code))")
    if name == "bidi and invisible":
        assert {0x202E, 0x202C, 0x2066, 0x2069, 0x200B, 0xFEFF} <= set(marks)
    elif not marks:
        assert receipt.locator(".half-body").inner_text().strip() == text

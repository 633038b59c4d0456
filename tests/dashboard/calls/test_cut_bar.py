"""From a cut to the first line that the model never saw: in the recorded field, or in the file that holds all of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from dashboard.artifacts.visible_lines import PartialLine, find_partial_line
from dashboard.models import Artifact, Call, Project, Run
from envelopes.text.preview import Cut
from tests.dashboard.factories import create_call, create_run
from tests.dashboard.page_text import Page
from tests.dashboard.recorded_calls import load_call
from tests.dashboard.stored_artifacts import field_artifact, highlighted_lines, open_page, rows_of, stored

PATH = "/home/x/.claude/projects/p/session/tool-results/toolu_1.txt"
LINES = [f"line {number} of the build" for number in range(1, 3_001)]
PREVIEW = (
    "<persisted-output>\nOutput too large (70KB). Full output saved to: {}\n\n"
    "Preview (first 2KB):\n{}\n...\n</persisted-output>"
)
ONE_LINE = "".join(f"token-{number} " for number in range(40_000))


@pytest.fixture
def run(project: Project, alice: User, settings: Settings, tmp_path: Path) -> Run:
    settings.ARTIFACTS = tmp_path / "artifacts"
    return create_run(project, "one")


def cut_call(run: Run, shown: str, recorded: str) -> tuple[Call, Artifact]:
    """Of the output the receipt shows a preview; the recording itself holds `recorded` of it."""
    call = create_call(run, receipt=PREVIEW.format(PATH, shown))
    call.namespace = "claude-code"
    call.save()
    return call, field_artifact(call, recorded)


def key_leads_to(page: Page) -> list[str]:
    return [link["href"] for link in page.select("a[data-hotkey=click][data-key=g]")]


def cuts(page: Page) -> str:
    return page.select_one(".cuts").text


def test_the_head_draws_the_cut_that_the_key_leads_into(client: Client, run: Run) -> None:
    """The file of the agent is named first and was not imported, so there is nothing of it to draw or to open."""
    call, field = cut_call(run, "\n".join(LINES[:40]), "\n".join(LINES))
    stored(call, b"x\n", path=PATH, role="output")
    Artifact.objects.filter(observation=None).update(state="missing", size=70_000)
    page = load_call(client, call)
    head = page.select_one(".head-cut")
    assert head.select("svg.cut-bar rect.unseen")
    assert [link["href"] for link in head.select("a")] == key_leads_to(page)
    assert head.select_one("a").text.split() == ["first", "not", "seen", "g"]
    assert key_leads_to(page) == [f"/artifacts/{field.pk}/?from=31&line=41#L31"]


def test_the_key_leads_into_the_stored_file_where_it_has_all_of_the_output(client: Client, run: Run) -> None:
    call, field = cut_call(run, "\n".join(LINES[:40]), "\n".join(LINES[:600]))
    file = stored(call, "".join(f"{line}\n" for line in LINES).encode(), path=PATH, role="output")
    page = load_call(client, call)
    assert key_leads_to(page) == [f"/artifacts/{file.pk}/?unseen#window"]
    assert page.by_role("link", "Go to line 41")["href"] == f"/artifacts/{field.pk}/?from=31&line=41#L31"
    assert "The agent saved the complete output to a file: 3,000 lines, 67.9 KB." in cuts(page)
    led = open_page(client, file, "?unseen")
    assert rows_of(led)[0] == (31, LINES[30])
    assert "data-highlighted" in led.by_id("L41")
    assert (led.by_id("L41")["data-seen"], highlighted_lines(led)) == ("no", [41])


@pytest.mark.parametrize(
    ("state", "absence"),
    [("missing", "That file was not imported."), ("removed", "That file was removed by retention.")],
)
def test_without_the_file_the_key_leads_into_what_is_recorded(
    client: Client, run: Run, state: str, absence: str
) -> None:
    call, field = cut_call(run, "\n".join(LINES[:40]), "\n".join(LINES[:600]))
    stored(call, b"x\n", path=PATH, role="output")
    Artifact.objects.filter(observation=None).update(state=state, size=70_000)
    page = load_call(client, call)
    assert key_leads_to(page) == [f"/artifacts/{field.pk}/?from=31&line=41#L31"]
    assert f"The agent saved the complete output to a file: 70.0 KB by the recording. {absence} Details" in cuts(page)


@pytest.mark.postgresql("{}-less\\n-The content is not what was stored-is damaged: it is not what was stored.")
@pytest.mark.parametrize(
    ("name", "content", "listed", "absence"),
    [
        ("{}", None, "The content is lost", "is lost: the artifact store has nothing under its hash."),
        ("{}", b"less\n", "The content is not what was stored", "is damaged: it is not what was stored."),
        ("", None, "The artifact store cannot be reached", "cannot be read now: the artifact store is unreachable."),
    ],
)
def test_a_file_that_left_the_store_is_described_as_on_its_own_page(
    client: Client, run: Run, settings: Settings, name: str, content: bytes | None, listed: str, absence: str
) -> None:
    call, field = cut_call(run, "\n".join(LINES[:40]), "\n".join(LINES[:600]))
    file = stored(call, b"x\n" * 3_000, path=PATH, role="output")
    path = Path(settings.ARTIFACTS) / file.sha256[:2] / name.format(file.sha256)
    if path.is_dir():
        shutil.rmtree(settings.ARTIFACTS)
    else:
        path.unlink()
    if content is not None:
        path.write_bytes(content)
    page = load_call(client, call)
    assert page.by_role("link", listed)
    assert listed in open_page(client, file).text
    assert f"saved the complete output to a file: 3,000 lines, 6.0 KB. That file {absence}" in cuts(page)
    assert key_leads_to(page) == [f"/artifacts/{field.pk}/?from=31&line=41#L31"]


def test_what_the_recording_holds_whole_is_not_called_all_of_it(client: Client, run: Run) -> None:
    call, _ = cut_call(run, "\n".join(LINES[:5]), "\n".join(LINES[:5]))
    stored(call, b"x\n", path=PATH, role="output", state="missing")
    assert "the model got all 5 lines, as far as it was recorded." in cuts(load_call(client, call))


def test_a_file_that_the_receipt_does_not_call_the_output_is_none(client: Client, run: Run) -> None:
    call, field = cut_call(run, "\n".join(LINES[:40]), "\n".join(LINES[:600]))
    stored(call, b"x\n", path="/home/x/transcript.jsonl")
    page = load_call(client, call)
    assert "to a file" not in cuts(page)
    assert key_leads_to(page) == [f"/artifacts/{field.pk}/?from=31&line=41#L31"]


@pytest.mark.extended
def test_of_an_output_on_one_line_the_key_leads_behind_what_the_model_got(client: Client, run: Run) -> None:
    call, field = cut_call(run, ONE_LINE[:2_000], ONE_LINE)
    page = load_call(client, call)
    assert f"the model got the first 2,000 of {len(ONE_LINE):,} characters of its one line." in cuts(page)
    assert key_leads_to(page) == [f"/artifacts/{field.pk}/?offset=2000#L1"]
    file = stored(call, f"\ufeff{ONE_LINE}".encode("utf-16-le"), path=PATH)
    led = open_page(client, file, "?unseen")
    ((number, rest),) = rows_of(led)
    assert (number, rest[:40]) == (1, ONE_LINE[2_000:2_040])
    assert led.select_one(".line")["data-seen"] == "no"
    assert "0 of 1 lines, and the first 4.0 KB of line 1" in led.text
    assert open_page(client, file).has('.line[data-seen="part"]')


def test_a_preview_that_ends_within_a_line_is_marked(client: Client, run: Run) -> None:
    call, _ = cut_call(run, "\n".join([*LINES[:10], "line 11 of"]), "\n".join(LINES[:600]))
    sentence = "the model got lines 1–10 of 600; 590 not seen. Of line 11 it got the beginning."
    assert sentence in cuts(load_call(client, call))


def test_where_nothing_is_unseen_or_nothing_known_the_page_says_so(client: Client, run: Run) -> None:
    call, _ = cut_call(run, "\n".join(LINES[:5]), "\n".join(LINES[:5]))
    whole = stored(call, "\n".join(LINES[:5]).encode(), path=PATH)
    other = stored(call, b"another output\n", path=PATH)
    assert "The model got all of it" in open_page(client, whole, "?unseen").text
    assert "It is unknown which of these lines the model got" in open_page(client, other, "?unseen").text


@pytest.mark.parametrize(
    ("text", "whole", "shown", "partial"),
    [
        ("abcdef", 0, [(0, 3)], PartialLine(line=1, start=0, end=3)),
        ("ab\ncdef", 1, [(0, 2), (3, 5)], PartialLine(line=2, start=3, end=5)),
        ("ab\ncdef", 1, [(3, 4), (4, 5), (0, 2)], PartialLine(line=2, start=3, end=5)),
        ("ab\ncdef", 1, [(0, 5)], PartialLine(line=2, start=3, end=5)),
        ("ab\ncdef", 1, [(0, 3)], None),
        ("ab\ncdef", 1, [(0, 2), (4, 6)], None),
        ("ab\ncdef\ngh", 1, [(0, 2), (8, 9)], None),
        ("ab\ncdef", 0, [], None),
    ],
)
def test_a_line_is_begun_where_what_is_shown_of_it_reaches_to_its_start(
    text: str, whole: int, shown: list[tuple[int, int]], partial: PartialLine | None
) -> None:
    cut = Cut("lines", text.count("\n") + 1, ((0, whole),) if whole else ())
    assert find_partial_line(text, shown, cut) == partial


def test_a_file_of_which_no_size_is_recorded_is_not_called_empty(client: Client, run: Run) -> None:
    call, _ = cut_call(run, "\n".join(LINES[:40]), "\n".join(LINES[:600]))
    stored(call, b"", path=PATH, role="output", state="missing")
    Artifact.objects.filter(observation=None).update(size=0, sha256="")
    assert "saved the complete output to a file. That file was not imported." in cuts(load_call(client, call))

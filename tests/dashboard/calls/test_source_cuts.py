"""Cuts that a source made itself: an imported session's columns, Call page, Runs filter, Run page and Model view."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.test import Client

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Observation, Project
from tests.cases import extended_except
from tests.dashboard.page_text import Page, parse_page
from tests.dashboard.recorded_calls import load_call
from tests.dashboard.sessions import SESSION, answers, asks, write
from tests.envelopes.recordings.samples import FOLDER

pytestmark = pytest.mark.usefixtures("alice")

LOG = "a line of the log\n" * 290  # 5,220 characters
PREVIEW = (
    "<persisted-output>\nOutput too large (70KB). Full output saved to: /t/1.txt\n\n"
    "Preview (first 2KB):\n{}\n...\n</persisted-output>"
)
INSPECT = "inspect_ai/2026-11-21T20-37-26-00-00_task_Y5LYfnBnFHBzMyi4aqKPRe.json"
LISTING_LIMIT = "(Results are truncated. Consider using a more specific path or pattern.)"


def numbered(content: str, first: int = 1) -> str:
    return "\n".join(f"{number:6}→{line}" for number, line in enumerate(content.split("\n"), first))


def file_of(content: str, start: int = 1, total: int = 0) -> dict[str, Any]:
    count = content.count("\n") + 1
    file = {"filePath": "/a.py", "content": content, "numLines": count, "startLine": start}
    return {"type": "text", "file": file | {"totalLines": total or count}}


def stdout(text: str) -> dict[str, Any]:
    return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}


class Answered(NamedTuple):
    tool: str
    args: dict[str, Any]
    receipt: str
    result: Any
    is_error: bool = False


class Shown(NamedTuple):
    """Columns of a cut call, its `row` on the Run page, and the badges and a sentence of its own page."""

    seen: int
    lines: int
    fidelity: str
    row: str
    badges: list[str]
    sentence: str


BY_SOURCE, ON_THE_WAY = "cut by the source", "cut before the model"
INFLATED = "log holds more than the model got"
FAILURE = f"Exit code 1\n{LOG}be\n\n... [39012 characters truncated] ...\n\nhind\n{LOG[:-1]}"
STREAM = f"{LOG}be\n\n... [40 lines truncated] ..."
CODE = "\n".join(f"line {number}" for number in range(1, 31))
BLANK_END = CODE[: CODE.rindex("\n") + 1]  # its last line is blank, in the middle of a file
LONG_FILE = "\n".join(f"line {number}" for number in range(1, 2_001))
LONG_LINE = f"a\n{'x' * 2_000}... [truncated]\nb"
OUTPUT = "\n".join(f"line {number} of the output" for number in range(1, 301))
MATCHES = {"mode": "content", "content": "a:1:x", "numFiles": 0, "appliedLimit": 1}

LISTED = {"filenames": ["/a"], "numFiles": 1, "truncated": True}

CUT_CHARACTERS = "The source cut 39,012 characters out of it, which are in neither half."
CUT_LINES = "The source cut 40 lines out of it, which are in neither half."
CUT_END = "The source cut off the end of 1 line."
LINES_MORE = "3,432 not seen. The tool stopped at its own limit: the call asked for 3,432 lines more."
MORE = "The tool stopped at its own limit; how many more {} there are was not recorded."
SAVED = "The complete output was saved to a file."

CUT = {
    "a failing command": (
        Answered("Bash", {"command": "make"}, FAILURE, f"Error: {FAILURE}", is_error=True),
        Shown(580, 581, "bounded", "580 / 581+", [BY_SOURCE], f"580 of at least 581 lines. {CUT_CHARACTERS}"),
    ),
    "a long stream": (
        Answered("Bash", {"command": "make"}, STREAM, stdout(STREAM)),
        Shown(290, 330, "bounded", "290 / 330+", [BY_SOURCE], f"lines 1–290 of 330; 40 not seen. {CUT_LINES}"),
    ),
    "a long line": (
        Answered("Read", {"file_path": "/a.py"}, numbered(LONG_LINE), file_of(LONG_LINE)),
        Shown(2, 3, "bounded", "2 / 3+", [BY_SOURCE], f"2 of at least 3 lines. {CUT_END}"),
    ),
    "the default limit": (
        Answered("Read", {"file_path": "/a.py"}, numbered(LONG_FILE), file_of(LONG_FILE, total=5_432)),
        Shown(2_000, 5_432, "bounded", "2,000 / 5,432+", [BY_SOURCE], f"lines 1–2,000 of 5,432; {LINES_MORE}"),
    ),
    "a long listing": (
        Answered("Glob", {"pattern": "*"}, f"/a\n{LISTING_LIMIT}", LISTED),
        Shown(0, 0, "bounded", "a part", [BY_SOURCE], f"a part of it. {MORE.format('files')}"),
    ),
    "a limited search": (
        Answered("Grep", {"pattern": "x"}, "a:1:x\n\n[Showing results with pagination = limit: 1]", MATCHES),
        Shown(1, 2, "bounded", "1 / 2+", [BY_SOURCE], f"1 of at least 2 lines. {MORE.format('matches')}"),
    ),
    "a subagent's preview": (
        Answered("Bash", {"command": "make"}, PREVIEW.format("one\ntwo"), None),
        Shown(0, 0, "parsed_from_receipt", "a part", [ON_THE_WAY], f"a preview of 7 characters. {SAVED}"),
    ),
    "an inflated receipt": (
        Answered("Bash", {"command": "make"}, PREVIEW.format(OUTPUT), stdout(OUTPUT)),
        Shown(
            91, 300, "structured", "≤ 91 / 300", [INFLATED], "At most, the model got lines 1–91 of 300; 209 not seen."
        ),
    ),
}


def take(project: Project, folder: Path, answered: Answered) -> Call:
    """Imports a session with the one call."""
    answer = answers("toolu_01", answered.receipt, answered.result, is_error=answered.is_error)
    if answered.result is None:
        del answer["toolUseResult"]
    lines = [asks("toolu_01", answered.tool, answered.args), answer]
    import_paths(project, [write(folder / f"{SESSION}.jsonl", lines)])
    return Call.objects.get()


def open_page(client: Client, address: str) -> Page:
    return parse_page(client.get(address))


def is_listed(client: Client, call: Call, query: str) -> bool:
    return open_page(client, f"/runs/?q={query}").has(f'a[href^="/runs/{call.run_id}/"]')


@pytest.mark.parametrize("name", extended_except(CUT, "a failing command", "a long listing", "an inflated receipt"))
def test_a_cut_by_the_source_is_on_every_page(client: Client, project: Project, tmp_path: Path, name: str) -> None:
    answered, shown = CUT[name]
    call = take(project, tmp_path, answered)
    assert (call.seen_lines, call.output_lines, call.result_fidelity) == shown[:3]
    assert call.is_cut
    page = load_call(client, call)
    badges = [badge.text for badge in page.select("header .badge")]
    assert [badge for badge in badges if badge in (BY_SOURCE, ON_THE_WAY, INFLATED)] == shown.badges
    sentences = page.select_one(".cuts").text
    assert shown.sentence in sentences
    assert " all " not in sentences
    assert "asked for lines" not in sentences
    assert (is_listed(client, call, "cut:yes"), is_listed(client, call, "cut:no")) == (True, False)
    rows = open_page(client, f"/runs/{call.run_id}/").select(f"#c-{call.pk} .row-cut")
    assert [row.text for row in rows] == [shown.row]
    assert "cut before the model" in open_page(client, f"/runs/{call.run_id}/context").text


def test_an_output_that_inspect_cut_is_measured_in_the_bytes_that_it_recorded(client: Client, project: Project) -> None:
    """Its lines count those that are left, so that they would seem to be nearly all of it."""
    import_paths(project, [FOLDER / INSPECT])
    call = Call.objects.get(tool="big")
    page = load_call(client, call)
    size = "16,384 of 140,889 bytes"
    assert f"the model got {size}. The source recorded only a part of it." in page.select_one(".cuts").text
    assert f"the model got {size}" in page.select_one(".head-cut").text
    bar = page.select_one(".cuts .cut-bar")
    assert [(part["class"], part["width"]) for part in bar.select("rect[x]")][1:] == [
        ("seen", "116.29"),
        ("unseen", "883.71"),
    ]
    Observation.objects.filter(call=call, surface="timing").delete()
    page = load_call(client, call)
    assert "the model got 235 of at least 236 lines." in page.select_one(".cuts").text
    last = page.select(".cuts .cut-bar rect")[-1]
    assert (last["class"], last["x"], last.text) == ("open", "850", "an unknown number of lines: not seen")


@pytest.mark.parametrize(
    ("args", "content", "first", "total"),
    [
        pytest.param({"offset": 0}, CODE, 0, 0, marks=pytest.mark.extended),
        pytest.param({"limit": 30}, CODE, 1, 230, marks=pytest.mark.extended),
        ({"offset": 200, "limit": 30}, CODE, 200, 1_432),
        ({"offset": 200, "limit": 30}, BLANK_END, 200, 1_432),
        ({"offset": 200, "limit": 30}, BLANK_END, 200, 230),  # of which the last may be the nothing behind a line break
        ({}, f"{LOG}\n\n... [9 characters truncated] ...\n\n{LOG}<persisted-output>", 1, 0),
        pytest.param({}, "return text[:9] + '… [truncated]'\nx ... [truncated]", 1, 0, marks=pytest.mark.extended),
    ],
    ids=[
        *("from offset 0", "with a limit", "lines in the middle", "lines before a blank one", "all but the last line"),
        *("words about cuts", "lines that end so"),
    ],
)
def test_a_file_that_was_read_as_the_call_asked_is_not_cut(
    client: Client,
    project: Project,
    tmp_path: Path,
    args: dict[str, Any],
    content: str,
    first: int,
    total: int,
) -> None:
    count = content.count("\n") + 1
    read = Answered("Read", {"file_path": "/a.py", **args}, numbered(content, first), file_of(content, first, total))
    call = take(project, tmp_path, read)
    assert (call.is_cut, call.result_fidelity) == (False, "structured")
    assert (call.seen_lines, call.output_lines) == (count, count)
    page = load_call(client, call)
    assert f"the model got all {count:,} lines." in page.select_one(".cuts").text
    asked = f"The call asked for lines {first}–{first + 29} of {total:,}; the other {total - 30:,} were not asked for."
    assert (asked in page.text) == bool(total)
    assert not is_listed(client, call, "cut:yes")


def test_lines_are_asked_for_only_where_the_arguments_name_them(
    client: Client, project: Project, tmp_path: Path
) -> None:
    args = {"file_path": "/a.py", "offset": "from the middle", "limit": 30}
    call = take(project, tmp_path, Answered("Read", args, numbered(CODE, 200), file_of(CODE, 200, 1_432)))
    text = load_call(client, call).select_one(".cuts").text
    assert "The recording has lines 200–229 of 1,432." in text
    assert "asked for" not in text


def test_a_receipt_that_cannot_be_linked_is_not_said_to_hold_nothing(
    client: Client, project: Project, tmp_path: Path
) -> None:
    call = take(project, tmp_path, Answered("Read", {"file_path": "/a.py"}, "a summary", file_of(CODE)))
    sentences = load_call(client, call).select_one(".cuts").text
    assert (
        "The recorded output (30 lines) is not in the receipt word for word. It may be there in another form."
        in sentences
    )
    assert "the model got none" not in sentences

"""Two runs side by side: which calls belong together, where the runs part, and what differs in a pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from dashboard.ingest.importer import import_paths
from dashboard.models import Project, Run
from dashboard.runs.run_comparison import RecordedHalf, RunCallRow, align_calls
from dashboard.runs.run_pair import write_members
from tests.cases import each
from tests.dashboard.factories import create_call, create_project, create_run
from tests.dashboard.page_text import Page, assert_harmless, parse_page
from tests.dashboard.sessions import FORK, SESSION, write_cut_fork

pytestmark = pytest.mark.django_db


def row(name: str, number: int) -> RunCallRow:
    """A call as `tool:arguments`."""
    tool, _, args = name.partition(":")
    halves = {"args": RecordedHalf(args, 1)}
    return RunCallRow(UUID(int=number), number, tool, args, "succeeded", None, 0, is_cut=False, halves=halves)


@each(
    ("left", "right", "pairs"),
    [
        ("", "", ""),
        ("Bash:a Read:b", "Bash:a Read:b", "same same"),
        ("Bash:a Read:b", "Bash:a Read:c", "same args"),
        ("Bash:a Read:b", "Bash:a", "same left"),
        ("Bash:a", "Read:x Bash:a", "right same"),
        ("Bash:a Read:b Bash:c", "Bash:a Edit:e Read:f Bash:c", "same right args same"),
        ("Bash:a Bash:b Bash:c", "Bash:b Bash:c Bash:a", "left same same right"),
        ("Bash:a", "Read:a", "left right"),
    ],
)
def test_calls_are_paired_in_order_and_by_tool(left: str, right: str, pairs: str) -> None:
    sides = [[row(name, number) for number, name in enumerate(side.split(), 1)] for side in (left, right)]
    aligned, is_rough = align_calls(*sides)
    assert " ".join(pair.kind for pair in aligned) == pairs
    assert [call.number for pair in aligned if (call := pair.left)] == list(range(1, len(sides[0]) + 1))
    assert [call.number for pair in aligned if (call := pair.right)] == list(range(1, len(sides[1]) + 1))
    assert not is_rough


def create_side(project: Project, *calls: dict[str, Any], **fields: Any) -> Run:
    run = create_run(project, **{"call_count": len(calls), "own_call_count": len(calls)} | fields)
    for call in calls:
        create_call(run, **{"result": {"stdout": "a\nb"}, "receipt": "a\nb"} | call)
    return run


@pytest.fixture
def sides(project: Project) -> list[Run]:
    read = {"tool": "Read", "args": {"file_path": "/a"}, "asked": "file_path=/a"}
    listed = {"args": {"command": "ls"}, "asked": "command=ls"}
    left = create_side(project, listed, read, {"args": {"command": "make"}}, title="First", failed_count=1)
    other_receipt = {**read, "receipt": "a\nc", "result": {"stdout": "a\nc"}}
    last = {"args": {"command": "make test"}, "outcome": "failed", "exit_status": 2}
    right = create_side(project, listed, other_receipt, last, {"tool": "Edit"}, title="Second", token_count=70)
    return [left, right]


def load(client: Client, sides: list[Run], address: str = "") -> Page:
    response = client.get(f"/runs/{sides[0].pk}/against/{sides[1].pk}/{address}")
    assert response.status_code == 200
    return parse_page(response)


def kinds(page: Page) -> list[str]:
    return [row["data-kind"] for row in page.select(".against-table tbody tr")]


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_a_page_has_the_pairs_the_totals_and_where_the_runs_part(client: Client, sides: list[Run]) -> None:
    page = load(client, sides)
    assert kinds(page) == ["same", "changed", "args", "right"]
    totals = {row[0]: row[1:] for row in page.rows(".against-totals tbody tr")}
    assert totals["Calls"] == ["3", "4", "+1"]
    assert totals["Failed"] == ["1", "0", "−1"]
    assert totals["Tokens of receipts, estimated"] == ["0", "70", "+70"]
    assert [page.by_role("link", name)["href"] for name in ("First difference", "First other call")] == [
        "?#pair-1",
        "?#pair-2",
    ]
    changed = page.by_id("pair-1")
    assert changed.texts("td[data-head]") == ["same", "changed, same size", "changed, same size"]
    assert "failed, exit 2" in page.by_id("pair-2").text
    assert "no such call" in page.by_id("pair-3").text


@pytest.mark.usefixtures("alice")
def test_equal_pairs_can_be_left_out(client: Client, sides: list[Run]) -> None:
    page = load(client, sides, "?only=1")
    assert kinds(page) == ["changed", "args", "right"]
    assert page.by_role("link", "All calls")["href"] == "?"
    assert load(client, [sides[0], sides[0]], "?only=1").by_text("No pair differs.")


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_a_pair_opens_with_the_difference_of_each_half(client: Client, sides: list[Run]) -> None:
    page = load(client, sides, "?pair=1")
    assert page.by_role("heading", "Read")
    assert page.all_by_role("region", "Difference: Arguments") == []
    result, receipt = (page.by_role("region", f"Difference: {name}") for name in ("Result", "Receipt"))
    assert result.rows(".diff tbody tr")[-1] == ["3", "b", "3", "c"]
    assert receipt.rows(".diff tbody tr") == [["1", "a", "1", "a"], ["2", "b", "2", "c"]]
    assert [page.by_role("link", name)["href"] for name in ("Previous", "Next")] == ["?pair=0", "?pair=2"]
    one_sided = load(client, sides, "?pair=3&only=1")
    assert "no such call" in one_sided.text
    assert client.get(f"/runs/{sides[0].pk}/against/{sides[1].pk}/?pair=4").status_code == 404


@pytest.mark.usefixtures("alice")
def test_long_runs_are_paged_and_a_jump_leads_to_the_page_of_the_pair(
    client: Client, project: Project, settings: Settings
) -> None:
    settings.PAIRS_PER_PAGE = 5
    settings.COMPARED_CALLS = 20
    calls = [{"args": {"command": f"echo {number}"}} for number in range(22)]
    sides = [create_side(project, *calls), create_side(project, *calls[:18], {"tool": "Edit"}, *calls[19:])]
    page = load(client, sides)
    assert kinds(page) == ["same"] * 5
    assert page.select_one("a[rel=next]")["href"] == "?skip=5"
    assert "The last 4 calls are not compared" in page.text
    target = page.by_role("link", "First difference")["href"]
    address, _, pair = target.partition("#")
    assert address == "?skip=8"
    assert load(client, sides, "?skip=18").by_id(pair)
    assert kinds(load(client, sides, "?skip=999")) == ["same"]
    assert "no difference in what is compared" in load(client, [sides[0], sides[0]]).text


@pytest.mark.postgresql
@pytest.mark.usefixtures("alice")
def test_two_checked_runs_lead_to_their_page_the_older_one_first(client: Client, sides: list[Run]) -> None:
    page = parse_page(client.get("/runs/"))
    form = page.by_id("chosen-runs")
    boxes = form.select("input[type=checkbox][name=run]")
    assert {box["value"] for box in boxes} == {run.pk.hex for run in sides}
    response = client.get(form["action"], {"run": [box["value"] for box in boxes]})
    first, second = Run.objects.order_by("sort_at", "pk")
    assert response["Location"] == f"/runs/{first.pk}/against/{second.pk}/"
    other = create_run(create_project("other"))
    refused = {(sides[0].pk,): "You chose 1.", (sides[0].pk, other.pk): "not in this project", (): "You chose 0."}
    for keys, words in refused.items():
        assert words in parse_page(client.get("/runs/against/", {"run": keys})).text


@pytest.mark.postgresql
def test_a_fork_leads_to_its_original_and_has_its_own_receipts(
    client: Client, alice: object, project: Project, tmp_path: Path
) -> None:
    import_paths(project, write_cut_fork(tmp_path))
    original, fork = (project.runs.get(external_id=name) for name in (SESSION, FORK))
    facts = parse_page(client.get(f"/runs/{fork.pk}/"))
    response = client.get(facts.by_role("link", "Compare with its original")["href"])
    assert response["Location"] == f"/runs/{original.pk}/against/{fork.pk}/"
    page = load(client, [original, fork])
    assert kinds(page) == ["changed", "same", "same", "right", "right"]
    assert page.by_id("pair-0").texts("td[data-head]")[:2] == ["same", "same"]
    assert "Output too large" in load(client, [original, fork], "?pair=0").by_role("region", "Difference: Receipt").text


@pytest.mark.usefixtures("alice")
def test_hostile_names_do_nothing(client: Client, project: Project) -> None:
    call = {
        "tool": "<script>alert(1)</script>\u202e",
        "asked": "command=<b hx-get=/>\x1b",
        "receipt": "<script>alert(1)",
    }
    sides = [create_side(project, {**call, "args": {"a": number}}, title="<script>alert") for number in range(2)]
    for address in ("", "?pair=0"):
        assert_harmless(load(client, sides, address))


@pytest.mark.usefixtures("alice")
def test_the_number_of_queries_does_not_grow_with_the_calls(
    client: Client, project: Project, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    sides = [create_side(project, *[{"args": {"a": number}} for number in range(9)]) for _ in range(2)]
    with django_assert_max_num_queries(14):
        load(client, sides)


@each(
    ("raw", "text"),
    [
        (b'{"a": 1, "b": {"c": [true, "x"]}}', '/a: 1\n/b/c/0: true\n/b/c/1: "x"'),
        (b'{"stdout": "a\\nb", "e": {}}', "/stdout:\na\nb\n/e: {}"),
        (b'"text"', ': "text"'),
        (b"no json \xff", "no json \\xff"),
    ],
)
def test_payloads_are_compared_as_members_and_lines(raw: bytes, text: str) -> None:
    assert write_members(raw) == text

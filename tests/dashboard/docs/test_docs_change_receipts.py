"""The page "Change how your agent's tools speak": its commands are run on the bundled recordings, its numbers held."""

from __future__ import annotations

import json
import re
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from dashboard.ingest.importer import import_paths
from dashboard.models import Call, Project
from dashboard.variants.variant_list import save_version
from envelopes.families.registry import family
from tests.conftest import CHECKOUT
from tests.dashboard.factories import create_user

pytestmark = [pytest.mark.django_db, pytest.mark.rendering]

PAGE = (CHECKOUT / "dashboard" / "docs" / "changing-receipts.md").read_text("utf-8")
COMMANDS = re.findall(r"^python manage\.py (compare_variants .*)$", PAGE, re.MULTILINE)
BLOCKS = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
TEMPLATES = [block for block in BLOCKS if "{{" in block]
MEASURES = ("calls", "tokens", "cut", "lint", "dropped")


def rows(*titles: str) -> dict[str, list[int]]:
    """The tables of the page that have these columns: numbers by the first cell."""
    tables = [[re.split(r"\s{2,}", line) for line in block.splitlines()] for block in BLOCKS]
    lines = [line for heading, *rest in tables if tuple(heading) == titles for line in rest]
    return {name: [int(cell.replace(",", "")) for cell in cells] for name, *cells in lines}


def printed(command: str) -> dict[str, Any]:
    out = StringIO()
    call_command(*command.split(), stdout=out)
    return json.loads(out.getvalue())


@pytest.fixture
def bundled() -> Project:
    # The first of a store, as for who reads the page: the names of artifacts, and so some tokens, follow from its key.
    project = Project.objects.create(pk=1, slug="demo", name="Demo")
    import_paths(project, [CHECKOUT / "dashboard" / "samples"])
    author = create_user("ada", project=project)
    for source in TEMPLATES:
        save_version(project, family("file"), author, name="brief", title="Brief", source=source, characters="12000")
    return project


def split(document: dict[str, Any]) -> dict[str, list[int]]:
    """Calls that have both texts, tokens as recorded and of the receipt, by tool, Reads also by the receipt's cut."""
    found: dict[str, list[int]] = {}
    for call in document["calls"]:
        if "recorded" in call["variants"]:
            recorded, receipt = call["variants"]["recorded"], call["variants"]["receipt"]
            name = call["tool"] if call["tool"] != "Read" else "Read, cut" if receipt["cut"] else "Read, whole"
            before = found.get(name, [0, 0, 0])
            found[name] = [before[0] + 1, before[1] + recorded["tokens"], before[2] + receipt["tokens"]]
    return found


@pytest.mark.extended
def test_the_numbers_of_the_page_are_those_of_its_commands(bundled: Project) -> None:
    first, second = map(printed, COMMANDS)
    totals = second["totals"] | first["totals"]
    stated = rows("column", *MEASURES)
    assert stated == {name: [totals[name][measure] for measure in MEASURES] for name in stated}
    assert set(stated) == {"recorded", "receipt", "brief@1", "brief@2"}
    assert rows("calls", "number", "recorded", "receipt") == split(first)
    assert totals["brief@1"]["rules"] == {"artifact_unnamed": 17}
    for sentence in sentences(totals, split(first)):
        assert sentence in PAGE.replace("\n", " ")
    assert Call.objects.count() == 210


def sentences(totals: dict[str, Any], by_tool: dict[str, list[int]]) -> list[str]:
    """What the text says, from the numbers."""
    delta, brief = totals["receipt"]["deltas"]["tokens"], totals["brief@2"]["deltas"]["tokens"]
    of_cut = by_tool["Read, cut"][1] - by_tool["Read, cut"][2]
    of_whole = by_tool["Read, whole"][1] - by_tool["Read, whole"][2]
    low, high = (-end for end in reversed(brief["interval"]))
    return [
        f"Over the {delta['calls']} calls that have a text in both columns",
        f"the receipt takes {-delta['delta']:,} tokens less",
        f"{delta['more']} calls take more, and {totals['receipt']['cut']} are cut",
        f"costs {totals['brief@2']['tokens'] - totals['brief@1']['tokens']:,} tokens more than the first",
        f"takes {-brief['delta']:,} tokens less over the {brief['calls']} calls that have both",
        f"an interval of {low:,.0f} to {high:,.0f} less; {brief['more']} calls take more",
        f"{of_cut:,} are in {by_tool['Read, cut'][0]} Reads that passed the ceiling",
        f"takes {-delta['delta'] - of_cut:,} tokens less over {delta['calls'] - by_tool['Read, cut'][0]} calls",
        f"the one in whole Reads, {of_whole:,} tokens",
    ]

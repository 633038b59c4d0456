"""Families and variants of installed packages: real packages with real metadata, in a folder on the path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.test import Client

from dashboard.models import Project
from dashboard.variants.variant_list import offered_variants
from envelopes import families, variants
from envelopes.families import plugins, registry
from envelopes.families.registry import all_families, family, find_mapping
from envelopes.schema.receipt import Variant
from tests.cases import extended_except
from tests.dashboard.factories import create_run
from tests.dashboard.page_text import parse_page
from tests.dashboard.recorded_calls import bash

VARIANT = """
from envelopes.schema.receipt import Segment
from envelopes.schema.receipt import Variant
def render(canonical, policy):
    {body}
VARIANT = Variant(id="{id}", version=3, title="Terse", render=render)
"""
WRITES = 'yield Segment(canonical.status, "headline")'
FAMILY = """
import msgspec
from envelopes.families.base import Family, project_by_type
from envelopes.families.segments import headline, receipt_renderer
from envelopes.alignment.mapping import ToolMapping
class Ticket(msgspec.Struct):
    id: str = ""
FAMILY = Family(
    name="{name}", title="Tickets", results=(Ticket,),
    project=project_by_type({{Ticket: lambda ticket, projector, policy: {{"id": ticket.id}}}}),
    renderers={{"receipt": receipt_renderer(lambda canonical: [headline(canonical.summary_text)])}},
    mappings=({mappings}),
)
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """install("pkg", "counterfoil.variants", "name = pkg:VARIANT", source)"""
    monkeypatch.syspath_prepend(str(tmp_path))
    installed: list[str] = []

    def put(package: str, group: str, point: str, source: str | None) -> None:
        metadata = tmp_path / f"{package}-1.2.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{point}\n")
        if source is not None:
            (tmp_path / f"{package}.py").write_text(source)
        installed.append(package)
        registry.reload_plugins()
        variants.reload_plugins()

    yield put
    for package in installed:
        sys.modules.pop(package, None)
    monkeypatch.undo()
    registry.reload_plugins()
    variants.reload_plugins()


def test_a_variant_of_a_package_serves_its_family_alone_or_all(install: Install, project: Project) -> None:
    install("terse_pkg", "counterfoil.variants", "terse = terse_pkg:VARIANT", VARIANT.format(id="terse", body=WRITES))
    brief = VARIANT.format(id="command/brief", body=WRITES)
    install("brief_pkg", "counterfoil.variants", "brief = brief_pkg:VARIANT", brief)
    by_family = {
        name: {offer.key: offer for offer in offered_variants(project, family(name))} for name in ("command", "file")
    }
    assert by_family["command"]["brief"].variant.id == "command/brief"
    assert by_family["command"]["terse"].origin == "terse_pkg 1.2"
    assert "terse" in by_family["file"]
    assert "brief" not in by_family["file"]
    assert next(iter(by_family["command"])) == "receipt"


def test_a_family_of_a_package_reads_its_tools_and_has_its_page(install: Install, operator_client: Client) -> None:
    row = 'ToolMapping(agent="robot", tools=("Ticket",), version=1, read=None, align=None),'
    install("tickets", "counterfoil.families", "tickets = tickets:FAMILY", FAMILY.format(name="ticket", mappings=row))
    assert family("ticket").title == "Tickets"
    assert find_mapping("robot", "Ticket")[0].name == "ticket"
    assert parse_page(operator_client.get("/experiments/")).by_role("link", "Tickets", exact=True)
    assert operator_client.get("/experiments/renderers/ticket/").status_code == 200


BROKEN = {
    "not there": (None, "ModuleNotFoundError: No module named 'pkg'"),
    "raises": ("raise RuntimeError('no database')", "RuntimeError: no database"),
    "leaves": ("raise SystemExit(3)", "SystemExit: 3"),
    "does not parse": ("def (", "SyntaxError"),
    "other name": ("x = 1", "AttributeError: module 'pkg' has no attribute 'VARIANT'"),
    "other type": ("VARIANT = 'text'", "expected a Variant, found str"),
    "taken": (VARIANT.format(id="markdown", body=WRITES), "there is a variant markdown already"),
    "other policy": (
        VARIANT.format(id="terse", body=WRITES).replace('title="Terse"', 'title="Terse", policy=3'),
        "a RenderPolicy is expected, not int",
    ),
    "no function": (
        VARIANT.format(id="terse", body=WRITES).replace("render=render", "render='text'"),
        "terse: its `render` is not a function",
    ),
    "odd id": (VARIANT.format(id="<script>", body=WRITES), "the id '<script>' is neither"),
}


@pytest.mark.rendering
@pytest.mark.parametrize("name", extended_except(BROKEN, "odd id", *list(BROKEN)[:2]))
def test_a_broken_package_is_listed_with_its_error_and_harms_nothing(
    install: Install, operator_client: Client, project: Project, name: str
) -> None:
    source, reason = BROKEN[name]
    before = [offer.key for offer in offered_variants(project, family("command"))]
    install("pkg", "counterfoil.variants", "one = pkg:VARIANT", source)
    broken = parse_page(operator_client.get("/experiments/")).by_role("region", "Packages that could not be loaded")
    assert reason in broken.text
    assert "pkg 1.2" in broken.text
    assert [offer.key for offer in offered_variants(project, family("command"))] == before
    assert operator_client.get("/experiments/renderers/command/").status_code == 200


@pytest.mark.rendering
@pytest.mark.parametrize(
    ("name", "row", "reason"),
    [
        ("command", "", "there is a family command already"),
        ("Bad Name", "", "is no lower-case word"),
        ("ticket", '"text",', "a ToolMapping is expected, not str"),
        (
            "ticket",
            'ToolMapping(agent="claude-code", tools=("Bash",), version=1, read=None, align=None),',
            "the tool Bash of claude-code is another family's",
        ),
    ],
)
def test_a_family_that_would_take_anothers_place_is_refused(install: Install, name: str, row: str, reason: str) -> None:
    install("pkg", "counterfoil.families", "one = pkg:FAMILY", FAMILY.format(name=name, mappings=row))
    (broken,) = registry.installed_families().broken
    assert reason in broken.reason
    assert all_families() == families.FAMILIES


@pytest.mark.rendering
@pytest.mark.parametrize(
    ("written", "instead", "reason"),
    [
        ('"receipt"', '"markdown"', "ticket: it needs a renderer `receipt`"),
        (
            "receipt_renderer(lambda canonical: [headline(canonical.summary_text)])",
            "'text'",
            "all of them are functions",
        ),
        ("mappings=()", "tools=builtin('WebFetch')[0].tools", "ticket: there is a tool WebFetch already"),
    ],
)
def test_a_family_without_a_receipt_or_with_anothers_tools_is_refused(
    install: Install, written: str, instead: str, reason: str
) -> None:
    source = FAMILY.format(name="ticket", mappings="").replace(written, instead)
    install(
        "pkg",
        "counterfoil.families",
        "one = pkg:FAMILY",
        source.replace("import msgspec", "import msgspec\nfrom envelopes.families.registry import builtin"),
    )
    (broken,) = registry.installed_families().broken
    assert reason in broken.reason
    assert all_families() == families.FAMILIES


@pytest.mark.rendering
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("raise ValueError('never mind')", "ValueError: never mind"),
        ("return [1, 2]", "could not write this receipt"),
        ('yield Segment("x" * 20_000, "value")', "wrote 20000 characters, its policy allows 12000"),
    ],
)
def test_a_variant_that_fails_is_reported_where_it_is_requested(
    install: Install, operator_client: Client, project: Project, body: str, sentence: str
) -> None:
    install("pkg", "counterfoil.variants", "one = pkg:VARIANT", VARIANT.format(id="faulty", body=body))
    call = bash(create_run(project), "hello")
    preview = parse_page(operator_client.get(f"/experiments/renderers/command/?call={call.pk}&variant=faulty"))
    assert sentence in preview.by_id("variant-text").text
    strip = parse_page(operator_client.get(f"/calls/{call.pk}/variants/")).by_id("variants")
    assert len(strip.all_by_text("could not be written")) == 1
    assert strip.has("[data-variant=markdown]")


def test_an_import_that_never_ends_is_broken_and_holds_nobody_up(install: Install) -> None:
    install("slow_pkg", "counterfoil.variants", "slow = slow_pkg:VARIANT", "import threading; threading.Event().wait()")
    loaded = plugins.load_plugins(plugins.VARIANTS, Variant, lambda variant: None, seconds=0.05)
    (broken,) = loaded.broken
    assert (broken.origin.target, broken.reason) == ("slow_pkg:VARIANT", "its import did not end within 0.05 seconds")
    assert not loaded.plugins

"""A format and a page are added to a copy of the checkout: only the files that ARCHITECTURE.md names are touched."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.source import copy_checkout, run_in_copy, text

TOY_MODULE = '''"""The toy layout: one JSON object a line, a call and its receipt in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from envelopes.recordings.base import (
    CallRecord,
    Format,
    LineProblem,
    ReceiptRecord,
    Record,
    RunRecord,
    SourceLine,
    SourcePath,
)
from envelopes.recordings.json_lines import read_json_lines


class ToyLine(msgspec.Struct):
    toy: str
    id: str
    args: msgspec.Raw
    text: msgspec.Raw


def sniff(head: bytes, _path: SourcePath) -> bool:
    return head.startswith(b'{"toy":')


def read(
    lines: Iterable[SourceLine], path: SourcePath, state: dict[str, object]
) -> Iterator[Record | LineProblem]:
    for line in read_json_lines(lines, state):
        if isinstance(line, LineProblem):
            yield line
            continue
        try:
            toy = msgspec.json.decode(line.raw, type=ToyLine)
        except msgspec.MsgspecError as error:
            yield LineProblem(line=line.number, path="$", reason=str(error), raw=line.raw)
            continue
        yield RunRecord(line=line.number, run=path.stem, title="A toy run")
        yield CallRecord(line=line.number, run=path.stem, call=toy.id, tool=toy.toy, args=bytes(toy.args))
        yield ReceiptRecord(line=line.number, run=path.stem, call=toy.id, content=bytes(toy.text))


FORMATS = (
    Format(
        name="toy",
        title="Toy layout",
        agent="toy",
        namespace="toy",
        sniff=sniff,
        read=read,
        is_global_call_id=lambda _call: False,
        mark="a first line that begins with toy",
    ),
)
'''
TOY_SAMPLE = '{"toy":"Shout","id":"1","args":{"text":"hey"},"text":"HEY"}\n'

PAGE_DATA = '''"""The toy page: how many runs a project has."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.models import Project, Run


@dataclass(frozen=True)
class ToyPage:
    runs: int


def build_toy_page(project: Project) -> ToyPage:
    return ToyPage(runs=Run.objects.filter(project=project).count())
'''
PAGE_VIEW = '''"""The toy page."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard.accounts import OperatorRequest
from dashboard.runs.toy_page import build_toy_page


@require_GET
def index(request: OperatorRequest) -> HttpResponse:
    return render(request, "runs/toy.html", {"page": build_toy_page(request.project)})
'''
PAGE_TEMPLATE = """{% extends "base.html" %}

{% block title %}Toy · Counterfoil{% endblock %}

{% block main %}
  <header class="page-head"><h1>Toy</h1></header>
  <p id="toy-runs">{{ page.runs }}</p>
{% endblock main %}
"""
# What the copy is asked for beside its own tests, in the process that runs them.
TOY_TEST = """
import json
from io import StringIO

import pytest
from django.core.management import call_command
from importlinter.cli import lint_imports

from tests.dashboard.page_text import parse_page


@pytest.mark.django_db
def test_the_toy_page_opens(alice, client):
    assert parse_page(client.get("/toy/")).by_id("toy-runs").text == "0"


@pytest.mark.django_db
def test_the_toy_recording_is_imported():
    printed = StringIO()
    call_command("import_runs", "tests/envelopes/recordings/toy.jsonl", "--json", stdout=printed)
    report = json.loads(printed.getvalue())
    assert report["added"] == {"runs": 1, "calls": 1, "results": 0, "receipts": 1, "events": 0}
    assert report["problems"] == []


def test_the_contracts_of_imports_are_kept():
    assert lint_imports(no_cache=True) == 0
"""

CHECKS = (
    *("tests/dashboard/test_toy_page.py", "tests/envelopes/recordings/test_recordings_contract.py"),
    *("tests/test_architecture.py", "-k", "toy or registry or members or views or block"),
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The checkout's own files, without its history."""
    folder = copy_checkout(tmp_path_factory.mktemp("additions") / "counterfoil")
    yield folder
    shutil.rmtree(folder)


def write(folder: Path, files: Mapping[str, str]) -> list[str]:
    for name, content in files.items():
        (folder / name).write_text(content, "utf-8")
    return list(files)


def replace(folder: Path, name: str, *changes: tuple[str, str]) -> str:
    content = (folder / name).read_text("utf-8")
    for before, after in changes:
        assert content.count(before) == 1, f"{name} has {content.count(before)} × {before!r}"
        content = content.replace(before, after)
    (folder / name).write_text(content, "utf-8")
    return name


def files_allowed(paragraph: str) -> int:
    """`**A format** (3 files).` in ARCHITECTURE.md."""
    stated = re.search(rf"\*\*{paragraph}\*\* \((\d) files\)", text(Path("ARCHITECTURE.md")))
    assert stated
    return int(stated[1])


@pytest.mark.extended
def test_a_format_and_a_page_need_the_files_that_architecture_names_and_no_others(copy: Path) -> None:
    format_files = [
        *write(copy, {"envelopes/recordings/toy.py": TOY_MODULE, "tests/envelopes/recordings/toy.jsonl": TOY_SAMPLE}),
        replace(
            copy,
            "envelopes/recordings/__init__.py",
            ("    swe_agent,\n)", "    swe_agent,\n    toy,\n)"),
            ("    *message_dumps.FORMATS,\n)", "    *message_dumps.FORMATS,\n    *toy.FORMATS,\n)"),
        ),
    ]
    page_files = [
        *write(
            copy,
            {
                "dashboard/runs/toy_page.py": PAGE_DATA,
                "dashboard/views/toy.py": PAGE_VIEW,
                "templates/runs/toy.html": PAGE_TEMPLATE,
            },
        ),
        replace(
            copy,
            "dashboard/urls.py",
            ("handler400 =", "from dashboard.views import toy\n\nhandler400 ="),
            ("urlpatterns = [\n", 'urlpatterns = [\n    path("toy/", toy.index, name="toy"),\n'),
        ),
    ]
    assert len(format_files) <= files_allowed("A format") <= 3
    assert len(page_files) <= files_allowed("A page") <= 4

    write(copy, {"tests/dashboard/test_toy_page.py": TOY_TEST})
    run_in_copy(copy, "python", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *CHECKS)

"""What is published works outside the checkout: its program runs, its pages and their assets are inside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import CHECKOUT
from tests.source import tracked

LOOK_AT_THE_SIGN_IN_PAGE = """
import django
django.setup()
import dashboard, envelopes
from django.core.management import call_command
from django.test import Client
from selectolax.lexbor import LexborHTMLParser
print(dashboard.__file__, envelopes.__file__)
call_command("migrate", verbosity=0)
page = Client(SERVER_NAME="localhost").get("/sign-in/")
nodes = LexborHTMLParser(page.content.decode()).css('[href^="/static/"], [src^="/static/"]')
assets = [(node.attributes.get("href") or node.attributes["src"]).partition("#")[0] for node in nodes]
print(page.status_code, *(Client(SERVER_NAME="localhost").get(asset).status_code for asset in assets))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, CHECKOUT, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and nothing else; what it depends on comes from the interpreter that runs the tests."""
    folder = tmp_path_factory.mktemp("installed")
    flags = ["--quiet", "--no-deps", "--no-compile", "--no-index", "--disable-pip-version-check", "--target", folder]
    run(sys.executable, "-m", "pip", "install", *flags, wheel, cwd=folder)
    return folder


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """What the command prints. Not from the checkout, where Python would find the sources first."""
    settings = {"DJANGO_SETTINGS_MODULE": "dashboard.settings", **environment}
    done = subprocess.run(command, cwd=cwd, env=os.environ | settings, capture_output=True, text=True)
    if done.returncode:
        pytest.fail(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}", pytrace=False)
    return done.stdout


@pytest.mark.extended
def test_the_wheel_holds_every_file_of_the_packages_templates_and_assets(wheel: Path) -> None:
    moved = {"templates": "dashboard/templates", "static": "dashboard/static"}
    published = [path.as_posix() for path in tracked() if path.parts[0] in ("dashboard", "envelopes", *moved)]
    expected = {path.replace(top, moved.get(top, top), 1) for path in published for top in [path.split("/")[0]]}
    assert not expected - set(ZipFile(wheel).namelist())


@pytest.mark.extended
def test_the_wheel_carries_no_tests(wheel: Path) -> None:
    assert not [name for name in ZipFile(wheel).namelist() if name.startswith("tests/")]


@pytest.mark.extended
def test_the_installed_program_checks_itself_and_serves_the_sign_in_page(installed: Path, tmp_path: Path) -> None:
    place = {"PYTHONPATH": str(installed), "COUNTERFOIL_DATA": str(tmp_path / "data")}
    program = installed / "bin" / "counterfoil"
    assert "no issues" in run(program, "check", cwd=tmp_path, **place)
    found, codes = run(sys.executable, "-c", LOOK_AT_THE_SIGN_IN_PAGE, cwd=tmp_path, **place).splitlines()
    assert [Path(name).parents[1] for name in found.split()] == [installed, installed]
    assert len(codes.split()) > 1, "the page names no asset"
    assert set(codes.split()) == {"200"}

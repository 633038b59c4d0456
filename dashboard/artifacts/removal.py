"""Taking files out of the artifact store without pulling one from under an import.

An import stores a file before a row names it, so for a moment nothing refers to it. `taking_in` is
held together by all imports from that moment until their rows are committed; `remove_unnamed` waits
for them and lets none begin while it looks.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

LOCK = "lock"
FORMS = ("", ".zst", ".lines", ".utf-16-le.lines", ".utf-16-be.lines")
SHA256 = re.compile("[0-9a-f]{64}")


@contextmanager
def taking_in() -> Iterator[None]:
    with _locked(fcntl.LOCK_SH):
        yield


def remove_unnamed(names: set[str], named: Callable[[set[str]], set[str]]) -> None:
    """Removes the files `names` (sha256) but for those that `named` says rows still refer to."""
    if not names:
        return
    with _locked(fcntl.LOCK_EX):
        for name in sorted(names - named(names)):
            if SHA256.fullmatch(name):
                for form in FORMS:
                    (Path(settings.ARTIFACTS) / name[:2] / f"{name}{form}").unlink(missing_ok=True)


@contextmanager
def _locked(how: int) -> Iterator[None]:
    root = Path(settings.ARTIFACTS)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)

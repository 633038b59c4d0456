"""Taking content out of the artifact store without pulling it from under an import.

An import stores a file before a row names it, so for a moment nothing refers to it. `taking_in` is
held together by all imports from that moment until their rows are committed; `removing` waits for them
and lets none begin meanwhile.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.conf import settings

from dashboard.artifacts.locks import Busy, held, in_bucket
from dashboard.artifacts.stores import artifact_files
from envelopes.storage.file_store import LOCK

SHA256 = re.compile("[0-9a-f]{64}")
PATIENCE = 5.0  # seconds


@contextmanager
def taking_in() -> Iterator[None]:
    with held(_lock_file(), is_alone=False):
        yield


@contextmanager
def removing(*, patience: float = math.inf) -> Iterator[None]:
    """Waits for imports, `patience` seconds at most. Raises Busy."""
    with held(_lock_file(), is_alone=True, patience=patience):
        yield


def remove_unnamed(names: set[str], named: Callable[[set[str]], set[str]]) -> None:
    """Removes the contents `names` (sha256) but for those that `named` says rows still refer to.

    A page waits for it: where an import holds it up for long, what was to go stays for `prune_artifacts`.
    """
    if not names:
        return
    with suppress(Busy), removing(patience=PATIENCE):
        remove(names - named(names))


def remove(names: set[str]) -> None:
    """Within `removing`, and when no row refers to them any more."""
    files = artifact_files()
    for name in sorted(names):
        if SHA256.fullmatch(name):
            files.remove(name)


def _lock_file() -> Path:
    return Path(settings.ARTIFACT_CACHE if in_bucket() else settings.ARTIFACTS) / LOCK

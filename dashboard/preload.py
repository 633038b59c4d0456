"""Loads what the processes of a pool, and the workers of a cluster, compute with (see `pool` and `cluster`)."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import django

django.setup()

from django.conf import settings  # noqa: E402

from dashboard.garbage_collection import collect_rarely, exclude_loaded  # noqa: E402
from dashboard.ingest import compute_derived, reading, store_derived  # noqa: E402, F401
from envelopes.text.tokens import count_tokens  # noqa: E402

count_tokens("")
exclude_loaded()
collect_rarely()


@cache
def name_program() -> str:
    """Names all that decides what is computed here: the program, Python, installed variants, tokens, one setting."""
    try:
        release = version("counterfoil")
    except PackageNotFoundError:  # a checkout that is not installed
        release = "from a checkout"
    digest = hashlib.blake2b(digest_size=4)
    root = Path(__file__).parent.parent
    for path in sorted([*root.glob("envelopes/**/*.py"), *root.glob("dashboard/**/*.py")]):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    parts = f"Python {python}, {compute_derived.current_derivation()}, {settings.SEARCH_CHARACTERS} characters"
    return f"counterfoil {release} ({digest.hexdigest()}, {parts})"

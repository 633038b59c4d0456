"""Loads what the processes of a pool compute with (see `pool`)."""

from __future__ import annotations

import gc

import django

django.setup()

from dashboard.ingest import derivation, reading  # noqa: E402, F401
from envelopes.text.tokens import count_tokens  # noqa: E402

count_tokens("")
gc.freeze()
gc.set_threshold(50_000, 10, 10)

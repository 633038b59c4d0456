"""OpenCode's webfetch, of which only the receipt is recorded."""

from __future__ import annotations

import msgspec

from envelopes.families.web import gemini_cli

_SEARCH, _PAGE = gemini_cli.MAPPINGS
MAPPINGS = (msgspec.structs.replace(_PAGE, agent="opencode", tools=("webfetch",), version=1),)

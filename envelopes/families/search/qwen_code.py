"""Qwen Code's glob, list_directory and grep_search, whose receipts are lists as those of the Gemini CLI."""

from __future__ import annotations

import msgspec

from envelopes.families.search import gemini_cli

_FILES, _MATCHES = gemini_cli.MAPPINGS
MAPPINGS = (
    msgspec.structs.replace(_FILES, agent="qwen-code"),
    msgspec.structs.replace(_MATCHES, agent="qwen-code", tools=("grep_search",)),
)

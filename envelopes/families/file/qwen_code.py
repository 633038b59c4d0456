"""Qwen Code's read_file, write_file and edit, which record what those of the Gemini CLI do."""

from __future__ import annotations

import msgspec

from envelopes.families.file import gemini_cli

_READ, _CHANGE = gemini_cli.MAPPINGS
MAPPINGS = (
    msgspec.structs.replace(_READ, agent="qwen-code"),
    msgspec.structs.replace(_CHANGE, agent="qwen-code", tools=("write_file", "edit")),
)

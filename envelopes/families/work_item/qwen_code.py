"""Qwen Code's todo_write, which records its list."""

from __future__ import annotations

import msgspec

from envelopes.families.work_item import gemini_cli

MAPPINGS = tuple(
    msgspec.structs.replace(mapping, agent="qwen-code", tools=("todo_write",)) for mapping in gemini_cli.MAPPINGS
)

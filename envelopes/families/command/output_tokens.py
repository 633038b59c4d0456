"""How much output a command may show, as its caller asks for it: in tokens (spec/tools.md B.1)."""

from __future__ import annotations

CHARACTERS_PER_TOKEN = 4
DEFAULT_OUTPUT_TOKENS = 8_000
MOST_OUTPUT_TOKENS = 64_000


def output_tokens(asked: int | None) -> int:
    """0 and None mean the default, 64,000 is the most."""
    return min(asked, MOST_OUTPUT_TOKENS) if asked and asked > 0 else DEFAULT_OUTPUT_TOKENS

"""Qwen Code's web_fetch, whose receipt is the page as the Gemini CLI has it."""

from __future__ import annotations

import msgspec

from envelopes.families.web import gemini_cli

_SEARCH, _PAGE = gemini_cli.MAPPINGS
MAPPINGS = (msgspec.structs.replace(_PAGE, agent="qwen-code"),)

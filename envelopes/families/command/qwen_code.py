"""Qwen Code's run_shell_command, which writes its receipts as the Gemini CLI does that it came from."""

from __future__ import annotations

import msgspec

from envelopes.families.command import gemini_cli

MAPPINGS = tuple(msgspec.structs.replace(mapping, agent="qwen-code") for mapping in gemini_cli.MAPPINGS)

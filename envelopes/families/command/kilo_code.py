"""Kilo Code's bash, which is OpenCode's that it is a fork of."""

from __future__ import annotations

import msgspec

from envelopes.families.command import opencode

MAPPINGS = tuple(msgspec.structs.replace(mapping, agent="kilo-code") for mapping in opencode.MAPPINGS)

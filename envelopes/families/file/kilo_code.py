"""Kilo Code's read, write and edit, which are OpenCode's that it is a fork of."""

from __future__ import annotations

import msgspec

from envelopes.families.file import opencode

MAPPINGS = tuple(msgspec.structs.replace(mapping, agent="kilo-code") for mapping in opencode.MAPPINGS)

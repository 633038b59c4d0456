"""Inspect's text_editor, which is SWE-agent's editor under another name."""

from __future__ import annotations

from envelopes.alignment.lenient_structs import align_untyped
from envelopes.families.file.swe_agent import editor_mapping

MAPPINGS = (editor_mapping("inspect-ai", "text_editor", 2, align=align_untyped),)

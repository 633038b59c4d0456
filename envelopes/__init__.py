"""Tool-result envelopes for any agent runtime: what happened, what was kept, what the model saw.

    project(complete)   everything that happened -> the bounded canonical result
    render(canonical)   the canonical result -> the receipt, every character with its source
    read_foreign(...)   what a foreign agent recorded -> the same canonical result

This module wires the registry of families to the pipeline; the pipeline itself knows no family.
"""

from __future__ import annotations

from envelopes.result import CanonicalResult, CompleteOutput, ToolError
from envelopes.receipt import Receipt, Segment

__all__ = ["CanonicalResult", "CompleteOutput", "Receipt", "Segment", "ToolError"]

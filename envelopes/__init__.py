"""Tool-result envelopes for any agent runtime: what happened, what was kept, what the model saw.

    project(complete, family, policy, sink)   everything that happened -> the bounded canonical result
    render(canonical, family, policy)         the canonical result -> the receipt, every character sourced
    read_halves(agent=…, tool=…, …)           what a foreign agent recorded of a call -> both halves

The pipeline knows no family; `envelopes.families` is the registry, `envelopes.halves` wires the two.
"""

from __future__ import annotations

from envelopes.halves import Halves, read_halves
from envelopes.pipeline import project, render
from envelopes.receipt import Receipt, Segment
from envelopes.result import CanonicalResult, CompleteOutput, ToolError

__all__ = [
    "CanonicalResult",
    "CompleteOutput",
    "Halves",
    "Receipt",
    "Segment",
    "ToolError",
    "project",
    "read_halves",
    "render",
]

"""From recorded bytes to both halves."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from envelopes.halves import Halves, read_halves
from envelopes.result import CanonicalResult

OUTPUT = "one\ntwo\n"


def halves(**more: Any) -> Halves:
    result = json.dumps({"stdout": OUTPUT, "stderr": "", "interrupted": False}).encode()
    content = json.dumps("one\ntwo").encode()
    return read_halves(
        agent="claude-code", tool="Bash", args=b"{}", result=result, content=content, is_error=False, **more
    )


@pytest.mark.parametrize(
    ("kept_under", "summary"), [("command:claude-code:1", "as it was stored"), ("command:other:1", "")]
)
def test_an_envelope_that_is_stored_under_the_mapping_is_not_made_again(kept_under: str, summary: str) -> None:
    fresh = halves()
    kept = msgspec.structs.replace(fresh.projection.canonical, summary_text="as it was stored")

    def stored(mapping: str) -> CanonicalResult | None:
        return kept if mapping == kept_under else None

    found = halves(stored=stored)
    assert found.projection.canonical.summary_text == (summary or fresh.projection.canonical.summary_text)
    assert (found.receipt, found.outputs, found.mapping) == (fresh.receipt, fresh.outputs, "command:claude-code:1")


@pytest.mark.parametrize("space", ["\n\n", " \t\r\n", "\u2003\u00a0\u3000\ufeff\n"])
def test_white_space_that_the_agent_trims_is_not_linked(space: str) -> None:
    result = json.dumps({"stdout": OUTPUT.rstrip() + space, "stderr": "", "interrupted": False}).encode()
    found = read_halves(
        agent="claude-code", tool="Bash", args=b"{}", result=result, content=b'"one\\ntwo"', is_error=False
    )
    assert found.receipt is not None
    (segment,) = found.receipt.segments
    assert segment.text == "one\ntwo"
    assert segment.source is not None
    assert (segment.source.pointer, segment.source.start, segment.source.end) == ("/stdout", 0, 7)

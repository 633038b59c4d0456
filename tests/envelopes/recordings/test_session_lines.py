"""The state of a reader between two lines of a session."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from envelopes.recordings import find_format
from envelopes.recordings.base import SourceLine, SourcePath


class CountedState(dict[str, Any]):
    """Counts how often each of its entries is set."""

    def __init__(self) -> None:
        self.writes: Counter[str] = Counter()

    def __setitem__(self, key: str, value: Any) -> None:
        self.writes[key] += 1
        super().__setitem__(key, value)


@pytest.mark.parametrize("name", ["qwen-code", "gemini-cli-jsonl", "copilot-cli", "pi", "mcp", "claude-code"])
def test_the_state_is_copied_once_however_many_lines_are_read(name: str) -> None:
    """A copy for each line made the time of a long session grow with the square of its length."""
    raw = b'{"type":"user","id":"u1","sessionId":"s1","timestamp":"2026-01-01T00:00:00Z"}\n'
    lines = [SourceLine(number, len(raw) * (number - 1), raw) for number in range(1, 51)]
    state = CountedState()
    list(find_format(name).read(iter(lines), SourcePath("2026_s1.jsonl"), state))
    assert state
    assert set(state.writes.values()) == {1}

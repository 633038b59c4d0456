"""How much of a cut output the model got, in words."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.evidence.fidelity import describe_seen_lines
from dashboard.models import Call


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"output_lines": 0}, ""),
        ({"output_lines": 1}, "less than 1 line"),
        ({"output_lines": 21}, "no whole line of 21 lines"),  # the beginning of a line is no line
        ({"output_lines": 21, "result_fidelity": "bounded"}, "no whole line of at least 21 lines"),
        ({"output_lines": 4_007, "seen_lines": 79}, "79 of 4,007 lines"),
        ({"output_lines": 9, "seen_lines": 7, "receipt_fidelity": "inflated"}, "at most 7 of 9 lines"),
    ],
)
def test_lines_that_were_seen_are_counted_whole(columns: dict[str, Any], words: str) -> None:
    assert describe_seen_lines(Call(**columns)) == words

"""The sentences that name what a call did, as rows and heads of pages show them."""

from __future__ import annotations

import pytest

from envelopes.families.file.results import summarize_read
from tests.envelopes.recordings.samples import read_sample


@pytest.mark.parametrize(
    ("sample", "summaries"),
    [
        ("opencode_1.18.33.json", {"read 1 line of /srv/demo/project/a.txt", "listed 6 entries of /srv/demo/project"}),
        ("opencode_1.1.65.json", {"read 2 lines of /srv/demo/project/a.txt", "listed 6 entries of /srv/demo/project"}),
        ("pi_1.6.0.jsonl", {"read 1 line of a.txt", "read 3 lines of a.txt", "read 0 lines of empty.txt"}),
    ],
)
def test_a_summary_counts_one_line_as_one(sample: str, summaries: set[str]) -> None:
    halves = read_sample(f"releases/{sample}").halves()
    assert summaries <= {half.projection.canonical.summary_text for half in halves}


@pytest.mark.parametrize(
    ("count", "summary"), [(None, "read a.py"), (0, "read 0 lines of a.py"), (1, "read 1 line of a.py")]
)
def test_a_read_is_summarized_with_its_lines_where_they_are_known(count: int | None, summary: str) -> None:
    assert summarize_read("a.py", count) == summary

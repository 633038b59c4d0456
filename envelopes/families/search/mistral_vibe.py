"""Mistral Vibe's grep: `matches: … / match_count: 3 / was_truncated: False`."""

from __future__ import annotations

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.alignment.source_cuts import SourceCut
from envelopes.alignment.vibe_receipts import read_parsed, take_apart, vibe_mapping
from envelopes.families.search.results import TextMatches, summarize_matches


def _read_matches(evidence: Evidence, receipt: str) -> Reading | None:
    fields = take_apart(receipt, "matches", "match_count", "was_truncated")
    if fields is None or not fields["match_count"].isdecimal():
        return None
    count, content = int(fields["match_count"]), fields["matches"]
    lines = content.count("\n") + 1 if content else 0
    is_part = fields["was_truncated"] == "True" and RecordedObject(evidence.args).integer("max_matches") is None
    limit = SourceCut(pointer="", unit="matches", start=lines, end=lines, lines=1, is_limit=True)
    result = TextMatches(mode="content", content=content, match_count=count)
    return read_parsed(evidence, result, summarize_matches(count, evidence), (limit,) if is_part else ())


MAPPINGS = (vibe_mapping(("grep",), _read_matches),)

"""OpenHands' grep and glob, which record `{content, matches | files, pattern, search_path, truncated}`.

The receipt is the text in `content`: a sentence, a path a line, and a notice where the first 100 files are listed.
"""

from __future__ import annotations

from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.openhands_receipts import AGENT, TEXT, align_observation, find_text_outputs
from envelopes.alignment.source_cuts import SourceCut
from envelopes.families.search.results import FileMatches, TextMatches, describe_pattern, summarize_files


def _read_search(evidence: Evidence) -> Reading:
    recorded = RecordedObject(evidence.result)
    if failure := read_failure(evidence):
        return failure
    name = next((name for name in ("matches", "files") if isinstance(recorded.get(name), list)), None)
    if name is None:
        return read_untyped(evidence)
    names, is_cut = recorded.strings(name), recorded.flag("truncated")
    links = {f"/{name}": "/result/filenames"}
    result: TextMatches | FileMatches
    if name == "matches":
        result = TextMatches(mode="files_with_matches", filenames=names, file_count=len(names))
    else:
        result = FileMatches(filenames=names, file_count=len(names), truncated=is_cut)
        links["/truncated"] = "/result/truncated"
    cuts = (SourceCut(pointer=TEXT, unit="files", is_limit=True),) if is_cut else ()
    summary = summarize_files(len(names)) + describe_pattern(evidence)
    outputs = find_text_outputs(evidence)
    return reading(evidence, result, summary, links=links, outputs=outputs, source_cuts=cuts)


MAPPINGS = (ToolMapping(agent=AGENT, tools=("grep", "glob"), version=1, read=_read_search, align=align_observation),)

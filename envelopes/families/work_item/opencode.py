"""OpenCode's todowrite, which records its list; the receipt is the JSON of it."""

from __future__ import annotations

import msgspec

from envelopes.alignment.failures import align_failure
from envelopes.alignment.json_spans import match_json
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence
from envelopes.alignment.spans import Span
from envelopes.families.work_item import gemini_cli


def _align_todos(evidence: Evidence, text: str) -> list[Span]:
    todos = RecordedObject(evidence.result).get("todos")
    return match_json(text, todos, "/todos") if isinstance(todos, list) else align_failure(evidence, text)


MAPPINGS = tuple(
    msgspec.structs.replace(mapping, agent="opencode", tools=("todowrite",), version=1, align=_align_todos)
    for mapping in gemini_cli.MAPPINGS
)

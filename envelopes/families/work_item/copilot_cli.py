"""The tools with which the GitHub Copilot CLI plans: its todos are tables of SQLite, which it changes by statements.

sql             {detailedContent: "SQL: the statement / / the answer"}, and the answer as receipt
report_intent   {detailedContent: "the intent"}, and `Intent logged`
"""

from __future__ import annotations

from envelopes.alignment.failures import align_failure, read_failure
from envelopes.alignment.lenient_structs import RecordedObject, RecordedText, read_untyped, reading
from envelopes.alignment.mapping import Evidence, OutputField, Reading, ToolMapping
from envelopes.alignment.spans import Span

AGENT = "copilot-cli"
DETAIL = "/detailedContent"
LABELS = ("SQL", "SQL (session_store)")


def _answer_start(evidence: Evidence, detail: str) -> int | None:
    """The character of the record at which the answer begins; None where it does not begin with the statement."""
    label, _, rest = detail.partition(": ")
    head = f"{RecordedObject(evidence.args).text('query') or ''}\n\n"
    return len(label) + 2 + len(head) if label in LABELS and rest.startswith(head) else None


def _read_answer(evidence: Evidence) -> Reading:
    if failure := read_failure(evidence):
        return failure
    detail = RecordedObject(evidence.result).text("detailedContent")
    if detail is None:
        return read_untyped(evidence)
    start = _answer_start(evidence, detail)
    text = detail[start or 0 :]
    outputs = () if start is None else (OutputField(DETAIL, start=start),)
    links = {DETAIL: "/result/text"}
    return reading(evidence, RecordedText(text), text[:1_000].partition("\n")[0], links=links, outputs=outputs)


def _align_answer(evidence: Evidence, text: str) -> list[Span]:
    """Links the answer, where both have the same."""
    detail = RecordedObject(evidence.result).text("detailedContent") or ""
    start = _answer_start(evidence, detail)
    if start is None or not text or text != detail[start:]:
        return align_failure(evidence, text)
    return [Span(0, len(text), DETAIL, start, len(detail))]


TOOLS = ("sql", "session_store_sql", "report_intent")
MAPPINGS = (ToolMapping(agent=AGENT, tools=TOOLS, version=1, read=_read_answer, align=_align_answer),)

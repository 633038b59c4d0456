"""The receipt of UseWorkspace: which workspace is used, how, and where."""

from __future__ import annotations

from collections.abc import Iterable

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.segments import headline, label, member_lines, phrase, receipt_renderer
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult

LINES = (("Cwd", "cwd"), ("Root", "execution_root"))
ACCESS = {"direct": ": shared, for reading)", "isolated": ": yours alone, for writing)"}


def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline("Using workspace ", "/result/workspace_id")
    yield from phrase(canonical, "{workspace_id} ({mode}")
    yield label(ACCESS.get(RecordedObject(canonical.result).text("mode") or "", ")"))
    yield from member_lines(canonical, LINES)
    result = RecordedObject(canonical.result)
    if result.text("workspace_anchor") != result.text("execution_root"):
        yield from member_lines(canonical, (("Copied from", "workspace_anchor"),))


receipt = receipt_renderer(_body, details=(("Field", "field"),))

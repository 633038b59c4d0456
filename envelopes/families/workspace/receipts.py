"""The receipt of UseWorkspace: which workspace is used, how, and where."""

from __future__ import annotations

from collections.abc import Iterable

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.indented_values import with_indented_values
from envelopes.families.segments import headline, label, line_break, member_lines, phrase, receipt_renderer
from envelopes.families.workspace.tools import TOOLS
from envelopes.schema.receipt import Segment
from envelopes.schema.result import CanonicalResult

CWD, ROOT, ANCHOR = ("Cwd", "cwd"), ("Root", "execution_root"), ("Worktree of", "workspace_anchor")
ACCESS = {"direct": ": shared, for reading)", "isolated": ": yours alone, for writing)"}


@with_indented_values
def _body(canonical: CanonicalResult) -> Iterable[Segment]:
    yield headline("Using workspace ", "/result/workspace_id")
    yield from phrase(canonical, "{workspace_id} ({mode}")
    yield label(ACCESS.get(RecordedObject(canonical.result).text("mode") or "", ")"))
    result = RecordedObject(canonical.result)
    root = result.text("execution_root")
    yield from member_lines(canonical, (CWD,) if result.text("cwd") == root else (CWD, ROOT))
    if result.text("workspace_anchor") != root:
        is_worktree = result.text("mode") == "isolated"
        yield from member_lines(canonical, (ANCHOR if is_worktree else ("Anchor", "workspace_anchor"),))
    if result.text("mode") == "isolated":
        yield line_break()
        yield label("It has the files of the last commit; what was not committed is not in it.")


receipt = receipt_renderer(_body, details=(("Field", "field"),), tools=TOOLS)

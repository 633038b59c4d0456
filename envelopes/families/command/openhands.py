"""OpenHands' terminal, which records `{content, command, exit_code?, metadata: {exit_code, prefix, suffix, …}, …}`.

The receipt is the output between a prefix and a suffix, with lines about the shell behind it:

    [Below is the output of the previous command.]             the prefix, where a command still ran
    the output, both streams as one text
    [The command completed with exit code 0.]                  the suffix
    [Current working directory: /srv]
    [Command finished with exit code 0]

The exit code is -1 while the command runs: at its time limit, or without output for a while, the call ends and the
command does not. An output of more than 30,000 characters is shortened before it is recorded, and once more with these
lines; of one with more than 10,000 lines the terminal has the last ones.
"""

from __future__ import annotations

import re

from envelopes.alignment.failures import read_failure
from envelopes.alignment.lenient_structs import RecordedObject, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.openhands_receipts import (
    AGENT,
    CLIPPED,
    TEXT,
    align_observation,
    find_text_outputs,
    match_sent,
)
from envelopes.alignment.source_cuts import SourceCut, find_source_cuts
from envelopes.alignment.spans import ComposedPiece, ComposedText, Span
from envelopes.families.command.claude_code import read_text
from envelopes.families.command.results import CommandResult, SavedOutput, explain_exit, recorded_outcome

RUNNING = -1
STILL_RUNS = re.compile(r"\n\[The command (?:timed out after|has no new output after) ")
LAST_LINES = re.compile(
    r"\[Previous command outputs are truncated\. Showing the last \d+ lines of the output below\.\]"
)


def _read_command(evidence: Evidence) -> Reading:
    recorded = RecordedObject(evidence.result)
    metadata = recorded.member("metadata")
    if failure := read_failure(evidence):
        return failure
    if not recorded.has_any(("content",)):
        return read_text(evidence)
    output = next((block.text("text") or "" for block in recorded.items("content")), "")
    pointer, code = "/exit_code", recorded.integer("exit_code")
    if code is None:
        pointer, code = "/metadata/exit_code", metadata.integer("exit_code")
    status = None if code == RUNNING else code
    is_running = STILL_RUNS.match(metadata.text("suffix") or "") is not None
    cuts = find_source_cuts(output, TEXT, "stream")
    if LAST_LINES.match(metadata.text("prefix") or ""):
        cuts = (*cuts, SourceCut(pointer=TEXT, unit="output", lines=1))
    notice = CLIPPED.search(evidence.receipt_text or "")
    result = CommandResult(
        disposition="already_running" if is_running else "completed",
        exit_status=status,
        combined=output,
        interpretation=None
        if status is None
        else explain_exit(RecordedObject(evidence.args).text("command") or "", status, output),
        saved_output=SavedOutput(path=notice["path"]) if notice and notice["path"] else None,
        cut_by_source=bool(cuts),
    )
    links = {TEXT: "/result/combined_output_preview"} if output else {}
    if status is not None:
        links[pointer] = "/result/exit_status"
    outputs, summary = find_text_outputs(evidence), recorded_outcome(result)
    return reading(evidence, result, summary, links=links, outputs=outputs, source_cuts=cuts)


def _align_command(evidence: Evidence, text: str) -> list[Span]:
    """Links the output with what was recorded around it, whole or as its beginning and its end."""
    recorded = RecordedObject(evidence.result)
    metadata = recorded.member("metadata")
    outputs = [block.text("text") or "" for block in recorded.items("content")]
    pieces = [ComposedPiece("/metadata/prefix", metadata.text("prefix") or "")]
    pieces += [ComposedPiece(f"/content/{index}/text", output) for index, output in enumerate(outputs)]
    pieces.append(ComposedPiece("/metadata/suffix", metadata.text("suffix") or ""))
    for name, title in (("working_dir", "Current working directory"), ("py_interpreter_path", "Python interpreter")):
        if value := metadata.text(name):
            pieces += [
                ComposedPiece(None, f"\n[{title}: "),
                ComposedPiece(f"/metadata/{name}", value),
                ComposedPiece(None, "]"),
            ]
    code = metadata.integer("exit_code")
    if code not in (None, RUNNING):
        pieces.append(ComposedPiece(None, f"\n[Command finished with exit code {code}]"))
    return match_sent(evidence, text, ComposedText(pieces)) or align_observation(evidence, text)


MAPPINGS = (
    ToolMapping(agent=AGENT, tools=("terminal", "execute_bash"), version=2, read=_read_command, align=_align_command),
)

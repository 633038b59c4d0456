"""The receipts of Mistral Vibe's tools: the fields of a result, a line each, or from 2.26 on as JSON; failures in tags.

    command: ls / stdout: … / stderr: … / returncode: 0
    <tool_error>bash failed: Command timed out after 2s: 'ls'</tool_error>
    <user_cancellation>Tool execution interrupted by user.</user_cancellation>
    Tool execution not permitted.    or what a person wrote when they refused the call
    {"command": "ls", "returncode": 0, …}    from 2.26 on
    {"result": {"type": "error", "error": {"name", "message", "details"?}}}

Nothing else is recorded of a result, so everything is read from the receipt. A value may have lines that look like the
next field: such a receipt is not taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from envelopes.alignment.failures import tool_error
from envelopes.alignment.lenient_structs import RecordedObject, RecordedText, read_untyped, reading
from envelopes.alignment.mapping import Evidence, Reading, ToolMapping
from envelopes.alignment.source_cuts import SourceCut
from envelopes.schema.result import CompleteOutput, summarize
from envelopes.text.untrusted_json import Untrusted, parse_json

AGENT = "mistral-vibe"
_FAILED = re.compile(r"<(?P<tag>tool_error|user_cancellation)>(?P<text>.*)</(?P=tag)>(?:\n.*)?", re.DOTALL)
_REFUSED = re.compile(r"Tool execution not permitted\.|Tool '[^'\n]+' is permanently disabled")
LARGE = "<system>The tool output is large. "  # before the beginning and the end of an output that was saved
_ERROR = '{"result":{"type":"error","error":'
_TOOL = re.compile(r"\S+ failed: |\S+: (?=Invalid arguments: |Unknown tool )")  # before the sentence about a failure
_EXTRA = re.compile(r"\n\n<vibe_warning>\n.*</vibe_warning>\Z", re.DOTALL)
Fields = Mapping[str, str]


def read_fields(receipt: str) -> RecordedObject | None:
    """The fields of a receipt that is JSON, as releases from 2.26 on send them."""
    if not receipt.startswith("{"):
        return None
    try:
        return RecordedObject(parse_json(receipt.encode("utf-8", "surrogatepass")))
    except Untrusted:
        return None


def find_failure(receipt: str) -> str | None:
    """The sentence about a failure, a refusal or a cancellation; None for any other receipt."""
    if receipt.startswith(_ERROR) and (fields := read_fields(receipt)):
        return fields.member("result").member("error").text("message")
    if _REFUSED.fullmatch(receipt):
        return receipt
    failed = _FAILED.fullmatch(receipt)
    return failed["text"] if failed else None


def read_vibe_failure(evidence: Evidence) -> Reading | None:
    receipt = evidence.receipt_text or ""
    failure = find_failure(receipt) or (receipt if evidence.is_error else None)
    if failure is None:
        return None
    named = _TOOL.match(failure)
    sentence = failure[named.end() :] if named else failure
    error = tool_error(AGENT, sentence)
    complete = CompleteOutput(
        tool_name=evidence.tool,
        status="error",
        summary_text=summarize(sentence.partition("\n")[0]) or "the call failed",
        error=error,
    )
    return Reading(build=lambda: complete, fidelity="parsed_from_receipt")


def take_apart(receipt: str, *fields: str) -> Fields | None:
    """The values of these fields, of which a receipt has all, in this order; None where their ends are not certain.

    A field that ends with a question mark may be missing.
    """
    text = "\n" + _EXTRA.sub("", receipt)
    names = [field for field in fields if not field.endswith("?") or f"\n{field[:-1]}: " in text]
    marks = [f"\n{name.removesuffix('?')}: " for name in names]
    values, at = dict[str, str](), 0
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        if not text.startswith(mark, at):
            return None
        at += len(mark)
        end = len(text) if following is None else text.find(following, at)
        if end < 0 or (following is not None and text.find(following, end + 1) >= 0):
            return None
        values[mark[1:-2]] = text[at:end]
        at = end
    return values


def read_parsed(
    evidence: Evidence, result: msgspec.Struct, summary: str, source_cuts: tuple[SourceCut, ...] = ()
) -> Reading:
    return reading(evidence, result, summary, links={}, fidelity="parsed_from_receipt", source_cuts=source_cuts)


def read_other(evidence: Evidence, receipt: str) -> Reading | None:
    """A tool of an MCP server, of which the text is the answer."""
    fields = take_apart(receipt, "ok", "server", "tool", "text", "structured")
    if fields is None:
        return None
    text = fields["structured"] if fields["text"] == "None" else fields["text"]
    summary = text[:1_000].strip().partition("\n")[0] or f"{evidence.tool} returned no text"
    return read_parsed(evidence, RecordedText(text), summary)


def vibe_mapping(
    tools: tuple[str, ...],
    read: Callable[[Evidence, str], Reading | None],
    other: Callable[[Evidence], Reading] = read_untyped,
) -> ToolMapping:
    """A mapping whose reading gets receipts that are no failures; what it does not understand is read by `other`."""

    def read_any(evidence: Evidence) -> Reading:
        if failure := read_vibe_failure(evidence):
            return failure
        receipt = evidence.receipt_text or ""
        if not receipt.startswith(LARGE):
            return read(evidence, receipt) or other(evidence)
        at = max(1, receipt.count("\n") // 2)
        cut = SourceCut(pointer="", unit="output", start=at, end=at, lines=1)
        return msgspec.structs.replace(other(evidence), source_cuts=(cut,))

    return ToolMapping(agent=AGENT, tools=tools, version=1, read=read_any, align=lambda _evidence, _text: [])

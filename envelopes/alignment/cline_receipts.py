"""The receipts of Cline: in sessions JSON of the recorded result, in tasks a text behind a line that names the call.

    [{"query":"make","result":"…","error":"Command exited with code 2","success":false}]
    [execute_command for 'make'] Result:
    Command failed with exit code 2. …

Of a string beyond 8,000 characters a session's client leaves out the middle: `…[truncated 39012 chars]…` between
blank lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec

from envelopes.alignment.failures import read_failure
from envelopes.alignment.json_spans import match_json, place_in_json
from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.alignment.mapping import Evidence, Reading
from envelopes.alignment.spans import Span, match_at
from envelopes.schema.result import JsonValue
from envelopes.text.pointer import join

AGENT = "cline"
HEADER = re.compile(r"\[(?P<tool>\w{1,40})(?: for (?P<about>(?:(?!\] Result:).){0,20000}))?\] Result:\n*", re.DOTALL)
FAILED = re.compile(
    r"The tool execution failed with the following error:\n<error>\n(?P<message>.*)\n</error>", re.DOTALL
)
NAMED = ("command", "path", "regex", "url", "question", "server_name", "action")  # arguments that headers repeat
_MARK = re.compile(r"\n\n\.\.\.\[truncated (?P<count>\d{1,12}) chars\]\.\.\.\n\n")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"(?P<name>\s*:)?')
_HALF = "\ufffd"  # in the place of half of a pair of surrogates


def read_answer(evidence: Evidence) -> Evidence:
    """The evidence of a task's call without the line that names it, and without the words around a failure."""
    text = evidence.receipt_text
    header = HEADER.match(text) if text is not None else None
    if text is None or header is None:
        return evidence
    body = text[header.end() :]
    if failure := FAILED.match(body):
        return msgspec.structs.replace(evidence, receipt_text=failure["message"], is_error=True)
    return msgspec.structs.replace(evidence, receipt_text=body)


def read_entries(evidence: Evidence) -> list[RecordedObject]:
    """The entries that a session's tool returned, one for each thing that it was asked; empty for a task."""
    result = evidence.result
    entries = result if isinstance(result, list) else [result]
    objects = [RecordedObject(entry) for entry in entries]
    return objects if all(entry.text("query") is not None for entry in objects) else []


def read_failed_entries(evidence: Evidence) -> Reading | None:
    """The error of a session's call of which every part failed; None for another."""
    entries = read_entries(evidence)
    errors = [entry.text("error") for entry in entries if entry.flag("success") is False and not entry.text("result")]
    if evidence.is_error or not entries or len(errors) < len(entries) or not all(errors):
        return None
    is_list = isinstance(evidence.result, list)
    message = "\n".join(filter(None, errors))
    failure = read_failure(msgspec.structs.replace(evidence, result=message, is_error=True))
    if failure is None:
        return None
    links = {"/0/error" if is_list else "/error": "/error/message"} if len(errors) == 1 else {}
    return msgspec.structs.replace(failure, links=links, outputs=(), fidelity="structured")


def pointer_of(evidence: Evidence, index: int, name: str) -> str:
    """The pointer of a member of an entry of the result, which may be the result itself."""
    return f"/{index}/{name}" if isinstance(evidence.result, list) else f"/{name}"


def align_sent(evidence: Evidence, text: str) -> list[Span]:
    """Links the strings of a session's result, or of a task's call the argument in the line that names it."""
    if not evidence.has_result or evidence.result is None:
        return _align_header(evidence, text)
    if isinstance(evidence.result, str):
        return list(_match_shortened(text, evidence.result, ""))
    return match_json(text, evidence.result, "") or list(_align_json(evidence.result, text))


def _align_header(evidence: Evidence, text: str) -> list[Span]:
    header, args = HEADER.match(text), RecordedObject(evidence.args)
    if header is None or header["about"] is None:
        return []
    named = (match_at(text, header.start("about") + 1, args.text(name) or "", f"/{name}") for name in NAMED)
    return [msgspec.structs.replace(span, document="args") for span in named if span][:1]


def _align_json(result: JsonValue, text: str) -> Iterator[Span]:
    """Links the strings of JSON that has the members of the result and shortened strings."""
    recorded = list(_strings(result, ""))
    written = [match for match in STRING.finditer(text) if not match["name"]]
    if len(recorded) != len(written):
        return
    for (pointer, value), match in zip(recorded, written, strict=True):
        try:
            shown = json.loads(match[0], strict=False)
        except ValueError:
            return
        yield from place_in_json(text, match.start() + 1, _match_shortened(shown, value, pointer))


def _strings(value: JsonValue, pointer: str) -> Iterator[tuple[str, str]]:
    match value:
        case str():
            yield pointer, value
        case list():
            for index, element in enumerate(value):
                yield from _strings(element, join(pointer, index))
        case dict():
            for name, member in value.items():
                yield from _strings(member, join(pointer, name))


def _match_shortened(shown: str, value: str, pointer: str) -> list[Span]:
    """Links a string that is the recorded one, or its two ends."""
    if shown == value:
        return [Span(0, len(value), pointer, 0, len(value))] if value else []
    for mark in _MARK.finditer(shown):
        head = shown[: mark.start()].removesuffix(_HALF)
        tail = shown[mark.end() :].removeprefix(_HALF)
        missing = value[len(head) : len(value) - len(tail)]
        count = len(missing.encode("utf-16-le", "surrogatepass")) // 2
        if value.startswith(head) and value.endswith(tail) and abs(count - int(mark["count"])) <= 2:
            start = len(shown) - len(tail)
            return [
                Span(0, len(head), pointer, 0, len(head)),
                Span(start, len(shown), pointer, len(value) - len(tail), len(value)),
            ]
    return []

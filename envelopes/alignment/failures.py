"""Recorded failures of foreign agents, by the sentences of `failure_sentences`, for every family.

    find_failure_text(evidence)    the sentence without its wrapper, or None: the call did not fail
    read_failure(evidence)         that sentence as an error envelope
    align_failure(evidence, text)  the spans of the recorded sentence in the receipt

The recorded result comes first. The receipt is read only where no result was recorded, and the fidelity is
then `parsed_from_receipt`. The agent's own error flag decides where there is one; sentences decide only
without it (D-9).
"""

from __future__ import annotations

import re

import msgspec

from envelopes.alignment.failure_sentences import (
    ERROR_TYPE,
    GENERAL_TYPES,
    KINDS,
    OTHER,
    QWEN_CODE_KINDS,
    classify,
)
from envelopes.alignment.foreign_receipts import find_outputs, match_result
from envelopes.alignment.gemini_receipts import untrusted_text
from envelopes.alignment.json_spans import match_json
from envelopes.alignment.mapping import NATIVE, Evidence, OutputField, Reading, ResultFidelity, bounded_fidelity
from envelopes.alignment.source_cuts import find_source_cuts, is_saved_result
from envelopes.alignment.spans import Span, match_once
from envelopes.schema.result import CompleteOutput, JsonValue, ToolError, summarize
from envelopes.text.preview import head_tail

MESSAGE_CHARACTERS = 2_000  # error receipts print the whole message, so it is bounded here
RECORDED_PREFIX = "Error: "
NAMED_ARGUMENTS = ("file_path", "notebook_path", "path", "url", "query", "pattern")
LEAST_ARGUMENT = 8  # characters: a shorter text occurs in a sentence by chance
OPENING, CLOSING = "<tool_use_error>", "</tool_use_error>"
_MESSAGES = ("error", "detail", "reason", "stderr")  # members in which results of any form state what failed
_LISTED = "InputValidationError: ["  # JSON of what is wrong with the arguments; the model gets it in sentences
_WITH_KIND = (NATIVE, "otlp")  # agents whose errors have a kind, and no code
_BLOCK_MEMBERS = frozenset({"content", "isError", "is_error", "_meta"})


class FailureText(msgspec.Struct, frozen=True):
    """`offset` is the position of `text` in the recorded string; None when it was not recorded as a string."""

    text: str
    fidelity: ResultFidelity
    offset: int | None = None


def read_failure(evidence: Evidence) -> Reading | None:
    """Reads a failure as an error envelope; None when the call did not fail.

    A message beyond 2,000 characters is shortened to its head and tail, and is whole in `details.text`.
    """
    if (skip := evidence.skip) and skip.message:
        skipped = CompleteOutput(
            tool_name=evidence.tool, status="error", summary_text=summarize(skip.message), error=skip
        )
        return Reading(build=lambda: skipped, fidelity="absent")
    if coded := _read_coded_error(evidence):
        return coded
    failure = find_failure_text(evidence)
    if failure is None:
        return None
    error = tool_error(evidence.agent, failure.text)
    if skip:
        error = msgspec.structs.replace(error, kind=skip.kind, retryable=error.retryable or skip.retryable)
    links = {} if failure.offset is None else {"": "/error/message"}
    if own := _own_type(evidence):
        is_decided = own in GENERAL_TYPES and error.kind != OTHER.kind
        kind = error.kind if is_decided else QWEN_CODE_KINDS.get(own, error.kind)
        error, links = msgspec.structs.replace(error, kind=kind), {f"/{ERROR_TYPE}": "/error/kind"}
    outputs: tuple[OutputField, ...] = ()
    if (result := evidence.result) and failure.fidelity == "structured" and _has_more(result):
        details = result if isinstance(result, dict) else {"result": result}
        error = msgspec.structs.replace(error, details=details)
        links = {"": "/error/details" if isinstance(result, dict) else "/error/details/result"}
        outputs = find_outputs(result)
    complete = CompleteOutput(
        tool_name=evidence.tool,
        status="error",
        summary_text=_summarize_failure(evidence, failure.text) or "the call failed",
        error=error,
    )
    cuts = find_source_cuts(failure.text, "", "failure")
    fidelity = bounded_fidelity(failure.fidelity, cuts)
    return Reading(build=lambda: complete, fidelity=fidelity, links=links, outputs=outputs, source_cuts=cuts)


def _summarize_failure(evidence: Evidence, text: str) -> str:
    """The first line of the message; in place of a list in JSON the sentences that the model got."""
    sent = unwrap(evidence.receipt_text or "") if text.startswith(_LISTED) else ""
    if sent.startswith(_LISTED.removesuffix("[")) and not sent.startswith(_LISTED):
        heading, _, issues = sent[:MESSAGE_CHARACTERS].partition("\n")
        return summarize(f"{heading} {'; '.join(issues.splitlines())}")
    return summarize(text[:MESSAGE_CHARACTERS].strip().partition("\n")[0])


def _own_type(evidence: Evidence) -> str | None:
    """The type of an error of which Qwen Code recorded nothing else; its message is the receipt."""
    recorded = evidence.result
    if evidence.agent != "qwen-code" or not evidence.is_error or not isinstance(recorded, dict):
        return None
    own = recorded.get(ERROR_TYPE)
    return own if isinstance(own, str) and len(recorded) == 1 else None


def _has_more(result: JsonValue) -> bool:
    """True for a structured result of a failed call that is more than its message."""
    if isinstance(result, dict) and result.keys() <= {"message", "code", "data"} and "message" in result:
        return False  # an error of JSON-RPC
    others = result.keys() - _BLOCK_MEMBERS if isinstance(result, dict) else ()
    return bool(others) or not _block_texts(result)


def _read_coded_error(evidence: Evidence) -> Reading | None:
    """Reads a recorded `{code, message, details?, retryable?}` (CALL-043).

    The kind is the recorded one, which several share a code with, or the code in lower case. Where the errors of an
    agent have a `type` of its own, that type decides.
    """
    recorded = evidence.result if evidence.is_error else None
    if not isinstance(recorded, dict):
        return None
    kinds = KINDS.get(evidence.agent, {})
    name = "type" if kinds else "code"
    code, message, details = recorded.get(name), recorded.get("message"), recorded.get("details")
    code = code or (recorded.get("kind") if evidence.agent in _WITH_KIND else None)
    if not (isinstance(code, str) and code and isinstance(message, str) and message):
        return None
    kind, hint = recorded.get("kind"), recorded.get("recoveryHint")
    has_kind = isinstance(kind, str) and bool(kind)
    error = ToolError(
        kind=str(kind) if has_kind else kinds.get(code, "tool_execution_failed") if kinds else code.lower(),
        message=head_tail(message, MESSAGE_CHARACTERS).text,
        details=details if isinstance(details, dict) else None,
        recovery_hint=hint if isinstance(hint, str) and hint else None,
        retryable=recorded.get("retryable") is True,
    )
    complete = CompleteOutput(tool_name=evidence.tool, status="error", summary_text=summarize(message), error=error)
    links = {
        "/kind" if has_kind else f"/{name}": "/error/kind",
        "/message": "/error/message",
        "/details": "/error/details",
    }
    if error.recovery_hint:
        links["/recoveryHint"] = "/error/recovery_hint"
    return Reading(build=lambda: complete, fidelity="structured", links=links)


def find_failure_text(evidence: Evidence) -> FailureText | None:
    """Finds the agent's message about a failure, without `Error: ` or `<tool_use_error>`; None: no failure."""
    if evidence.is_error is False:
        return None
    if not evidence.has_result or evidence.result is None or _own_type(evidence):
        return _from_receipt(evidence)
    if isinstance(evidence.result, str):
        return _from_string(evidence, evidence.result)
    if not evidence.is_error:
        return None
    message = evidence.result.get("message") if isinstance(evidence.result, dict) else None
    if isinstance(message, str) and message:
        return FailureText(message, "structured")  # an error of JSON-RPC, whose code is a number
    text = "\n".join(_block_texts(evidence.result).values())
    members = evidence.result if isinstance(evidence.result, dict) else {}
    named = (members[name] for name in _MESSAGES if isinstance(members.get(name), str))
    return FailureText(text or str(next(filter(None, named), "")), "structured")


def _block_texts(result: JsonValue) -> dict[str, str]:
    """By pointer, the texts of the content blocks as which MCP servers return a failure, alone or in an object."""
    content, pointer = (result.get("content"), "/content") if isinstance(result, dict) else (result, "")
    blocks = enumerate(content) if isinstance(content, list) else ()
    texts = {f"{pointer}/{index}/text": block.get("text") for index, block in blocks if isinstance(block, dict)}
    return {place: text for place, text in texts.items() if isinstance(text, str)}


def tool_error(agent: str, text: str) -> ToolError:
    """The error that a failure's sentence means: its kind, whether to retry, and the hint that it contains."""
    rule, hint = classify(agent, text)
    shown = head_tail(text, MESSAGE_CHARACTERS)
    return ToolError(
        kind=rule.kind,
        message=shown.text or "the agent recorded a failure and no message",
        details=None if shown.cut is None else {"text": text},
        recovery_hint=summarize(hint) if hint else None,
        retryable=rule.retryable,
    )


def align_failure(evidence: Evidence, text: str) -> list[Span]:
    """Links `<tool_use_error>X</tool_use_error>` or `X` in the receipt to a recorded `Error: X`.

    Of a failure without a recorded result, the arguments that its sentence repeats are linked.
    """
    recorded = evidence.result
    if not evidence.has_result or _own_type(evidence):
        return _align_named_arguments(evidence, text)
    if isinstance(recorded, dict) and evidence.agent in KINDS and isinstance(message := recorded.get("message"), str):
        span = match_once(text, message, "/message")
        return [span] if span else []
    if not isinstance(recorded, str):
        spans = [match_once(text, value, pointer) for pointer, value in _block_texts(recorded).items() if value]
        if not spans and isinstance(recorded, dict | list):
            return match_json(text, recorded, "") or match_result(recorded, text)
        return [spans[0]] if len(spans) == 1 and spans[0] else []
    at = len(OPENING) if text.startswith(OPENING) else 0
    offset = error_prefix_length(recorded)
    for start in dict.fromkeys((offset, 0)):
        value = recorded[start:].rstrip()
        end = at + len(value)
        # A match that ends in the middle of a line is another text with the same beginning.
        if value and text.startswith(value, at) and (end == len(text) or text.startswith((CLOSING, "\n"), end)):
            return [Span(at, end, "", start, start + len(value))]
    return []


def _align_named_arguments(evidence: Evidence, text: str) -> list[Span]:
    """Links a path, a URL or a query that the sentence contains once, as a whole word."""
    arguments = evidence.args if isinstance(evidence.args, dict) else {}
    if len(text) > MESSAGE_CHARACTERS or find_failure_text(evidence) is None:
        return []
    spans: list[Span] = []
    for name in NAMED_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str) and len(value) >= LEAST_ARGUMENT:
            word = rf"(?<![\w/.-]){re.escape(value)}(?![\w/-]|\.\w)"
            places = [match.span() for match in re.finditer(word, text)]
            if len(places) == 1 and not any(span.start < places[0][1] and places[0][0] < span.end for span in spans):
                spans.append(Span(*places[0], f"/{name}", 0, len(value), "args"))
    return sorted(spans)


def error_prefix_length(recorded: str) -> int:
    return len(RECORDED_PREFIX) if recorded.startswith(RECORDED_PREFIX) else 0


def unwrap(text: str) -> str:
    """Returns the text between `<tool_use_error>` tags; text behind the closing tag was added by the runtime.

    Of a receipt of the Gemini CLI, the text between its tags for what came from outside.
    """
    if not text.startswith(OPENING):
        return untrusted_text(text)
    return text[len(OPENING) :].partition(CLOSING)[0]


def _from_receipt(evidence: Evidence) -> FailureText | None:
    receipt = evidence.receipt_text or ""
    text = unwrap(receipt)
    if evidence.is_error or receipt.startswith(OPENING) or classify(evidence.agent, text)[0].certain:
        return FailureText(text, "parsed_from_receipt" if receipt else "absent")
    return None


def _from_string(evidence: Evidence, recorded: str) -> FailureText | None:
    """A string result is a failure by the error flag, by its `Error: `, or by a sentence that is certain.

    The `Error: ` before the name of the file with a server's answer is that of no failure.
    """
    offset = error_prefix_length(recorded)
    text = recorded[offset:]
    if evidence.is_error or (offset and not is_saved_result(recorded)) or classify(evidence.agent, text)[0].certain:
        return FailureText(text, "stringified", offset)
    return None

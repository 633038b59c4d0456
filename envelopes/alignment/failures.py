"""Recorded failures of foreign agents: one table of sentences for each agent, used by every family.

    find_failure_text(evidence)    the sentence without its wrapper, or None: the call did not fail
    read_failure(evidence)         that sentence as an error envelope
    align_failure(evidence, text)  the spans of the recorded sentence in the receipt

The recorded result comes first. The receipt is read only where no result was recorded, and the fidelity is
then `parsed_from_receipt`. The agent's own error flag decides where there is one; sentences decide only
without it (design.md section 1).
"""

from __future__ import annotations

import re
from functools import partial

import msgspec

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
_LISTED = "InputValidationError: ["  # JSON of what is wrong with the arguments; the model is told it in sentences
_BLOCK_MEMBERS = frozenset({"content", "isError", "is_error", "_meta"})


class FailureText(msgspec.Struct, frozen=True):
    """`offset` is the position of `text` in the recorded string; None when it was not recorded as a string."""

    text: str
    fidelity: ResultFidelity
    offset: int | None = None


class FailureRule(msgspec.Struct, frozen=True):
    """A sentence of an agent and the error that it means.

    `pattern` is matched at the beginning of the text; its group `hint`, if any, is the recovery hint. `certain`
    marks a sentence that no tool output begins with: it means a failure even without an error flag.
    """

    pattern: re.Pattern[str]
    kind: str
    retryable: bool = False
    certain: bool = False


def _rule(pattern: str, kind: str, *, retryable: bool = False, certain: bool = False) -> FailureRule:
    return FailureRule(re.compile(pattern, re.DOTALL), kind, retryable, certain)


_CLAUDE_CODE = (
    _rule(
        r"The user doesn't want to (?:proceed with this tool use|take this action right now)\."
        r"(?:.*?(?P<hint>(?<=the user said:\n).+|STOP what you are doing[^.]*\.))?",
        "write_denied",
        certain=True,
    ),
    _rule(r"User rejected tool use\b", "write_denied", certain=True),
    _rule(r"Permission to use .+? has been (?:auto-)?denied", "write_denied"),
    _rule(r"Claude requested permissions to [^\n]+?, but you haven't granted it yet\.", "write_denied"),
    _rule(
        r"(?:\S+ (?:in|targeting)|Output redirection to) '[^\n]+' was blocked\. For security, Claude Code may only\b|"
        r"Output redirection to '[^\n]+' was blocked by a deny rule\.",
        "write_denied",
    ),
    _rule(r"\S+ in '[^\n]+' needs approval\. The path is outside the working directories\b", "write_denied"),
    _rule(r"Permission for this action was denied by the Claude Code auto mode\b", "write_denied", certain=True),
    _rule(
        r"\S+ is temporarily unavailable, so auto mode cannot determine the safety of\b|"
        r"Auto mode could not evaluate this action\b",
        "write_denied",
        retryable=True,
        certain=True,
    ),
    _rule(r"(?:PreToolUse:\S+ hook error|Hook PreToolUse\S* denied)\b", "denied_by_hook"),
    _rule(r"(?:Exit code 143\n)?Command timed out after \d", "command_timed_out", retryable=True),
    _rule(r"MCP error -32001\b|Request timed out\b|timeout of \d+ ?ms exceeded", "timeout", retryable=True),
    _rule(r"InputValidationError\b", "invalid_tool_input"),
    _rule(r"(?:Error: )?No such tool available\b", "unknown_tool"),
    _rule(r"Sibling tool call errored\b", "cancelled", retryable=True, certain=True),
    _rule(r"\[Request interrupted by user(?: for tool use)?\]", "cancelled", retryable=True, certain=True),
    _rule(r"(?:File|Path|Directory) does not exist\b(?:.*?(?P<hint>Did you mean [^?]+\?))?", "missing_file"),
    _rule(r"ENOENT\b", "missing_file"),
    _rule(r"File has not been read yet\. (?P<hint>Read it first[^.]*\.)", "tool_execution_failed"),
    _rule(r"File has been (?:unexpectedly )?modified\b[^.]*\. (?P<hint>Read it again[^.]*\.)", "tool_execution_failed"),
    _rule(r"Found \d+ matches [^.]*\. (?P<hint>To replace all[^.]*\.[^.]*\.)", "tool_execution_failed"),
)
_certain = partial(_rule, certain=True)
_CODEX_CALL = r"(?:exec_command|shell|apply_patch) failed for [^\n]*?"
_CODEX_HEADER = r"(?:Wall time: [\d.]+ seconds\n(?:Output:\n?)?)?"
_CODEX_ERROR = _CODEX_HEADER + r"(?:err: \"|\[\{\"type\":\"text\",\"text\":\")?tool call error: "
_CODEX_WAIT = r".{0,400}?\btimed out awaiting tools/call\b"
_CODEX = (
    _certain(r"(?:exec command |patch |tool call )?(?:rejected|denied|declined) by (?:the )?user\b", "write_denied"),
    _certain(_CODEX_CALL + r"(?:[Rr]ejected by|[Rr]ejected\(\"rejected)", "write_denied"),
    _certain(_CODEX_HEADER + r"aborted by user\b", "cancelled", retryable=True),
    _rule(r"Script terminated\n", "cancelled", retryable=True),
    _certain(r"failed to parse function arguments\b", "invalid_tool_input"),
    _certain(_CODEX_HEADER + r"err: [^\n]* at line \d+ column \d+\Z", "invalid_tool_input"),
    _certain(r"unsupported (?:call|custom tool call)\b|\w+ is unavailable in \w+ mode\Z", "unknown_tool"),
    _certain(r"apply_patch verification failed\b|invalid patch\b", "invalid_tool_input"),
    _certain(r"(?:failed in sandbox \S+ with )?execution error: command timed out\b", "command_timed_out"),
    _certain(_CODEX_ERROR + _CODEX_WAIT, "timeout", retryable=True),
    _rule(_CODEX_WAIT, "timeout", retryable=True),
    _certain(_CODEX_ERROR, "tool_execution_failed"),
    _certain(r"resources/(?:templates/)?(?:list|read) failed: |unable to locate image at `", "tool_execution_failed"),
    _certain(r"(?:exec_command|write_stdin|shell|apply_patch|tool call) (?:failed|error)\b", "tool_execution_failed"),
    _certain(r"execution error: |failed in sandbox\b", "tool_execution_failed"),
)
_GEMINI_CLI = (
    _certain(
        r"\[Operation Cancelled\] Reason: (?:User cancelled|(?:Tool call|Request|Operation) cancelled)",
        "cancelled",
        retryable=True,
    ),
    _rule(r"Command was cancelled by user\b", "cancelled", retryable=True),
    _certain(
        r"\[Operation Cancelled\]|Tool call (?:was )?cancelled by user|User (?:did not allow|cancelled)", "write_denied"
    ),
    _certain(r"Tool execution (?:for \S+ )?(?:was )?(?:denied|blocked)", "write_denied"),
    _rule(
        r"Qwen Code requires permission to use \S+, but that permission was declined"
        r"|(?:Tool|This) \S+ (?:is|invocation was) denied by permission rules"
        r"|Command '.{0,2000}?' is blocked by configuration"
        r"|Command injection detected: |Command substitution using [^\n]+ is not allowed for security reasons",
        "write_denied",
    ),
    _rule(
        r"Command timed out after \d|(?:Command was )?(?:timed out|cancelled by timeout)"
        r"|Command was automatically cancelled",
        "command_timed_out",
    ),
    _rule(
        r"(?:MCP tool '[^'\n]*' reported tool error for function call: .*? with response: "
        r'\[\{"functionResponse":\{"name":"[^"]*","response":\{"error":\{"message":")?'
        r"(?:MCP error -32001\b|Request timed out\b)",
        "timeout",
        retryable=True,
    ),
    _rule(r"File not found\b|(?:Path|Directory) (?:not found|does not exist)|ENOENT\b", "missing_file"),
    _rule(r"Invalid (?:parameters|arguments|tool call)|params[\w/]* must |[\w/]+ must be ", "invalid_tool_input"),
    _rule(r"Tool \S+ not found", "unknown_tool"),
    _rule(r"Failed to edit, ", "tool_execution_failed"),
)
_OPENCODE = (  # behind `Error: ` in releases before 1.2
    _certain(
        r"(?:Error: )?The user (?:rejected permission|has specified a rule|has specifically restricted)\b",
        "write_denied",
    ),
    _certain(r"(?:Error: )?Tool execution aborted\b", "cancelled", retryable=True),
    _rule(r"(?:Error: )?File not found: [^\n]+(?:\s+(?P<hint>Did you mean .+))?\Z", "missing_file"),
    _rule(r"(?:Error: )?The \S+ tool was called with invalid arguments\b", "invalid_tool_input"),
    _rule(r"The arguments provided to the tool are invalid: Model tried to call unavailable tool\b", "unknown_tool"),
    _rule(r"The arguments provided to the tool are invalid\b", "invalid_tool_input"),
)
_FRAMEWORKS = (
    _rule(r"The tool call was denied|Tool call denied|User (?:rejected|denied)", "write_denied"),
    _rule(
        r"(?:Error: )?\S+ is not a valid tool\b|Unknown tool\b|Tool \S+ (?:not found|does not exist)",
        "unknown_tool",
    ),
    _rule(r"Error executing tool \S+: \d+ validation errors? for|\d+ validation errors?\b", "invalid_tool_input"),
    _rule(r"Error invoking tool\b|Invalid (?:arguments|params|request parameters)\b", "invalid_tool_input"),
    _rule(r"(?:Request |Tool )?timed out\b", "timeout", retryable=True),
)
_MINI_SWE_AGENT = (
    _certain(r"Commands? not executed\.", "write_denied"),
    _certain(r"Interrupted by user: ", "cancelled", retryable=True),
    _certain(
        r"The last command <command>.*?</command> timed out and has been killed\.", "command_timed_out", retryable=True
    ),
)
_OTHER = _rule("", "tool_execution_failed")
_RULES: dict[str, tuple[FailureRule, ...]] = {  # by agent
    "claude-code": _CLAUDE_CODE,
    "codex": _CODEX,
    **dict.fromkeys(("gemini-cli", "qwen-code"), _GEMINI_CLI),
    "opencode": _OPENCODE,
    "mini-swe-agent": _MINI_SWE_AGENT,
    **dict.fromkeys(("langchain", "pydantic-ai", "mcp", "anthropic"), _FRAMEWORKS),
}


_WITH_KIND = (NATIVE, "otlp")  # agents whose errors have a kind, and no code
# What the types of an agent's own errors mean.
_KINDS: dict[str, dict[str, str]] = {
    "inspect-ai": {
        "parsing": "invalid_tool_input",
        "timeout": "command_timed_out",
        "unicode_decode": "tool_execution_failed",
        "permission": "tool_execution_failed",
        "file_not_found": "missing_file",
        "is_a_directory": "tool_execution_failed",
        "limit": "tool_execution_failed",
        "output_limit": "tool_execution_failed",
        "approval": "write_denied",
        "cancelled": "cancelled",
        "sandbox_unavailable": "tool_execution_failed",
        "unknown": "tool_execution_failed",
    },
}
ERROR_TYPE = "errorType"  # the one member that Qwen Code records of a failure beside the receipt
_QWEN_CODE_KINDS = {
    "execution_denied": "write_denied",
    "execution_timeout": "command_timed_out",
    "file_not_found": "missing_file",
    "invalid_tool_params": "invalid_tool_input",
    "tool_not_registered": "unknown_tool",
}
_GENERAL_TYPES = ("invalid_tool_params",)  # the sentence decides where it is known


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
        is_decided = own in _GENERAL_TYPES and error.kind != _OTHER.kind
        kind = error.kind if is_decided else _QWEN_CODE_KINDS.get(own, error.kind)
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
    told = unwrap(evidence.receipt_text or "") if text.startswith(_LISTED) else ""
    if told.startswith(_LISTED.removesuffix("[")) and not told.startswith(_LISTED):
        heading, _, issues = told[:MESSAGE_CHARACTERS].partition("\n")
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
    kinds = _KINDS.get(evidence.agent, {})
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
    rule, hint = _classify(agent, text)
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
    if isinstance(recorded, dict) and evidence.agent in _KINDS and isinstance(message := recorded.get("message"), str):
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
    if evidence.is_error or receipt.startswith(OPENING) or _classify(evidence.agent, text)[0].certain:
        return FailureText(text, "parsed_from_receipt" if receipt else "absent")
    return None


def _from_string(evidence: Evidence, recorded: str) -> FailureText | None:
    """A string result is a failure by the error flag, by its `Error: `, or by a sentence that is certain.

    The `Error: ` before the name of the file with a server's answer is that of no failure.
    """
    offset = error_prefix_length(recorded)
    text = recorded[offset:]
    if evidence.is_error or (offset and not is_saved_result(recorded)) or _classify(evidence.agent, text)[0].certain:
        return FailureText(text, "stringified", offset)
    return None


def _classify(agent: str, text: str) -> tuple[FailureRule, str | None]:
    for rule in _RULES.get(agent, ()):
        if match := rule.pattern.match(text):
            return rule, match.groupdict().get("hint")
    return _OTHER, None

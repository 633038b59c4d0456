"""Sentences and types of errors of foreign agents, and the errors that they mean: one table for each agent.

classify(agent, text)    the rule that a text begins with, and the recovery hint in it
"""

from __future__ import annotations

import re
from functools import partial

import msgspec


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
    _certain(
        r"unsupported (?:call|custom tool call)\b|request_user_input is unavailable in \w+ mode\Z", "unknown_tool"
    ),
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
    _rule(
        r"(?:The arguments provided to the tool are invalid: )?Model tried to call unavailable tool\b", "unknown_tool"
    ),
    _rule(r"The arguments provided to the tool are invalid\b", "invalid_tool_input"),
)
_PI = (
    _rule(r"Validation failed for tool |Invalid arguments for tool ", "invalid_tool_input"),
    _rule(r"Tool \S+ not found\Z", "unknown_tool"),
    _rule(r"Tool execution was blocked\Z", "denied_by_hook"),
    _rule(r"Operation aborted\Z", "cancelled", retryable=True),
    _rule(r"ENOENT\b|(?:File|Path) not found: |Could not edit file: [^\n]+\. Error code: ENOENT\.", "missing_file"),
)
_KIMI_CLI = (
    _rule(r"The tool call is rejected by the user\.(?: User feedback: (?P<hint>.+))?", "write_denied"),
    _rule(r"Rejected: approval timed out\b|Rejected by user\b", "write_denied"),
    _rule(r"Blocked by PreToolUse hook\Z", "denied_by_hook"),
    _rule(r"Tool `[^`\n]*` not found\Z", "unknown_tool"),
    _rule(r"Error (?:parsing|validating) JSON arguments: |Command cannot be empty\.", "invalid_tool_input"),
    _rule(r"Command killed by timeout \(", "command_timed_out", retryable=True),
    _rule(r"(?:Timeout while calling MCP tool|Grep timed out|Agent timed out)\b", "timeout", retryable=True),
    _rule(r"`[^`\n]*` (?:parent directory )?does not exist\.", "missing_file"),
    _rule(r"No replacements were made\. The old string was not found\b", "context_not_found"),
    _rule(r"`[^`\n]*` is (?:outside the workspace|not within the working directory)\b", "execution_root_violation"),
    _rule(r"Failed to fetch URL(?: due to network error|: request timed out)\b", "network_failed", retryable=True),
)
_KIMI_CODE = (
    _rule(r"Tool \"[^\"\n]+\" was not run because the approval request was cancelled\.", "cancelled", retryable=True),
    _rule(r"Tool \"[^\"\n]+\" was (?:not run because the user rejected|denied by permission)\b", "write_denied"),
    _rule(r"Plan mode is active\. You may only write to |AskUserQuestion is disabled\b", "write_denied"),
    _rule(r"Blocked by \w+ hook\b", "denied_by_hook"),
    _rule(r"Tool \"[^\"\n]+\" not found\Z", "unknown_tool"),
    _rule(r"Invalid args for tool \"", "invalid_tool_input"),
    _rule(r"Interrupted by user\Z", "cancelled", retryable=True),
    _rule(r"Command killed by timeout \(", "command_timed_out", retryable=True),
    _rule(r"(?:Grep|Glob|Agent) timed out\b", "timeout", retryable=True),
    _rule(r"\"[^\"\n]+\" does not exist\.", "missing_file"),
    _rule(r"old_string not found in ", "context_not_found"),
    _rule(r"Failed to fetch URL due to network error\b", "network_failed", retryable=True),
)
_MISTRAL_VIBE = (
    _certain(r"Tool execution not permitted\.|Tool '[^'\n]+' is permanently disabled", "write_denied"),
    _rule(r"Command (?:denied|blocked)\b|[^\n]* is not allowed\b", "write_denied"),
    _certain(r"Tool execution interrupted\b|User cancelled the operation\.", "cancelled", retryable=True),
    _certain(r"Tool execution skipped by user\.", "write_denied"),
    _certain(r"Tool execution denied by ", "write_denied"),
    _rule(r"Invalid arguments: |tool arguments (?:do not satisfy|are not valid)\b", "invalid_tool_input"),
    _rule(r"Unknown tool '|unsupported top-level tool ", "unknown_tool"),
    _rule(r"Command timed out after \d", "command_timed_out", retryable=True),
    _rule(r"File not found at: |Path does not exist: ", "missing_file"),
    _rule(r"String to replace not found in file\.|SEARCH/REPLACE blocks failed:", "context_not_found"),
    _rule(r"Failed to fetch URL: ", "network_failed", retryable=True),
)
_COPILOT_CLI = (
    _rule(r"The execution of this tool, or a previous tool was interrupted\.", "cancelled", retryable=True),
    _rule(r"Permission (?:to run this tool was )?denied\b", "write_denied"),
    _rule(r"Tool '[^'\n]+' does not exist\.", "unknown_tool"),
    _rule(r"Multiple validation errors:|\"[^\"\n]+\": |[^\n]{0,200} in JSON at position \d", "invalid_tool_input"),
    _rule(
        r"(?:Parent directory|Path|Search paths) (?:does|do) not exist|(?:Unhandled error: )?(?:Error: )?ENOENT\b"
        r"|rg: [^\n]+: No such file or directory",
        "missing_file",
    ),
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
_CLINE = (
    _certain(r"The user denied this (?:\w+ )?operation\.", "write_denied"),
    _rule(r"Tool approval requires an interactive session\b|User (?:denied|rejected)\b", "write_denied"),
    _rule(r"Tool '[^'\n]*' is not available in PLAN MODE\.", "write_denied", certain=True),
    _certain(r"Missing value for required parameter '|The '\w+' parameter was empty\.", "invalid_tool_input"),
    _certain(r"Invalid JSON argument used with ", "invalid_tool_input"),
    _rule(r"Tool call \S+ emitted invalid JSON arguments\b|✖ ", "invalid_tool_input"),
    _rule(r"Tool call \S+ was rejected before execution: AI_NoSuchToolError\b", "unknown_tool"),
    _rule(r"Command failed: Command timed out after \d", "command_timed_out", retryable=True),
    _rule(r"(?:Error (?:reading file|executing read_file): )?(?:File not found: |ENOENT\b)", "missing_file"),
    _rule(r"Tool execution was interrupted before a result was produced\.", "cancelled", retryable=True),
)
_OPENHANDS = (
    _certain(r"Action rejected: (?P<hint>.+)?", "write_denied"),
    _rule(r"Tool '[^'\n]*' not found\b", "unknown_tool"),
    _rule(r"Error validating (?:tool '|args )", "invalid_tool_input"),
    _rule(
        r"Invalid `path` parameter: [^\n]* does not exist\.|Error: File not found: |File not found\b", "missing_file"
    ),
    _rule(r"Invalid `\w+` parameter: |Parameter `\w+` is required\b", "invalid_tool_input"),
    _certain(r"A restart occurred while this tool was in progress\.", "cancelled", retryable=True),
)
OTHER = _rule("", "tool_execution_failed")
_CONTINUE_CALL = r"(?:Error executing tool \S+: )?"
_CONTINUE_CLI = (
    _certain(r"Tool cancelled\Z", "cancelled", retryable=True),
    _rule(r"(?:Command blocked by security policy|Permission denied by user)\Z", "write_denied"),
    _rule(_CONTINUE_CALL + r"(?:File|Directory) does not exist\b", "missing_file"),
    _rule(r"Required parameter \"|\w+ arg is required\b", "invalid_tool_input"),
    _rule(r"Tool \S+ not found\Z", "unknown_tool"),
    _rule(r"Edit at index \d+: string not found\b", "context_not_found"),
    _rule(r"(?P<hint>You must use the Read tool to read [^\n]+)", "tool_execution_failed"),
)
_RULES: dict[str, tuple[FailureRule, ...]] = {  # by agent
    "claude-code": _CLAUDE_CODE,
    "codex": _CODEX,
    **dict.fromkeys(("gemini-cli", "qwen-code"), _GEMINI_CLI),
    **dict.fromkeys(("opencode", "kilo-code"), _OPENCODE),
    "pi": _PI,
    "kimi-cli": _KIMI_CLI,
    "kimi-code": _KIMI_CODE,
    "mistral-vibe": _MISTRAL_VIBE,
    "openhands": _OPENHANDS,
    "cline": _CLINE,
    "continue-cli": _CONTINUE_CLI,
    "copilot-cli": _COPILOT_CLI,
    "mini-swe-agent": _MINI_SWE_AGENT,
    **dict.fromkeys(("langchain", "pydantic-ai", "mcp", "anthropic"), _FRAMEWORKS),
}


# What the types of an agent's own errors mean.
KINDS: dict[str, dict[str, str]] = {
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
QWEN_CODE_KINDS = {
    "execution_denied": "write_denied",
    "execution_timeout": "command_timed_out",
    "file_not_found": "missing_file",
    "invalid_tool_params": "invalid_tool_input",
    "tool_not_registered": "unknown_tool",
}
GENERAL_TYPES = ("invalid_tool_params",)  # the sentence decides where it is known


def classify(agent: str, text: str) -> tuple[FailureRule, str | None]:
    """The first rule of the agent that the text begins with, else OTHER, and the hint in it."""
    for rule in _RULES.get(agent, ()):
        if match := rule.pattern.match(text):
            return rule, match.groupdict().get("hint")
    return OTHER, None

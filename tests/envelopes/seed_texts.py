"""The examples and tables of the four seeds, word for word.

CALL's two objects are in `tests/envelopes/settled.py`. Our copy of the RFC has lost its indentation and the
blank lines of its receipts; E-17 restores the blank lines.
"""

from __future__ import annotations

# RFC, Canonical Envelope Shape
ENVELOPE = """{
"tool_name": "ExecCommand",
"status": "success",
"summary_text": "command exited with status 0",
"result": {},
"error": null
}"""
INVALID_INPUT = """{
"tool_name": "ExecCommand",
"status": "error",
"summary_text": "input for ExecCommand does not match the tool schema",
"result": null,
"error": {
"kind": "invalid_tool_input",
"message": "input for ExecCommand does not match the tool schema",
"details": {
"tool_name": "ExecCommand",
"parse_error": "missing field `cmd`"
},
"recovery_hint": "provide input for ExecCommand that matches the published tool schema",
"retryable": false
}
}"""
# RFC, Command Tool Canonical Example and Error Example
COMPLETED = """{
"tool_name": "ExecCommand",
"status": "success",
"summary_text": "command exited with status 0",
"result": {
"disposition": "completed",
"exit_status": 0,
"stdout_preview": "short output preview",
"stderr_preview": null,
"truncated": false
},
"error": null
}"""
PROMOTED = """{
"tool_name": "ExecCommand",
"status": "success",
"summary_text": "command promoted to managed task",
"result": {
"disposition": "promoted_to_task",
"task_handle": {
"task_id": "task_123",
"kind": "command_task"
},
"initial_output_preview": "short output preview",
"initial_output_truncated": false
},
"error": null
}"""
OUTSIDE = """{
"tool_name": "ExecCommand",
"status": "error",
"summary_text": "requested working directory is outside the current execution root",
"result": null,
"error": {
"kind": "execution_root_violation",
"message": "requested working directory is outside the current execution root",
"details": {
"workdir": "../other-repo"
},
"recovery_hint": "omit workdir or use a relative path inside the active workspace",
"retryable": false
}
}"""
# RFC, Complete Output Shape
COMPLETE_OUTPUT = """struct CompleteToolOutput {
tool_name: String,
status: ToolOutputStatus,
summary_text: String,
result: Option<CompleteToolResult>,
error: Option<ToolError>,
}"""
# RFC, Artifact Index Mapping and Artifact References In Family Results
REFERENCE = """{
"path": "/path/to/output.log"
}"""
TWO_STREAMS = """{
"result": {
"stdout_preview": "...",
"stderr_preview": "...",
"stdout_truncated": true,
"stderr_truncated": true,
"stdout_artifact": 0,
"stderr_artifact": 1
},
"artifacts": [
{ "path": "/path/to/stdout.log" },
{ "path": "/path/to/stderr.log" }
]
}"""
ONE_STREAM = """{
"result": {
"combined_output_preview": "...",
"combined_output_truncated": true,
"combined_output_artifact": 0
},
"artifacts": [
{ "path": "/path/to/output.log" }
]
}"""
# RFC, Family-Specific Large Output Rules: a command-family result
NESTED = """{
"stdout_preview": "...",
"stderr_preview": "...",
"truncated": true,
"artifacts": [
{ "path": "/path/to/stdout.log" },
{ "path": "/path/to/stderr.log" }
],
"stdout_artifact": 0,
"stderr_artifact": 1
}"""
STRUCTURED = """{
"stdout_preview": "...",
"stderr_preview": "...",
"truncated": true,
"stdout_artifact": 0
}"""
# RFC, Prefer Head And Tail For Logs
HEAD_AND_TAIL = """<first lines>
...
[output truncated: showing first N and last M lines]
...
<last lines>"""
# RFC, Prefer Textual Receipts For Command-Family Rendering; Command Tool Rendered Example
LISTED = """Process exited with code 0
stdout:
src/runtime/turn.rs
src/runtime/lifecycle.rs"""
SERVING = """Command promoted to background task
Task: task_123
Initial output:
Starting server on :3000"""
SHORT = """Process exited with code 0
stdout:
short output preview"""
SHORT_PROMOTED = """Command promoted to background task
Task: task_123
Initial output:
short output preview"""

# CALL, 3.1 and 3.2: the members of both shapes, ? where one may be missing
TOOL_CALL_MEMBERS = """callId runId stepId tool args argsHash? attempt timeoutMs? deadlineAt? cancellable
iteration? loopId? createdAt plannerVersion? executorVersion toolRegistryVersion preview? riskLevel category? policy
confirmationId?"""
TOOL_RESULT_MEMBERS = """callId runId stepId tool attempt status ok data? dataHash? error? startedAt endedAt durationMs
effects? userMessage? debugMessage?"""
# CALL, 5 and 7
CODES = """VALIDATION_ERROR POLICY_DENIED NOT_FOUND CONFLICT PRECONDITION_FAILED TIMEOUT CANCELLED INTERNAL_ERROR"""
# CALL, 3.3
EVENTS = """run.started
run.confirmationRequested
run.confirmed
run.cancelled
step.scheduled
step.started
step.progress (optional for streaming/long operations)
step.finished
step.failed
run.finished"""

# OUTCOME, Serialisation: a row each
MODEL_SEES = """ToolExecutionResult json.dumps(outcome.output)
ToolTimeout {"status": "error", "error": "...", "timed_out": true, "retryable": ...}
ToolFailure {"status": "error", "error": "...", "retryable": ...}
ToolDenied("duplicate") {"warning": "duplicate_tool_call", "skipped": true}
ToolDenied("blocked") {"warning": "non_retryable_tool_failure", "skipped": true}
ToolDenied("validation") {"error": "argument_validation_failed", "details": "...", "hint": "..."}
ToolDenied("deadline") {"error": "Turn deadline expired; cannot execute tool.", "timed_out": true}
ToolDenied(other) {"error": "Blocked: ...", "blocked": true}
ToolArtifactReference {"artifact_reference": "...", "summary": "...", "hint": "..."}"""
# OUTCOME, ToolDenied
REASONS = """"duplicate" ReplayControl — idempotent tool with a prior successful call
"blocked" Per-turn blocked list — tool produced a non-retryable failure earlier
"pre_hook" on_pre_tool_use callback returned allow=False
"validation" ToolArgValidator failed and repair attempts exhausted
"deadline" TurnBudget.is_expired() was True before execution started
"write_denied" Write confirmation callback returned False"""

# TOOLS, Tool families
FAMILIES = """\
| `CoreAgent` | `WaitFor`, `AgentGet`, `Enqueue`, WorkItem tools, `MemorySearch`, `MemoryGet` | All agent profiles |
| `LocalEnvironment` | `ExecCommand`, `ExecCommandBatch`, `ApplyPatch`, `UseWorkspace` | All profiles |
| `Web` | `WebFetch`, `WebSearch` | All profiles |
| `AgentCreation` | `SpawnAgent` | All profiles |"""
# TOOLS, Complete tool listing
PLANES = """### WorkItem plane
| `CreateWorkItem` | Create a new open WorkItem |
| `UpdateWorkItem` | Mutate objective, plan_status, todo_list |
| `PickWorkItem` | Set current focus |
| `GetWorkItem` | Read single WorkItem with plan preview |
| `ListWorkItems` | Query with filters |
| `CompleteWorkItem` | Mark complete; promote same-round assistant text as the terminal completion report |
| `WaitFor` | Record task, external, or operator waiting state and yield |
### Task control plane
| `ExecCommand` | Start a shell command |
| `ExecCommandBatch` | Run bounded sequential command batch |
| `TaskList` | Compact active-task digest |
| `TaskStatus` | Single-task lifecycle snapshot |
| `TaskOutput` | Bounded output preview with optional blocking |
| `TaskInput` | Send input to interactive task |
| `TaskStop` | Stop a running task |
### Agent plane
| `AgentGet` | Read current agent-plane summary |
| `WaitFor` | Signal turn-end after recording explicit wait state |
| `Enqueue` | Schedule self-follow-up message |
| `SpawnAgent` | Delegate work to a child agent |
### Workspace plane
| `UseWorkspace` | Switch active workspace |
| `ApplyPatch` | Apply unified diff patch to files |
### Memory plane
| `MemorySearch` | Search agent memory sources |
| `MemoryGet` | Fetch exact memory content by source_ref |
### Web plane
| `WebFetch` | Fetch HTTP/HTTPS URL |
| `WebSearch` | Web search |"""
# TOOLS, Tool definition contract
DEFINITION = """BuiltinToolDefinition {
    family: ToolCapabilityFamily,
    spec: ToolSpec { name, description, parameters },
}"""
# TOOLS, Input/result separation and Result envelope
STARTUP_INPUT = "cmd workdir shell login tty accepts_input yield_time_ms max_output_tokens"
RESULT_METADATA = "status task_handle disposition exit_status output_preview"
COMMAND_FIELDS = "disposition initial_output_preview task_handle"

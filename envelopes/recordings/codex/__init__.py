"""Rollouts of the Codex CLI, `rollout-<time>-<thread>.jsonl`, of every release.

1. A line is `{timestamp, ordinal?, type, payload}`. Releases before September 2025 wrote the payload of a
   `response_item` alone, behind a first line with `id` and `instructions`.
2. `response_item` is what went to the model and came from it: messages, calls (`function_call`, `custom_tool_call`,
   `local_shell_call`, `tool_search_call`) and the outputs that answer them, which are the receipts.
3. What the runtime recorded of a call is in some releases only and follows from the lines, not from the version:
   `exec_command_end`, `patch_apply_end`, `mcp_tool_call_end`, `collab_agent_spawn_end`, or an `item_completed`.
4. A command that outlives its window goes on as a session. A `write_stdin` that sends nothing polls it: its output is
   a further receipt of the command, and the poll an event of it. One that sends something is a call of its own, and
   so is a poll of a session that the file does not name. The one record of a command also answers the input that
   reports its end.
5. Code mode has one call, `exec`, whose program calls tools by itself. Their items have ids of their own: each is an
   event of that call where only one was open, of the run otherwise.
6. `token_count` repeats the usage of the last request; the sum over all requests distinguishes them.
7. `arguments` is JSON in a string: the decoded object is stored, or the string where it is none.
"""

from __future__ import annotations

from envelopes.recordings.base import Format
from envelopes.recordings.codex import rollout

FORMATS: tuple[Format, ...] = (
    Format(
        name="codex",
        title="Codex rollout",
        agent="codex",
        namespace="codex",
        mark="lines of session_meta, response_item or event_msg with a payload",
        sniff=rollout.sniff,
        read=rollout.read,
        is_global_call_id=rollout.is_global_call_id,
    ),
)

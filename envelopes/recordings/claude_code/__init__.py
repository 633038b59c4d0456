"""Claude Code's own files: sessions, their subagents' files, workflow journals, and the output of stream-json.

reader_state  the state of a reader from line to line, and the run records that follow from it
conversation  the queue of messages, rewinds, and conversations that begin anew
messages      an API message: calls, results, receipts, artifacts, and the text around them
attachments   what the program put beside the messages: reminders, files, the system prompt
usage         the tokens of a request, over the passes of its model
line          one line of a session file: its run, its session, and the session it was copied from
subagents     progress lines and sidechains, which report another run's calls; workflow journals, descriptions
session       session files, seen of releases 2.0.64 to 2.1.42, later ones as described
hooks         the input of PreToolUse and PostToolUse hooks
stream_json   `claude -p --output-format stream-json`
"""

from __future__ import annotations

from functools import partial

from envelopes.recordings.base import Format
from envelopes.recordings.claude_code import hooks, session, stream_json, subagents
from envelopes.recordings.claude_code.reader_state import is_global_call_id, run_alias, spawning_call

_format = partial(Format, agent="claude-code", namespace="claude-code", is_global_call_id=is_global_call_id)
SESSION = _format(
    name="claude-code",
    title="Claude Code session",
    mark="lines with a type and a sessionId",
    version=8,
    sniff=session.sniff,
    read=session.read,
    name_mark=session.name_mark,
    run_alias=run_alias,
    spawning_call=spawning_call,
)
STREAM = _format(
    name="claude-code-stream",
    title="Claude Code stream-json output",
    mark="lines with a type and a session_id",
    version=3,
    sniff=stream_json.sniff,
    read=stream_json.read,
    run_alias=run_alias,
    spawning_call=spawning_call,
)
JOURNAL = _format(
    name="claude-code-journal",
    title="Claude Code workflow journal",
    mark="a first line with a type, a key and an agentId",
    sniff=subagents.sniff_journal,
    read=subagents.read_journal,
)
AGENT = _format(
    name="claude-code-agent",
    title="Claude Code subagent's description",
    mark="an object with an agentType, in a file agent-….meta.json",
    sniff=subagents.sniff_meta,
    read=subagents.read_meta,
    is_document=True,
    recorded_as="claude-code",
)
HOOKS = _format(
    name="claude-code-hooks",
    title="Claude Code hook events",
    mark="lines with a hook_event_name and a session_id",
    sniff=hooks.sniff,
    read=hooks.read,
    recorded_as="claude-code",
    run_alias=run_alias,
    spawning_call=spawning_call,
)
FORMATS: tuple[Format, ...] = (HOOKS, SESSION, STREAM, JOURNAL, AGENT)

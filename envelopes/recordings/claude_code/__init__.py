"""What Claude Code writes: session files and their subagents' files, and the output of stream-json.

shapes       the fields of a line that are read, everything large as its own bytes
memory       what a reader must remember between two lines, and so between two parts of a file
place        which run a file holds, from its name and folder
turns        a message: calls, results, receipts, and what stands around them
outcomes     one tool result: result, receipt, artifacts
session      the lines of a session file, releases 2.0.64 to 2.1.42 seen
subagents    progress lines and sidechains that report another run's calls
attachments  what the program put beside a turn: messages that waited, hooks, reminders
copies       calls of another session that a fork brings with it
compaction   receipts that no longer stand
journal      what a workflow kept of its agents
stream_json  `claude -p --output-format stream-json`
"""

from __future__ import annotations

from envelopes.recordings.base import Format
from envelopes.recordings.claude_code import journal, session, stream_json
from envelopes.recordings.claude_code.results import is_global_call_id, run_alias, spawning_call

SESSION = Format(
    name="claude-code",
    title="Claude Code session",
    agent="claude-code",
    namespace="claude-code",
    sniff=session.sniff,
    read=session.read,
    is_global_call_id=is_global_call_id,
    run_alias=run_alias,
    spawning_call=spawning_call,
)
STREAM = Format(
    name="claude-code-stream",
    title="Claude Code stream-json output",
    agent="claude-code",
    namespace="claude-code",
    sniff=stream_json.sniff,
    read=stream_json.read,
    is_global_call_id=is_global_call_id,
    run_alias=run_alias,
    spawning_call=spawning_call,
)
JOURNAL = Format(
    name="claude-code-journal",
    title="Claude Code workflow journal",
    agent="claude-code",
    namespace="claude-code",
    sniff=journal.sniff,
    read=journal.read,
    is_global_call_id=is_global_call_id,
)
FORMATS: tuple[Format, ...] = (SESSION, STREAM, JOURNAL)

"""Sessions and tasks of Cline: its command line, and its extension for editors.

    <session>.messages.json            {sessionId, agent, origin: {version, parentThreadId?}, messages: [{id, role,
                                       content: [block, …], ts, modelInfo?, metrics?}], system_prompt}
    <session>.json, .compaction.json   what is known about a session, and what its last compaction left

    tasks/<id>/api_conversation_history.json   [{role, content: [block, …], ts?, modelInfo?, metrics?}]
    tasks/<id>/ui_messages.json                [{ts, say | ask, text, conversationHistoryIndex,
                                               conversationHistoryDeletedRange?}]
    tasks/<id>/context_history.json, task_metadata.json   texts that later requests have in place of others; releases

1. Releases from 3.0 of the command line write sessions. A result is the tool's own JSON, of which the client sends what
   `sent_texts` makes of it: both halves are there, and a receipt that is no recorded string is reconstructed.
2. A subagent has a document of its own, which names the session that it is of. Its first message is the task that the
   call states; where one call alone has that, it is the call that started it.
3. Of compactions the last one is recorded: with its summary, what was before has left, but for the messages it keeps.
4. Earlier releases and the extension write tasks. Their tools return nothing but the text that is sent, as blocks of
   the user's message: behind `[read_file for 'a.py'] Result:`, in earlier releases as a block of its own, or as the
   result of a call by its id. A text of the model has the calls as tags, unless it has calls by itself. Releases that
   write blocks of their own were not run, so these receipts are marked as reconstructed.
5. A task's history keeps what the client leaves out of later requests, or replaces in them; the documents beside it
   state both. Documents of more than 4 MiB are not read for that.
6. Texts beside the results in a user's message (the state of the editor, reminders of the todo list) are messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from envelopes.alignment.cline_receipts import AGENT
from envelopes.recordings.base import Format, LineProblem, Record, SourceLine, SourcePath
from envelopes.recordings.cline.placed_messages import name_place
from envelopes.recordings.cline.session import read_about, read_compaction, read_session
from envelopes.recordings.cline.task import EDITS, HISTORY, METADATA, UI_MESSAGES, read_metadata, read_task
from envelopes.recordings.documents import DocumentValue, JsonDocument, name_run, outline
from envelopes.text.untrusted_json import Untrusted

Records = Iterator[Record | LineProblem]
_SESSION, _ABOUT = {"sessionId", "agent", "messages"}, {"session_id", "messages_path", "workspace_root"}
_COMPACTION = {"conversation_id", "source_message_count", "messages"}
_TASK, _FORK = b'"<task>', b"<slug>"  # the second in the first message of other agents with such tasks
_BEGINNING = 400


def _sniff_session(head: bytes, path: SourcePath) -> bool:
    """A document of a session, by its members."""
    keys = outline(head).keys
    return any(names <= keys for names in (_SESSION, _ABOUT, _COMPACTION))


def _file_name(path: SourcePath) -> str:
    return path.path.rsplit("/", 1)[-1]


def _run_of_task(path: SourcePath) -> str:
    """The folder of a task has its id as a name."""
    folder = path.path.rpartition("/")[0].rpartition("/")[2]
    return folder if _file_name(path) in (HISTORY, UI_MESSAGES, EDITS, METADATA) else ""


def _sniff_task(head: bytes, path: SourcePath) -> bool:
    """A history that begins with a task, or a document beside one."""
    if _file_name(path) in (UI_MESSAGES, EDITS, METADATA):
        return path.folder is not None and HISTORY in path.folder.names() and _is_history(path.folder.read(HISTORY))
    return _is_history(head)


def _is_history(head: bytes) -> bool:
    start = head.lstrip()[:_BEGINNING]
    return _TASK in start and _FORK not in head and {"role", "content"} <= outline(head).element_keys


def _session_records(root: DocumentValue, path: SourcePath) -> Records:
    names = root.members().keys()
    if "session_id" in names:
        yield from read_about(root)
    elif "conversation_id" in names:
        yield from read_compaction(root)
    else:
        yield from read_session(root, path)


def _task_records(root: DocumentValue, path: SourcePath) -> Records:
    run = _run_of_task(path) or name_run(path, root.elements())
    if _file_name(path) in (UI_MESSAGES, EDITS, METADATA):
        yield from read_metadata(root, run)
    else:
        yield from read_task(root, run, path)


def _read_document(
    read: Callable[[DocumentValue, SourcePath], Records],
    lines: Iterable[SourceLine],
    path: SourcePath,
    saved: dict[str, object],
) -> Records:
    root = JsonDocument(lines).parse()
    if not isinstance(root, DocumentValue):
        yield from [root] if root else ()
        return
    try:
        yield from read(root, path)
    except Untrusted as refusal:
        yield root.document.refuse(refusal)


FORMATS: tuple[Format, ...] = (
    Format(
        name=AGENT,
        title="Cline session",
        agent=AGENT,
        namespace=AGENT,
        mark="a document with messages, an agent and a sessionId",
        is_document=True,
        sniff=_sniff_session,
        read=partial(_read_document, _session_records),
        is_global_call_id=lambda _call: False,
        name_place=name_place,
    ),
    Format(
        name="cline-task",
        title="Cline task",
        agent=AGENT,
        namespace=AGENT,
        mark="an api_conversation_history.json whose first message has a <task>",
        is_document=True,
        sniff=_sniff_task,
        read=partial(_read_document, _task_records),
        is_global_call_id=lambda _call: False,
        name_place=name_place,
        run_of=_run_of_task,
    ),
)

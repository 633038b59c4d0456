"""Attachments: what the program put beside the messages. What the model got of them are messages, the rest events.

1. Recent releases (as described in October 2026) write the text as it went to the model (`rendered`), with the role of
   its message (`renderedRole`). It is a message whose kind is the type of the attachment. In the role `system` it went
   there without the tags around it, as the requests of 2.1.332 show: so it is here.
2. Older releases write the text alone, in a field that depends on the type. For the types of _TEXTS it is known that
   they were sent; the wording around the text is not recorded.
3. `prompt_snapshot` has the system prompt and the definitions of the tools. It is repeated: each part is a message
   where it differs from the one before.
4. `queued_command` is what a person wrote, or a background task reported, while a tool ran. A client that writes
   `rendered` sends queued messages by their attachments, so that the queue's own lines are none.
5. An error by which a hook before a tool (PreToolUse) blocked a call states that the call was refused.
6. What a hook printed when a session began or a prompt was sent went to the model too, by older releases with the
   success of the hook. Everything else is an event. What names a call is an event of it, message or not.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from envelopes.recordings.base import (
    SYSTEM_PROMPT,
    TASK_REPORT,
    TOOL_DEFINITIONS,
    LineProblem,
    MessageRecord,
    Record,
)
from envelopes.recordings.claude_code.conversation import take_attached
from envelopes.recordings.claude_code.line import SessionLine
from envelopes.recordings.claude_code.reader_state import digest, follow_up_records, is_report, remember
from envelopes.recordings.json_lines import NOTHING, first_byte, struct_reader
from envelopes.text.untrusted_json import Untrusted, array_slices, join_object, object_slices

# The members that lead to the text which older releases sent, by the type of the attachment.
_TEXTS: dict[str, tuple[str, ...]] = {
    "hook_additional_context": ("content",),
    "hook_blocking_error": ("blockingError", "blockingError"),
    "nested_memory": ("content", "content"),
    "skill_listing": ("content",),
    "invoked_skills": ("skills", "content"),
    "edited_text_file": ("snippet",),
    "file": ("content", "file", "content"),
    "plan_file_reference": ("planContent",),
    "mcp_instructions_delta": ("addedBlocks",),
    "deferred_tools_delta": ("addedLines",),
    "agent_listing_delta": ("addedLines",),
    "total_tokens_reminder": ("text",),
    "batching_reminder_sent": ("text",),
    "read_truncation_notice": ("banner",),
}
_SENT_BY_HOOKS = frozenset({"SessionStart", "UserPromptSubmit"})  # what other hooks print stays with the client
_TAGS = (b'"<system-reminder>\\n', b'\\n</system-reminder>"')
_BLOCK_TAGS = (b'"<system-reminder>\\n', b'</system-reminder>"')
_BOUNDARY = b'"__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__"'  # stands between two texts of the prompt and is not sent


class Attachment(msgspec.Struct, frozen=True, gc=False):
    """`prompt` is a string, or a list of blocks; `system_prompt` a list of strings, `tools` one of definitions."""

    type: str | None = None
    prompt: msgspec.Raw = NOTHING
    system_prompt: msgspec.Raw = msgspec.field(default=NOTHING, name="systemPrompt")
    tools: msgspec.Raw = NOTHING
    tool_use_id: str | None = msgspec.field(default=None, name="toolUseID")
    hook_event: str | None = msgspec.field(default=None, name="hookEvent")


class RenderedMessage(msgspec.Struct, frozen=True, gc=False):
    """One element of `rendered`: a message that the model got."""

    content: msgspec.Raw = NOTHING


_read_attachment = struct_reader(Attachment)
_read_rendered = struct_reader(RenderedMessage)


def attachment_records(line: SessionLine) -> Iterator[Record | LineProblem]:
    yield from line.run_updates()
    try:
        attachment = _read_attachment(line.entry.attachment)
    except Untrusted:
        attachment = Attachment()
    rendered = _rendered_content(line)
    line.state.renders = line.state.renders or rendered is not None
    name = attachment.type or "attachment"
    if name == "hook_blocking_error" and attachment.hook_event == "PreToolUse" and attachment.tool_use_id:
        remember(line.state.blocked, attachment.tool_use_id, "denied_by_hook")
    if name == "prompt_snapshot":
        messages = list(_snapshot_messages(line, attachment))
    elif name == "queued_command":
        messages = list(_queued_messages(line, attachment, rendered))
        for message in messages:
            prompt = bytes(attachment.prompt) or message.content
            yield from follow_up_records(line.state, msgspec.structs.replace(message, content=prompt))
    elif rendered is not None:
        messages = [line.plain_message(line.entry.rendered_role or "user", rendered, kind=name)]
    else:
        path = _TEXTS.get(name)
        if name == "hook_success" and attachment.hook_event in _SENT_BY_HOOKS and not line.state.renders:
            path = ("content",)
        content = _join(_texts_at(bytes(line.entry.attachment), path)) if path else None
        messages = [line.plain_message("user", content, "reworded", kind=name)] if content else []
    yield from messages
    if not messages or attachment.tool_use_id:
        yield line.event("attachment", name, line.raw, attachment.tool_use_id)


def _rendered_content(line: SessionLine) -> bytes | None:
    """The content of the messages that the model got, as one; None where none is recorded."""
    if first_byte(line.entry.rendered) != b"[":
        return None
    try:
        contents = [bytes(_read_rendered(element).content) for element in array_slices(bytes(line.entry.rendered))]
    except Untrusted:
        return None
    return _join(list(map(_without_tags, contents)) if line.entry.rendered_role == "system" else contents)


def _without_tags(content: bytes) -> bytes:
    """A text, or the texts of blocks, without the tags, which the client does not send with a role of its own."""
    if not content.startswith(b"["):
        return _strip(content, _TAGS)
    return b"[%s]" % b",".join(map(_block_without_tags, array_slices(content)))


def _block_without_tags(block: bytes) -> bytes:
    members = object_slices(block) if block.startswith(b"{") else {}
    text = members.get("text", b"")
    stripped = _strip(text, _BLOCK_TAGS)
    return block if stripped == text else join_object(members | {"text": stripped})


def _strip(text: bytes, tags: tuple[bytes, bytes]) -> bytes:
    opening, closing = tags
    if not (text.startswith(opening) and text.endswith(closing)) or len(text) < len(opening) + len(closing):
        return text
    return b'"' + text[len(opening) : -len(closing)] + b'"'


def _queued_messages(line: SessionLine, attachment: Attachment, rendered: bytes | None) -> Iterator[MessageRecord]:
    """The message as it was sent, where that is recorded. Nothing for one that the queue's own lines had."""
    prompt = bytes(attachment.prompt)
    is_text = first_byte(attachment.prompt) in (b'"', b"[")
    if is_text and take_attached(line.state, prompt):
        return
    kind = TASK_REPORT if is_text and is_report(prompt) else None
    if rendered is not None:
        yield line.plain_message(line.entry.rendered_role or "user", rendered, kind=kind)
    elif is_text:
        yield line.plain_message("user", prompt, "queued", kind)


def _snapshot_messages(line: SessionLine, attachment: Attachment) -> Iterator[MessageRecord]:
    parts = {SYSTEM_PROMPT: bytes(attachment.system_prompt), TOOL_DEFINITIONS: bytes(attachment.tools)}
    for kind, content in parts.items():
        if not content.startswith(b"["):
            continue
        if _BOUNDARY in content:
            content = _join([text for text in array_slices(content) if text != _BOUNDARY]) or b"[]"
        found = digest(content)
        if line.state.standing.get(kind) != found:
            line.state.standing[kind] = found
            message = line.plain_message("system", content, kind=kind)
            yield msgspec.structs.replace(message, key=f"{message.key}-{kind}")


def _texts_at(raw: bytes, path: tuple[str, ...]) -> list[bytes]:
    """The strings at a path of members, or before its end, the elements of lists included. Nothing of other values."""
    match raw[:1]:
        case b"[":
            return [text for element in array_slices(raw) for text in _texts_at(element, path)]
        case b"{" if path:
            return _texts_at(object_slices(raw).get(path[0], b""), path[1:])
        case b'"' if len(raw) > len('""'):
            return [raw]
    return []


def _join(contents: list[bytes]) -> bytes | None:
    """The JSON of several contents as one: its own bytes where there is one, else a list of all parts."""
    parts: list[bytes] = []
    for content in contents:
        parts += array_slices(content) if content.startswith(b"[") else [content] if content.startswith(b'"') else []
    if len(contents) == 1 and parts:
        return contents[0]
    return b"[" + b",".join(parts) + b"]" if parts else None

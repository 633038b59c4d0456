"""Reads the three documents of a session of releases 3.0: its messages, what is known about it, its last compaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from envelopes.alignment.cline_receipts import AGENT
from envelopes.recordings.base import (
    COMPACTION_SUMMARY,
    LATER_TEXT,
    SYSTEM_PROMPT,
    LineProblem,
    MessageRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourcePath,
    SupersedeRecord,
)
from envelopes.recordings.cline import sent_texts
from envelopes.recordings.cline.placed_messages import Placed, PlacedMessages, behind, read_beside
from envelopes.recordings.document_fields import (
    flag_member,
    integer_member,
    list_member,
    object_member,
    text_member,
    time_member,
)
from envelopes.recordings.documents import DocumentValue, decode_arguments
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, dump_json, join_array

Records = list[Record | LineProblem]
Members = dict[str, DocumentValue]
MESSAGES, COMPACTION = ".messages.json", ".compaction.json"
APART = "anthropic"  # the provider to which texts and images are known to be sent as parts of their own
SPAWNING = ("spawn_agent", "team_run_task")


class _Compaction(msgspec.Struct, frozen=True):
    """`count` messages were there before it, the last one with the key `last`; `messages` are those it left."""

    count: int
    last: str
    at: str | None
    messages: list[DocumentValue]


class SessionReader(PlacedMessages):
    """Collects the records of a session. `sent` are the results by call, `tools` the names of the tools."""

    def __init__(self, root: DocumentValue, run: str) -> None:
        super().__init__(root, run)
        self.sent: dict[str, DocumentValue] = {}
        self.tools: dict[str, str] = {}
        self.asked: dict[str, tuple[int, int]] = {}  # by call, its line and the number of its message
        self.provider: str | None = None
        self.reads = sent_texts.OutdatedReads()

    def read_message(self, node: DocumentValue) -> None:
        members = node.members()
        self.begin(text_member(members, "id") or f"message-{len(self.keys)}")
        role, at = text_member(members, "role"), time_member(members, "ts", may_count=True)
        if role == "assistant":
            self._read_answer(members, at)
        elif role == "user":
            self._read_user(members, at)
        else:
            self.records.append(node.problem(f"{node.path}.role", "no message: it has no role of a user or a model"))

    def _read_answer(self, members: Members, at: str | None) -> None:
        self._supersede_reads(at)
        about = object_member(members, "modelInfo")
        self.provider = text_member(about, "provider")
        self.model(text_member(about, "id"), members["role"].line)
        if metrics := members.get("metrics"):
            counts = object_member(members, "metrics")
            read, written = integer_member(counts, "cacheReadTokens"), integer_member(counts, "cacheWriteTokens")
            new = integer_member(counts, "inputTokens") - read - written  # it has these too
            self.add_usage(metrics, new, read, written, integer_member(counts, "outputTokens"), at)
        texts = []
        for block in self.read_blocks(members):
            parts = block.members()
            kind = text_member(parts, "type")
            if kind == "tool_use":
                self._add_call(block, parts, at)
            elif kind == "text":
                texts.append(block)
            else:
                text = text_member(parts, "thinking") or kind or "a part of an answer"
                self.add_event(block, "reasoning" if kind == "thinking" else kind or "block", text, at)
        self._add_texts(texts, "assistant", at, step=self.key)

    def _add_call(self, block: DocumentValue, parts: Members, at: str | None) -> None:
        call, tool = text_member(parts, "id"), text_member(parts, "name")
        if not call or not tool:
            self.records.append(block.problem(block.path, "a call without an id or a name"))
            return
        args = parts.get("input")
        self.tools[call], self.asked[call] = tool, (block.line, self.number)
        self.add_call(call, block, tool, args.raw if args else b"{}", step=self.key, at=at)

    def _read_user(self, members: Members, at: str | None) -> None:
        texts = []
        for block in self.read_blocks(members):
            parts = block.members()
            if text_member(parts, "type") == "tool_result":
                self._read_result(block, parts, at)
            else:
                texts.append(block)
        metadata = object_member(members, "metadata")
        is_summary = text_member(metadata, "kind") == "compaction_summary"
        self._add_texts(texts, "user", at, kind=COMPACTION_SUMMARY if is_summary else None)

    def _add_texts(
        self,
        blocks: list[DocumentValue],
        role: str,
        at: str | None,
        *,
        step: str | None = None,
        kind: str | None = None,
    ) -> None:
        raw = []
        for block in blocks:
            text = text_member(block.members(), "text")
            if role == "user" and text is not None and (sent := sent_texts.unwrap_input(text)) != text:
                self.title(sent, block.line)
                raw.append(dump_json({"type": "text", "text": sent}))
                continue
            if role == "user" and kind is None:
                self.title(text or "", block.line)
            raw.append(block.raw)
        if raw:
            self.add_text(blocks[0].line, join_array(raw), role, at, step=step, kind=kind)

    def _read_result(self, block: DocumentValue, parts: Members, at: str | None) -> None:
        call, content = text_member(parts, "tool_use_id"), parts.get("content")
        if not call or content is None:
            self.records.append(block.problem(block.path, "a result without a call or a content"))
            return
        is_error = bool(flag_member(parts, "is_error")) if "is_error" in parts else False
        decoded = DocumentValue(block.document, decode_arguments(content.raw), content.start, content.path)
        if decoded.is_text:
            self.add_result(call, decoded, fidelity="stringified", is_error=is_error, at=at)
        else:
            self.add_result(call, decoded, is_error=is_error, at=at)
        self.sent[call] = content
        self._add_receipt(call, content, at)
        if self.tools.get(call) in sent_texts.READS and not is_error:
            self.reads.add(call, content)

    def _add_receipt(self, call: str, content: DocumentValue, at: str | None) -> None:
        """The text that is sent of a result with an image depends on the provider."""
        images = list(sent_texts.find_images(content))
        for node in images:
            words = text_member(node.members(), "mediaType") or "an image"
            self.add_event(node, "attachment", f"{words} was read for the model", at, call)
        if images and self.provider != APART:
            return
        text = sent_texts.sent_text(content)
        if content.is_text and text == content.value():
            self.add_receipt(call, content, at=at)
        else:
            self.add_text_receipt(call, text, content.line, at)

    def _supersede_reads(self, at: str | None) -> None:
        for call, text in self.reads.replace():
            self.records.append(self._supersede(call, "the file was read again", text, at))

    def _supersede(self, call: str, words: str, text: str, at: str | None) -> SupersedeRecord:
        return SupersedeRecord(
            line=self.sent[call].line,
            run=self.run,
            call=call,
            reason=f"{LATER_TEXT}: {words}",
            content=dump_json(text),
            at=at,
        )

    def interrupt(self) -> Iterator[Placed]:
        """The ends of calls that have no result though the session went on."""
        for call, (line, number) in self.asked.items():
            if call not in self.sent and number < self.number:
                end = ResultRecord(
                    line=line, run=self.run, call=call, result=None, is_error=True, stated_kind="cancelled"
                )
                yield end, behind(number)

    def keep_reads(self, compaction: _Compaction) -> None:
        """Forgets the reads that a compaction left out: none of them is replaced any more."""
        self.reads = sent_texts.OutdatedReads()
        for node in compaction.messages:
            for block in list_member(node.members(), "content"):
                call = text_member(block.members(), "tool_use_id")
                if call in self.sent and self.tools.get(call) in sent_texts.READS:
                    self.reads.add(call, self.sent[call])

    def compact(self, compaction: _Compaction) -> Iterator[Placed]:
        """The event of a compaction, the ends of receipts that it changed, and the messages that it wrote."""
        numbers = {key: number for number, key in enumerate(self.keys[: compaction.count])}
        place = behind(compaction.count - 1)
        kept = []
        for node in compaction.messages:
            members = node.members()
            number = numbers.get(text_member(members, "id") or "")
            if number is None:
                yield from ((record, place + 1) for record in self._added_message(members, compaction))
                continue
            kept.append(number)
            for block in list_member(members, "content"):
                parts = block.members()
                call, content = text_member(parts, "tool_use_id"), parts.get("content")
                if call in self.sent and content and content.value() != self.sent[call].value():
                    words = "the conversation was compacted"
                    yield self._supersede(call, words, sent_texts.sent_text(content), compaction.at), place + 1
        words = "the conversation was compacted, but for its last messages"
        yield self.compaction(self.places(), kept, words, compaction.at), place

    def _added_message(self, members: Members, compaction: _Compaction) -> Iterator[MessageRecord]:
        blocks = list_member(members, "content")
        if blocks and text_member(members, "role") == "user":
            yield MessageRecord(
                line=1,
                run=self.run,
                key=f"compaction-{compaction.count}",
                role="user",
                content=join_array([block.raw for block in blocks]),
                at=compaction.at,
                kind=COMPACTION_SUMMARY,
            )


def read_session(root: DocumentValue, path: SourcePath) -> Iterator[Record | LineProblem]:
    """Yields the records of a session's messages."""
    members = root.members()
    run = text_member(members, "sessionId") or path.stem.removesuffix(".messages")
    reader = SessionReader(root, run)
    origin = object_member(members, "origin")
    parent = text_member(origin, "parentThreadId")
    nodes = list_member(members, "messages")
    reader.records[0] = RunRecord(
        line=root.line,
        run=run,
        parent_run=parent,
        parent_call=_find_spawning_call(path, parent, nodes) if parent else None,
        agent=AGENT,
        version=text_member(origin, "version"),
    )
    if (prompt := members.get("system_prompt")) and prompt.is_text:
        content = prompt.raw
        reader.records.append(
            MessageRecord(
                line=prompt.line, run=run, key=SYSTEM_PROMPT, role="system", content=content, kind=SYSTEM_PROMPT
            )
        )
    found, compaction = _find_compaction(path), None
    for node in nodes:
        try:
            reader.read_message(node)
        except Untrusted as refusal:
            reader.records.append(node.problem(refusal.path, refusal.reason))
        if found and found.count == len(reader.keys) and found.last == f"id:{reader.key}":
            compaction = found
            reader.keep_reads(found)
    yield from reader.place([*reader.interrupt(), *(reader.compact(compaction) if compaction else ())])


def read_about(root: DocumentValue) -> Iterator[RunRecord]:
    """Yields the facts that the client keeps about a session beside its messages."""
    members = root.members()
    title = text_member(object_member(members, "metadata"), "title") or text_member(members, "prompt")
    yield RunRecord(
        line=root.line,
        run=text_member(members, "session_id") or "",
        parent_run=text_member(members, "parent_session_id"),
        title=summarize(title or "") or None,
        agent=AGENT,
        model=text_member(members, "model"),
        cwd=text_member(members, "cwd"),
        started_at=time_member(members, "started_at"),
        ended_at=time_member(members, "ended_at"),
    )


def read_compaction(root: DocumentValue) -> Iterator[RunRecord]:
    """Nothing but the run: the messages are read with this document beside them."""
    yield RunRecord(line=root.line, run=text_member(root.members(), "conversation_id") or "", agent=AGENT)


def _find_compaction(path: SourcePath) -> _Compaction | None:
    """The last compaction of a session, by the document beside its messages."""
    root = read_beside(path, path.path.rsplit("/", 1)[-1].removesuffix(MESSAGES) + COMPACTION)
    with suppress(Untrusted):
        members = root.members() if root else {}
        count, last = integer_member(members, "source_message_count"), text_member(members, "source_last_message_key")
        if count and last:
            at = time_member(members, "updated_at")
            return _Compaction(count, last, at, list_member(members, "messages"))
    return None


def _find_spawning_call(path: SourcePath, parent: str, messages: list[DocumentValue]) -> str | None:
    """The one call of the parent that has the subagent's first message as its task."""
    root = read_beside(path, parent + MESSAGES)
    calls = []
    with suppress(Untrusted):
        first = list_member(messages[0].members(), "content") if messages else []
        task = text_member(first[0].members(), "text") if first else None
        for message in list_member(root.members(), "messages") if root and task else []:
            for block in list_member(message.members(), "content"):
                parts = block.members()
                name = parts.get("name")
                if name and name.text() in SPAWNING and text_member(object_member(parts, "input"), "task") == task:
                    calls.append(text_member(parts, "id"))
    return calls[0] if len(calls) == 1 else None

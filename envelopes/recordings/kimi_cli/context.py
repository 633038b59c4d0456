"""The context files of Kimi CLI: the messages as the model got them, and what left the context between two files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from envelopes.alignment.kimi_receipts import AGENT
from envelopes.alignment.mapping import ReceiptFidelity
from envelopes.recordings.base import (
    COMPACTION,
    COMPACTION_SUMMARY,
    META,
    PARTIAL_COMPACTION,
    REWIND,
    SYSTEM_PROMPT,
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    RunRecord,
    SourcePath,
    UsageRecord,
)
from envelopes.recordings.document_fields import integer_member, list_member, object_member, text_member
from envelopes.recordings.documents import DocumentValue, decode_arguments
from envelopes.recordings.json_lines import storable
from envelopes.recordings.kimi_cli.session_files import (
    WIRE,
    CopiedLines,
    CopyState,
    SessionFile,
    call_name,
    is_summary,
    place_calls,
    trace_contexts,
)
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, join_array

MAIL = "SendDMail"
Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
_KNOWN = 4_096  # calls
_NOTES = ("<system>", "<system-reminder>", "<notification ")  # how texts begin that the client wrote


class HeldReceipt(msgspec.Struct, frozen=True):
    """A receipt that was not sent before the next answer."""

    line: int
    call: str
    content: str
    fidelity: ReceiptFidelity


class KimiState(msgspec.Struct):
    """The state that the lines so far left.

    `names` are the names of calls by their run and id, `counts` by run how often each name came; `place` is that of the
    last call of a wire file, `children` the subagents that it named. `copies` are those of a context file. `summary` is
    the line of a compaction that keeps the lines at the places `kept`, while these are read. `tokens` are those that
    the context had last, `asked` before the last answer. `has_mail`: the last step sends a D-Mail. `held` are its
    receipts: the context goes back before they are sent.
    """

    run: str = ""
    epoch: int = 0
    facts: bool = False
    title: bool = False
    place: int = 1
    copies: CopyState = msgspec.field(default_factory=CopyState)
    summary: int = 0
    kept: list[int] = []
    tokens: int = 0
    asked: int = 0
    has_mail: bool = False
    held: list[HeldReceipt] = []
    counts: dict[str, dict[str, int]] = {}
    names: dict[str, str] = {}
    children: dict[str, str] = {}

    def forget_oldest(self) -> None:
        tables: tuple[dict[str, Any], ...] = (self.names, self.children, *self.counts.values())
        for table in tables:
            while len(table) > _KNOWN:
                del table[next(iter(table))]

    def name_call(self, run: str, call: str, tool: str, arguments: str) -> str:
        name = self.names[f"{run} {call}"] = call_name(call, tool, arguments, self.counts.setdefault(run, {}))
        return name

    def find_call(self, run: str, call: str) -> str:
        """The name of the last call with this id."""
        return self.names.get(f"{run} {call}", call)


class ContextReader:
    """Reads the lines of a context file, each once, in order."""

    def __init__(self, path: SourcePath, file: SessionFile, state: KimiState) -> None:
        self._file, self._state = file, state
        traced = trace_contexts(path, file, file.epoch)
        self._copies = CopiedLines(traced[-1] if traced else [], state.copies)
        if not state.facts:
            state.counts[file.run] = place_calls(path, file, file.epoch)[1]
        wire = path.folder.read(f"{WIRE}.jsonl") if path.folder and f"{WIRE}.jsonl" in path.folder.names() else b""
        self._counts_tokens = bool(wire) and b'"token_usage"' not in wire

    def read(self, node: DocumentValue) -> Records:
        state, members = self._state, node.members()
        role = text_member(members, "role")
        if role is None:
            raise Untrusted("no message: it has no role", "$.role")
        if not state.facts:
            state.facts = True
            yield RunRecord(line=node.line, run=self._file.run, parent_run=self._file.parent, agent=AGENT)
        was_beginning = state.copies.is_beginning
        place = self._copies.find(node.raw.strip())
        if place is not None:
            if state.summary:
                state.kept.append(place)
            self._note_calls(members)
            return
        yield from self._end_compaction()
        if was_beginning or not self._copies.previous:
            yield from self._begin(node)
        if role == "_usage":
            yield from self._usage(node, members)
        elif role == "_system_prompt":
            yield from self._write(node, members.get("content"), "system", kind=SYSTEM_PROMPT)
        elif role == "tool":
            yield from self._receipt(node, members)
        elif not role.startswith("_"):
            yield from self._message(node, members, role)

    def _note_calls(self, members: Members) -> None:
        """The calls of a copied line, so that an answer behind the copies finds its own."""
        for number, call in enumerate(list_member(members, "tool_calls")):
            _, key, tool, arguments = _read_call(call, number)
            self._state.names[f"{self._file.run} {key}"] = call_name(key, tool, arguments, {})

    def _begin(self, node: DocumentValue) -> Records:
        """The first line that is no copy: what the copies lack has left. Without an earlier file that is everything."""
        state, previous, place = self._state, self._copies.previous, self._file.place(node.line)
        if is_summary(node.raw) and previous:
            state.summary, state.kept = node.line, [place]
            return
        if is_summary(node.raw):
            yield self._event(node.line, COMPACTION, "the conversation was compacted", position=place - 1)
        stayed = {line.place for line in previous[: state.copies.count]}
        text = "the context went back to an earlier checkpoint, or was cleared"
        for first, end in _ranges(line.place for line in previous if line.place not in stayed):
            payload = msgspec.json.encode({"left": [first, end], "returned": None})
            yield self._event(node.line, REWIND, text, payload=payload)

    def _end_compaction(self) -> Records:
        state = self._state
        if state.summary and not state.copies.follows_summary:
            text = "the conversation was compacted" + (", but for what stayed" if state.kept[1:] else "")
            payload = msgspec.json.encode({"kept": state.kept})
            yield self._event(state.summary, PARTIAL_COMPACTION, text, payload=payload)
            state.summary, state.kept = 0, []

    def _event(
        self, line: int, kind: str, text: str, *, position: int | None = None, payload: bytes = b"null"
    ) -> EventRecord:
        position = self._file.place(line) if position is None else position
        return EventRecord(
            line=line, position=position, run=self._file.run, kind=kind, message=storable(text), payload=payload
        )

    def _usage(self, node: DocumentValue, members: Members) -> Records:
        """The tokens before an answer and behind it, of releases whose wire file has none."""
        tokens, before = integer_member(members, "token_count"), self._state.asked
        self._state.tokens, self._state.asked = tokens, 0
        if self._counts_tokens and 0 < before <= tokens:
            place = self._file.place(node.line)
            yield UsageRecord(
                line=node.line,
                position=place,
                run=self._file.run,
                request=str(place),
                input_tokens=before,
                cache_read_tokens=0,
                cache_creation_tokens=0,
                output_tokens=tokens - before,
                usage=node.raw.strip(),
            )

    def _message(self, node: DocumentValue, members: Members, role: str) -> Records:
        if role == "assistant":
            yield from self._release()
            self._state.asked = self._state.tokens
        content = members.get("content")
        blocks = content.elements() if content and content.is_list else []
        thoughts = [block for block in blocks if text_member(block.members(), "type") == "think"]
        texts = [block for block in blocks if block not in thoughts]
        if thoughts:
            thought = thoughts[0]
            text = summarize(text_member(thought.members(), "think") or "") or "reasoning"
            yield self._event(node.line, "reasoning", text, payload=thought.raw)
            content = DocumentValue(node.document, join_array([block.raw for block in texts]), node.start)
        kind = self._kind(node, content) if role == "user" else None
        is_first = role == "user" and kind is None and not self._state.title and not self._copies.previous
        if is_first and (title := summarize(_text(content).strip())):
            self._state.title = True
            yield RunRecord(line=node.line, run=self._file.run, title=title)
        yield from self._write(node, content, role, kind=kind)
        for number, call in enumerate(list_member(members, "tool_calls")):
            args, key, tool, arguments = _read_call(call, number)
            self._state.has_mail |= tool == MAIL
            yield CallRecord(
                line=node.line,
                position=self._file.place(node.line),
                run=self._file.run,
                call=self._state.name_call(self._file.run, key, tool, arguments),
                tool=tool,
                args=args,
                step=str(self._file.place(node.line)),
            )

    def _kind(self, node: DocumentValue, content: DocumentValue | None) -> str | None:
        if is_summary(node.raw):
            return COMPACTION_SUMMARY
        return META if _text(content).startswith(_NOTES) else None

    def _write(self, node: DocumentValue, content: DocumentValue | None, role: str, *, kind: str | None) -> Records:
        """A message with a text or with blocks; nothing for an empty one."""
        if content is None or content.raw in (b'""', b"[]") or not (content.is_text or content.is_list):
            return
        place = self._file.place(node.line)
        yield MessageRecord(
            line=node.line,
            position=place,
            run=self._file.run,
            key=str(place),
            role=storable(role),
            content=content.raw,
            step=str(place),
            kind=kind,
        )

    def _release(self) -> Records:
        """An answer follows the receipts of a D-Mail that was not sent."""
        held, self._state.held, self._state.has_mail = self._state.held, [], False
        yield from map(self._record, held)

    def _record(self, held: HeldReceipt) -> ReceiptRecord:
        return ReceiptRecord(
            line=held.line,
            position=self._file.place(held.line),
            run=self._file.run,
            call=held.call,
            content=held.content.encode("utf-8", "surrogateescape"),
            fidelity=held.fidelity,
        )

    def _receipt(self, node: DocumentValue, members: Members) -> Records:
        call, content = text_member(members, "tool_call_id"), members.get("content")
        if not call:
            raise Untrusted("no answer of a tool: it has no tool_call_id", "$.tool_call_id")
        blocks = content.elements() if content and content.is_list else []
        texts = [block.members().get("text") for block in blocks]
        only = texts[0] if len(texts) == 1 else None
        is_text = content is not None and (content.is_text or (bool(texts) and all(text is not None for text in texts)))
        raw = only.raw if only and only.is_text else content.raw if content else b'""'
        receipt = HeldReceipt(
            node.line,
            self._state.find_call(self._file.run, call),
            raw.decode("utf-8", "surrogateescape"),
            "recorded" if is_text else "reconstructed",
        )
        if self._state.has_mail:
            self._state.held.append(receipt)
        else:
            yield self._record(receipt)


def _read_call(call: DocumentValue, number: int) -> tuple[bytes, str, str, str]:
    """The arguments as JSON, the id, the tool, and the arguments as they are written."""
    members = call.members()
    function = object_member(members, "function")
    key, tool = text_member(members, "id"), text_member(function, "name")
    if not key or not tool:
        raise Untrusted("a call without an id or a name", f"$.tool_calls[{number}]")
    arguments = function.get("arguments")
    args = decode_arguments(arguments.raw) if arguments and arguments.is_text else b"{}"
    return args, key, tool, (arguments.text() if arguments else None) or ""


def _text(content: DocumentValue | None) -> str:
    if content is None or content.is_text:
        return (content.text() or "") if content else ""
    return "".join(text_member(block.members(), "text") or "" for block in content.elements())


def _ranges(places: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The places as ranges of a first one and the one behind the last. Between two lines of a file there is none."""
    ordered = sorted(set(places))
    first = last = ordered[0] if ordered else 0
    for place in ordered[1:]:
        if place > last + 1:
            yield first, last + 1
            first = place
        last = place
    if ordered:
        yield first, last + 1

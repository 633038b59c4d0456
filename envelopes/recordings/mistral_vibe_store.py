"""Sessions of Mistral Vibe from release 2.26 on: a store of chunks, of which the context of the session is composed.

    unified/<session>/CURRENT                           {generation, …}
    unified/<session>/generations/<n>/manifest.json     {checkpoint: {chunks: [hash, …], path}, …}
    unified/<session>/generations/<n>/checkpoint.json   {compaction_count, context: {messages: […]}, …}
    unified/<session>/chunks/<hash>.json                [{message: {role, content: […]}, source, turn_index}, …]

1. The messages of the chunks, and those of the checkpoint behind them, are the context as it is sent. A document of it
   has a line for each of them, behind one with the facts of the session. It is composed again after each turn.
2. A `tool_call` in the content of an assistant is a call. A message of the role tool is its receipt: the JSON of the
   result, or of an error. Nothing else is read of a result. No message has a time.
3. What a compaction took out is in no chunk of the context any more. A call that was imported before stays.
4. A message has no id: it is found again by its bytes, and by how many equal ones are before it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from envelopes.alignment.mapping import ReceiptFidelity
from envelopes.alignment.vibe_receipts import AGENT, LARGE, find_failure
from envelopes.recordings.base import (
    COMPACTION_SUMMARY,
    META,
    PARTIAL_COMPACTION,
    REWIND,
    ArtifactRecord,
    CallRecord,
    Container,
    EventRecord,
    Format,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    StoredDocument,
    UnreadableContainer,
)
from envelopes.recordings.document_fields import integer_member, list_member, object_member, text_member, time_member
from envelopes.recordings.documents import DocumentValue, JsonDocument, unused_id
from envelopes.recordings.json_lines import ForeignEntry, parsed_lines, read_json_lines, struct_reader
from envelopes.recordings.places import DocumentPlaces, name_position
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, array_slices, join_array, join_object, object_slices, parse_json

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
NAME = "mistral-vibe-store"
DOCUMENT = "context.jsonl"
STORE = "mistral.vibe.unified-session-store/v1"
SUMMARY = "<compaction_summary>"
_SAVED = re.compile(re.escape(LARGE) + r"[^\n]*? saved to the file system under (?P<path>[^\n]+)\.\n")
_FACTS = ("session_id", "title", "start_time", "environment", "config")  # of a session, as far as they are read


class VibeStoreLine(ForeignEntry, frozen=True, gc=False):
    store_format: str | None = None
    session: msgspec.Raw = msgspec.Raw()


_read_line = struct_reader(VibeStoreLine)


def _is_store(path: Path) -> bool:
    try:
        return (path / "CURRENT").is_file() and (path / "generations").is_dir() and (path / "chunks").is_dir()
    except OSError:
        return False


def _list_documents(path: Path) -> Iterator[StoredDocument]:
    yield StoredDocument(DOCUMENT, hashlib.sha256((path / "CURRENT").read_bytes()).hexdigest()[:16])


def _compose(path: Path, name: str) -> Iterator[bytes]:
    """The facts of the session, then each message of its context. Raises OSError."""
    if name != DOCUMENT:
        raise FileNotFoundError(2, "the store has one document")
    try:
        current = object_slices((path / "CURRENT").read_bytes())
        generation = path / "generations" / Path(str(parse_json(current["generation"]))).name
        manifest = object_slices((generation / "manifest.json").read_bytes())
        checkpoint = object_slices((generation / "checkpoint.json").read_bytes())
        hashes = parse_json(object_slices(manifest["checkpoint"])["chunks"])
        rest = array_slices(object_slices(checkpoint["context"])["messages"])
        meta = object_slices((path / "meta.json").read_bytes())
        session = join_object({name: meta[name] for name in _FACTS if name in meta})
        count = checkpoint.get("compaction_count", b"0")
        facts = {"store_format": current["store_format"], "session": session, "compaction_count": count}
        yield _on_one_line(join_object(facts))
        for key in hashes if isinstance(hashes, list) else ():
            for message in array_slices((path / "chunks" / Path(f"{key}.json").name).read_bytes()):
                yield _on_one_line(message)
        yield from map(_on_one_line, rest)
    except (Untrusted, KeyError) as refusal:
        raise UnreadableContainer(f"the store of the session is damaged: {refusal}") from refusal


def _on_one_line(message: bytes) -> bytes:
    return msgspec.json.format(message, indent=-1) + b"\n"


class _Reader:
    """Collects the records of the messages of a context."""

    def __init__(self, run: str, places: DocumentPlaces, *, has_title: bool) -> None:
        self.run = run
        self.places = places
        self.has_title = has_title
        self.names: dict[str, str] = {}
        self.used: list[str] = []

    def read(self, node: DocumentValue, key: str) -> Records:
        """The records of a message, each part at a place of its own."""
        members = node.members()
        message, source = object_member(members, "message"), text_member(members, "source")
        role, content = text_member(message, "role"), list_member(message, "content")
        if role is None:
            raise Untrusted("no message: it has no role", "$.message.role")
        texts = [block for block in content if text_member(block.members(), "type") != "tool_call"]
        calls = [block for block in content if text_member(block.members(), "type") == "tool_call"]
        raw = _plain(texts)
        if role == "tool":
            yield from self._receipt(node, message, raw, key)
            return
        if texts and raw != b'""':
            is_added = role == "user" and source != "history"
            if role == "user" and not is_added and not self.has_title and (title := summarize(_text(raw).strip())):
                self.has_title = True
                yield RunRecord(line=node.line, run=self.run, title=title)
            kind = (COMPACTION_SUMMARY if SUMMARY.encode() in raw else META) if is_added else None
            yield MessageRecord(
                line=node.line,
                position=self.places.find(key, 0),
                run=self.run,
                key=key,
                role=role,
                content=raw,
                step=key if role == "assistant" else None,
                kind=kind,
            )
        for number, call in enumerate(calls, start=1):
            yield self._call(call, key, self.places.find(key, number))

    def _call(self, block: DocumentValue, step: str, place: int) -> CallRecord:
        members = block.members()
        call, tool = text_member(members, "id"), text_member(members, "name")
        if not call or not tool:
            raise Untrusted("a call without an id or a tool", block.path)
        arguments = object_member(members, "arguments")
        args = arguments.get("value", arguments.get("raw"))
        name = self.names[call] = unused_id(call, f"{call}-{step[:8]}", self.used)
        self.used.append(name)
        raw = args.raw if args else b"{}"
        return CallRecord(line=block.line, position=place, run=self.run, call=name, tool=tool, args=raw, step=step)

    def _receipt(self, node: DocumentValue, message: Members, content: bytes, key: str) -> Records:
        call = text_member(message, "tool_call_id")
        if not call:
            raise Untrusted("an answer without the id of its call", "$.message.tool_call_id")
        name, place = self.names.get(call, call), self.places.find(key, 0)
        if text_member(message, "outcome") not in (None, "success") or find_failure(_text(content)) is not None:
            yield ResultRecord(line=node.line, position=place, run=self.run, call=name, result=None, is_error=True)
        if saved := _SAVED.match(_text(content)):
            path = saved["path"]
            yield ArtifactRecord(line=node.line, run=self.run, call=name, role="output", path=path)
        # Several texts are joined when they are sent, and that is not recorded.
        fidelity: ReceiptFidelity = "reconstructed" if content.startswith(b"[") else "recorded"
        yield ReceiptRecord(line=node.line, position=place, run=self.run, call=name, content=content, fidelity=fidelity)


def _plain(texts: list[DocumentValue]) -> bytes:
    """One text as that text, otherwise the blocks."""
    text = texts[0].members().get("text") if len(texts) == 1 else None
    return text.raw if text is not None and text.is_text else join_array([block.raw for block in texts])


def _text(content: bytes) -> str:
    value = parse_json(content)
    return value if isinstance(value, str) else ""


def sniff(head: bytes, path: SourcePath) -> bool:
    first = next(parsed_lines(head, _read_line), None)
    return first is not None and first.store_format == STORE and bytes(first.session).startswith(b"{")


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    nodes: list[DocumentValue] = []
    for line in read_json_lines(lines, {}):
        if isinstance(line, LineProblem):
            yield line
        else:
            nodes.append(DocumentValue(JsonDocument([line]), line.raw, 0))
    if not nodes:
        return
    head, *messages = nodes
    try:
        members = head.members()
    except Untrusted as refusal:
        yield head.problem(refusal.path, refusal.reason)
        return
    facts, places = object_member(members, "session"), DocumentPlaces(saved)
    run = text_member(facts, "session_id") or path.stem
    described = _read_facts(head, facts, run)
    yield described
    keys = _name_messages(messages)
    sizes = {key: _count_places(node) for key, node in zip(keys, messages, strict=True)}
    yield from _removal_events(head, integer_member(members, "compaction_count"), run, places, sizes, saved)
    reader = _Reader(run, places, has_title=described.title is not None)
    for key, node in zip(keys, messages, strict=True):
        places.take(key, sizes[key])
        try:
            yield from list(reader.read(node, key))
            yield from node.document.take_remarks(run)
        except Untrusted as refusal:
            yield node.problem(refusal.path, refusal.reason)


def _read_facts(node: DocumentValue, facts: Members, run: str) -> RunRecord:
    return RunRecord(
        line=node.line,
        run=run,
        agent=AGENT,
        title=summarize(text_member(facts, "title") or "") or None,
        cwd=text_member(object_member(facts, "environment"), "working_directory"),
        model=text_member(object_member(facts, "config"), "model_name", "active_model"),
        started_at=time_member(facts, "start_time"),
    )


def _name_messages(nodes: Iterable[DocumentValue]) -> list[str]:
    counts: Counter[str] = Counter()
    names = []
    for node in nodes:
        digest = hashlib.sha256(node.raw.strip()).hexdigest()[:32]
        counts[digest] += 1
        names.append(f"{digest}-{counts[digest]}")
    return names


def _count_places(node: DocumentValue) -> int:
    """One for the text, and one for each call."""
    return 1 + node.raw.count(b'"tool_call"')


def _removal_events(
    head: DocumentValue, count: int, run: str, places: DocumentPlaces, sizes: dict[str, int], saved: dict[str, Any]
) -> Records:
    """Yields what removed the messages that an earlier version of the document had.

    It is a compaction where the document counts one more, else a rewind.
    """
    is_compacted = count > int(saved.get("compactions", 0))
    saved["compactions"] = count
    spans = places.remove_missing(sizes)
    if not spans:
        return
    if is_compacted:
        kept = [places.find(key, slot) for key, size in places.sizes.items() for slot in range(size)]
        payloads = [msgspec.json.encode({"kept": sorted(kept)})]
    else:
        payloads = [msgspec.json.encode({"left": span, "returned": None}) for span in spans]
    for payload in payloads:
        yield EventRecord(
            line=head.line,
            position=places.next,
            run=run,
            kind=PARTIAL_COMPACTION if is_compacted else REWIND,
            message="the conversation was compacted" if is_compacted else "messages were taken back",
            payload=payload,
        )
    places.skip()


CONTAINERS = (
    Container(title="Mistral Vibe session", matches=_is_store, list_documents=_list_documents, compose=_compose),
)
FORMATS: tuple[Format, ...] = (
    Format(
        name=NAME,
        title="Mistral Vibe context",
        agent=AGENT,
        namespace=AGENT,
        mark="a first line with the form of the store and the facts of a session",
        is_document=True,
        sniff=sniff,
        read=read,
        is_global_call_id=lambda _call: False,
        name_place=name_position,
    ),
)

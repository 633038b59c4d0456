"""Recordings that are one JSON document, not lines of it: its values with the line on which each begins.

A value on one line is a slice of that line, so a string always is; an object over several lines carries its own bytes,
with the line breaks between its tokens removed.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import chain, pairwise

import msgspec

from envelopes.alignment.mapping import ReceiptFidelity, ResultFidelity
from envelopes.recordings.base import (
    SYSTEM_PROMPT,
    TOOL_DEFINITIONS,
    CallRecord,
    Delivery,
    LineProblem,
    LineRecord,
    MessageRecord,
    ReceiptRecord,
    Record,
    RemarkKind,
    RemarkRecord,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
)
from envelopes.recordings.json_lines import (
    BYTE_ORDER_MARK,
    is_blank,
    remark,
    storable,
)
from envelopes.schema.result import JsonValue, summarize
from envelopes.storage.seekable import load_zstd
from envelopes.text.untrusted_json import Untrusted, array_slices, check_json, dump_json, object_slices, parse_json

_STANDING = {"system": SYSTEM_PROMPT, "instructions": SYSTEM_PROMPT, "tools": TOOL_DEFINITIONS}  # of APIs
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:]')
_KEYS_READ = 64
PIECE_BYTES = 1024 * 1024
ZSTD = b"\x28\xb5\x2f\xfd"
BEGINNING = 3  # messages: those of the system and of the user, and the first of the model


class JsonDocument:
    """The bytes of a document, and where its lines begin."""

    def __init__(self, lines: Iterable[SourceLine]) -> None:
        self.lines = list(lines)
        self.raw = b"".join(line.raw for line in self.lines)
        self._first = self.lines[0].offset if self.lines else 0
        self._refused: dict[tuple[int, str], tuple[DocumentValue, RemarkKind]] = {}
        self._offsets = [line.offset - self._first for line in self.lines]

    def line_at(self, offset: int) -> int:
        return self.lines[max(0, bisect_right(self._offsets, offset) - 1)].number

    def parse(self) -> DocumentValue | LineProblem | None:
        """The whole document; None for a blank file, a problem for one that cannot be read."""
        if is_blank(self.raw):
            return None
        start = len(BYTE_ORDER_MARK) if self.raw.startswith(BYTE_ORDER_MARK) else 0
        content = self.raw[start:]
        start += len(content) - len(content.lstrip())
        try:
            if self._first:
                raise Untrusted("text behind the end of a JSON document, which was read before")
            check_json(content)
            if content.lstrip().startswith(b"["):
                array_slices(content)
            else:
                object_slices(content)
        except Untrusted as refusal:
            return self.refuse(refusal)
        return DocumentValue(self, content.strip(), start)

    def note(self, value: DocumentValue, became: str, kind: RemarkKind) -> None:
        """Notes a value that was not read as it is written; once, however often it is asked for."""
        self._refused.setdefault((value.start, became), (value, kind))

    def take_remarks(self, run: str) -> list[RemarkRecord]:
        """The remarks on the values that were noted since the last time."""
        noted, self._refused = self._refused, {}
        return [
            remark(kind, value.path, value.raw, became, line=value.line, run=run)
            for (_, became), (value, kind) in noted.items()
        ]

    def refuse(self, refusal: Untrusted) -> LineProblem:
        """The problem of a file of which nothing was read."""
        return LineProblem(
            line=self.lines[0].number,
            path=refusal.path,
            reason=f"one JSON document: {refusal.reason}",
            raw=self.lines[0].raw,
            lines=max(1, sum(not is_blank(line.raw) for line in self.lines)),
        )


class DocumentValue:
    """A value of a document: its own bytes, the byte at which it begins, and its JSON path."""

    def __init__(self, document: JsonDocument, raw: bytes, start: int, path: str = "$") -> None:
        self.document = document
        self.raw = raw
        self.start = start
        self.path = path

    @property
    def line(self) -> int:
        return self.document.line_at(self.start)

    @property
    def is_object(self) -> bool:
        return self.raw.startswith(b"{")

    @property
    def is_list(self) -> bool:
        return self.raw.startswith(b"[")

    @property
    def is_text(self) -> bool:
        return self.raw.startswith(b'"')

    def members(self) -> dict[str, DocumentValue]:
        """The members of an object that are not null; nothing for another value. Raises Untrusted."""
        if not self.is_object:
            return {}
        slices = object_slices(self.raw)
        nodes = self._locate(slices.values(), [f"{self.path}.{name}" for name in slices])
        return {name: node for name, node in zip(slices, nodes, strict=True) if node.raw != b"null"}

    def elements(self) -> list[DocumentValue]:
        """The elements of a list; nothing for another value. Raises Untrusted."""
        slices = array_slices(self.raw) if self.is_list else []
        return self._locate(slices, [f"{self.path}[{index}]" for index in range(len(slices))])

    def text(self) -> str | None:
        """A string, as a text column can store it; None for another value."""
        value = parse_json(self.raw) if self.is_text else None
        return storable(value) if isinstance(value, str) else None

    def value(self) -> JsonValue:
        return parse_json(self.raw)

    def note(self, became: str, kind: RemarkKind = "value") -> None:
        """Notes that this value is not read as it is written, for a remark."""
        self.document.note(self, became, kind)

    def problem(self, path: str, reason: str) -> LineProblem:
        """The problem of a part of the document; the rest of it is read."""
        return LineProblem(line=self.line, path=path, reason=reason, raw=self.raw, part=True)

    def _locate(self, slices: Iterable[bytes], paths: Iterable[str]) -> list[DocumentValue]:
        """The slices stand in their order, so each is searched for behind the one before it."""
        nodes, at = [], 1
        for raw, path in zip(slices, paths, strict=True):
            found = self.raw.find(raw, at)
            position = found if found >= 0 else max(0, self.raw.find(raw))
            nodes.append(DocumentValue(self.document, raw, self.start + position, path))
            at = position + len(raw)
        return nodes


class Outline(msgspec.Struct, frozen=True):
    """The beginning of a document: its first bracket, its keys, and those of the first object in its list."""

    bracket: str
    keys: frozenset[str]
    element_keys: frozenset[str] = frozenset()


@lru_cache(maxsize=4)
def outline(head: bytes) -> Outline:
    """Outlines the beginning of a file, as far as it goes; without a bracket when it is no JSON document."""
    content = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    bracket = content[:1].decode("latin-1") if content[:1] in (b"{", b"[") else ""
    keys: tuple[list[str], list[str]] = ([], [])
    depth = 0
    last = b""
    for token in _TOKEN.finditer(content) if bracket else ():
        mark = token.group()
        if mark in (b"{", b"["):
            depth += 1
        elif mark in (b"}", b"]"):
            depth -= 1
            if depth == 0 or (depth == 1 and bracket == "["):
                break
        elif mark == b":" and depth in (1, 2):
            keys[depth - 1].append(last[1:-1].decode("utf-8", "replace"))
            if len(keys[0]) + len(keys[1]) > _KEYS_READ and bracket == "[":
                break
        last = mark
    if bracket == "[":
        return Outline(bracket, frozenset(), frozenset(keys[1]))
    return Outline(bracket, frozenset(keys[0]))


def place_records(records: Iterable[Record | LineProblem], *, by_lines: bool = True) -> list[Record | LineProblem]:
    """Gives the records their positions in the run where lines do not order them: a document may be one line.

    `by_lines` is False for a format whose lines have another order than the run; a record that has a position keeps it.
    The JSON of the records is put on one line, because exports have an object a line.
    """
    listed = [record if isinstance(record, LineProblem) else _on_one_line(record) for record in records]
    lines = [record.line for record in listed if isinstance(record, CallRecord | MessageRecord)]
    if by_lines and all(line < following for line, following in pairwise(lines)):
        return listed
    return [
        msgspec.structs.replace(record, position=number) if _has_no_position(record) else record
        for number, record in enumerate(listed, start=1)
    ]


def _has_no_position(record: Record | LineProblem) -> bool:
    return isinstance(record, LineRecord) and record.position is None


def _on_one_line(record: Record) -> Record:
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    joined = {name: join_lines(raw) for name, raw in fields.items() if isinstance(raw, bytes) and b"\n" in raw}
    return msgspec.structs.replace(record, **joined) if joined else record


def join_lines(raw: bytes) -> bytes:
    """JSON without its line breaks; unchanged where a line break is within a string, which JSON forbids."""
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    return b"".join(line.strip() for line in raw.split(b"\n"))


def compact_json(raw: bytes) -> bytes:
    """JSON without the whitespace between its tokens; unchanged where it cannot be read."""
    try:
        return bytes(msgspec.json.format(raw, indent=-1))
    except (msgspec.DecodeError, RecursionError):
        return raw


def name_run(path: SourcePath, messages: list[DocumentValue]) -> str:
    """Names a run without an id by its file and by how it began, because experiments have files of the same names."""
    beginning = hashlib.sha256(b"\n".join(message.raw for message in messages[:BEGINNING]))
    return f"{path.stem.removesuffix('.traj')}-{beginning.hexdigest()[:12]}"


def unpack_beginning(head: bytes) -> bytes:
    """The beginning of what is packed in the beginning of a file; empty where that is damaged."""
    pyzstd = load_zstd()
    try:
        return bytes(pyzstd.ZstdDecompressor().decompress(head, PIECE_BYTES))
    except pyzstd.ZstdError:
        return b""


def unpack_zstd(packed: bytes, limit: int) -> bytes:
    """Unpacks a piece at a time, so that what claims to be small never fills the memory.

    At most a piece more than `limit` bytes. Raises Untrusted for what is damaged or ends early.
    """
    pyzstd = load_zstd()
    decompressor = pyzstd.ZstdDecompressor()
    content = bytearray()
    try:
        while not decompressor.eof and len(content) <= limit:
            piece = decompressor.decompress(packed, PIECE_BYTES)
            packed = b""
            if not piece and decompressor.needs_input:
                raise Untrusted("it ends in the middle")
            content += piece
    except pyzstd.ZstdError as error:
        raise Untrusted(f"it cannot be unpacked ({error})") from None
    return bytes(content)


def decode_arguments(arguments: bytes) -> bytes:
    """The JSON object in a JSON string; the value itself where it is none."""
    if not arguments.startswith(b'"'):
        return arguments
    text = str(parse_json(arguments)).encode("utf-8", "surrogatepass").strip()
    try:
        object_slices(text)
        parse_json(text)
    except Untrusted:
        return arguments
    return text


def read_arguments(args: DocumentValue | None) -> bytes:
    """The arguments of a call, decoded where they are JSON in a string; `null` where none are recorded."""
    return decode_arguments(args.raw) if args else b"null"


def unused_id(wanted: str, numbered: str, used: Collection[str]) -> str:
    """Returns the wanted id, or the numbered one, or that with a further number: the first that is not used."""
    further = (f"{numbered}-{count}" for count in range(2, len(used) + 2))
    return next(name for name in chain((wanted, numbered), further) if name not in used)


class Conversation:
    """Collects the records of one run from its messages, in their order. `ids` are those of its calls so far."""

    def __init__(self, root: DocumentValue, run: str, agent: str, *, model: str | None = None) -> None:
        self.run = run
        self.ids: set[str] = set()
        self.has_title = False
        self.has_model = model is not None
        self.records: list[Record | LineProblem] = [RunRecord(line=root.line, run=run, agent=agent, model=model)]

    def title(self, text: str, line: int) -> None:
        """Takes the first text that is not blank."""
        if not self.has_title and (title := summarize(text.strip())):
            self.has_title = True
            self.records.append(RunRecord(line=line, run=self.run, title=title))

    def model(self, name: str | None, line: int) -> None:
        """Takes the model of the first response that names one."""
        if name and not self.has_model:
            self.has_model = True
            self.records.append(RunRecord(line=line, run=self.run, model=name))

    def add_message(
        self,
        key: str,
        content: DocumentValue,
        role: str,
        *,
        step: str | None = None,
        at: str | None = None,
        kind: str | None = None,
        delivery: Delivery = "sent",
    ) -> None:
        """Adds a message. One without content is left out: it only calls tools."""
        if content.raw not in (b'""', b"[]"):
            self.records.append(
                MessageRecord(
                    line=content.line,
                    run=self.run,
                    key=key,
                    role=storable(role),
                    content=content.raw,
                    step=step,
                    at=at,
                    kind=kind,
                    delivery=delivery,
                )
            )

    def add_standing(self, body: Mapping[str, DocumentValue]) -> None:
        """The system prompt and the definitions of tools of a request; nothing for what is no text or list."""
        for name, kind in _STANDING.items():
            raw = body[name].raw if name in body else b""
            if raw[:1] in (b'"', b"[") and len(raw) > len("[]"):
                line = body[name].line
                self.records.append(
                    MessageRecord(line=line, run=self.run, key=name, role="system", content=raw, kind=kind)
                )

    def add_call(
        self, call: str, node: DocumentValue, tool: str, args: bytes, *, step: str | None = None, at: str | None = None
    ) -> None:
        self.ids.add(call)
        self.records.append(CallRecord(line=node.line, run=self.run, call=call, tool=tool, args=args, step=step, at=at))

    def add_result(
        self,
        call: str,
        node: DocumentValue | None,
        *,
        fidelity: ResultFidelity = "structured",
        is_error: bool | None = None,
        status: str | None = None,
        at: str | None = None,
        duration_ms: int | None = None,
        line: int = 0,
        extra: bytes | None = None,
    ) -> None:
        """`node` None: only the flag was recorded, on this `line`. `extra` has what states the `status`."""
        self.records.append(
            ResultRecord(
                line=node.line if node else line,
                run=self.run,
                call=call,
                result=node.raw if node else None,
                fidelity=fidelity,
                is_error=is_error,
                status=status,
                at=at,
                duration_ms=duration_ms,
                extra=extra,
            )
        )

    def add_receipt(
        self, call: str, content: DocumentValue, *, fidelity: ReceiptFidelity = "recorded", at: str | None = None
    ) -> None:
        self.records.append(
            ReceiptRecord(line=content.line, run=self.run, call=call, content=content.raw, fidelity=fidelity, at=at)
        )

    def add_json_receipt(self, call: str, content: DocumentValue, at: str | None) -> None:
        """A value that the model got as JSON, in a spelling that was not recorded."""
        self.add_text_receipt(call, compact_json(content.raw).decode("utf-8", "surrogatepass"), content.line, at)

    def add_text_receipt(self, call: str, text: str, line: int, at: str | None) -> None:
        """A text that the model got, and that is made of what was recorded."""
        fidelity: ReceiptFidelity = "reconstructed"
        self.records.append(
            ReceiptRecord(line=line, run=self.run, call=call, content=dump_json(text), fidelity=fidelity, at=at)
        )

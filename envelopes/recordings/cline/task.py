"""Reads a task of releases before 3.0 and of the extension: its messages, with what the client kept beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec

from envelopes.alignment.cline_receipts import AGENT
from envelopes.alignment.mapping import ReceiptFidelity
from envelopes.recordings.base import (
    LATER_TEXT,
    META,
    LineProblem,
    ReceiptRecord,
    Record,
    RunRecord,
    SourcePath,
    SupersedeRecord,
    UsageRecord,
)
from envelopes.recordings.cline.placed_messages import PLACES, Placed, PlacedMessages, behind, read_beside
from envelopes.recordings.document_fields import integer_member, list_member, object_member, text_member, time_member
from envelopes.recordings.documents import DocumentValue
from envelopes.recordings.json_lines import epoch_time
from envelopes.schema.result import JsonValue
from envelopes.text.untrusted_json import Untrusted, dump_json, join_array, join_object

Members = dict[str, DocumentValue]
HISTORY, UI_MESSAGES = "api_conversation_history.json", "ui_messages.json"
EDITS, METADATA = "context_history.json", "task_metadata.json"
RESULT = "] Result:"
PERSON = re.compile(
    r"<(?:task|feedback|user_message|answer)>|The user provided |New (?:instructions for task continuation|message to )"
)
TASK = re.compile(r"<task>\n?(?P<text>[\s\S]*?)\n?</task>")
HEADERS = {"use_subagents": "subagents"}  # tools that the line before their result calls by another name
INCLUSIVE = ("openai",)  # providers whose input is recorded with what was read from the cache
TOOLS = (
    *("execute_command", "read_file", "write_to_file", "replace_in_file", "apply_patch", "search_files", "list_files"),
    *("list_code_definition_names", "browser_action", "use_mcp_tool", "access_mcp_resource", "ask_followup_question"),
    *(
        "attempt_completion",
        "plan_mode_respond",
        "plan_mode_response",
        "load_mcp_documentation",
        "new_task",
        "condense",
    ),
    *("summarize_task", "new_rule", "report_bug", "web_fetch", "web_search", "focus_chain", "generate_explanation"),
    *("use_subagents", "use_skill", "act_mode_respond"),
)
_OPENING = re.compile(rf"<({'|'.join(TOOLS)})>")
_PARAMETER = re.compile(r"<([a-z_0-9]{1,40})>")
_WHOLE = ("content", "diff", "input")  # texts of files, which may contain tags themselves


class TaggedCall(msgspec.Struct, frozen=True):
    tool: str
    args: dict[str, str]


def find_calls(text: str) -> list[TaggedCall]:
    """The calls in their order. What a text of a file contains is none, and neither is a call without its end."""
    calls, at = [], 0
    while opening := _OPENING.search(text, at):
        end = text.find(f"</{opening[1]}>", opening.end())
        if end < 0:
            break
        calls.append(TaggedCall(opening[1], _read_parameters(text[opening.end() : end])))
        at = end
    return calls


def _read_parameters(body: str) -> dict[str, str]:
    args: dict[str, str] = {}
    at = 0
    while opening := _PARAMETER.search(body, at):
        name, closing = opening[1], f"</{opening[1]}>"
        end = (body.rfind if name in _WHOLE else body.find)(closing, opening.end())
        if end < 0:
            break
        value = body[opening.end() : end]
        args[name] = value.removeprefix("\n").removesuffix("\n") if name in _WHOLE else value.strip()
        at = end + len(closing)
    return args


class TaskReader(PlacedMessages):
    """Collects the records of a task. `asked` are the calls of the last answer that have no result yet."""

    def __init__(self, root: DocumentValue, run: str) -> None:
        super().__init__(root, run)
        self.asked: list[tuple[str, str]] = []
        self.blocks: dict[tuple[int, int], str] = {}  # calls by the places of the first blocks of their results
        self.metered: set[int] = set()

    def read_message(self, node: DocumentValue) -> None:
        members = node.members()
        role, at = text_member(members, "role"), time_member(members, "ts", may_count=True)
        self.begin(f"message-{len(self.starts)}")
        if role == "assistant":
            self._read_answer(members, at)
        elif role == "user":
            self._read_user(members, at)
        else:
            self.records.append(node.problem(f"{node.path}.role", "no message: it has no role of a user or a model"))

    def _read_answer(self, members: Members, at: str | None) -> None:
        about = object_member(members, "modelInfo")
        self.model(text_member(about, "modelId"), members["role"].line)
        if (metrics := members.get("metrics")) and (tokens := object_member(metrics.members(), "tokens")):
            cached, prompt = integer_member(tokens, "cached"), integer_member(tokens, "prompt")
            is_inclusive = text_member(about, "providerId") in INCLUSIVE
            self.add_usage(
                metrics,
                prompt - cached if is_inclusive else prompt,
                cached,
                0,
                integer_member(tokens, "completion"),
                at,
            )
            self.metered.add(self.number)
        self.asked, texts = [], []
        blocks = self.read_blocks(members)
        for block in blocks:
            parts = block.members()
            kind = text_member(parts, "type")
            if kind == "tool_use":
                self._add_native_call(block, parts, at)
            elif kind == "text":
                texts.append(block)
            else:
                text = text_member(parts, "thinking", "text") or kind or "a part of an answer"
                self.add_event(block, "reasoning" if kind == "thinking" else kind or "block", text, at)
        if texts:
            raw = join_array([block.raw for block in texts])
            self.add_text(texts[0].line, raw, "assistant", at, step=self.key)
        if not self.asked:
            for block in texts:
                self._add_tagged_calls(block, at)

    def _add_native_call(self, block: DocumentValue, parts: Members, at: str | None) -> None:
        call, tool = text_member(parts, "id"), text_member(parts, "name")
        if not call or not tool:
            self.records.append(block.problem(block.path, "a call without an id or a name"))
            return
        args = parts.get("input")
        self.asked.append((call, tool))
        self.add_call(call, block, tool, args.raw if args else b"{}", step=self.key, at=at)

    def _add_tagged_calls(self, block: DocumentValue, at: str | None) -> None:
        for tagged in find_calls(text_member(block.members(), "text") or ""):
            call = f"call-{self.number}-{len(self.asked)}"
            self.asked.append((call, tagged.tool))
            self.add_call(call, block, tagged.tool, dump_json(tagged.args), step=self.key, at=at)

    def _read_user(self, members: Members, at: str | None) -> None:
        results: dict[str, list[DocumentValue]] = {}
        texts: list[DocumentValue] = []
        blocks = self.read_blocks(members)
        index = 0
        while index < len(blocks):
            block, parts = blocks[index], blocks[index].members()
            call, count = self._find_answered(parts, blocks[index + 1 :])
            if call is None:
                texts.append(block)
            else:
                self.blocks.setdefault((self.number, index), call)
                results.setdefault(call, []).extend(blocks[index : index + count])
            index += count
        for call, answer in results.items():
            self._add_result(call, answer, at)
        self._add_texts(texts, at)

    def _find_answered(self, parts: Members, following: list[DocumentValue]) -> tuple[str | None, int]:
        """The call that a block answers, and how many blocks its result has."""
        if "tool_use_id" in parts:
            return text_member(parts, "tool_use_id"), 1
        text = text_member(parts, "text") or ""
        end = text.find(RESULT)
        for call, tool in self.asked if end >= 0 else ():
            name = HEADERS.get(tool, tool)
            if not text.startswith((f"[{name}]", f"[{name} ")):
                continue
            if not text.endswith(RESULT):
                return call, 1
            texts = [text_member(block.members(), "type") for block in following]  # earlier releases: a block each
            images = next((n for n, kind in enumerate(texts[1:]) if kind != "image"), len(texts[1:]))
            return call, 1 + min(1, len(texts)) + images
        return None, 1

    def _add_result(self, call: str, blocks: list[DocumentValue], at: str | None) -> None:
        first = blocks[0].members()
        content = first.get("content") if "tool_use_id" in first else None
        if content is None and len(blocks) == 1 and (text := first.get("text")) is not None:
            content = text
        self.add_result(call, None, line=blocks[0].line, at=at)
        raw = content.raw if content else join_array([block.raw for block in blocks])
        is_parted = (text_member(first, "text") or "").endswith(RESULT)
        fidelity: ReceiptFidelity = "reconstructed" if is_parted else "recorded"  # no request of such releases is known
        self.records.append(
            ReceiptRecord(line=blocks[0].line, run=self.run, call=call, content=raw, fidelity=fidelity, at=at)
        )

    def _add_texts(self, blocks: Iterable[DocumentValue], at: str | None) -> None:
        """Adds what a person wrote, then what the client added: the state of the editor, and its reminders."""
        written: list[DocumentValue] = []
        added: list[DocumentValue] = []
        for block in blocks:
            text = text_member(block.members(), "text")
            if match := TASK.match(text or ""):
                self.title(match["text"], block.line)
            (written if text is None or PERSON.match(text) else added).append(block)
        for texts, kind, suffix in ((written, None, ""), (added, META, "-added")):
            if texts:
                raw = join_array([block.raw for block in texts])
                self.add_text(texts[0].line, raw, "user", at, kind=kind, suffix=suffix)

    def change(self, path: SourcePath) -> Iterator[Placed]:
        """Yields what the client left out of later requests, or replaced, as far as its own files state it."""
        places, requests = self.places(), dict[int, int]()  # the numbers of messages by the stamps of requests
        left_out: list[int] = []
        for node in _elements_beside(path, UI_MESSAGES):
            members = node.members()
            index, stamp = _integer(members.get("conversationHistoryIndex")), _integer(members.get("ts"))
            if index is None or stamp is None:
                continue
            at = time_member(members, "ts", may_count=True)
            if text_member(members, "say") == "api_req_started":
                requests[stamp] = index + 1
                yield from self._count(members, index + 2, at)
            bounds = [_integer(bound) for bound in list_member(members, "conversationHistoryDeletedRange")]
            first, last = bounds if len(bounds) == 2 else (None, None)
            if first is not None and last is not None and [first, last] != left_out and index <= self.number:
                left_out = [first, last]
                kept = (number for number in range(index + 1) if not first <= number <= last)
                words = f"messages {first} to {last} were left out of the next requests"
                yield self.compaction(places, kept, words, at), behind(index)
        for node in _elements_beside(path, EDITS):
            yield from self._replace(node.value(), requests)

    def _count(self, members: Members, number: int, at: str | None) -> Iterator[Placed]:
        """The usage of a request, of releases that do not record it with the answer."""
        text = members.get("text")
        if number in self.metered or number > self.number or text is None:
            return
        with suppress(Untrusted):
            raw = str(text.value()).encode("utf-8", "surrogatepass")
            counted = DocumentValue(text.document, raw, text.start, text.path)
            counts = counted.members()
            if "tokensIn" in counts:
                names = ("tokensIn", "cacheReads", "cacheWrites", "tokensOut")
                new, read, written, output = (integer_member(counts, name) for name in names)
                kept = {name: counts[name].raw for name in names if name in counts}
                yield (
                    UsageRecord(
                        line=1,
                        run=self.run,
                        request=self.keys[number],
                        input_tokens=new,
                        cache_read_tokens=read,
                        cache_creation_tokens=written,
                        output_tokens=output,
                        usage=join_object(kept),
                        at=at,
                    ),
                    number * PLACES,
                )

    def _replace(self, edited: JsonValue, requests: Mapping[int, int]) -> Iterator[Placed]:
        """The ends of receipts of one message: `[number, [kind, [[block, [[stamp, "text", [text], …], …]], …]]]`."""
        match edited:
            case [int(number), [_, [*blocks]]]:
                pass
            case _:
                return
        for block in blocks:
            match block:
                case [int(index), [*edits]] if call := self.blocks.get((number, index)):
                    for edit in edits:
                        yield from self._end_receipt(call, edit, requests)

    def _end_receipt(self, call: str, edit: JsonValue, requests: Mapping[int, int]) -> Iterator[Placed]:
        """Yields the end of a receipt that an edit replaced.

        `stamp` names the request whose answer filled the context. The next request, two messages later, has the text.
        """
        match edit:
            case [int(stamp), "text", [str(text), *_], *_] if stamp in requests:
                number = min(requests[stamp] + 2, self.number)
                reason = f"{LATER_TEXT}: the file was read again, or changed"
                end = SupersedeRecord(
                    line=1, run=self.run, call=call, reason=reason, content=dump_json(text), at=epoch_time(stamp)
                )
                yield end, behind(number) - 1


def read_task(root: DocumentValue, run: str, path: SourcePath) -> Iterator[Record | LineProblem]:
    """Yields the records of a task's messages."""
    reader = TaskReader(root, run)
    about = read_beside(path, METADATA)
    reader.records[0] = next(read_metadata(about, run)) if about else reader.records[0]
    for node in root.elements():
        try:
            reader.read_message(node)
        except Untrusted as refusal:
            reader.records.append(node.problem(refusal.path, refusal.reason))
    added: list[Placed] = []
    with suppress(Untrusted):
        added += reader.change(path)
    yield from reader.place(added)


def read_metadata(root: DocumentValue, run: str) -> Iterator[RunRecord]:
    """The release with which a task began."""
    version = None
    with suppress(Untrusted):
        places = list_member(root.members(), "environment_history")
        version = text_member(places[0].members(), "cline_version") if places else None
    yield RunRecord(line=1, run=run, agent=AGENT, version=version)


def _elements_beside(path: SourcePath, name: str) -> list[DocumentValue]:
    root = read_beside(path, name)
    return root.elements() if root else []


def _integer(node: DocumentValue | None) -> int | None:
    return int(node.raw) if node and re.fullmatch(rb"-?\d{1,15}", node.raw) else None

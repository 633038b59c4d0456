"""The bodies that a program keeps: their lists of messages, the run that they are of, documents and files of lines."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from envelopes.recordings.anthropic_usage import read_edits, read_usage_report
from envelopes.recordings.base import (
    COMPACTION,
    EventRecord,
    LineProblem,
    Record,
    SourceLine,
    SourcePath,
    UsageRecord,
)
from envelopes.recordings.document_fields import integer_member, object_member, text_member
from envelopes.recordings.documents import (
    Conversation,
    DocumentValue,
    JsonDocument,
    compact_json,
    name_run,
    place_records,
    unused_id,
)
from envelopes.recordings.json_lines import BYTE_ORDER_MARK, is_blank, read_json_lines
from envelopes.recordings.message_dumps.histories import DumpedLine, Histories, PlacedCall, asked_digest
from envelopes.text.untrusted_json import Untrusted

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
_LISTS = ("messages", "input", "output", "choices")
_CONTINUES = frozenset({"previous_response_id", "conversation"})  # of requests whose history is on the server
FAILED = frozenset({"failed", "denied", "interrupted", "retried", "error"})
_PROMPTS = (b'"user"', b'"human"')  # the run is named by what stands before and in the first prompt
_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")


class _NamedCall(msgspec.Struct):
    """A call under the id that it has here. `part` is the list of the body that it is in."""

    call: str
    asked: str
    number: int
    part: int
    is_open: bool = True


class Dump(Conversation):
    """One conversation; `number` counts its messages over all lists of a body.

    A server may count the calls of each turn, so that ids come again: the later calls get the number of their message.
    """

    def __init__(self, root: DocumentValue, run: str, agent: str, model: str | None) -> None:
        super().__init__(root, run, agent, model=model)
        self.number = 0
        self.is_history = True  # all that was sent before is in it
        self.calls: list[PlacedCall] = []
        self._part = 0
        self._named: dict[str, list[_NamedCall]] = defaultdict(list)  # by the recorded id
        self._uses: Counter[str] = Counter()  # of recorded ids

    def begin_list(self, *, is_other_form: bool) -> None:
        """`is_other_form`: the messages of this list may be those of an earlier one, in another form."""
        self._part += 1
        if is_other_form:
            self._uses.clear()

    def call(
        self, own: str, node: DocumentValue, tool: str, args: bytes, *, step: str | None = None, at: str | None = None
    ) -> str:
        """Adds a call and returns its id. Without a `step` it is one of its own."""
        named, used, asked = self._named[own], self._uses[own], asked_digest(tool, args)
        same = named[min(used, len(named) - 1)] if named else None
        # A response may be the end of the messages, too, which a program keeps after it has added it.
        if same and not (same.asked == asked and same.part < self._part and (same.is_open or used < len(named))):
            same = None
        self._uses[own] += 1
        if same is None:
            call = unused_id(own, f"{own}-{self.number}", self.ids)
            same = _NamedCall(call, asked, self.number, self._part)
            named.append(same)
            self.calls.append(PlacedCall(own, call, self.number, asked))
        same.is_open = True
        self.add_call(same.call, node, tool, args, step=step or same.call, at=at)
        return same.call

    def answer(self, own: str) -> str:
        """The id of the call that is answered: of those with the recorded id the latest open one."""
        named = self._named.get(own, [])
        open_calls = [call for call in named if call.is_open]
        # Calls of one message are answered in their order.
        answered = next((call for call in open_calls if call.number == open_calls[-1].number), None)
        if answered is None:
            return named[-1].call if named else own
        answered.is_open = False
        return answered.call

    def message(self, members: Members, role: str, content: DocumentValue | None) -> str:
        """Adds a message and returns the name of its step."""
        step = text_member(members, "id") or f"message-{self.number}"
        if content is None:
            return step
        if role in ("user", "human"):
            blocks = content.elements()
            self.title(
                content.text() or (text_member(blocks[0].members(), "text") if blocks else "") or "", content.line
            )
        self.add_message(step, content, role, step=step)
        return step

    def provider_compaction(self, node: DocumentValue, at: str | None = None) -> None:
        message = "the provider compacted the conversation"
        self.records.append(EventRecord(line=node.line, run=self.run, kind=COMPACTION, message=message, at=at))

    def problem(self, node: DocumentValue, reason: str) -> None:
        self.records.append(node.problem(f"$[{self.number}]", reason))


ReadMessages = Callable[[Dump, list[DocumentValue]], None]


def read_usage(
    dump: Dump, node: DocumentValue, request: str, at: str | None = None, edits: DocumentValue | None = None
) -> UsageRecord:
    """The usage of a request; only Anthropic's input is without what was read from the cache.

    `edits` is its report of what it did to the context.
    """
    usage = node.members()
    applied = read_edits(msgspec.Raw(compact_json(edits.raw) if edits else b""))
    report = read_usage_report(compact_json(node.raw), applied)
    details = next((usage[name].members() for name in _DETAILS if name in usage), {})
    is_anthropic = "cache_read_input_tokens" in usage
    read = integer_member(usage, "cache_read_input_tokens") or integer_member(usage, "cache_read_tokens")
    read = read or integer_member(details, "cached_tokens") or integer_member(details, "cache_read")
    written = integer_member(usage, "cache_creation_input_tokens") or integer_member(usage, "cache_write_tokens")
    written = written or integer_member(details, "cache_creation")
    total = integer_member(usage, "input_tokens") or integer_member(usage, "prompt_tokens")
    return UsageRecord(
        line=node.line,
        run=dump.run,
        request=request,
        input_tokens=total if is_anthropic else max(0, total - read - written),
        cache_read_tokens=read,
        cache_creation_tokens=written,
        output_tokens=integer_member(usage, "output_tokens") or integer_member(usage, "completion_tokens"),
        usage=node.raw,
        edits=report.edits,
        cleared_tokens=report.cleared,
        repeated_tokens=report.repeated,
        at=at,
    )


def read_body(root: DocumentValue, path: SourcePath, agent: str, read_messages: ReadMessages) -> Dump:
    """Reads a list of messages, or an object that has them."""
    bodies = [root]
    members = root.members()
    if "request" in members and "response" in members:
        bodies = [members["request"], members["response"]]
    lists = [nodes for body in bodies for nodes in _lists_in(body)]
    if not lists:
        raise Untrusted("no list of messages")
    first = lists[0]
    model = next((name for body in bodies if (name := text_member(body.members(), "model"))), None)
    named = text_member(first[0].members(), "conversation_id", "run_id") if first else None
    prompt = next((index for index, node in enumerate(first) if any(role in node.raw for role in _PROMPTS)), 0)
    dump = Dump(root, named or name_run(path, first[: prompt + 1]), agent, model)
    dump.is_history = named is None and not bodies[0].members().keys() & _CONTINUES
    for body in bodies:
        facts = body.members()
        dump.add_standing(facts)
        for nodes in _lists_in(body):
            dump.begin_list(is_other_form=not body.is_list and not facts.keys() & {*_LISTS})
            read_messages(dump, nodes)
        if text_member(facts, "type") == "message" and "content" in facts:  # the response of Anthropic
            dump.begin_list(is_other_form=False)
            read_messages(dump, [body])
        if object_member(facts, "usage"):
            request, edits = text_member(facts, "id") or f"message-{dump.number}", facts.get("context_management")
            dump.records.append(read_usage(dump, facts["usage"], request, edits=edits))
    dump.records += root.document.take_remarks(dump.run)
    return dump


def _lists_in(body: DocumentValue) -> list[list[DocumentValue]]:
    """The list that a body is, those under the names of an API, or those of serialised messages under any name."""
    if body.is_list:
        return [body.elements()]
    members = body.members()
    named = [members[name].elements() for name in _LISTS if name in members and members[name].is_list]
    if named or "lc" in members:
        return named
    others = [node.elements() for node in members.values() if node.is_list]
    return [nodes for nodes in others if nodes and nodes[0].members().keys() & {"lc", "data", "parts"}]


def read_document(
    agent: str, read_messages: ReadMessages, lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]
) -> Records:
    """Reads a document, or lines of objects. An object on one line is the first of a file of lines."""
    listed = list(lines)
    filled = [line for line in listed if not is_blank(line.raw)]
    is_later = bool(listed) and listed[0].offset > 0  # a file of lines that has grown
    if (len(filled) > 1 or is_later) and all(_is_object(line) for line in filled):
        yield from _read_lines(agent, read_messages, listed, path, saved)
        return
    document = JsonDocument(listed)
    root = document.parse()
    if not isinstance(root, DocumentValue):
        yield from () if root is None else (root,)
        return
    histories = Histories(saved)
    try:
        dump = read_body(root, path, agent, read_messages)
    except Untrusted as refusal:
        yield document.refuse(refusal)
        return
    yield from place_records(dump.records)
    if len(filled) == 1 and _is_object(filled[0]):
        deque(histories.place(_to_line(dump)), maxlen=0)
        deque(histories.end(), maxlen=0)


def _is_object(line: SourceLine) -> bool:
    return line.raw.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b'{"')


def _to_line(dump: Dump) -> DumpedLine:
    return DumpedLine(dump.run, dump.calls, dump.records, dump.number, dump.is_history)


def _read_lines(
    agent: str, read_messages: ReadMessages, lines: list[SourceLine], path: SourcePath, saved: dict[str, object]
) -> Records:
    """Each line by itself: its records have the place that they have in the conversation, which lines repeat."""
    histories = Histories(saved)
    for line in read_json_lines(lines, dict(saved)):
        if isinstance(line, LineProblem):
            yield line
            continue
        root = DocumentValue(JsonDocument([line]), line.raw.strip(), 0)
        try:
            dump = read_body(root, path, agent, read_messages)
        except Untrusted as refusal:
            yield LineProblem(line=line.number, path=refusal.path, reason=refusal.reason, raw=line.raw)
            continue
        yield from histories.place(_to_line(dump))
    yield from histories.end()

"""The samples of an Inspect log as runs.

1. `messages` of a sample are all that were ever in the conversation. A `compaction` among its events made the requests
   after it smaller: what the next one still had is in its `input`.
2. A block `tool_use` in an answer is a call that the provider ran itself, with its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from envelopes.alignment.mapping import ReceiptFidelity
from envelopes.recordings.base import (
    PARTIAL_COMPACTION,
    CallRecord,
    EventRecord,
    LineProblem,
    MessageRecord,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    SupersedeRecord,
    UsageRecord,
)
from envelopes.recordings.document_fields import (
    flag_member,
    integer_member,
    list_member,
    milliseconds_member,
    object_member,
    text_member,
    time_member,
)
from envelopes.recordings.documents import DocumentValue, JsonDocument, outline, place_records, read_arguments
from envelopes.recordings.json_lines import storable
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted, join_array, join_object

Records = Iterator[Record | LineProblem]
Members = dict[str, DocumentValue]
_ATTACHMENT = "attachment://"
_EMPTY = (b'""', b"[]")
_PROVIDER_CALL = "tool_use"
_REMOVED = b'"(Tool result removed)"'  # stands in a compacted conversation for a result
_SHOWN_EVENTS = frozenset(
    {"error", "score", "sample_limit", "approval", "sandbox", "logger", "info", "input", "interrupt"}
)


class EvalFacts(msgspec.Struct, frozen=True):
    """The facts that hold for all samples of a log."""

    run: str
    task: str
    model: str | None
    created: str | None
    version: str | None


def sniff(head: bytes, path: SourcePath) -> bool:
    """The document has a version, a status and an evaluation."""
    return {"version", "status", "eval"} <= outline(head).keys


def is_global_call_id(call: str) -> bool:
    """Models of tests count their calls."""
    return False


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    root = JsonDocument(lines).parse()
    if not isinstance(root, DocumentValue):
        yield from () if root is None else (root,)
        return
    facts, members = eval_facts(root), root.members()
    records: list[Record | LineProblem] = []
    for number, sample in enumerate(list_member(members, "samples")):
        try:
            records += sample_records(sample, facts)
        except Untrusted as refusal:
            records.append(sample.problem(f"$.samples[{number}]", refusal.reason))
    if "samples" in members and not members["samples"].is_list:
        records.append(members["samples"].problem("$.samples", "no samples: not a list"))
    yield from place_records(records, by_lines=False)  # the events stand behind all messages


def eval_facts(header: DocumentValue) -> EvalFacts:
    """Reads a whole document, or the header of an archive."""
    members = header.members()
    evaluation = object_member(members, "eval")
    packages = object_member(evaluation, "packages")
    return EvalFacts(
        run=text_member(evaluation, "run_id", "eval_id") or "",
        task=text_member(evaluation, "task") or "evaluation",
        model=text_member(evaluation, "model"),
        created=time_member(evaluation, "created"),
        version=text_member(packages, "inspect_ai"),
    )


def sample_records(node: DocumentValue, facts: EvalFacts) -> list[Record | LineProblem]:
    """The records of one sample. Raises Untrusted for one that is no object."""
    if not node.is_object:
        raise Untrusted("no sample: not an object")
    sample = _Sample(node, facts)
    return [*sample.records(), *node.document.take_remarks(sample.run)]


class _Sample:
    """One sample: its messages in order, with what its events say of their calls."""

    def __init__(self, node: DocumentValue, facts: EvalFacts) -> None:
        self.node = node
        self.facts = facts
        self.members = node.members()
        number = "-".join(
            self.members[name].raw.decode().strip('"') for name in ("id", "epoch") if name in self.members
        )
        self.title = storable(f"{facts.task}, sample {number}" if number else facts.task)
        self.run = text_member(self.members, "uuid") or storable(f"{facts.run}-{number}")
        transcript = object_member(self.members, "transcript")
        self._attachments = self._table(self.members.get("attachments") or transcript.get("content"))
        nodes = list_member(self.members, "events") or list_member(transcript, "events")
        self.events = [event.members() for event in nodes]
        self._nodes = nodes
        self._tools = {
            name: event
            for event in self.events
            if text_member(event, "event") == "tool" and (name := text_member(event, "id"))
        }
        self._sent: Members = {}
        for call, answer in self._wire_receipts():  # a later request may have a text that stands for a removed result
            self._sent.setdefault(call, answer)

    def _table(self, node: DocumentValue | None) -> Members:
        return node.members() if node else {}

    def _resolve(self, value: DocumentValue) -> DocumentValue:
        """The text that an attachment stands for."""
        text = value.text() if value.is_text else None
        if text is None or not text.startswith(_ATTACHMENT):
            return value
        return self._attachments.get(text.removeprefix(_ATTACHMENT), value)

    def _wire_receipts(self) -> Iterator[tuple[str, DocumentValue]]:
        """The answers to calls in the requests that were sent to a provider, by the id of the call."""
        data = self._table(self.members.get("events_data"))
        sent = list(data["calls"].elements()) if "calls" in data else []
        for event in self.events:
            call = event["call"].members() if text_member(event, "event") == "model" and "call" in event else {}
            request = object_member(call, "request")
            sent += list_member(request, "messages") + list_member(request, "input")
        for message in sent:
            members = message.members()
            if (name := text_member(members, "call_id")) and "output" in members:  # an item of OpenAI Responses
                yield name, members["output"]
            if members.keys() & {"error", "function"} or "content" not in members:  # the log's own form of it
                continue
            if name := text_member(members, "tool_call_id"):
                yield name, members["content"]
            for block in members["content"].elements():
                answer = block.members()
                if (name := text_member(answer, "tool_use_id")) and "content" in answer:
                    yield name, answer["content"]

    def records(self) -> Records:
        started, ended = (time_member(self.members, name) for name in ("started_at", "completed_at"))
        yield RunRecord(
            line=self.node.line,
            run=self.run,
            agent="inspect-ai",
            title=summarize(self.title),
            model=self.facts.model,
            version=self.facts.version,
            started_at=started or self.facts.created,
            ended_at=ended,
        )
        usages, compactions = dict(self._usages()), dict(self._compactions())
        known: set[str] = set()
        for number, node in enumerate(list_member(self.members, "messages")):
            message = node.members()
            key = text_member(message, "id") or f"message-{number}"
            if not node.is_object or "role" not in message:
                yield node.problem(f"$.messages[{number}]", "no message: it has no role")
                continue
            if key in compactions:
                yield from self._compaction(node, *compactions[key], known)
            if key in usages:
                yield usages[key]
            if text_member(message, "role") == "tool":
                yield from self._receipt(node, message, known)
                continue
            yield from self._message(message, key, known)
            for call in list_member(message, "tool_calls"):
                yield from self._call(call, key, known)
        yield from self._other_calls(known)
        yield from self._shown_events()

    def _message(self, message: Members, key: str, known: set[str]) -> Records:
        content = self._resolve(message["content"]) if "content" in message else None
        if content is None:
            return
        blocks = content.elements()
        own = [block for block in blocks if text_member(block.members(), "type") == _PROVIDER_CALL]
        sent = join_array([block.raw for block in blocks if block not in own]) if own else content.raw
        if sent not in _EMPTY:
            yield MessageRecord(
                line=content.line,
                run=self.run,
                key=key,
                role=text_member(message, "role") or "unknown",
                content=sent,
                step=key,
            )
        for block in own:
            yield from self._provider_call(block, key, known)

    def _provider_call(self, node: DocumentValue, step: str, known: set[str]) -> Records:
        block = node.members()
        call, tool = text_member(block, "id"), text_member(block, "name")
        if not call or not tool:
            yield node.problem("$.content", "a call without an id or a name")
            return
        known.add(call)
        args = block.get("arguments")
        raw = read_arguments(args)
        yield CallRecord(line=node.line, run=self.run, call=call, tool=tool, args=raw, step=step)
        error = block.get("error")
        is_failed = error is not None and error.is_text
        if is_failed:
            yield ResultRecord(line=node.line, run=self.run, call=call, result=None, is_error=True)
        answer = error if error and is_failed else block.get("result")
        if answer is not None:
            content = self._resolve(answer)
            yield ReceiptRecord(line=content.line, run=self.run, call=call, content=content.raw)

    def _compactions(self) -> Iterator[tuple[str, tuple[Members, Members]]]:
        """The compactions, each with the request behind it, by the message that answered that."""
        compaction: Members | None = None
        for event in self.events:
            kind = text_member(event, "event")
            compaction = event if kind == "compaction" else compaction
            key = self._answer_key(event) if kind == "model" else None
            if compaction is not None and key:
                yield key, (compaction, event)
                compaction = None

    def _compaction(self, node: DocumentValue, compaction: Members, request: Members, known: set[str]) -> Records:
        """Stands before the answer to the first request behind it, with the receipts that this request lacks."""
        before, after = (integer_member(compaction, f"tokens_{when}") for when in ("before", "after"))
        message = "the conversation was compacted" + (f" from {before:,} to {after:,} tokens" if before else "")
        line, at = compaction["event"].line, time_member(compaction, "timestamp")
        yield EventRecord(line=line, run=self.run, kind=PARTIAL_COMPACTION, message=message, at=at)
        sent = self._sent_answers(request)
        for call in sorted(known - sent) if sent is not None else ():
            yield SupersedeRecord(line=node.line, run=self.run, call=call, reason="compaction", at=at)

    def _sent_answers(self, request: Members) -> set[str] | None:
        """The calls whose result a request has; None where its messages are not recorded."""
        messages = list_member(request, "input") or list(self._pooled_input(request))
        if not messages:
            return None
        answers: list[tuple[str | None, DocumentValue | None]] = []
        for node in messages:
            message = node.members()
            content = message.get("content")
            answers.append((text_member(message, "tool_call_id"), content))
            blocks = [block.members() for block in content.elements()] if content else []
            answers += [(text_member(block, "id"), block.get("result")) for block in blocks]
        return {call for call, answer in answers if call and answer and answer.raw != _REMOVED}

    def _pooled_input(self, request: Members) -> Iterator[DocumentValue]:
        """The messages that a request names by their places in the pool, as pairs of a start and an end."""
        pool = list_member(self._table(self.members.get("events_data")), "messages")
        for pair in list_member(request, "input_refs"):
            ends = [int(end.raw) for end in pair.elements() if end.raw.isdigit()]
            if len(ends) == 2:
                yield from pool[ends[0] : ends[1]]

    def _call(self, node: DocumentValue, step: str | None, known: set[str]) -> Records:
        members = node.members()
        call, tool = text_member(members, "id"), text_member(members, "function")
        if not call or not tool:
            yield node.problem("$.tool_calls", "a call without an id or a function")
            return
        known.add(call)
        event = self._tools.get(call, {})
        yield CallRecord(
            line=node.line,
            run=self.run,
            call=call,
            tool=tool,
            args=members["arguments"].raw if "arguments" in members else b"null",
            step=step,
            at=time_member(event, "timestamp"),
        )
        if event:
            yield from self._result(event, call)

    def _result(self, event: Members, call: str) -> Records:
        """The error of a failed call, else the result, which is bounded where Inspect cut it."""
        error, result = event.get("error"), event.get("result")
        output = self._resolve(result) if result else None
        recorded = error or output
        is_beside = error is not None and output is not None and output.raw not in _EMPTY
        extra = {"result": output.raw} if is_beside and output else {}
        if "truncated" in event:  # the bytes of the output, and of what the model got
            extra["truncated"] = event["truncated"].raw
        yield ResultRecord(
            line=recorded.line if recorded else self.node.line,
            run=self.run,
            call=call,
            result=recorded.raw if recorded else None,
            fidelity="structured" if error else "bounded" if "truncated" in event else "stringified",
            is_error=error is not None or flag_member(event, "failed") is True,
            at=time_member(event, "completed"),
            ended_at=time_member(event, "completed"),
            duration_ms=milliseconds_member(event, "working_time"),
            extra=join_object(extra) if extra else None,
        )

    def _receipt(self, node: DocumentValue, message: Members, known: set[str]) -> Records:
        call = text_member(message, "tool_call_id")
        if not call:
            yield node.problem("$.messages", "an answer without the id of its call")
            return
        tool = text_member(message, "function")
        if tool and call not in known and call not in self._tools:  # nothing but its answer was recorded
            known.add(call)
            yield CallRecord(line=node.line, run=self.run, call=call, tool=tool, args=b"null")
        fidelity: ReceiptFidelity = "recorded"
        content = self._resolve(message["content"]) if "content" in message else None
        error = object_member(message, "error")
        if call in self._sent:
            content, fidelity = self._resolve(self._sent[call]), "exact"
        elif "message" in error:
            content, fidelity = error["message"], "reconstructed"
        if error and call not in self._tools:  # a log without its events
            recorded = message["error"]
            beside = message.get("content")
            extra = join_object({"content": beside.raw}) if beside and beside.raw not in _EMPTY else None
            result = recorded.raw
            yield ResultRecord(line=recorded.line, run=self.run, call=call, result=result, is_error=True, extra=extra)
        if content is not None:
            yield ReceiptRecord(line=content.line, run=self.run, call=call, content=content.raw, fidelity=fidelity)

    def _other_calls(self, known: set[str]) -> Records:
        """Calls that no message of the sample has: those of agents that it handed work to."""
        for call, event in self._tools.items():
            tool = text_member(event, "function")
            if call in known or not tool:
                continue
            at = time_member(event, "timestamp")
            args = event["arguments"].raw if "arguments" in event else b"null"
            line = event["id"].line
            yield CallRecord(line=line, run=self.run, call=call, tool=tool, args=args, at=at)
            yield from self._result(event, call)

    def _usages(self) -> Iterator[tuple[str, UsageRecord]]:
        """The usage of each request, by the message that answered it."""
        for event in self.events:
            output = object_member(event, "output") if text_member(event, "event") == "model" else {}
            key = self._answer_key(event) if output else None
            if not key or "usage" not in output:
                continue
            usage = output["usage"].members()
            yield (
                key,
                UsageRecord(
                    line=output["usage"].line,
                    run=self.run,
                    request=key,
                    input_tokens=integer_member(usage, "input_tokens"),
                    cache_read_tokens=integer_member(usage, "input_tokens_cache_read"),
                    cache_creation_tokens=integer_member(usage, "input_tokens_cache_write"),
                    output_tokens=integer_member(usage, "output_tokens"),
                    usage=output["usage"].raw,
                ),
            )

    def _answer_key(self, event: Members) -> str | None:
        choices = list_member(object_member(event, "output"), "choices")
        answer = choices[0].members().get("message") if choices else None
        return text_member(answer.members(), "id") if answer else None

    def _shown_events(self) -> Records:
        for node, event in zip(self._nodes, self.events, strict=True):
            kind = text_member(event, "event")
            if kind in _SHOWN_EVENTS:
                yield EventRecord(
                    line=node.line,
                    run=self.run,
                    kind=kind,
                    message=kind.replace("_", " "),
                    level="error" if kind == "error" else "info",
                    payload=node.raw,
                    at=time_member(event, "timestamp"),
                )

"""Trajectories in the Agent Trajectory Interchange Format, versions 1.0 to 1.8: one document, or one with subagents.

    {schema_version: "ATIF-v1.8", session_id?, trajectory_id?, agent: {name, version, model_name?, tool_definitions?},
     steps: [{step_id, timestamp?, source, message, tool_calls?, observation?, metrics?, …}],
     continued_trajectory_ref?, subagent_trajectories?, …}

1. A step is a message of the system, of the user, or a turn of the agent. Its `tool_calls` are `{tool_call_id,
   function_name, arguments}`, its `observation.results` `{source_call_id?, content?, subagent_trajectory_ref?}`.
2. The content has one text for both halves; `exporters` has which. A result of no call is a message to the model.
3. `metrics` is the usage of the request of a step. A step of several requests has only their sum, and is left out.
4. A step with `is_copied_context` repeats another trajectory: its calls are inherited.
5. Ids of sessions need be unique nowhere: some programs write the same one each time. A run is named by a UUID alone;
   other ids get a hash of the first steps. Ids of calls are unique in their step.
6. A subagent is a document in the document, a file that a result names, or, in sessions of Claude Code, the steps
   with an `agent_id` in their `extra`. Each is a run of its own.
7. A step of the system whose `extra.context_management` is a compaction took the steps before it out of the context.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from envelopes.recordings.atif.exporters import (
    OTHER,
    Members,
    ObservedHalves,
    find_exporter,
    pairs_in_order,
    read_answer,
    read_arguments,
    read_failure,
)
from envelopes.recordings.base import (
    COMPACTION,
    PARTIAL_COMPACTION,
    SYSTEM_PROMPT,
    ArtifactRecord,
    CallRecord,
    Delivery,
    EventRecord,
    Format,
    LineProblem,
    LineRecord,
    ReceiptRecord,
    Record,
    ResultRecord,
    RunRecord,
    SourceLine,
    SourcePath,
    UsageRecord,
)
from envelopes.recordings.document_fields import (
    flag_member,
    integer_member,
    join_texts,
    list_member,
    object_member,
    text_member,
    time_member,
)
from envelopes.recordings.documents import (
    BEGINNING,
    Conversation,
    DocumentValue,
    JsonDocument,
    outline,
    place_records,
    unused_id,
)
from envelopes.recordings.json_lines import storable
from envelopes.recordings.places import PlaceName
from envelopes.schema.result import summarize
from envelopes.text.untrusted_json import Untrusted

Records = Iterator[Record | LineProblem]
PLACES = 1_000  # to a step
MAX_DEPTH = 20  # subagents of subagents
ROLES = {"system": "system", "user": "user", "agent": "assistant"}
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_ELEMENT = re.compile(r"<([a-z][\w-]*)>.*</\1>", re.DOTALL)  # what a client adds, as Codex its environment: no title
_VERSION = re.compile(rb'"schema_version"\s*:\s*"ATIF-v1\.\d+"')
_AGENT = re.compile(rb'"agent"\s*:\s*\{\s*"name"\s*:\s*"([^"\\]{1,100})"')


def name_place(place: int) -> PlaceName:
    """The step by its number, which the format counts from 1."""
    return PlaceName("step", place // PLACES) if place >= PLACES else PlaceName("the start")


def sniff(head: bytes, path: SourcePath, *, agent: str) -> bool:
    """The document names its version, and the agent; an agent that is not known is read without its tools."""
    if "schema_version" not in outline(head).keys or not _VERSION.search(head):
        return False
    named = _AGENT.search(head)
    return find_exporter(named[1].decode("utf-8", "replace") if named else "").agent == agent


def read(lines: Iterable[SourceLine], path: SourcePath, saved: dict[str, object]) -> Records:
    root = JsonDocument(lines).parse()
    if not isinstance(root, DocumentValue):
        yield from () if root is None else (root,)
        return
    try:
        members = root.members()
        name = name_trajectory(members, path.stem)
        records = list(_Trajectory(root, members, name, path).read(_find_parent(members), None, MAX_DEPTH))
    except Untrusted as refusal:
        yield root.problem(refusal.path, refusal.reason)
        return
    yield from place_records([*records, *root.document.take_remarks(name)], by_lines=False)


def name_trajectory(members: Members, stem: str) -> str:
    """The name of the run of a document."""
    session, own = text_member(members, "session_id"), text_member(members, "trajectory_id")
    name = "/".join(dict.fromkeys(part for part in (session, own) if part))
    steps = list_member(members, "steps")
    is_continued = bool(steps) and _is_copied(steps[0].members())
    if _UUID.search(name) and not (is_continued and _UUID.fullmatch(name)):
        return name
    own_steps = [step for step in steps if not _is_copied(step.members())][:BEGINNING]
    beginning = b"".join(node.raw for node in (*own_steps, members.get("agent")) if node)
    return f"{name or stem}-{hashlib.sha256(beginning).hexdigest()[:12]}"


def _find_parent(members: Members) -> str | None:
    """The run that a trajectory of Terminus names as the one whose context it summarizes."""
    extra = object_member(object_member(members, "agent"), "extra")
    parent = text_member(extra, "parent_session_id") or ""
    return parent if _UUID.search(parent) else None


class _Run(Conversation):
    """The records of one run, with places by the numbers of the steps."""

    def __init__(self, root: DocumentValue, name: str, agent: str) -> None:
        super().__init__(root, name, agent)
        self._first = len(self.records)

    def place(self, number: int) -> None:
        """Places what was added since the last step; what comes before the first one stands at the start."""
        for count, index in enumerate(range(self._first, len(self.records)), start=1):
            record = self.records[index]
            if isinstance(record, LineRecord):
                place = number * PLACES + min(count, PLACES - 1) if number else 0
                self.records[index] = msgspec.structs.replace(record, position=place)
        self._first = len(self.records)


class _Call(NamedTuple):
    name: str
    run: _Run
    members: Members


class _Trajectory:
    """Reads one trajectory: its steps, and the documents of its subagents."""

    def __init__(self, node: DocumentValue, members: Members, name: str, path: SourcePath) -> None:
        self._node, self._members, self._path = node, members, path
        self._agent = text_member(object_member(members, "agent"), "name") or OTHER
        self._exporter = find_exporter(self._agent)
        self._run = _Run(node, name, storable(self._agent))
        self._runs = {"": self._run}  # by the id of the subagent in the steps
        self._spawned: dict[str, str] = {}  # the call of a subagent, by the id of its document
        self._calls: dict[str, list[_Call]] = {}  # by their ids in the document
        self._is_unsent = False  # a compaction took the place of the request with what the step got

    def read(self, parent: str | None, parent_call: str | None, depth: int) -> Records:
        run, agent = self._run, object_member(self._members, "agent")
        facts = RunRecord(
            line=self._node.line,
            run=run.run,
            parent_run=parent,
            parent_call=parent_call,
            version=text_member(agent, "version"),
            model=text_member(agent, "model_name"),
        )
        run.records.append(facts)
        if "tool_definitions" in agent:
            run.add_standing({"tools": agent["tool_definitions"]})
        run.place(0)
        number, steps = 0, list_member(self._members, "steps")
        for number, (node, following) in enumerate(zip_longest(steps, steps[1:]), start=1):
            try:
                is_last = following is not None and bool(_find_compaction(following.members()))
                self._is_unsent = self._exporter.replaces and is_last
                self._read_step(number, node)
            except Untrusted as refusal:
                run.records.append(node.problem(node.path, refusal.reason))
        if "continued_trajectory_ref" in self._members:
            goes_on = self._members["continued_trajectory_ref"]
            self._add_event(run, goes_on, "continued", f"the trajectory goes on in {goes_on.text() or 'another file'}")
            run.place(number)
        for each in self._runs.values():
            yield from each.records
        yield from self._read_subagents(depth)

    def _read_subagents(self, depth: int) -> Records:
        for node in list_member(self._members, "subagent_trajectories"):
            if depth == 0:
                yield node.problem(node.path, "too many subagents within each other")
                return
            try:
                members = node.members()
                own = text_member(members, "trajectory_id") or node.path.rpartition("[")[2].rstrip("]")
                child = _Trajectory(node, members, f"{self._run.run}/{own}", self._path)
                yield from child.read(self._run.run, self._spawned.get(own), depth - 1)
            except Untrusted as refusal:
                yield node.problem(node.path, refusal.reason)

    def _read_step(self, number: int, node: DocumentValue) -> None:
        step = node.members()
        source = text_member(step, "source") or ""
        if not node.is_object or source not in ROLES:
            raise Untrusted("no step: its source is none of system, user and agent")
        run, at = self._find_run(step), time_member(step, "timestamp")
        self._add_message(run, number, step, source, at)
        calls = [self._add_call(run, number, call, step, at) for call in list_member(step, "tool_calls")]
        results = list_member(object_member(step, "observation"), "results")
        given = [text_member(result.members(), "source_call_id") for result in results]
        in_order = pairs_in_order([call.members for call in calls], given, self._exporter)
        for index, (result, own) in enumerate(zip(results, given, strict=True)):
            paired = calls[index] if in_order and index < len(calls) else self._find_call(own, given.count(own))
            self._add_result(run, f"step-{number}-{index}", result, step, paired)
        if not _is_copied(step):
            self._add_usage(run, number, step, at)
        run.place(number)

    def _find_run(self, step: Members) -> _Run:
        """The run of a step: that of a subagent where the extra data names one."""
        extra = object_member(step, "extra")
        if self._exporter.agent != "claude-code" or not flag_member(extra, "is_sidechain"):
            return self._run
        own = text_member(extra, "agent_id") or "sidechain"
        if own not in self._runs:
            name = f"{self._run.run}/{own}"
            run = self._runs[own] = _Run(self._node, name, self._agent)
            run.records.append(RunRecord(line=self._node.line, run=name, parent_run=self._run.run))
            run.place(0)
        return self._runs[own]

    def _add_message(self, run: _Run, number: int, step: Members, source: str, at: str | None) -> None:
        message = step.get("message")
        if message is not None and (managed := _find_compaction(step)):
            is_whole = text_member(managed, "boundary") == "replace"
            kind = COMPACTION if is_whole else PARTIAL_COMPACTION
            self._add_event(run, message, kind, message.text() or "the conversation was compacted", at)
            return
        if thought := step.get("reasoning_content"):
            self._add_event(run, thought, "reasoning", thought.text() or "reasoning", at)
        if message is None:
            return
        if source == "user" and not _ELEMENT.fullmatch(text := join_texts(message).strip()):
            run.title(text, message.line)
        is_prompt = source == "system" and number == 1
        run.model(text_member(step, "model_name"), message.line)
        run.add_message(
            f"step-{number}",
            message,
            ROLES[source],
            step=f"step-{number}",
            at=at,
            kind=SYSTEM_PROMPT if is_prompt else None,
            delivery="unclear" if source == "system" and not is_prompt else "sent",
        )

    def _add_call(self, run: _Run, number: int, node: DocumentValue, step: Members, at: str | None) -> _Call:
        call = node.members()
        own = text_member(call, "tool_call_id") or ""
        name = unused_id(own or f"step-{number}", f"{own or 'step'}-{number}", run.ids)
        run.ids.add(name)
        record = CallRecord(
            line=node.line,
            run=run.run,
            call=name,
            tool=text_member(call, "function_name") or "unknown",
            args=read_arguments(call, step, self._exporter),
            step=f"step-{number}",
            at=at,
            inherited=_is_copied(step),
        )
        run.records.append(record)
        added = _Call(name, run, call)
        self._calls.setdefault(own, []).append(added)
        return added

    def _find_call(self, own: str | None, count: int) -> _Call | None:
        """The call that a result names. Of calls with one id in several steps Harbor gives the last one all results."""
        calls = self._calls.get(own or "", [])
        return calls[-1] if calls and own and (count == 1 or len(calls) == 1) else None

    def _add_result(self, run: _Run, key: str, node: DocumentValue, step: Members, call: _Call | None) -> None:
        result = node.members()
        for ref in list_member(result, "subagent_trajectory_ref"):
            self._add_reference(run, ref, call.name if call else None)
        if call is not None:
            answer = read_answer(result, call.members, step, self._exporter)
            self._add_halves(call, node, result, step, answer)
        elif (content := result.get("content")) is not None:
            is_known = self._exporter.content == "recorded" and "source_call_id" not in result
            delivery: Delivery = "sent" if is_known and not self._is_unsent else "unclear"
            run.add_message(key, content, "user", delivery=delivery)

    def _add_halves(
        self, call: _Call, node: DocumentValue, result: Members, step: Members, answer: ObservedHalves
    ) -> None:
        failed, extra = read_failure(result, step), object_member(result, "extra")
        took = integer_member(extra, "duration_ms") or None
        child = self._find_child(answer)
        if self._is_unsent and answer.receipt is not None:
            answer = ObservedHalves(result=result.get("content"))
        run, name = call.run.run, call.name
        if answer.result is not None or failed is not None or took is not None:
            record = ResultRecord(
                line=node.line,
                run=run,
                call=name,
                result=answer.result.raw if answer.result else None,
                fidelity="stringified" if answer.result is not None and not answer.result.is_object else "structured",
                is_error=failed,
                duration_ms=took,
                child_run=child,
            )
            call.run.records.append(record)
        if answer.receipt is not None:
            receipt = ReceiptRecord(
                line=node.line, run=run, call=name, content=answer.receipt, fidelity=answer.fidelity
            )
            call.run.records.append(receipt)
        for part in result["content"].elements() if "content" in result else ():
            if path := text_member(object_member(part.members(), "source"), "path"):
                role = text_member(part.members(), "type") or "file"
                call.run.records.append(ArtifactRecord(line=part.line, run=run, call=name, role=role, path=path))

    def _find_child(self, answer: ObservedHalves) -> str | None:
        """The run of the subagent of Claude Code that a result names."""
        if self._exporter.agent != "claude-code" or answer.result is None or not answer.result.is_object:
            return None
        own = text_member(answer.result.members(), "agentId")
        return f"{self._run.run}/{own}" if own else None

    def _add_reference(self, run: _Run, ref: DocumentValue, call: str | None) -> None:
        """A subagent: a document within this one belongs to its call, a file names itself what it belongs to."""
        members = ref.members()
        own = text_member(members, "trajectory_id")
        if own and call:
            self._spawned[own] = call
        where = text_member(members, "trajectory_path") or own or "another trajectory"
        words = text_member(object_member(members, "extra"), "summary") or "a subagent"
        self._add_event(run, ref, "subagent", f"{words}: {where}", call=call)

    def _add_event(
        self, run: _Run, node: DocumentValue, kind: str, text: str, at: str | None = None, call: str | None = None
    ) -> None:
        words = storable(summarize(text)) or kind
        record = EventRecord(line=node.line, run=run.run, kind=kind, message=words, payload=node.raw, at=at, call=call)
        run.records.append(record)

    def _add_usage(self, run: _Run, number: int, step: Members, at: str | None) -> None:
        metrics = object_member(step, "metrics")
        if "prompt_tokens" not in metrics or integer_member(step, "llm_call_count") > 1:
            return
        counted, read_ = integer_member(metrics, "prompt_tokens"), integer_member(metrics, "cached_tokens")
        extra = object_member(metrics, "extra")
        names = ("cache_creation_input_tokens", "cache_write_tokens", "cache_write_input_tokens")
        written = sum(integer_member(extra, name) for name in names if name in extra)
        run.records.append(
            UsageRecord(
                line=step["metrics"].line,
                run=run.run,
                request=f"step-{number}",
                input_tokens=max(0, counted - read_ - written),
                cache_read_tokens=read_,
                cache_creation_tokens=written,
                output_tokens=integer_member(metrics, "completion_tokens"),
                usage=step["metrics"].raw,
                at=at,
            )
        )


def _find_compaction(step: Members) -> Members:
    managed = object_member(object_member(step, "extra"), "context_management")
    return managed if text_member(managed, "type") == "compaction" else {}


def _is_copied(step: Members) -> bool:
    return flag_member(step, "is_copied_context") is True


def _make_format(agent: str, title: str) -> Format:
    return Format(
        name=OTHER if agent == OTHER else f"atif-{agent}",
        title=f"ATIF trajectory of {title}" if title else "ATIF trajectory",
        agent=agent,
        namespace=OTHER,
        mark=f"a trajectory whose schema_version is ATIF-v1 and whose agent is {title or 'another one'}",
        is_document=True,
        sniff=partial(sniff, agent=agent),
        read=read,
        is_global_call_id=lambda _call: False,
        name_place=name_place,
        section=agent if agent == "terminus-2" else OTHER,
    )


# One for each agent whose tools are known, because these are read by the name of the format's agent.
FORMATS: tuple[Format, ...] = (
    _make_format("claude-code", "Claude Code"),
    _make_format("codex", "Codex"),
    _make_format("gemini-cli", "the Gemini CLI"),
    _make_format("mini-swe-agent", "mini-swe-agent"),
    _make_format("mistral-vibe", "Mistral Vibe"),
    _make_format("pi", "pi"),
    _make_format("qwen-code", "Qwen Code"),
    _make_format("terminus-2", "Terminus 2"),
    _make_format(OTHER, ""),
)

"""Runs the calls of a model: `execute` gives each one outcome, `run_turn` the loop around it.

    ToolLoop       the tools of an agent, its records, and the turns that it runs
    ToolRequest    a call as the model asks for it
    ModelMessage   the text of a round, and its calls
    AnsweredRequest   the call, its settlement, and every form of its answer
    TurnBudget     how long a turn may take, and how many rounds and calls it may have

Whatever a tool does, each call has exactly one outcome (OUT-001): it raises, hangs, returns another shape, ends its
thread, or answers late. A turn has its own block-list and its own duplicates. A successful call of a tool that ends
the turn, as WaitFor does, is the last one that runs in it (TOOLS-017).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

import msgspec

from envelopes.families.registry import projection_fingerprint
from envelopes.plan.dispatch import Dispatcher, Environment, EventLog, RunClock
from envelopes.plan.gates import Admitted, Gates, Hook, allow
from envelopes.plan.policy import check_tool
from envelopes.plan.recorders import (
    CANONICAL,
    PROJECTION_POLICY,
    MemoryRecorder,
    Recorder,
    RendererVersion,
    RunHeader,
    SentReceipt,
)
from envelopes.plan.redaction import redact_settled
from envelopes.plan.sandbox import check_sandbox
from envelopes.plan.tool_answers import SettledCall, Tool, choose_policy, json_object
from envelopes.plan.turn_state import ReplayControl, TurnState, apply_outcome
from envelopes.schema.call import Limits, RunPolicy, Sandbox, ToolCall
from envelopes.schema.outcome import ToolOutcome, tool_message
from envelopes.schema.receipt import Receipt
from envelopes.schema.result import CanonicalResult, ToolError
from envelopes.schema.settlement import Settlement
from envelopes.schema.tool import ToolDefinition
from envelopes.storage.sinks import ArtifactSink
from envelopes.text.canonical_json import NotCanonical, named_hash
from envelopes.transports import AnsweredCall, CallIds

LOOP_VERSION = "1.0"
UNSANDBOXED = RunPolicy(confirmations_required=False, sandbox=Sandbox(enabled=False), limits=Limits())
SentForm: TypeAlias = Literal["receipt", "outcome", "other"]
TurnEnd: TypeAlias = Literal["answered", "waiting", "rounds", "deadline", "cancelled"]


class ToolRequest(msgspec.Struct, frozen=True):
    """A call of the model: its own id for it, the name of the tool, and the arguments as decoded JSON, of any shape.

    >>> ToolRequest("toolu_01", "WebSearch", {"query": "canonical JSON"}).tool
    'WebSearch'
    """

    provider_call_id: str
    tool: str
    args: Any


class ModelMessage(msgspec.Struct, frozen=True):
    """The text that a model wrote in one round, and the calls that it asks for. CompleteWorkItem keeps the text.

    >>> ModelMessage("All totals are right.").requests
    ()
    """

    text: str = ""
    requests: tuple[ToolRequest, ...] = ()


class TurnBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a turn; None is no limit.

    Calls beyond `most_calls` or after the deadline are denied. No round beyond `most_rounds` is requested.
    """

    most_rounds: int = 50
    most_calls: int | None = None
    most_ms: int | None = None


@dataclass(frozen=True)
class AnsweredRequest:
    """A call that ended. The forms of its answer are computed from one settlement, when they are asked for."""

    settled: SettledCall
    sink: ArtifactSink
    is_exposed: Callable[[str], bool] = lambda _tool: True

    @property
    def call(self) -> ToolCall:
        return self.settled.call

    @property
    def settlement(self) -> Settlement:
        return self.settled.settlement

    @cached_property
    def canonical(self) -> CanonicalResult:
        return self.settled.canonical(self.sink)

    @cached_property
    def receipt(self) -> Receipt:
        """The text for the model. Raises LookupError for a tool without a family."""
        return self.settled.receipt(self.sink, self.is_exposed)

    @cached_property
    def outcome(self) -> ToolOutcome:
        return self.settled.outcome(self.sink)

    @property
    def ids(self) -> CallIds:
        return CallIds(provider=self.call.provider_call_id or "", call=self.call.call_id)

    @property
    def answered(self) -> AnsweredCall:
        """The form that `Transport.answers` takes."""
        return AnsweredCall(self.receipt, self.canonical, self.ids)

    @property
    def message(self) -> dict[str, str]:
        """The tool message of OUT-045, with the provider's id."""
        return tool_message(self.call.provider_call_id or self.call.call_id, self.outcome)


# A model gets the answers of its last round.
Model: TypeAlias = Callable[[list[AnsweredRequest]], ModelMessage | Iterable[ToolRequest]]


@dataclass(frozen=True)
class TurnResult:
    """`end` is "answered" when the model asked for no more calls, "waiting" when a call ended the turn, else the limit.

    `text` is what the model wrote last, where it gave a ModelMessage.
    """

    end: TurnEnd
    rounds: int
    answers: tuple[AnsweredRequest, ...]
    text: str = ""


@dataclass
class ToolLoop:
    """Runs the calls of one agent's model. Used by one thread; `cancel` may be called from any.

    `artifacts` keeps outputs that are too large for a message. `confirmation` and the hooks are those of the gates;
    `after_call` is told every answer. `run_id` names the run in the records. These have the envelope of each call, and
    the text that the model is sent of it (RFC-147): `sent_form` is the form of an answer that the client sends, the
    receipt or the JSON of the outcome (`message`). Of any other form nothing is recorded.

    >>> from envelopes import MemorySink, builtin
    >>> family, definition = builtin("WebSearch")
    >>> def run(given, context):
    ...     return {"query": given.query, "provider": "own", "fetched_at": "2026-01-05T10:00:00Z"}
    >>> loop = ToolLoop([Tool(definition, run, family)], MemorySink())
    >>> answer = loop.answer(ToolRequest("toolu_01", "WebSearch", {"query": "canonical JSON"}), loop.begin_turn())
    >>> answer.settlement.end, answer.outcome.output["provider"]
    ('ok', 'own')
    >>> loop.close()
    """

    tools: Iterable[Tool]
    artifacts: ArtifactSink
    recorder: Recorder = field(default_factory=MemoryRecorder)
    policy: RunPolicy = UNSANDBOXED
    budget: TurnBudget = field(default_factory=TurnBudget)
    run_id: str | None = None
    title: str | None = None
    allow_tool: Callable[[ToolCall, ToolDefinition], ToolError | None] = lambda _call, _tool: None
    pre_hook: Hook = allow
    confirmation: Callable[[ToolCall, Admitted], ToolError | None] = lambda _call, _admitted: None
    approve_write: Hook = allow
    after_call: Callable[[AnsweredRequest], None] = lambda _answer: None
    environment: Environment = field(default_factory=Environment)
    tool_registry_version: str = "1.0"
    sent_form: SentForm = "receipt"

    def __post_init__(self) -> None:
        by_name = {tool.name: tool for tool in self.tools}
        self.clock, self.replay = RunClock(self.environment), ReplayControl()
        self._cancelled = threading.Event()
        self._turns, self._rounds_of_turn, self._calls_of_turn = 0, 0, 0
        self._header = RunHeader(
            run_id=self.run_id or self.environment.new_id(),
            title=self.title,
            policy=self.policy,
            executor_version=LOOP_VERSION,
            tool_registry_version=self.tool_registry_version,
            started_at=self.clock.stamp(),
        )
        self._workers = self.environment.make_workers()
        self._gates = Gates(
            registry=lambda name: by_name[name].definition if name in by_name else None,
            replay=self.replay,
            clock=self.clock.now,
            policy=self._check_policy,
            sandbox=lambda call, admitted: check_sandbox(
                admitted.tool, admitted.args, self.policy.sandbox, by_name[call.tool].find_paths(admitted.input)
            ),
            pre_hook=self.pre_hook,
            confirmation=self.confirmation,
            approve_write=self.approve_write,
            names=tuple(by_name),
        )
        self._log = EventLog(self._header.run_id, self.recorder, self.clock)
        self._dispatcher = Dispatcher(
            tools=by_name,
            gates=self._gates,
            log=self._log,
            recorder=self.recorder,
            workers=self._workers,
            clock=self.clock,
            is_cancelled=self._cancelled.is_set,
            answers_faults=True,
            prepare=self._prepare,
            describe=self._describe,
        )
        self._prepared: AnsweredRequest | None = None
        self._masked: AnsweredRequest | None = None  # what is recorded of the answer
        self._answered = 0
        self.recorder.open(self._header)
        self._log.emit("run.started", self.title or "a tool loop begins")

    def begin_turn(self) -> TurnState:
        """A new block-list and a new budget; no call of an earlier turn makes a call of this one a duplicate."""
        self.replay.forget_successes()
        self._turns += 1
        self._rounds_of_turn = self._calls_of_turn = 0
        self._cancelled.clear()
        most_ms = self.budget.most_ms
        self._gates.deadline_s = None if most_ms is None else self.clock.now() + most_ms / 1_000
        return TurnState()

    def begin_round(self) -> None:
        """The calls that follow are of the next message of the model; those of one message are recorded as one step.

        `run_turn` calls it. Without it the calls of a turn count as those of one message, which had no answers yet.
        """
        self._rounds_of_turn += 1

    def make_call(self, request: ToolRequest) -> ToolCall:
        """The record of a request, with an id of the loop's own.

        Null stands for no arguments. What is no object, or nests deeper than a record may, is recorded as a member
        that no tool has, so that the gate refuses it.
        """
        definition = self._gates.registry(request.tool)
        given = {} if request.args is None else request.args
        args = json_object(given if isinstance(given, dict) else {"not_an_object": given})
        try:
            args_hash = named_hash(args)
        except NotCanonical:
            args_hash = None
        return ToolCall(
            call_id=self.environment.new_id(),
            run_id=self._header.run_id,
            step_id=f"turn-{self._turns}" + (f".{self._rounds_of_turn}" if self._rounds_of_turn else ""),
            tool=request.tool or "unnamed",
            args=args,
            args_hash=args_hash,
            attempt=1,
            cancellable=definition is None or definition.cancellable,
            created_at=self.clock.stamp(),
            executor_version=LOOP_VERSION,
            tool_registry_version=self.tool_registry_version,
            risk_level="commands" if definition is None else definition.risk,
            policy=self.policy,
            provider_call_id=request.provider_call_id,
        )

    def execute(self, call: ToolCall, state: TurnState) -> ToolOutcome:
        """Gates, runs and records a call, updates the turn, and returns the one outcome of the call (OUT-049)."""
        return self.settle(call, state).outcome

    def answer(self, request: ToolRequest, state: TurnState, assistant_text: str = "") -> AnsweredRequest:
        """The answer to one call of a round, in which the model also wrote `assistant_text`."""
        return self.settle(self.make_call(request), state, assistant_text)

    def settle(self, call: ToolCall, state: TurnState, assistant_text: str = "") -> AnsweredRequest:
        self._gates.state, self._dispatcher.assistant_text = state, assistant_text
        self._calls_of_turn += 1
        settled = self._dispatcher.start(call)
        while settled is None:
            if self._cancelled.is_set():
                self._dispatcher.cancel()
            settled = next(iter(self._dispatcher.wait()), None)
        self._dispatcher.report(settled)
        answer, self._prepared = self._prepared, None
        if answer is None or answer.settled is not settled:
            answer = self._make_answer(settled)
        self._record_receipt(answer)
        if settled.settlement.phase == "executed" and call.risk_level != "read-only":
            self.replay.forget_successes()
        apply_outcome(answer.outcome, settled.args, state, self.replay, call.provider_call_id)
        definition = self._gates.registry(call.tool)
        if definition is not None and definition.ends_turn and settled.settlement.end == "ok":
            state.ended_by = call.tool
        self.after_call(answer)
        return answer

    def _prepare(self, settled: SettledCall) -> None:
        """Computes the forms that write to the sink, so that a call whose output cannot be stored failed (OUT-001)."""
        self._prepared = self._make_answer(settled)
        _ = self._prepared.outcome, self._prepared.canonical if settled.family is not None else None

    def _describe(self, settled: SettledCall) -> dict[str, Any]:
        """The envelope, for the record of the result. Its secrets are masked, and so it may differ from the model's."""
        if self._prepared is None or self._prepared.settled is not settled:
            self._prepared = self._make_answer(settled)
        masked = redact_settled(settled, self._gates.registry(settled.call.tool))
        self._masked = self._prepared if masked is settled else None if masked is None else self._make_answer(masked)
        if self._masked is None or (family := settled.rendering_family) is None:
            return {}
        try:
            return {CANONICAL: self._masked.canonical.to_json(), PROJECTION_POLICY: projection_fingerprint(family)}
        except Exception:  # a sink that fails: an answer that needs it raises for the client as well
            return {}

    def _record_receipt(self, answer: AnsweredRequest) -> None:
        """Records what the client sends of the answer. What cannot be written raises there, and has no record."""
        self._answered += 1
        shown, self._masked = self._masked, None
        family = answer.settled.rendering_family
        if shown is None or self.sent_form == "other" or (family is None and self.sent_form == "receipt"):
            return
        renderer, policy = None, None
        try:
            if family is None or self.sent_form == "outcome":
                text = shown.message["content"]
            else:
                text = shown.receipt.text
                renderer = RendererVersion(f"{family.name}/receipt", family.versions.get("receipt", 1))
                policy = choose_policy(shown.canonical, family, shown.is_exposed).fingerprint
        except Exception:
            return
        call = answer.call
        self.recorder.add(
            SentReceipt(
                run=call.run_id,
                call=call.provider_call_id or call.call_id,
                call_id=call.call_id,
                position=self._answered,
                text=text,
                at=self.clock.stamp(),
                fidelity="exact" if shown is answer else "masked",
                renderer=renderer,
                render_policy=policy,
            )
        )

    def _make_answer(self, settled: SettledCall) -> AnsweredRequest:
        return AnsweredRequest(settled, self.artifacts, lambda tool: self._is_exposed(tool, settled.call))

    def _is_exposed(self, name: str, call: ToolCall) -> bool:
        """True for a tool that the model could call after `call`: a receipt names no other one (E-27)."""
        tool = self._dispatcher.tools.get(name)
        if tool is None or tool.unavailable or check_tool(tool.definition, self.policy) is not None:
            return False
        return self.allow_tool(msgspec.structs.replace(call, tool=name, args={}), tool.definition) is None

    def run_turn(self, model: Model, state: TurnState | None = None) -> TurnResult:
        """Asks the model until it asks for no call. It gets the answers of its last round, none in the first.

        Every call of a round is answered before the model is asked again, also those that the budget denies. Those
        behind a call that ended the turn are skipped, and the model is not asked again.
        """
        state = state or self.begin_turn()
        answers: list[AnsweredRequest] = []
        last: list[AnsweredRequest] = []
        text = ""
        for rounds in range(self.budget.most_rounds):
            if end := self._find_end(state):
                return TurnResult(end, rounds, tuple(answers), text)
            written = model(last)
            message = written if isinstance(written, ModelMessage) else ModelMessage(requests=tuple(written))
            text = message.text
            if not message.requests:
                return TurnResult("answered", rounds + 1, tuple(answers), text)
            self.begin_round()
            last = [self.answer(request, state, text) for request in message.requests]
            answers += last
            if state.ended_by is not None:
                return TurnResult("waiting", rounds + 1, tuple(answers), text)
        return TurnResult("rounds", self.budget.most_rounds, tuple(answers), text)

    def cancel(self) -> None:
        """Ends the call that runs and the turn, from any thread."""
        self._cancelled.set()
        self._workers.wake()

    def close(self) -> None:
        """Records the end of the run and ends the threads."""
        self._log.emit("run.finished", f"{self._turns} turns")
        self.recorder.close(msgspec.structs.replace(self._header, end="finished", ended_at=self.clock.stamp()))
        if callable(close := getattr(self._workers, "close", None)):
            close()

    def _find_end(self, state: TurnState) -> TurnEnd | None:
        if state.ended_by is not None:
            return "waiting"
        if self._cancelled.is_set():
            return "cancelled"
        deadline_s = self._gates.deadline_s
        return "deadline" if deadline_s is not None and self.clock.now() >= deadline_s else None

    def _check_policy(self, call: ToolCall, tool: ToolDefinition) -> ToolError | None:
        most = self.budget.most_calls
        if self._cancelled.is_set():
            return ToolError(kind="policy_denied", message="the turn was cancelled", retryable=False)
        if most is not None and self._calls_of_turn > most:
            return ToolError(
                kind="policy_denied",
                message=f"the turn allows {most} calls, and all of them are used",
                recovery_hint="answer with what is known, or ask for another turn",
                retryable=False,
            )
        return check_tool(tool, self.policy) or self.allow_tool(call, tool)

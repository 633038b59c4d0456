"""Reads the rest of an executor's record of a call or a run: policy, confirmation, versions, effects, messages.

The objects of the audit layout are evidence of their own (surfaces `call` and `timing`), and so is the document of a
run. A member that has no label here is listed under its name, so that the pages omit none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dashboard.models import Observation, Run
from dashboard.text.find_secrets import CONTEXT
from dashboard.text.masks import mask_text
from envelopes.schema.result import JsonValue, ToolError
from envelopes.schema.settlement import RETRYABLE_KINDS, SITUATIONS, read_end
from envelopes.text.untrusted_json import dump_json, object_slices, parse_json

if TYPE_CHECKING:
    from dashboard.evidence.call_evidence import CallEvidence

SKIP_KINDS: dict[str, str] = {
    row.reason: row.kind for row in SITUATIONS if row.end == "skipped" and row.reason and row.kind
}
DENIED = re.compile(b'"(?:denied(?:_r|R)eason|statedKind)"')
SNAKE = re.compile("(?<=[a-z])_([a-z])")
MAX_CHARACTERS = 1_000  # of one value on the page
CALL_LABELS = {
    "riskLevel": "Risk",
    "category": "Category",
    "preview": "Preview",
    "iteration": "Loop item",
    "loopId": "Loop",
    "confirmationId": "Confirmation",
    "cancellable": "Cancellable",
    "timeoutMs": "Timeout, ms",
    "deadlineAt": "Deadline",
    "argsHash": "Hash of the arguments",
    "coercions": "Changed arguments",
    "redactions": "Masked arguments",
    "plannerVersion": "Planner",
    "executorVersion": "Executor",
    "toolRegistryVersion": "Tool registry",
}
POLICY_LABELS = {"confirmationsRequired": "Confirmation required", "sandbox": "Sandbox", "limits": "Limits"}
RESULT_LABELS = {
    "phase": "Phase",
    "deniedReason": "Denied because of",
    "statedKind": "Kind of error, as stated",
    "userMessage": "Message to the user",
    "debugMessage": "Message for debugging",
    "effects": "Effects",
    "dataHash": "Hash of the result",
    "dataRef": "Stored result",
    "wasCoerced": "Arguments were changed",
    "deadlineAt": "Deadline",
    "extra": "Also recorded",
}
CONFIRMATION_LABELS = {
    "confirmationId": "Confirmation",
    "decision": "Decision",
    "actor": "Decided by",
    "at": "Decided at",
    "planHash": "Hash of the plan",
    "policyHash": "Hash of the policy",
}
RUN_LABELS = {
    "confirmationId": "Confirmation",
    "replayOf": "Rerun of",
    "plannerVersion": "Planner",
    "executorVersion": "Executor",
    "toolRegistryVersion": "Tool registry",
}
# Objects whose members are listed one by one.
GROUPS = {"policy": POLICY_LABELS, "confirmation": CONFIRMATION_LABELS}
# Members that the page shows elsewhere, or that only join the objects.
SHOWN_ELSEWHERE = frozenset(
    (
        *("callId", "runId", "stepId", "tool", "attempt", "args", "createdAt", "providerCallId", "source"),
        *("status", "ok", "data", "error", "startedAt", "endedAt", "durationMs", "recorded", "canonical"),
        *("v", "type", "run", "call", "step", "at", "complete", "fidelity", "isError", "childRun"),  # native records
    )
)
RUN_SHOWN_ELSEWHERE = frozenset(
    (
        *("runId", "id", "plan", "title", "agent", "model", "cwd", "branch", "parentRunId", "parentCallId", "origin"),
        *("source", "startedAt", "createdAt", "endedAt", "finishedAt", "lastAt"),
        *("v", "type", "run", "parentRun", "parentCall", "version"),
    )
)


@dataclass(frozen=True, kw_only=True)
class ExecutionFact:
    """`omitted` counts the characters of a long value that the page does not show."""

    label: str
    value: str
    is_json: bool
    omitted: int = 0


class SeenBytes(NamedTuple):
    """The bytes of an output that the model got, and all of them, as the source recorded both."""

    seen: int
    total: int

    @property
    def words(self) -> str:
        return f"{self.seen:,} of {self.total:,} bytes"


def recorded_members(document: Observation | None) -> dict[str, bytes]:
    """The members of an executor's object. What an export derived for another agent's call is not among them."""
    members = object_slices(bytes(document.data)) if document else {}
    if "source" in members:
        members = object_slices(members.get("timing", b"{}"))
    return in_camel_case(members) if "v" in members else members


def in_camel_case(members: dict[str, bytes]) -> dict[str, bytes]:
    """The members of a native record under the names that an executor's files have."""
    return {_camel_case(name): raw for name, raw in members.items()}


def _camel_case(name: str) -> str:
    return SNAKE.sub(lambda match: match[1].upper(), name) if "_" in name else name


def recorded_word(members: dict[str, bytes], name: str) -> str:
    word = parse_json(members.get(name, b"null"))
    return word if isinstance(word, str) else ""


def recorded_skip(settlement: Observation | None, members: dict[str, bytes] | None = None) -> ToolError | None:
    """The reason of a call that its runtime skipped or refused, as the error of its envelope; None for any other.

    The message is empty where it is the recorded result, or the receipt. `members` are `recorded_members` of the
    settlement, where the caller has read them.
    """
    if settlement is None or not (b'"status"' in settlement.data or DENIED.search(settlement.data)):
        return None
    members = recorded_members(settlement) if members is None else members
    if kind := recorded_word(members, "statedKind"):
        return ToolError(kind=kind, message="", retryable=kind in RETRYABLE_KINDS)
    status, reason = recorded_word(members, "status"), recorded_word(members, "deniedReason")
    end = read_end(status) if status or not reason else "refused"
    if end not in ("skipped", "refused") or "error" in members:
        return None
    kind = SKIP_KINDS.get(reason, "skipped" if end == "skipped" else "policy_denied")
    message = recorded_word(members, "userMessage") or (reason if reason not in SKIP_KINDS else "")
    return ToolError(kind=kind, message=message or f"The call was {end}.", retryable=False)


def build_execution(evidence: CallEvidence) -> tuple[ExecutionFact, ...]:
    """Empty for a call of which no executor recorded more than its halves."""
    facts = dict.fromkeys(
        fact
        for surface, labels in (("call", CALL_LABELS), ("timing", RESULT_LABELS))
        for document in _documents(evidence, surface)
        for fact in _read_facts(recorded_members(document), labels, SHOWN_ELSEWHERE)
    )
    return tuple(facts)


def read_seen_bytes(evidence: CallEvidence) -> SeenBytes | None:
    """Reads what Inspect recorded of an output that it cut; None for any other."""
    for document in _documents(evidence, "timing"):
        extra = recorded_members(document).get("extra", b"") if b'"truncated"' in document.data else b""
        pair = parse_json(object_slices(extra).get("truncated", b"null")) if extra.startswith(b"{") else None
        match pair:
            case [int(total), int(seen)] if 0 <= seen < total:
                return SeenBytes(seen, total)
    return None


def build_run_execution(run: Run) -> tuple[ExecutionFact, ...]:
    """Empty for a run of which no executor recorded a policy, a confirmation or the like."""
    members = object_slices(bytes(run.document)) if run.document else {}
    if "v" in members:
        members = in_camel_case(members)
    return tuple(_read_facts(members, RUN_LABELS, RUN_SHOWN_ELSEWHERE))


def has_action_plan(run: Run) -> bool:
    """True for a plan of an executor, which has a goal or steps. Agents record todo lists and texts as their plans."""
    plan = bytes(run.plan or b"")
    return plan.startswith(b"{") and not object_slices(plan).keys().isdisjoint(("goal", "steps"))


def find_rerun_of(run: Run) -> str:
    """The id that the executor gave to the run whose plan this one ran again; empty for any other run."""
    members = object_slices(bytes(run.document)) if run.document else {}
    return recorded_word(members, "replayOf")


def _documents(evidence: CallEvidence, surface: str) -> list[Observation]:
    return [observation for observation in evidence.observations if observation.surface == surface]


def _read_facts(
    members: dict[str, bytes], labels: dict[str, str], shown_elsewhere: frozenset[str] = frozenset()
) -> Iterator[ExecutionFact]:
    """The members with a label in the order of the labels, then the others."""
    for name, group_labels in GROUPS.items():
        if members.get(name, b"").startswith(b"{"):
            yield from _read_facts(object_slices(members.pop(name)), group_labels)
    for name in sorted(members, key=lambda name: list(labels).index(name) if name in labels else len(labels)):
        if name in shown_elsewhere and name not in labels:
            continue
        value = parse_json(members[name])
        if name == "extra" and isinstance(value, dict):
            value.pop("mcpMeta", None)  # the parts of an MCP result have a table of their own
            value = value or None
        if value is not None:
            yield _fact(labels.get(name, name), value)


def _fact(label: str, value: JsonValue) -> ExecutionFact:
    if isinstance(value, bool):
        return ExecutionFact(label=label, value="yes" if value else "no", is_json=False)
    text = value if isinstance(value, str) else dump_json(value).decode()
    return ExecutionFact(
        label=label,
        value=mask_text(text[: MAX_CHARACTERS + CONTEXT])[:MAX_CHARACTERS],
        is_json=not isinstance(value, str),
        omitted=max(0, len(text) - MAX_CHARACTERS),
    )

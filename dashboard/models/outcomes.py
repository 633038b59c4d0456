"""How a call ended: the word for it, and the rule that decides it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from django.db import models

from envelopes.schema.result import JsonValue
from envelopes.schema.settlement import CODES, SKIPPED_KINDS, RecordedEnd, read_end

UNKNOWN, ERROR = "unknown", "error"  # statuses of an envelope
ASKING_TOOLS = frozenset({"AskUserQuestion", "ExitPlanMode", "EnterPlanMode", "exit_plan_mode"})
# What agents write where a person refused. A rule refuses with the same kind of error, and nobody waited for it.
_BY_A_PERSON = re.compile(
    r"(?i)\bthe user doesn't want\b|\buser (?:rejected|denied|declined|cancelled|did not allow)\b"
    r"|\b(?:rejected|denied|declined|cancelled) by (?:the )?user\b|\AAction rejected: "
    r"|\bpermission was declined\b|\bhaven't granted it yet\b"
)
NOT_COUNTED = "not counted yet"  # of a call whose evidence is stored and not derived


class Outcome(models.TextChoices):
    """How a call ended, in the word that every page, copy and export uses; a command's exit status may follow it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"  # by a person or a rule
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    SKIPPED = "skipped"
    INTERRUPTED = "interrupted"
    UNANSWERED = "unanswered"

    @property
    def word(self) -> str:
        return self.value.replace("_", " ")

    @property
    def tone(self) -> str:
        """Red is for what failed by itself."""
        if self in (Outcome.FAILED, Outcome.TIMED_OUT):
            return "bad"
        return "good" if self is Outcome.SUCCEEDED else "warn"


_OUTCOMES_OF_KINDS = {"cancelled": Outcome.CANCELLED, "interrupted": Outcome.INTERRUPTED}
_OUTCOMES_OF_CODES = {"POLICY_DENIED": Outcome.REFUSED, "TIMEOUT": Outcome.TIMED_OUT, "CANCELLED": Outcome.CANCELLED}
_OUTCOMES_OF_ENDS: dict[RecordedEnd | None, Outcome] = {
    "timeout": Outcome.TIMED_OUT,
    "cancelled": Outcome.CANCELLED,
    "skipped": Outcome.SKIPPED,
    "refused": Outcome.REFUSED,
    "interrupted": Outcome.INTERRUPTED,
}


def decide_outcome(
    *,
    status: str,
    error_kind: str = "",
    exit_status: int | None = None,
    source_error: bool | None = None,
    recorded_end: str = "",
    is_exit_an_answer: bool = False,
    is_interrupted: bool = False,
) -> Outcome:
    """The outcome of a call from the envelope's status, its error, and what the source itself recorded of the end.

    `recorded_end` is the source's own status word. `is_exit_an_answer`: the family knows this exit status as a result,
    as grep's 1. `is_interrupted`: the command was stopped before it finished.
    """
    if recorded := _OUTCOMES_OF_ENDS.get(read_end(recorded_end)):
        return recorded
    if status == UNKNOWN:
        return Outcome.UNANSWERED
    if status == ERROR:
        if error_kind in SKIPPED_KINDS:
            return Outcome.SKIPPED
        by_code = _OUTCOMES_OF_CODES.get(CODES.get(error_kind, ""), Outcome.FAILED)
        return _OUTCOMES_OF_KINDS.get(error_kind, by_code)
    if is_interrupted:
        return Outcome.CANCELLED
    is_failed = not is_exit_an_answer and (bool(exit_status) or bool(source_error))
    return Outcome.FAILED if is_failed else Outcome.SUCCEEDED


def waited_for_a_person(tool: str, error_kind: str, message: str) -> bool:
    """True for a question to a person, and for a refusal that names one."""
    return tool in ASKING_TOOLS or (error_kind == "write_denied" and _BY_A_PERSON.search(message[:1_000]) is not None)


def find_exit_status(result: Mapping[str, JsonValue]) -> JsonValue:
    """That of the command, or of the task whose output was asked for: both calls report how a command ended."""
    task = result.get("task")
    return task.get("exit_status") if isinstance(task, dict) else result.get("exit_status")


def describe_outcome(outcome: str, exit_status: int | None = None) -> str:
    word = Outcome(outcome).word
    return f"{word}, exit {exit_status}" if exit_status else word

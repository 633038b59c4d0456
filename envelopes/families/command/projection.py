"""The bounded forms of a command and of a batch: what each output shows, within which budget (E-29)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from envelopes.alignment.lenient_structs import RecordedObject
from envelopes.families.base import Projection, Projector, ResultMembers, without_nulls
from envelopes.families.command.results import (
    CHARACTERS_PER_TOKEN,
    DEFAULT_OUTPUT_TOKENS,
    IMAGE_PREVIEW_CHARACTERS,
    MESSAGE_CHARACTERS,
    MOST_ITEMS,
    MOST_OUTPUT_TOKENS,
    NOTE_CHARACTERS,
    OUTPUTS,
    SOFT_THRESHOLD,
    STATUSES,
    BatchItem,
    BatchResult,
    CommandResult,
    Output,
    RunningCommand,
    count_characters,
    output_texts,
    output_tokens,
)
from envelopes.families.json_outputs import LAID_OUT, lay_out_output
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.result import ArtifactRef, JsonValue, to_members
from envelopes.text.preview import FileText, preview_command
from envelopes.text.token_preview import MOST_PER_TOKEN, count_up_to


class _Limits(msgspec.Struct, frozen=True):
    """The budget of each output text of one command."""

    each: list[int]
    in_tokens: bool = False


def _project_command(result: CommandResult, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    tokens = result.granted_tokens if policy.keeps_promises else None
    if tokens is None:
        limits = _Limits(split_budget(_requested_lengths(result), policy.preview))
    else:
        limits = _Limits(split_budget(_count_tokens(result, tokens), tokens), in_tokens=True)
    members = _command_members(result, projector, limits)
    return members | _diagnose(result, policy, members if limits.in_tokens else None)


def _project_running(result: RunningCommand, projector: Projector, _policy: ProjectionPolicy) -> ResultMembers:
    members: ResultMembers = {"disposition": "already_running", "task_handle": to_members(result.task)}
    if result.cmd is not None:
        text = preview_command(result.cmd)
        members |= {"command": text.preview, "command_digest": text.digest}
    for name in ("workdir", "shell", "summary", "instructions"):
        members |= projector.text(name, getattr(result, name) or None, NOTE_CHARACTERS, role=name)
    return members


def _project_batch(result: BatchResult, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    items_shown = result.items[:MOST_ITEMS]
    results = [item.result or CommandResult() for item in items_shown]
    items: list[Any] = [
        _project_item(number, item, limits, projector)
        for number, (item, limits) in enumerate(zip(items_shown, _batch_limits(results, policy), strict=True), start=1)
    ]
    counts = {f"{status}_count": result.count(status) for status in STATUSES}
    members: ResultMembers = {"item_count": len(result.items), **counts, "stop_on_error": result.stop_on_error}
    members["items"] = items
    if omitted := len(result.items) - len(items_shown):
        projector.rows("items", [item.status for item in result.items], MOST_ITEMS)
        members["items_omitted"] = omitted
    if policy.keeps_promises:
        members["effective_max_output_tokens"] = sum(_own_tokens(result) for result in results) + DEFAULT_OUTPUT_TOKENS
        members["output_char_budget"] = sum(_count_previewed(item.get("result") or {}) for item in items)
    return members


def _batch_limits(results: Sequence[CommandResult], policy: ProjectionPolicy) -> list[_Limits]:
    """Commands that name their tokens have them; the others share the default, or all of them the policy's preview."""
    if policy.keeps_promises:
        shared = [_count_tokens(result, _own_tokens(result) or DEFAULT_OUTPUT_TOKENS) for result in results]
        budget = DEFAULT_OUTPUT_TOKENS
    else:
        shared, budget = [_requested_lengths(result) for result in results], policy.preview
    is_own = [policy.keeps_promises and _own_tokens(result) > 0 for result in results]
    together = [length for lengths, own in zip(shared, is_own, strict=True) for length in ([] if own else lengths)]
    rest = iter(split_budget(together, budget))
    return [
        _Limits(
            split_budget(lengths, _own_tokens(result)) if own else [next(rest) for _ in lengths],
            in_tokens=policy.keeps_promises,
        )
        for result, lengths, own in zip(results, shared, is_own, strict=True)
    ]


def _own_tokens(result: CommandResult) -> int:
    """The tokens that a command of a batch names for itself, 0 for none."""
    return output_tokens(result.max_output_tokens) if result.max_output_tokens and not result.is_image else 0


def _project_item(number: int, item: BatchItem, limits: _Limits, projector: Projector) -> ResultMembers:
    field, role = f"items/{number - 1}", f"command-{number}-"
    text, result = preview_command(item.cmd), None
    if item.result is not None:
        result = _command_members(item.result, projector, limits, at=f"{field}/result/", role=role)
    return without_nulls(
        {
            "index": number,
            "cmd": text.preview,
            "cmd_digest": text.digest,
            "status": item.status,
            "result": result,
            "error_kind": item.error_kind,
            **projector.stored_line(
                f"{field}/error_message", item.error_message, MESSAGE_CHARACTERS, role=f"command-{number}-error"
            ),
            "duration_ms": item.duration_ms,
        }
    )


def _command_members(
    result: CommandResult,
    projector: Projector,
    limits: _Limits,
    *,
    at: str = "",
    role: str = "",
) -> ResultMembers:
    """One command's members. `limits` has the budgets of its output texts.

    `at` is their place below `/result/`; `role` comes before the names of its artifacts.
    """
    is_completed = result.disposition == "completed"
    outcome: ResultMembers
    if is_completed:
        outcome = {"exit_status": result.exit_status, "stdout_preview": None, "stderr_preview": None}
    else:
        outcome = {"task_handle": to_members(result.task), "initial_output_preview": None}
        outcome["initial_output_truncated"] = result.cut_by_source
    cut = False
    for (name, text), limit in zip(output_texts(result).items(), limits.each, strict=True):
        members = _project_output(name, text, limit, projector, at=at, role=role, in_tokens=limits.in_tokens)
        cut = cut or f"{name}_truncated" in members
        outcome |= members
    if is_completed:
        outcome["truncated"] = cut or result.cut_by_source
    notes = {
        "interrupted": result.interrupted or None,
        "cut_by_source": result.cut_by_source or None,
        "interpretation": result.interpretation,
        "waited_ms": result.waited_ms,
        "image": result.is_image or None,
        "saved_output": msgspec.to_builtins(result.saved_output),
        "task_handle": to_members(result.task),
    }
    return {"disposition": result.disposition, **outcome, **without_nulls(notes)}


def _project_output(
    name: str, text: Output, limit: int, projector: Projector, *, at: str, role: str, in_tokens: bool
) -> ResultMembers:
    """One output: its preview, and where it was cut or is no text, the artifact with the whole."""
    field = f"{at}{name}_preview"
    is_long = (count_up_to(text, limit) if in_tokens else count_characters(text)) > limit
    laid_out = lay_out_output(text) if is_long else None
    shown = text if laid_out is None else laid_out
    preview, is_whole = (projector.preview_tokens if in_tokens else projector.excerpt)(field, shown, limit)
    members: ResultMembers = {f"{name}_preview": preview}
    if laid_out is not None:
        members[f"{name}_layout"] = LAID_OUT
    is_text = not isinstance(text, FileText) or text.is_text
    if isinstance(text, FileText) and not text.is_text:
        members[f"{name}_bytes"] = text.size
    if not is_whole:
        members[f"{name}_truncated"] = True
    if isinstance(text, FileText) and not (is_whole and is_text):
        members[f"{name}_artifact"] = projector.refer(ArtifactRef(text.path))
    elif isinstance(text, str) and not is_whole:
        members[f"{name}_artifact"] = projector.store(f"{role}{name}", text)
    return members


def _count_previewed(members: ResultMembers) -> int:
    """The characters of the previews of a command."""
    previews = (members.get(f"{name}_preview") for name in OUTPUTS)
    return sum(len(preview) for preview in previews if isinstance(preview, str))


def _count_tokens(result: CommandResult, limit: int) -> list[int]:
    """The tokens of each output text, counted no further than the limit."""
    if result.is_image:
        return [IMAGE_PREVIEW_CHARACTERS for _ in output_texts(result)]
    return [count_up_to(text, limit) for text in output_texts(result).values()]


def granted_tokens(result: JsonValue) -> int | None:
    """The tokens of output that the caller of a command or a batch was granted; None where nothing was promised."""
    recorded = RecordedObject(result)
    own = recorded.member("command_diagnostics").integer("effective_max_output_tokens")
    return recorded.integer("effective_max_output_tokens") if own is None else own


def granted_characters(result: JsonValue) -> int:
    """The characters of the previews within those tokens."""
    recorded = RecordedObject(result)
    own = recorded.member("command_diagnostics").integer("output_char_budget")
    characters = recorded.integer("output_char_budget") if own is None else own
    return min(max(0, characters or 0), MOST_ITEMS * MOST_OUTPUT_TOKENS * MOST_PER_TOKEN)


def _requested_lengths(result: CommandResult) -> list[int]:
    """How many characters the caller asked for of each output text, before the family's budget."""
    counts = map(count_characters, output_texts(result).values())
    lengths = [min(count, IMAGE_PREVIEW_CHARACTERS) if result.is_image else count for count in counts]
    return lengths if result.output_characters is None else split_budget(lengths, result.output_characters)


def split_budget(lengths: Sequence[int], budget: int) -> list[int]:
    """Even parts of `budget`; what a short text leaves goes to the longer ones."""
    parts = [0] * len(lengths)
    rest = budget
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    for rank, index in enumerate(by_length):
        parts[index] = min(lengths[index], rest // (len(lengths) - rank))
        rest -= parts[index]
    return parts


def _diagnose(result: CommandResult, policy: ProjectionPolicy, granted: ResultMembers | None) -> ResultMembers:
    """`granted` are the members of a command whose output has a budget in tokens."""
    if result.cmd is None or result.output_characters is None:
        return {}
    text = preview_command(result.cmd)
    return {
        "command_diagnostics": {
            "cmd_preview": text.preview,
            "cmd_digest": text.digest,
            "cmd_char_count": len(result.cmd),
            "cmd_estimated_tokens": -(-len(result.cmd) // CHARACTERS_PER_TOKEN),
            "contains_heredoc": text.contains_heredoc,
            "contains_inline_script": text.contains_inline_script,
            "exceeds_soft_threshold": len(result.cmd) > SOFT_THRESHOLD,
            "effective_max_output_tokens": output_tokens(result.max_output_tokens),
            "output_char_budget": (
                min(result.output_characters, policy.preview) if granted is None else _count_previewed(granted)
            ),
        }
    }


PROJECTIONS: dict[type[msgspec.Struct], Projection] = {
    CommandResult: _project_command,
    RunningCommand: _project_running,
    BatchResult: _project_batch,
}

"""Keeps secrets out of the records of a run: values that a tool declares as secret, and their repetitions (OD-30).

redact_plan    the plan as run.json has it
redact_call    the call as it is recorded, and the secrets that its other records must not contain
redact_result   the result as it is recorded
redact_settled  the call from which other records are made: its envelope, its receipt
find_texts      the secret texts of arguments or of a result
redact_error   the error of such a call; `mask_text` does the same for any text
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, overload

import msgspec

from envelopes.plan.references import find_references
from envelopes.plan.sandbox import find_values
from envelopes.plan.schema import ActionPlan, plan_document
from envelopes.plan.steps import REDACTED
from envelopes.plan.tool_answers import SettledCall, fail
from envelopes.schema.call import ToolCall, ToolResult
from envelopes.schema.result import CompleteOutput
from envelopes.schema.tool import InvalidToolOutput, ToolDefinition
from envelopes.text.pointer import split


def redact_plan(plan: ActionPlan, registry: Callable[[str], ToolDefinition | None]) -> tuple[Any, tuple[str, ...]]:
    """The plan as it is recorded, and pointers to the constants in it that a tool declares as secret (OD-30).

    A preview that repeats such a constant is masked, too.
    """
    written = plan_document(plan)
    redactions: list[str] = []
    for index, step in enumerate(plan.steps):
        tool = registry(step.tool)
        for pointer, value in find_values(step.args, tool.sensitive if tool else ()):
            if any(find_references(value)):
                continue
            _redact_value(written["steps"][index]["args"], pointer)
            redactions.append(f"/steps/{index}/args{pointer}")
            if isinstance(value, str) and step.preview:
                preview = written["steps"][index]["preview"]
                written["steps"][index]["preview"] = mask_text(preview, frozenset({value}))
    return written, tuple(redactions)


def _redact_value(document: Any, pointer: str) -> None:
    *parents, last = split(pointer)
    for part in parents:
        document = document[int(part)] if isinstance(document, list) else document[part]
    document[int(last) if isinstance(document, list) else last] = REDACTED


def redact_call(call: ToolCall, sensitive: tuple[str, ...]) -> tuple[ToolCall, frozenset[str]]:
    """The call as it is recorded, and the texts that its records must not contain. The hash stays the real one."""
    values = dict(find_values(call.args, sensitive))
    if not values:
        return call, frozenset()
    secrets = find_texts(call.args, sensitive)
    args = msgspec.to_builtins(call.args)
    for pointer in values:
        _redact_value(args, pointer)
    iteration = call.iteration
    if iteration is not None:
        iteration = msgspec.structs.replace(iteration, item_value=mask(iteration.item_value, secrets))
    redacted = msgspec.structs.replace(
        call, args=args, iteration=iteration, preview=mask_text(call.preview, secrets), redactions=tuple(values)
    )
    return redacted, secrets


def find_texts(value: Any, pointers: tuple[str, ...]) -> frozenset[str]:
    """The texts at the pointers, which no record may repeat."""
    return frozenset(text for _, text in find_values(value, pointers) if isinstance(text, str) and text)


def mask(value: Any, secrets: frozenset[str]) -> Any:
    """The value with each occurrence of a secret in its texts and names replaced."""
    if isinstance(value, str):
        return mask_text(value, secrets)
    if isinstance(value, dict):
        return {mask_text(name, secrets): mask(child, secrets) for name, child in value.items()}
    if isinstance(value, list):
        return [mask(child, secrets) for child in value]
    return value


@overload
def mask_text(text: str, secrets: frozenset[str]) -> str: ...


@overload
def mask_text(text: None, secrets: frozenset[str]) -> None: ...


@overload
def mask_text(text: str | None, secrets: frozenset[str]) -> str | None: ...


def mask_text(text: str | None, secrets: frozenset[str]) -> str | None:
    for secret in sorted(secrets, key=len, reverse=True):
        text = None if text is None else text.replace(secret, REDACTED)
    return text


def redact_result(result: ToolResult, secrets: frozenset[str], sensitive: tuple[str, ...]) -> ToolResult:
    """The result as it is recorded: without the `secrets` of the call, and without its own at the pointers `sensitive`.

    Later steps and the model get the result itself. A masked one has no hash, which could be tried against guesses.
    """
    data = _redact_data(result.data, secrets, sensitive)
    return msgspec.structs.replace(
        result,
        data=data,
        data_hash=result.data_hash if data == result.data else None,
        user_message=mask_text(result.user_message, secrets),
        debug_message=mask_text(result.debug_message, secrets),
    )


def _redact_data(data: Any, secrets: frozenset[str], sensitive: tuple[str, ...]) -> Any:
    data = mask(data, secrets) if secrets else data
    values = dict(find_values(data, sensitive))
    if values:
        data = copy.deepcopy(data)
        for pointer in values:
            _redact_value(data, pointer)
    return data


def redact_settled(settled: SettledCall, definition: ToolDefinition | None) -> SettledCall | None:
    """The call with its output masked before anything of it is cut; itself where that has nothing to mask.

    None where the masked output does not fit the definition. An error is masked already.
    """
    data = settled.settlement.data
    if data is None or definition is None:
        return settled
    masked = _redact_data(data, settled.secrets, definition.sensitive_result)
    summary = mask_text(settled.complete.summary_text, settled.secrets)
    if masked == data and summary == settled.complete.summary_text:
        return settled
    try:
        result = definition.read_data(masked)
    except InvalidToolOutput:
        return None
    complete = msgspec.structs.replace(settled.complete, result=result, summary_text=summary)
    settlement = msgspec.structs.replace(settled.settlement, data=masked, data_hash=None, user_message=summary)
    return dataclasses.replace(settled, complete=complete, settlement=settlement)


def redact_error(complete: CompleteOutput, secrets: frozenset[str]) -> CompleteOutput:
    """An error often repeats the arguments."""
    if complete.error is None or not secrets:
        return complete
    error = msgspec.structs.replace(
        complete.error,
        message=mask_text(complete.error.message, secrets) or REDACTED,
        details=mask(complete.error.details, secrets),
    )
    return fail(complete.tool_name, error)

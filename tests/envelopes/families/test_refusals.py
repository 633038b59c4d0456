"""Refusals and denials as the model reads them: what was not run and why, and what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envelopes import MemorySink, Tool, ToolFailed, ToolLoop, ToolRequest, builtin
from envelopes.plan.gates import _refusal
from tests.cases import each
from tests.envelopes.built_in import failure, receipt_text, refusal

REFUSED: dict[str, tuple[str, Any]] = {
    "missing": ("ExecCommand", {}),
    "too_many": ("ExecCommandBatch", {"items": [{"cmd": "true"}] * 13}),
    "none_of": ("ListWorkItems", {"filter": "done"}),
    "type": ("ListWorkItems", {"limit": "20"}),
    "bound": ("MemoryGet", {"source_ref": "brief:b1", "max_chars": 0}),
    "nested": ("CreateWorkItem", {"objective": "x", "todo_list": [{"text": "y", "state": "done"}]}),
    "unknown_field": ("ExecCommand", {"cmd": "make", "timeout": 5}),
    "result_field": ("ExecCommand", {"cmd": "make", "status": "running"}),
    "between_fields": ("WaitFor", {"reason": "tests", "wake": "task_result"}),
    "nested_missing": ("CreateWorkItem", {"objective": "x", "todo_list": [{"text": "y"}]}),
    "misnamed": ("ExecCommand", {"command": "make"}),
}


@each("name", list(REFUSED))
def test_refused_arguments_read_as_their_golden(name: str, golden: Callable[[str, str], None]) -> None:
    tool, arguments = REFUSED[name]
    golden(f"refused/{name}", receipt_text(failure(tool, refusal(tool, arguments))))


@each("name", list(REFUSED))
def test_a_refusal_names_no_validator_and_no_schema(name: str) -> None:
    tool, arguments = REFUSED[name]
    first = receipt_text(failure(tool, refusal(tool, arguments))).splitlines()[0]
    assert first.startswith(f"{tool} not run: ")
    assert not [word for word in ("Expected", "$.", "tool schema", "enum value") if word in first]


def test_a_denial_names_the_earlier_call(golden: Callable[[str, str], None]) -> None:
    """The id is the provider's, the only one that the model has seen."""
    search, definition = builtin("MemorySearch")
    fetch = builtin("WebFetch")

    def fail(_call: Any, _context: Any) -> Any:
        raise ToolFailed("provider_unavailable", "no network is set up")

    tools = [Tool(definition, lambda call, _: {"query": call.query}, search), Tool(fetch[1], fail, fetch[0])]
    loop = ToolLoop(tools, MemorySink())
    state = loop.begin_turn()
    for name, tool, arguments in (
        ("duplicate", "MemorySearch", {"query": "receipts"}),
        ("blocked", "WebFetch", {"url": "https://example.org/"}),
    ):
        loop.answer(ToolRequest(f"toolu_{name}", tool, arguments), state)
        golden(f"denied/{name}_of_a_call", loop.answer(ToolRequest("toolu_2", tool, arguments), state).receipt.text)
    for name, tool in (("near", "memory_search"), ("far", "Zzz")):
        golden(f"denied/unknown_{name}", loop.answer(ToolRequest("toolu_3", tool, {}), state).receipt.text)
    loop.close()


@each("situation", ["blocked", "expired", "duplicate", "hook_refused", "write_refused", "invalid_args"])
def test_a_denial_reads_as_its_golden(situation: str, golden: Callable[[str, str], None]) -> None:
    golden(f"denied/{situation}", receipt_text(failure("ApplyPatch", _refusal(situation))))

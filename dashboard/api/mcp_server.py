"""An MCP server over the store: agents ask what other agents called, got and did not see. It changes nothing.

    answer_message(project, raw)    the answer to one JSON-RPC message, None for a notification

The answers are receipts of ours: bounded, with the arguments that give the rest, and cited by call and characters.
HTTP (`/mcp`, one JSON answer a POST) and stdio (`counterfoil mcp`) are the same server. Its messages are built with
`mcp.types` of the extra `mcp`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from django.http import Http404

from dashboard.api import reading
from dashboard.api.answers import CallHalves, CallItem, ItemPage, StepContext, TextWindow
from dashboard.models import Project
from dashboard.models.outcomes import NOT_COUNTED, describe_outcome
from dashboard.runs.run_list import describe_waiting
from dashboard.text.params import LARGEST
from envelopes.text.untrusted_json import Untrusted, parse_json

CHARACTERS, MOST_CHARACTERS = 4_000, 20_000  # of a window
ITEMS, MOST_ITEMS = 10, 50
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
INSTRUCTIONS = (
    "Counterfoil keeps both halves of recorded tool calls: the complete result, and the receipt, which is the text "
    "that the model got. Find calls with search_calls, then read call_halves and unseen_output. Every answer is a "
    "window and names the arguments that give the rest. Cite a call by its id and the characters."
)


class ToolAnswer(NamedTuple):
    text: str
    structured: dict[str, Any]


class ServedTool(NamedTuple):
    """`properties` is JSON Schema; `required` names those that have to be given."""

    description: str
    properties: dict[str, dict[str, Any]]
    required: tuple[str, ...]
    answer: Callable[[Project, Mapping[str, Any]], ToolAnswer]


class WrongArguments(ValueError):
    """A sentence for the model that asked."""


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _number(description: str, most: int | None = None) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "description": description} | ({"maximum": most} if most else {})


def _search_runs(project: Project, given: Mapping[str, Any]) -> ToolAnswer:
    page = reading.list_runs(project, _list_query(given))
    lines = [
        f"run {run.run} · {run.title or run.external_id} · {run.calls} calls, {run.failed} failed"
        + (f" · {run.waiting:,} not counted yet" if run.waiting else "")
        for run in page.items
    ]
    return _page_answer(page, lines, "search_runs", given)


def _search_calls(project: Project, given: Mapping[str, Any]) -> ToolAnswer:
    page = reading.list_calls(project, _list_query(given))
    lines = [
        f"call {call.call} · {call.tool} · {_outcome_words(call)}"
        + (f" · model saw {call.seen_lines:,} of {call.output_lines:,} lines" if call.is_cut else "")
        + (f" · {call.summary}" if call.summary else "")
        for call in page.items
    ]
    return _page_answer(page, lines, "search_calls", given)


def _outcome_words(call: CallItem) -> str:
    return call.outcome if call.outcome == NOT_COUNTED else describe_outcome(call.outcome, call.exit_status)


def _page_answer(page: ItemPage[Any], lines: list[str], tool: str, given: Mapping[str, Any]) -> ToolAnswer:
    lines = [*(f"Problem: {problem}" for problem in page.problems), *lines] or ["Nothing matches."]
    lines = [*(f"Note: {note}" for note in page.notes), *lines]
    if page.next:
        lines.append(f"More: {_describe_question(tool, _query(given, 'q', 'sort') | {'after': page.next})}.")
    return ToolAnswer("\n".join(lines), msgspec.to_builtins(page, str_keys=True))


def _call_halves(project: Project, given: Mapping[str, Any]) -> ToolAnswer:
    key = _key(given, "call")
    halves = reading.load_halves(project, key, _window_query(given, "part"))
    lines = [f"{halves.call.tool} · {_outcome_words(halves.call)}"]
    lines += [_window_text(name, window, halves) for name, window in _windows(halves)]
    if halves.call.result_fidelity == "parsed_from_receipt":
        lines.append("No result was recorded: canonical is what the receipt states, or stated first.")
    if halves.call.result_fidelity == "absent" and halves.canonical is not None:
        lines.append("No result was recorded: canonical is the error alone that the recording states.")
    for gaps in halves.outputs:
        if gaps.unseen:
            lines.append(
                f"Of {gaps.pointer} the model saw {gaps.seen_lines:,} of {gaps.lines:,} lines. The rest: "
                + _describe_question("unseen_output", {"call": str(key), "pointer": gaps.pointer})
                + "."
            )
    return ToolAnswer("\n\n".join(lines), msgspec.to_builtins(halves))


def _windows(halves: CallHalves) -> list[tuple[str, TextWindow | None]]:
    return [("args", halves.args), ("canonical", halves.canonical), ("receipt", halves.receipt)]


def _window_text(name: str, window: TextWindow | None, halves: CallHalves) -> str:
    if window is None:
        return f"[{name}: not recorded]"
    call = halves.call.call
    return _cited(f"call {call}, {name}", window, "call_halves", {"call": call, "part": name})


def _cited(place: str, window: TextWindow, tool: str, arguments: Mapping[str, Any]) -> str:
    """The window with its place, and how `tool` gives the one behind it."""
    head = f"[{place}, characters {window.start:,} to {window.end:,} of {window.total:,}]"
    more = _describe_question(tool, {**arguments, "offset": window.next})
    rest = f"\n[More: {more}.]" if window.next is not None else ""
    return f"{head}\n{window.text}{rest}"


def _describe_question(tool: str, arguments: Mapping[str, Any]) -> str:
    """The tool with all arguments that it needs, as JSON: left out ones would give another answer."""
    words = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    return f"{tool} with {', '.join(words)}"


def _unseen_output(project: Project, given: Mapping[str, Any]) -> ToolAnswer:
    key = _key(given, "call")
    window = reading.load_unseen(project, key, _window_query(given, "pointer"))
    arguments = {"call": str(key), **_query(given, "pointer")}
    text = _cited(f"call {key}, recorded output from its first unseen line", window, "unseen_output", arguments)
    return ToolAnswer(text, msgspec.to_builtins(window))


def _context_at_step(project: Project, given: Mapping[str, Any]) -> ToolAnswer:
    position = given["position"]
    if not isinstance(position, int) or isinstance(position, bool):
        raise WrongArguments(f"position is a whole number from 1, not {json.dumps(position)[:60]}.")
    context = reading.load_step_context(project, _key(given, "run"), position)
    return ToolAnswer("\n".join(_context_lines(context)), msgspec.to_builtins(context))


def _context_lines(context: StepContext) -> list[str]:
    kinds = ", ".join(f"{name} {tokens:,}" for name, tokens in context.kinds.items())
    items = [
        f"{item.heading} · {item.tokens:,} tokens{''.join(f' · {note}' for note in item.notes)}"
        for item in context.items
    ]
    earlier = [f"{context.earlier:,} earlier items are not listed."] if context.earlier else []
    waiting = f"{describe_waiting(context.waiting)} Until then the tokens here may be too few."
    return [
        f"[run {context.run}, step {context.position}: about {context.tokens:,} tokens: {kinds}]",
        *([waiting] if context.waiting else ()),
        *context.changes,
        *items,
        *earlier,
    ]


def _variant_receipt(project: Project, given: Mapping[str, Any]) -> ToolAnswer:
    name = str(given.get("variant", "receipt"))
    rendered = reading.render_variant(project, _key(given, "call"), name, _window_query(given))
    place = f"call {rendered.call}, written by {rendered.variant}; no model saw it"
    text = _cited(place, rendered.text, "variant_receipt", {"call": rendered.call, "variant": name})
    return ToolAnswer(text, msgspec.to_builtins(rendered))


def _query(given: Mapping[str, Any], *names: str) -> dict[str, str]:
    return {name: given[name] for name in names if isinstance(given.get(name), str)}


def _list_query(given: Mapping[str, Any]) -> dict[str, str]:
    return _query(given, "q", "sort", "after") | {"limit": str(_limit(given, ITEMS, MOST_ITEMS))}


def _window_query(given: Mapping[str, Any], *names: str) -> dict[str, str]:
    query = _query(given, *names) | {"limit": str(_limit(given, CHARACTERS, MOST_CHARACTERS))}
    return query | ({"offset": str(given["offset"])} if "offset" in given else {})


def _limit(given: Mapping[str, Any], default: int, most: int) -> int:
    value = given.get("limit", default)
    return min(value, most) if isinstance(value, int) and value > 0 else default


def _key(given: Mapping[str, Any], name: str) -> UUID:
    try:
        return UUID(str(given.get(name, "")))
    except ValueError:
        raise WrongArguments(f"{name} is an id as the searches list it, not {str(given.get(name))[:60]!r}.") from None


FILTER = _text("The filter language of the dashboard, e.g. tool:Bash cut:yes receipt:denied failed:>3 after:2026-01-20")
AFTER = _text("The cursor that an earlier answer named")
SORT = _text("newest, tokens, took or unseen; runs: newest, calls, failed, cut, tokens or duration")
WINDOW = {
    "offset": _number("The first character, 0 unless given"),
    "limit": _number(f"Characters of each window, {CHARACTERS:,} unless given", MOST_CHARACTERS),
}
CALL, LIMIT = _text("The id of the call"), _number(f"How many, {ITEMS} unless given", MOST_ITEMS)
LISTED = {"q": FILTER, "sort": SORT, "after": AFTER, "limit": LIMIT}
PART = {"type": "string", "enum": ["args", "canonical", "receipt"], "description": "Only this half in a window"}
TOOLS: dict[str, ServedTool] = {
    "search_runs": ServedTool("Finds recorded runs of agents.", LISTED, (), _search_runs),
    "search_calls": ServedTool("Finds recorded tool calls across runs.", LISTED, (), _search_calls),
    "call_halves": ServedTool(
        "Shows both halves of a call: the complete canonical result, and the receipt that the model got.",
        {"call": CALL, "part": PART, **WINDOW},
        ("call",),
        _call_halves,
    ),
    "unseen_output": ServedTool(
        "Shows the recorded output of a call from its first line on that the model did not see.",
        {"call": CALL, "pointer": _text("Of the output, as call_halves names it"), **WINDOW},
        ("call",),
        _unseen_output,
    ),
    "context_at_step": ServedTool(
        "Shows what stood in the model's context when it made a call, as far as it was recorded.",
        {"run": _text("The id of the run"), "position": _number("Of the call in the run, from 1")},
        ("run", "position"),
        _context_at_step,
    ),
    "variant_receipt": ServedTool(
        "Writes the receipt of a recorded call with another renderer: what it would have said.",
        {"call": CALL, "variant": _text("e.g. receipt, markdown, outcome_json"), **WINDOW},
        ("call",),
        _variant_receipt,
    ),
}


def answer_message(project: Project, raw: bytes) -> bytes | None:
    """The JSON-RPC answer; None for a notification, which has none."""
    try:
        message = parse_json(raw)
        json.dumps(message, ensure_ascii=False).encode()
    except Untrusted as refusal:
        return _error(None, PARSE_ERROR, refusal.reason)
    except UnicodeEncodeError:  # neither the store nor an answer can have it
        return _error(None, PARSE_ERROR, "half a character: a surrogate without the other one")
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        return _error(None, INVALID_REQUEST, "one JSON-RPC 2.0 message with a method; batches are not taken")
    if "id" not in message:
        return None
    key, params = message["id"], message.get("params") or {}
    if not _is_key(key) or not isinstance(params, dict):
        return _error(None, INVALID_REQUEST, "id is a string or a whole number of 64 bits, params an object")
    methods: dict[str, Callable[[], Any]] = {
        "initialize": lambda: _initialize(params),
        "ping": dict,
        "tools/list": _list_tools,
        "tools/call": lambda: _call_tool(project, params),
    }
    method = methods.get(str(message["method"]))
    if method is None:
        return _error(key, NO_METHOD, "this server has tools and nothing else")
    try:
        return msgspec.json.encode({"jsonrpc": "2.0", "id": key, "result": method()})
    except WrongArguments as refusal:
        return _error(key, INVALID_PARAMS, str(refusal))


def _is_key(key: object) -> bool:
    if isinstance(key, int):
        return not isinstance(key, bool) and -LARGEST <= key <= LARGEST
    return isinstance(key, str)


def _error(key: object, code: int, sentence: str) -> bytes:
    error = {"code": code, "message": sentence}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": key, "error": error})


def _dump(model: Any) -> Any:
    return model.model_dump(by_alias=True, exclude_none=True, mode="json")


def _initialize(params: Mapping[str, Any]) -> Any:
    from mcp import types

    asked = params.get("protocolVersion")
    return _dump(
        types.InitializeResult(
            protocol_version=asked if asked in VERSIONS else VERSIONS[0],
            capabilities=types.ServerCapabilities(tools=types.ToolsCapability(list_changed=False)),
            server_info=types.Implementation(name="counterfoil", version=version("counterfoil")),
            instructions=INSTRUCTIONS,
        )
    )


@cache
def _list_tools() -> Any:
    from mcp import types

    read_only = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    tools = [
        types.Tool(
            name=name,
            description=tool.description,
            input_schema={"type": "object", "properties": tool.properties, "required": list(tool.required)},
            annotations=read_only,
        )
        for name, tool in TOOLS.items()
    ]
    return _dump(types.ListToolsResult(tools=tools))


def _call_tool(project: Project, params: Mapping[str, Any]) -> Any:
    """A question without an answer is a result with isError, so that the model reads the reason."""
    from mcp import types

    name, given = params.get("name"), params.get("arguments") or {}
    tool = TOOLS.get(name) if isinstance(name, str) else None
    if tool is None or not isinstance(given, dict):
        raise WrongArguments(f"There is no such tool; there are {', '.join(TOOLS)}.")
    if missing := [argument for argument in tool.required if argument not in given]:
        raise WrongArguments(f"Missing: {', '.join(missing)}.")
    try:
        answer = tool.answer(project, given)
    except (reading.NoSuchStep, reading.NotAnswered, WrongArguments) as reason:
        return _dump(_failed(types, str(reason)))
    except Http404:
        return _dump(_failed(types, "The project has no run or call with this id."))
    text = types.TextContent(type="text", text=answer.text)
    return _dump(types.CallToolResult(content=[text], structured_content=answer.structured, is_error=False))


def _failed(types: Any, sentence: str) -> Any:
    return types.CallToolResult(content=[types.TextContent(type="text", text=sentence)], is_error=True)

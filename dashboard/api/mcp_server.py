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
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
from django.http import Http404
from msgspec import UNSET, Meta, UnsetType

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


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool: its input schema is written from the fields, and what is given is read into them."""

    def query(self, *names: str) -> dict[str, str]:
        """Those that were given, of `names` alone where there are any."""
        values = msgspec.structs.asdict(self)
        return {
            name: str(value)
            for name, value in values.items()
            if value not in (UNSET, "") and (not names or name in names)
        }


class ListArguments(Arguments, frozen=True, kw_only=True):
    q: Annotated[
        str,
        Meta(
            description="The filter language of the dashboard, "
            "e.g. tool:Bash cut:yes receipt:denied failed:>3 after:2026-01-20"
        ),
    ] = ""
    sort: Annotated[
        str,
        Meta(description="newest, tokens, took or unseen; runs: newest, calls, failed, cut, tokens or duration"),
    ] = ""
    after: Annotated[str, Meta(description="The cursor that an earlier answer named")] = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_ITEMS, description=f"How many, {ITEMS} unless given")] = ITEMS


class WindowArguments(Arguments, frozen=True, kw_only=True):
    call: Annotated[UUID, Meta(description="The id of the call")]
    offset: Annotated[int, Meta(ge=0, le=LARGEST, description="The first character, 0 unless given")] | UnsetType = (
        UNSET
    )
    limit: Annotated[
        int, Meta(ge=1, le=MOST_CHARACTERS, description=f"Characters of each window, {CHARACTERS:,} unless given")
    ] = CHARACTERS


class HalvesArguments(WindowArguments, frozen=True, kw_only=True):
    part: (
        Annotated[Literal["args", "canonical", "receipt"], Meta(description="Only this half in a window")] | UnsetType
    ) = UNSET


class UnseenArguments(WindowArguments, frozen=True, kw_only=True):
    pointer: Annotated[str, Meta(description="Of the output, as call_halves names it")] = ""


class ContextArguments(Arguments, frozen=True, kw_only=True):
    run: Annotated[UUID, Meta(description="The id of the run")]
    position: Annotated[int, Meta(ge=1, description="Of the call in the run, from 1")]


class VariantArguments(WindowArguments, frozen=True, kw_only=True):
    variant: Annotated[str, Meta(description="e.g. receipt, markdown, outcome_json")] = "receipt"


class ServedTool(NamedTuple):
    description: str
    arguments: type[Arguments]
    answer: Callable[[Project, Any], ToolAnswer]

    @property
    def input_schema(self) -> dict[str, Any]:
        _, components = msgspec.json.schema_components([self.arguments])
        (schema,) = components.values()
        return {name: value for name, value in schema.items() if name != "title"}


class WrongArguments(ValueError):
    """A sentence for the model that asked."""


def _search_runs(project: Project, given: ListArguments) -> ToolAnswer:
    page = reading.list_runs(project, given.query())
    lines = [
        f"run {run.run} · {run.title or run.external_id} · {run.calls} calls, {run.failed} failed"
        + (f" · {run.waiting:,} not counted yet" if run.waiting else "")
        for run in page.items
    ]
    return _page_answer(page, lines, "search_runs", given)


def _search_calls(project: Project, given: ListArguments) -> ToolAnswer:
    page = reading.list_calls(project, given.query())
    lines = [
        f"call {call.call} · {call.tool} · {_outcome_words(call)}"
        + (f" · model saw {call.seen_lines:,} of {call.output_lines:,} lines" if call.is_cut else "")
        + (f" · {call.summary}" if call.summary else "")
        for call in page.items
    ]
    return _page_answer(page, lines, "search_calls", given)


def _outcome_words(call: CallItem) -> str:
    return call.outcome if call.outcome == NOT_COUNTED else describe_outcome(call.outcome, call.exit_status)


def _page_answer(page: ItemPage[Any], lines: list[str], tool: str, given: ListArguments) -> ToolAnswer:
    lines = [*(f"Problem: {problem}" for problem in page.problems), *lines] or ["Nothing matches."]
    lines = [*(f"Note: {note}" for note in page.notes), *lines]
    if page.next:
        lines.append(f"More: {_describe_question(tool, given.query('q', 'sort') | {'after': page.next})}.")
    return ToolAnswer("\n".join(lines), msgspec.to_builtins(page, str_keys=True))


def _call_halves(project: Project, given: HalvesArguments) -> ToolAnswer:
    halves = reading.load_halves(project, given.call, given.query())
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
                + _describe_question("unseen_output", {"call": str(given.call), "pointer": gaps.pointer})
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


def _unseen_output(project: Project, given: UnseenArguments) -> ToolAnswer:
    window = reading.load_unseen(project, given.call, given.query())
    arguments = given.query("call", "pointer")
    text = _cited(f"call {given.call}, recorded output from its first unseen line", window, "unseen_output", arguments)
    return ToolAnswer(text, msgspec.to_builtins(window))


def _context_at_step(project: Project, given: ContextArguments) -> ToolAnswer:
    context = reading.load_step_context(project, given.run, given.position)
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


def _variant_receipt(project: Project, given: VariantArguments) -> ToolAnswer:
    rendered = reading.render_variant(project, given.call, given.variant, given.query("offset", "limit"))
    place = f"call {rendered.call}, written by {rendered.variant}; no model saw it"
    text = _cited(place, rendered.text, "variant_receipt", {"call": rendered.call, "variant": given.variant})
    return ToolAnswer(text, msgspec.to_builtins(rendered))


TOOLS: dict[str, ServedTool] = {
    "search_runs": ServedTool("Finds recorded runs of agents.", ListArguments, _search_runs),
    "search_calls": ServedTool("Finds recorded tool calls across runs.", ListArguments, _search_calls),
    "call_halves": ServedTool(
        "Shows both halves of a call: the complete canonical result, and the receipt that the model got.",
        HalvesArguments,
        _call_halves,
    ),
    "unseen_output": ServedTool(
        "Shows the recorded output of a call from its first line on that the model did not see.",
        UnseenArguments,
        _unseen_output,
    ),
    "context_at_step": ServedTool(
        "Shows what stood in the model's context when it made a call, as far as it was recorded.",
        ContextArguments,
        _context_at_step,
    ),
    "variant_receipt": ServedTool(
        "Writes the receipt of a recorded call with another renderer: what it would have said.",
        VariantArguments,
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
            input_schema=tool.input_schema,
            annotations=read_only,
        )
        for name, tool in TOOLS.items()
    ]
    return _dump(types.ListToolsResult(tools=tools))


def _call_tool(project: Project, params: Mapping[str, Any]) -> Any:
    """A question without an answer is a result with isError, so that the model reads the reason.

    So are wrong arguments, as the protocol has it since 2025-11-25.
    """
    from mcp import types

    name, given = params.get("name"), params.get("arguments")
    tool = TOOLS.get(name) if isinstance(name, str) else None
    if tool is None:
        raise WrongArguments(f"There is no such tool; there are {', '.join(TOOLS)}.")
    try:
        answer = tool.answer(project, _read_arguments(tool, {} if given is None else given))
    except (reading.NoSuchStep, reading.NotAnswered, WrongArguments) as reason:
        return _dump(_failed(types, str(reason)))
    except Http404:
        return _dump(_failed(types, "The project has no run or call with this id."))
    text = types.TextContent(type="text", text=answer.text)
    return _dump(types.CallToolResult(content=[text], structured_content=answer.structured, is_error=False))


def _read_arguments(tool: ServedTool, given: object) -> Arguments:
    """Raises WrongArguments with the name of the argument: without it, the answer would be to another question."""
    try:
        return msgspec.convert(given, tool.arguments)
    except msgspec.ValidationError as error:
        problem = str(error)
    reason, _, name = problem.removesuffix("`").rpartition(" - at `$.")
    if isinstance(given, dict) and name in given:
        raise WrongArguments(f"{name}: {reason}. Given: {json.dumps(given[name], ensure_ascii=False)[:60]}")
    raise WrongArguments(f"{problem[:200]}. The arguments are {', '.join(tool.arguments.__struct_fields__)}.")


def _failed(types: Any, sentence: str) -> Any:
    return types.CallToolResult(content=[types.TextContent(type="text", text=sentence)], is_error=True)

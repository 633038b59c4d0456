"""The tools of an MCP server, as tools of a runtime: content, structured content and errors become both halves.

The server is a program that the runtime's policy starts; it talks over its standard input and output, and sees none of
the runtime's own environment but what `mcp` hands down (PATH, HOME and the like). What a server says of its tools is a
claim: unless the policy trusts it, every tool runs commands as far as the gates are concerned. Needs the package `mcp`.
"""

from __future__ import annotations

import asyncio
import base64
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures import wait as wait_for
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from envelopes.families.external import FAMILY
from envelopes.families.external.any_agent import read_content
from envelopes.families.external.results import ContentBlock, ContentBlocks
from envelopes.plan.tool_answers import FAILED, Tool, ToolFailed
from envelopes.plan.workers import CallContext
from envelopes.schema.outcome import CANCELLED
from envelopes.schema.result import CompleteOutput
from envelopes.schema.tool import InvalidToolInput, RiskLevel, ToolAnnotations, ToolDefinition, ToolInput
from envelopes.storage.sinks import ArtifactSink
from envelopes.transports.mcp import Declaration, read_declaration

if TYPE_CHECKING:
    from mcp import Client

LOOK_S = 0.1  # between two looks at whether the call was cancelled
REPORTED = "external_tool_error"
END_S = 30.0  # that a server has to end; `mcp` ends it by force before
JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


@dataclass(frozen=True)
class McpServer:
    """How the policy starts a server, and what it lets the tools do.

    Its tools are called `name.tool`. `risks` are by the server's own names; any other tool has the risk `commands`, or
    with `trusts_annotations` `read-only` where the server says so. `log` takes the server's standard error.
    """

    name: str
    command: str
    args: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    workdir: Path | None = None
    log: Path | None = None
    risks: Mapping[str, RiskLevel] = field(default_factory=dict)
    trusts_annotations: bool = False
    start_s: float = 30.0
    timeout_ms: int = 120_000


class McpInput(ToolInput, frozen=True, kw_only=True):
    """The arguments as they came: their form is the server's own."""

    arguments: dict[str, Any] = {}


class McpToolDefinition(ToolDefinition[McpInput], frozen=True, kw_only=True):
    """A tool whose input is described by JSON Schema and not by a struct.

    `parse` checks what every schema has at its top: the members that are required or unknown, their types, the words
    of an enumeration. The rest is the server's to check.
    """

    schema: dict[str, Any]
    declared: ToolAnnotations = ToolAnnotations()
    input: type[McpInput] = McpInput
    result: tuple[type[msgspec.Struct], ...] = (ContentBlocks,)

    @property
    def annotations(self) -> ToolAnnotations:
        """Those of the server, without loss."""
        return self.declared

    def parse(self, arguments: Any, *, strict: bool = True) -> McpInput:
        """Raises InvalidToolInput. Nothing is repaired: only the server knows what its values mean."""
        if faults := list(_faults(self.schema, arguments)):
            member, reason = faults[0]
            error = self._error({"field": member, "validation_error": reason})
            message = f"{error.message}: {'; '.join(text for _, text in faults)}"
            raise InvalidToolInput(msgspec.structs.replace(error, message=message))
        return McpInput(arguments=arguments)

    def input_schema(self, *, has_conditions: bool = True) -> dict[str, Any]:
        """The schema of the server; without conditions between members where `has_conditions` is False."""
        dropped = () if has_conditions else ("oneOf", "anyOf", "allOf", "not", "if", "then", "else")
        return {name: rule for name, rule in self.schema.items() if name not in dropped}


class McpTools:
    """A server that runs, from the time of its making until `close`. Raises ToolFailed where it cannot be started.

    `sink` keeps the pictures and sounds of its results; without it only their size is known.
    """

    def __init__(self, server: McpServer, sink: ArtifactSink | None = None) -> None:
        self._server, self._sink = server, sink
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._client: Client | None = None
        self._serving: asyncio.Task[None] | None = None
        self._opened: Future[list[Declaration]] = Future()
        self._thread = threading.Thread(target=self._run, name=f"mcp {server.name}", daemon=True)
        self._thread.start()
        try:
            self._declared = self._opened.result(server.start_s)
        except Exception as error:
            self.close()
            reason = f"it did not answer within {server.start_s:g} s" if isinstance(error, FutureTimeout) else error
            raise self._unavailable(f"could not be started: {reason}") from error

    def tools(self) -> tuple[Tool, ...]:
        return tuple(
            Tool(definition := self._define(declared), partial(self._call, declared.name, definition), FAMILY)
            for declared in self._declared
        )

    def close(self) -> None:
        """Ends the server and waits for it."""
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(END_S)

    def _stop(self) -> None:
        self._closing.set()
        if not self._opened.done() and self._serving is not None:
            self._serving.cancel()

    def _define(self, declared: Declaration) -> McpToolDefinition:
        is_trusted = self._server.trusts_annotations and declared.annotations.read_only_hint is True
        risk: RiskLevel = self._server.risks.get(declared.name, "read-only" if is_trusted else "commands")
        return McpToolDefinition(
            name=f"{self._server.name}.{declared.name}",
            capability=f"mcp.{self._server.name}",
            planes=("external",),
            risk=risk,
            description=declared.description,
            schema=declared.input_schema,
            declared=declared.annotations,
            error_kinds=("provider_unavailable",),
            is_mutation=risk != "read-only",
            timeout_ms=self._server.timeout_ms,
            retry_on_timeout=risk == "read-only",
        )

    def _call(self, name: str, definition: McpToolDefinition, call: McpInput, context: CallContext) -> CompleteOutput:
        """A result with `isError` is a failure that the model may cure by other arguments: it blocks no tool."""
        recorded = self._ask(name, call.arguments, context)
        content, words = read_content(recorded)
        content = ContentBlocks(
            content=tuple(map(self._keep_data, content.content, recorded.get("content", ()))),
            structured_content=content.structured_content,
        )
        if not recorded.get("isError"):
            return CompleteOutput.success(definition.name, f"{definition.name} returned {words}", content)
        text = "\n".join(block.text for block in content.content if block.text)
        details = None if content.structured_content is None else {"structured_content": content.structured_content}
        raise ToolFailed(
            REPORTED,
            text or f"{definition.name} reported an error without a text",
            details=details,
            retryable=definition.risk == "read-only",
        )

    def _keep_data(self, block: ContentBlock, recorded: dict[str, Any]) -> ContentBlock:
        """The block with the artifact of its data. Data that is no base64 is left out, as without a sink."""
        data = recorded.get("data") or recorded.get("resource", {}).get("blob")
        if self._sink is None or not isinstance(data, str):
            return block
        try:
            raw = base64.b64decode(data, validate=True)
        except ValueError:
            return block
        return msgspec.structs.replace(block, data_path=self._sink.write(block.kind, raw).path)

    def _ask(self, name: str, arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
        """The server's result as JSON. Raises ToolFailed."""
        from anyio import BrokenResourceError, ClosedResourceError
        from mcp import MCPError

        if self._client is None or not self._thread.is_alive():
            raise self._unavailable("has ended")
        asked = asyncio.run_coroutine_threadsafe(self._client.call_tool(name, arguments), self._loop)
        while not wait_for((asked,), LOOK_S).done:
            if context.is_cancelled:
                asked.cancel()
                raise ToolFailed(CANCELLED, "the call was cancelled before the server answered")
            if not self._thread.is_alive():
                raise self._unavailable("has ended")
        try:
            result = asked.result()
        except (CancelledError, BrokenResourceError, ClosedResourceError):
            raise self._unavailable("has ended") from None
        except MCPError as error:
            raise self._refused(error.code, error.message) from error
        document: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return document

    def _refused(self, code: int, message: str) -> ToolFailed:
        from mcp.types import CONNECTION_CLOSED, INVALID_PARAMS

        if code == CONNECTION_CLOSED:
            return self._unavailable("has ended")
        return ToolFailed("invalid_tool_input" if code == INVALID_PARAMS else FAILED, message)

    def _unavailable(self, reason: str) -> ToolFailed:
        return ToolFailed(
            "provider_unavailable",
            f"the MCP server {self._server.name} {reason}",
            recovery_hint="go on without its tools, or tell the operator",
        )

    def _run(self) -> None:
        try:
            self._serving = self._loop.create_task(self._serve())
            self._loop.run_until_complete(self._serving)
        except BaseException as error:  # what a server does wrong ends its tools, not the runtime
            if not self._opened.done():
                self._opened.set_exception(error)
        finally:
            self._client = None
            self._loop.close()

    async def _serve(self) -> None:
        from mcp import Client, StdioServerParameters, stdio_client

        server = self._server
        parameters = StdioServerParameters(
            command=server.command, args=list(server.args), env=dict(server.variables), cwd=server.workdir
        )
        async with AsyncExitStack() as stack:
            log = stack.enter_context((server.log or Path(os.devnull)).open("a"))
            client = await stack.enter_async_context(Client(stdio_client(parameters, log), cache=None))
            self._client = client
            declared: list[Declaration] = []
            cursor: str | None = None
            while True:
                page = await client.list_tools(cursor=cursor)
                listed = (tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools)
                declared += (read_declaration(tool) for tool in listed)
                if (cursor := page.next_cursor) is None:
                    break
            self._opened.set_result(declared)
            await self._closing.wait()
            self._client = None


def _faults(schema: dict[str, Any], arguments: Any) -> Iterator[tuple[str, str]]:
    """Yields each member that does not fit, with the reason in words."""
    if not isinstance(arguments, dict):
        yield "", "it must be an object"
        return
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in arguments:
            yield name, f"`{name}` is missing"
    for name, value in arguments.items():
        rule = properties.get(name)
        if rule is None and schema.get("additionalProperties") is False:
            yield name, f"`{name}` is unknown"
        elif isinstance(rule, dict) and (reason := _value_fault(rule, value)):
            yield name, f"`{name}` {reason}"


def _value_fault(rule: dict[str, Any], value: Any) -> str | None:
    if "enum" in rule and value not in rule["enum"]:
        return f"is none of: {', '.join(map(str, rule['enum']))}"
    names = rule.get("type", ())
    allowed = [names] if isinstance(names, str) else list(names)
    if not allowed or any(_is_of(value, name) for name in allowed):
        return None
    return f"must be {' or '.join(allowed)}"


def _is_of(value: Any, name: str) -> bool:
    """A bool is an int in Python alone. A type that JSON Schema does not have fits everything."""
    if isinstance(value, bool):
        return name == "boolean" or name not in JSON_TYPES
    return isinstance(value, JSON_TYPES.get(name, (object,)))

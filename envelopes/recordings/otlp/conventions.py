"""The attribute names of several instrumentations, read into one form: kinds of spans, and the values of tools.

convention            span of a tool                  its result               messages of a model span
GenAI, Pydantic AI    operation.name=execute_tool     gen_ai.tool.call.result  gen_ai.input.messages
OpenInference         openinference.span.kind=TOOL    output.value             llm.input_messages.N.message
Traceloop             traceloop.span.kind=tool        traceloop.entity.output  gen_ai.prompt.N
Vercel AI SDK         ai.toolCall                     ai.toolCall.result       ai.prompt.messages

GenAI conventions up to 1.36 had each message as an event of the model's span (`gen_ai.tool.message` and the like).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from envelopes.recordings.otlp.spans import Attributes, TraceSpan, parsed_text
from envelopes.text.untrusted_json import Untrusted, dump_json, parse_json

CONVERSATION = (
    *("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id"),
    *(
        "traceloop.association.properties.thread_id",
        "ai.telemetry.metadata.sessionId",
        "ai.telemetry.metadata.threadId",
        "langsmith.metadata.thread_id",
        "langsmith.metadata.session_id",
    ),
)
# These name the conversation on spans of agents or models, not on those of tools. Both halves are in one run so.
RUN_IS_TRACE = ("gcp.vertex.agent", "agent_framework", "openinference.instrumentation.agno")
# So do releases of the Vercel AI SDK up to 4, which alone have these on spans of models and of agents.
RUN_IS_TRACE_MARKS = ("ai.prompt.format", "ai.settings.maxSteps")
TOOL_NAME = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name")
TOOL_CALL = ("gen_ai.tool.call.id", "tool.id", "tool_call.id", "ai.toolCall.id")
# What Microsoft's Agent Framework and Google's ADK write where they have no id.
NO_CALL = ("unknown", "<not specified>")
TOOL_ARGS = (
    *("gen_ai.tool.call.arguments", "tool_arguments", "ai.toolCall.args"),
    *("traceloop.entity.input", "input.value"),
)
TOOL_PARAMETERS = "tool.parameters"  # the arguments, or their schema
TOOL_RESULT = (
    *("gen_ai.tool.call.result", "tool_response", "ai.toolCall.result"),
    *("traceloop.entity.output", "output.value", "anthropic.tool_result.content"),
)
AGENT = ("gen_ai.agent.name", "agent.name", "agent_name")
WORKFLOW = ("gen_ai.workflow.name", *AGENT)
MODEL = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id", "model_name")
INPUT_TOKENS = (
    *("gen_ai.usage.input_tokens", "llm.token_count.prompt", "gen_ai.usage.prompt_tokens"),
    *("ai.usage.inputTokens", "ai.usage.promptTokens"),
)
OUTPUT_TOKENS = (
    *("gen_ai.usage.output_tokens", "llm.token_count.completion", "gen_ai.usage.completion_tokens"),
    *("ai.usage.outputTokens", "ai.usage.completionTokens"),
)
CACHE_READ = (
    *("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.details.cache_read_tokens"),
    *(
        "llm.token_count.prompt_details.cache_read",
        "gen_ai.usage.cache_read_input_tokens",
        "ai.usage.cachedInputTokens",
    ),
)
CACHE_CREATION = (
    *("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.details.cache_write_tokens"),
    *("llm.token_count.prompt_details.cache_write", "gen_ai.usage.cache_creation_input_tokens"),
    *("gen_ai.usage.cache_write_input_tokens", "gen_ai.usage.cache_write.input_tokens"),
)
INPUT_LISTS = ("gen_ai.input.messages", "ai.prompt.messages")
OUTPUT_LISTS = ("gen_ai.output.messages",)
SYSTEM_PROMPTS = "gen_ai.system_instructions"
TOOL_LISTS = ("gen_ai.tool.definitions", "ai.prompt.tools")
TOOL_SCHEMA = re.compile(r"llm\.tools\.(\d{1,5})\.tool\.json_schema")
HISTORIES = ("pydantic_ai.all_messages", "all_messages_events", SYSTEM_PROMPTS, *TOOL_LISTS)
DOTTED = re.compile(r"(llm\.(?:in|out)put_messages|gen_ai\.(?:prompt|completion))\.(\d{1,5})\.(?:message\.)?(.+)")
NESTED = re.compile(r"(tool_calls|contents)\.(\d{1,5})\.(?:tool_call\.|message_content\.)?(.+)")
SPREAD = ("llm.", "gen_ai.prompt.", "gen_ai.completion.")  # how the names begin that these patterns match
OUTPUTS = ("llm.output_messages", "gen_ai.completion")
CHOICE = "gen_ai.choice"
OPERATION = "gen_ai.client.inference.operation.details"  # an event with all messages of a request
UNKNOWN_ERROR = "_OTHER"  # the word for a kind of error that an instrumentation does not know
SCRUBBED = "logfire.scrubbed"  # where Logfire put another text in the place of what may be a secret
MESSAGE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    CHOICE: "assistant",
}
# Operations that are no request of a conversation, though they have usage.
NO_REQUEST = ("embeddings", "rerank", "retrieval", "create_agent")
MOST_PARENTS = 20  # between the span of an agent and that of the tool in which it ran
SpanKind: TypeAlias = Literal["tool", "model", "agent", "other"]


class ChildRun(NamedTuple):
    """A run, and the call of the run `parent` that started it; `at` are microseconds since 1970."""

    run: str
    parent: str
    call: str
    at: int


def span_kind(span: TraceSpan) -> SpanKind:
    attributes = span.attributes
    operation = attributes.get("gen_ai.operation.name")
    sort = str(attributes.get("openinference.span.kind") or attributes.get("traceloop.span.kind") or "").lower()
    if operation == "execute_tool" or sort == "tool" or span.name in ("ai.toolCall", "running tool"):
        return "other" if _is_only_transport(attributes) else "tool"
    is_agent = operation in ("invoke_agent", "invoke_workflow") or sort in ("agent", "workflow")
    if is_agent or span.name.startswith("invoke_agent"):
        return "agent"
    if "openinference.span.kind" in attributes and sort != "llm":
        return "other"  # a chain repeats the messages of the model in it
    if operation in NO_REQUEST:
        return "other"
    is_model = operation in ("chat", "generate_content", "text_completion") or sort == "llm"
    names = (*INPUT_LISTS, *OUTPUT_LISTS, *INPUT_TOKENS)
    has_messages = any(name in attributes for name in names) or any(map(DOTTED.fullmatch, attributes))
    return "model" if is_model or has_messages else "other"


def _is_only_transport(attributes: Attributes) -> bool:
    """True for the span of an MCP server or client that has nothing of a call but its tool.

    The agent's span is the call: with both, each call of an MCP tool would be there twice.
    """
    names = (*TOOL_CALL, *TOOL_ARGS, *TOOL_RESULT)
    return "mcp.method.name" in attributes and first_value(attributes, names) is None


def is_handoff(name: str, attributes: Attributes) -> bool:
    """True for what OpenInference writes as a tool of the OpenAI Agents SDK: one agent followed another in the run.

    The span has neither a call id nor a tool, arguments or a result. The model's call of `transfer_to_…` has them.
    """
    is_named = any(key in attributes for key in (*TOOL_CALL, *TOOL_NAME))
    return not is_named and (name == "handoff" or name.startswith("handoff to "))


def run_name(span: TraceSpan) -> str:
    is_trace = span.scope in RUN_IS_TRACE or any(name in span.attributes for name in RUN_IS_TRACE_MARKS)
    conversation = None if is_trace else first_value(span.attributes, CONVERSATION)
    return conversation if isinstance(conversation, str) else span.trace


def find_child_runs(spans: Sequence[TraceSpan]) -> Iterator[ChildRun]:
    """The runs of agents that ran within the span of a tool's call in another run."""
    by_id = {(span.trace, span.span): span for span in spans if span.span}
    for span in spans:
        if span_kind(span) != "agent":
            continue
        parent: TraceSpan | None = span
        for _ in range(MOST_PARENTS):
            parent = by_id.get((span.trace, parent.parent)) if parent and parent.parent else None
            if parent is None or run_name(parent) != run_name(span):
                break
        call = first_value(parent.attributes, TOOL_CALL) if parent and span_kind(parent) == "tool" else None
        if parent and isinstance(call, str) and run_name(parent) != run_name(span):
            yield ChildRun(run_name(span), run_name(parent), call, span.start)


def first_value(attributes: Attributes, names: tuple[str, ...]) -> Any:
    return next((attributes[name] for name in names if attributes.get(name) not in (None, "")), None)


def is_scrubbed_text(content: bytes) -> bool:
    """True for the JSON of the text that Logfire puts in the place of one that may have a secret."""
    return content.startswith(b"\"[Scrubbed due to '") and content.endswith(b"']\"")


def tool_arguments(attributes: Attributes) -> Any:
    """The arguments of a tool's span; None where it has none, or nothing but the schema of its parameters."""
    value = first_value(attributes, TOOL_ARGS)
    parameters = attributes.get(TOOL_PARAMETERS)
    return parameters if value is None and not _is_schema(parameters) else value


def _is_schema(parameters: Any) -> bool:
    match parsed_text(parameters):
        case {"type": "object", "properties": dict()}:
            return True
        case dict(schema):  # smolagents has a schema for each parameter
            return bool(schema) and all(
                isinstance(value, dict) and value.keys() >= {"type", "description"} for value in schema.values()
            )
    return False


def as_json(value: Any) -> bytes:
    """The JSON of an attribute on one line: the text itself where it is an object or a list, else a JSON value.

    `msgspec.Raw` is JSON already.
    """
    if isinstance(value, msgspec.Raw):
        return bytes(value)
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        raw = value.encode("utf-8", "surrogatepass").strip()
        try:
            parse_json(raw)
            return raw if b"\n" not in raw else bytes(msgspec.json.format(raw, indent=-1))
        except (Untrusted, msgspec.DecodeError):
            return dump_json(value)
    return dump_json(value)


def is_message_attribute(name: str) -> bool:
    """True for an attribute whose content is in the parts of its messages."""
    if name in INPUT_LISTS or name in OUTPUT_LISTS:
        return True
    return name.startswith(SPREAD) and bool(DOTTED.fullmatch(name) or TOOL_SCHEMA.fullmatch(name))


def failure(attributes: dict[str, Any], events: Any, message: str) -> dict[str, Any]:
    """The kind and the message of a failed span: its `error.type` and what its exception event says, else its status.

    >>> failure({"error.type": "timeout"}, [["exception", {"exception.type": "E"}]], "no answer")
    {'kind': 'timeout', 'message': 'no answer'}
    """
    exception: dict[str, Any] = {}
    for event in events if isinstance(events, list) else ():
        match event:
            case ["exception", dict() as found]:
                exception = exception or found
    kind = attributes.get("error.type")
    kind = exception.get("exception.type") if kind in (None, UNKNOWN_ERROR) else kind
    error = {"message": exception.get("exception.message") or message}
    return {"kind": str(kind), **error} if kind else error

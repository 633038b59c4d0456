"""The answers to programs as structs, their addresses, and the description, which is written from both."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from dashboard.ingest.live import BatchAnswer
from envelopes.schema.conversion import struct_schemas

JSON, BYTES, PROTOBUF = "application/json", "application/octet-stream", "application/x-protobuf"
Item = TypeVar("Item")


class RunItem(msgspec.Struct, frozen=True, kw_only=True):
    """`waiting` calls are not counted yet: the numbers of the run may lack them."""

    run: str
    external_id: str
    title: str
    agent: str
    model: str
    parent: str | None
    started_at: datetime | None
    ended_at: datetime | None
    calls: int
    failed: int
    refused: int
    cut: int
    tokens: int
    waiting: int
    url: str


class CallItem(msgspec.Struct, frozen=True, kw_only=True):
    """`seen_lines` of `output_lines` reached the model, where the output was recorded.

    `tokens`, `is_cut` and `seen_lines` are null where no receipt was recorded: what the model got is not known.

    `outcome` is the word by which `outcome:` filters. A list gives a call that is stored and not counted yet the
    `outcome` "not counted yet", and null for all that follows from its evidence; its halves are computed when they
    are asked for.
    """

    call: str
    external_id: str
    run: str
    tool: str
    family: str | None
    outcome: str
    exit_status: int | None
    summary: str | None
    started_at: datetime | None
    duration_ms: int | None
    tokens: int | None
    is_cut: bool | None
    output_lines: int | None
    seen_lines: int | None
    result_fidelity: str | None
    receipt_fidelity: str | None
    url: str


class ItemPage(msgspec.Struct, Generic[Item], frozen=True, kw_only=True):
    """`next` is the cursor of the page behind this one, None on the last.

    `problems` are sentences about the filter, and about other parameters that cannot be read, `notes` about what the
    list may lack: calls that are not counted yet, or that no search finds yet.
    """

    items: list[Item]
    next: str | None = None
    problems: list[str] = []
    notes: list[str] = []


class TextWindow(msgspec.Struct, frozen=True, kw_only=True):
    """The characters [start, end) of `total`; `next` is where the window behind this one begins, None at the end."""

    text: str
    start: int
    end: int
    total: int
    next: int | None = None


class OutputGaps(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded output of which the model saw a part. `unseen` has ranges of lines, counted from 1, ends included."""

    pointer: str
    lines: int
    seen_lines: int
    unseen: list[tuple[int, int]]
    omitted: int = 0


class CallHalves(msgspec.Struct, frozen=True, kw_only=True):
    """Both halves of a call, null for an absent one. `is_bounded`: the stored envelope is shorter.

    With the `result_fidelity` `parsed_from_receipt` no result was recorded: `canonical` is what the receipt states, its
    first text where it was replaced. With `absent` it is null, or the error alone that the recording states.
    `outputs` are compared with the receipt, and empty without one; `left_out` states what neither of them can show.
    """

    call: CallItem
    args: TextWindow
    canonical: TextWindow | None
    is_bounded: bool
    receipt: TextWindow | None
    outputs: list[OutputGaps]
    left_out: str = ""


class ContextItem(msgspec.Struct, frozen=True, kw_only=True):
    """`line` is the number of its place in the run, which is that of a line only in formats of lines."""

    kind: str
    heading: str
    line: int
    tokens: int
    notes: list[str]


class StepContext(msgspec.Struct, frozen=True, kw_only=True):
    """The context of the model at a step, as far as it was recorded; `items` are the newest, `earlier` more exist.

    `waiting` calls of the run are not counted yet: the tokens may lack theirs.
    """

    run: str
    position: int
    tokens: int
    recorded: str
    kinds: dict[str, int]
    changes: list[str]
    items: list[ContextItem]
    earlier: int
    waiting: int


class ArtifactItem(msgspec.Struct, frozen=True, kw_only=True):
    artifact: str
    call: str
    role: str
    path: str
    state: str
    sha256: str
    size: int
    lines: int
    url: str


class ArtifactText(msgspec.Struct, frozen=True, kw_only=True):
    """A window of bytes [start, end) as text; `next` is the byte where the next window begins."""

    artifact: ArtifactItem
    text: str
    start: int
    end: int
    next: int | None


class ExperimentItem(msgspec.Struct, frozen=True, kw_only=True):
    experiment: str
    name: str
    query: str
    family: str
    state: str
    calls: int
    created_at: datetime
    url: str


class RenderedVariant(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt that another renderer writes of the stored envelope today. The model never saw it."""

    call: str
    variant: str
    text: TextWindow


class IntakeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that a client has to keep, as numbers."""

    project: str
    body_bytes: int
    unpacked_bytes: int
    records_of_a_batch: int
    artifact_bytes: int
    requests_a_minute: int
    record_versions: list[int]
    content_encodings: list[str]


class StoredArtifact(msgspec.Struct, frozen=True):
    """`size` in bytes."""

    sha256: str
    size: int


class Refusal(msgspec.Struct, frozen=True):
    """The answer to a request that was not answered: a sentence with its reason."""

    error: str


# Answers of the API by their addresses, with what may be asked for; `openapi` is written from this table.
ADDRESSES: Sequence[tuple[str, str, type | object, tuple[str, ...]]] = (
    ("/api/v1/runs", "Runs that meet a filter", ItemPage[RunItem], ("q", "sort", "after", "limit")),
    ("/api/v1/runs/{run}", "One run", RunItem, ()),
    ("/api/v1/runs/{run}/context/{position}", "The model's context at a step", StepContext, ()),
    ("/api/v1/calls", "Calls that meet a filter", ItemPage[CallItem], ("q", "sort", "after", "limit")),
    ("/api/v1/calls/{call}/halves", "Both halves of a call", CallHalves, ("part", "offset", "limit")),
    ("/api/v1/calls/{call}/unseen", "Output that the model did not see", TextWindow, ("pointer", "offset", "limit")),
    ("/api/v1/calls/{call}/variants/{variant}", "A call under another renderer", RenderedVariant, ("offset", "limit")),
    ("/api/v1/artifacts", "Artifacts", ItemPage[ArtifactItem], ("call", "after", "limit")),
    ("/api/v1/artifacts/{artifact}", "A window of an artifact", ArtifactText, ("offset", "limit")),
    ("/api/v1/experiments", "Comparisons", ItemPage[ExperimentItem], ("after", "limit")),
    ("/api/v1/limits", "Limits of the intake; needs a token of scope ingest", IntakeLimits, ()),
)
# Addresses that programs send to: method, what is done, the types of the body, and the answer to what is stored.
SENDING: Sequence[tuple[str, str, str, tuple[str, ...], type]] = (
    ("/api/v1/records", "post", "Stores native records, a JSON object a line", ("application/x-ndjson",), BatchAnswer),
    ("/api/v1/artifacts/{artifact}", "put", "Stores the content with that SHA-256", (BYTES,), StoredArtifact),
    ("/api/v1/hooks/claude-code", "post", "Stores an event of a Claude Code hook", (JSON,), dict),
    ("/v1/traces", "post", "Stores the spans of agents (OTLP)", (JSON, PROTOBUF), dict),
    ("/v1/logs", "post", "Stores the tool results that agents log (OTLP)", (JSON, PROTOBUF), dict),
)
INTEGERS, IDS = ("limit", "offset", "position"), ("run", "call", "artifact")
REFUSALS = {
    "400": "The request cannot be read",
    "401": "No token, or none that is known here",
    "403": "A token for another purpose",
    "404": "Not in the project of the token",
    "422": "A question that has no answer",
    "429": "Too many requests: wait for Retry-After seconds",
    "503": "Busy: send it again after Retry-After seconds",
}
SENDING_REFUSALS = {
    "411": "A body without Content-Length",
    "413": "Too large, packed or unpacked",
    "415": "Another Content-Type or Content-Encoding",
    "422": "Nothing of it can be stored",
    "507": "The disk is full, or the project has no more room",
}
SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def openapi() -> dict[str, Any]:
    """The description of the addresses for programs, OpenAPI 3.1, from the structs of their answers."""
    types = [Refusal, BatchAnswer, *(row[2] for row in ADDRESSES), *(row[4] for row in SENDING)]
    schemas, components = struct_schemas(types, "#/components/schemas/")
    refusal, batch, answers = schemas[0], schemas[1], iter(schemas[2:])
    refusals = {status: _describe(sentence, refusal) for status, sentence in REFUSALS.items()}
    paths: dict[str, dict[str, Any]] = {}
    for address, summary, _, names in ADDRESSES:
        parameters = [_parameter(name, "path") for name in _path_names(address)]
        parameters += [_parameter(name, "query") for name in names]
        responses = {"200": _describe(summary, next(answers)), **refusals}
        paths[address] = {"get": {"summary": summary, "parameters": parameters, "responses": responses}}
    sending = refusals | {status: _describe(sentence, refusal) for status, sentence in SENDING_REFUSALS.items()}
    sending["422"] = _describe(SENDING_REFUSALS["422"], {"anyOf": [batch, refusal]})
    for address, method, summary, bodies, _ in SENDING:
        responses = {"200": _describe(summary, next(answers)), **sending}
        if PROTOBUF in bodies:  # answered in the type of the request
            content = {PROTOBUF: {"schema": {"type": "string"}}}
            responses = {
                status: described | {"content": described["content"] | content}
                for status, described in responses.items()
            }
        paths.setdefault(address, {})[method] = {
            "summary": f"{summary}; needs a token of scope ingest",
            "parameters": [_parameter(name, "path") | {"schema": SHA256} for name in _path_names(address)],
            "requestBody": {"required": True, "content": {kind: {"schema": _body_schema(kind)} for kind in bodies}},
            "responses": responses,
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Counterfoil", "version": "1"},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _path_names(address: str) -> list[str]:
    return [part[1:-1] for part in address.split("/") if part.startswith("{")]


def _body_schema(kind: str) -> dict[str, str]:
    return {"type": "object"} if kind == JSON else {"type": "string"}


def _describe(sentence: str, schema: object) -> dict[str, Any]:
    return {"description": sentence, "content": {JSON: {"schema": schema}}}


def _parameter(name: str, place: str) -> dict[str, object]:
    kind: dict[str, object] = {"type": "string"}
    if name in INTEGERS:
        kind = {"type": "integer", "minimum": 0 if name == "offset" else 1}
    elif name in IDS:
        kind = {"type": "string", "format": "uuid"}
    return {"name": name, "in": place, "required": place == "path", "schema": kind}

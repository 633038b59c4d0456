"""The interface of a transport, which sends a receipt unchanged (RFC-072, RFC-131).

    encode(receipt, result, call_ids)   the provider's body for one answered call
    answers(answers, calls)             the bodies that answer all calls of a turn, in the provider's order
    decode(body)                        a DecodedBody: the receipt's parts, the id, the flag
    declare(definition)                 the provider's entry for a tool that the model may call
    wire_name(name), own_names(names)   a tool's name as the provider accepts it, and the way back

The text comes from the receipt alone. From the canonical result a transport takes the tool's name and the
native error flag, and nothing else; a provider without a flag gets none (RFC-132, RFC-133). Two transports have a
second field that a client reads and its model does not: `structuredContent` of MCP, `artifact` of LangChain.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from envelopes.schema.receipt import ImagePart, OtherPart, Part, Receipt, Segment, TextPart
from envelopes.schema.result import CanonicalResult, JsonValue
from envelopes.schema.tool import ToolDefinition
from envelopes.text.untrusted_json import dump_json

Body: TypeAlias = dict[str, Any]
Block: TypeAlias = dict[str, Any]
Reader: TypeAlias = Callable[[Block], Part | None]


class CallIds(msgspec.Struct, frozen=True, kw_only=True):
    """`provider` is the id that the model gave the call, `call` is our own; they are never interchanged (E-20).

    >>> CallIds(provider="toolu_01").call
    ''
    """

    provider: str
    call: str = ""


class AnsweredCall(msgspec.Struct, frozen=True):
    """One answered call of a turn, for `Transport.answers`.

    >>> from envelopes import read_halves, transport
    >>> halves = read_halves(agent="claude-code", tool="Bash", args=b'{"command":"ls"}', result=None,
    ...     content=b'"a.txt"', is_error=False)
    >>> ids = CallIds(provider="toolu_01")
    >>> answer = AnsweredCall(halves.receipt, halves.projection.canonical, ids)
    >>> [message["role"] for message in transport("anthropic").answers([answer], calls=[ids])]
    ['user']
    """

    receipt: Receipt
    result: CanonicalResult
    call_ids: CallIds


class DecodedBody(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a body. None: the provider has no such field, or omitted it.

    The segments have no sources: a body does not contain them. `structured` is the field beside the receipt.
    """

    receipt: Receipt
    provider_call_id: str | None = None
    is_error: bool | None = None
    tool_name: str | None = None
    structured: JsonValue = None


class IncompleteTurn(ValueError):
    """The answers of a turn are not those of its calls. Providers refuse such a request as a whole.

    >>> from envelopes import transport
    >>> try:
    ...     transport("gemini").answers([], calls=[CallIds(provider="toolu_01")])
    ... except IncompleteTurn as incomplete:
    ...     print(incomplete)
    gemini: no answer for toolu_01; every call of a turn needs one
    """


class UnsupportedPart(ValueError):
    """The provider has no form for a part of the receipt, or for a tool. Parts are never dropped silently."""


class NameRule(msgspec.Struct, frozen=True, kw_only=True):
    """Which names a provider accepts for tools: a class of characters, another for the first, and the length."""

    characters: str = "a-zA-Z0-9_-"
    first: str = characters
    longest: int = 64

    def accepts(self, name: str) -> bool:
        return len(name) <= self.longest and bool(re.fullmatch(f"[{self.first}][{self.characters}]*", name))

    def wire_name(self, name: str) -> str:
        """`name` if it is accepted; else with `_` for each refused character, shortened, and a hash of the whole.

        The hash makes two such names differ, so the wire's name does not depend on which other tools there are.

        >>> NameRule().wire_name("vault.createFile")
        'vault_createFile_c9fc80'
        """
        if self.accepts(name):
            return name
        ending = "_" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:6]
        plain = re.sub(f"[^{self.characters}]", "_", name)
        if not re.match(f"[{self.first}]", plain):
            plain = "_" + plain
        return plain[: self.longest - len(ending)] + ending


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's functions. `decode` raises msgspec.ValidationError with a `$.path` for a foreign body.

    `gather` turns the answers of a turn, in the order of its calls, into the provider's messages; without it each
    body is sent by itself.
    """

    name: str
    title: str
    encode: Callable[[Receipt, CanonicalResult, CallIds], Body]
    decode: Callable[[JsonValue], DecodedBody]
    declare: Callable[[ToolDefinition], Body]
    gather: Callable[[Sequence[AnsweredCall]], list[Body]] | None = None
    names: NameRule = NameRule()

    def answers(self, answers: Sequence[AnsweredCall], *, calls: Sequence[CallIds]) -> list[Body]:
        """All answers of one turn, in the order in which the model made its calls.

        Raises IncompleteTurn unless each call has one answer, and UnsupportedPart.
        """
        by_call = {answer.call_ids: answer for answer in answers}
        missing = [call.provider or call.call for call in calls if call not in by_call]
        if missing:
            raise IncompleteTurn(f"{self.name}: no answer for {', '.join(missing)}; every call of a turn needs one")
        if len(answers) != len(calls) or len(by_call) != len(calls):
            unasked = [answer.call_ids.provider for answer in answers if answer.call_ids not in calls]
            reason = f"no call of this turn: {', '.join(unasked)}" if unasked else "a call is named or answered twice"
            raise IncompleteTurn(f"{self.name}: {reason}")
        ordered = [by_call[call] for call in calls]
        if self.gather is not None:
            return self.gather(ordered)
        return [self.encode(answer.receipt, answer.result, answer.call_ids) for answer in ordered]

    def wire_name(self, name: str) -> str:
        """The name under which this provider knows the tool; `own_names` leads back."""
        return self.names.wire_name(name)

    def own_names(self, names: Iterable[str]) -> dict[str, str]:
        """The tools' own names by those on the wire. Raises ValueError where two tools have the same."""
        own: dict[str, str] = {}
        for name in names:
            if own.setdefault(wire := self.wire_name(name), name) != name:
                raise ValueError(f"{self.name}: {own[wire]} and {name} have the same name on the wire, {wire}")
        return own


class BlockCodec(msgspec.Struct, frozen=True, kw_only=True):
    """Writes and reads the blocks of one provider. `passed` are kinds of parts that are sent as recorded."""

    provider: str
    text: Callable[[str], Block]
    image: Callable[[ImagePart], Block]
    readers: Mapping[str, Reader]
    passed: frozenset[str] = frozenset()

    def content(self, receipt: Receipt) -> str | list[Block]:
        """The text of a receipt with one text part, the blocks of any other."""
        match receipt.parts:
            case ():
                return ""
            case (TextPart() as only,):
                return only.text
        return self.blocks(receipt)

    def blocks(self, receipt: Receipt) -> list[Block]:
        """One block a part. Empty texts are omitted: Anthropic refuses them."""
        return [self._block(part) for part in receipt.parts if not isinstance(part, TextPart) or part.text]

    def receipt(self, content: str | list[Block]) -> Receipt:
        if isinstance(content, str):
            return Receipt((unsourced_text(content),))
        return Receipt(tuple(self._part(block) for block in content))

    def _block(self, part: Part) -> Block:
        match part:
            case TextPart():
                return self.text(part.text)
            case ImagePart():
                return self.image(part)
        return pass_through(part, self.passed, self.provider)

    def _part(self, block: Block) -> Part:
        read = self.readers.get(str(block.get("type")))
        part = read(block) if read else None
        return part if part is not None else other_part(str(block.get("type", "object")), block)


def input_schema(definition: ToolDefinition) -> Body:
    """The input's schema without conditions between fields; the description states them, and `parse` checks them.

    Anthropic and OpenAI refuse `oneOf`, `anyOf` and `allOf` at the top of a schema, OpenAI `not` as well, and one
    refused schema fails the whole request. A client passes an MCP server's schemas on to them.
    """
    return definition.input_schema(has_conditions=False)


def unsourced_text(text: str) -> TextPart:
    return TextPart((Segment(text, "value"),) if text else ())


def text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def read_text(block: Block) -> TextPart | None:
    """Reads a block with its text under `text`, the form of all providers but Gemini."""
    text = block.get("text")
    return unsourced_text(text) if isinstance(text, str) else None


def other_part(kind: str, block: JsonValue) -> OtherPart:
    return OtherPart(kind, dump_json(block).decode())


def checked_media_type(part: ImagePart, accepted: frozenset[str] | None, provider: str) -> str:
    """The media type of an image's data. Raises UnsupportedPart where the provider does not accept it.

    `accepted` None: every type of image.
    """
    is_accepted = part.media_type.startswith("image/") if accepted is None else part.media_type in accepted
    if not is_accepted:
        raise UnsupportedPart(f"{provider} does not accept images of the type {part.media_type!r}")
    return part.media_type


def describe_part(part: ImagePart | OtherPart) -> str:
    """A short name of the part, for a text that stands in its place: `image/png, 8 bytes`."""
    if isinstance(part, OtherPart):
        return part.kind
    if is_url(part):
        return f"image at {part.data}"
    return f"{part.media_type or 'image'}, {part.size:,} bytes"


def is_url(part: ImagePart) -> bool:
    """The part refers to an image and does not contain it."""
    return "://" in part.data


def pass_through(part: OtherPart, kinds: frozenset[str], provider: str) -> Block:
    """Sends a part in this provider's own form as it was recorded. Raises UnsupportedPart for other parts."""
    if part.kind not in kinds:
        raise UnsupportedPart(f"{provider} has no form for a part of the kind {part.kind!r}")
    block: Block = msgspec.json.decode(part.raw, type=dict[str, Any])
    return block

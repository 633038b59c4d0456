"""The definition of a tool that a model may call, with its strict input (TOOLS-034 to TOOLS-043).

    ToolDefinition  name, capability, planes, risk, description, input struct, result structs, error kinds
    ToolInput       base of the input structs
    ToolAnnotations   what a tool does to the world, for a client that has to decide
    NonEmpty        a string that must not be blank; a struct that trims it names it in `trimmed`

The `ToolCapabilityFamily` of the source texts is called capability here; a family is always the renderer's (E-16).
A capability decides who may call a tool, a plane only where it is listed. A runtime may use names of its own for both.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeAlias

import msgspec

from envelopes.schema.conversion import convert_json, struct_schemas, word_fault, word_members
from envelopes.schema.result import ToolError

# The names that the built-in tools use.
Capability: TypeAlias = Literal["core_agent", "agent_creation", "local_environment", "web"]
Plane: TypeAlias = Literal["work_item", "task_control", "agent", "workspace", "memory", "web"]
RiskLevel: TypeAlias = Literal["read-only", "writes", "commands"]  # CALL-029
Stability: TypeAlias = Literal["stable", "experimental"]
Profile: TypeAlias = Literal["public_named", "private_child"]

ALL_PROFILES: tuple[Profile, ...] = ("public_named", "private_child")
# Any tool may fail in these ways before it runs.
DISPATCH_KINDS = (
    "invalid_tool_input",
    "unknown_tool",
    "tool_not_exposed_for_round",
    "unsupported_agent_profile_capability",
    "truncated_mutation_tool_call",
    "tool_execution_failed",
)
# The pattern publishes in the schema what `ToolInput` does when it parses.
NonEmpty: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, pattern=r"\S")]
_PLAIN = (bool, int, str)
_PLACE = re.compile(r"(?P<reason>.*) - at `\$\.(?P<field>[^`]+)`\Z", re.DOTALL)
_FIELD = re.compile(r"(?P<field>[a-z_]+): (?P<reason>.+)\Z", re.DOTALL)
# msgspec prints the pattern, which is less useful to a model than a sentence.
_FORM = re.compile(r"Expected `str` (?:of length >= 1|matching regex '(?P<pattern>.*)')", re.DOTALL)
_BLANK = (None, r"\\S")
# The words of the RFC's example; those of msgspec are about its own types rather than the arguments.
_WORDED = (("Object missing required field ", "missing field "), ("Object contains unknown field ", "unknown field "))


class ToolInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every input struct: an unknown field is an error (TOOLS-036).

    Limits are msgspec.Meta constraints on the fields, so that schema and parser cannot drift apart. `check` has
    the rules about several fields. Fields in `trimmed` lose the white space at their edges. Numbers in `clamped`
    are accepted outside their bounds and moved to the nearest one. A null stands for the field's default.
    """

    trimmed: ClassVar[tuple[str, ...]] = ()
    clamped: ClassVar[dict[str, tuple[int, int]]] = {}

    def __post_init__(self) -> None:
        for name, default in zip(self.__struct_fields__[::-1], self.__struct_defaults__[::-1], strict=False):
            if getattr(self, name) is None and isinstance(default, _PLAIN):
                msgspec.structs.force_setattr(self, name, default)
        for name, (least, most) in self.clamped.items():
            msgspec.structs.force_setattr(self, name, min(max(getattr(self, name), least), most))
        for name in self.trimmed:
            if isinstance(text := getattr(self, name), str):
                msgspec.structs.force_setattr(self, name, text.strip())

    def check(self) -> None:
        """Raises ValueError("field: sentence") for a combination that the tool refuses."""


if TYPE_CHECKING:  # typing.TypeVar has no `default` before Python 3.13
    from typing_extensions import TypeVar

    Input = TypeVar("Input", bound=ToolInput, default=ToolInput, covariant=True)
else:
    from typing import TypeVar

    Input = TypeVar("Input", covariant=True)


class ToolAnnotations(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The annotations of the Model Context Protocol; None for one that is not given.

    `destructive_hint`: it may change or remove what is there, not only add. `idempotent_hint`: a second call with the
    same arguments changes nothing more. `open_world_hint`: it reaches what lies outside of the agent's own world.

    >>> from envelopes import tools
    >>> tools()["WebFetch"].annotations.open_world_hint
    True
    """

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class InvalidToolInput(ValueError):
    """Arguments that do not fit the tool's input. `error` is the canonical payload, retryable false.

    >>> from envelopes import tools
    >>> try:
    ...     tools()["ExecCommand"].parse({"command": "ls"})
    ... except InvalidToolInput as invalid:
    ...     print(invalid.error.kind)
    invalid_tool_input
    """

    def __init__(self, error: ToolError) -> None:
        super().__init__(error.message)
        self.error = error


class InvalidToolOutput(ValueError):
    """A tool's output that does not fit its schema; the message ends in the path."""


class ToolDefinition(msgspec.Struct, Generic[Input], frozen=True, kw_only=True):
    """A tool: what the model may pass to it, what it returns, and how an executor runs it.

    `result` lists the complete result structs that the tool may yield, the usual one first. `result_only` names
    result metadata that a model must not pass as input (TOOLS-042), `misnamed` maps a wrong input field to the right
    one; `result_hint` is the recovery hint for result metadata, `hint` for other input that does not fit. `examples`
    and `counter_examples` are inputs that the schema accepts and refuses; a test compares description and schema
    with them (TOOLS-049). `conditions` are JSON Schema keywords (`if`, `then`, `else`) that publish `check`.

    For the executor: `path_args` and `sensitive` are pointers into the arguments, where `*` stands for each item of a
    list: paths that the sandbox checks (OD-21), and values that no record may contain (OD-30); `sensitive_result` are
    such values of the result. A second call of an
    `idempotent` tool with the same arguments is a duplicate. A tool that writes runs beside others only when it is
    `parallel_safe` (OD-16). `timeout_ms` is for one attempt. A call that is not `cancellable` runs to its end when
    its run is cancelled (OD-27). A timeout without `retry_on_timeout` is not tried again, and blocks the tool for the
    turn (OUT-011, OUT-012). A successful call of a tool that `ends_turn` ends the turn of its loop; a plan goes on.
    `destructive` and `open_world` are for `annotations`; where they are None, the risk and the
    capability decide. `effects` are the kinds of change that the tool may make, in the words of
    `Effects.side_effects_observed`.

    >>> from envelopes import tools
    >>> definition = tools()["ExecCommand"]
    >>> definition.parse({"cmd": "make test"}).cmd
    'make test'
    >>> definition.input_schema()["additionalProperties"]
    False
    """

    name: str
    capability: str
    planes: tuple[str, ...]
    risk: RiskLevel
    description: str
    input: type[Input]
    result: tuple[type[msgspec.Struct], ...]
    error_kinds: tuple[str, ...] = ()
    is_mutation: bool = False
    stability: Stability = "stable"
    profiles: tuple[Profile, ...] = ALL_PROFILES
    result_only: tuple[str, ...] = ()
    misnamed: dict[str, str] = {}
    hint: str = ""
    result_hint: str = ""
    examples: tuple[dict[str, Any], ...] = ()
    counter_examples: tuple[dict[str, Any], ...] = ()
    conditions: dict[str, Any] = {}
    path_args: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    sensitive_result: tuple[str, ...] = ()
    idempotent: bool = False
    parallel_safe: bool = False
    timeout_ms: int | None = None
    cancellable: bool = True
    retry_on_timeout: bool = True
    ends_turn: bool = False
    effects: tuple[str, ...] = ()
    destructive: bool | None = None
    open_world: bool | None = None

    @property
    def annotations(self) -> ToolAnnotations:
        """All four hints. A second call of a tool that only reads changes nothing either."""
        is_read_only = self.risk == "read-only"
        is_command = self.risk == "commands"
        return ToolAnnotations(
            read_only_hint=is_read_only,
            destructive_hint=not is_read_only if self.destructive is None else self.destructive,
            idempotent_hint=is_read_only or self.idempotent,
            open_world_hint=is_command or self.capability == "web" if self.open_world is None else self.open_world,
        )

    def parse(self, arguments: Any, *, strict: bool = True) -> Input:
        """The input struct for `arguments`, decoded JSON. Raises InvalidToolInput.

        Not `strict`: a string that spells a number or a flag is converted to it, as a repair (OUT-006).
        """
        self._refuse_misplaced_fields(arguments)
        try:
            parsed = convert_json(arguments, self.input, strict=strict)
        except msgspec.ValidationError as error:
            raise InvalidToolInput(self._parse_error(str(error), arguments)) from None
        try:
            parsed.check()
        except ValueError as error:
            raise InvalidToolInput(self._field_error(str(error), arguments)) from None
        return parsed

    def input_schema(self, *, has_conditions: bool = True) -> dict[str, Any]:
        """JSON Schema 2020-12 with an object at the top, which providers require; nested structs are under `$defs`."""
        (own,), components = struct_schemas([self.input])
        schema = components.pop(own["$ref"].rpartition("/")[2])
        definitions = {"$defs": components} if components else {}
        return {**schema, **(self.conditions if has_conditions else {}), **definitions}

    def output_schema(self) -> dict[str, Any]:
        """JSON Schema 2020-12 with one form for each of the result structs."""
        schemas, components = struct_schemas(self.result)
        return {"anyOf": schemas, "$defs": components}

    def read_data(self, data: Any) -> msgspec.Struct:
        """The result struct for `data`, decoded JSON: the one that has most of its members (CALL-041).

        Raises InvalidToolOutput with what is wrong for the likeliest struct.
        """
        reasons: list[str] = []
        members = set(data) if isinstance(data, dict) else set[str]()
        for struct in sorted(self.result, key=lambda struct: len(members - set(struct.__struct_encode_fields__))):
            try:
                return convert_json(data, struct, strict=True)
            except msgspec.ValidationError as error:
                reasons.append(str(error))
        raise InvalidToolOutput(f"{self.name}: {reasons[0]}")

    def _refuse_misplaced_fields(self, arguments: Any) -> None:
        for field in arguments if isinstance(arguments, dict) else ():
            if field in self.misnamed:
                right = self.misnamed[field]
                misnamed = self._invalid(field, f"`{field}` is called `{right}` here")
                advice = self.hint or f"send the same call with `{right}`"
                raise InvalidToolInput(msgspec.structs.replace(misnamed, recovery_hint=advice))
            if field in self.result_only:
                error = self._invalid(field, f"`{field}` is result metadata and never startup input")
                hint = self.result_hint or error.recovery_hint
                raise InvalidToolInput(msgspec.structs.replace(error, recovery_hint=hint))

    def _parse_error(self, reason: str, arguments: Any) -> ToolError:
        """The error about the object as a whole is the RFC's example, with the same message for every reason."""
        for ours, rfc in _WORDED:
            reason = reason.replace(ours, rfc)
        return self._field_error(reason, arguments) if _PLACE.match(reason) else self._error({"parse_error": reason})

    def _field_error(self, reason: str, arguments: Any) -> ToolError:
        """A reason that begins or ends with a field gives `details.field`."""
        match = _PLACE.match(reason) or _FIELD.match(reason)
        if match is None:
            error = self._error({"parse_error": reason})
            return msgspec.structs.replace(error, message=f"{error.message}: {reason}")
        field, detail = match["field"], match["reason"]
        if form := _FORM.fullmatch(detail):
            is_blank = form["pattern"] in _BLANK
            detail = "must not be blank" if is_blank else "does not have the form that the schema asks for"
            reason = f"`{field}` {detail}"
        elif detail.startswith("is "):
            reason = f"`{field}` {detail}"
        elif (worded := word_members(detail, field)) == detail:
            worded = word_fault(field, detail, arguments, self.input_schema())
            reason = reason if worded == detail else worded
        else:
            reason = worded
        return self._invalid(field, detail, reason)

    def _invalid(self, field: str, detail: str, reason: str = "") -> ToolError:
        error = self._error({"field": field, "validation_error": detail})
        return msgspec.structs.replace(error, message=f"{error.message}: {reason or detail}")

    def _error(self, details: dict[str, Any]) -> ToolError:
        """The RFC's `invalid_tool_input`. A receipt adds the parse error, which is not in its message."""
        return ToolError(
            kind="invalid_tool_input",
            message=f"input for {self.name} does not match the tool schema",
            details={"tool_name": self.name, **details},
            recovery_hint=self.hint or f"provide input for {self.name} that matches the published tool schema",
            retryable=False,
        )

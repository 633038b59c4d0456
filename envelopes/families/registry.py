"""Finds families, built-in tools and mappings by name, and lists the built-in tools as a JSON document.

The inventory, `envelopes/families/inventory.json` (TOOLS-001), is what other programs read. `manage.py
tool_inventory` writes it, `--check` compares it with the code. Its version (TOOLS-002) is `major.minor`. Major
rises when arguments that were accepted may now be refused: a tool, a profile or a field is gone, a field is required
or has another type or limit. Minor rises for any other change. The command raises it by comparing with the file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from envelopes.alignment.failures import read_failure
from envelopes.alignment.foreign_receipts import find_outputs
from envelopes.alignment.lenient_structs import reading
from envelopes.alignment.mapping import NATIVE, Evidence, NoReading, Reading, ToolMapping
from envelopes.families import FALLBACK, FAMILIES, is_mcp_tool, plugins
from envelopes.families.base import Family
from envelopes.lint.model import Rule
from envelopes.schema.budget import ProjectionPolicy, RenderPolicy
from envelopes.schema.result import CompleteOutput
from envelopes.schema.tool import DISPATCH_KINDS, Capability, InvalidToolOutput, Profile, ToolDefinition
from envelopes.text.tokens import ENCODING, current_encoding

# E-16: a child that one agent supervises creates no agents of its own.
WITHHELD: dict[Profile, frozenset[Capability]] = {
    "public_named": frozenset(),
    "private_child": frozenset({"agent_creation"}),
}
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")

EXECUTOR, EXECUTOR_VERSION = "audit", 4  # the agent of recordings of the audit layout, and how its results are read
INVENTORY_PATH = Path(__file__).with_name("inventory.json")
FIRST_VERSION = "1.0"
WORDS = ("description", "title", "default")
Inventory: TypeAlias = dict[str, Any]


def all_families() -> tuple[Family, ...]:
    """The program's own families, then those of installed packages."""
    return (*FAMILIES, *(plugin.value for plugin in installed_families().plugins))


@cache
def installed_families() -> plugins.LoadedPlugins[Family]:
    """Families of installed packages; loaded once a process."""
    accepted = list(FAMILIES)

    def check(family: Family) -> None:
        _check_plugin(family, accepted)
        accepted.append(family)

    return plugins.load_plugins(plugins.FAMILIES, Family, check)


def reload_plugins() -> None:
    """Forgets what packages added, for a process in which one is installed while it runs."""
    for cached in (installed_families, _families, _tools, _mappings):
        cached.cache_clear()


def family(name: str) -> Family:
    """The family of that name. Raises KeyError when there is none."""
    return _families()[name]


def tools() -> dict[str, ToolDefinition]:
    """Every built-in tool by name, in the order of their names.

    >>> tools()["WebFetch"].risk
    'read-only'
    """
    return {name: definition for name, (_, definition) in _tools().items()}


def builtin(tool: str) -> tuple[Family, ToolDefinition]:
    """A built-in tool and its family. Raises KeyError for a name that no family defines.

    >>> family, definition = builtin("ExecCommand")
    >>> family.name, definition.name
    ('command', 'ExecCommand')
    """
    return _tools()[tool]


def samples(tool: str) -> dict[str, CompleteOutput]:
    """Examples of a built-in tool's complete outputs by sort: success, error, large, empty, odd."""
    gallery = builtin(tool)[0].gallery
    return {name.partition("/")[2]: example for name, example in gallery.items() if name.startswith(f"{tool}/")}


def may_call(profile: Profile, tool: str) -> bool:
    """Checks whether an agent of this profile may call the tool. Raises KeyError for an unknown tool.

    All profiles is the default (TOOLS-005 to TOOLS-008); a profile takes away whole capabilities and a
    definition may name fewer profiles (E-16).
    """
    definition = tools()[tool]
    return profile in definition.profiles and definition.capability not in WITHHELD[profile]


def find_mapping(agent: str, tool: str) -> tuple[Family, ToolMapping]:
    """The family and mapping for an agent's tool. An unknown tool gets those of `external`, and always renders."""
    return _mappings().get((agent, tool)) or FALLBACK


def is_mapped(agent: str, tool: str) -> bool:
    """Checks whether a typed mapping names this tool, or its namespace convention does (`mcp__…`)."""
    return (agent, tool) in _mappings() or is_mcp_tool(agent, tool)


@cache
def _families() -> dict[str, Family]:
    return {family.name: family for family in all_families()}


def projection_fingerprint(owner: Family) -> str:
    """16 hexadecimal digits over all that its projections depend on besides the program and the output (RFC-055)."""
    sizes, encoding = owner.projection.fingerprint, find_other_encoding(owner)
    return hashlib.sha256(f"{sizes} {encoding}".encode()).hexdigest()[:16] if encoding else sizes


def find_other_encoding(owner: Family) -> str:
    """The encoding that counts the tokens of its previews here, where that is not the usual one; else ""."""
    encoding = current_encoding() if owner.counts_tokens else ENCODING
    return "" if encoding == ENCODING else encoding


def unlisted_versions() -> tuple[int, int]:
    """The versions of the mappings that no family lists: of tools without one, and of our own in executors' records."""
    return FALLBACK[1].version, EXECUTOR_VERSION


@cache
def _tools() -> dict[str, tuple[Family, ToolDefinition]]:
    defined = {definition.name: (family, definition) for family in all_families() for definition in family.tools}
    return dict(sorted(defined.items()))


@cache
def _mappings() -> dict[tuple[str, str], tuple[Family, ToolMapping]]:
    own = {
        (agent, name): (owner, _map_own_tool(agent, owner, tool))
        for agent in (EXECUTOR, NATIVE)
        for name, (owner, tool) in _tools().items()
    }
    return own | {
        (mapping.agent, tool): (family, mapping)
        for family in all_families()
        for mapping in family.mappings
        for tool in mapping.tools
    }


def _map_own_tool(agent: str, family: Family, definition: ToolDefinition) -> ToolMapping:
    """Reads the results of a built-in tool as an executor of plans records them, with the members of its own struct.

    A call without an answer, and a result that is none of the structs, are read as those of any tool: an executor may
    have another tool of that name. Native records come from any runtime, so a result of theirs is read only where it
    has members of the struct and no others.
    """

    def read(evidence: Evidence) -> Reading:
        if failure := read_failure(evidence):
            return failure
        try:
            result = definition.read_data(evidence.result)
        except InvalidToolOutput as error:
            raise NoReading from error
        members = set(evidence.result) if isinstance(evidence.result, dict) else set[str]()
        if agent == NATIVE and (not members or members - set(result.__struct_encode_fields__)):
            raise NoReading
        describe = family.outcomes.get(type(result))
        outcome = describe(result) if describe else f"{definition.name} returned a result"
        return reading(evidence, result, outcome, links={}, outputs=find_outputs(evidence.result))

    return ToolMapping(
        agent=agent, tools=(definition.name,), version=EXECUTOR_VERSION, read=read, align=FALLBACK[1].align
    )


def _check_plugin(family: Family, accepted: list[Family]) -> None:
    """Raises plugins.InvalidPlugin. Types are checked too: a struct takes anything, and pages would fail later."""
    if not NAME.fullmatch(str(family.name)):
        raise plugins.InvalidPlugin(f"the name {family.name!r} is no lower-case word")
    expected: tuple[tuple[Iterable[object], type], ...] = (
        ((family.name, family.title), str),
        ((family.rendering,), RenderPolicy),
        ((family.projection,), ProjectionPolicy),
        (family.mappings, ToolMapping),
        (family.tools, ToolDefinition),
        (family.lint, Rule),
        (family.samples, CompleteOutput),
    )
    for values, kind in expected:
        if odd := next((value for value in values if not isinstance(value, kind)), None):
            raise plugins.InvalidPlugin(f"{family.name}: a {kind.__name__} is expected, not {type(odd).__name__}")
    if "receipt" not in family.renderers or not all(map(callable, (family.project, *family.renderers.values()))):
        raise plugins.InvalidPlugin(f"{family.name}: it needs a renderer `receipt`, and all of them are functions")
    if family.name in {other.name for other in accepted}:
        raise plugins.InvalidPlugin(f"there is a family {family.name} already")
    mapped = {(mapping.agent, tool) for other in accepted for mapping in other.mappings for tool in mapping.tools}
    for mapping in family.mappings:
        if double := mapped & {(mapping.agent, tool) for tool in mapping.tools}:
            raise plugins.InvalidPlugin(
                f"{family.name}: the tool {min(double)[1]} of {mapping.agent} is another family's"
            )
    defined = {definition.name for other in accepted for definition in other.tools}
    if repeated := defined & {definition.name for definition in family.tools}:
        raise plugins.InvalidPlugin(f"{family.name}: there is a tool {min(repeated)} already")


def build_inventory(
    definitions: Iterable[tuple[str, ToolDefinition]] | None = None, previous: Inventory | None = None
) -> Inventory:
    """The inventory that follows `previous`, of all built-in tools or of `definitions` with their families' names."""
    if definitions is None:
        definitions = [(family.name, definition) for family, definition in _tools().values()]
    listed = [_list_tool(family, definition) for family, definition in definitions]
    # Through JSON: defaults may be tuples, and the document is compared with the file's.
    contents = json.loads(json.dumps({"dispatch_error_kinds": DISPATCH_KINDS, "tools": listed}))
    return {"version": _next_version(contents, previous), **contents}


def load_inventory(path: Path = INVENTORY_PATH) -> Inventory | None:
    """The document in the file; None when there is no file."""
    document: Inventory | None = json.loads(path.read_text("utf-8")) if path.is_file() else None
    return document


def _list_tool(family: str, definition: ToolDefinition) -> Inventory:
    return {
        "name": definition.name,
        "family": family,
        "capability": definition.capability,
        "planes": list(definition.planes),
        "profiles": [name for name in definition.profiles if definition.capability not in WITHHELD[name]],
        "risk": definition.risk,
        "is_mutation": definition.is_mutation,
        "stability": definition.stability,
        "description": definition.description,
        "input_schema": definition.input_schema(),
        "result_only": list(definition.result_only),
        "complete_result": definition.output_schema(),
        "error_kinds": list(definition.error_kinds),
        "path_args": list(definition.path_args),
        "sensitive": list(definition.sensitive),
        "sensitive_result": list(definition.sensitive_result),
        "idempotent": definition.idempotent,
        "parallel_safe": definition.parallel_safe,
        "timeout_ms": definition.timeout_ms,
        "cancellable": definition.cancellable,
        "retry_on_timeout": definition.retry_on_timeout,
        "effects": list(definition.effects),
        "annotations": msgspec.to_builtins(definition.annotations),
    }


def _next_version(contents: Inventory, previous: Inventory | None) -> str:
    if previous is None:
        return FIRST_VERSION
    before = {name: member for name, member in previous.items() if name != "version"}
    if before == contents:
        return str(previous["version"])
    major, minor = (int(part) for part in previous["version"].split("."))
    after = {tool["name"]: tool for tool in contents["tools"]}
    is_compatible = all(
        tool["name"] in after and _accepts_as_much(tool, after[tool["name"]]) for tool in before["tools"]
    )
    return f"{major}.{minor + 1}" if is_compatible else f"{major + 1}.0"


def _accepts_as_much(before: Inventory, after: Inventory) -> bool:
    """Checks whether a tool takes all arguments, of all profiles, that it took before."""
    old, new = before["input_schema"], after["input_schema"]
    old_fields, new_fields = old.get("properties", {}), new.get("properties", {})
    return (
        set(before["profiles"]) <= set(after["profiles"])
        and set(new.get("required", [])) <= set(old.get("required", []))
        and _conditions(old) == _conditions(new)
        and all(_without_words(schema) == _without_words(new_fields.get(name)) for name, schema in old_fields.items())
    )


def _conditions(schema: Inventory) -> Any:
    """The schema's rules beside its fields: nested objects and conditions."""
    return _without_words({name: rule for name, rule in schema.items() if name not in ("properties", "required")})


def _without_words(schema: Any) -> Any:
    """A schema without what refuses no arguments: titles, descriptions and defaults."""
    match schema:
        case dict():
            return {name: _without_words(rule) for name, rule in schema.items() if name not in WORDS}
        case list():
            return [_without_words(item) for item in schema]
    return schema

"""The built-in tools as one JSON document that a machine reads: `envelopes/families/inventory.json` (TOOLS-001).

`python manage.py tool_inventory` writes it anew, `--check` says whether it is what the code defines.

Version (TOOLS-002): `major.minor`. Major rises when arguments that were accepted may now be refused: a
tool, a profile or a field is gone, a field is required or has another type or limit. Minor rises for
any other change. The command raises it by comparing with the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from envelopes.schema.tool import DISPATCH_KINDS, Capability, Profile, ToolDefinition

PATH = Path(__file__).with_name("inventory.json")
FIRST_VERSION = "1.0"
Document: TypeAlias = dict[str, Any]


def inventory(
    tools: Iterable[tuple[str, ToolDefinition]],
    withheld: dict[Profile, frozenset[Capability]],
    previous: Document | None = None,
) -> Document:
    """`tools` gives each definition with its family's name; `previous` is the document that it follows."""
    listed = [_tool(family, definition, withheld) for family, definition in tools]
    # Through JSON: defaults may be tuples, and the document is compared with what a file says.
    contents = json.loads(json.dumps({"dispatch_error_kinds": DISPATCH_KINDS, "tools": listed}))
    return {"version": _version(contents, previous), **contents}


def text(document: Document) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def stored() -> Document | None:
    """What the file says; None when there is none."""
    found: Document | None = json.loads(PATH.read_text("utf-8")) if PATH.is_file() else None
    return found


def _tool(family: str, definition: ToolDefinition, withheld: dict[Profile, frozenset[Capability]]) -> Document:
    return {
        "name": definition.name,
        "family": family,
        "capability": definition.capability,
        "planes": list(definition.planes),
        "profiles": [one for one in definition.profiles if definition.capability not in withheld[one]],
        "risk": definition.risk,
        "is_mutation": definition.is_mutation,
        "stability": definition.stability,
        "description": definition.description,
        "input_schema": definition.input_schema(),
        "result_only": list(definition.result_only),
        "complete_result": definition.output_schema(),
        "error_kinds": list(definition.error_kinds),
    }


def _version(contents: Document, previous: Document | None) -> str:
    if previous is None:
        return FIRST_VERSION
    before = {name: member for name, member in previous.items() if name != "version"}
    if before == contents:
        return str(previous["version"])
    major, minor = (int(part) for part in previous["version"].split("."))
    return f"{major}.{minor + 1}" if _is_wider(before, contents) else f"{major + 1}.0"


def _is_wider(before: Document, after: Document) -> bool:
    """Whether whoever was served before still is."""
    now = {tool["name"]: tool for tool in after["tools"]}
    return all(tool["name"] in now and _takes_as_much(tool, now[tool["name"]]) for tool in before["tools"])


def _takes_as_much(before: Document, after: Document) -> bool:
    old, new = before["input_schema"], after["input_schema"]
    return (
        set(before["profiles"]) <= set(after["profiles"])
        and set(new.get("required", [])) <= set(old.get("required", []))
        and _rules(old) == _rules(new)
        and all(_form(old, name) == _form(new, name) for name in old.get("properties", {}))
    )


def _rules(schema: Document) -> Any:
    """What a schema says beside its fields: nested objects and conditions."""
    return _bare({key: member for key, member in schema.items() if key not in ("properties", "required")})


def _form(schema: Document, name: str) -> Any:
    return _bare(schema.get("properties", {}).get(name))


def _bare(schema: Any) -> Any:
    """A schema without its words, which may change freely."""
    match schema:
        case dict():
            return {key: _bare(member) for key, member in schema.items() if key not in ("description", "title")}
        case list():
            return [_bare(member) for member in schema]
        case _:
            return schema

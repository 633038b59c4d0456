"""What AgentGet reads: how the agent stands, in at most 6,000 characters of names and values.

    agent {identity {}, state, …, active_children [], active_children_omitted?, …}, agent_artifact?

Every text is one line, every list has at most ten entries and shares what the scalars leave; the
whole summary is kept as an artifact when something had to go.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Literal

import msgspec

from envelopes.families.agent.waiting import WaitCondition, one_line
from envelopes.families.base import Projector, ResultMembers, text_size
from envelopes.schema.budget import ProjectionPolicy
from envelopes.schema.follow_up_handles import to_members
from envelopes.schema.result import JsonValue, summarize
from envelopes.storage.file_store import MemorySink
from envelopes.text.fit_receipt import count_fitting
from envelopes.text.pointer import join

AGENT_CHARACTERS = 6_000  # spec/tools.md B.1
LISTED = 10
NAMES_CHARACTERS = 400  # of the lists, and of the counts of what was left out


class AgentIdentity(msgspec.Struct, frozen=True, kw_only=True):
    agent_id: str
    profile: Literal["public_named", "private_child"]
    name: str | None = None
    parent_agent_id: str | None = None


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    input_tokens: int
    output_tokens: int
    total_tokens: int


class Closure(msgspec.Struct, frozen=True, kw_only=True):
    """How the last turn ended: continuable, waiting, completed, failed."""

    outcome: str
    waiting_reason: str | None = None


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    execution_root: str | None = None
    cwd: str | None = None
    projection_kind: str | None = None


class WorkspaceOccupancy(msgspec.Struct, frozen=True, kw_only=True):
    workspace_id: str
    mode: str | None = None
    holder_agent_id: str | None = None


class ActiveChild(msgspec.Struct, frozen=True, kw_only=True):
    agent_id: str
    status: str | None = None
    task_id: str | None = None
    work_item_id: str | None = None


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """An intent to wait, an external trigger or a notification that is still open."""

    id: str
    status: str | None = None
    text: str | None = None


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    identity: AgentIdentity
    state: str
    scheduling_posture: str | None = None
    lifecycle: str
    active_task_count: int = 0
    current_work_item_id: str | None = None
    model: str | None = None
    token_usage: TokenUsage | None = None
    closure: Closure | None = None
    execution: Execution | None = None
    workspace: WorkspaceOccupancy | None = None
    counts: dict[str, int] = {}
    wait_conditions: tuple[WaitCondition, ...] = ()
    active_children: tuple[ActiveChild, ...] = ()
    waiting_intents: tuple[Pending, ...] = ()
    external_triggers: tuple[Pending, ...] = ()
    notifications: tuple[Pending, ...] = ()
    loaded_guidance: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()


class AgentRead(msgspec.Struct, frozen=True):
    agent: AgentSummary


def agent_outcome(found: AgentRead) -> str:
    return summarize(f"Agent {found.agent.identity.agent_id} is {found.agent.state}")


def project_agent(found: AgentRead, projector: Projector, policy: ProjectionPolicy) -> ResultMembers:
    whole = to_members(found.agent)
    assert isinstance(whole, dict)
    scalars = {name: member for name, member in whole.items() if name not in LISTS}
    agent = {name: _clipped(join("agent", name), member, projector) for name, member in scalars.items()}
    rows = min(policy.rows, LISTED)
    room = AGENT_CHARACTERS - NAMES_CHARACTERS - text_size(agent)
    wanted = {name: text_size(LISTS[name](name, whole[name], _scratch(), rows, room)) for name in LISTS}
    for served, name in enumerate(sorted(LISTS, key=wanted.__getitem__)):
        shown = LISTS[name](name, whole[name], projector, rows, room // (len(LISTS) - served))
        room -= text_size(shown)
        agent |= shown
    kept = projector.store("agent", json.dumps(whole, ensure_ascii=False, indent=1)) if projector.cuts else None
    return {"agent": agent, "agent_artifact": kept}


def _listed(name: str, found: JsonValue, projector: Projector, rows: int, room: int) -> dict[str, JsonValue]:
    """`name` with the entries that fit, and `<name>_omitted`; nothing for an empty list."""
    items = found if isinstance(found, list) else []
    field = join("agent", name)
    scratch = _scratch()
    limit = count_fitting((text_size(_clipped(field, item, scratch)) for item in items), rows=rows, characters=room)
    shown: list[JsonValue] = [
        _clipped(join(field, index), item, projector) for index, item in enumerate(projector.rows(field, items, limit))
    ]
    return _with_omitted(name, shown, len(items))


def _counted(name: str, found: JsonValue, projector: Projector, rows: int, room: int) -> dict[str, JsonValue]:
    counts = found if isinstance(found, dict) else {}
    limit = count_fitting((text_size({one: counts[one]}) for one in counts), rows=rows, characters=room)
    shown = projector.rows(join("agent", name), list(counts), limit)
    return _with_omitted(name, {str(one): counts[str(one)] for one in shown}, len(counts))


def _with_omitted(name: str, shown: list[JsonValue] | dict[str, JsonValue], total: int) -> dict[str, JsonValue]:
    if total == 0:
        return {}
    return {name: shown} if len(shown) == total else {name: shown, f"{name}_omitted": total - len(shown)}


def _scratch() -> Projector:
    """To measure with: an entry that is dropped in the end has no cut of its own."""
    return Projector(MemorySink())


# The smallest is served first and gets at most an even share; what it leaves goes to those after it.
LISTS: dict[str, Callable[[str, JsonValue, Projector, int, int], dict[str, JsonValue]]] = {
    "counts": _counted,
    "wait_conditions": _listed,
    "active_children": _listed,
    "waiting_intents": _listed,
    "external_triggers": _listed,
    "notifications": _listed,
    "loaded_guidance": _listed,
    "skills": _listed,
}


def _clipped(field: str, found: JsonValue, projector: Projector) -> JsonValue:
    """`found` with each of its texts on one line of at most 200 characters."""
    match found:
        case str():
            return one_line(field, found, projector)
        case dict():
            return {name: _clipped(join(field, name), child, projector) for name, child in found.items()}
        case list():
            return [_clipped(join(field, index), child, projector) for index, child in enumerate(found)]
    return found

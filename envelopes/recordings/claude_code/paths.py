"""Which run a file holds.

    <session>.jsonl                                   the session
    <session>/subagents/**/agent-<id>.jsonl           a subagent of it
    agent-<id>.jsonl                                  a subagent, its session named in the lines

A name that is no UUID says nothing: then the first `sessionId` of the file is the session.
"""

from __future__ import annotations

import re

import msgspec

from envelopes.recordings.base import SourcePath

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_AGENT = "agent-"
_SUBAGENTS = "subagents"


class Whereabouts(msgspec.Struct, frozen=True):
    """`session` and `agent` as far as the path tells them; `stem` is the last resort."""

    session: str | None
    agent: str | None
    stem: str


def whereabouts(place: SourcePath) -> Whereabouts:
    if not place.stem.startswith(_AGENT):
        return Whereabouts(_if_uuid(place.stem), None, place.stem)
    folders = place.path.split("/")[:-1]
    above = folders[: folders.index(_SUBAGENTS)] if _SUBAGENTS in folders else []
    return Whereabouts(_if_uuid(above[-1]) if above else None, place.stem.removeprefix(_AGENT), place.stem)


def _if_uuid(name: str) -> str | None:
    return name if _UUID.fullmatch(name) else None
